//! Where frames go out: threads may all send to one port.

use fulmar_port::{Offload, Sender, Trail};
use fulmar_vswitch::{PortCounters, Traffic};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A port's exit.
pub(super) enum Exit {
    /// One thread alone has it, which spares a lock for each frame.
    Own(Sender),
    /// Threads have it in common.
    Shared(Arc<Mutex<Sender>>),
}

impl Exit {
    /// An exit for each of so many threads, of a port that has one exit, or one for each.
    pub(super) fn for_threads(count: usize, senders: Vec<Sender>) -> Vec<Self> {
        if senders.len() == count {
            return senders.into_iter().map(Self::Own).collect();
        }
        let shared: Vec<_> = senders.into_iter().map(|sender| Arc::new(Mutex::new(sender))).collect();
        shared.iter().cycle().take(count).map(|sender| Self::Shared(sender.clone())).collect()
    }

    fn send(&mut self, bytes: &[u8], offload: Offload, trail: Option<&Trail>) -> bool {
        match self {
            Self::Own(sender) => sender.pass_on(bytes, offload, trail),
            Self::Shared(sender) => sender.lock().pass_on(bytes, offload, trail),
        }
    }

    fn flush(&mut self) -> bool {
        match self {
            Self::Own(sender) => sender.flush(),
            Self::Shared(sender) => sender.lock().flush(),
        }
    }
}

/// A port's exit, as one thread has it.
struct Way {
    number: u32,
    exit: Exit,
    counters: Arc<PortCounters>,
    /// Frames of this thread that wait to be sent: they are counted all at once.
    waiting: Traffic,
    /// Its interface had no room for all.
    is_full: bool,
}

/// All exits, as one thread has them.
#[derive(Default)]
pub(super) struct Exits {
    ways: Vec<Way>,
    /// By a port's number, where its way is.
    places: HashMap<u32, usize, foldhash::fast::RandomState>,
}

impl Exits {
    pub(super) fn add(&mut self, number: u32, exit: Exit, counters: Arc<PortCounters>) {
        self.ways.push(Way { number, exit, counters, waiting: Traffic::default(), is_full: false });
        self.index();
    }

    /// Those of ports that leave are nobody's any more; which they were. What waits there is lost.
    pub(super) fn remove(&mut self, leaves: impl Fn(u32) -> bool) -> Vec<Exit> {
        let (gone, stay): (Vec<_>, _) =
            std::mem::take(&mut self.ways).into_iter().partition(|way| leaves(way.number));
        self.ways = stay;
        self.index();
        gone.into_iter().map(|way| way.exit).collect()
    }

    fn index(&mut self) {
        self.places = self.ways.iter().enumerate().map(|(place, way)| (way.number, place)).collect();
    }

    /// Sends a frame, at the latest with the next [`flush`](Self::flush); nothing happens if there is no such port.
    pub(super) fn send(&mut self, port: u32, bytes: &[u8], offload: Offload, trail: Option<&Trail>) {
        let Some(way) = self.places.get(&port).and_then(|place| self.ways.get_mut(*place)) else { return };
        if way.exit.send(bytes, offload, trail) {
            way.waiting.packets += 1;
            way.waiting.bytes += bytes.len() as u64;
        } else {
            way.counters.have_sent(Traffic { packets: 1, bytes: bytes.len() as u64 }, false);
        }
    }

    /// Sends all frames of this thread that wait; what an interface has no room for, is for the next time. Says whether there is none of
    /// that.
    pub(super) fn flush(&mut self) -> bool {
        for way in self.ways.iter_mut().filter(|way| way.waiting.packets > 0 || way.is_full) {
            if way.waiting.packets > 0 {
                way.counters.have_sent(std::mem::take(&mut way.waiting), true);
            }
            way.is_full = !way.exit.flush();
        }
        self.ways.iter().all(|way| !way.is_full)
    }
}
