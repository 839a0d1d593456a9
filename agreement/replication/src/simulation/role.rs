//! A node of the simulation: a replica with what is on its disk, beside which all that it says is held; or a client.

use super::registers::Registers;
use crate::group::Defect;
use crate::{Client, Entry, Event, Invoke, Memory, Message, Outcome, Record, Replica, Timer, View, Wish};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::collections::VecDeque;

/// A node of the simulation.
pub(super) enum Role {
    Replica { process: Box<Replica<Registers>>, own: Outbox<Replica<Registers>>, disk: Disk },
    Client(Client, Outbox<Client>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    Replica(Timer),
    Client,
}

/// What a replica would find again after a crash.
#[derive(Default)]
pub(super) struct Disk {
    memory: Memory,
    /// How many records that is, and those which may be lost.
    durable: u64,
    records: VecDeque<Record>,
}

impl Disk {
    fn of(records: &[Record]) -> Self {
        let mut memory = Memory::default();
        records.iter().for_each(|record| memory.note(record));
        Self { memory, durable: records.len() as u64, records: VecDeque::new() }
    }

    fn sync(&mut self, upto: Lsn) {
        while self.durable < upto.0
            && let Some(record) = self.records.pop_front()
        {
            self.memory.note(&record);
            self.durable += 1;
        }
    }

    /// Whether what a message says of the one who sends it is on the disk.
    fn holds(&self, message: &Message) -> bool {
        let (standing, log) = (&self.memory.standing, &self.memory.log);
        let is_in = |view: &View| standing.last_normal == *view;
        match message {
            Message::PrepareOk { view, upto, summary, .. }
            | Message::SpeculativeReply { view, at: upto, summary, .. } => {
                is_in(view) && (*upto <= log.start() || log.summary(*upto) == Some(*summary))
            }
            Message::StartViewChange { view } | Message::DoViewChange { view, .. } => standing.view >= *view,
            Message::Prepare { view, .. }
            | Message::Commit { view, .. }
            | Message::StartView { view, .. } => is_in(view),
            _ => true,
        }
    }
}

/// Whether others may count on the one who says this to have what comes before.
fn is_promise(message: &Message) -> bool {
    matches!(message, Message::PrepareOk { .. } | Message::SpeculativeReply { .. } | Message::Prepare { .. })
}

fn is_short(message: &Message, bytes: usize) -> bool {
    let entries = entries(message);
    entries.len() <= 1 || entries.iter().map(|entry| entry.size()).sum::<usize>() <= bytes
}

/// The operations that a replica sends with a message.
pub(super) fn entries(message: &Message) -> Vec<&Entry> {
    match message {
        Message::Prepare { entries, .. } => entries.iter().collect(),
        Message::DoViewChange { log, .. } | Message::StartView { log, .. } => {
            log.entries_after(log.start()).collect()
        }
        _ => Vec::new(),
    }
}

impl Role {
    pub(super) fn replica(process: Replica<Registers>, records: &[Record]) -> Self {
        let own = Outbox::after(Lsn(records.len() as u64));
        Self::Replica { process: Box::new(process), own, disk: Disk::of(records) }
    }

    fn step(
        &mut self,
        out: &mut Outbox<Self>,
        replica: impl FnOnce(&mut Replica<Registers>, &mut Outbox<Replica<Registers>>),
        client: impl FnOnce(&mut Client, &mut Outbox<Client>),
    ) {
        match self {
            Self::Replica { process, own, disk } => {
                replica(process, own);
                if process.options.is_durable {
                    disk.records.extend(own.records.iter().cloned());
                    let early = own.sends.iter().find(|(_, message)| !disk.holds(message));
                    assert_eq!(early, None, "said before it is durable: {:?}", disk.memory);
                }
                let promises = own.sends.iter().any(|(_, message)| is_promise(message));
                assert!(!promises || !process.is_copying(), "what comes before is not there yet");
                // What is longer than a message can be is lost; but one operation may be as long as it likes.
                let (bytes, loses) = (process.options.bytes, process.group.has(Defect::SendsWholeLogs));
                own.sends.retain(|(_, message)| {
                    let fits = is_short(message, bytes);
                    assert!(fits || loses, "longer than {bytes} bytes: {message:?}");
                    fits
                });
                out.sends.append(&mut own.sends);
                out.records.extend(own.records.iter().cloned());
                out.timers.extend(own.timers.iter().map(|(timer, change)| (Alarm::Replica(*timer), *change)));
                let is_behind = |event: &&Event| matches!(event, Event::Behind(_));
                out.events.extend(own.events.iter().filter(is_behind).map(|_| Said::Behind));
                own.clear();
            }
            Self::Client(process, own) => {
                client(process, own);
                out.sends.append(&mut own.sends);
                out.multicasts.append(&mut own.multicasts);
                out.events.extend(own.events.drain(..).map(Said::Client));
                out.timers.extend(own.timers.iter().map(|((), change)| (Alarm::Client, *change)));
                own.clear();
            }
        }
    }
}

/// What a node is asked for.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Client(Invoke),
    Replica(Wish),
    /// A timer expires that was replaced or cancelled.
    Expire(Timer),
    /// To hear that another works on something.
    BearWith(NodeId),
}

/// What a node tells.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Client(Outcome),
    Behind,
}

impl Process for Role {
    type Message = Message;
    type Timer = Alarm;
    type Request = Order;
    type Event = Said;
    type Record = Record;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.step(out, |replica, out| replica.start(now, out), |client, out| client.start(now, out));
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let again = message.clone();
        self.step(
            out,
            |replica, out| replica.receive(now, from, message, out),
            |client, out| client.receive(now, from, again, out),
        );
    }

    fn expire(&mut self, now: Time, timer: Alarm, out: &mut Outbox<Self>) {
        let replica = |replica: &mut Replica<Registers>, out: &mut Outbox<_>| {
            if let Alarm::Replica(timer) = timer {
                replica.expire(now, timer, out);
            }
        };
        self.step(out, replica, |client, out| client.expire(now, (), out));
    }

    fn request(&mut self, now: Time, order: Order, out: &mut Outbox<Self>) {
        match order {
            Order::Replica(wish) => self.step(out, |replica, out| replica.request(now, wish, out), |_, _| {}),
            Order::Expire(timer) => self.step(out, |replica, out| replica.expire(now, timer, out), |_, _| {}),
            Order::BearWith(peer) => self.step(out, |replica, out| replica.busy(now, peer, out), |_, _| {}),
            Order::Client(invoke) => {
                self.step(out, |_, _| {}, |client, out| client.request(now, invoke, out));
            }
        }
    }

    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        self.step(out, |replica, out| replica.disconnected(now, peer, out), |_, _| {});
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        if let Self::Replica { disk, .. } = self {
            disk.sync(upto);
        }
        self.step(out, |replica, out| replica.durable(now, upto, out), |_, _| {});
    }
}
