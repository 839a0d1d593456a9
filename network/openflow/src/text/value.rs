//! Values of fields, each as people write it.

use crate::{OxmField, PortNumber};
use fulmar_packet::{Field, Stage};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A value of a field, and which bits of it are meant.
pub(crate) struct Value {
    pub(crate) field: OxmField,
    pub(crate) value: u128,
    pub(crate) mask: u128,
}

/// How the values of a field are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Decimal,
    Hexadecimal,
    Hardware,
    V4,
    V6,
    Port,
    Fragment,
    /// Bits with these names, from the lowest; if exactly these are asked for, those that are set are told, and else each with its sign.
    Flags(&'static [&'static str], u128),
}

pub(super) const TCP_FLAGS: &[&str] = &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];
pub(super) const CT_STATE: &[&str] = &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
/// What [`Field::IP_FRAGMENT`] can be asked to be: the values and masks that make sense.
pub(super) const FRAGMENTS: [(&str, u128, u128); 5] =
    [("no", 0, 3), ("first", 1, 3), ("later", 3, 3), ("yes", 1, 1), ("not_later", 0, 2)];

pub(super) fn look(field: OxmField) -> Look {
    match field.place() {
        Field::ETH_SOURCE | Field::ETH_DESTINATION | Field::ARP_SENDER | Field::ARP_TARGET => Look::Hardware,
        Field::IPV4_SOURCE | Field::IPV4_DESTINATION | Field::TUNNEL_SOURCE | Field::TUNNEL_DESTINATION => {
            Look::V4
        }
        Field::IPV6_SOURCE
        | Field::IPV6_DESTINATION
        | Field::ND_TARGET
        | Field::TUNNEL_IPV6_SOURCE
        | Field::TUNNEL_IPV6_DESTINATION => Look::V6,
        Field::IN_PORT => Look::Port,
        Field::IP_FRAGMENT => Look::Fragment,
        Field::TCP_FLAGS => Look::Flags(TCP_FLAGS, 0x0fff),
        Field::CT_STATE => Look::Flags(CT_STATE, 0xff),
        Field::TUNNEL_FLAGS => Look::Flags(&["oam"], 0),
        Field::ETH_TYPE | Field::VLAN_TCI | Field::IPV6_LABEL => Look::Hexadecimal,
        Field::CT_ZONE | Field::CONJUNCTION => Look::Decimal,
        place if place.stage() == Stage::Metadata => Look::Hexadecimal,
        _ => Look::Decimal,
    }
}

/// How many bits a mask has from the most significant, if those are all.
fn prefix(mask: u128, bits: u8) -> Option<u32> {
    let ones = mask.count_ones();
    (ones == 0 || mask << (128 - u32::from(bits)) == u128::MAX << (128 - ones)).then_some(ones)
}

fn low(value: u128) -> u32 {
    u32::try_from(value & u128::from(u32::MAX)).unwrap_or_else(|_| unreachable!("32 bits are left"))
}

fn hardware(value: u128) -> String {
    let [.., a, b, c, d, e, g] = value.to_be_bytes();
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
}

impl Value {
    fn is_whole(&self) -> bool {
        self.mask == self.field.ones()
    }

    fn write_flags(&self, f: &mut fmt::Formatter<'_>, names: &[&str], whole: u128) -> fmt::Result {
        let known = (1 << names.len()) - 1;
        let with_names = || names.iter().enumerate().map(|(bit, name)| (1_u128 << bit, *name));
        if self.mask == whole && self.value & !known == 0 {
            let is_set = |bit| self.value & bit != 0;
            let set: Vec<&str> = with_names().filter(|(bit, _)| is_set(*bit)).map(|(_, name)| name).collect();
            return if set.is_empty() { f.write_str("0") } else { f.write_str(&set.join("|")) };
        }
        if self.mask & !known != 0 {
            return self.write_hexadecimal(f);
        }
        for (bit, name) in with_names().filter(|(bit, _)| self.mask & bit != 0) {
            let sign = if self.value & bit != 0 { '+' } else { '-' };
            write!(f, "{sign}{name}")?;
        }
        Ok(())
    }

    fn write_hexadecimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.value)?;
        if self.is_whole() { Ok(()) } else { write!(f, "/{:#x}", self.mask) }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, mask } = *self;
        match look(field) {
            Look::Decimal if self.is_whole() => write!(f, "{value}"),
            Look::Decimal => self.write_hexadecimal(f),
            Look::Hexadecimal => self.write_hexadecimal(f),
            Look::Hardware if self.is_whole() => f.write_str(&hardware(value)),
            Look::Hardware => write!(f, "{}/{}", hardware(value), hardware(mask)),
            Look::V4 => {
                write!(f, "{}", Ipv4Addr::from(low(value)))?;
                match prefix(mask, 32) {
                    Some(32) => Ok(()),
                    Some(bits) => write!(f, "/{bits}"),
                    None => write!(f, "/{}", Ipv4Addr::from(low(mask))),
                }
            }
            Look::V6 => {
                write!(f, "{}", Ipv6Addr::from(value))?;
                match prefix(mask, 128) {
                    Some(128) => Ok(()),
                    Some(bits) => write!(f, "/{bits}"),
                    None => write!(f, "/{}", Ipv6Addr::from(mask)),
                }
            }
            Look::Port => {
                let port = field.to_place(value).unwrap_or(value);
                PortNumber(low(port)).fmt(f)
            }
            Look::Fragment => match FRAGMENTS.iter().find(|(_, v, m)| (*v, *m) == (value, mask & 3)) {
                Some((name, ..)) => f.write_str(name),
                None => self.write_hexadecimal(f),
            },
            Look::Flags(names, whole) => self.write_flags(f, names, whole),
        }
    }
}
