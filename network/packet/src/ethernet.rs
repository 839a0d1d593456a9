//! Ethernet frames, and the tags in them.

/// A frame has a payload of this type…
pub const IPV4: u16 = 0x0800;
/// …this…
pub const ARP: u16 = 0x0806;
/// …this, laid out as ARP…
pub const RARP: u16 = 0x8035;
/// …a VLAN tag…
pub const VLAN: u16 = 0x8100;
/// …one of a service provider (IEEE 802.1ad)…
pub const SERVICE_VLAN: u16 = 0x88a8;
/// …this…
pub const IPV6: u16 = 0x86dd;
/// …MPLS…
pub const MPLS: u16 = 0x8847;
/// …MPLS to several…
pub const MPLS_MULTICAST: u16 = 0x8848;
/// …or one that IEEE 802.3 does not name: OpenFlow's number for that.
pub const NOT_A_TYPE: u16 = 0x05ff;

/// From here on a number after the addresses is a type; before, a length.
const FIRST_TYPE: u16 = 0x0600;

/// Set in [`Field::VLAN_TCI`](crate::Field::VLAN_TCI) where there is a tag. (In a frame the bit has another meaning, which is lost.)
pub const TAGGED: u16 = 0x1000;

/// Bytes of the two addresses, and of the whole header without tags.
pub const ADDRESSES: usize = 12;
/// Bytes of the header of a frame without tags.
pub const HEADER: usize = 14;
/// Bytes of a tag.
pub const TAG: usize = 4;

/// A header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    addresses: &'a [u8; ADDRESSES],
    after: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// The header of a frame; nothing, if it is too short to have addresses and a type.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let (addresses, after) = frame.split_first_chunk()?;
        (after.len() >= HEADER - ADDRESSES).then_some(Self { addresses, after })
    }

    /// Where it goes.
    pub fn destination(&self) -> u64 {
        let [a, b, c, d, e, f, ..] = *self.addresses;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Where it comes from.
    pub fn source(&self) -> u64 {
        let [.., a, b, c, d, e, f] = *self.addresses;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// What comes after the addresses: tags, a type or length, and what it carries.
    pub fn after_addresses(&self) -> &'a [u8] {
        self.after
    }
}

/// A VLAN tag at the front of what comes after the addresses: its type and content, and what comes after it. Nothing, if there is
/// none, or nothing behind it.
pub fn vlan_tag(after: &[u8]) -> Option<((u16, u16), &[u8])> {
    let ([a, b, c, d], rest) = after.split_first_chunk()?;
    let tpid = u16::from_be_bytes([*a, *b]);
    let is_tag = matches!(tpid, VLAN | SERVICE_VLAN) && rest.len() >= 2;
    is_tag.then_some(((tpid, u16::from_be_bytes([*c, *d])), rest))
}

/// The type of what comes after the tags, and where that begins. A frame of IEEE 802.3 has one if it has a SNAP header of no
/// organisation.
pub fn payload(after: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = after.split_first_chunk()?;
    let number = u16::from_be_bytes(*number);
    if number >= FIRST_TYPE {
        return Some((number, rest));
    }
    if let Some(([0xaa, 0xaa, 0x03, 0, 0, 0, a, b], inside)) = rest.split_first_chunk() {
        let number = u16::from_be_bytes([*a, *b]);
        if number >= FIRST_TYPE {
            return Some((number, inside));
        }
    }
    Some((NOT_A_TYPE, rest))
}
