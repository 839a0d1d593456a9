//! A client: one operation at a time, asked for until it is answered.

#[cfg(test)]
use crate::group::Defect;
use crate::wire::{decode_group, encode_group};
use crate::{
    ClientId, Group, GroupError, Member, Message, Operation, Protocol, SequenceNumber, Summary, View,
};
use fulmar_node::{MulticastId, NodeId, Outbox, Process, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a client's user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invoke {
    /// An operation.
    Execute(Operation),
    /// An operation that changes nothing: it takes no place in the log.
    Query(Operation),
    /// That these members, under this protocol, go on as the group. Those whom they replace are needed until it is answered.
    Reconfigure(Vec<Member>, Protocol),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state machine has answered.
    Result(Vec<u8>),
    /// The group that there is now: what was asked for, if nobody else has asked for another.
    Group(Group),
    /// The group has forgotten the client, as very many others have asked since: whether the operation was carried out is not known.
    Forgotten,
    /// There can be no such group.
    Refused(GroupError),
}

/// Invokes operations, in the order in which it is asked to, and tells their results in that order.
pub struct Client {
    id: ClientId,
    group: Group,
    /// All replicas at once.
    replicas: Option<MulticastId>,
    /// How long it waits for an answer before it asks everybody.
    patience: Duration,
    /// The newest view that it has heard of.
    view: View,
    /// Where the group has let it in, so that it can tell whether an operation was carried out before; 0, if it has not.
    session: SequenceNumber,
    /// How many it has invoked.
    number: u64,
    /// Those that are not answered, the one that is asked for first.
    waiting: VecDeque<Invoke>,
    /// The group that is asked for, if one is.
    successor: Option<Group>,
    /// What replicas say that may come of it.
    replies: BTreeMap<NodeId, Speculation>,
    /// The last view that it has doubted, and because of which request.
    doubted: Option<(View, u64)>,
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
            replicas: None,
            patience,
            view: View::first_of(group.epoch()),
            session: SequenceNumber(0),
            number: 0,
            waiting: VecDeque::new(),
            successor: None,
            replies: BTreeMap::new(),
            doubted: None,
            group,
        }
    }

    /// Has it ask all replicas by this set, which has them all and perhaps others: a network that can reach them with one message
    /// orders such messages, mostly. Where that fails it asks one by one.
    #[must_use]
    pub const fn by_multicast(mut self, replicas: MulticastId) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Has it ask the leader of this view first.
    #[must_use]
    pub fn in_view(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// The newest group that it has heard of.
    #[must_use]
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// Whether it has to be let in first, as what it asks for takes a place in the log.
    fn is_outside(&self) -> bool {
        let takes_place = match self.waiting.front() {
            Some(Invoke::Execute(_)) => true,
            Some(Invoke::Query(_)) => self.group.protocol() == Protocol::Speculative,
            Some(Invoke::Reconfigure(..)) | None => false,
        };
        takes_place && self.session == SequenceNumber(0)
    }

    /// Which of its requests it waits for.
    fn asked(&self) -> u64 {
        if self.is_outside() { 0 } else { self.number }
    }

    fn next_request(&self) -> Option<Message> {
        let (client, number, operation, is_query) = match self.waiting.front()? {
            Invoke::Execute(_) | Invoke::Query(_) if self.is_outside() => (self.id, 0, [].into(), false),
            Invoke::Execute(operation) => (self.id, self.number, operation.clone(), false),
            Invoke::Query(operation) => (self.id, self.number, operation.clone(), true),
            Invoke::Reconfigure(..) => {
                let next = self.successor.as_ref()?;
                (ClientId::GROUP, next.epoch(), encode_group(next), false)
            }
        };
        let (epoch, session) = (self.group.epoch(), self.session);
        Some(Message::Request { client, epoch, session, number, operation, is_query })
    }

    /// Asks for the next operation, if there is one.
    fn go_on(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.successor = None;
        while let Some(Invoke::Reconfigure(members, protocol)) = self.waiting.front() {
            match self.group.followed_by(members.clone(), *protocol) {
                Ok(next) => {
                    self.successor = Some(next);
                    break;
                }
                Err(error) => {
                    self.waiting.pop_front();
                    out.event(Outcome::Refused(error));
                }
            }
        }
        self.number += u64::from(!self.waiting.is_empty());
        self.ask(now, out);
    }

    /// Asks those who have to hear of it first.
    fn ask(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.replies.clear();
        match self.next_request() {
            Some(request) => {
                let needs_leader = match self.group.protocol() {
                    Protocol::Viewstamped => true,
                    Protocol::Fast => !matches!(self.waiting.front(), Some(Invoke::Execute(_))),
                    Protocol::Speculative => false,
                };
                match self.replicas {
                    _ if needs_leader => out.send(self.group.leader(self.view), request),
                    Some(replicas) => out.multicast(replicas, request),
                    None => self.tell_all(&request, out),
                }
                out.set_timer((), now + self.patience);
            }
            None => out.cancel_timer(()),
        }
    }

    fn waits_for(&self, client: ClientId, number: u64) -> bool {
        self.successor.is_none() && (client, number) == (self.id, self.asked())
    }

    /// Whether this answers that the group that it has asked for, or another, has followed.
    fn waits_for_group(&self, client: ClientId, number: u64) -> bool {
        client == ClientId::GROUP && self.successor.as_ref().is_some_and(|next| next.epoch() == number)
    }

    fn tell_all(&self, message: &Message, out: &mut Outbox<Self>) {
        self.group.nodes().for_each(|node| out.send(node, message.clone()));
    }

    fn finish(&mut self, outcome: Outcome, now: Time, out: &mut Outbox<Self>) {
        if self.waiting.pop_front().is_some() {
            out.event(outcome);
            self.go_on(now, out);
        }
    }

    fn hear_result(&mut self, result: Vec<u8>, now: Time, out: &mut Outbox<Self>) {
        if !self.is_outside() {
            self.finish(Outcome::Result(result), now, out);
        } else if let Ok(session) = result.try_into() {
            self.session = SequenceNumber(u64::from_be_bytes(session));
            self.ask(now, out);
        }
    }

    /// Has itself let in again before it asks for something else. A query may take place twice.
    fn hear_that_it_is_forgotten(&mut self, now: Time, out: &mut Outbox<Self>) {
        let was_outside = self.is_outside();
        self.session = SequenceNumber(0);
        match self.waiting.front() {
            Some(Invoke::Execute(_)) if !was_outside => self.finish(Outcome::Forgotten, now, out),
            _ => self.ask(now, out),
        }
    }

    /// A replica has executed the operation speculatively: it is done if a superquorum has, in the same state (Speculative Paxos,
    /// section 4.2.2), and has to be reconciled if no superquorum can be.
    fn compare(&mut self, now: Time, out: &mut Outbox<Self>) {
        // Who is still in an earlier view may come to another answer.
        let view = self.view;
        #[cfg(test)]
        if self.group.has(Defect::MixesReplies) && self.replies.len() >= self.group.superquorum() {
            let result = self.replies.values().next_back().map(|reply| reply.result.clone());
            return self.hear_result(result.unwrap_or_default(), now, out);
        }
        let group = &self.group;
        self.replies.retain(|node, reply| reply.view == view && group.contains(*node));
        let mut states: BTreeMap<_, usize> = BTreeMap::new();
        self.replies.values().for_each(|reply| *states.entry(reply.state()).or_default() += 1);
        let Some((state, most)) = states.into_iter().max_by_key(|(_, count)| *count) else { return };
        let missing = self.group.members().len() - self.replies.len();
        if most >= self.group.superquorum() {
            let result = self.replies.values().find(|reply| reply.state() == state);
            let result = result.map(|reply| reply.result.clone()).unwrap_or_default();
            self.hear_result(result, now, out);
        } else if most + missing < self.group.superquorum() {
            self.doubt(out);
        }
    }

    /// There is another group. It knows which of a client's requests the one before has carried out. Who says so may be the only one
    /// to hold what that has left: it is established when its leader says so.
    fn hear_of_group(&mut self, group: Group, now: Time, out: &mut Outbox<Self>) {
        if self.follow(group) && !self.waiting.is_empty() {
            self.ask(now, out);
        }
    }

    fn follow(&mut self, group: Group) -> bool {
        let is_later = group.epoch() > self.group.epoch();
        if is_later {
            #[cfg(test)]
            let group = group.with_defect(self.group.defect);
            self.view = self.view.max(View::first_of(group.epoch()));
            self.group = group;
        }
        is_later
    }

    /// Has the leader reconcile the replicas of the view that they are in, or have them leave it.
    fn doubt(&mut self, out: &mut Outbox<Self>) {
        let doubted = Some((self.view, self.asked()));
        if self.doubted < doubted {
            self.doubted = doubted;
            self.tell_all(&Message::Doubt { view: self.view }, out);
        }
    }
}

