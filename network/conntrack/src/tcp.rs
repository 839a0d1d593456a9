//! What has been seen of a connection of TCP, and which segments can be part of it.
//!
//! A segment is in order if it is in the window that its receiver has announced, is not older than a window, and acknowledges
//! what has been sent (G. van Rooij, "Real stateful TCP packet filtering in IP Filter", 2001). The bounds are as loose as those of
//! Open vSwitch in user space.

use crate::agenda::Timeout;
use crate::direction::{Direction, Followed};

pub(crate) const FIN: u16 = 0x01;
pub(crate) const SYN: u16 = 0x02;
pub(crate) const RST: u16 = 0x04;
pub(crate) const PSH: u16 = 0x08;
pub(crate) const ACK: u16 = 0x10;
pub(crate) const URG: u16 = 0x20;

/// By so much numbers may be outside of bounds that are not known well: a window without scaling and a packet.
const SLACK: u32 = 0xffff + 1_500;
/// The largest shift of a window (RFC 7323, section 2.3).
const MAX_SHIFT: u8 = 14;

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// As it is sent: not shifted.
    pub(crate) window: u16,
    /// Bytes of data.
    pub(crate) length: u32,
    /// By how much later windows are to be shifted, if it says so.
    pub(crate) shift: Option<u8>,
}

impl Segment {
    /// The header at the front of these bytes; nothing, if it is cut off.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let fixed = bytes.first_chunk::<20>()?;
        let header = 4 * usize::from(fixed[12] >> 4);
        let options = bytes.get(20..header)?;
        let [_, _, _, _, a, b, c, d, e, f, g, h, high, low, window @ ..] = *fixed;
        Some(Self {
            flags: u16::from_be_bytes([high & 0x0f, low]),
            sequence: u32::from_be_bytes([a, b, c, d]),
            acknowledgement: u32::from_be_bytes([e, f, g, h]),
            window: u16::from_be_bytes([window[0], window[1]]),
            length: u32::try_from(bytes.len() - header).ok()?,
            shift: shift(options),
        })
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// No sender means this.
    fn is_absurd(&self) -> bool {
        let opens_and_closes = self.has(SYN) && self.has(RST | FIN);
        let says_nothing = !self.has(SYN | ACK | RST);
        let wants_an_acknowledgement = self.has(FIN | PSH | URG) && !self.has(ACK);
        opens_and_closes || says_nothing || wants_an_acknowledgement
    }

    /// Whether a connection can be known from it on: an answer to a `SYN` that was not seen is not enough to follow what comes.
    pub(crate) fn can_begin(&self) -> bool {
        !self.is_absurd() && self.flags & (SYN | ACK) != SYN | ACK
    }

    /// Behind the last number that it takes.
    fn end(&self) -> u32 {
        let marks = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.sequence.wrapping_add(self.length).wrapping_add(marks)
    }
}

/// The option of RFC 7323, section 2.2.
fn shift(mut options: &[u8]) -> Option<u8> {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [3, 3, shift, ..] => return Some((*shift).min(MAX_SHIFT)),
            [0, ..] | [] | [_] => return None,
            [_, length, ..] => options = options.get(usize::from((*length).max(2))..)?,
        }
    }
}

/// How far one side is, from what has been seen of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It has sent nothing.
    Closed,
    /// What it has sent is not acknowledged.
    SynSent,
    /// It is.
    Established,
    /// It has sent its last.
    Closing,
    /// That is acknowledged.
    FinWait2,
    /// One side has reset the connection.
    TimeWait,
}

/// By how much a side's windows are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Its `SYN` has not been seen: by as much as can be.
    Unknown,
    /// As it has offered, if it has; that counts if the other has, too.
    Offered(Option<u8>),
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    phase: Phase,
    /// Behind the highest number that it has sent.
    sent: u32,
    /// Behind the highest that it may send.
    limit: u32,
    /// The largest window that it has announced, bytes.
    window: u32,
    scale: Scale,
}

/// The two sides, by the direction in which they send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tcp {
    peers: [Peer; 2],
}

impl Tcp {
    /// From a segment that can begin one.
    pub(crate) fn new(segment: &Segment) -> Self {
        let scale = if segment.has(SYN) { Scale::Offered(segment.shift) } else { Scale::Unknown };
        let end = segment.end();
        let reply = Peer { phase: Phase::Closed, sent: 0, limit: 0, window: 1, scale: Scale::Unknown };
        let mut original =
            Peer { phase: Phase::SynSent, sent: end, limit: end.wrapping_add(1), window: 1, scale };
        original.window = original.announced(&reply, segment).max(1);
        Self { peers: [original, reply] }
    }

    /// Whether both sides have been seen.
    pub(crate) fn is_answered(&self) -> bool {
        self.peers[1].phase != Phase::Closed
    }

    /// How far the side is that is farther.
    pub(crate) fn phase(&self) -> Phase {
        self.peers[0].phase.max(self.peers[1].phase)
    }

    /// One more segment.
    pub(crate) fn follow(&mut self, direction: Direction, segment: &Segment) -> Followed {
        if segment.is_absurd() {
            return Followed::Invalid;
        }
        if segment.flags & (SYN | ACK) == SYN {
            if self.peers.iter().all(|peer| peer.phase >= Phase::FinWait2) {
                return Followed::Anew;
            }
            if direction == Direction::Original && !self.is_answered() {
                *self = Self::new(segment);
                return Followed::Valid(Some(Timeout::SynSent));
            }
        }
        let [original, reply] = &mut self.peers;
        let (sender, receiver) = match direction {
            Direction::Original => (original, reply),
            Direction::Reply => (reply, original),
        };
        let is_first = sender.phase == Phase::Closed;
        if is_first {
            sender.begin(segment, receiver);
        }
        match sender.place(receiver, segment, is_first) {
            Place::Window => {
                sender.move_windows(receiver, segment);
                advance(sender, receiver, segment);
                Followed::Valid(Some(self.timeout()))
            }
            // It does not make the connection stay: this is what floods look like, too.
            Place::Near => {
                sender.move_windows(receiver, segment);
                close(sender, receiver, segment);
                Followed::Valid(None)
            }
            Place::Outside => Followed::Invalid,
        }
    }

