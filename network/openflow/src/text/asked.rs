//! Matches.

use super::Value;
use crate::oxm::{Entry, entries};
use fulmar_packet::{Field, Match, ethernet, ip};
use std::fmt;

/// A match, as text; what no list of fields can say of it is left out.
#[derive(Clone, Copy, Debug)]
pub struct MatchText<'a>(pub &'a Match);

/// Types of frames and protocols in them that have a name together.
pub(super) const NAMES: [(&str, u16, Option<u8>); 14] = [
    ("tcp", ethernet::IPV4, Some(ip::TCP)),
    ("udp", ethernet::IPV4, Some(ip::UDP)),
    ("sctp", ethernet::IPV4, Some(ip::SCTP)),
    ("icmp", ethernet::IPV4, Some(ip::ICMP)),
    ("ip", ethernet::IPV4, None),
    ("tcp6", ethernet::IPV6, Some(ip::TCP)),
    ("udp6", ethernet::IPV6, Some(ip::UDP)),
    ("sctp6", ethernet::IPV6, Some(ip::SCTP)),
    ("icmp6", ethernet::IPV6, Some(ip::ICMPV6)),
    ("ipv6", ethernet::IPV6, None),
    ("arp", ethernet::ARP, None),
    ("rarp", ethernet::RARP, None),
    ("mpls", ethernet::MPLS, None),
    ("mplsm", ethernet::MPLS_MULTICAST, None),
];

/// The order in which fields are written, by the names of those whose order differs from that on the wire.
const BEFORE_NAME: [&str; 6] = ["pkt_mark", "conj_id", "ct_state", "ct_zone", "ct_mark", "ct_label"];
const AFTER_NAME: [&str; 26] = [
    "tun_id",
    "tun_src",
    "tun_dst",
    "tun_ipv6_src",
    "tun_ipv6_dst",
    "tun_flags",
    "metadata",
    "in_port",
    "vlan_tci",
    "vlan_vid",
    "dl_vlan_pcp",
    "dl_src",
    "dl_dst",
    "dl_type",
    "nw_src",
    "arp_spa",
    "nw_dst",
    "arp_tpa",
    "ipv6_src",
    "ipv6_dst",
    "ipv6_label",
    "nw_proto",
    "arp_op",
    "arp_sha",
    "arp_tha",
    "nw_tos",
];

/// Registers come right after the name, and what is not listed comes last, in the order of the wire.
fn rank(entry: &Entry) -> usize {
    let name = entry.field.short_name();
    if entry.field.place().name().starts_with("reg") {
        return 0;
    }
    let listed = AFTER_NAME.iter().position(|other| *other == name);
    listed.map_or(AFTER_NAME.len() + 1, |index| index + 1)
}

impl fmt::Display for MatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut left, _) = entries(self.0);
        let mut parts = Vec::new();
        for name in BEFORE_NAME {
            parts.extend(left.extract_if(.., |entry| entry.field.name() == name).map(part));
        }
        let has = |place: Field, value: u128| {
            self.0.mask().get(place) == place.ones() && self.0.key().get(place) == value
        };
        let named = NAMES.iter().find(|(_, kind, protocol)| {
            has(Field::ETH_TYPE, (*kind).into())
                && protocol.is_none_or(|protocol| has(Field::IP_PROTOCOL, protocol.into()))
        });
        if let Some((name, _, protocol)) = named {
            parts.push((*name).into());
            left.retain(|entry| {
                let place = entry.field.place();
                place != Field::ETH_TYPE && (protocol.is_none() || place != Field::IP_PROTOCOL)
            });
        }
        left.sort_by_key(rank);
        for entry in left {
            match entry.field.place() {
                Field::VLAN_VID | Field::VLAN_PCP => parts.extend(self.vlan(entry)),
                _ => parts.push(part(entry)),
            }
        }
        f.write_str(&parts.join(","))
    }
}

impl MatchText<'_> {
    /// A whole number of a tag has a name of its own. What is asked of it otherwise is written with all that is asked of the tag.
    fn vlan(&self, entry: Entry) -> Option<String> {
        let (value, mask) = (self.0.key().get(Field::VLAN_TCI), self.0.mask().get(Field::VLAN_TCI));
        let tagged = u128::from(ethernet::TAGGED);
        let number = Field::VLAN_VID.ones() & !tagged;
        if value & tagged != 0
            && (mask & number == number || mask & number == 0 && mask & !Field::VLAN_VID.ones() != 0)
        {
            return match entry.field.place() {
                Field::VLAN_VID if mask & number == 0 => None,
                Field::VLAN_VID => Some(format!("dl_vlan={}", value & number)),
                _ => Some(part(entry)),
            };
        }
        (entry.field.place() == Field::VLAN_VID).then(|| tag(value, mask))
    }
}

/// What is asked of the whole of a VLAN tag.
fn tag(value: u128, mask: u128) -> String {
    let mask = if mask == Field::VLAN_TCI.ones() { String::new() } else { format!("/{mask:#06x}") };
    format!("vlan_tci={value:#06x}{mask}")
}

fn part(entry: Entry) -> String {
    let Entry { field, value, mask } = entry;
    match field.place() {
        Field::IP_DSCP => format!("nw_tos={}", value << 2),
        Field::ETH_TYPE => format!("dl_type={value:#06x}"),
        Field::IPV6_LABEL if mask == field.ones() => format!("ipv6_label={value:#07x}"),
        Field::IPV6_LABEL => format!("ipv6_label={value:#07x}/{mask:#07x}"),
        Field::VLAN_TCI => tag(value, mask),
        _ => format!("{}={}", field.short_name(), Value { field, value, mask }),
    }
}
