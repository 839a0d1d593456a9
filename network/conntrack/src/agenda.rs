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

    const fn duration(self) -> Duration {
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

#[derive(Clone, Copy)]
struct Entry {
    expires: Duration,
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
/// In each list, `expires` never decreases, because the time never does.
pub(crate) struct Agenda {
    entries: Vec<Entry>,
    lists: [List; Timeout::COUNT],
    /// No entry expires before.
    earliest: Duration,
}

impl Agenda {
    pub(crate) fn new() -> Self {
        let empty = List { first: NONE, last: NONE };
        Self { entries: Vec::new(), lists: [empty; Timeout::COUNT], earliest: Duration::MAX }
    }

    /// Makes a new entry wait.
    pub(crate) fn insert(&mut self, number: u32, now: Duration, timeout: Timeout) {
        let entry = Entry { expires: Duration::ZERO, before: NONE, after: NONE, list: 0 };
        if self.entries.len() <= number as usize {
            self.entries.resize(number as usize + 1, entry);
        }
        self.append(number, now, timeout);
    }

    /// Makes an entry wait anew.
    pub(crate) fn renew(&mut self, number: u32, now: Duration, timeout: Timeout) {
        self.remove(number);
        self.append(number, now, timeout);
    }

    fn append(&mut self, number: u32, now: Duration, timeout: Timeout) {
        let expires = now + timeout.duration();
        let list = &mut self.lists[timeout as usize];
        self.entries[number as usize] =
            Entry { expires, before: list.last, after: NONE, list: timeout as u8 };
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

    /// When an entry is to go.
    pub(crate) fn expires(&self, number: u32) -> Duration {
        self.entries[number as usize].expires
    }

    /// An entry whose time is over.
    pub(crate) fn due(&mut self, now: Duration) -> Option<u32> {
        if now < self.earliest {
            return None;
        }
        let fronts = self.lists.iter().filter(|list| list.first != NONE).map(|list| list.first);
        let next = fronts.min_by_key(|first| self.entries[*first as usize].expires);
        self.earliest = next.map_or(Duration::MAX, |first| self.expires(first));
        next.filter(|_| self.earliest <= now)
    }
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
                now += Duration::from_secs(random.below(20) * random.below(20));
                while let Some(number) = agenda.due(now) {
                    let expires = oracle.remove(&number).expect("it waits");
                    assert!(expires <= now && oracle.values().all(|other| *other >= expires), "seed {seed}");
                    agenda.remove(number);
                }
                assert!(oracle.values().all(|expires| *expires > now), "seed {seed}: one is late");
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
