//! What a switch knows of a packet, field by field, and where each is in a [`FlowKey`](crate::FlowKey).
//!
//! Fields are laid out in the order of the layers, and never across the border of two: a staged lookup reads a key from the front
//! (Open vSwitch, section 5.3). What one packet cannot have both of may share a place, as the ports of TCP and the type and code of
//! ICMP do.

use std::fmt;

/// How many words a key has.
pub const WORDS: usize = 36;

/// The layers of a key, in decreasing order of how much traffic agrees in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// What is no part of the packet: where it came in, registers, what tunnels and connection tracking tell.
    Metadata,
    /// Ethernet, VLAN and MPLS.
    L2,
    /// IP and ARP.
    L3,
    /// Ports, and what has their place.
    L4,
}

impl Stage {
    /// All, from the front of a key.
    pub const ALL: [Self; 4] = [Self::Metadata, Self::L2, Self::L3, Self::L4];

    /// Its first word.
    pub const fn start(self) -> usize {
        match self {
            Self::Metadata => 0,
            Self::L2 => Self::Metadata.end(),
            Self::L3 => Self::L2.end(),
            Self::L4 => Self::L3.end(),
        }
    }

    /// Behind its last word.
    pub const fn end(self) -> usize {
        match self {
            Self::Metadata => 21,
            Self::L2 => 25,
            Self::L3 => 35,
            Self::L4 => WORDS,
        }
    }
}

/// A field: so many bits of one word of a key, or two whole words, the first of which is the upper one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    pub(crate) word: u8,
    pub(crate) shift: u8,
    bits: u8,
    name: &'static str,
}

impl Field {
    const fn new(name: &'static str, word: u8, shift: u8, bits: u8) -> Self {
        assert!(shift + bits <= 64 || (shift == 0 && bits == 128), "inside its words");
        Self { word, shift, bits, name }
    }

