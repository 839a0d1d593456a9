//! A replica as a process: what it does when it begins, hears something, is asked for something, or time passes.

use crate::Record;
use crate::merge::Candidate;
use crate::replica::{Event, Status, Wish};
use crate::{ClientId, Message, Protocol, Replica, StateMachine, Timer};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};

impl<S: StateMachine> Process for Replica<S> {
    type Message = Message;
    type Timer = Timer;
    type Request = Wish;
    type Event = Event;
    type Record = Record;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.begin_life(now, out);
        self.assert_invariants();
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        self.hear(now, from, message, out);
        self.assert_invariants();
    }

    fn busy(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        self.bear_with(peer, now, out);
        self.assert_invariants();
    }

    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        self.miss(peer, now, out);
        self.assert_invariants();
    }

    fn request(&mut self, now: Time, wish: Wish, out: &mut Outbox<Self>) {
        match wish {
            Wish::Copied { upto, is_whole } => self.take_copied(upto, is_whole, now, out),
            Wish::Reconfigure(members, protocol) => {
                if let Ok(next) = self.group.followed_by(members, protocol) {
                    self.reconfigure(self.me.node, crate::Entry::for_group(&next), now, out);
                }
            }
            Wish::Resign(to) if self.leads() => {
                let mut views = (1..self.group.members().len() as u64).map(|steps| self.view.after(steps));
                if let Some(view) = views.find(|view| self.group.leader(*view) == to) {
                    self.leave_for(view, now, out);
                }
            }
            Wish::Resign(_) => {}
        }
        self.assert_invariants();
    }

    fn expire(&mut self, now: Time, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Heartbeat => self.give_sign(now, out),
            Timer::Batch if self.leads() => self.send_prepares(out),
            Timer::Batch => {}
            Timer::Patience => self.lose_patience(now, out),
        }
        self.assert_invariants();
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        self.keep_promises(upto, now, out);
        self.assert_invariants();
    }
}

impl<S: StateMachine> Replica<S> {
    pub(crate) fn hear(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        if !self.hears(from, &message) || !self.is_among_members(from, &message, now, out) {
            return;
        }
        match message {
            Message::Request { client, epoch, session, number, operation, is_query } => {
                let entry = crate::Entry { client, session, number, operation, is_query };
                if client == ClientId::GROUP {
                    return self.reconfigure(from, entry, now, out);
                }
                if epoch < self.group.epoch() {
                    return self.tell_group(from, out);
                }
                if epoch > self.group.epoch() || self.status == Status::Outside {
                    return;
                }
                if !self.is_in_view() || self.log.is_closed() || self.is_copying() {
                    return self.keep_waiting(from, epoch, entry);
                }
                if !self.is_time(&entry, now) {
                    return;
                }
                match self.group.protocol() {
                    Protocol::Speculative => self.speculate(from, entry, now, out),
                    _ if is_query => self.query(from, entry, out),
                    Protocol::Viewstamped => self.order(from, entry, now, out),
                    Protocol::Fast => self.find_place(from, entry, now, out),
                }
            }
            // Not for a replica.
            Message::Reply { .. } | Message::SpeculativeReply { .. } | Message::Forgotten { .. } => {}
            Message::Doubt { view } => self.doubt(view, now, out),
            Message::Prepare { view, from: first, before, entries, committed } => {
                self.prepare(from, view, (first, before, entries), committed, now, out);
            }
            Message::Commit { view, committed, summary, round } => {
                self.hear_leader(from, view, (committed, summary), round, now, out);
            }
            Message::PrepareOk { view, ordered, upto, summary, received, round } => {
                self.prepared(from, view, (ordered, upto, summary), (received, round), now, out);
            }
            Message::Alive { view } => self.hear_backup(from, view, now),
            Message::Suspect { view } => self.hear_suspicion(from, view, now, out),
            Message::StartViewChange { view } => self.vote(from, view, now, out),
            Message::DoViewChange { view, last_normal, log, end, ordered, committed } => {
                let candidate = Candidate { last_normal, log, end, ordered, committed };
                self.collect(from, view, candidate, now, out);
            }
            Message::StartView { view, checkpoint, log, end, committed } => {
                self.start_view(from, view, checkpoint, (log, end, committed), now, out);
            }
            Message::GetState { view, committed, after } => {
                self.give_state(from, view, (committed, after), out);
            }
            Message::State(checkpoint) => self.take_state(from, &checkpoint, now, out),
            Message::Group(group) => self.hear_of_group(from, &group, now, out),
        }
    }
}
