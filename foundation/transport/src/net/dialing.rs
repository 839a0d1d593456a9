//! Connections to other servers that this one begins.

use super::{Net, Stage};
use crate::address::Address;
use crate::hello::{HELLO_LIMIT, Hello};
use crate::link::{Link, LinkError};
use crate::notice::Notice;
use fulmar_node::NodeId;

impl Net {
    /// Notes where a server is. An address that nobody has any more may be silent for seconds: an attempt there is given up.
    pub(crate) fn locate(&mut self, node: NodeId, address: Address) {
        if self.book.address(node) != Some(&address) {
            for key in self.routes.get(node).into_iter().chain(self.routes.call(node)) {
                let known = self.connections.get(&key);
                if known.is_some_and(|known| matches!(known.stage, Stage::Answer(_))) {
                    self.close(key, LinkError::Moved);
                }
            }
        }
        self.book.insert(node, address);
    }

    /// Starts to connect to a server, if its address is known and it may be tried.
    pub(super) fn dial(&mut self, to: NodeId) -> Option<u64> {
        if !self.book.may_dial(to, self.now) {
            return None;
        }
        let address = self.book.address(to)?.clone();
        match self.call(to, &address) {
            Ok(key) => {
                self.routes.set(to, key);
                self.notices.push(Notice::Connecting { peer: to, address });
                Some(key)
            }
            Err(why) => {
                self.book.failed(to, self.now);
                self.notices.push(Notice::Unreachable { peer: to, address, why });
                None
            }
        }
    }

    /// Begins a connection to a server.
    pub(super) fn call(&mut self, to: NodeId, address: &Address) -> Result<u64, LinkError> {
        let hello = Hello { protocol: self.protocol, from: Some(self.me), to: Some(to) }.encode();
        let mut link = Link::dial(address, self.limits.dead)?;
        if self.keep_alive.is_some() {
            link.share()?;
        }
        link.append(HELLO_LIMIT, |output| output.extend_from_slice(&hello))?;
        self.add(link, Stage::Answer(to), true)
    }
}
