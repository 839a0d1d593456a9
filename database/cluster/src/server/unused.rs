//! Shards that nobody uses: a server that is alone closes them after a while, not at once. To open one takes some
//! milliseconds, and programs come that connect, ask one thing and go, one after the other.

use super::replicas::Place;
use super::{Held, Shard, Shards, Turn};
use fulmar_node::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long one stays open.
const KEPT: Duration = Duration::from_secs(10);

/// Since when shards are not used.
#[derive(Default)]
pub(super) struct Unused(BTreeMap<Place, Time>);

impl Held {
    /// A client has gone, and perhaps what it used is used no more.
    pub(super) fn forget_user(&mut self, peer: NodeId, turn: &mut Turn<'_>) {
        for (place, shard) in &mut self.shards.open {
            let was_used = !shard.is_idle();
            shard.forget(peer, turn);
            if was_used && shard.is_idle() {
                self.shards.unused.0.insert(*place, turn.now);
            }
        }
    }

    /// Closes what nobody has used for a while.
    pub(super) fn close_unused(&mut self, turn: &Turn<'_>) {
        let Shards { open, unused: Unused(since), .. } = &mut self.shards;
        since.retain(|place, _| open.get(place).is_some_and(Shard::is_idle));
        let idle = open.iter().filter(|(_, shard)| shard.is_idle());
        idle.for_each(|(place, _)| {
            since.entry(*place).or_insert(turn.now);
        });
        if Self::is_alone(turn.known) {
            let Shards { open, unused: Unused(since), .. } = &mut self.shards;
            // Who has an older snapshot may commit yet, and what others have relied on since is known only while the shard is open.
            let oldest = turn.known.snapshots.oldest();
            let is_seen =
                |shard: &Shard| oldest.is_some_and(|oldest| oldest < shard.database().storage().last());
            open.retain(|place, shard| {
                is_seen(shard) || since.get(place).is_none_or(|since| turn.now < *since + KEPT)
            });
        }
    }
}