    /// The number of the port where the packet came in.
    pub const IN_PORT: Self = Self::new("in_port", 0, 32, 32);
    /// Which of the turns that a packet takes through the tables this is: 0 before connection tracking.
    pub const RECIRCULATION: Self = Self::new("recirc_id", 0, 0, 32);
    /// OpenFlow's metadata.
    pub const METADATA: Self = Self::new("metadata", 1, 0, 64);
    /// The key of the tunnel that the packet came by.
    pub const TUNNEL_ID: Self = Self::new("tun_id", 10, 0, 64);
    /// Its outer IPv4 source…
    pub const TUNNEL_SOURCE: Self = Self::new("tun_src", 11, 32, 32);
    /// …and destination.
    pub const TUNNEL_DESTINATION: Self = Self::new("tun_dst", 11, 0, 32);
    /// Its outer IPv6 source…
    pub const TUNNEL_IPV6_SOURCE: Self = Self::new("tun_ipv6_src", 12, 0, 128);
    /// …and destination.
    pub const TUNNEL_IPV6_DESTINATION: Self = Self::new("tun_ipv6_dst", 14, 0, 128);
    /// Flags of the tunnel.
    pub const TUNNEL_FLAGS: Self = Self::new("tun_flags", 16, 48, 16);
    /// The outer type of service…
    pub const TUNNEL_TOS: Self = Self::new("tun_tos", 16, 40, 8);
    /// …and time to live.
    pub const TUNNEL_TTL: Self = Self::new("tun_ttl", 16, 32, 8);
    /// A mark that stays with the packet in the host.
    pub const MARK: Self = Self::new("pkt_mark", 16, 0, 32);
    /// What connection tracking says of the packet…
    pub const CT_STATE: Self = Self::new("ct_state", 17, 32, 32);
    /// …the mark of its connection…
    pub const CT_MARK: Self = Self::new("ct_mark", 17, 0, 32);
    /// …its zone…
    pub const CT_ZONE: Self = Self::new("ct_zone", 18, 48, 16);
    /// …and its label.
    pub const CT_LABEL: Self = Self::new("ct_label", 19, 0, 128);
    /// Which conjunction of flows it has met.
    pub const CONJUNCTION: Self = Self::new("conj_id", 18, 0, 32);
    /// The destination's Ethernet address.
    pub const ETH_DESTINATION: Self = Self::new("eth_dst", 21, 16, 48);
    /// What the frame carries, behind its VLAN tags; [`ethernet::NOT_A_TYPE`](crate::ethernet::NOT_A_TYPE) for frames of IEEE 802.3.
    pub const ETH_TYPE: Self = Self::new("eth_type", 21, 0, 16);
    /// The source's Ethernet address.
    pub const ETH_SOURCE: Self = Self::new("eth_src", 22, 16, 48);
    /// The outer VLAN tag's type…
    pub const VLAN_TPID: Self = Self::new("vlan_tpid", 23, 48, 16);
    /// …and its content, with bit 12 set if there is a tag.
    pub const VLAN_TCI: Self = Self::new("vlan_tci", 23, 32, 16);
    /// Of that, the priority…
    pub const VLAN_PCP: Self = Self::new("vlan_pcp", 23, 45, 3);
    /// …and the number, with bit 12 set if there is a tag.
    pub const VLAN_VID: Self = Self::new("vlan_vid", 23, 32, 13);
    /// The inner VLAN tag's type…
    pub const INNER_VLAN_TPID: Self = Self::new("inner_vlan_tpid", 23, 16, 16);
    /// …and its content.
    pub const INNER_VLAN_TCI: Self = Self::new("inner_vlan_tci", 23, 0, 16);
    /// The outermost MPLS label…
    pub const MPLS_LABEL: Self = Self::new("mpls_label", 24, 44, 20);
    /// …its traffic class…
    pub const MPLS_CLASS: Self = Self::new("mpls_tc", 24, 41, 3);
    /// …whether it is the last…
    pub const MPLS_BOTTOM: Self = Self::new("mpls_bos", 24, 40, 1);
    /// …and its time to live.
    pub const MPLS_TTL: Self = Self::new("mpls_ttl", 24, 32, 8);
    /// The IPv4 source; the sender's protocol address in ARP.
    pub const IPV4_SOURCE: Self = Self::new("ip_src", 25, 32, 32);
    /// The IPv4 destination; the target's protocol address in ARP.
    pub const IPV4_DESTINATION: Self = Self::new("ip_dst", 25, 0, 32);
    /// The IPv6 source.
    pub const IPV6_SOURCE: Self = Self::new("ipv6_src", 26, 0, 128);
    /// The IPv6 destination.
    pub const IPV6_DESTINATION: Self = Self::new("ipv6_dst", 28, 0, 128);
    /// The IPv6 flow label.
    pub const IPV6_LABEL: Self = Self::new("ipv6_label", 30, 32, 20);
    /// What IP carries, behind extension headers; the operation of ARP.
    pub const IP_PROTOCOL: Self = Self::new("ip_proto", 30, 24, 8);
    /// The type of service, or traffic class.
    pub const IP_TOS: Self = Self::new("ip_tos", 30, 16, 8);
    /// Of that, the code point of differentiated services…
    pub const IP_DSCP: Self = Self::new("ip_dscp", 30, 18, 6);
    /// …and the congestion bits.
    pub const IP_ECN: Self = Self::new("ip_ecn", 30, 16, 2);
    /// The time to live, or hop limit.
    pub const IP_TTL: Self = Self::new("ip_ttl", 30, 8, 8);
    /// [`FRAGMENT`](crate::FRAGMENT) if it is part of a packet, and with [`LATER`](crate::LATER) if it is not the first.
    pub const IP_FRAGMENT: Self = Self::new("ip_frag", 30, 0, 2);
    /// The sender's hardware address in ARP; the source's link-layer address in neighbour discovery.
    pub const ARP_SENDER: Self = Self::new("arp_sha", 31, 16, 48);
    /// The target's hardware address in ARP, and its link-layer address in neighbour discovery.
    pub const ARP_TARGET: Self = Self::new("arp_tha", 32, 16, 48);
    /// Whom neighbour discovery is about.
    pub const ND_TARGET: Self = Self::new("nd_target", 33, 0, 128);
    /// The source port; the type of ICMP and ICMPv6.
    pub const L4_SOURCE: Self = Self::new("tp_src", 35, 48, 16);
    /// The destination port; the code of ICMP and ICMPv6.
    pub const L4_DESTINATION: Self = Self::new("tp_dst", 35, 32, 16);
    /// The flags of TCP.
    pub const TCP_FLAGS: Self = Self::new("tcp_flags", 35, 16, 12);

    /// One of the sixteen registers.
    ///
    /// # Panics
    /// If `number` is larger than 15.
    pub const fn register(number: u8) -> Self {
        const NAMES: [&str; 16] = [
            "reg0", "reg1", "reg2", "reg3", "reg4", "reg5", "reg6", "reg7", "reg8", "reg9", "reg10", "reg11",
            "reg12", "reg13", "reg14", "reg15",
        ];
        Self::new(NAMES[number as usize], 2 + number / 2, 32 * (1 - number % 2), 32)
    }

    /// One of the eight pairs of registers, the first of which is the upper half.
    ///
    /// # Panics
    /// If `number` is larger than 7.
    pub const fn wide_register(number: u8) -> Self {
        const NAMES: [&str; 8] = ["xreg0", "xreg1", "xreg2", "xreg3", "xreg4", "xreg5", "xreg6", "xreg7"];
        Self::new(NAMES[number as usize], 2 + number, 0, 64)
    }

    /// The number of the word that it is in, or of the upper one.
    pub const fn first_word(self) -> usize {
        self.word as usize
    }

    /// How many bits it has.
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// What it is called in flows.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// All its bits.
    pub const fn ones(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// In which layer it is.
    pub const fn stage(self) -> Stage {
        match self.word {
            0..21 => Stage::Metadata,
            21..25 => Stage::L2,
            25..35 => Stage::L3,
            _ => Stage::L4,
        }
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
