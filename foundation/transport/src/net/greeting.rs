//! Who comes in is let in, or told why not.

use super::{Net, Stage};
use crate::hello::{Answer, FIRST_CLIENT, HELLO_LIMIT, Hello, Refusal};
use crate::keep_alive::Tail;
use crate::notice::Notice;
use fulmar_node::NodeId;
use std::sync::Arc;

impl Net {
    /// Lets in who greets properly.
    pub(super) fn welcome(&mut self, key: u64, hello: Hello) -> Result<(), Refusal> {
        hello.judge(self.protocol, self.me)?;
        let count = self.routes.count();
        // Of servers there are few, and clients wait for what they say to each other.
        let is_server = hello.from.is_some_and(|peer| self.book.address(peer).is_some());
        let is_local = self.connections.get(&key).is_some_and(|connection| connection.link.is_local());
        let is_full = count >= self.limits.connections_for(is_local);
        if is_full && !self.make_room() && !is_server {
            return Err(Refusal::Full(count));
        }
        let peer = hello.from.unwrap_or_else(|| self.name_client());
        let answer = Answer::Welcome { cluster: self.protocol.cluster, server: self.me, you: peer };
        let answer = answer.encode(self.protocol.version);
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        connection.stage = Stage::Open(peer);
        if peer < FIRST_CLIENT && self.keep_alive.is_some() {
            // Without, it says nothing during a turn.
            let _ = connection.link.share();
        }
        let appended = connection.link.append(HELLO_LIMIT, |output| output.extend_from_slice(&answer));
        appended.expect("a greeting is short");
        let address = connection.link.other_end();
        let tail = connection.link.tail();
        self.watch(key, tail);
        self.admit(peer, key);
        self.notices.push(Notice::Connected { peer, address });
        self.soil(key);
        Ok(())
    }

    /// There is a connection with another server.
    pub(super) fn watch(&self, key: u64, tail: Option<Arc<Tail>>) {
        if let Some((keep_alive, tail)) = self.keep_alive.as_ref().zip(tail) {
            keep_alive.add(key, tail);
        }
    }

    /// A name that no connection has.
    fn name_client(&mut self) -> NodeId {
        loop {
            let name = NodeId(self.next_client);
            // The last name stands for nobody.
            let after = self.next_client + 1;
            self.next_client = if after == u32::MAX { FIRST_CLIENT.0 } else { after };
            if self.routes.get(name).is_none() {
                return name;
            }
        }
    }

    pub(super) fn refuse(&mut self, key: u64, call: Option<(NodeId, NodeId)>, why: Refusal) {
        let Some(mut connection) = self.connections.remove(&key) else { return };
        let answer = Answer::Refusal(why.to_string()).encode(self.protocol.version);
        connection.link.part_with(&answer);
        self.notices.push(Notice::Refused { address: connection.link.other_end(), call, why });
    }
}
