//! Matches in OpenFlow's own form: twelve fields, and which of them count (section 5.2.3).

use crate::wire::layout;
use crate::{PortNumber, ShortPort};
use fulmar_packet::{Field, Match, ethernet, ip};

layout! {
    /// A match.
    struct PlainMatch {
        /// What does not count.
        wildcards: u32;
        in_port: ShortPort;
        eth_source: [u8; 6];
        eth_destination: [u8; 6];
        /// [`UNTAGGED`], or the number of a VLAN.
        vlan: u16;
        priority: u8 [1];
        eth_type: u16;
        tos: u8;
        /// Of IP; of ARP, the operation.
        protocol: u8 [2];
        source: u32;
        destination: u32;
        /// Of TCP, UDP and SCTP; of ICMP, the type.
        source_port: u16;
        /// Of TCP, UDP and SCTP; of ICMP, the code.
        destination_port: u16;
    }
}

const IN_PORT: u32 = 1;
const VLAN: u32 = 1 << 1;
const ETH_SOURCE: u32 = 1 << 2;
const ETH_DESTINATION: u32 = 1 << 3;
const ETH_TYPE: u32 = 1 << 4;
const PROTOCOL: u32 = 1 << 5;
const SOURCE_PORT: u32 = 1 << 6;
const DESTINATION_PORT: u32 = 1 << 7;
/// How many of an address's last bits do not count is told by six bits from here on; 32 and more are all.
const SOURCE: u32 = 8;
const DESTINATION: u32 = 14;
const PRIORITY: u32 = 1 << 20;
const TOS: u32 = 1 << 21;
const ALL: u32 = (1 << 22) - 1;

/// No VLAN: frames without a tag.
const UNTAGGED: u16 = 0xffff;

