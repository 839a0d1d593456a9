//! What one replica does under any driver that keeps to the contract of [`fulmar_node::Process`], however late, early or often.

mod clients;
mod copying;
mod leading;
mod logs;
mod promises;
mod timeouts;

use crate::applications::Timestamps;
use crate::{
    Checkpoint, ClientId, Entry, Event, Group, Log, Member, Message, Options, Protocol, Record, Replica,
    SequenceNumber, Summary, View,
};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::sync::Arc;

const ME: NodeId = NodeId(1);
const LEADER: NodeId = NodeId(0);

fn at(number: u64) -> SequenceNumber {
    SequenceNumber(number)
}

fn group(protocol: Protocol) -> Group {
    Group::new([0, 1, 2].map(NodeId), protocol).expect("three")
}

fn entry(number: u64) -> Entry {
    let (session, operation) = (at(0), Timestamps::take(1).into());
    Entry { client: ClientId(number), session, number: 1, operation, is_query: false }
}

fn log(numbers: impl IntoIterator<Item = u64>) -> Log {
    let mut log = Log::default();
    for number in numbers {
        log.append(entry(number));
    }
    log
}

/// The second of three replicas, and all that it has ever written down.
struct One {
    replica: Replica<Timestamps>,
    out: Outbox<Replica<Timestamps>>,
    records: Vec<Record>,
    sent: Vec<(NodeId, Message)>,
    behind: Vec<NodeId>,
}

impl One {
    fn new(protocol: Protocol, options: Options, records: &[Record]) -> Self {
        let me = Member { node: ME, incarnation: 0 };
        let replica = Replica::new(me, group(protocol), options, Timestamps::default(), records);
        let out = Outbox::after(Lsn(records.len() as u64));
        let mut one = Self { replica, out, records: records.to_vec(), sent: Vec::new(), behind: Vec::new() };
        one.step(|replica, out| replica.start(Time::ZERO, out));
        one
    }

    /// As it is when all that it has written down is on the disk.
    fn begun(protocol: Protocol, options: Options) -> Self {
        let mut one = Self::new(protocol, options, &[]);
        one.sync();
        one
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica<Timestamps>, &mut Outbox<Replica<Timestamps>>)) {
        step(&mut self.replica, &mut self.out);
        self.records.append(&mut self.out.records.clone());
        self.sent.append(&mut self.out.sends.clone());
        self.behind.extend(self.out.events.iter().filter_map(|event| match event {
            Event::Behind(from) => Some(*from),
            Event::View(_) => None,
        }));
        self.out.clear();
        assert_eq!(self.replica.problems(), Vec::<String>::new());
    }

    fn hear(&mut self, from: NodeId, message: Message) {
        self.step(|replica, out| replica.receive(Time::ZERO, from, message, out));
    }

    /// A client asks for this.
    fn ask(&mut self, number: u64) {
        let Entry { client, session, number, operation, is_query } = entry(number);
        self.hear(NodeId(7), Message::Request { client, epoch: 0, session, number, operation, is_query });
    }

    fn sync(&mut self) {
        self.sync_until(self.records.len());
    }

    fn sync_until(&mut self, records: usize) {
        let upto = Lsn(records as u64);
        self.step(|replica, out| replica.durable(Time::ZERO, upto, out));
    }

    /// The leader of the first view has the log go on with these, of which so many are committed.
    fn follow(&mut self, before: &Log, numbers: impl IntoIterator<Item = u64>, committed: u64) {
        let message = Message::Prepare {
            view: View::first_of(0),
            from: before.last().next(),
            before: before.summary(before.last()).expect("its own"),
            entries: numbers.into_iter().map(entry).collect(),
            committed: at(committed),
        };
        self.hear(LEADER, message);
    }

    fn said(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.sent).into_iter().map(|(_, message)| message).collect()
    }
}

/// What those come to who have carried out the log up to a place.
fn checkpoint(protocol: Protocol, log: &Log, upto: u64) -> Arc<Checkpoint> {
    let mut execution = crate::execution::Execution::new(Timestamps::default());
    log.entries_after(at(0))
        .take(usize::try_from(upto).expect("few"))
        .for_each(|entry| execution.execute(entry));
    execution.commit(at(upto));
    Arc::new(execution.checkpoint(log.summary(at(upto)).expect("its own"), group(protocol)))
}

/// How far it says that it holds the log of a view.
fn promised(messages: &[Message]) -> Option<(SequenceNumber, Summary)> {
    let promise = |message: &Message| match message {
        Message::PrepareOk { upto, summary, .. } => Some((*upto, *summary)),
        _ => None,
    };
    messages.iter().filter_map(promise).max()
}

fn heartbeat(committed: u64, log: &Log) -> Message {
    heartbeat_in(View::first_of(0), committed, log)
}

fn heartbeat_in(view: View, committed: u64, log: &Log) -> Message {
    let summary = log.summary(at(committed)).expect("its own");
    Message::Commit { view, committed: at(committed), summary, round: 0 }
}
