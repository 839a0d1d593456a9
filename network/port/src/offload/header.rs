//! Offloads as bytes: the header before each frame that goes to or comes from a socket or device that was asked for it.

#![expect(
    clippy::host_endian_bytes,
    reason = "numbers between a program and its kernel are in the machine's order"
)]

use super::{Checksum, Kind, Offload, Segmentation};

/// Bytes of the header.
pub(crate) const HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// What a header says; nothing, if it is about something that did not exist when this was written.
pub(crate) fn read(header: [u8; HEADER]) -> Option<Offload> {
    let [flags, kind, a, b, c, d, e, f, g, h] = header;
    let [length, size, start, offset] = [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes);
    let checksum = (flags & NEEDS_CHECKSUM != 0).then_some(Checksum { start, offset });
    let ecn = kind & ECN != 0;
    let kind = match kind & !ECN {
        0 => return Some(Offload { checksum, segmentation: None }),
        TCP_V4 => Kind::TcpV4,
        TCP_V6 => Kind::TcpV6,
        UDP => Kind::Udp,
        _ => return None,
    };
    Some(Offload { checksum, segmentation: Some(Segmentation { kind, ecn, size, header: length }) })
}

/// The header that says this.
pub(crate) fn write(offload: Offload) -> [u8; HEADER] {
    let (mut flags, mut kind) = (0, 0);
    let [mut length, mut size, mut start, mut offset] = [0u16; 4];
    if let Some(checksum) = offload.checksum {
        (flags, start, offset) = (NEEDS_CHECKSUM, checksum.start, checksum.offset);
    }
    if let Some(segmentation) = offload.segmentation {
        kind = match segmentation.kind {
            Kind::TcpV4 => TCP_V4,
            Kind::TcpV6 => TCP_V6,
            Kind::Udp => UDP,
        };
        kind |= if segmentation.ecn { ECN } else { 0 };
        (length, size) = (segmentation.header, segmentation.size);
    }
    let [[a, b], [c, d], [e, f], [g, h]] = [length, size, start, offset].map(u16::to_ne_bytes);
    [flags, kind, a, b, c, d, e, f, g, h]
}

/// The same header, of a frame whose headers are said to have so many bytes.
pub(crate) fn with_length([flags, kind, _, _, rest @ ..]: [u8; HEADER], length: u16) -> [u8; HEADER] {
    let ([a, b], [c, d, e, f, g, h]) = (length.to_ne_bytes(), rest);
    [flags, kind, a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let checksum = Some(Checksum { start: 34, offset: 16 });
        let mut all = vec![Offload::NONE, Offload { checksum, segmentation: None }];
        for kind in [Kind::TcpV4, Kind::TcpV6, Kind::Udp] {
            for ecn in [false, true] {
                let segmentation = Some(Segmentation { kind, ecn, size: 1448, header: 66 });
                all.push(Offload { checksum, segmentation });
            }
        }
        for offload in all {
            assert_eq!(read(write(offload)), Some(offload));
        }
        assert_eq!(
            read([0, 3, 0, 0, 0, 0, 0, 0, 0, 0]),
            None,
            "fragments of UDP, which no kernel makes any more"
        );
    }
}
