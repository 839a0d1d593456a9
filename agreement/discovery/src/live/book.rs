//! Numbers for addresses: what a driver sends to is called by a number.

use fulmar_node::NodeId;
use fulmar_transport::FIRST_CLIENT;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Each address that is sent to has a number, which means nothing to other nodes.
#[derive(Debug, Default)]
pub(super) struct Book {
    numbers: BTreeMap<SocketAddr, NodeId>,
    addresses: BTreeMap<NodeId, SocketAddr>,
    /// The last number that was given.
    last: u32,
}

impl Book {
    pub(super) fn number(&mut self, address: SocketAddr) -> NodeId {
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        let number = self.next();
        self.numbers.insert(address, number);
        self.addresses.insert(number, address);
        number
    }

    /// A number that nobody has. Strangers can use up all; then they begin anew.
    fn next(&mut self) -> NodeId {
        loop {
            // Zero is the node itself, and the upper half are clients.
            self.last = self.last % (FIRST_CLIENT.0 - 1) + 1;
            let number = NodeId(self.last);
            if !self.addresses.contains_key(&number) {
                return number;
            }
        }
    }

    pub(super) fn address(&self, number: NodeId) -> Option<SocketAddr> {
        self.addresses.get(&number).copied()
    }

    /// Gives up the numbers of all other addresses.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(SocketAddr) -> bool) {
        self.numbers.retain(|address, _| is_wanted(*address));
        self.addresses.retain(|_, address| is_wanted(*address));
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_anew_and_nobody_gets_the_one_of_another() {
        let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let mut book = Book::default();
        assert_eq!(book.number(address(1)), NodeId(1));
        book.last = FIRST_CLIENT.0 - 2;
        assert_eq!(book.number(address(2)), NodeId(FIRST_CLIENT.0 - 1));
        assert_eq!(book.number(address(3)), NodeId(2));
        assert_eq!(book.number(address(1)), NodeId(1));
        assert_eq!(book.address(NodeId(2)), Some(address(3)));
    }
}
