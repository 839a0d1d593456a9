//! Many clients on one node: a process whose threads each wait for an operation of their own.

use crate::{Client, ClientId, Group, Invoke, Message, Outcome};
use fulmar_node::{MulticastId, NodeId, Outbox, Process, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Clients that share a node. What they send in one step goes out in one order.
pub struct Clients {
    clients: BTreeMap<ClientId, Client>,
}

impl Clients {
    /// A client of each of these names; see [`Client::new`].
    pub fn new(names: impl IntoIterator<Item = ClientId>, group: &Group, patience: Duration) -> Self {
        let client = |name| (name, Client::new(name, group.clone(), patience));
        Self { clients: names.into_iter().map(client).collect() }
    }

    /// As [`Client::by_multicast`], for all of them.
    #[must_use]
    pub fn by_multicast(self, replicas: MulticastId) -> Self {
        let client = |(name, client): (ClientId, Client)| (name, client.by_multicast(replicas));
        Self { clients: self.clients.into_iter().map(client).collect() }
    }

    /// A step of one client.
    fn step(
        &mut self,
        name: ClientId,
        out: &mut Outbox<Self>,
        step: impl FnOnce(&mut Client, &mut Outbox<Client>),
    ) {
        let Some(client) = self.clients.get_mut(&name) else { return };
        out.take_over(|own| step(client, own), |()| name, |outcome| (name, outcome), |()| ());
    }
}

impl Process for Clients {
    type Message = Message;
    type Timer = ClientId;
    type Request = (ClientId, Invoke);
    type Event = (ClientId, Outcome);
    type Record = ();

    fn request(&mut self, now: Time, (name, invoke): (ClientId, Invoke), out: &mut Outbox<Self>) {
        self.step(name, out, |client, out| client.request(now, invoke, out));
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Reply { client, .. }
            | Message::SpeculativeReply { client, .. }
            | Message::Forgotten { client, .. }
                if client != ClientId::GROUP =>
            {
                self.step(client, out, |client, out| client.receive(now, from, message, out));
            }
            Message::Group(_) | Message::Reply { .. } => {
                let names: Vec<ClientId> = self.clients.keys().copied().collect();
                for name in names {
                    self.step(name, out, |client, out| client.receive(now, from, message.clone(), out));
                }
            }
            // Not for clients.
            _ => {}
        }
    }

    fn expire(&mut self, now: Time, name: ClientId, out: &mut Outbox<Self>) {
        self.step(name, out, |client, out| client.expire(now, (), out));
    }
}
