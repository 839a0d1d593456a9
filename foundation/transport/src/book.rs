//! Addresses of servers, and when one that did not answer may be tried again.

use crate::address::Address;
use fulmar_node::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Book {
    addresses: BTreeMap<NodeId, Address>,
    /// Servers that could not be reached when last tried.
    failures: BTreeMap<NodeId, Failure>,
}

#[derive(Debug)]
struct Failure {
    pause: Duration,
    again: Time,
}

impl Book {
    /// Notes a server's address in place of any before, which may be tried at once.
    pub(crate) fn insert(&mut self, node: NodeId, address: Address) {
        self.addresses.insert(node, address);
        self.failures.remove(&node);
    }

    pub(crate) fn address(&self, node: NodeId) -> Option<&Address> {
        self.addresses.get(&node)
    }

    pub(crate) fn may_dial(&self, node: NodeId, now: Time) -> bool {
        self.failures.get(&node).is_none_or(|failure| failure.again <= now)
    }

    /// Waits twice as long as last time before the next attempt, from 10 ms up to 1 s.
    pub(crate) fn failed(&mut self, node: NodeId, now: Time) {
        let failure = self.failures.entry(node).or_insert(Failure { pause: FIRST_PAUSE / 2, again: now });
        failure.pause = (failure.pause * 2).min(LONGEST_PAUSE);
        failure.again = now + failure.pause;
    }

    /// Who asks anew may try all at once.
    pub(crate) fn forgive(&mut self) {
        self.failures.clear();
    }

    pub(crate) fn reached(&mut self, node: NodeId) {
        self.failures.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_end_with_success() {
        let node = NodeId(1);
        let mut book = Book::default();
        let mut now = Time::ZERO;
        for milliseconds in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            assert!(book.may_dial(node, now));
            book.failed(node, now);
            let pause = Duration::from_millis(milliseconds);
            assert!(!book.may_dial(node, now + pause - Duration::from_nanos(1)));
            now = now + pause;
        }
        book.reached(node);
        book.failed(node, now);
        assert!(book.may_dial(node, now + FIRST_PAUSE));
    }
}
