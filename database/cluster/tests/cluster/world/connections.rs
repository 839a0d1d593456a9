//! Connections of clients with servers, and messages as they come out of them.

use super::{CLIENTS_BEGIN, LATE};
use fulmar_cluster::Message;
use fulmar_node::NodeId;
use fulmar_transport::Wire;
use std::collections::BTreeMap;

/// What a server calls the clients that it hears: each by another name on each connection.
#[derive(Default)]
pub(crate) struct Connections(BTreeMap<NodeId, u32>);

impl Connections {
    /// Names of clients on connections begin here.
    const FIRST: u32 = 1 << 31;

    fn is_client(node: NodeId) -> bool {
        node.0 >= CLIENTS_BEGIN && node != LATE
    }

    pub(super) fn named(&self, node: NodeId) -> NodeId {
        if !Self::is_client(node) {
            return node;
        }
        let count = self.0.get(&node).copied().unwrap_or_default();
        NodeId(Self::FIRST | node.0 << 16 | count)
    }

    /// The connection with a client or another server has ended; answers what it was called.
    pub(super) fn end(&mut self, node: NodeId) -> NodeId {
        let named = self.named(node);
        *self.0.entry(node).or_default() += 1;
        named
    }

    /// Has what a server says to clients go to those that are still connected.
    pub(super) fn route(&self, sends: &mut Vec<(NodeId, Message)>) {
        sends.retain_mut(|(to, _)| {
            if to.0 < Self::FIRST {
                return true;
            }
            let (named, client) = (*to, NodeId((to.0 & !Self::FIRST) >> 16));
            *to = client;
            self.named(client) == named
        });
    }
}

/// No message is longer, with the largest commits that are tried here.
const LONGEST: usize = 8 << 20;

/// A message as it comes out of a connection.
pub(super) fn carried(message: &Message) -> Message {
    let bytes = encoded(message);
    assert!(bytes.len() <= LONGEST, "a message of {} bytes", bytes.len());
    Message::decode(&bytes).unwrap_or_else(|_| panic!("whoever hears this ends the connection: {message:?}"))
}

/// A message as it goes through a connection.
pub(crate) fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}
