//! The fields of matches and actions (section 7.2.3.7): how each is called on the wire and in text, and where it is in a key.

use crate::error::{BadAction, BadMatch};
use crate::wire::{Reader, Result, Wire};
use crate::{ONF, PortNumber, ShortPort};
use fulmar_packet::{Field, LATER, Match, ethernet, ip};
use std::fmt;

/// How a field is called on the wire: a class, and a number of it (section 7.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) class: u16,
    pub(super) number: u8,
    /// Only where the class says that there is one.
    pub(super) experimenter: Option<u32>,
}

/// The class of fields whose number is an experimenter's.
pub(super) const EXPERIMENTER: u16 = 0xffff;

impl Header {
    /// Bytes of it, and of the experimenter.
    pub(super) const fn bytes(self) -> usize {
        if self.experimenter.is_some() { 8 } else { 4 }
    }

    /// With the length of what follows, which counts the experimenter.
    pub(super) fn put(self, out: &mut Vec<u8>, has_mask: bool, bytes: u8) {
        self.class.put(out);
        out.push(self.number << 1 | u8::from(has_mask));
        out.push(bytes + if self.experimenter.is_some() { 4 } else { 0 });
        if let Some(experimenter) = self.experimenter {
            experimenter.put(out);
        }
    }

    /// One that nothing follows, with whether there would be a mask, and the length of what would follow.
    fn get_alone(input: &mut Reader<'_>) -> Result<(Self, bool, u8)> {
        let (class, number, length) = (u16::get(input)?, u8::get(input)?, u8::get(input)?);
        let experimenter = if class == EXPERIMENTER { Some(u32::get(input)?) } else { None };
        Ok((Self { class, number: number >> 1, experimenter }, number & 1 != 0, length))
    }

    /// With whether there is a mask, and what follows.
    pub(super) fn get<'a>(input: &mut Reader<'a>) -> Result<(Self, bool, Reader<'a>)> {
        let (class, number, length) = (u16::get(input)?, u8::get(input)?, u8::get(input)?);
        let mut content = input.part(length.into(), BadMatch::BadLength)?;
        let experimenter = if class == EXPERIMENTER { Some(u32::get(&mut content)?) } else { None };
        Ok((Self { class, number: number >> 1, experimenter }, number & 1 != 0, content))
    }
}

const fn oxm(number: u8) -> Header {
    Header { class: 0x8000, number, experimenter: None }
}

const fn packet_register(number: u8) -> Header {
    Header { class: 0x8001, number, experimenter: None }
}

const fn nxm(number: u8) -> Header {
    Header { class: 0x0000, number, experimenter: None }
}

const fn nx(number: u8) -> Header {
    Header { class: 0x0001, number, experimenter: None }
}

const fn onf(number: u8) -> Header {
    Header { class: EXPERIMENTER, number, experimenter: Some(ONF) }
}

