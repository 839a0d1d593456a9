//! What a node keeps of each other one that is alive: what has come from it, and when something is to come again.

use super::message::{Heard, Span};
use super::pace;
use super::roster::Digest;
use fulmar_node::Time;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Peer {
    life: u64,
    /// That which came last. Mostly it is the newest; an older one says less, and is true, too. One that was invented would stay for
    /// good if the newest counted.
    stamp: u64,
    /// Its journal is known here up to this revision.
    have: u64,
    /// When it is overdue…
    pub(super) due: Time,
    /// …and how often it was asked since.
    pub(super) asked: u32,
    /// The view that it would have stable, and a stamp of this node's that is older than when it held that view.
    pub(super) confirmed: Option<(Digest, u64)>,
}

/// Live nodes, by address.
#[derive(Debug, Default)]
pub(super) struct Peers(BTreeMap<SocketAddr, Peer>);

impl Peers {
    /// Begins to watch a node: something is to come from it within this time, or else it is asked.
    pub(super) fn expect(&mut self, address: SocketAddr, life: u64, due: Time) {
        let fresh = || Peer { life, stamp: 0, have: 0, due, asked: 0, confirmed: None };
        let peer = self.0.entry(address).or_insert_with(fresh);
        if peer.life == life {
            (peer.due, peer.asked) = (due, 0);
        } else {
            *peer = fresh();
        }
    }

    /// Something has come, and something more will within `pause`.
    pub(super) fn heard(&mut self, address: SocketAddr, life: u64, stamp: u64, now: Time, pause: Duration) {
        self.expect(address, life, now + pause + pace::PATIENCE);
        self.0.entry(address).and_modify(|peer| peer.stamp = stamp);
    }

    /// A part of the node's journal has come. Says whether all of it is known now.
    pub(super) fn note(&mut self, address: SocketAddr, span: Span) -> bool {
        let Some(peer) = self.0.get_mut(&address) else { return false };
        if span.base <= peer.have {
            peer.have = peer.have.max(span.upto);
        }
        peer.have >= span.end
    }

    /// Nothing of the node's journal is known here for sure.
    pub(super) fn unlearn(&mut self, address: SocketAddr) {
        self.0.entry(address).and_modify(|peer| peer.have = 0);
    }

    /// The node would have this view stable, or none yet, and says so after it has got a message of this node's with that stamp.
    pub(super) fn confirm(&mut self, address: SocketAddr, digest: Option<Digest>, after: u64) {
        let Some(peer) = self.0.get_mut(&address) else { return };
        // What was overtaken by something newer says nothing any more.
        if peer.confirmed.is_none_or(|(_, before)| before <= after) {
            peer.confirmed = digest.map(|digest| (digest, after));
        }
    }

    /// What has come from a node.
    pub(super) fn from(&self, address: SocketAddr) -> Option<Heard> {
        let peer = self.0.get(&address)?;
        Some(Heard { life: peer.life, stamp: peer.stamp, have: peer.have })
    }

    pub(super) fn get(&self, address: SocketAddr) -> Option<&Peer> {
        self.0.get(&address)
    }

    pub(super) fn get_mut(&mut self, address: SocketAddr) -> Option<&mut Peer> {
        self.0.get_mut(&address)
    }

    pub(super) fn forget(&mut self, address: SocketAddr) {
        self.0.remove(&address);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketAddr, &Peer)> {
        self.0.iter().map(|(address, peer)| (*address, peer))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (SocketAddr, &mut Peer)> {
        self.0.iter_mut().map(|(address, peer)| (*address, peer))
    }
}
