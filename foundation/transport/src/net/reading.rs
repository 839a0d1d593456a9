//! What comes on connections, frame by frame.

use super::{Connection, LARGE, Net, Stage};
use crate::hello::{Answer, FIRST_CLIENT, HELLO_LIMIT, Hello, Refusal};
use crate::keep_alive;
use crate::link::LinkError;
use crate::notice::Notice;
use fulmar_node::{NodeId, Time};
use std::ops::Range;

/// A frame that came. Its bytes are there until the next one is asked for.
pub(crate) struct Frame {
    pub(crate) from: NodeId,
    key: u64,
    place: Range<usize>,
}

impl Connection {
    /// The server from which more is on its way than was read, told now and then. It is there, whatever it has said that comes later:
    /// who was long in a turn would take it to be silent.
    fn note_more(&mut self, now: Time) -> Option<NodeId> {
        let peer = match self.stage {
            Stage::Open(peer) if peer < FIRST_CLIENT && self.link.input.has_more() => peer,
            _ => return None,
        };
        let is_due = self.more_noted + keep_alive::INTERVAL <= now;
        is_due.then(|| {
            self.more_noted = now;
            peer
        })
    }
}

impl Net {
    /// The next frame of those that have come.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        while let Some(&key) = self.ready.front() {
            match self.advance(key) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(why) => self.close(key, why),
            }
            self.ready.pop_front();
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.ready = false;
            }
        }
        None
    }

    /// The bytes of a frame.
    pub(crate) fn body(&self, frame: &Frame) -> &[u8] {
        self.connections
            .get(&frame.key)
            .map_or(&[], |connection| connection.link.input.body(frame.place.clone()))
    }

    /// A frame was no message: nothing good follows.
    pub(crate) fn reject(&mut self, frame: &Frame, why: LinkError) {
        self.close(frame.key, why);
    }

    /// Reads a connection if there is something to read, and takes its next frame.
    fn advance(&mut self, key: u64) -> Result<Option<Frame>, LinkError> {
        loop {
            let (bound, is_limited) = (self.unsent_bound(), self.is_limited(key));
            let Some(connection) = self.connections.get_mut(&key) else { return Ok(None) };
            if is_limited && connection.link.unsent() > bound {
                connection.paused = true;
                self.soil(key);
                return Ok(None);
            }
            let open = matches!(connection.stage, Stage::Open(_));
            let limit = if open { self.limits.message } else { HELLO_LIMIT };
            let next = connection.link.input.next(limit);
            if connection.link.input.take_keep_alive()
                && let Stage::Open(peer) = connection.stage
                && peer < FIRST_CLIENT
            {
                connection.progress.excuse(self.now);
                self.busy.push(peer);
            }
            let Some(place) = next.transpose() else {
                if !connection.readable {
                    self.busy.extend(connection.note_more(self.now));
                    return Ok(None);
                }
                let pending = connection.link.input.pending();
                if is_limited && pending >= LARGE && self.is_full_for(key) {
                    self.hold(key);
                    return Ok(None);
                }
                let Some(connection) = self.connections.get_mut(&key) else { return Ok(None) };
                connection.readable = false;
                let count = connection.link.receive(false)?;
                connection.heard = self.now;
                self.counters.bytes_received += count as u64;
                if is_limited && pending + count >= LARGE {
                    self.note_unread(key, pending + count);
                }
                continue;
            };
            self.forget_unread(key);
            let Some(connection) = self.connections.get_mut(&key) else { return Ok(None) };
            match (connection.stage, place) {
                (Stage::Open(from), place) => {
                    connection.spoken = Some(self.now);
                    return Ok(Some(Frame { from, key, place: place? }));
                }
                (Stage::Hello, place) => {
                    let hello = match &place {
                        Ok(place) => Hello::decode(connection.link.input.body(place.clone())),
                        Err(_) => Err(Refusal::NotFulmar),
                    };
                    let call = hello.as_ref().ok().and_then(|hello| Some((hello.from?, hello.to?)));
                    if let Err(why) = hello.and_then(|hello| self.welcome(key, hello)) {
                        self.refuse(key, call, why);
                    }
                }
                (Stage::Answer(peer), place) => {
                    let place = place.map_err(|_| LinkError::NotFulmar)?;
                    match Answer::decode(connection.link.input.body(place)) {
                        Some(Answer::Welcome { .. }) => {
                            connection.stage = Stage::Open(peer);
                            let address = connection.link.other_end();
                            let tail = connection.link.tail();
                            self.book.reached(peer);
                            self.notices.push(Notice::Connected { peer, address });
                            self.watch(key, tail);
                            self.answered(peer, key);
                        }
                        Some(Answer::Refusal(reason)) => return Err(LinkError::Refused(reason)),
                        None => return Err(LinkError::NotFulmar),
                    }
                }
            }
        }
    }
}
