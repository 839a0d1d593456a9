//! Numbers of ports, and what else has numbers with names.

use crate::wire::{Reader, Result, Wire};
use std::fmt;

/// The number of a port (section 7.2.1), or one of those that stand for what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

/// The reserved numbers and their names: those of OpenFlow 1.0 have the same last 16 bits.
const RESERVED: [(PortNumber, &str); 10] = [
    (PortNumber::UNSET, "UNSET"),
    (PortNumber::IN_PORT, "IN_PORT"),
    (PortNumber::TABLE, "TABLE"),
    (PortNumber::NORMAL, "NORMAL"),
    (PortNumber::FLOOD, "FLOOD"),
    (PortNumber::ALL, "ALL"),
    (PortNumber::CONTROLLER, "CONTROLLER"),
    (PortNumber::LOCAL, "LOCAL"),
    (PortNumber::ANY, "ANY"),
    (PortNumber::ANY, "NONE"),
];

impl PortNumber {
    /// Not yet chosen: what a set of actions does not send anywhere goes there.
    pub const UNSET: Self = Self(0xffff_fff7);
    /// Where the packet came in.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// To the first table, from a packet-out.
    pub const TABLE: Self = Self(0xffff_fff9);
    /// As an ordinary switch does.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports that flood, but for where the packet came in.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports, but for where the packet came in.
    pub const ALL: Self = Self(0xffff_fffc);
    /// To the controllers.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The switch's own port.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// Any or none, in requests.
    pub const ANY: Self = Self(0xffff_ffff);
    /// A switch's ports have numbers below this one, but for `LOCAL`: in 16 bits there are no others (`OFPP_MAX` of OpenFlow 1.0).
    pub const FIRST_RESERVED: u32 = 0xff00;
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RESERVED.iter().find(|(port, _)| port == self) {
            Some((_, name)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl std::str::FromStr for PortNumber {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match RESERVED.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
            Some((port, _)) => Ok(*port),
            None => {
                text.parse().map(|number| Self::from(ShortPort(number))).or_else(|_| text.parse().map(Self))
            }
        }
    }
}

impl Wire for PortNumber {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        u32::get(input).map(Self)
    }
}

/// The number of a port in 16 bits, as OpenFlow 1.0 had it and some of Nicira's extensions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortPort(pub u16);

impl ShortPort {
    /// Where the packet came in.
    pub const IN_PORT: Self = Self(0xfff8);
    /// Any or none.
    pub const NONE: Self = Self(0xffff);
}

impl From<ShortPort> for PortNumber {
    fn from(port: ShortPort) -> Self {
        let number = u32::from(port.0);
        // The last 16 bits of those that are reserved are the same.
        Self(if number < Self::FIRST_RESERVED { number } else { 0xffff_0000 | number })
    }
}

/// A port has a number that does not fit into 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("port {0} has no number of 16 bits")]
pub struct NoShortPort(pub PortNumber);

impl TryFrom<PortNumber> for ShortPort {
    type Error = NoShortPort;

    fn try_from(port: PortNumber) -> std::result::Result<Self, NoShortPort> {
        let [.., high, low] = port.0.to_be_bytes();
        let short = Self(u16::from_be_bytes([high, low]));
        if PortNumber::from(short) == port { Ok(short) } else { Err(NoShortPort(port)) }
    }
}

impl fmt::Display for ShortPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PortNumber::from(*self).fmt(f)
    }
}

impl Wire for ShortPort {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        u16::get(input).map(Self)
    }
}

/// The number of a group (section 7.3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNumber(pub u32);

impl GroupNumber {
    /// The largest that a group may have.
    pub const LAST: Self = Self(0xffff_ff00);
    /// All groups, in requests.
    pub const ALL: Self = Self(0xffff_fffc);
    /// Any or none, in requests.
    pub const ANY: Self = Self(0xffff_ffff);
}

impl Wire for GroupNumber {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        u32::get(input).map(Self)
    }
}

/// All tables, in requests.
pub const ALL_TABLES: u8 = 0xff;
/// A packet that the switch keeps none of.
pub const NO_BUFFER: u32 = 0xffff_ffff;
/// As much of a packet as there is, and keep none of it (section 7.2.5).
pub const WHOLE_PACKET: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_have_names_and_short_forms() {
        for (port, name) in RESERVED {
            assert_eq!(name.parse(), Ok(port));
            assert_eq!(ShortPort::try_from(port).map(PortNumber::from), Ok(port));
            let short = port.0 & 0xffff;
            assert_eq!(short.to_string().parse(), Ok(port), "as 16 bits");
        }
        assert_eq!(PortNumber::ANY.to_string(), "ANY");
        assert_eq!(ShortPort::try_from(PortNumber(0x1_0000)), Err(NoShortPort(PortNumber(0x1_0000))));
        assert_eq!("65000".parse(), Ok(PortNumber(65000)));
        assert!("-1".parse::<PortNumber>().is_err() && "".parse::<PortNumber>().is_err());
    }
}
