//! Frames on their way out: many small ones with one system call.

use crate::kernel::{MOST_MESSAGES, send_messages};
use crate::link::Traffic;
use crate::offload::{self, HEADER, Offload};
use rustix::io::{Errno, writev};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

/// Longer ones are sent from where they lie: copying them would cost more than a system call.
const LONG: usize = 4096;

/// Frames that wait to be sent, each after the header that says what is left to be done to it.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Outbox {
    /// Sends a frame: at once, after those that wait, if it is long or if they are many.
    pub(super) fn push(
        &mut self,
        socket: BorrowedFd<'_>,
        frame: &[u8],
        offload: Offload,
        sent: &mut Traffic,
    ) {
        let header = offload::write(offload);
        if frame.len() > LONG {
            self.flush(socket, sent);
            let pieces = [IoSlice::new(&header), IoSlice::new(frame)];
            match writev(socket, &pieces) {
                Ok(_) => sent.count(frame.len()),
                Err(why) => count_failure(why, sent),
            }
        } else {
            self.bytes.extend_from_slice(&header);
            self.bytes.extend_from_slice(frame);
            self.ends.push(self.bytes.len());
            if self.ends.len() == MOST_MESSAGES {
                self.flush(socket, sent);
            }
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>, sent: &mut Traffic) {
        if self.ends.is_empty() {
            return;
        }
        let mut start = 0;
        let mut messages = [IoSlice::new(&[]); MOST_MESSAGES];
        for (message, end) in messages.iter_mut().zip(&self.ends) {
            *message = IoSlice::new(&self.bytes[start..*end]);
            start = *end;
        }
        let mut rest = &messages[..self.ends.len()];
        while !rest.is_empty() {
            let taken = send_messages(socket, rest).unwrap_or_else(|why| {
                // It is the first one's, which is lost. The others may do better.
                count_failure(why, sent);
                rest = &rest[1..];
                0
            });
            rest[..taken].iter().for_each(|message| sent.count(message.len() - HEADER));
            rest = &rest[taken..];
        }
        self.bytes.clear();
        self.ends.clear();
    }
}

fn count_failure(why: Errno, sent: &mut Traffic) {
    match why {
        Errno::AGAIN | Errno::NOBUFS => sent.dropped += 1,
        _ => sent.errors += 1,
    }
}
