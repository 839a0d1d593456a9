//! Steps carried out on a frame.
//!
//! *Known as:* the datapath: actions, output.

use crate::meter::Verdict;
use crate::pipeline::in_port;
use crate::step::{Frozen, Notice, Step};
use crate::tunnel::Encapsulation;
use fulmar_conntrack::{Request, Rewritten, Tracker};
use fulmar_node::Time;
use fulmar_packet::checksum::Sum;
use fulmar_packet::{Field, FlowKey, Layers, ethernet, extract, rewrite};
use fulmar_port::offload::finish;
use fulmar_port::{Frame, Offload, Trail};
use std::hash::BuildHasher as _;
use std::sync::Arc;

/// A packet is decided about so many times at most, and so are its copies together.
pub(crate) const MAX_RECIRCULATIONS: usize = 16;

/// Where frames go.
pub trait Output {
    /// Sends a frame to a port.
    fn send(&mut self, port: u32, frame: &Frame<'_>);
    /// Sends the first `length` bytes of a frame to a port; it has as many.
    fn send_part(&mut self, port: u32, frame: &Frame<'_>, length: usize);
    /// Sends a frame by a tunnel; nothing, where there are none. `entropy` is the same for all packets of a connection.
    fn encapsulate(&mut self, _step: &Encapsulation, _frame: &Frame<'_>, _entropy: u64) {}
    /// Tells a controller of a frame, of which nothing is left to be done.
    fn tell(&mut self, notice: &Notice, frame: &[u8]);
    /// A frame of the spanning tree has come in at a port; nothing, where there is none.
    fn tree(&mut self, _port: u32, _frame: &[u8]) {}
}

/// Room before the copy of a frame.
const HEADROOM: usize = 64;
/// The two addresses of a frame, which come before its tags.
const ADDRESSES: usize = 12;
/// Bytes of a VLAN tag, and of an MPLS label.
const TAG: usize = 4;

/// A frame, and what is known of it.
pub(crate) struct Packet<'a> {
    pub(crate) frame: Frame<'a>,
    pub(crate) key: Box<FlowKey>,
    pub(crate) layers: Layers,
}

/// A copy that is to be decided about anew, when all is done with what it is a copy of.
pub(crate) struct Copy {
    buffer: Vec<u8>,
    offload: Offload,
    trail: Option<Trail>,
    key: Box<FlowKey>,
    layers: Layers,
    pub(crate) frozen: Arc<Frozen>,
}

impl Copy {
    pub(crate) fn packet(&mut self) -> Packet<'_> {
        let mut frame = Frame::new(&mut self.buffer, HEADROOM, self.offload);
        frame.trail.clone_from(&self.trail);
        Packet { frame, key: self.key.clone(), layers: self.layers }
    }
}

/// What steps are carried out with.
pub(crate) struct Execution<'a, O> {
    pub(crate) out: &'a mut O,
    pub(crate) now: Time,
    pub(crate) tracker: &'a Tracker,
    /// Copies that are to be decided about anew.
    pub(crate) copies: &'a mut Vec<Copy>,
}