/// What a match must ask for before a field (section 7.2.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A VLAN tag.
    Tag,
    /// One of these types of frames.
    Type(&'static [u16]),
    /// One of them, and this protocol.
    Protocol(&'static [u16], u8),
    /// ICMPv6 of one of these kinds.
    Kind(&'static [u8]),
}

const IPV4: &[u16] = &[ethernet::IPV4];
const IPV6: &[u16] = &[ethernet::IPV6];
const IP: &[u16] = &[ethernet::IPV4, ethernet::IPV6];
const ARP: &[u16] = &[ethernet::ARP, ethernet::RARP];
const MPLS: &[u16] = &[ethernet::MPLS, ethernet::MPLS_MULTICAST];
const SOLICITATION: &[u8] = &[fulmar_packet::NEIGHBOUR_SOLICITATION];
const ADVERTISEMENT: &[u8] = &[fulmar_packet::NEIGHBOUR_ADVERTISEMENT];
const DISCOVERY: &[u8] = &[fulmar_packet::NEIGHBOUR_SOLICITATION, fulmar_packet::NEIGHBOUR_ADVERTISEMENT];

impl Needs {
    pub(super) fn are_met(self, by: &Match) -> bool {
        let is =
            |field: Field, value: u128| by.mask().get(field) == field.ones() && by.key().get(field) == value;
        let is_type = |types: &[u16]| types.iter().any(|kind| is(Field::ETH_TYPE, (*kind).into()));
        match self {
            Self::Nothing => true,
            Self::Tag => by.key().get(Field::VLAN_TCI) & u128::from(ethernet::TAGGED) != 0,
            Self::Type(types) => is_type(types),
            // Fragments but the first have no ports; of ICMP, this is not looked at (as in Open vSwitch).
            Self::Protocol(types, protocol) => {
                let is_later = by.key().get(Field::IP_FRAGMENT) & u128::from(LATER) != 0;
                let has_ports = matches!(protocol, ip::TCP | ip::UDP | ip::SCTP);
                is_type(types) && is(Field::IP_PROTOCOL, protocol.into()) && !(has_ports && is_later)
            }
            Self::Kind(kinds) => {
                Self::Protocol(IPV6, ip::ICMPV6).are_met(by)
                    && kinds.iter().any(|kind| is(Field::L4_SOURCE, (*kind).into()))
            }
        }
    }
}

/// How a value on the wire becomes one of the key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// A port's number in 16 bits.
    ShortPort,
    /// The upper six of eight bits.
    Dscp,
}

/// What is known of a field.
pub(super) struct Row {
    /// Its name where it is set…
    pub(super) name: &'static str,
    /// …where bits of it are copied…
    pub(super) long_name: &'static str,
    /// …and where it is matched.
    pub(super) short_name: &'static str,
    pub(super) place: Field,
    /// So many of them are on the wire, in whole bytes.
    pub(super) bits: u8,
    pub(super) form: Form,
    /// The first is the one that is written.
    pub(super) headers: &'static [Header],
    pub(super) is_maskable: bool,
    pub(super) is_settable: bool,
    pub(super) needs: Needs,
}

const fn row(names: [&'static str; 3], place: Field, headers: &'static [Header]) -> Row {
    let [name, long_name, short_name] = names;
    let (bits, form) = (place.bits(), Form::Plain);
    let needs = Needs::Nothing;
    Row {
        name,
        long_name,
        short_name,
        place,
        bits,
        form,
        headers,
        is_maskable: false,
        is_settable: true,
        needs,
    }
}

impl Row {
    const fn masked(self) -> Self {
        Self { is_maskable: true, ..self }
    }

    /// It cannot be set, as it says what the packet is.
    const fn fixed(self) -> Self {
        Self { is_settable: false, ..self }
    }

    const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    const fn bits(self, bits: u8) -> Self {
        Self { bits, ..self }
    }

    const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }
}

const fn register(number: u8, name: &'static str, long_name: &'static str, header: &'static [Header]) -> Row {
    row([name, long_name, name], Field::register(number), header).masked()
}

const fn pair(number: u8, name: &'static str, long_name: &'static str, header: &'static [Header]) -> Row {
    row([name, long_name, name], Field::wide_register(number), header).masked()
}

const fn port(names: [&'static str; 3], place: Field, headers: &'static [Header], protocol: u8) -> Row {
    row(names, place, headers).masked().needs(Needs::Protocol(IP, protocol))
}

/// In the order in which they are written: what a field needs is before it. More of them may be masked than OpenFlow says, as Open
/// vSwitch's tools do that.
static FIELDS: &[Row] = &[
    row(["in_port_oxm", "OXM_OF_IN_PORT", "in_port"], Field::IN_PORT, &[oxm(0)]),
    row(["in_port", "NXM_OF_IN_PORT", "in_port"], Field::IN_PORT, &[nxm(0)]).bits(16).form(Form::ShortPort),
    row(["metadata", "OXM_OF_METADATA", "metadata"], Field::METADATA, &[oxm(2)]).masked(),
    register(0, "reg0", "NXM_NX_REG0", &[nx(0)]),
    register(1, "reg1", "NXM_NX_REG1", &[nx(1)]),
    register(2, "reg2", "NXM_NX_REG2", &[nx(2)]),
    register(3, "reg3", "NXM_NX_REG3", &[nx(3)]),
    register(4, "reg4", "NXM_NX_REG4", &[nx(4)]),
    register(5, "reg5", "NXM_NX_REG5", &[nx(5)]),
    register(6, "reg6", "NXM_NX_REG6", &[nx(6)]),
    register(7, "reg7", "NXM_NX_REG7", &[nx(7)]),
    register(8, "reg8", "NXM_NX_REG8", &[nx(8)]),
    register(9, "reg9", "NXM_NX_REG9", &[nx(9)]),
    register(10, "reg10", "NXM_NX_REG10", &[nx(10)]),
    register(11, "reg11", "NXM_NX_REG11", &[nx(11)]),
    register(12, "reg12", "NXM_NX_REG12", &[nx(12)]),
    register(13, "reg13", "NXM_NX_REG13", &[nx(13)]),
    register(14, "reg14", "NXM_NX_REG14", &[nx(14)]),
    register(15, "reg15", "NXM_NX_REG15", &[nx(15)]),
    pair(0, "xreg0", "OXM_OF_PKT_REG0", &[packet_register(0)]),
    pair(1, "xreg1", "OXM_OF_PKT_REG1", &[packet_register(1)]),
    pair(2, "xreg2", "OXM_OF_PKT_REG2", &[packet_register(2)]),
    pair(3, "xreg3", "OXM_OF_PKT_REG3", &[packet_register(3)]),
    pair(4, "xreg4", "OXM_OF_PKT_REG4", &[packet_register(4)]),
    pair(5, "xreg5", "OXM_OF_PKT_REG5", &[packet_register(5)]),
    pair(6, "xreg6", "OXM_OF_PKT_REG6", &[packet_register(6)]),
    pair(7, "xreg7", "OXM_OF_PKT_REG7", &[packet_register(7)]),
    row(["tun_id", "NXM_NX_TUN_ID", "tun_id"], Field::TUNNEL_ID, &[oxm(38), nx(16)]).masked(),
    row(["tun_src", "NXM_NX_TUN_IPV4_SRC", "tun_src"], Field::TUNNEL_SOURCE, &[nx(31)]).masked(),
    row(["tun_dst", "NXM_NX_TUN_IPV4_DST", "tun_dst"], Field::TUNNEL_DESTINATION, &[nx(32)]).masked(),
    row(["tun_ipv6_src", "NXM_NX_TUN_IPV6_SRC", "tun_ipv6_src"], Field::TUNNEL_IPV6_SOURCE, &[nx(109)])
        .masked(),
    row(["tun_ipv6_dst", "NXM_NX_TUN_IPV6_DST", "tun_ipv6_dst"], Field::TUNNEL_IPV6_DESTINATION, &[nx(110)])
        .masked(),
    row(["tun_flags", "NXM_NX_TUN_FLAGS", "tun_flags"], Field::TUNNEL_FLAGS, &[nx(104)]).masked(),
    row(["pkt_mark", "NXM_NX_PKT_MARK", "pkt_mark"], Field::MARK, &[nx(33)]).masked(),
    row(["ct_state", "NXM_NX_CT_STATE", "ct_state"], Field::CT_STATE, &[nx(105)]).masked().fixed(),
    row(["ct_zone", "NXM_NX_CT_ZONE", "ct_zone"], Field::CT_ZONE, &[nx(106)]).fixed(),
    row(["ct_mark", "NXM_NX_CT_MARK", "ct_mark"], Field::CT_MARK, &[nx(107)]).masked(),
    row(["ct_label", "NXM_NX_CT_LABEL", "ct_label"], Field::CT_LABEL, &[nx(108)]).masked(),
    row(["conj_id", "NXM_NX_CONJ_ID", "conj_id"], Field::CONJUNCTION, &[nx(37)]).fixed(),
    row(["eth_dst", "NXM_OF_ETH_DST", "dl_dst"], Field::ETH_DESTINATION, &[oxm(3), nxm(1)]).masked(),
    row(["eth_src", "NXM_OF_ETH_SRC", "dl_src"], Field::ETH_SOURCE, &[oxm(4), nxm(2)]).masked(),
    row(["eth_type", "NXM_OF_ETH_TYPE", "dl_type"], Field::ETH_TYPE, &[oxm(5), nxm(3)]).fixed(),
    row(["vlan_tci", "NXM_OF_VLAN_TCI", "vlan_tci"], Field::VLAN_TCI, &[nxm(4)]).masked(),
    row(["vlan_vid", "OXM_OF_VLAN_VID", "vlan_vid"], Field::VLAN_VID, &[oxm(6)]).masked(),
    row(["vlan_pcp", "OXM_OF_VLAN_PCP", "dl_vlan_pcp"], Field::VLAN_PCP, &[oxm(7)]).needs(Needs::Tag),
    row(["mpls_label", "OXM_OF_MPLS_LABEL", "mpls_label"], Field::MPLS_LABEL, &[oxm(34)])
        .needs(Needs::Type(MPLS)),
    row(["mpls_tc", "OXM_OF_MPLS_TC", "mpls_tc"], Field::MPLS_CLASS, &[oxm(35)]).needs(Needs::Type(MPLS)),
    row(["mpls_ttl", "NXM_NX_MPLS_TTL", "mpls_ttl"], Field::MPLS_TTL, &[nx(30)]).needs(Needs::Type(MPLS)),
    row(["mpls_bos", "OXM_OF_MPLS_BOS", "mpls_bos"], Field::MPLS_BOTTOM, &[oxm(36)])
        .needs(Needs::Type(MPLS))
        .fixed(),
    row(["ip_dscp", "OXM_OF_IP_DSCP", "nw_tos"], Field::IP_DSCP, &[oxm(8)]).needs(Needs::Type(IP)),
    row(["nw_tos", "NXM_OF_IP_TOS", "nw_tos"], Field::IP_DSCP, &[nxm(5)])
        .bits(8)
        .form(Form::Dscp)
        .needs(Needs::Type(IP)),
    row(["nw_ecn", "NXM_NX_IP_ECN", "nw_ecn"], Field::IP_ECN, &[oxm(9), nx(28)]).needs(Needs::Type(IP)),
    row(["nw_ttl", "NXM_NX_IP_TTL", "nw_ttl"], Field::IP_TTL, &[nx(29)]).needs(Needs::Type(IP)),
    row(["ip_frag", "NXM_NX_IP_FRAG", "nw_frag"], Field::IP_FRAGMENT, &[nx(26)])
        .masked()
        .needs(Needs::Type(IP))
        .fixed(),
    row(["nw_proto", "NXM_OF_IP_PROTO", "nw_proto"], Field::IP_PROTOCOL, &[oxm(10), nxm(6)])
        .needs(Needs::Type(IP))
        .fixed(),
    row(["arp_op", "NXM_OF_ARP_OP", "arp_op"], Field::IP_PROTOCOL, &[oxm(21), nxm(15)])
        .bits(16)
        .needs(Needs::Type(ARP)),
    row(["ip_src", "NXM_OF_IP_SRC", "nw_src"], Field::IPV4_SOURCE, &[oxm(11), nxm(7)])
        .masked()
        .needs(Needs::Type(IPV4)),
    row(["ip_dst", "NXM_OF_IP_DST", "nw_dst"], Field::IPV4_DESTINATION, &[oxm(12), nxm(8)])
        .masked()
        .needs(Needs::Type(IPV4)),
    row(["arp_spa", "NXM_OF_ARP_SPA", "arp_spa"], Field::IPV4_SOURCE, &[oxm(22), nxm(16)])
        .masked()
        .needs(Needs::Type(ARP)),
    row(["arp_tpa", "NXM_OF_ARP_TPA", "arp_tpa"], Field::IPV4_DESTINATION, &[oxm(23), nxm(17)])
        .masked()
        .needs(Needs::Type(ARP)),
    row(["arp_sha", "NXM_NX_ARP_SHA", "arp_sha"], Field::ARP_SENDER, &[oxm(24), nx(17)])
        .masked()
        .needs(Needs::Type(ARP)),
    row(["arp_tha", "NXM_NX_ARP_THA", "arp_tha"], Field::ARP_TARGET, &[oxm(25), nx(18)])
        .masked()
        .needs(Needs::Type(ARP)),
    row(["ipv6_src", "NXM_NX_IPV6_SRC", "ipv6_src"], Field::IPV6_SOURCE, &[oxm(26), nx(19)])
        .masked()
        .needs(Needs::Type(IPV6)),
    row(["ipv6_dst", "NXM_NX_IPV6_DST", "ipv6_dst"], Field::IPV6_DESTINATION, &[oxm(27), nx(20)])
        .masked()
        .needs(Needs::Type(IPV6)),
    row(["ipv6_label", "NXM_NX_IPV6_LABEL", "ipv6_label"], Field::IPV6_LABEL, &[oxm(28), nx(27)])
        .masked()
        .needs(Needs::Type(IPV6)),
    port(["tcp_src", "NXM_OF_TCP_SRC", "tp_src"], Field::L4_SOURCE, &[oxm(13), nxm(9)], ip::TCP),
    port(["tcp_dst", "NXM_OF_TCP_DST", "tp_dst"], Field::L4_DESTINATION, &[oxm(14), nxm(10)], ip::TCP),
    port(["tcp_flags", "NXM_NX_TCP_FLAGS", "tcp_flags"], Field::TCP_FLAGS, &[onf(42), nx(34)], ip::TCP)
        .fixed(),
    port(["udp_src", "NXM_OF_UDP_SRC", "tp_src"], Field::L4_SOURCE, &[oxm(15), nxm(11)], ip::UDP),
    port(["udp_dst", "NXM_OF_UDP_DST", "tp_dst"], Field::L4_DESTINATION, &[oxm(16), nxm(12)], ip::UDP),
    port(["sctp_src", "OXM_OF_SCTP_SRC", "tp_src"], Field::L4_SOURCE, &[oxm(17)], ip::SCTP),
    port(["sctp_dst", "OXM_OF_SCTP_DST", "tp_dst"], Field::L4_DESTINATION, &[oxm(18)], ip::SCTP),
    row(["icmp_type", "NXM_OF_ICMP_TYPE", "icmp_type"], Field::L4_SOURCE, &[oxm(19), nxm(13)])
        .bits(8)
        .needs(Needs::Protocol(IPV4, ip::ICMP)),
    row(["icmp_code", "NXM_OF_ICMP_CODE", "icmp_code"], Field::L4_DESTINATION, &[oxm(20), nxm(14)])
        .bits(8)
        .needs(Needs::Protocol(IPV4, ip::ICMP)),
    row(["icmpv6_type", "NXM_NX_ICMPV6_TYPE", "icmp_type"], Field::L4_SOURCE, &[oxm(29), nx(21)])
        .bits(8)
        .needs(Needs::Protocol(IPV6, ip::ICMPV6)),
    row(["icmpv6_code", "NXM_NX_ICMPV6_CODE", "icmp_code"], Field::L4_DESTINATION, &[oxm(30), nx(22)])
        .bits(8)
        .needs(Needs::Protocol(IPV6, ip::ICMPV6)),
    row(["nd_target", "NXM_NX_ND_TARGET", "nd_target"], Field::ND_TARGET, &[oxm(31), nx(23)])
        .masked()
        .needs(Needs::Kind(DISCOVERY)),
    row(["nd_sll", "NXM_NX_ND_SLL", "nd_sll"], Field::ARP_SENDER, &[oxm(32), nx(24)])
        .masked()
        .needs(Needs::Kind(SOLICITATION)),
    row(["nd_tll", "NXM_NX_ND_TLL", "nd_tll"], Field::ARP_TARGET, &[oxm(33), nx(25)])
        .masked()
        .needs(Needs::Kind(ADVERTISEMENT)),
];

/// A field that is matched, set or copied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OxmField(u8);

impl OxmField {
    /// All, in the order in which they are written.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).take(FIELDS.len()).map(Self)
    }

    /// The field of this name, in any of the forms in which Open vSwitch's tools write it where it is set or copied.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|field| name == field.row().name || name == field.row().long_name)
    }

    pub(super) fn row(self) -> &'static Row {
        &FIELDS[usize::from(self.0)]
    }

    pub(super) fn of(header: Header) -> Option<Self> {
        Self::all().find(|field| field.row().headers.contains(&header))
    }

    /// What it is called where it is set.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is called where bits of it are copied.
    pub fn long_name(self) -> &'static str {
        self.row().long_name
    }

    /// What it is called where it is matched.
    pub(crate) fn short_name(self) -> &'static str {
        self.row().short_name
    }

    /// How many bits its values have.
    pub fn bits(self) -> u8 {
        self.row().bits
    }

    /// Where its values are in a key.
    pub fn place(self) -> Field {
        self.row().place
    }

    /// Whether some of its bits can be matched or set without the others.
    pub fn is_maskable(self) -> bool {
        self.row().is_maskable
    }

    /// Whether actions can set it.
    pub fn is_settable(self) -> bool {
        self.row().is_settable
    }

    /// Whether a packet that matches has this field.
    pub fn is_in(self, whatever: &Match) -> bool {
        self.row().needs.are_met(whatever)
    }

    /// How many bytes its values have: as few as can be, but for labels of 20 bits.
    pub(crate) fn bytes(self) -> usize {
        match self.bits() {
            20 => 4,
            bits => usize::from(bits).div_ceil(8),
        }
    }

    /// All its bits.
    pub(crate) fn ones(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// A header alone, as it is where bits of it are copied: one of four bytes, as there is no room for more everywhere.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let length = u8::try_from(self.bytes()).unwrap_or_else(|_| unreachable!("16 at most"));
        let short = self.row().headers.iter().find(|header| header.experimenter.is_none());
        short.unwrap_or_else(|| unreachable!("each field has one")).put(out, false, length);
    }

    /// A header alone, of any size.
    pub(crate) fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (header, has_mask, length) = Header::get_alone(input)?;
        let field = Self::of(header).ok_or(BadAction::BadSetType)?;
        if usize::from(length) != field.bytes() + header.bytes() - 4 || has_mask {
            return Err(BadAction::BadSetLength.into());
        }
        Ok(field)
    }

    /// A header in a list of fields, with whether they may have masks; nothing, if the field is not known here.
    pub(crate) fn get_listed(input: &mut Reader<'_>) -> Result<Option<Self>> {
        let (header, _, _) = Header::get_alone(input)?;
        Ok(Self::of(header))
    }

    /// Its value in a key of that value on the wire, if it can have it.
    pub fn to_place(self, value: u128) -> Option<u128> {
        let row = self.row();
        let value = match row.form {
            Form::Plain => value,
            Form::ShortPort => PortNumber::from(ShortPort(u16::try_from(value).ok()?)).0.into(),
            Form::Dscp if value & 3 == 0 => value >> 2,
            Form::Dscp => return None,
        };
        (value <= row.place.ones()).then_some(value)
    }
}

impl fmt::Debug for OxmField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
