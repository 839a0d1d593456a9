//! Checksums completed and segments cut, in software.

use super::{Checksum, Kind, Offload, Segmentation};
use fulmar_packet::{checksum::Sum, ethernet, ip};

/// An offload that does not fit its frame: who made it is mistaken, and the frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes to which this cannot be done: {offload:?}")]
pub struct Unsound {
    /// Bytes of the frame.
    pub length: usize,
    /// What was to be done.
    pub offload: Offload,
}

const TCP_HEADER: usize = 20;
const TCP_CHECKSUM: usize = 16;
const TCP_FLAGS: usize = 13;
const FIN: u8 = 0x01;
const PUSH: u8 = 0x08;
const REDUCED: u8 = 0x80;
const UDP_HEADER: usize = 8;
const UDP_CHECKSUM: usize = 6;

/// Does what is left to be done to a frame, and hands on what becomes of it: the frame itself, or its segments in their order, each
/// in `scratch`. What was in there before is lost.
///
/// # Errors
///
/// If it cannot be done. Nothing is handed on then.
pub fn finish(
    frame: &[u8],
    offload: Offload,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Unsound> {
    let unsound = Unsound { length: frame.len(), offload };
    match (offload.checksum, offload.segmentation) {
        (None, None) => each(frame),
        (Some(checksum), None) => {
            scratch.clear();
            scratch.extend_from_slice(frame);
            complete(scratch, checksum).ok_or(unsound)?;
            each(scratch);
        }
        (checksum, Some(segmentation)) => {
            let layout = Layout::of(frame, checksum, segmentation).ok_or(unsound)?;
            let (headers, payload) = frame.split_at(layout.payload);
            let mut pieces = payload.chunks(segmentation.size.into()).enumerate().peekable();
            while let Some((number, piece)) = pieces.next() {
                scratch.clear();
                scratch.extend_from_slice(headers);
                scratch.extend_from_slice(piece);
                layout.correct(scratch, number, pieces.peek().is_none()).ok_or(unsound)?;
                each(scratch);
            }
        }
    }
    Ok(())
}

/// The sum so far is where the checksum will be.
fn complete(frame: &mut [u8], checksum: Checksum) -> Option<()> {
    let start = usize::from(checksum.start);
    let sum = Sum::default().bytes(frame.get(start..)?).finish();
    put(frame, start + usize::from(checksum.offset), nonzero(sum))
}

/// 0 would mean for UDP that there is none; of the two sums that are the same, the other.
fn nonzero(sum: u16) -> u16 {
    if sum == 0 { u16::MAX } else { sum }
}

fn put(frame: &mut [u8], at: usize, number: u16) -> Option<()> {
    frame.get_mut(at..at + 2)?.copy_from_slice(&number.to_be_bytes());
    Some(())
}

/// Where the headers are of a frame that is to be cut.
struct Layout {
    segmentation: Segmentation,
    is_v6: bool,
    network: usize,
    transport: usize,
    payload: usize,
}

impl Layout {
    /// Nothing, if the frame is not what it is said to be.
    fn of(frame: &[u8], checksum: Option<Checksum>, segmentation: Segmentation) -> Option<Self> {
        let mut after = ethernet::Ethernet::parse(frame)?.after_addresses();
        while let Some((_, rest)) = ethernet::vlan_tag(after) {
            after = rest;
        }
        let (protocol, packet) = ethernet::payload(after)?;
        let network = frame.len() - packet.len();
        let is_v6 = match (protocol, segmentation.kind) {
            (ethernet::IPV4, Kind::TcpV4 | Kind::Udp) => false,
            (ethernet::IPV6, Kind::TcpV6 | Kind::Udp) => true,
            _ => return None,
        };
        // So that lengths and numbers of segments fit into their fields.
        u16::try_from(packet.len()).ok()?;
        let (shortest, least) = match is_v6 {
            false => (usize::from(packet.first()? & 0x0f) * 4, 20),
            true => (40, 40),
        };
        // A header that was checksummed begins where it says; the extensions of IPv6 are before that.
        let transport = checksum.map_or(network + shortest, |checksum| checksum.start.into());
        if shortest < least || transport < network + shortest || segmentation.size == 0 {
            return None;
        }
        let header = match segmentation.kind {
            Kind::Udp => UDP_HEADER,
            _ => usize::from(frame.get(transport + 12)? >> 4) * 4,
        };
        let is_whole = segmentation.kind == Kind::Udp || header >= TCP_HEADER;
        let payload = transport + header;
        (is_whole && payload < frame.len()).then_some(Self {
            segmentation,
            is_v6,
            network,
            transport,
            payload,
        })
    }

    /// Makes a segment's headers its own; they are copies of the whole frame's.
    fn correct(&self, segment: &mut [u8], number: usize, is_last: bool) -> Option<()> {
        let length = segment.len();
        if self.is_v6 {
            put(segment, self.network + 4, u16::try_from(length - self.network - 40).ok()?)?;
        } else {
            let header = segment.get_mut(self.network..self.transport)?;
            let identification = u16::from_be_bytes([header[4], header[5]]);
            put(header, 2, u16::try_from(length - self.network).ok()?)?;
            put(header, 4, identification.wrapping_add(u16::try_from(number).ok()?))?;
            put(header, 10, 0)?;
            let sum = Sum::default().bytes(header).finish();
            put(header, 10, sum)?;
        }
        let (protocol, place) = match self.segmentation.kind {
            Kind::Udp => {
                put(segment, self.transport + 4, u16::try_from(length - self.transport).ok()?)?;
                (ip::UDP, UDP_CHECKSUM)
            }
            Kind::TcpV4 | Kind::TcpV6 => {
                self.correct_tcp(segment.get_mut(self.transport..)?, number, is_last)?;
                (ip::TCP, TCP_CHECKSUM)
            }
        };
        put(segment, self.transport + place, 0)?;
        let addresses = match self.is_v6 {
            true => segment.get(self.network + 8..self.network + 40)?,
            false => segment.get(self.network + 12..self.network + 20)?,
        };
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        let transport = segment.get(self.transport..)?;
        let sum =
            Sum::default().pseudo_header(source, destination, protocol, transport.len()).bytes(transport);
        put(segment, self.transport + place, nonzero(sum.finish()))
    }

    /// The sequence number goes on; what ends something is said last, what was reduced first.
    fn correct_tcp(&self, tcp: &mut [u8], number: usize, is_last: bool) -> Option<()> {
        let gone = u32::try_from(number * usize::from(self.segmentation.size)).ok()?;
        let sequence = tcp.get_mut(4..8)?;
        let next = u32::from_be_bytes(<[u8; 4]>::try_from(&*sequence).ok()?).wrapping_add(gone);
        sequence.copy_from_slice(&next.to_be_bytes());
        let flags = tcp.get_mut(TCP_FLAGS)?;
        if !is_last {
            *flags &= !(FIN | PUSH);
        }
        if number > 0 {
            *flags &= !REDUCED;
        }
        Some(())
    }
}
