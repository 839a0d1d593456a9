//! What is still to be sent to a controller, and how much of it may wait.

use crate::share::{FREELY, Share};
use std::collections::VecDeque;

/// While so many bytes of replies wait, nothing more is read of what a controller asks.
const REPLIES: usize = FREELY;
/// When so many bytes of packets wait, further ones are dropped.
pub(crate) const PACKETS: usize = 1 << 20;
/// When so many bytes of notices wait, which must not get lost, the controller cannot keep up.
pub(crate) const NOTICES: usize = 4 << 20;
/// So many bytes are handed out at once.
const PORTION: usize = 64 << 10;

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The controller has asked.
    Reply,
    /// A packet.
    Packet,
    /// Something has happened that it must know.
    Notice,
}

/// No more notices may wait than these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow(pub(crate) usize);

/// Messages in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    messages: VecDeque<(Why, Vec<u8>)>,
    /// How many bytes of each kind wait.
    replies: usize,
    packets: usize,
    notices: usize,
    /// Of the packets and notices of all.
    share: Share,
    /// How many packets were dropped.
    pub(crate) dropped: u64,
}

impl Outgoing {
    pub(crate) const fn new(share: Share) -> Self {
        Self { messages: VecDeque::new(), replies: 0, packets: 0, notices: 0, share, dropped: 0 }
    }

    /// Nothing is to be asked for that must be answered.
    pub(crate) const fn is_full(&self) -> bool {
        self.replies >= REPLIES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// How many bytes of replies wait.
    pub(crate) const fn replies(&self) -> usize {
        self.replies
    }

    pub(crate) fn push(&mut self, why: Why, message: Vec<u8>) -> Result<(), Overflow> {
        let length = message.len();
        match why {
            Why::Packet if self.packets + length > PACKETS || !self.has_room(length) => {
                self.dropped += 1;
                return Ok(());
            }
            Why::Notice if self.notices + length > NOTICES || !self.has_room(length) => {
                return Err(Overflow(self.notices));
            }
            _ => *self.waiting(why) += length,
        }
        self.messages.push_back((why, message));
        Ok(())
    }

    /// Whether so many bytes more of packets and notices may wait beside those of all others.
    fn has_room(&mut self, more: usize) -> bool {
        self.share.keep(self.packets + self.notices + more)
    }

    const fn waiting(&mut self, why: Why) -> &mut usize {
        match why {
            Why::Reply => &mut self.replies,
            Why::Packet => &mut self.packets,
            Why::Notice => &mut self.notices,
        }
    }

    /// Appends the next messages, some 64 KiB of them at most.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        while out.len() < PORTION
            && let Some((why, message)) = self.messages.pop_front()
        {
            *self.waiting(why) -= message.len();
            out.extend_from_slice(&message);
        }
        self.has_room(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Pool;

    #[test]
    fn packets_are_dropped_and_notices_overflow() {
        let mut outgoing = Outgoing::new(Share::new(Pool::default()));
        for _ in 0..100_000 {
            outgoing.push(Why::Packet, vec![0; 100]).expect("packets never overflow");
        }
        assert_eq!(outgoing.dropped, 100_000 - (PACKETS as u64) / 100);
        let fits = NOTICES / 1000;
        for _ in 0..fits {
            outgoing.push(Why::Notice, vec![0; 1000]).expect("there is room");
        }
        assert_eq!(outgoing.push(Why::Notice, vec![0; 1000]), Err(Overflow(fits * 1000)));
        assert!(!outgoing.is_full(), "neither keeps it from asking");
        outgoing.push(Why::Reply, vec![0; REPLIES]).expect("what was asked is answered");
        assert!(outgoing.is_full());
        let mut out = Vec::new();
        while !outgoing.is_empty() {
            out.clear();
            outgoing.take(&mut out);
            assert!(!out.is_empty());
        }
        assert_eq!((outgoing.replies, outgoing.packets, outgoing.notices), (0, 0, 0));
    }
}
