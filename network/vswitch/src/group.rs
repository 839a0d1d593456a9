//! Groups: several ways to send a packet on, of which some are taken (section 5.6 of the OpenFlow specification).

use crate::meter::counts;
use crate::traffic::Counters;
use fulmar_node::Time;
use fulmar_openflow::action::Extension;
use fulmar_openflow::group::{Bucket, GroupDescription, GroupKind, GroupMod, GroupStats};
use fulmar_openflow::{Action, GroupNumber, PortNumber};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// So many groups there may be…
const MAX_GROUPS: usize = 1 << 20;
/// …with so many bytes of buckets in all, as they are sent. In memory that may be six times as much.
const MAX_BYTES: usize = 64 << 20;

/// A bucket, and what has gone through it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) bucket: Bucket,
    pub(crate) counters: Counters,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupNumber, Arc<Group>>,
    /// How long their buckets are together, as they are sent: bytes.
    bytes: usize,
}

impl Groups {
    /// Whether it can come, or take the place of the one of its number.
    pub(crate) fn has_room_for(&self, group: &Group) -> bool {
        let before = self.groups.get(&group.number);
        let freed = before.map_or(0, |group| group.length);
        (before.is_some() || self.groups.len() < MAX_GROUPS)
            && (group.length <= freed || self.bytes + group.length <= MAX_BYTES + freed)
    }

    /// Puts this in the place of a group, or nothing, and answers what was there.
    pub(crate) fn replace(&mut self, number: GroupNumber, group: Option<Arc<Group>>) -> Option<Arc<Group>> {
        self.bytes += group.as_ref().map_or(0, |group| group.length);
        let before = match group {
            Some(group) => self.groups.insert(number, group),
            None => self.groups.remove(&number),
        };
        self.bytes -= before.as_ref().map_or(0, |group| group.length);
        before
    }
}

impl Deref for Groups {
    type Target = BTreeMap<GroupNumber, Arc<Group>>;

    fn deref(&self) -> &Self::Target {
        &self.groups
    }
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) number: GroupNumber,
    pub(crate) kind: GroupKind,
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) counters: Counters,
    /// How long its buckets are, as they are sent: bytes.
    length: usize,
    created: Time,
}

impl Group {
    pub(crate) fn new(group: &GroupMod, now: Time) -> Self {
        let member =
            |bucket: &Bucket| Arc::new(Member { bucket: bucket.clone(), counters: Counters::default() });
        Self {
            number: group.group,
            kind: group.kind,
            members: group.buckets.iter().map(member).collect(),
            counters: Counters::default(),
            length: group.buckets.iter().map(Bucket::length).sum(),
            created: now,
        }
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.members.iter().flat_map(|member| &member.bucket.actions)
    }

    /// The groups that it sends to.
    pub(crate) fn next(&self) -> Vec<GroupNumber> {
        targets(self.actions())
    }

    pub(crate) fn describe(&self) -> GroupDescription {
        let buckets = self.members.iter().map(|member| member.bucket.clone()).collect();
        GroupDescription { kind: self.kind, group: self.number, buckets }
    }

    pub(crate) fn stats(&self, references: usize, now: Time) -> GroupStats {
        let age = now.since(self.created);
        GroupStats {
            group: self.number,
            references: u32::try_from(references).unwrap_or(u32::MAX),
            counts: counts(&self.counters),
            seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
            nanoseconds: age.subsec_nanos(),
            buckets: self.members.iter().map(|member| counts(&member.counters)).collect(),
        }
    }
}

impl Member {
    /// What its life depends on: a bucket that watches nothing lives.
    pub(crate) fn watched(&self) -> (Option<PortNumber>, Option<GroupNumber>) {
        let (port, group) = (self.bucket.watch_port, self.bucket.watch_group);
        ((port != PortNumber::ANY).then_some(port), (group != GroupNumber::ANY).then_some(group))
    }
}

/// Whether an action, or one within it, is for a group that is meant.
pub(crate) fn sends_to(action: &Action, is_meant: &mut impl FnMut(GroupNumber) -> bool) -> bool {
    match action {
        Action::Group(group) => is_meant(*group),
        Action::Extension(Extension::Clone(actions)) => {
            actions.0.iter().any(|action| sends_to(action, is_meant))
        }
        _ => false,
    }
}

/// The groups that actions, or ones within them, are for; each as often as it is named.
pub(crate) fn targets<'a>(actions: impl Iterator<Item = &'a Action>) -> Vec<GroupNumber> {
    let mut groups = Vec::new();
    for action in actions {
        sends_to(action, &mut |group| {
            groups.push(group);
            false
        });
    }
    groups
}

/// Which member a hash selects, by weight; nothing, if none has any. The one with the highest random weight is taken, so that a
/// change of one member moves only what was its (Thaler and Ravishankar 1998).
pub(crate) fn select<'a>(
    members: impl Iterator<Item = (usize, &'a Arc<Member>)>,
    hash: u64,
) -> Option<&'a Arc<Member>> {
    let score = |index: usize, weight: u16| {
        let mixed = (hash ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        // Of w weights, the largest of w draws: u^(1/w), compared by logarithms.
        let fraction = ((mixed >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        fraction.ln() / f64::from(weight)
    };
    members
        .filter(|(_, member)| member.bucket.weight > 0)
        .map(|(index, member)| (score(index, member.bucket.weight), member))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, member)| member)
}
