//! Any datagrams from strangers, in any order, to a node that looks for others, and time that passes.
#![no_main]

use fulmar_discovery::live::{Due, Event, Finder, LARGEST_MESSAGE, MOST_MEMBERS, Message, Name, Request};
use fulmar_node::{NodeId, Outbox, Process, Time, TimerChange};
use fulmar_transport::Wire;
use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest answer to a datagram in datagrams, and the word to a centre that this node leaves.
const MOST_ANSWERS: usize = 8 + 1;
/// Beside those whom it watches and those whom it was told of, a node speaks at once to four of the dead, to its centre and to
/// two that it leaves.
const MOST_OTHERS: usize = 4 + 1 + 2;
const KNOWN: [([u8; 4], u16); 2] = [([10, 0, 0, 1], 7000), ([10, 0, 0, 9], 7000)];

struct Node {
    finder: Finder,
    now: Time,
    due: Option<Time>,
    departed: bool,
}

impl Node {
    fn start() -> Self {
        let own = SocketAddr::from(([10, 0, 0, 5], 7000));
        let finder = Finder::new(own, Name::default(), KNOWN.map(SocketAddr::from));
        let mut node = Self { finder, now: Time::ZERO + Duration::from_secs(1), due: None, departed: false };
        node.step(KNOWN.len(), |finder, now, out| finder.start(now, out));
        node
    }

    /// Takes a step, upon which it may send so much.
    fn step(&mut self, most: usize, step: impl FnOnce(&mut Finder, Time, &mut Outbox<Finder>)) {
        let mut out = Outbox::default();
        step(&mut self.finder, self.now, &mut out);
        assert!(out.sends.len() <= most, "{} datagrams, not {most}", out.sends.len());
        assert!(!self.departed || out.is_empty(), "a word from beyond");
        for (to, message) in &out.sends {
            assert!(self.finder.address(*to).is_some(), "{to} is nobody");
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(bytes.len() <= LARGEST_MESSAGE);
        }
        for (Due, change) in &out.timers {
            self.due = match change {
                TimerChange::Set(due) => Some(*due),
                TimerChange::Cancel => None,
            };
        }
        self.departed |= out.events.contains(&Event::Departed);
        assert!(self.finder.members().count() <= MOST_MEMBERS);
        assert!(self.finder.members().any(|member| member == self.finder.me()));
        assert!(self.finder.centre() <= self.finder.me().address);
    }

    fn receive(&mut self, datagram: &[u8]) {
        let Ok(message) = Message::decode(datagram) else { return };
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(Message::decode(&again).as_ref(), Ok(&message));
        self.step(MOST_ANSWERS, |finder, now, out| finder.receive(now, NodeId(0), message, out));
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        let mut at_once = 0;
        while let Some(due) = self.due.filter(|due| *due <= end) {
            at_once = if due > self.now { 0 } else { at_once + 1 };
            // Each time it gives up one more centre that it has asked in vain, and none of them twice.
            assert!(at_once < self.finder.view().count() + 4, "it goes round and round");
            self.now = self.now.max(due);
            self.due = None;
            let most = KNOWN.len() + self.finder.view().count() + MOST_OTHERS;
            self.step(most, |finder, now, out| finder.expire(now, Due, out));
        }
        self.now = end;
    }
}

// Of each step, the first byte says what it is: time that passes, in units of 8 ms; a datagram, its length before it; one that
// came before, by its number; or that the node leaves.
fuzz_target!(|input: &[u8]| {
    let mut node = Node::start();
    let mut datagrams: Vec<&[u8]> = Vec::new();
    let mut rest = input;
    while let [kind, argument, after @ ..] = rest {
        rest = after;
        match kind % 4 {
            0 => node.wait(Duration::from_millis(8) * u32::from(*argument)),
            1 => {
                let [low, after @ ..] = rest else { return };
                let length = usize::from(u16::from_be_bytes([*argument, *low])).min(after.len());
                let (datagram, after) = after.split_at(length);
                rest = after;
                datagrams.push(datagram);
                node.receive(datagram);
            }
            2 => {
                if let Some(datagram) = datagrams.get(usize::from(*argument)) {
                    node.receive(datagram);
                }
            }
            _ => {
                let most = node.finder.view().count();
                node.step(most, |finder, now, out| finder.request(now, Request::Leave, out));
            }
        }
    }
});
