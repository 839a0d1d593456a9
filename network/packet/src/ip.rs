//! IPv4 and IPv6 headers.

/// ICMP.
pub const ICMP: u8 = 1;
/// IGMP.
pub const IGMP: u8 = 2;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMP for IPv6.
pub const ICMPV6: u8 = 58;
/// SCTP.
pub const SCTP: u8 = 132;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT_HEADER: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// In [`Field::IP_FRAGMENT`](crate::Field::IP_FRAGMENT): the packet is in fragments…
pub const FRAGMENT: u8 = 1;
/// …and this is not the first of them, so that it has no ports.
pub const LATER: u8 = 2;

/// An IPv4 header (RFC 791).
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    fixed: &'a [u8; 20],
    payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// A header whose lengths are possible; what comes after the packet in a frame that had to be filled is left out.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, _) = bytes.split_first_chunk::<20>()?;
        let header = 4 * usize::from(fixed[0] & 0x0f);
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let is_sound = fixed[0] >> 4 == 4 && header >= fixed.len();
        let payload = bytes.get(header..total).filter(|_| is_sound)?;
        Some(Self { fixed, payload })
    }

    /// The sender.
    pub fn source(&self) -> u32 {
        let [.., a, b, c, d, _, _, _, _] = *self.fixed;
        u32::from_be_bytes([a, b, c, d])
    }

    /// The receiver.
    pub fn destination(&self) -> u32 {
        let [.., a, b, c, d] = *self.fixed;
        u32::from_be_bytes([a, b, c, d])
    }

    /// What it carries.
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// The type of service.
    pub fn tos(&self) -> u8 {
        self.fixed[1]
    }

    /// The time to live.
    pub fn ttl(&self) -> u8 {
        self.fixed[8]
    }

    /// [`FRAGMENT`], with [`LATER`]; 0 for a whole packet.
    pub fn fragment(&self) -> u8 {
        let field = u16::from_be_bytes([self.fixed[6], self.fixed[7]]);
        match (field & 0x1fff, field & 0x2000) {
            (0, 0) => 0,
            (0, _) => FRAGMENT,
            _ => FRAGMENT | LATER,
        }
    }

    /// What comes after options.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An IPv6 header (RFC 8200).
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    fixed: &'a [u8; 40],
    payload: &'a [u8],
}

/// What comes after an IPv6 header and its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// What it is.
    pub protocol: u8,
    /// [`FRAGMENT`], with [`LATER`]; 0 for a whole packet.
    pub fragment: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// A header whose length is possible; what comes after the packet in a frame that had to be filled is left out.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<40>()?;
        let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let payload = rest.get(..length).filter(|_| fixed[0] >> 4 == 6)?;
        Some(Self { fixed, payload })
    }

    /// The sender.
    pub fn source(&self) -> u128 {
        self.address(8)
    }

    /// The receiver.
    pub fn destination(&self) -> u128 {
        self.address(24)
    }

    fn address(&self, at: usize) -> u128 {
        self.fixed[at..at + 16].iter().fold(0, |address, byte| address << 8 | u128::from(*byte))
    }

    /// The traffic class.
    pub fn class(&self) -> u8 {
        self.fixed[0] << 4 | self.fixed[1] >> 4
    }

    /// The flow label.
    pub fn label(&self) -> u32 {
        u32::from_be_bytes([0, self.fixed[1] & 0x0f, self.fixed[2], self.fixed[3]])
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.fixed[7]
    }

    /// What comes after the extension headers; nothing, if one of them is cut off.
    pub fn upper(&self) -> Option<Upper<'a>> {
        let mut upper = Upper { protocol: self.fixed[6], fragment: 0, payload: self.payload };
        loop {
            let ([next, length, ..], rest) = match upper.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | AUTHENTICATION | FRAGMENT_HEADER => {
                    upper.payload.split_first_chunk::<8>()?
                }
                _ => return Some(upper),
            };
            let (next, length) = (*next, usize::from(*length));
            if upper.protocol == FRAGMENT_HEADER {
                let field = u16::from_be_bytes([upper.payload[2], upper.payload[3]]);
                let is_later = field & 0xfff8 != 0;
                if field & 0xfff9 != 0 {
                    upper.fragment = if is_later { FRAGMENT | LATER } else { FRAGMENT };
                }
                upper.payload = rest;
                // Of a later fragment, the headers that come first need not be known: what it says of them is not believed.
                if is_later {
                    return Some(upper);
                }
                upper.protocol = next;
                continue;
            }
            let bytes = if upper.protocol == AUTHENTICATION { 4 * (length + 2) } else { 8 * (length + 1) };
            (upper.protocol, upper.payload) = (next, upper.payload.get(bytes..)?);
        }
    }
}
