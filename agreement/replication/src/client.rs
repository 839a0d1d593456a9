//! A client: one operation at a time, asked for until it is answered.

use crate::{ClientId, Group, Message, Operation, Protocol, SequenceNumber, Summary, View};
use fulmar_node::{NodeId, Outbox, Process, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a client's user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoke {
    /// The operation.
    pub operation: Operation,
    /// Whether it changes nothing: then it takes no place in the log.
    pub is_query: bool,
}

/// Invokes operations, in the order in which it is asked to, and tells their results in that order.
pub struct Client {
    id: ClientId,
    group: Group,
    /// How long it waits for an answer before it asks everybody.
    patience: Duration,
    /// The newest view that it has heard of.
    view: View,
    /// How many it has invoked.
    number: u64,
    /// Those that are not answered, the one that is asked for first.
    waiting: VecDeque<Invoke>,
    /// What replicas say that may come of it.
    replies: BTreeMap<NodeId, Speculation>,
    /// The last view that it has doubted.
    doubted: Option<View>,
    /// How often it has asked in vain.
    in_vain: u32,
}

/// What a replica would answer.
struct Speculation {
    view: View,
    at: SequenceNumber,
    summary: Summary,
    result: Vec<u8>,
}

impl Speculation {
    fn state(&self) -> (View, SequenceNumber, Summary) {
        (self.view, self.at, self.summary)
    }
}

impl Client {
    /// A client of a group. No other of this name may be, nor have been.
    #[must_use]
    pub const fn new(id: ClientId, group: Group, patience: Duration) -> Self {
        Self {
            id,
            group,
            patience,
            view: View(0),
            number: 0,
            waiting: VecDeque::new(),
            replies: BTreeMap::new(),
            doubted: None,
            in_vain: 0,
        }
    }

    fn next_request(&self) -> Option<Message> {
        let Invoke { operation, is_query } = self.waiting.front()?.clone();
        Some(Message::Request { client: self.id, number: self.number, operation, is_query })
    }

    /// Asks for the next operation, if there is one.
    fn go_on(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.number += u64::from(!self.waiting.is_empty());
        self.replies.clear();
        self.in_vain = 0;
        match self.next_request() {
            Some(request) => {
                let needs_leader = match self.group.protocol() {
                    Protocol::Viewstamped => true,
                    Protocol::Fast => self.waiting.front().is_some_and(|invoke| invoke.is_query),
                    Protocol::Speculative => false,
                };
                if needs_leader {
                    out.send(self.group.leader(self.view), request);
                } else {
                    self.tell_all(&request, out);
                }
                out.set_timer((), now + self.patience);
            }
            None => out.cancel_timer(()),
        }
    }

    fn tell_all(&self, message: &Message, out: &mut Outbox<Self>) {
        self.group.members().iter().for_each(|member| out.send(*member, message.clone()));
    }

    fn finish(&mut self, result: Vec<u8>, now: Time, out: &mut Outbox<Self>) {
        if self.waiting.pop_front().is_some() {
            out.event(result);
            self.go_on(now, out);
        }
    }

    /// A replica has executed the operation speculatively: it is done if a superquorum has, in the same state (Speculative Paxos,
    /// section 4.2.2), and has to be reconciled if no superquorum can be.
    fn compare(&mut self, now: Time, out: &mut Outbox<Self>) {
        // Who is still in an earlier view may come to another answer.
        let view = self.view;
        self.replies.retain(|_, reply| reply.view == view);
        let mut states: BTreeMap<_, usize> = BTreeMap::new();
        self.replies.values().for_each(|reply| *states.entry(reply.state()).or_default() += 1);
        let Some((state, most)) = states.into_iter().max_by_key(|(_, count)| *count) else { return };
        let missing = self.group.members().len() - self.replies.len();
        if most >= self.group.superquorum() {
            let result = self.replies.values().find(|reply| reply.state() == state);
            let result = result.map(|reply| reply.result.clone()).unwrap_or_default();
            self.finish(result, now, out);
        } else if most + missing < self.group.superquorum() {
            self.doubt(out);
        }
    }

    /// Has the replicas leave the view that they are in.
    fn doubt(&mut self, out: &mut Outbox<Self>) {
        if self.doubted.is_none_or(|doubted| doubted < self.view) {
            self.doubted = Some(self.view);
            self.tell_all(&Message::Doubt { view: self.view }, out);
        }
    }
}

impl Process for Client {
    type Message = Message;
    type Timer = ();
    type Request = Invoke;
    type Event = Vec<u8>;
    type Record = ();

    fn request(&mut self, now: Time, invoke: Invoke, out: &mut Outbox<Self>) {
        self.waiting.push_back(invoke);
        if self.waiting.len() == 1 {
            self.go_on(now, out);
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Reply { view, number, result } if number == self.number => {
                self.view = self.view.max(view);
                self.finish(result, now, out);
            }
            Message::SpeculativeReply { view, number, at, summary, result } if number == self.number => {
                self.view = self.view.max(view);
                let reply = Speculation { view, at, summary, result };
                if self.replies.get(&from).is_none_or(|before| before.view <= view) {
                    self.replies.insert(from, reply);
                    self.compare(now, out);
                }
            }
            // Late, or not for a client.
            _ => {}
        }
    }

    /// Whom it took for the leader may be gone, or a message was lost: now it asks all.
    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        let Some(request) = self.next_request() else { return };
        self.in_vain += 1;
        if self.in_vain > 1 && self.group.protocol() == Protocol::Speculative {
            self.doubted = None;
            self.doubt(out);
        }
        self.tell_all(&request, out);
        out.set_timer((), now + self.patience);
    }
}