impl Process for Client {
    type Message = Message;
    type Timer = ();
    type Request = Invoke;
    type Event = Outcome;
    type Record = ();

    fn request(&mut self, now: Time, invoke: Invoke, out: &mut Outbox<Self>) {
        self.waiting.push_back(invoke);
        if self.waiting.len() == 1 {
            self.go_on(now, out);
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Reply { view, client, number, result } if self.waits_for(client, number) => {
                self.view = self.view.max(view);
                self.hear_result(result, now, out);
            }
            Message::Forgotten { view, client, number } if self.waits_for(client, number) => {
                self.view = self.view.max(view);
                self.hear_that_it_is_forgotten(now, out);
            }
            Message::Reply { view, client, number, result } if self.waits_for_group(client, number) => {
                if let Some(group) = decode_group(&result) {
                    self.follow(group);
                    self.view = self.view.max(view);
                    self.finish(Outcome::Group(self.group.clone()), now, out);
                }
            }
            Message::SpeculativeReply { view, client, number, at, summary, result }
                if self.waits_for(client, number) =>
            {
                self.view = self.view.max(view);
                let reply = Speculation { view, at, summary, result };
                if self.replies.get(&from).is_none_or(|before| before.view <= view) {
                    self.replies.insert(from, reply);
                    self.compare(now, out);
                }
            }
            Message::Group(group) => self.hear_of_group(group, now, out),
            // Late, or not for a client.
            _ => {}
        }
    }

    /// Whom it took for the leader may be gone, or a message was lost: now it asks all.
    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        let Some(request) = self.next_request() else { return };
        self.doubted = None;
        self.tell_all(&request, out);
        out.set_timer((), now + self.patience);
    }
}