impl<O: Output> Execution<'_, O> {
    /// Carries steps out. If the packet itself is to be decided about anew after them, that is answered.
    pub(crate) fn run(&mut self, steps: &[Step], packet: &mut Packet<'_>) -> Option<Arc<Frozen>> {
        for (index, step) in steps.iter().enumerate() {
            let is_last = index + 1 == steps.len();
            match step {
                Step::Output(port) => self.out.send(*port, &packet.frame),
                Step::Encapsulate(step) => self.out.encapsulate(step, &packet.frame, packet.entropy()),
                Step::Enqueue(step) => {
                    if step.queue.admits(packet.frame.bytes().len(), self.now) {
                        self.run(std::slice::from_ref(&step.way), packet);
                    }
                }
                Step::Truncated(port, length) => {
                    let length = usize::try_from(*length).unwrap_or(usize::MAX);
                    let length = length.min(packet.frame.bytes().len());
                    self.out.send_part(*port, &packet.frame, length);
                }
                Step::Set(set) => packet.set(set.field, set.value, set.mask),
                Step::PushVlan(kind) => packet.push_tag(*kind)?,
                Step::PopVlan => packet.pop_tag()?,
                Step::PushMpls(kind) => packet.push_label(*kind)?,
                Step::PopMpls(kind) => packet.pop_label(*kind)?,
                Step::Meter(meter) => match meter.0.measure(packet.frame.bytes().len(), self.now) {
                    Verdict::Pass => {}
                    Verdict::Drop => return None,
                    Verdict::Remark(steps) => packet.remark(steps),
                },
                Step::Controller(notice) => self.tell(notice, &packet.frame),
                Step::Tree => self.out.tree(in_port(&packet.key), packet.frame.bytes()),
                Step::Track(request) => packet.track(self.tracker, request, self.now),
                Step::Recirculate(frozen) => return Some(frozen.clone()),
                Step::Clone(steps) if is_last => return self.run(steps, packet),
                Step::Clone(steps) => self.aside(steps, packet),
            }
        }
        None
    }

    /// Controllers are told of frames as they are on a wire: with checksums, and in segments.
    fn tell(&mut self, notice: &Notice, frame: &Frame<'_>) {
        let (out, mut scratch) = (&mut *self.out, Vec::new());
        // What cannot be finished cannot be sent anywhere.
        let _ = finish(frame.bytes(), frame.offload, &mut scratch, |whole| out.tell(notice, whole));
    }

    fn aside(&mut self, steps: &[Step], packet: &Packet<'_>) {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(packet.frame.bytes());
        let mut frame = Frame::new(&mut buffer, HEADROOM, packet.frame.offload);
        frame.trail.clone_from(&packet.frame.trail);
        let mut copy = Packet { frame, key: packet.key.clone(), layers: packet.layers };
        let Some(frozen) = self.run(steps, &mut copy) else { return };
        // More of them would not be looked at.
        if self.copies.len() >= MAX_RECIRCULATIONS {
            return;
        }
        let (key, layers, offload, trail) =
            (copy.key, copy.layers, copy.frame.offload, copy.frame.trail.take());
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(copy.frame.bytes());
        self.copies.push(Copy { buffer, offload, trail, key, layers, frozen });
    }
}

