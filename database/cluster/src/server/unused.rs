//! Groups that nobody uses: a server that is alone closes them after a while, not at once. To open one takes some
//! milliseconds, and programs come that connect, ask one thing and go, one after the other.

use super::replicas::Place;
use super::{Group, Server};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long one stays open.
const KEPT: Duration = Duration::from_secs(10);

/// Since when groups are not used.
#[derive(Default)]
pub(super) struct Unused(BTreeMap<Place, Time>);

impl Server {
    /// A client has gone, and perhaps what it used is used no more.
    pub(super) fn forget_user(&mut self, peer: NodeId, now: Time, out: &mut Outbox<Self>) {
        for (place, group) in &mut self.groups {
            let was_used = !group.is_idle();
            group.forget(peer, &mut self.site.turn(now, out));
            if was_used && group.is_idle() {
                self.unused.0.insert(*place, now);
            }
        }
    }

    /// Closes what nobody has used for a while.
    pub(super) fn close_unused(&mut self, now: Time) {
        let Self { groups, unused: Unused(since), .. } = self;
        since.retain(|place, _| groups.get(place).is_some_and(Group::is_idle));
        let idle = groups.iter().filter(|(_, group)| group.is_idle());
        idle.for_each(|(place, _)| {
            since.entry(*place).or_insert(now);
        });
        if self.is_alone() {
            let Self { groups, unused: Unused(since), .. } = self;
            // Who has an older snapshot may commit yet, and what others have relied on since is known only while the group is open.
            let oldest = self.site.snapshots.oldest();
            let is_seen =
                |group: &Group| oldest.is_some_and(|oldest| oldest < group.database().storage().last());
            groups.retain(|place, group| {
                is_seen(group) || since.get(place).is_none_or(|since| now < *since + KEPT)
            });
        }
    }
}
