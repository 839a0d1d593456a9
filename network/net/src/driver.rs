//! The thread that moves frames along links.

use crate::link::{Counts, Direction};
use crate::tell::tell;
use crate::{Error, Quality};
use fulmar_node::Time;
use fulmar_port::{Frame, Port, offload};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// So many frames are taken from a port before the next one's turn.
const BATCH: usize = 64;

/// A link with what it is plugged into: what comes in at one end goes out at the other. An end may be gone.
pub(crate) struct Wire {
    ends: [Option<Port>; 2],
    /// The first is from the first end to the second.
    directions: [Direction; 2],
}

impl Wire {
    pub(crate) fn new(ends: [Port; 2], quality: &Quality, seed: u64) -> Self {
        let direction = |side| Direction::new(quality.clone(), 2 * seed + side);
        Self { ends: ends.map(Some), directions: [direction(0), direction(1)] }
    }

    pub(crate) fn set_quality(&mut self, quality: &Quality) {
        for direction in &mut self.directions {
            direction.set_quality(quality.clone());
        }
    }

    /// What is plugged in at an end, from now on.
    pub(crate) fn plug(&mut self, side: usize, port: Option<Port>) {
        self.ends[side] = port;
    }

    pub(crate) fn counts(&self) -> [Counts; 2] {
        [0, 1].map(|side| self.directions[side].counts())
    }
}

type Order = Box<dyn FnOnce(&mut Vec<Wire>) + Send>;

/// The thread, for others. It ends with this value, and the wires with it.
pub(crate) struct Driver {
    /// Nothing while it ends.
    orders: Option<Sender<Order>>,
    waker: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(crate) fn start(wires: Vec<Wire>) -> Result<Self, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let waker = Arc::new(eventfd(0, flags).map_err(Error::cannot("make an eventfd"))?);
        let (orders, incoming) = channel();
        let traffic = Traffic {
            wires,
            orders: incoming,
            waker: waker.clone(),
            start: Instant::now(),
            scratch: Vec::new(),
        };
        let thread = Builder::new()
            .name("links".into())
            .spawn(|| traffic.run())
            .map_err(Error::cannot("start a thread"))?;
        Ok(Self { orders: Some(orders), waker, thread: Some(thread) })
    }

    /// Does something with the wires, between two batches of frames. Nothing, if the thread has ended.
    pub(crate) fn with<T: Send + 'static>(
        &self,
        does: impl FnOnce(&mut Vec<Wire>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = channel();
        // Who asks waits for it.
        self.orders.as_ref()?.send(Box::new(move |wires| drop(answer.send(does(wires))))).ok()?;
        self.wake();
        answered.recv().ok()
    }

    fn wake(&self) {
        // If it cannot be written to, it is readable.
        let _ = rustix::io::write(&self.waker, &[0, 0, 0, 0, 0, 0, 0, 1]);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.orders = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told already.
            let _ = thread.join();
        }
    }
}

struct Traffic {
    wires: Vec<Wire>,
    orders: Receiver<Order>,
    waker: Arc<OwnedFd>,
    start: Instant,
    scratch: Vec<u8>,
}

impl Traffic {
    fn run(mut self) {
        // By default the kernel is up to 50 microseconds late. If it will not be in time, links are that much longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        loop {
            match self.orders.try_recv() {
                Ok(order) => order(&mut self.wires),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    if self.turn() == 0 {
                        self.sleep();
                    }
                }
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Takes what has come and passes on what is due; how many frames those were.
    fn turn(&mut self) -> usize {
        let mut moved = 0;
        for at in 0..self.wires.len() {
            for side in [0, 1] {
                let now = self.now();
                moved += take(&mut self.wires[at], side, now, &mut self.scratch);
                let now = self.now();
                moved += pass_on(&mut self.wires[at], side, now);
            }
        }
        moved
    }

    /// Waits until a frame comes or is due, or there is an order.
    fn sleep(&self) {
        let directions = self.wires.iter().flat_map(|wire| &wire.directions);
        let wait = directions.filter_map(Direction::next_due).min().map(|due| due.since(self.now()));
        let mut files = vec![PollFd::new(&*self.waker, PollFlags::IN)];
        let ends = self.wires.iter().flat_map(|wire| &wire.ends).flatten();
        files.extend(ends.map(|port| PollFd::new(port, PollFlags::IN)));
        // Interrupted or not, what there is to do is found by looking.
        let _ = poll(&mut files, wait.map(timespec).as_ref());
        let _ = rustix::io::read(&*self.waker, &mut [0; 8]);
    }
}

fn timespec(duration: Duration) -> Timespec {
    let tv_sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: duration.subsec_nanos().into() }
}

/// Takes what has come at an end of a wire; how many frames.
fn take(wire: &mut Wire, side: usize, now: Time, scratch: &mut Vec<u8>) -> usize {
    let Wire { ends, directions } = wire;
    let Some(port) = &mut ends[side] else { return 0 };
    let direction = &mut directions[side];
    match port.receive(BATCH, |frame| enter(direction, now, &frame, scratch)) {
        Ok(count) => count,
        Err(why) => {
            tell(format_args!("fulmar net: a link has lost its end: {why}"));
            ends[side] = None;
            0
        }
    }
}

fn enter(direction: &mut Direction, now: Time, frame: &Frame<'_>, scratch: &mut Vec<u8>) {
    if frame.offload.segmentation.is_none() || !direction.quality().is_by_frame() {
        direction.send(now, frame.bytes(), frame.offload);
        return;
    }
    // One that cannot be cut is a kernel's mistake, and goes nowhere.
    let _ = offload::finish(frame.bytes(), frame.offload, scratch, |segment| {
        direction.send(now, segment, fulmar_port::Offload::NONE);
    });
}

/// Gives what has arrived, from this end, to the other; how many frames.
fn pass_on(wire: &mut Wire, side: usize, now: Time) -> usize {
    let Wire { ends, directions } = wire;
    let mut moved = 0;
    while let Some((frame, offload)) = directions[side].take_due(now) {
        moved += 1;
        if let Some(port) = &mut ends[1 - side] {
            port.send(&frame, offload);
        }
    }
    if let Some(port) = ends[1 - side].as_mut().filter(|_| moved > 0) {
        port.flush();
    }
    moved
}