fn number(address: [u8; 6]) -> u128 {
    address.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The last bytes of a number.
fn low<const N: usize>(number: u128) -> [u8; N] {
    std::array::from_fn(|at| number.to_be_bytes()[16 - N + at])
}

/// Fields that another asks for to be there: what a match says of others is not looked at.
struct Kind {
    has_addresses: bool,
    has_protocol: bool,
    is_ip: bool,
}

impl Kind {
    fn of(asked: &Match) -> Self {
        let is_known = asked.mask().get(Field::ETH_TYPE) == Field::ETH_TYPE.ones();
        let is = |types: &[u16]| {
            is_known && types.iter().any(|kind| asked.key().get(Field::ETH_TYPE) == u128::from(*kind))
        };
        let is_arp = is(&[ethernet::ARP, ethernet::RARP]);
        let is_ip = is(&[ethernet::IPV4, ethernet::IPV6]);
        Self { has_addresses: is_arp || is(&[ethernet::IPV4]), has_protocol: is_arp || is_ip, is_ip }
    }
}

/// Whether there are ports, which are types and codes in ICMP. A type beyond a byte is kept: no packet has it.
fn has_ports(asked: &Match, is_ip: bool) -> bool {
    let is_known = asked.mask().get(Field::IP_PROTOCOL) == Field::IP_PROTOCOL.ones();
    let protocol = u8::try_from(asked.key().get(Field::IP_PROTOCOL)).unwrap_or_default();
    let is_ipv4 = asked.key().get(Field::ETH_TYPE) == ethernet::IPV4.into();
    let has = match protocol {
        ip::TCP | ip::UDP | ip::SCTP => true,
        ip::ICMP => is_ipv4,
        ip::ICMPV6 => !is_ipv4,
        _ => false,
    };
    is_known && is_ip && has
}

impl PlainMatch {
    /// Whether all fields count, with all their bits.
    pub(crate) const fn is_exact(&self) -> bool {
        self.wildcards & ALL == 0
    }

    fn counts(&self, field: u32) -> bool {
        self.wildcards & field == 0
    }

    /// How many of an address's first bits count.
    const fn prefix(&self, address: u32) -> u8 {
        let [.., ignored] = (self.wildcards >> address & 0x3f).to_be_bytes();
        32u8.saturating_sub(ignored)
    }

    /// Of the tag: no tag, or a number, a priority, or both.
    fn tag(&self) -> (u16, u16) {
        let tagged = ethernet::TAGGED;
        if self.counts(VLAN) && self.vlan == UNTAGGED {
            return (0, u16::MAX);
        }
        let number = if self.counts(VLAN) { (self.vlan & 0xfff | tagged, 0xfff | tagged) } else { (0, 0) };
        let priority = u16::from(self.priority & 7) << 13;
        let priority = if self.counts(PRIORITY) { (priority | tagged, 7 << 13 | tagged) } else { (0, 0) };
        (number.0 | priority.0, number.1 | priority.1)
    }
}

impl From<&PlainMatch> for Match {
    fn from(plain: &PlainMatch) -> Self {
        let mut asked = Self::ANY;
        let take = |asked: Self, field: Field, value: u128, counts: u32| {
            if plain.counts(counts) { asked.with(field, value) } else { asked }
        };
        asked = take(asked, Field::IN_PORT, PortNumber::from(plain.in_port).0.into(), IN_PORT);
        asked = take(asked, Field::ETH_SOURCE, number(plain.eth_source), ETH_SOURCE);
        asked = take(asked, Field::ETH_DESTINATION, number(plain.eth_destination), ETH_DESTINATION);
        asked = take(asked, Field::ETH_TYPE, plain.eth_type.into(), ETH_TYPE);
        let (tag, mask) = plain.tag();
        asked = asked.with_masked(Field::VLAN_TCI, tag.into(), mask.into());
        let kind = Kind::of(&asked);
        if kind.has_addresses {
            for (field, address, bits) in [
                (Field::IPV4_SOURCE, plain.source, plain.prefix(SOURCE)),
                (Field::IPV4_DESTINATION, plain.destination, plain.prefix(DESTINATION)),
            ] {
                asked = asked.with_prefix(field, address.into(), bits);
            }
        }
        if kind.is_ip {
            asked = take(asked, Field::IP_DSCP, (plain.tos >> 2).into(), TOS);
        }
        if kind.has_protocol {
            asked = take(asked, Field::IP_PROTOCOL, plain.protocol.into(), PROTOCOL);
        }
        if has_ports(&asked, kind.is_ip) {
            asked = take(asked, Field::L4_SOURCE, plain.source_port.into(), SOURCE_PORT);
            asked = take(asked, Field::L4_DESTINATION, plain.destination_port.into(), DESTINATION_PORT);
        }
        asked
    }
}

/// As much of it as can be said.
impl From<&Match> for PlainMatch {
    fn from(asked: &Match) -> Self {
        let mut wildcards = ALL & !(0x3f << SOURCE | 0x3f << DESTINATION);
        let kind = Kind::of(asked);
        let mut whole = |field: Field, flag: u32, is_there: bool| {
            let counts = is_there && asked.mask().get(field) == field.ones();
            if counts {
                wildcards &= !flag;
            }
            if counts { asked.key().get(field) } else { 0 }
        };
        let in_port = u32::try_from(whole(Field::IN_PORT, IN_PORT, true)).unwrap_or_default();
        let eth_source = low(whole(Field::ETH_SOURCE, ETH_SOURCE, true));
        let eth_destination = low(whole(Field::ETH_DESTINATION, ETH_DESTINATION, true));
        let eth_type = u16::from_be_bytes(low(whole(Field::ETH_TYPE, ETH_TYPE, true)));
        let [dscp] = low(whole(Field::IP_DSCP, TOS, kind.is_ip));
        let [protocol] = low(whole(Field::IP_PROTOCOL, PROTOCOL, kind.has_protocol));
        let has_ports = has_ports(asked, kind.is_ip);
        let source_port = u16::from_be_bytes(low(whole(Field::L4_SOURCE, SOURCE_PORT, has_ports)));
        let destination_port =
            u16::from_be_bytes(low(whole(Field::L4_DESTINATION, DESTINATION_PORT, has_ports)));
        let mut address = |field: Field, at: u32| {
            let mask = u32::try_from(asked.mask().get(field)).unwrap_or_default();
            let bits = if kind.has_addresses { mask.leading_ones() } else { 0 };
            wildcards |= (32 - bits) << at;
            let prefix = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
            u32::try_from(asked.key().get(field)).unwrap_or_default() & prefix
        };
        let source = address(Field::IPV4_SOURCE, SOURCE);
        let destination = address(Field::IPV4_DESTINATION, DESTINATION);
        let (tag, mask): (u16, u16) = (
            u16::from_be_bytes(low(asked.key().get(Field::VLAN_TCI))),
            u16::from_be_bytes(low(asked.mask().get(Field::VLAN_TCI))),
        );
        let (mut vlan, mut priority) = (0, 0);
        if mask & ethernet::TAGGED != 0 && tag & ethernet::TAGGED == 0 {
            // No tag has no priority either: both count.
            wildcards &= !(VLAN | PRIORITY);
            vlan = UNTAGGED;
        } else {
            if mask & 0xfff == 0xfff {
                wildcards &= !VLAN;
                vlan = tag & 0xfff;
            }
            if mask >> 13 == 7 {
                wildcards &= !PRIORITY;
                [_, priority] = (tag >> 13).to_be_bytes();
            }
        }
        let in_port = ShortPort::try_from(PortNumber(in_port)).unwrap_or(ShortPort::NONE);
        Self {
            wildcards,
            in_port,
            eth_source,
            eth_destination,
            vlan,
            priority,
            eth_type,
            tos: dscp << 2,
            protocol,
            source,
            destination,
            source_port,
            destination_port,
        }
    }
}

/// Whether all of a match can be said so.
pub(crate) fn is_plain(asked: &Match) -> bool {
    Match::from(&PlainMatch::from(asked)) == *asked
}
