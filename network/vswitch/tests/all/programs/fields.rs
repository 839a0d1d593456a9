//! Fields that random flows match and set.

/// How values of a field are written.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Number,
    Sender,
    Receiver,
    Ipv4,
    Ipv6,
    /// A number with the bit that says that there is a tag.
    Vlan,
}

/// A field that actions read and set.
pub(super) struct Settable {
    pub(super) name: &'static str,
    pub(super) long_name: &'static str,
    pub(super) bits: u64,
    pub(super) form: Form,
    /// The kinds of packets that have it; all, if there is none.
    pub(super) kinds: &'static [&'static str],
}

const fn settable(
    name: &'static str,
    long_name: &'static str,
    bits: u64,
    form: Form,
    kinds: &'static [&'static str],
) -> Settable {
    Settable { name, long_name, bits, form, kinds }
}

pub(super) const IPV4: &[&str] = &["ip", "tcp", "udp", "sctp", "icmp"];
pub(super) const IPV6: &[&str] = &["ipv6", "tcp6", "udp6", "sctp6", "icmp6", ASKS, TELLS];
pub(super) const IP: &[&str] =
    &["ip", "tcp", "udp", "sctp", "icmp", "ipv6", "tcp6", "udp6", "sctp6", "icmp6", ASKS, TELLS];
pub(super) const ASKS: &str = "icmp6,icmp_type=135,icmp_code=0";
pub(super) const TELLS: &str = "icmp6,icmp_type=136,icmp_code=0";
pub(super) const ARP: &[&str] = &["arp"];
pub(super) const TCP: &[&str] = &["tcp", "tcp6"];
pub(super) const UDP: &[&str] = &["udp", "udp6"];
pub(super) const SCTP: &[&str] = &["sctp", "sctp6"];
pub(super) const MPLS: &[&str] = &["mpls", "mplsm"];

pub(super) const FIELDS: &[Settable] = &[
    settable("reg0", "NXM_NX_REG0", 32, Form::Number, &[]),
    settable("reg1", "NXM_NX_REG1", 32, Form::Number, &[]),
    settable("xreg1", "OXM_OF_PKT_REG1", 64, Form::Number, &[]),
    settable("metadata", "OXM_OF_METADATA", 64, Form::Number, &[]),
    settable("tun_id", "NXM_NX_TUN_ID", 64, Form::Number, &[]),
    settable("pkt_mark", "NXM_NX_PKT_MARK", 32, Form::Number, &[]),
    settable("eth_src", "NXM_OF_ETH_SRC", 48, Form::Sender, &[]),
    settable("eth_dst", "NXM_OF_ETH_DST", 48, Form::Receiver, &[]),
    settable("vlan_vid", "OXM_OF_VLAN_VID", 12, Form::Vlan, &["tagged"]),
    settable("vlan_pcp", "OXM_OF_VLAN_PCP", 3, Form::Number, &["tagged"]),
    settable("ip_src", "NXM_OF_IP_SRC", 32, Form::Ipv4, IPV4),
    settable("ip_dst", "NXM_OF_IP_DST", 32, Form::Ipv4, IPV4),
    settable("ipv6_src", "NXM_NX_IPV6_SRC", 128, Form::Ipv6, IPV6),
    settable("ipv6_dst", "NXM_NX_IPV6_DST", 128, Form::Ipv6, IPV6),
    settable("ipv6_label", "NXM_NX_IPV6_LABEL", 20, Form::Number, IPV6),
    settable("ip_dscp", "OXM_OF_IP_DSCP", 6, Form::Number, IP),
    settable("nw_ecn", "NXM_NX_IP_ECN", 2, Form::Number, IP),
    settable("nw_ttl", "NXM_NX_IP_TTL", 8, Form::Number, IP),
    settable("arp_spa", "NXM_OF_ARP_SPA", 32, Form::Ipv4, ARP),
    settable("arp_tpa", "NXM_OF_ARP_TPA", 32, Form::Ipv4, ARP),
    settable("arp_sha", "NXM_NX_ARP_SHA", 48, Form::Sender, ARP),
    settable("arp_tha", "NXM_NX_ARP_THA", 48, Form::Receiver, ARP),
    settable("tcp_src", "NXM_OF_TCP_SRC", 16, Form::Number, TCP),
    settable("tcp_dst", "NXM_OF_TCP_DST", 16, Form::Number, TCP),
    settable("udp_src", "NXM_OF_UDP_SRC", 16, Form::Number, UDP),
    settable("udp_dst", "NXM_OF_UDP_DST", 16, Form::Number, UDP),
    settable("sctp_src", "OXM_OF_SCTP_SRC", 16, Form::Number, SCTP),
    settable("sctp_dst", "OXM_OF_SCTP_DST", 16, Form::Number, SCTP),
    settable("icmp_type", "NXM_OF_ICMP_TYPE", 8, Form::Number, &["icmp"]),
    settable("icmp_code", "NXM_OF_ICMP_CODE", 8, Form::Number, &["icmp"]),
    settable("icmpv6_type", "NXM_NX_ICMPV6_TYPE", 8, Form::Number, &["icmp6"]),
    settable("icmpv6_code", "NXM_NX_ICMPV6_CODE", 8, Form::Number, &["icmp6"]),
    settable("nd_target", "NXM_NX_ND_TARGET", 128, Form::Ipv6, &[ASKS, TELLS]),
    settable("nd_sll", "NXM_NX_ND_SLL", 48, Form::Sender, &[ASKS]),
    settable("nd_tll", "NXM_NX_ND_TLL", 48, Form::Sender, &[TELLS]),
    settable("mpls_label", "OXM_OF_MPLS_LABEL", 20, Form::Number, MPLS),
    settable("mpls_tc", "OXM_OF_MPLS_TC", 3, Form::Number, MPLS),
    settable("mpls_ttl", "NXM_NX_MPLS_TTL", 8, Form::Number, MPLS),
];

/// Fields that are set and matched as a whole.
pub(super) const WHOLE: &[&str] = &[
    "vlan_pcp",
    "ip_dscp",
    "nw_ecn",
    "nw_ttl",
    "icmp_type",
    "icmp_code",
    "icmpv6_type",
    "icmpv6_code",
    "mpls_label",
    "mpls_tc",
    "mpls_ttl",
];
