//! Ports inside a process: patch ports, and ends of simulated links.

use crate::{Error, Frame, LONGEST_FRAME, Link, Offload, Port, Traffic, Trail, port};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Room before each frame.
const HEADROOM: usize = 128;
/// So many frames wait in each direction.
const MOST_WAITING: usize = 4096;

/// What the other end has sent, with what is left to be done to it.
#[derive(Debug)]
pub struct Receiver {
    incoming: Arc<Direction>,
    received: Traffic,
}

/// What the other end will receive.
#[derive(Debug)]
pub struct Sender {
    outgoing: Arc<Direction>,
    unsent: Vec<Waiting>,
    sent: Traffic,
}

/// A frame, behind its headroom.
#[derive(Debug)]
struct Waiting {
    buffer: Vec<u8>,
    offload: Offload,
    trail: Trail,
}

#[derive(Debug)]
struct Direction {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Readable while anything waits.
    signal: OwnedFd,
}

impl Direction {
    fn new() -> Result<Arc<Self>, Error> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::refused("(in memory)", "a signal"))?;
        Ok(Arc::new(Self { waiting: Mutex::default(), signal }))
    }

    /// A queue is whole between any two of its frames, wherever another thread has panicked.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of a link.
///
/// # Errors
///
/// If the process has too many open files.
pub fn pair() -> Result<(Port, Port), Error> {
    let (there, back) = (Direction::new()?, Direction::new()?);
    let end = |incoming: &Arc<Direction>, outgoing: &Arc<Direction>| {
        let receiver = Receiver { incoming: incoming.clone(), received: Traffic::default() };
        let sender = Sender { outgoing: outgoing.clone(), unsent: Vec::new(), sent: Traffic::default() };
        Port::new(port::Receiver::Memory(receiver), port::Sender::Memory(sender))
    };
    Ok((end(&back, &there), end(&there, &back)))
}

impl Receiver {
    pub(crate) fn receive(&mut self, limit: usize, mut each: impl FnMut(Frame<'_>)) -> usize {
        let mut count = 0;
        while count < limit {
            let mut waiting = self.incoming.waiting();
            let Some(Waiting { mut buffer, offload, trail }) = waiting.pop_front() else { break };
            if waiting.is_empty() {
                // Under the lock, so that it does not take the signal of a frame that has come since.
                let _ = rustix::io::read(&self.incoming.signal, &mut [0; 8]);
            }
            drop(waiting);
            count += 1;
            self.received.count(buffer.len() - HEADROOM);
            let mut frame = Frame::new(&mut buffer, HEADROOM, offload);
            frame.trail = Some(trail);
            each(frame);
        }
        count
    }

    pub(crate) fn received(&self) -> Traffic {
        self.received
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch(Arc::downgrade(&self.incoming))
    }
}

/// Whether both ends are there.
#[derive(Clone, Debug)]
pub(crate) struct Watch(Weak<Direction>);

impl Watch {
    pub(crate) fn link(&self) -> Link {
        // The receiver has a share, and the other end's sender the other.
        let is_running = self.0.strong_count() > 1;
        Link { is_up: true, is_running, mtu: 65_535, ..Link::default() }
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.incoming.signal.as_fd()
    }
}

impl Sender {
    /// Says whether it goes on.
    pub(crate) fn send(&mut self, frame: &[u8], offload: Offload, trail: Option<&Trail>) -> bool {
        let trail = Trail::after(trail).filter(|_| frame.len() <= LONGEST_FRAME);
        let Some(trail) = trail else {
            self.sent.errors += 1;
            return false;
        };
        let mut buffer = vec![0; HEADROOM + frame.len()];
        buffer[HEADROOM..].copy_from_slice(frame);
        self.unsent.push(Waiting { buffer, offload, trail });
        true
    }

    pub(crate) fn flush(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        let mut waiting = self.outgoing.waiting();
        for frame in self.unsent.drain(..) {
            if waiting.len() == MOST_WAITING {
                self.sent.dropped += 1;
            } else {
                self.sent.count(frame.buffer.len() - HEADROOM);
                waiting.push_back(frame);
            }
        }
        // It fails only if it would count to 2^64: it is readable then.
        let _ = rustix::io::write(&self.outgoing.signal, &[0, 0, 0, 0, 0, 0, 0, 1]);
    }

    pub(crate) fn sent(&self) -> Traffic {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Checksum;

    #[test]
    fn frames_arrive_in_their_order_as_they_were_sent() {
        let (mut here, mut there) = pair().expect("a pair");
        let offload = Offload { checksum: Some(Checksum { start: 34, offset: 6 }), segmentation: None };
        for number in 0..100u8 {
            here.send(&[number; 60], offload);
        }
        assert_eq!(there.receive(1, |_| {}).expect("it never fails"), 0, "nothing was flushed");
        here.flush();
        let mut expected = 0..;
        let mut check = |frame: Frame<'_>| {
            assert_eq!(
                (frame.bytes(), frame.offload),
                (&[expected.next().expect("endless"); 60][..], offload)
            );
            assert!(frame.headroom() >= 64);
        };
        assert_eq!(there.receive(64, &mut check).expect("it never fails"), 64);
        assert_eq!(there.receive(64, &mut check).expect("it never fails"), 36);
        assert_eq!(there.receive(64, &mut check).expect("it never fails"), 0);
        assert_eq!((here.counters().sent.packets, there.counters().received.bytes), (100, 6_000));
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let (mut here, mut there) = pair().expect("a pair");
        for _ in 0..MOST_WAITING + 3 {
            here.send(&[0; 60], Offload::NONE);
        }
        here.send(&vec![0; LONGEST_FRAME + 1], Offload::NONE);
        here.flush();
        assert_eq!((here.counters().sent.dropped, here.counters().sent.errors), (3, 1));
        assert_eq!(there.receive(usize::MAX, |_| {}).expect("it never fails"), MOST_WAITING);
        drop(there);
        assert!(!here.link().expect("it is there").is_running);
    }

    #[test]
    fn it_is_readable_while_something_waits() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let (mut here, mut there) = pair().expect("a pair");
        let is_readable = |port: &Port| {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(port, PollFlags::IN)], Some(&now)).expect("it polls") > 0
        };
        assert!(!is_readable(&there));
        here.send(&[0; 60], Offload::NONE);
        here.send(&[0; 60], Offload::NONE);
        here.flush();
        assert!(is_readable(&there));
        assert_eq!(there.receive(1, |_| {}).expect("it never fails"), 1);
        assert!(is_readable(&there));
        assert_eq!(there.receive(1, |_| {}).expect("it never fails"), 1);
        assert!(!is_readable(&there));
    }
}
