//! A client's connection: bytes that come and go.

use crate::Message;
use fulmar_node::Time;
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;

/// While so many bytes wait to be read by a client, nothing that it asks for is done, and nothing more is made for it to be told.
const ENOUGH: usize = 1 << 20;
/// While so many bytes wait to be read by those who came by one door, that holds for them all.
pub(super) const WAITING: usize = 64 << 20;
/// A client for which so many bytes wait, as it is told of changes faster than it reads, is let go.
pub(super) const TOO_MUCH: usize = 64 << 20;
/// Who has read so many bytes keeps up from then on.
const KEEPS_UP: u64 = 256 << 10;
/// Room for so many bytes is kept for those to come.
const KEPT: usize = 64 << 10;

/// A stream that does not block.
pub(super) trait Socket: Read + Write + AsFd + Send {}

impl<S: Read + Write + AsFd + Send> Socket for S {}

pub(super) struct Connection {
    socket: Box<dyn Socket>,
    /// Who is at the other end.
    peer: String,
    /// By which door it came.
    door: usize,
    /// Whether it has ever said anything, and when it was heard of last.
    heard: (bool, Time),
    /// Whether it may have asked for what is not done yet.
    asks: bool,
    /// What it is to be told behind that, and how much memory each of these takes: by itself, and for what it shares with others.
    owed: VecDeque<(Message, (usize, usize))>,
    /// The sums of these.
    owed_bytes: (usize, usize),
    /// What is still to be sent, of which so many bytes are sent already.
    backlog: Vec<u8>,
    sent: usize,
    /// How much was ever sent.
    sent_in_all: u64,
    /// Since when it does not keep up, and how much was sent by then.
    behind: Option<(Time, u64)>,
    /// Nothing is read any more; it is closed when all is sent.
    ends: bool,
}

impl Connection {
    pub(super) fn new(socket: Box<dyn Socket>, peer: String, door: usize, now: Time) -> Self {
        Self {
            socket,
            peer,
            door,
            heard: (false, now),
            asks: false,
            owed: VecDeque::new(),
            owed_bytes: (0, 0),
            backlog: Vec::new(),
            sent: 0,
            sent_in_all: 0,
            behind: None,
            ends: false,
        }
    }

    pub(super) const fn door(&self) -> usize {
        self.door
    }

    /// Whether it has ever said anything, and when it was heard of last: who is the least of a loss comes first.
    pub(super) const fn heard(&self) -> (bool, Time) {
        self.heard
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    /// What it waits for, if it does, where so much waits in all by its door.
    pub(super) fn poll(&self, all: usize) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.ends && !self.asks && self.has_room(all) && self.owed.is_empty());
        flags.set(PollFlags::OUT, self.backlog() > 0);
        (!flags.is_empty()).then(|| PollFd::new(&self.socket, flags))
    }

    /// Whether something that it asks for can be done.
    pub(super) fn may_ask(&self, all: usize) -> bool {
        self.asks && self.owed.is_empty() && self.has_room(all)
    }

    /// Whether something that it is to be told can go into its backlog, where those of its door have so many bytes: then somebody has one,
    /// and reads or is let go.
    pub(super) fn may_be_told(&self, backlogs: usize) -> bool {
        !self.owed.is_empty() && self.has_room(backlogs)
    }

    const fn has_room(&self, all: usize) -> bool {
        self.backlog() < ENOUGH && all < WAITING
    }

    /// How many bytes wait to be read by it.
    pub(super) const fn backlog(&self) -> usize {
        self.backlog.len() - self.sent
    }

    /// The same with what is to come behind that.
    pub(super) const fn waiting(&self) -> usize {
        self.backlog() + self.owed_bytes.0
    }

    /// The same with what it shares with others.
    pub(super) const fn unread(&self) -> usize {
        self.waiting() + self.owed_bytes.1
    }

    /// Since when it has not kept up.
    pub(super) fn behind(&self) -> Option<Time> {
        self.behind.map(|(since, _)| since)
    }

    /// Reads once: others have a turn too, and what is answered may be much more than what is asked.
    pub(super) fn read(&mut self, now: Time, mut hear: impl FnMut(&[u8])) {
        if self.ends || self.asks {
            return;
        }
        let mut bytes = [0; 8 << 10];
        match self.socket.read(&mut bytes) {
            Ok(0) => self.ends = true,
            Ok(length) => {
                self.heard = (true, now);
                self.asks = true;
                hear(&bytes[..length]);
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.abandon(),
        }
    }

    /// All that it has asked for is done.
    pub(super) const fn is_answered(&mut self) {
        self.asks = false;
    }

    pub(super) fn send(&mut self, message: Message) {
        let (own, mut shared) = message.bytes();
        // What several of its monitors tell of is there once.
        if self.owed.back().is_some_and(|(last, _)| last.shares_with(&message)) {
            shared = 0;
        }
        self.owed_bytes.0 += own;
        self.owed_bytes.1 += shared;
        self.owed.push_back((message, (own, shared)));
    }

    /// It is closed when all is sent.
    pub(super) const fn end(&mut self) {
        self.ends = true;
    }

    /// There is nobody to send anything to.
    fn abandon(&mut self) {
        self.ends = true;
        self.owed.clear();
        self.owed_bytes = (0, 0);
        self.backlog.clear();
        self.sent = 0;
    }

    pub(super) const fn is_ending(&self) -> bool {
        self.ends
    }

    pub(super) const fn is_done(&self) -> bool {
        self.ends && self.unread() == 0
    }

    /// Sends as much as can be sent, and makes what is to be sent as there is room for it, where the backlogs of its door have so
    /// many bytes.
    pub(super) fn write(&mut self, now: Time, backlogs: &mut usize) {
        let others = *backlogs - self.backlog();
        self.flush();
        while self.may_be_told(others + self.backlog())
            && let Some((message, (own, shared))) = self.owed.pop_front()
        {
            self.owed_bytes.0 -= own;
            self.owed_bytes.1 -= shared;
            if let Some(text) = message.into_text() {
                self.backlog.extend_from_slice(text.as_bytes());
                self.flush();
            }
        }
        *backlogs = others + self.backlog();
        // Who is told nothing, as others fill the door, could not read it.
        self.behind = match self.behind {
            _ if self.backlog() == 0 => None,
            Some((since, sent)) if self.sent_in_all - sent < KEEPS_UP => Some((since, sent)),
            _ => Some((now, self.sent_in_all)),
        };
    }

    fn flush(&mut self) {
        while self.backlog() > 0 {
            match self.socket.write(&self.backlog[self.sent..]) {
                Ok(length) => {
                    self.sent += length;
                    self.sent_in_all += length as u64;
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.abandon(),
            }
        }
        // Sent bytes are forgotten when they are as many as those that are not.
        if self.sent >= self.backlog() {
            self.backlog.drain(..self.sent);
            self.backlog.shrink_to(KEPT);
            self.sent = 0;
        }
    }
}
