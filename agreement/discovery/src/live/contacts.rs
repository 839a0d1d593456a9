//! The addresses that a node was started with: it calls them until it knows who is there.

use super::pace;
use super::roster::Roster;
use fulmar_node::Time;
use std::net::SocketAddr;

#[derive(Debug)]
struct Contact {
    address: SocketAddr,
    /// Who answered under this address, and may call itself by another.
    is: Option<SocketAddr>,
    calls: u32,
    /// The stamp of the last call.
    stamp: u64,
    due: Time,
}

/// Whom to call, and when.
#[derive(Debug)]
pub(super) struct Contacts(Vec<Contact>);

impl Contacts {
    pub(super) fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let contact = |address| Contact { address, is: None, calls: 0, stamp: 0, due: Time::ZERO };
        Self(addresses.into_iter().map(contact).collect())
    }

    /// The first is called at once, the second a little later, and the others a little later still: by then most are known
    /// through those before.
    pub(super) fn begin(&mut self, now: Time) {
        for (contact, rank) in self.0.iter_mut().zip(0_u32..) {
            contact.due = now + pace::BETWEEN_CONTACTS * rank.min(2);
        }
    }

    /// It was called with this stamp.
    pub(super) fn called(&mut self, address: SocketAddr, stamp: u64) {
        let called = self.0.iter_mut().filter(|contact| contact.address == address);
        called.for_each(|contact| contact.stamp = stamp);
    }

    /// Somebody has answered the message with this stamp, which went to that address. Who has not got it knows no such stamp, and would
    /// keep the node from calling again.
    pub(super) fn answered(&mut self, called: SocketAddr, stamp: u64, by: SocketAddr) {
        let answered = |contact: &&mut Contact| contact.address == called && contact.stamp == stamp;
        self.0.iter_mut().filter(answered).for_each(|contact| contact.is = Some(by));
    }

    /// Whom to call now.
    pub(super) fn due(&mut self, now: Time, roster: &Roster) -> Vec<SocketAddr> {
        let mut calls = Vec::new();
        for contact in &mut self.0 {
            if contact.due > now {
                continue;
            }
            if contact.is_known(roster) {
                // It may die, and then it is to be called again.
                contact.calls = 0;
                contact.due = now + pace::RARELY;
            } else {
                contact.due = now + pace::call_again(contact.calls);
                contact.calls += 1;
                calls.push(contact.address);
            }
        }
        calls
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.0.iter().map(|contact| contact.due).min()
    }

    pub(super) fn contains(&self, address: SocketAddr) -> bool {
        self.0.iter().any(|contact| contact.address == address)
    }

    /// Who has not answered, and is not known to be alive by others either.
    pub(super) fn unanswered<'a>(&'a self, roster: &'a Roster) -> impl Iterator<Item = SocketAddr> + 'a {
        self.0.iter().filter(|contact| !contact.is_known(roster)).map(|contact| contact.address)
    }

    /// Whether of each it is known who it is or was, or it was called so often that it hardly will answer.
    pub(super) fn are_settled(&self, roster: &Roster) -> bool {
        let was_there = |address| roster.get(address).is_some();
        self.0.iter().all(|contact| {
            was_there(contact.address) || contact.is.is_some_and(was_there) || contact.calls > pace::CALLS
        })
    }
}

impl Contact {
    fn is_known(&self, roster: &Roster) -> bool {
        roster.is_live(self.address) || self.is.is_some_and(|address| roster.is_live(address))
    }
}
