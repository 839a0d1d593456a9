//! A node of the world: a server or a client, and what is wrong with it.

use super::connections::carried;
use super::{Connections, Defect, MANAGER};
use fulmar_cluster::{Ask, Client, DatabaseNumber, Event, MapRequest, Message, Reply, Server, Synced, Timer};
use fulmar_dbt::Reshape;
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_transport::Wire;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What a node is.
pub(crate) enum Role {
    Server(Box<Server>, Defect, Connections),
    Client(Box<Client>, Defect),
}

/// When a node does something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alarm {
    Server(Timer),
    Client,
}

/// What a node is told.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Ask(Ask),
    Reshape(Reshape),
    /// To hold nothing any more.
    Drain(NodeId),
    /// To have others lead what it leads; and to tell whether they do.
    Retire(Arc<AtomicBool>),
}

impl Process for Role {
    type Message = Message;
    type Timer = Alarm;
    type Request = Wish;
    type Event = Reply;
    type Record = Synced;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        if let Self::Server(server, ..) = self {
            as_server(out, |out| server.start(now, out));
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let message = carried(&message);
        match self {
            Self::Server(server, defect, connections) => {
                if let Some(said) = defect.forgets(server, &message) {
                    return out.send(from, said);
                }
                let message = defect.at_server(message);
                out.sends.extend(defect.hastens(&message));
                let is_taken_as_durable = defect.takes_as_durable(&message);
                as_server(out, |out| {
                    server.receive(now, connections.named(from), message, out);
                    if is_taken_as_durable {
                        server.durable(now, out.logged(), out);
                    }
                    // Whoever says where it is can be reached there.
                    for event in std::mem::take(&mut out.events) {
                        if let Event::Joining(joining) = event {
                            server.request(now, joining, out);
                        }
                    }
                });
                hear_answers(server, *defect, now, out);
                connections.route(&mut out.sends);
            }
            Self::Client(client, defect) => {
                let message = defect.at_client(message);
                as_client(out, |out| client.receive(now, from, message, out));
            }
        }
    }

    fn expire(&mut self, now: Time, timer: Alarm, out: &mut Outbox<Self>) {
        match (self, timer) {
            (Self::Server(server, defect, connections), Alarm::Server(timer)) => {
                as_server(out, |out| server.expire(now, timer, out));
                hear_answers(server, *defect, now, out);
                connections.route(&mut out.sends);
            }
            (Self::Client(client, _), Alarm::Client) => as_client(out, |out| client.expire(now, (), out)),
            _ => panic!("not for this one"),
        }
    }

    fn request(&mut self, now: Time, wish: Wish, out: &mut Outbox<Self>) {
        match (self, wish) {
            (Self::Client(client, _), Wish::Ask(ask)) => as_client(out, |out| client.request(now, ask, out)),
            (Self::Server(server, _, connections), wish) => {
                let step = |out: &mut Outbox<Server>| match wish {
                    Wish::Reshape(reshape) => {
                        let message = Message::Reshape { database: DatabaseNumber(0), reshape };
                        server.receive(now, MANAGER, message, out);
                    }
                    Wish::Drain(drained) => {
                        let message = Message::Ask(MapRequest::Drain(drained.to_string()));
                        server.receive(now, drained, message, out);
                    }
                    Wish::Retire(has_retired) => has_retired.store(server.retire(now, out), Relaxed),
                    Wish::Ask(_) => panic!("not for a server"),
                };
                as_server(out, step);
                connections.route(&mut out.sends);
            }
            _ => panic!("not for this one"),
        }
    }

    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        match self {
            Self::Server(server, _, connections) => {
                let named = connections.end(peer);
                as_server(out, |out| server.disconnected(now, named, out));
                connections.route(&mut out.sends);
            }
            Self::Client(client, _) => as_client(out, |out| client.disconnected(now, peer, out)),
        }
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        if let Self::Server(server, _, connections) = self {
            as_server(out, |out| server.durable(now, upto, out));
            connections.route(&mut out.sends);
        }
    }
}

/// A server with a defect hears what it takes others to say.
fn hear_answers(server: &mut Server, defect: Defect, now: Time, out: &mut Outbox<Role>) {
    for (from, message) in defect.answers(&out.sends) {
        as_server(out, |out| server.receive(now, from, message, out));
    }
}

/// Longer is no message among replicas: large operations go in parts, and logs in several messages.
const LONGEST: usize = (1 << 20) + (64 << 10);

fn as_server(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Server>)) {
    let said = |out: &mut Outbox<Server>| {
        step(out);
        // Operators read the others.
        out.events.retain(|event| matches!(event, Event::Joining(_)));
        for (_, message) in &out.sends {
            let Message::Replication { message, .. } = message else { continue };
            let mut encoded = Vec::new();
            message.encode(&mut encoded);
            assert!(encoded.len() <= LONGEST, "a message of {} bytes among replicas", encoded.len());
        }
    };
    let nothing = |joining| unreachable!("nobody has said that it joins: {joining:?}");
    out.take_over(said, Alarm::Server, nothing, |record| record);
}

fn as_client(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Client>)) {
    out.take_over(step, |()| Alarm::Client, |reply| reply, |()| unreachable!("clients remember nothing"));
}
