//! A register with one writer: a number that grows, on replicas of which a majority must know it.

use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_sim::{Delay, Faults, Seed, Sim, check, seeds};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) const REPLICAS: u32 = 5;
pub(crate) const CLIENT: NodeId = NodeId(REPLICAS);
const RETRY: Duration = Duration::from_millis(10);

/// How a replica may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// It says that it has what may not survive a crash.
    AnswersBeforeTheDisk,
    /// It believes that the last write to arrive is the last.
    TrustsOrder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Write(u64),
    Written(u64),
    Read(u64),
    Value { round: u64, value: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Write(u64),
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Written(u64),
    Read(u64),
}

pub(crate) struct Replica {
    pub(crate) value: u64,
    /// Writes whose records are not durable yet.
    unanswered: Vec<(Lsn, NodeId, u64)>,
    bug: Bug,
}

pub(crate) struct Client {
    round: u64,
    pending: Option<Request>,
    answered: BTreeSet<NodeId>,
    highest: u64,
}

pub(crate) enum Role {
    Replica(Replica),
    Client(Client),
}

impl Role {
    pub(crate) fn new(id: NodeId, records: &[u64], bug: Bug) -> Self {
        if id.0 < REPLICAS {
            let value = records.last().copied().unwrap_or(0);
            Self::Replica(Replica { value, unanswered: Vec::new(), bug })
        } else {
            Self::Client(Client { round: 0, pending: None, answered: BTreeSet::new(), highest: 0 })
        }
    }
}

impl Client {
    fn ask(&self, now: Time, out: &mut Outbox<Role>) {
        let Some(pending) = self.pending else { return };
        for replica in (0..REPLICAS).map(NodeId) {
            let message = match pending {
                Request::Write(value) => Message::Write(value),
                Request::Read => Message::Read(self.round),
            };
            out.send(replica, message);
        }
        out.set_timer((), now + RETRY);
    }

    fn answered(&mut self, from: NodeId, event: impl Fn(&Self) -> Event, out: &mut Outbox<Role>) {
        self.answered.insert(from);
        if self.answered.len() > REPLICAS as usize / 2 {
            self.pending = None;
            out.cancel_timer(());
            out.event(event(self));
        }
    }
}

impl Process for Role {
    type Message = Message;
    type Timer = ();
    type Request = Request;
    type Event = Event;
    type Record = u64;

    fn receive(&mut self, _now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match (self, message) {
            (Self::Replica(replica), Message::Write(value)) => {
                let is_news = match replica.bug {
                    Bug::TrustsOrder => value != replica.value,
                    _ => value > replica.value,
                };
                if is_news {
                    replica.value = value;
                    out.record(value);
                }
                if replica.bug == Bug::AnswersBeforeTheDisk || !is_news && replica.unanswered.is_empty() {
                    out.send(from, Message::Written(value));
                } else {
                    replica.unanswered.push((out.logged(), from, value));
                }
            }
            (Self::Replica(replica), Message::Read(round)) => {
                out.send(from, Message::Value { round, value: replica.value });
            }
            (Self::Client(client), Message::Written(value))
                if client.pending == Some(Request::Write(value)) =>
            {
                client.answered(from, |_| Event::Written(value), out);
            }
            (Self::Client(client), Message::Value { round, value })
                if client.pending == Some(Request::Read) && round == client.round =>
            {
                client.highest = client.highest.max(value);
                client.answered(from, |client| Event::Read(client.highest), out);
            }
            _ => {}
        }
    }

    fn durable(&mut self, _now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        if let Self::Replica(replica) = self {
            for (_, to, value) in replica.unanswered.extract_if(.., |(lsn, ..)| *lsn <= upto) {
                out.send(to, Message::Written(value));
            }
        }
    }

    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        if let Self::Client(client) = self {
            client.ask(now, out);
        }
    }

    fn request(&mut self, now: Time, request: Request, out: &mut Outbox<Self>) {
        if let Self::Client(client) = self {
            client.round += 1;
            client.pending = Some(request);
            client.answered.clear();
            client.highest = 0;
            client.ask(now, out);
        }
    }
}

pub(crate) fn replicas() -> impl Iterator<Item = NodeId> {
    (0..REPLICAS).map(NodeId)
}

pub(crate) fn register(seed: impl Into<Seed>, bug: Bug) -> Sim<Role> {
    let mut sim = Sim::new(seed, move |id, records: &[u64]| Role::new(id, records, bug));
    (0..=REPLICAS).for_each(|id| sim.add(NodeId(id)));
    sim
}

/// Writes growing numbers and reads them now and then, while faults happen and after.
pub(crate) fn write_and_read(seed: Seed, bug: Bug) -> Result<(), String> {
    let mut sim = register(seed, bug);
    let (median, p99) = (Duration::from_millis(2), Duration::from_millis(100));
    replicas().for_each(|id| sim.set_sync(id, Delay::Tailed { median, p99 }));
    sim.network.link.reorder = 0.3;
    sim.network.link.lateness = Delay::Uniform { low: Duration::ZERO, high: p99 };
    let faults = Faults::random(replicas(), sim.random());
    sim.inject(faults);
    let mut written = 0;
    let mut wrong = None;
    let mut user = |sim: &mut Sim<Role>, client, event| {
        let next = match event {
            Event::Written(value) => {
                written = value;
                Request::Read
            }
            Event::Read(value) => {
                if value < written {
                    wrong = Some(format!("read {value} after {written} was written"));
                }
                Request::Write(written + 1)
            }
        };
        let pause = Duration::from_micros(sim.random().below(40_000));
        sim.after(pause, move |sim| sim.request(client, next));
    };
    sim.request(CLIENT, Request::Write(1));
    sim.run(Duration::from_secs(3), &mut user);
    sim.heal(replicas());
    let events = sim.counts.events;
    let progress = sim.run_until(Duration::from_secs(5), &mut user, |sim| sim.counts.events >= events + 10);
    match wrong {
        Some(wrong) => Err(wrong),
        None if !progress => Err("no progress on a healed network".to_owned()),
        None => Ok(()),
    }
}

#[test]
fn a_correct_register_survives_all_faults() {
    seeds("a_correct_register_survives_all_faults", 0..200, |seed| write_and_read(seed, Bug::None));
}

#[test]
fn an_answer_before_the_disk_is_caught() {
    let caught = check("broken", 0..500, |seed| write_and_read(seed, Bug::AnswersBeforeTheDisk));
    let failure = caught.expect_err("some seed loses a record that was answered for");
    assert!(failure.reason.contains("was written"), "{failure}");
    assert!(failure.to_string().contains(&format!("FULMAR_SEED={} cargo test", failure.seed)));
}

#[test]
fn trust_in_order_is_caught() {
    let caught = check("broken", 0..500, |seed| write_and_read(seed, Bug::TrustsOrder));
    let failure = caught.expect_err("some seed lets an old write arrive late");
    assert!(failure.reason.contains("was written"), "{failure}");
}
