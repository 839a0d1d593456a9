//! Actions of OpenFlow itself.

use super::Value;
use crate::PortNumber;
use crate::action::{Action, SetField, Subfield};
use std::fmt;

impl fmt::Display for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, start, bits) = (self.field().long_name(), self.start(), self.bits());
        match bits {
            bits if bits == self.field().bits() => write!(f, "{name}[]"),
            1 => write!(f, "{name}[{start}]"),
            _ => write!(f, "{name}[{start}..{}]", start + bits - 1),
        }
    }
}

impl fmt::Display for SetField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value } = *self;
        write!(f, "set_field:{}->{}", Value { field, value, mask: field.ones() }, field.name())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(output) => match output.port {
                PortNumber::CONTROLLER => write!(f, "CONTROLLER:{}", output.max_length),
                PortNumber(1..0xffff_ff00) | PortNumber(0) => write!(f, "output:{}", output.port),
                reserved => reserved.fmt(f),
            },
            Self::CopyTtlOut => f.write_str("copy_ttl_out"),
            Self::CopyTtlIn => f.write_str("copy_ttl_in"),
            Self::SetMplsTtl(ttl) => write!(f, "set_mpls_ttl({ttl})"),
            Self::DecrementMplsTtl => f.write_str("dec_mpls_ttl"),
            Self::PushVlan(kind) => write!(f, "push_vlan:{kind:#06x}"),
            Self::PopVlan => f.write_str("pop_vlan"),
            Self::PushMpls(kind) => write!(f, "push_mpls:{kind:#06x}"),
            Self::PopMpls(kind) => write!(f, "pop_mpls:{kind:#06x}"),
            Self::SetQueue(queue) => write!(f, "set_queue:{queue}"),
            Self::Group(group) => write!(f, "group:{}", group.0),
            Self::SetTtl(ttl) => write!(f, "mod_nw_ttl:{ttl}"),
            Self::DecrementTtl => f.write_str("dec_ttl"),
            Self::SetField(set) => set.fmt(f),
            Self::Extension(extension) => extension.fmt(f),
        }
    }
}
