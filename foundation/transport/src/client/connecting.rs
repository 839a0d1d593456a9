//! How a client comes to its connections: it meets servers at addresses, or dials those that it sends to.

use super::waiting::wait_for;
use super::{Client, Peer};
use crate::address::Address;
use crate::hello::{Answer, ClusterId, FIRST_CLIENT, HELLO_LIMIT, Hello};
use crate::link::{Link, LinkError};
use crate::wire::Wire;
use fulmar_node::{NodeId, Process};
use std::time::Duration;

/// How long a server may take to greet.
pub const GREETING: Duration = Duration::from_secs(5);

/// A server could not be met.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach a server at {address}: {why}")]
pub struct MeetError {
    /// Where.
    pub address: Address,
    /// Why not.
    #[source]
    pub why: LinkError,
}

impl<P: Process<Message: Wire>> Client<P> {
    /// Connects to a server of which only the address is known, and returns its name.
    ///
    /// # Errors
    ///
    /// [`MeetError`] if it cannot be reached, refuses, or is none.
    pub fn meet(&mut self, address: Address) -> Result<NodeId, MeetError> {
        self.meet_within(address, GREETING)
    }

    /// As [`Self::meet`], but a server may take so long to greet, and no longer.
    ///
    /// # Errors
    ///
    /// [`MeetError`]; [`LinkError::Mute`] if it takes longer.
    pub fn meet_within(&mut self, address: Address, patience: Duration) -> Result<NodeId, MeetError> {
        match self.greet(&address, patience) {
            Ok((server, link)) => {
                self.book.insert(server, address);
                self.peers.insert(server, Peer::new(link, true, self.clock.now()));
                Ok(server)
            }
            Err(why) => Err(MeetError { address, why }),
        }
    }

    fn greet(&mut self, address: &Address, patience: Duration) -> Result<(NodeId, Link), LinkError> {
        let mut link = Link::dial(address, self.limits.dead)?;
        self.counters.connections += 1;
        self.append_hello(&mut link, None)?;
        let deadline = self.clock.now() + patience;
        loop {
            let now = self.clock.now();
            if now >= deadline {
                return Err(LinkError::Mute(patience));
            }
            wait_for([&link], Some(deadline.since(now)))?;
            if link.is_connecting() {
                link.established()?;
            }
            self.counters.bytes_sent += link.flush() as u64;
            self.counters.bytes_received += link.receive(false)? as u64;
            let place = link.input.next(HELLO_LIMIT).map_err(|_| LinkError::NotFulmar)?;
            if let Some(place) = place {
                let server = self.judge(link.input.body(place))?;
                return Ok((server, link));
            }
        }
    }

    fn append_hello(&self, link: &mut Link, to: Option<NodeId>) -> Result<(), LinkError> {
        let hello = Hello { protocol: self.protocol, from: None, to }.encode();
        Ok(link.append(HELLO_LIMIT, |output| output.extend_from_slice(&hello))?)
    }

    /// Reads a server's answer to our greeting.
    pub(super) fn judge(&mut self, answer: &[u8]) -> Result<NodeId, LinkError> {
        match Answer::decode(answer) {
            Some(Answer::Welcome { cluster, server, .. }) => {
                if self.protocol.cluster == ClusterId::ANY {
                    self.protocol.cluster = cluster;
                }
                if self.protocol.cluster == cluster {
                    return Ok(server);
                }
                let ours = self.protocol.cluster;
                Err(LinkError::Refused(format!("it belongs to cluster {cluster}, and not to {ours}")))
            }
            Some(Answer::Refusal(reason)) => Err(LinkError::Refused(reason)),
            None => Err(LinkError::NotFulmar),
        }
    }

    /// Asks the process where a server is, and says whether that is elsewhere than was known.
    pub(super) fn locate(&mut self, server: NodeId) -> bool {
        let known = self.directory.as_ref().and_then(|directory| directory(&self.process, server));
        let address = known.filter(|address| self.book.address(server) != Some(address));
        let is_elsewhere = address.is_some();
        address.into_iter().for_each(|address| self.book.insert(server, address));
        is_elsewhere
    }

    /// Starts to connect to a server, if its address is known and it may be tried.
    pub(super) fn dial(&mut self, to: NodeId) {
        self.locate(to);
        if to >= FIRST_CLIENT || !self.book.may_dial(to, self.now) {
            return;
        }
        let Some(address) = self.book.address(to) else { return };
        let dialed = Link::dial(address, self.limits.dead).map_err(LinkError::from);
        self.counters.connections += 1;
        let dialed = dialed.and_then(|mut link| {
            self.append_hello(&mut link, Some(to))?;
            Ok(link)
        });
        match dialed {
            Ok(link) => {
                self.peers.insert(to, Peer::new(link, false, self.now));
            }
            Err(why) => {
                self.book.failed(to, self.now);
                self.faults.insert(to, why);
                self.disconnected.push(to);
            }
        }
    }
}