    fn timeout(&self) -> Timeout {
        let [a, b] = self.peers.map(|peer| peer.phase);
        let (behind, ahead) = (a.min(b), a.max(b));
        match behind {
            Phase::FinWait2 | Phase::TimeWait => Timeout::Close,
            Phase::Closing => Timeout::TimeWait,
            Phase::Closed | Phase::SynSent => Timeout::SynReceived,
            Phase::Established if ahead >= Phase::Closing => Timeout::FinWait,
            Phase::Established => Timeout::Established,
        }
    }
}

/// Where a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where it is expected.
    Window,
    /// Near that, while a connection opens, or after it has ended, when less is known.
    Near,
    /// Neither.
    Outside,
}

impl Peer {
    /// Its first segment that is seen.
    fn begin(&mut self, segment: &Segment, receiver: &Self) {
        self.scale = if segment.has(SYN) { Scale::Offered(segment.shift) } else { Scale::Unknown };
        self.phase = Phase::SynSent;
        self.sent = segment.sequence;
        self.limit = segment.end().wrapping_add(receiver.window);
    }

    /// By how much its windows are shifted; that of a `SYN` never is.
    fn shift(&self, other: &Self, segment: &Segment) -> u8 {
        match (self.scale, other.scale) {
            _ if segment.has(SYN) => 0,
            (Scale::Offered(Some(shift)), Scale::Offered(Some(_))) => shift,
            (Scale::Offered(_), Scale::Offered(_)) => 0,
            _ => MAX_SHIFT,
        }
    }

    /// The window that it announces, bytes.
    fn announced(&self, other: &Self, segment: &Segment) -> u32 {
        u32::from(segment.window) << self.shift(other, segment)
    }

    /// From where to where a segment's numbers go. One that takes none may have any.
    fn span(&self, segment: &Segment) -> (u32, u32) {
        match (segment.sequence, segment.end()) {
            (start, end) if start == end => (self.sent, self.sent),
            span => span,
        }
    }

    fn place(&self, receiver: &Self, segment: &Segment, is_first: bool) -> Place {
        let (start, end) = self.span(segment);
        let acknowledged = acknowledged(receiver, segment);
        let oldest = receiver.sent.wrapping_sub(SLACK << self.shift(receiver, segment));
        let acknowledges_what_is_sent =
            is_at_most(acknowledged, receiver.sent.wrapping_add(SLACK)) && is_at_most(oldest, acknowledged);
        // Whoever cannot see the numbers does not guess them so closely.
        let may_reset = segment.sequence.wrapping_sub(self.sent).wrapping_add(1) <= 2;
        let is_over = self.phase.max(receiver.phase) >= Phase::FinWait2;
        if is_at_most(end, self.limit)
            && is_at_most(self.sent.wrapping_sub(receiver.window), start)
            && (is_first || acknowledges_what_is_sent)
            && (!segment.has(RST) || may_reset)
        {
            Place::Window
        } else if (receiver.phase == Phase::Closed || is_over)
            && is_at_most(end, self.limit.wrapping_add(SLACK))
            && is_at_most(self.sent.wrapping_sub(SLACK), start)
        {
            Place::Near
        } else {
            Place::Outside
        }
    }

    /// What a segment of this one says of both.
    fn move_windows(&mut self, receiver: &mut Self, segment: &Segment) {
        let window = self.announced(receiver, segment);
        let (_, end) = self.span(segment);
        self.window = self.window.max(window);
        self.sent = later(self.sent, end);
        // A closed window is probed with one byte.
        let limit = acknowledged(receiver, segment).wrapping_add(window.max(1));
        receiver.limit = later(receiver.limit, limit);
    }
}

/// What a segment acknowledges; all, if it does not say so. Some reset with an acknowledgement of 0.
fn acknowledged(receiver: &Peer, segment: &Segment) -> u32 {
    let is_void = segment.has(RST) && segment.acknowledgement == 0;
    if segment.has(ACK) && !is_void { segment.acknowledgement } else { receiver.sent }
}

fn advance(sender: &mut Peer, receiver: &mut Peer, segment: &Segment) {
    if segment.has(ACK) {
        receiver.phase = match receiver.phase {
            Phase::SynSent => Phase::Established,
            Phase::Closing if is_at_most(receiver.sent, segment.acknowledgement) => Phase::FinWait2,
            phase => phase,
        };
    }
    close(sender, receiver, segment);
}

fn close(sender: &mut Peer, receiver: &mut Peer, segment: &Segment) {
    if segment.has(FIN) {
        sender.phase = sender.phase.max(Phase::Closing);
    }
    if segment.has(RST) {
        (sender.phase, receiver.phase) = (Phase::TimeWait, Phase::TimeWait);
    }
}

/// Numbers come round: of two, that one is later which is reached from the other by less than half of the way.
fn is_at_most(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).cast_signed() >= 0
}

fn later(a: u32, b: u32) -> u32 {
    if is_at_most(a, b) { b } else { a }
}