impl Packet<'_> {
    /// Reads the frame again, for what is known of it apart from that.
    pub(crate) fn look_again(&mut self) {
        self.layers = extract(self.frame.bytes(), &mut self.key);
    }

    /// Gives it the metadata that it had when its way was interrupted; what connection tracking tells of it stays.
    pub(crate) fn thaw(&mut self, frozen: &Frozen) {
        let known = [Field::CT_STATE, Field::CT_ZONE, Field::CT_MARK, Field::CT_LABEL];
        let known = known.map(|field| (field, self.key.get(field)));
        self.key.as_mut().clone_from(&frozen.rest.metadata);
        for (field, value) in known {
            self.key.set(field, value);
        }
        self.key.set(Field::RECIRCULATION, frozen.number.into());
        self.look_again();
    }

    fn set(&mut self, field: Field, value: u128, mask: u128) {
        rewrite(self.frame.bytes_mut(), &self.key, self.layers, field, (value, mask));
        self.key.set_masked(field, value, mask);
        self.reopen_checksum();
    }

    /// A checksum that is still to be completed covers its pseudo-header only, which may have changed: it is put there anew.
    fn reopen_checksum(&mut self) {
        let (Some(open), Some(network)) = (self.frame.offload.checksum, self.layers.network) else { return };
        let (network, start) = (usize::from(network), usize::from(open.start));
        let bytes = self.frame.bytes_mut();
        let addresses = match bytes.get(network).map(|version| version >> 4) {
            Some(4) => network + 12..network + 20,
            Some(6) => network + 8..network + 40,
            _ => return,
        };
        let (Some(length), Some(addresses)) = (bytes.len().checked_sub(start), bytes.get(addresses)) else {
            return;
        };
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        let protocol = u8::try_from(self.key.get(Field::IP_PROTOCOL)).unwrap_or_default();
        let sum = !Sum::default().pseudo_header(source, destination, protocol, length).finish();
        let at = start + usize::from(open.offset);
        if let Some(place) = bytes.get_mut(at..at + 2) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn track(&mut self, tracker: &Tracker, request: &Request, now: Time) {
        let (now, bytes) = (now.since(Time::ZERO), self.frame.bytes_mut());
        let tracked = tracker.track(now, &self.key, bytes, self.layers, request);
        if tracked.rewritten != Rewritten::default() {
            self.reopen_checksum();
            self.look_again();
        }
        self.key.set(Field::CT_STATE, tracked.state.into());
        self.key.set(Field::CT_ZONE, tracked.zone.into());
        self.key.set(Field::CT_MARK, tracked.mark.into());
        self.key.set(Field::CT_LABEL, tracked.label);
    }

    /// A hash of what tells connections apart; fragments of one packet have the same.
    fn entropy(&self) -> u64 {
        let fields = [
            Field::ETH_SOURCE,
            Field::ETH_DESTINATION,
            Field::IPV4_SOURCE,
            Field::IPV4_DESTINATION,
            Field::IPV6_SOURCE,
            Field::IPV6_DESTINATION,
            Field::IP_PROTOCOL,
        ];
        let is_fragment = self.key.get(Field::IP_FRAGMENT) != 0;
        let ports = [Field::L4_SOURCE, Field::L4_DESTINATION];
        let ports = ports.map(|port| if is_fragment { 0 } else { self.key.get(port) });
        foldhash::fast::FixedState::with_seed(0).hash_one((fields.map(|field| self.key.get(field)), ports))
    }

    fn remark(&mut self, steps: u8) {
        // The precedence that is more likely to be dropped is two bits of the code point (RFC 2597, section 6).
        let dscp = self.key.get(Field::IP_DSCP);
        let drop = dscp >> 1 & 3;
        if drop != 0 {
            let more = (drop + u128::from(steps)).min(3);
            self.set(Field::IP_DSCP, dscp & !0b110 | more << 1, u128::MAX);
        }
    }

    /// Room for four bytes at a place; what is before it moves to the front. Nothing, if there is none.
    fn open(&mut self, at: usize) -> Option<&mut [u8]> {
        if self.frame.bytes().len() < at {
            return None;
        }
        let bytes = self.frame.grow_front(TAG)?;
        bytes.copy_within(TAG..TAG + at, 0);
        Some(bytes)
    }

    /// Takes four bytes away.
    fn close(&mut self, at: usize) -> Option<&mut [u8]> {
        let bytes = self.frame.bytes_mut();
        if bytes.len() < at + TAG {
            return None;
        }
        bytes.copy_within(..at, TAG);
        self.frame.shrink_front(TAG)?;
        Some(self.frame.bytes_mut())
    }

    /// A tag around all others. What was known of what is behind them still is, even if that is more than would be read again.
    fn push_tag(&mut self, kind: u16) -> Option<()> {
        let bytes = self.open(ADDRESSES)?;
        bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&kind.to_be_bytes());
        bytes[ADDRESSES + 2..ADDRESSES + TAG].fill(0);
        self.key.set(Field::INNER_VLAN_TPID, self.key.get(Field::VLAN_TPID));
        self.key.set(Field::INNER_VLAN_TCI, self.key.get(Field::VLAN_TCI));
        self.key.set(Field::VLAN_TPID, kind.into());
        self.key.set(Field::VLAN_TCI, ethernet::TAGGED.into());
        self.layers = self.layers.map(|at| at.checked_add(4));
        Some(())
    }

    fn pop_tag(&mut self) -> Option<()> {
        self.close(ADDRESSES)?;
        self.key.set(Field::VLAN_TPID, self.key.get(Field::INNER_VLAN_TPID));
        self.key.set(Field::VLAN_TCI, self.key.get(Field::INNER_VLAN_TCI));
        self.key.set(Field::INNER_VLAN_TPID, 0);
        self.key.set(Field::INNER_VLAN_TCI, 0);
        self.layers = self.layers.map(|at| at.checked_sub(4));
        Some(())
    }

    /// A label behind the tags, the last if it is the first. Its content is set after this.
    fn push_label(&mut self, kind: u16) -> Option<()> {
        let at = usize::from(self.layers.network?);
        let is_mpls = matches!(
            u16::try_from(self.key.get(Field::ETH_TYPE)),
            Ok(ethernet::MPLS | ethernet::MPLS_MULTICAST)
        );
        let bytes = self.open(at)?;
        bytes[at - 2..at].copy_from_slice(&kind.to_be_bytes());
        bytes[at..at + TAG].copy_from_slice(&[0, 0, u8::from(!is_mpls), 0]);
        self.look_again();
        Some(())
    }

    /// What comes after the label is of this type.
    fn pop_label(&mut self, kind: u16) -> Option<()> {
        let at = usize::from(self.layers.network?);
        self.close(at)?[at - 2..at].copy_from_slice(&kind.to_be_bytes());
        self.look_again();
        Some(())
    }
}
