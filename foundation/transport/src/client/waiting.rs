//! How a client waits for servers: in a read of the one whose answer is out, or in a poll of all.

use super::{Client, ClientError};
use crate::link::{Link, LinkError};
use crate::wire::Wire;
use fulmar_node::{NodeId, Process, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// How long a read of one connection keeps a client from hearing others.
const DEAF: Duration = Duration::from_millis(4);

impl<P: Process<Message: Wire>> Client<P> {
    /// Waits until a server sends something, or a timer expires.
    pub(super) fn block(&mut self) -> Result<(), ClientError> {
        let begun = self.clock.now();
        let timeout = self.timers.soonest().map(|deadline| deadline.since(begun));
        if self.peers.is_empty() {
            for (&server, fault) in &self.faults {
                if let LinkError::Refused(reason) = fault {
                    return Err(ClientError::Refused { server, reason: reason.clone() });
                }
            }
            if timeout.is_none() {
                return Err(ClientError::Stuck);
            }
        }
        self.now = begun;
        self.wait_beyond(begun, timeout)?;
        // Messages that have come have been taken up at the end of the wait.
        if self.now == begun {
            self.now = self.clock.now();
        }
        self.spin.learn(self.now.since(begun));
        Ok(())
    }

    fn wait_beyond(&mut self, begun: Time, timeout: Option<Duration>) -> Result<(), ClientError> {
        if let Some(server) = self.only_awaited()
            && let Some(patience) = patience(timeout, self.peers.len() > 1)
        {
            if self.answers_at_once(server, begun, timeout) {
                return Ok(());
            }
            self.read_patiently(server, patience);
            return Ok(());
        }
        wait_for(self.peers.values().map(|peer| &peer.link), timeout).map_err(ClientError::Wait)?;
        self.read_all();
        Ok(())
    }

    /// Looks whether this server answers at once, before sleeping. True if it does, or is gone.
    fn answers_at_once(&mut self, server: NodeId, begun: Time, timeout: Option<Duration>) -> bool {
        let Self { spin, peers, counters, clock, .. } = self;
        let Some(peer) = peers.get_mut(&server) else { return true };
        let received = spin.look(*clock, begun, timeout, || {
            let count = peer.link.receive(false)?;
            counters.bytes_received += count as u64;
            Ok(count > 0)
        });
        match received
            .and_then(|received| if received { self.take_frames(server).map(|()| true) } else { Ok(false) })
        {
            Ok(received) => received,
            Err(why) => {
                self.lose(server, why);
                true
            }
        }
    }

    /// The one server whose answer is out, or that is connected at all, if waiting for it alone is enough.
    fn only_awaited(&self) -> Option<NodeId> {
        let alone = self.peers.len() == 1;
        let mut awaited = self.peers.iter().filter(|(_, peer)| alone || peer.awaited > 0);
        let (&server, peer) = awaited.next()?;
        let enough = awaited.next().is_none() && (alone || !self.others_answer);
        (enough && !peer.link.is_connecting() && peer.link.unsent() == 0).then_some(server)
    }

    /// Blocks in one read of one connection: the shortest way.
    fn read_patiently(&mut self, server: NodeId, patience: Option<Duration>) {
        let Some(peer) = self.peers.get_mut(&server) else { return };
        if peer.patience != patience {
            if let Err(error) = peer.link.set_patience(patience) {
                return self.lose(server, error.into());
            }
            peer.patience = patience;
        }
        let before = self.counters.bytes_received;
        self.read(server, true);
        if self.counters.bytes_received == before && self.peers.len() > 1 {
            self.read_all();
            self.others_answer |= self.counters.bytes_received != before;
        }
    }
}

/// How long one read may wait so that a timer is not late, and that other connections are heard if there are some: a
/// power of two of milliseconds, since setting it takes a system call and most waits end long before. Nothing if less
/// than a millisecond is left.
fn patience(timeout: Option<Duration>, others: bool) -> Option<Option<Duration>> {
    let Some(timeout) = timeout.into_iter().chain(others.then_some(DEAF)).min() else { return Some(None) };
    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let power = milliseconds.checked_ilog2()?;
    Some(Some(Duration::from_millis(1 << power.min(20))))
}

fn wanted(link: &Link) -> PollFlags {
    match (link.is_connecting(), link.unsent()) {
        (true, _) => PollFlags::OUT,
        (false, 0) => PollFlags::IN,
        (false, _) => PollFlags::IN | PollFlags::OUT,
    }
}

/// Waits until something can be done with one of the connections.
pub(super) fn wait_for<'l>(
    links: impl IntoIterator<Item = &'l Link>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let mut watched: Vec<PollFd<'_>> =
        links.into_iter().map(|link| PollFd::new(link, wanted(link))).collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a connection that was begun is there, or has failed.
pub(super) fn is_writable(link: &Link) -> io::Result<bool> {
    let mut watched = [PollFd::new(link, PollFlags::OUT)];
    match poll(&mut watched, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
