//! A flow that is made of a packet.

use crate::OxmField;
use crate::action::Subfield;
use crate::error::BadAction;
use crate::numbers::flags;
use crate::oxm::{get_number, put_number};
use crate::wire::{Reader, Result, Wire, layout};

flags! {
    /// How a flow is learned.
    struct LearnFlags: u16, else BadAction::BadArgument, {
        /// The controller is told when it is removed.
        SEND_REMOVED = 1,
        /// It is removed together with the flow that has learned it.
        DELETE_LEARNED = 2,
        /// Whether it could be learned is written down.
        WRITE_RESULT = 4,
    }
}

layout! {
    /// What a learned flow has besides what it matches and does.
    struct LearnedFlow {
        /// It is removed so many seconds after its last packet, if not 0…
        idle_timeout: u16;
        /// …or so many after it was learned.
        hard_timeout: u16;
        /// Its priority.
        priority: u16;
        /// Its cookie.
        cookie: u64;
        /// How it is learned.
        flags: LearnFlags;
        /// In which table.
        table: u8 [1];
        /// After a packet that ends a TCP connection, its idle time-out, if not 0…
        fin_idle_timeout: u16;
        /// …and the other.
        fin_hard_timeout: u16;
    }
}

/// Learn a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learn {
    /// Which.
    pub flow: LearnedFlow,
    /// What it matches and does.
    pub specs: Vec<LearnSpec>,
}

/// Learn a flow, if not too many were learned already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedLearn {
    /// Which.
    pub flow: LearnedFlow,
    /// So many of the same table and cookie at most, if not 0.
    pub limit: u32,
    /// Where it is written down whether it could be learned.
    pub result: Option<LearnResult>,
    /// What it matches and does.
    pub specs: Vec<LearnSpec>,
}

/// A bit that tells whether a flow could be learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnResult(pub Subfield);

/// From where a learned flow has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnSource {
    /// It is this one.
    Value(u128),
    /// It is the packet's.
    Bits(Subfield),
}

/// A part of what a learned flow matches or does. Where bits come from bits, they are as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnSpec {
    /// These bits are to have this value.
    Match(LearnSource, Subfield),
    /// These bits get this value.
    Load(LearnSource, Subfield),
    /// The packet goes to the port whose number the packet that was learned from has there.
    Output(Subfield),
}

/// Ten bits for how many, two for what becomes of it, one for where it is from.
const BITS: u16 = 0x03ff;
const DESTINATION: u16 = 0x1800;
const IS_MATCH: u16 = 0 << 11;
const IS_LOAD: u16 = 1 << 11;
const IS_OUTPUT: u16 = 2 << 11;
const IS_VALUE: u16 = 1 << 13;

impl Wire for LearnSpec {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, source, destination) = match *self {
            Self::Match(source, destination) => (IS_MATCH, source, Some(destination)),
            Self::Load(source, destination) => (IS_LOAD, source, Some(destination)),
            Self::Output(bits) => (IS_OUTPUT, LearnSource::Bits(bits), None),
        };
        let bits = match (source, destination) {
            (_, Some(bits)) | (LearnSource::Bits(bits), None) => u16::from(bits.bits()),
            (LearnSource::Value(_), None) => unreachable!("packets go where bits say"),
        };
        match source {
            LearnSource::Value(value) => {
                (kind | IS_VALUE | bits).put(out);
                put_number(out, value, value_bytes(bits));
            }
            LearnSource::Bits(source) => {
                (kind | bits).put(out);
                source.put_after_bits(out);
            }
        }
        if let Some(destination) = destination {
            destination.put_after_bits(out);
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let header = u16::get(input)?;
        let bits = header & BITS;
        if header & !(BITS | DESTINATION | IS_VALUE) != 0 {
            return Err(BadAction::BadArgument.into());
        }
        let source = if header & IS_VALUE == 0 {
            LearnSource::Bits(Subfield::get_after_bits(input, bits)?)
        } else if bits <= 128 {
            LearnSource::Value(get_number(input, value_bytes(bits))?)
        } else {
            return Err(BadAction::BadSetLength.into());
        };
        if let (IS_OUTPUT, LearnSource::Bits(bits)) = (header & DESTINATION, source) {
            return Ok(Self::Output(bits));
        }
        let destination = Subfield::get_after_bits(input, bits)?;
        if matches!(source, LearnSource::Value(value) if !destination.holds(value)) {
            return Err(BadAction::BadSetArgument.into());
        }
        match header & DESTINATION {
            IS_MATCH => Ok(Self::Match(source, destination)),
            IS_LOAD => Ok(Self::Load(source, destination)),
            _ => Err(BadAction::BadArgument.into()),
        }
    }
}

/// A value is in whole words of 16 bits.
fn value_bytes(bits: u16) -> usize {
    2 * usize::from(bits.div_ceil(16))
}

/// All until the zeros that fill up the action: no part begins with one.
fn get_specs(input: &mut Reader<'_>) -> Result<Vec<LearnSpec>> {
    let mut specs = Vec::new();
    while !input.clone().all().iter().all(|byte| *byte == 0) {
        specs.push(LearnSpec::get(input)?);
    }
    Ok(specs)
}

impl Wire for Learn {
    fn put(&self, out: &mut Vec<u8>) {
        self.flow.put(out);
        self.specs.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let flow = LearnedFlow::get(input)?;
        if flow.flags.contains(LearnFlags::WRITE_RESULT) {
            return Err(BadAction::BadArgument.into());
        }
        Ok(Self { flow, specs: get_specs(input)? })
    }
}

impl Wire for LimitedLearn {
    fn put(&self, out: &mut Vec<u8>) {
        self.flow.put(out);
        self.limit.put(out);
        let start = self.result.map_or(0, |LearnResult(bit)| bit.start());
        (u16::from(start), 0u16).put(out);
        if let Some(LearnResult(bit)) = self.result {
            bit.field().put(out);
        }
        self.specs.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (flow, limit) = (LearnedFlow::get(input)?, u32::get(input)?);
        let (start, _) = <(u16, u16)>::get(input)?;
        let result = if flow.flags.contains(LearnFlags::WRITE_RESULT) {
            let bit = Subfield::new(OxmField::get(input)?, start, 1).ok_or(BadAction::BadSetLength)?;
            Some(LearnResult(bit))
        } else {
            None
        };
        Ok(Self { flow, limit, result, specs: get_specs(input)? })
    }
}
