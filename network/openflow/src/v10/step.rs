//! Actions as OpenFlow 1.0 has them (section 5.2.4), and those of Nicira's that later versions have in forms of their own.

use crate::action::Extension;
use crate::error::BadAction;
use crate::numbers::choice;
use crate::property::{get_content, get_head, put_step};
use crate::wire::{Reader, Result, Wire, layout, put_zeros};
use crate::{NICIRA, ShortPort};

choice! {
    /// An action.
    enum Step: u16, else BadAction::BadType, {
        Output(Output) = 0,
        SetVlan(u16) = 1,
        SetPriority(u8) = 2,
        StripVlan = 3,
        SetEthSource([u8; 6]) = 4,
        SetEthDestination([u8; 6]) = 5,
        SetSource(u32) = 6,
        SetDestination(u32) = 7,
        SetTos(u8) = 8,
        SetSourcePort(u16) = 9,
        SetDestinationPort(u16) = 10,
        Enqueue(Enqueue) = 11,
        Vendor(VendorStep) = 0xffff,
    }
}

layout! {
    /// To a port.
    struct Output {
        port: ShortPort;
        max_length: u16;
    }
}

layout! {
    /// To a port by one of its queues.
    struct Enqueue {
        port: ShortPort [6];
        queue: u32;
    }
}

impl Wire for Step {
    fn put(&self, out: &mut Vec<u8>) {
        put_step(out, self.number(), |out| self.put_content(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, length) = get_head(input, BadAction::BadLength)?;
        get_content(input, length, |content| Self::get_content(kind, content), BadAction::BadLength)
    }
}

/// Nicira and its number of an action, as one.
const fn nx(number: u16) -> u64 {
    (NICIRA as u64) << 16 | number as u64
}

choice! {
    /// Those of Nicira's that are not the same in all versions.
    enum Early: u64, else BadAction::BadExperimenterType, {
        SetTunnel(Number) = nx(2),
        SetQueue(Number) = nx(4),
        SetLongTunnel(LongNumber) = nx(9),
        DecrementTtl = nx(18),
        WriteMetadata(WriteMetadata) = nx(22),
        PushMpls(u16) = nx(23),
        PopMpls(u16) = nx(24),
        SetMplsTtl(u8) = nx(25),
        DecrementMplsTtl = nx(26),
        SetMplsLabel(Number) = nx(30),
        SetMplsClass(u8) = nx(31),
        SendToGroup(Number) = nx(40),
        Clone(Steps) = nx(42),
    }
}

layout! {
    struct Number {
        [2];
        number: u32;
    }
}

layout! {
    struct LongNumber {
        [6];
        number: u64;
    }
}

layout! {
    struct WriteMetadata {
        [6];
        value: u64;
        mask: u64;
    }
}

/// Actions inside of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(pub(super) Vec<Step>);

impl Wire for Steps {
    fn put(&self, out: &mut Vec<u8>) {
        put_zeros(out, 6);
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.skip(6)?;
        let content = input.part(input.left(), BadAction::BadLength)?;
        Vec::get(&mut content.deeper().ok_or(BadAction::TooMany)?).map(Self)
    }
}

/// An action that is not OpenFlow's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VendorStep {
    Early(Early),
    Other(Extension),
}

impl VendorStep {
    /// Whether it is not the same in all versions.
    const fn is_early(number: u64) -> bool {
        number >> 16 == NICIRA as u64
            && matches!(number & 0xffff, 2 | 4 | 9 | 18 | 22..=26 | 30 | 31 | 40 | 42)
    }
}

impl Wire for VendorStep {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Early(early) => {
                out.extend(&early.number().to_be_bytes()[2..]);
                early.put_content(out);
            }
            Self::Other(other) => other.put(out),
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (vendor, number) = <(u32, u16)>::get(&mut input.clone())?;
        let number = u64::from(vendor) << 16 | u64::from(number);
        if Self::is_early(number) {
            input.skip(6)?;
            return Early::get_content(number, input).map(Self::Early);
        }
        Extension::get(input).map(Self::Other)
    }
}
