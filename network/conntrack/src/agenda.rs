//! When connections time out.
//!
//! All that wait equally long are in a list, in the order in which they began to: what times out next is at its front, and to wait
//! anew is to go to its end.

use std::time::Duration;

/// For how long a connection is remembered after a packet, by what has been seen of it: the defaults of Open vSwitch's connection
/// tracking in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    SynSent,
    SynReceived,
    Established,
    FinWait,
    TimeWait,
    Close,
    /// Datagrams in one direction.
    DatagramSingle,
    /// Datagrams in both.
    DatagramMultiple,
    QueryFirst,
    QueryReply,
}

impl Timeout {
    const COUNT: usize = 10;

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::SynSent | Self::SynReceived | Self::Close => 30,
            Self::Established => 24 * 60 * 60,
            Self::FinWait => 15 * 60,
            Self::TimeWait => 45,
            Self::DatagramSingle | Self::QueryFirst => 60,
            Self::DatagramMultiple | Self::QueryReply => 30,
        })
    }
}

/// In the place of the number of an entry.
const NONE: u32 = u32::MAX;
/// An entry whose time has moved by less stays in its place: to move it takes a look at its neighbours, which a packet of a busy
/// connection is better spared.
const GRAIN: u64 = 1_000_000_000;

/// Times are in nanoseconds.
#[derive(Clone, Copy)]
struct Entry {
    expires: u64,
    /// What that was when it came to its place: no more than [`GRAIN`] ago.
    placed: u64,
    before: u32,
    after: u32,
    list: u8,
}

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

/// The entries, by numbers that the caller gives: small ones, as they are places in this.
///
/// In each list, `placed` never decreases, because the time never does.
pub(crate) struct Agenda {
    entries: Vec<Entry>,
    lists: [List; Timeout::COUNT],
    /// No front of a list expires before.
    earliest: u64,
}

impl Agenda {
    pub(crate) fn new() -> Self {
        let empty = List { first: NONE, last: NONE };
        Self { entries: Vec::new(), lists: [empty; Timeout::COUNT], earliest: u64::MAX }
    }

    /// Makes a new entry wait.
    pub(crate) fn insert(&mut self, number: u32, now: Duration, timeout: Timeout) {
        let entry = Entry { expires: 0, placed: 0, before: NONE, after: NONE, list: 0 };
        if self.entries.len() <= number as usize {
            self.entries.resize(number as usize + 1, entry);
        }
        self.append(number, nanoseconds(now.saturating_add(timeout.duration())), timeout);
    }

    /// Makes an entry wait anew.
    pub(crate) fn renew(&mut self, number: u32, now: Duration, timeout: Timeout) {
        let expires = nanoseconds(now.saturating_add(timeout.duration()));
        let entry = &mut self.entries[number as usize];
        if entry.list == timeout as u8 && expires - entry.placed < GRAIN {
            entry.expires = expires;
            return;
        }
        self.remove(number);
        self.append(number, expires, timeout);
    }

    fn append(&mut self, number: u32, expires: u64, timeout: Timeout) {
        let list = &mut self.lists[timeout as usize];
        self.entries[number as usize] =
            Entry { expires, placed: expires, before: list.last, after: NONE, list: timeout as u8 };
        match list.last {
            NONE => list.first = number,
            last => self.entries[last as usize].after = number,
        }
        list.last = number;
        self.earliest = self.earliest.min(expires);
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, number: u32) {
        let Entry { before, after, list, .. } = self.entries[number as usize];
        let list = &mut self.lists[usize::from(list)];
        match before {
            NONE => list.first = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.entries[after as usize].before = before,
        }
    }

    /// Whether an entry's time is over.
    pub(crate) fn is_over(&self, number: u32, now: Duration) -> bool {
        self.entries[number as usize].expires <= nanoseconds(now)
    }

    /// An entry whose time is over; of those for which it is since less than a second, perhaps none.
    pub(crate) fn due(&mut self, now: Duration) -> Option<u32> {
        let now = nanoseconds(now);
        if now < self.earliest {
            return None;
        }
        let fronts = self.lists.iter().filter(|list| list.first != NONE).map(|list| list.first);
        let expires = |first: &u32| self.entries[*first as usize].expires;
        let next = fronts.min_by_key(expires);
        let earliest = next.as_ref().map_or(u64::MAX, expires);
        self.earliest = earliest;
        next.filter(|_| earliest <= now)
    }
}

/// Enough for centuries.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;
    use std::collections::BTreeMap;

    const TIMEOUTS: [Timeout; Timeout::COUNT] = [
        Timeout::SynSent,
        Timeout::SynReceived,
        Timeout::Established,
        Timeout::FinWait,
        Timeout::TimeWait,
        Timeout::Close,
        Timeout::DatagramSingle,
        Timeout::DatagramMultiple,
        Timeout::QueryFirst,
        Timeout::QueryReply,
    ];

    #[test]
    fn each_goes_at_its_time() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let (mut agenda, mut oracle) = (Agenda::new(), BTreeMap::new());
            let mut now = Duration::ZERO;
            for _ in 0..300 {
                now += Duration::from_millis(random.below(200) * random.below(200) * random.below(10));
                while let Some(number) = agenda.due(now) {
                    let expires = oracle.remove(&number).expect("it waits");
                    assert!(expires <= now, "seed {seed}");
                    agenda.remove(number);
                }
                for (number, expires) in &oracle {
                    assert!(*expires + Duration::from_nanos(GRAIN) > now, "seed {seed}: it is late");
                    assert_eq!(agenda.is_over(*number, now), *expires <= now, "seed {seed}");
                }
                let number = u32::try_from(random.below(40)).expect("small");
                let timeout = TIMEOUTS[random.index(TIMEOUTS.len())];
                if oracle.contains_key(&number) && random.one_in(4) {
                    oracle.remove(&number);
                    agenda.remove(number);
                } else if oracle.insert(number, now + timeout.duration()).is_some() {
                    agenda.renew(number, now, timeout);
                } else {
                    agenda.insert(number, now, timeout);
                }
            }
        }
    }
}
