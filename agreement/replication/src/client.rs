//! A client: one operation at a time, asked for until it is answered.

use crate::{ClientId, Group, Message, Operation, View};
use fulmar_node::{NodeId, Outbox, Process, Time};
use std::collections::VecDeque;
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
}

impl Client {
    /// A client of a group. No other of this name may be, nor have been.
    #[must_use]
    pub const fn new(id: ClientId, group: Group, patience: Duration) -> Self {
        Self { id, group, patience, view: View(0), number: 0, waiting: VecDeque::new() }
    }

    fn next_request(&self) -> Option<Message> {
        let Invoke { operation, is_query } = self.waiting.front()?.clone();
        Some(Message::Request { client: self.id, number: self.number, operation, is_query })
    }

    /// Asks for the next operation, if there is one.
    fn go_on(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.number += u64::from(!self.waiting.is_empty());
        match self.next_request() {
            Some(request) => {
                out.send(self.group.leader(self.view), request);
                out.set_timer((), now + self.patience);
            }
            None => out.cancel_timer(()),
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

    fn receive(&mut self, now: Time, _from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let Message::Reply { view, number, result } = message else { return };
        self.view = self.view.max(view);
        if number == self.number && self.waiting.pop_front().is_some() {
            out.event(result);
            self.go_on(now, out);
        }
    }

    /// Whom it took for the leader may be gone: now it asks all.
    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        if let Some(request) = self.next_request() {
            self.group.members().iter().for_each(|member| out.send(*member, request.clone()));
            out.set_timer((), now + self.patience);
        }
    }
}
