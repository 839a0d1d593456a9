//! Frames that a kernel put into a tunnel unfinished.
//!
//! Where a tunnel does not leave the machine, between containers say, a kernel counts on the next one to complete checksums and to cut
//! segments, inside a tunnel, too. No socket tells of that. But an open checksum covers the pseudo-header alone, and can be
//! known by that: of those that are complete one of 65,536 looks the same, and is completed to what it is already.

use crate::Offload;
use crate::offload::{Checksum, Kind, Segmentation};
use fulmar_packet::checksum::Sum;
use fulmar_packet::{Field, FlowKey, ethernet, extract, ip};

/// The longest frame that a way with an MTU of 1500 has room for, without tags.
const ORDINARY: usize = 1514;
/// Into how long pieces a stream is cut is nowhere to be found; these fit into each way that IPv6 can take.
const PIECE: u16 = 1200;

/// What is left to be done to a frame that was in a tunnel.
pub(super) fn left(frame: &[u8]) -> Offload {
    open(frame).unwrap_or(Offload::NONE)
}

fn open(frame: &[u8]) -> Option<Offload> {
    let mut key = FlowKey::EMPTY;
    let layers = extract(frame, &mut key);
    let (network, start) = (usize::from(layers.network?), layers.transport?);
    let transport = frame.get(usize::from(start)..)?;
    let protocol = u8::try_from(key.get(Field::IP_PROTOCOL)).ok()?;
    let offset = match protocol {
        ip::TCP => 16u16,
        ip::UDP => 6,
        _ => return None,
    };
    let is_v6 = key.get(Field::ETH_TYPE) == ethernet::IPV6.into();
    let addresses = frame.get(if is_v6 { network + 8..network + 40 } else { network + 12..network + 20 })?;
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let partial = !Sum::default().pseudo_header(source, destination, protocol, transport.len()).finish();
    let found = transport.get(offset.into()..usize::from(offset) + 2)?;
    if key.get(Field::IP_FRAGMENT) != 0 || found != partial.to_be_bytes() {
        return None;
    }
    let header = || Some(start + 4 * u16::from(*transport.get(12)? >> 4));
    let kind = if is_v6 { Kind::TcpV6 } else { Kind::TcpV4 };
    let segmentation = match protocol {
        ip::TCP if frame.len() > ORDINARY => {
            Some(Segmentation { kind, ecn: false, size: PIECE, header: header()? })
        }
        _ => None,
    };
    Some(Offload { checksum: Some(Checksum { start, offset }), segmentation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::finish;
    use fulmar_packet::build;

    fn frame(kind: u16, protocol: u8, length: usize) -> Vec<u8> {
        let mut key = FlowKey::EMPTY;
        key.set(Field::ETH_TYPE, kind.into());
        key.set(Field::IP_PROTOCOL, protocol.into());
        key.set(Field::IPV4_SOURCE, 0x0a00_0001);
        key.set(Field::IPV6_SOURCE, 0xfd00 << 112 | 5);
        key.set(Field::L4_DESTINATION, 80);
        build(&key, &vec![0x5a; length])
    }

    /// Whatever is left open is found, and finished to what it was before; what is complete is left alone.
    #[test]
    fn what_is_open_is_found() {
        for (kind, header) in [(ethernet::IPV4, 20), (ethernet::IPV6, 40)] {
            for (protocol, at) in [(ip::TCP, 16), (ip::UDP, 6)] {
                let whole = frame(kind, protocol, 100);
                assert_eq!(left(&whole), Offload::NONE);
                let mut cut = whole.clone();
                let start = ethernet::HEADER + header;
                let addresses = if header == 20 { 26..34 } else { 22..54 };
                let (source, destination) = whole[addresses.clone()].split_at(addresses.len() / 2);
                let sum = Sum::default().pseudo_header(source, destination, protocol, whole.len() - start);
                cut[start + at..start + at + 2].copy_from_slice(&(!sum.finish()).to_be_bytes());
                let open = left(&cut);
                assert!(open.checksum.is_some() && open.segmentation.is_none(), "{kind:#x} {protocol}");
                let mut finished = Vec::new();
                finish(&cut, open, &mut Vec::new(), |frame| finished = frame.to_vec()).expect("it can be");
                assert_eq!(finished, whole);
            }
        }
    }

    #[test]
    fn a_long_one_is_cut() {
        let mut long = frame(ethernet::IPV4, ip::TCP, 5000);
        let (source, destination) = long[26..34].split_at(4);
        let sum = !Sum::default().pseudo_header(source, destination, ip::TCP, 5020).finish();
        long[50..52].copy_from_slice(&sum.to_be_bytes());
        let mut pieces = Vec::new();
        finish(&long, left(&long), &mut Vec::new(), |piece| pieces.push(piece.to_vec())).expect("it can be");
        assert_eq!(
            pieces.iter().map(|piece| piece.len() - 54).collect::<Vec<_>>(),
            [1200, 1200, 1200, 1200, 200]
        );
        assert!(pieces.iter().all(|piece| left(piece) == Offload::NONE));
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        let whole = frame(ethernet::IPV6, ip::TCP, 0);
        assert!((0..whole.len()).all(|length| left(&whole[..length]) == Offload::NONE));
    }
}
