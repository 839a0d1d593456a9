//! VXLAN: an Ethernet frame in a UDP datagram (RFC 7348, section 5).

/// The UDP port that is meant for it.
pub const PORT: u16 = 4789;
/// Bytes of the header.
pub const HEADER: usize = 8;
/// The highest number that a network can have.
pub const LAST_NETWORK: u32 = 0x00ff_ffff;

/// The flag that says that there is a network's number.
const HAS_NETWORK: u8 = 0x08;

/// The number of the network that a datagram's frame is of, and the frame; nothing, if either is cut off or missing. Bits that have no
/// meaning are not looked at.
pub fn parse(datagram: &[u8]) -> Option<(u32, &[u8])> {
    let ([flags, _, _, _, a, b, c, _], frame) = datagram.split_first_chunk::<HEADER>()?;
    let is_whole = flags & HAS_NETWORK != 0 && frame.len() >= crate::ethernet::HEADER;
    is_whole.then(|| (u32::from_be_bytes([0, *a, *b, *c]), frame))
}

/// The header before a frame of a network, of whose number 24 bits count.
pub fn header(network: u32) -> [u8; HEADER] {
    let [_, a, b, c] = network.to_be_bytes();
    [HAS_NETWORK, 0, 0, 0, a, b, c, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for network in [0, 42, LAST_NETWORK] {
            let datagram = [&header(network)[..], &[7; 60]].concat();
            assert_eq!(parse(&datagram), Some((network, &[7; 60][..])));
        }
        assert_eq!(header(LAST_NETWORK + 43), header(42));
    }

    #[test]
    fn bits_without_a_meaning_are_not_looked_at() {
        let mut datagram = [&header(42)[..], &[7; 60]].concat();
        for at in [1, 2, 3, 7] {
            datagram[at] = 0xff;
        }
        datagram[0] = 0xff;
        assert_eq!(parse(&datagram), Some((42, &[7; 60][..])));
    }

    #[test]
    fn what_is_cut_off_or_of_no_network_is_nothing() {
        let datagram = [&header(42)[..], &[7; 14]].concat();
        assert!((0..datagram.len()).all(|length| parse(&datagram[..length]).is_none()));
        assert!(parse(&datagram).is_some());
        let without = [&[0; HEADER][..], &[7; 60]].concat();
        assert_eq!(parse(&without), None);
    }
}
