//! Actions that are not OpenFlow's own: those of Nicira, and one of the Open Networking Foundation.

use crate::action::connection::get_nested;
use crate::action::{
    Action, Bundle, BundleLoad, ControllerAction, CopyBits, CopyField, Learn, LimitedLearn, LoadBits,
    Multipath, Nat, OutputBits, OutputBitsLong, PausableController, SetField, StackBits, Track,
};
use crate::error::BadAction;
use crate::numbers::choice;
use crate::oxm::{get_setting, put_setting};
use crate::wire::{Reader, Result, Wire, layout, put_zeros};
use crate::{NICIRA, ONF, OxmField, ShortPort};

/// An experimenter and its number of an action, as one.
const fn of(experimenter: u32, number: u16) -> u64 {
    (experimenter as u64) << 16 | number as u64
}

const fn nx(number: u16) -> u64 {
    of(NICIRA, number)
}

choice! {
    /// An action that is not OpenFlow's own.
    enum Extension: u64, else BadAction::BadExperimenterType, {
        /// Look the packet up in the same table, as if it had come in elsewhere.
        ResubmitPort(ShortPort) = nx(1),
        /// Choose the queue that was there before any was chosen.
        PopQueue = nx(5),
        /// Copy bits of a field to another.
        CopyBits(CopyBits) = nx(6),
        /// Replace bits of a field.
        LoadBits(LoadBits) = nx(7),
        /// Nothing: a place for notes.
        Note(Note) = nx(8),
        /// Write the number of a link, chosen by a hash, into a field.
        Multipath(Multipath) = nx(10),
        /// Send it to a port that is chosen by a hash.
        Bundle(Bundle) = nx(12),
        /// Write the number of a port, chosen by a hash, into a field.
        BundleLoad(BundleLoad) = nx(13),
        /// Look the packet up in a table.
        Resubmit(Resubmit) = nx(14),
        /// Send it to the port whose number some bits are.
        OutputBits(OutputBits) = nx(15),
        /// Learn a flow.
        Learn(Learn) = nx(16),
        /// Do nothing more.
        Exit = nx(17),
        /// Give the flow other time-outs if the packet ends a TCP connection.
        FinTimeout(FinTimeout) = nx(19),
        /// Send it to a controller.
        Controller(ControllerAction) = nx(20),
        /// Decrement the time to live; some controllers are told if it ends.
        DecrementTtl(Decrement) = nx(21),
        /// Push bits on a stack.
        Push(StackBits) = nx(27),
        /// Pop bits from it.
        Pop(StackBits) = nx(28),
        /// Tell a collector of some packets.
        Sample(Sample) = nx(29),
        /// Send it to the port whose number some bits are, of a field with any name.
        OutputBitsLong(OutputBitsLong) = nx(32),
        /// Replace some bits of a field.
        SetMasked(SetMasked) = nx(33),
        /// One of several flows that a packet must match together.
        Conjunction(Conjunction) = nx(34),
        /// Have its connection tracked.
        Track(Track) = nx(35),
        /// Translate addresses, inside of that.
        Nat(Nat) = nx(36),
        /// Send it to a controller that may resume it.
        PausableController(PausableController) = nx(37),
        /// Send the beginning of it to a port.
        Truncate(Truncate) = nx(39),
        /// Do this with a copy.
        Clone(CloneActions) = nx(42),
        /// Forget what connection tracking has told.
        ForgetConnection = nx(43),
        /// Look the packet up in a table, by the addresses that its connection began with.
        ResubmitOriginal(Resubmit) = nx(44),
        /// Learn a flow, if not too many were learned already.
        LimitedLearn(LimitedLearn) = nx(45),
        /// Copy bits of a field to another.
        CopyField(CopyField) = of(ONF, 3200),
    }
}

impl Wire for Extension {
    fn put(&self, out: &mut Vec<u8>) {
        let number = self.number().to_be_bytes();
        number[2..].iter().for_each(|byte| out.push(*byte));
        self.put_content(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (experimenter, number) = (u32::get(input)?, u16::get(input)?);
        if experimenter != NICIRA && experimenter != ONF {
            return Err(BadAction::BadExperimenter.into());
        }
        Self::get_content(of(experimenter, number), input)
    }
}

layout! {
    /// Look a packet up in a table.
    struct Resubmit {
        /// As if it had come in there.
        port: ShortPort;
        /// Which table; the same, if it is [`ALL_TABLES`](crate::ALL_TABLES).
        table: u8 [3];
    }
}

layout! {
    /// Other time-outs for a flow whose connection ends, where they are shorter and not 0.
    struct FinTimeout {
        /// Seconds after the last packet.
        idle_timeout: u16;
        /// Seconds from the beginning.
        hard_timeout: u16 [2];
    }
}

layout! {
    /// Tell a collector of some packets.
    struct Sample {
        /// Of 65535, so many.
        probability: u16;
        /// Which collectors.
        collectors: u32;
        /// Where this is seen…
        domain: u32;
        /// …exactly.
        point: u32;
    }
}

layout! {
    /// One of several flows that a packet must match together.
    struct Conjunction {
        /// Which of them it is, from 0 on.
        clause: u8;
        /// Of how many.
        clauses: u8;
        /// What is known of a packet that has matched all.
        id: u32;
    }
}

layout! {
    /// Send the beginning of a packet to a port.
    struct Truncate {
        /// Where.
        port: ShortPort;
        /// So many bytes at most.
        max_length: u32;
    }
}

/// Any bytes: six, or eight more each time. They are filled up with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note(pub Vec<u8>);

impl Wire for Note {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        Vec::get(input).map(Self)
    }
}

/// Decrement the time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decrement {
    /// Where it ends, the controllers with these numbers are told.
    pub controllers: Vec<u16>,
}

impl Wire for Decrement {
    fn put(&self, out: &mut Vec<u8>) {
        u16::try_from(self.controllers.len()).unwrap_or(u16::MAX).put(out);
        put_zeros(out, 4);
        self.controllers.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let count = usize::from(u16::get(input)?);
        input.skip(4)?;
        let controllers = Vec::get(&mut input.part(2 * count, BadAction::BadLength)?)?;
        Ok(Self { controllers })
    }
}

/// Replace some bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMasked {
    /// Which field.
    pub field: OxmField,
    /// Their value; the other bits are 0.
    pub value: u128,
    /// Which bits.
    pub mask: u128,
}

impl Wire for SetMasked {
    fn put(&self, out: &mut Vec<u8>) {
        put_zeros(out, 6);
        put_setting(self.field, self.value, Some(self.mask), out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.skip(6)?;
        let (field, value, mask) = get_setting(input)?;
        if mask == field.ones() && !SetField::is_possible(field, value) || field.to_place(value).is_none() {
            return Err(BadAction::BadSetArgument.into());
        }
        Ok(Self { field, value, mask })
    }
}

/// Do this with a copy of the packet, and go on as if nothing had been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneActions(pub Vec<Action>);

impl Wire for CloneActions {
    fn put(&self, out: &mut Vec<u8>) {
        put_zeros(out, 6);
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.skip(6)?;
        get_nested(input).map(Self)
    }
}
