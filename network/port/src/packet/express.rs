//! Short frames on their way out by an XDP socket that only sends, of which the kernel makes less ado than of a packet socket.
//!
//! Nothing goes with such a frame: open checksums are completed before, which costs less than is gained. All leave by the interface's first queue,
//! so this is for interfaces that have no other: frames of both sockets stay in order.

use super::single::Single;
use crate::interface::Interface;
use crate::link::Traffic;
use crate::offload::{Offload, finish};
use crate::xdp::{Flushed, Outgoing};
use fulmar_packet::ethernet;
use std::sync::Arc;

/// Where the checksums of TCP and UDP are in their headers. That of SCTP is another one, which the kernel leaves open in the same way.
const SUMS: [u16; 2] = [16, 6];

/// Frames that wait to be sent.
#[derive(Debug)]
pub(super) struct Express {
    interface: Arc<Interface>,
    outgoing: Outgoing,
    scratch: Vec<u8>,
}

impl Express {
    /// At most so many, if the interface has one queue now, and the kernel has such sockets and none at that queue; or none.
    pub(super) fn several(interface: &Arc<Interface>, count: usize) -> Vec<Self> {
        if !interface.has_one_queue() {
            return Vec::new();
        }
        let all = Outgoing::alone(interface, count).unwrap_or_default().into_iter();
        all.map(|outgoing| Self { interface: interface.clone(), outgoing, scratch: Vec::new() }).collect()
    }

    /// The interface's MTU counts, as only packet sockets refuse what is longer: as it was when the link was asked for last.
    pub(super) fn takes(&self, frame: &[u8], offload: Offload) -> bool {
        let is_tagged = frame.get(12..14) == Some(&ethernet::VLAN.to_be_bytes());
        let longest = ethernet::HEADER + self.interface.mtu() + if is_tagged { ethernet::TAG } else { 0 };
        let lengths = ethernet::HEADER..=longest.min(Outgoing::LONGEST_FRAME);
        lengths.contains(&frame.len())
            && offload.segmentation.is_none()
            && offload.checksum.is_none_or(|checksum| SUMS.contains(&checksum.offset))
    }

    /// A frame that it [`takes`](Self::takes); `other` is there for what cannot go by it after all.
    pub(super) fn push(&mut self, frame: &[u8], offload: Offload, other: &mut Single, sent: &mut Traffic) {
        let Self { outgoing, scratch, .. } = self;
        let done = finish(frame, offload, scratch, |frame| {
            if outgoing.put(frame, sent) {
                return;
            }
            if send_all(outgoing, other, sent) == Flushed::NoLink {
                other.send(frame, Offload::NONE, sent);
            } else if !outgoing.put(frame, sent) {
                sent.dropped += 1;
            }
        });
        if done.is_err() {
            sent.errors += 1;
        }
    }

    /// Afterwards nothing waits, unless the interface has no room for it.
    pub(super) fn flush(&mut self, other: &mut Single, sent: &mut Traffic) -> Flushed {
        send_all(&mut self.outgoing, other, sent)
    }
}

/// Sends what waits. If there is no link, `other` says of each frame why it cannot be sent.
fn send_all(outgoing: &mut Outgoing, other: &mut Single, sent: &mut Traffic) -> Flushed {
    let flushed = outgoing.flush(sent);
    if flushed == Flushed::NoLink {
        outgoing.withdraw(sent, |frame, sent| other.send(frame, Offload::NONE, sent));
    }
    flushed
}
