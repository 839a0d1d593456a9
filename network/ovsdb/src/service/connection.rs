//! A client's connection: bytes that come and go.

use fulmar_node::Time;
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

/// While so many bytes wait to be read by a client, nothing more is read from it.
const ENOUGH: usize = 1 << 20;
/// A client for which so many bytes wait, as it is told of changes faster than it reads, is let go.
const TOO_MUCH: usize = 64 << 20;

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
    /// What is still to be sent, of which so many bytes are sent already.
    backlog: Vec<u8>,
    sent: usize,
    /// Nothing is read any more; it is closed when all is sent.
    ends: bool,
}

impl Connection {
    pub(super) fn new(socket: Box<dyn Socket>, peer: String, door: usize, now: Time) -> Self {
        Self { socket, peer, door, heard: (false, now), backlog: Vec::new(), sent: 0, ends: false }
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

    /// What it waits for.
    pub(super) fn poll(&self) -> PollFd<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.is_read());
        flags.set(PollFlags::OUT, self.waiting() > 0);
        PollFd::new(&self.socket, flags)
    }

    fn is_read(&self) -> bool {
        !self.ends && self.waiting() < ENOUGH
    }

    const fn waiting(&self) -> usize {
        self.backlog.len() - self.sent
    }

    /// Reads once: others have a turn too, and what is answered may be much more than what is asked.
    pub(super) fn read(&mut self, now: Time, mut hear: impl FnMut(&[u8])) {
        if !self.is_read() {
            return;
        }
        let mut bytes = [0; 8 << 10];
        match self.socket.read(&mut bytes) {
            Ok(0) => self.ends = true,
            Ok(length) => {
                self.heard = (true, now);
                hear(&bytes[..length]);
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.abandon(),
        }
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.backlog.extend_from_slice(message.to_string().as_bytes());
    }

    /// It is closed when all is sent.
    pub(super) const fn end(&mut self) {
        self.ends = true;
    }

    /// There is nobody to send anything to.
    fn abandon(&mut self) {
        self.ends = true;
        self.backlog.clear();
        self.sent = 0;
    }

    pub(super) const fn is_ending(&self) -> bool {
        self.ends
    }

    pub(super) const fn is_done(&self) -> bool {
        self.ends && self.waiting() == 0
    }

    /// Sends as much as can be sent.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while self.waiting() > 0 {
            match self.socket.write(&self.backlog[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.abandon(),
            }
        }
        if self.waiting() > TOO_MUCH {
            let details = format!("it has not read {} bytes: expected {TOO_MUCH} at most", self.waiting());
            return Err(io::Error::other(details));
        }
        // Sent bytes are forgotten when they are as many as those that are not.
        if self.sent >= self.waiting() {
            self.backlog.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}
