//! What is done with a packet (section 7.2.5).

mod bits;
mod connection;
mod consistency;
mod controller;
mod extension;
mod learn;
mod spread;

pub use bits::{CopyBits, CopyField, LoadBits, OutputBits, OutputBitsLong, StackBits, Subfield};
pub use connection::{Addresses, CtFlags, Nat, NatFlags, Track, Zone};
pub use consistency::check;
pub(crate) use consistency::{check_actions_of_v10, check_instructions, without_inapplicable};
pub use controller::{ControllerAction, PausableController};
pub use extension::{
    CloneActions, Conjunction, Decrement, Extension, FinTimeout, Note, Resubmit, Sample, SetMasked, Truncate,
};
pub use learn::{Learn, LearnFlags, LearnResult, LearnSource, LearnSpec, LearnedFlow, LimitedLearn};
pub use spread::{Bundle, BundleAlgorithm, BundleLoad, HashFields, Multipath, MultipathAlgorithm};

use crate::error::BadAction;
use crate::numbers::choice;
use crate::oxm::{get_setting, put_setting};
use crate::property::{get_content, get_head, put_step};
use crate::wire::{Reader, Result, Wire, layout};
use crate::{GroupNumber, OxmField, PortNumber};
use fulmar_packet::{Field, ethernet};

choice! {
    /// An action.
    enum Action: u16, else BadAction::BadType, {
        /// Send it to a port.
        Output(Output) = 0,
        /// Copy the time to live to the next outer header.
        CopyTtlOut = 11,
        /// Copy the time to live to the next inner header.
        CopyTtlIn = 12,
        /// Replace the time to live of MPLS.
        SetMplsTtl(u8) = 15,
        /// Decrement it.
        DecrementMplsTtl = 16,
        /// Add a VLAN tag of this type.
        PushVlan(u16) = 17,
        /// Take the outermost one away.
        PopVlan = 18,
        /// Add an MPLS label of this type.
        PushMpls(u16) = 19,
        /// Take the outermost one away: what comes after it is of this type.
        PopMpls(u16) = 20,
        /// Choose the queue of a port.
        SetQueue(u32) = 21,
        /// Have a group send it.
        Group(GroupNumber) = 22,
        /// Replace the time to live of IP.
        SetTtl(u8) = 23,
        /// Decrement it.
        DecrementTtl = 24,
        /// Replace a field.
        SetField(SetField) = 25,
        /// Something that is not OpenFlow's own.
        Extension(Extension) = 0xffff,
    }
}

layout! {
    /// To a port.
    struct Output {
        /// Which.
        port: PortNumber;
        /// To a controller, so many bytes of it at most.
        max_length: u16 [6];
    }
}

/// A field's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetField {
    /// Which.
    pub field: OxmField,
    /// Its value.
    pub value: u128,
}

impl SetField {
    /// Whether the field can have this value; a VLAN that is set has its bit set (section 7.2.3.7).
    pub(crate) fn is_possible(field: OxmField, value: u128) -> bool {
        let is_vlan = field.place() == Field::VLAN_VID;
        field.to_place(value).is_some() && (!is_vlan || value & u128::from(ethernet::TAGGED) != 0)
    }
}

impl Wire for SetField {
    fn put(&self, out: &mut Vec<u8>) {
        put_setting(self.field, self.value, None, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (field, value, mask) = get_setting(input)?;
        if mask != field.ones() {
            return Err(crate::error::Onf::BadSetMask.into());
        }
        if !Self::is_possible(field, value) {
            return Err(BadAction::BadSetArgument.into());
        }
        Ok(Self { field, value })
    }
}

impl Wire for Action {
    fn put(&self, out: &mut Vec<u8>) {
        put_step(out, self.number(), |out| self.put_content(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, length) = get_head(input, BadAction::BadLength)?;
        get_content(input, length, |content| Self::get_content(kind, content), BadAction::BadLength)
    }
}

/// A list of actions that is as long as was said before.
pub(crate) fn get_actions(input: &mut Reader<'_>, length: usize) -> Result<Vec<Action>> {
    Vec::get(&mut input.part(length, BadAction::BadLength)?)
}
