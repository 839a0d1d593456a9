//! Leaves go where there is room, and where there is time.
//!
//! Each server tells the one that keeps the map how much it holds and does, and hears that of all. The shard of a tree's
//! root, which knows all links, moves leaves from servers that hold more than their share; the shard of a leaf that keeps
//! its server busier than others wishes it away, or cut, if it is too busy for any server (Yesquel, section 3.3: load
//! splits).
//!
//! *Known as:* load balancing.

use super::shard::Shard;
use super::{Held, Known, Turn};
use crate::status::Load;
use fulmar_dbt::{Reshape, Shape};
use fulmar_kv::{Error, Key, ObjectId};
use fulmar_node::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// So many more objects than the mean are no reason to move any; or an eighth of the mean.
const SLACK: u64 = 16;
/// A server that does less is not busy: operations, as [`Load::work`] counts them.
const BUSY: u64 = 1_000;
/// A server that has been busier than another for so many sweeps gives it work. What one knows of others may be as old as a
/// sweep: when all become busy at once, each is the busiest for a moment, as far as it knows.
const PATIENCE: u32 = 4;
/// One in so many operations is noted.
const SAMPLED: u64 = 8;
/// So many leaves are watched.
const WATCHED: usize = 256;
/// Of each so many keys are remembered.
const KEYS: usize = 16;
/// A server asks for so many changes at once.
const AT_ONCE: usize = 16;

/// What a shard's leaves have had to do of late.
#[derive(Default)]
pub(super) struct Heat {
    /// Counts operations.
    seen: u64,
    /// See [`Load::work`].
    work: u64,
    leaves: BTreeMap<ObjectId, Warm>,
}

#[derive(Default)]
struct Warm {
    /// As [`Load::work`].
    work: u64,
    /// The keys that were noted last, in a ring.
    keys: Vec<Key>,
    noted: usize,
}

impl Heat {
    /// An operation on a leaf.
    pub(super) fn note(&mut self, leaf: ObjectId, key: &[u8]) {
        self.seen += 1;
        self.work += 1;
        if !self.seen.is_multiple_of(SAMPLED)
            || self.leaves.len() >= WATCHED && !self.leaves.contains_key(&leaf)
        {
            return;
        }
        let warm = self.leaves.entry(leaf).or_default();
        warm.work += SAMPLED;
        if warm.keys.len() < KEYS {
            warm.keys.push(key.into());
        } else {
            warm.keys[warm.noted % KEYS] = key.into();
        }
        warm.noted += 1;
    }

    fn cool(&mut self) {
        self.work /= 2;
        self.leaves.retain(|_, warm| {
            warm.work /= 2;
            warm.work > 0
        });
    }

    /// Some of the busiest leaves, which together do no more than `most`; one that does more alone, with where to cut it.
    /// They are watched anew.
    fn relief(&mut self, most: u64) -> Vec<(ObjectId, Option<Key>)> {
        let mut busiest: Vec<_> = self.leaves.iter().map(|(leaf, warm)| (warm.work, *leaf)).collect();
        busiest.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = most;
        let mut relief = Vec::new();
        for (work, leaf) in busiest {
            let cut = if work > most { self.middle(leaf) } else { None };
            if relief.len() == AT_ONCE || work > left && cut.is_none() {
                continue;
            }
            left -= work.min(left);
            self.leaves.remove(&leaf);
            relief.push((leaf, cut));
        }
        relief
    }

    /// A key before which about half of a leaf's work is.
    fn middle(&self, leaf: ObjectId) -> Option<Key> {
        let mut keys = self.leaves.get(&leaf)?.keys.clone();
        keys.sort_unstable();
        let middle = keys.get(keys.len() / 2)?;
        (Some(middle) > keys.first()).then(|| middle.clone())
    }
}

/// Where leaves may go.
struct Room<'a> {
    /// Servers that are to be empty.
    draining: &'a BTreeSet<NodeId>,
    /// What each server holds and does.
    loads: &'a BTreeMap<NodeId, Load>,
    /// What each of those that stay should hold.
    objects: u64,
}

impl<'a> Room<'a> {
    /// Nothing, if there is one server alone.
    fn of(loads: &'a BTreeMap<NodeId, Load>, draining: &'a BTreeSet<NodeId>) -> Option<Self> {
        let sum: u64 = loads.values().map(|load| load.objects).sum();
        let others = loads.keys().filter(|server| !draining.contains(server)).count() as u64;
        (loads.len() > 1).then(|| Self { draining, loads, objects: sum / others.max(1) })
    }

    fn objects(&self, server: NodeId) -> u64 {
        self.loads.get(&server).map_or(0, |load| load.objects)
    }

    fn stays(&self, server: NodeId) -> bool {
        self.loads.contains_key(&server) && !self.draining.contains(&server)
    }

    /// How many objects a server has above its share; none, if that is no reason to move them.
    fn excess(&self, server: NodeId) -> u64 {
        let objects = self.objects(server);
        if self.draining.contains(&server) {
            return objects;
        }
        let excess = objects.saturating_sub(self.objects);
        if excess > SLACK.max(self.objects / 8) { excess } else { 0 }
    }

    /// How many leaves the shards on one server may have moved at once. All servers do so at the same time, and know loads from
    /// a sweep ago: so they fill but half of what the emptiest lacks, or it would be the fullest next, and leaves would go to
    /// and fro for ever.
    fn share(&self) -> usize {
        let emptiest = self.loads.iter().filter(|(server, _)| self.stays(**server));
        let missing = emptiest.map(|(_, load)| self.objects.saturating_sub(load.objects)).max().unwrap_or(0);
        let share = missing.div_ceil(2 * self.loads.len() as u64);
        usize::try_from(share).unwrap_or(AT_ONCE).min(AT_ONCE)
    }

    /// Whom a server may give work to, and how much that has: the busiest the idlest, the next the next, so that not all
    /// choose the same.
    fn partner(&self, server: NodeId) -> Option<(NodeId, u64)> {
        let stay = self.loads.iter().filter(|(server, _)| self.stays(**server));
        let mut idlest: Vec<_> = stay.map(|(server, load)| (load.work, *server)).collect();
        idlest.sort_unstable();
        let rank = idlest.iter().rev().position(|(_, other)| *other == server)?;
        let (work, partner) = *idlest.get(rank)?;
        (rank < idlest.len() / 2).then_some((partner, work))
    }
}

impl Held {
    /// Whether there is nobody who could take what this server holds.
    pub(super) fn is_alone(known: &Known) -> bool {
        known.map.servers.len() < 2
    }

    /// How much this server holds and does.
    fn load(&self) -> Load {
        let add = |sum: Load, shard: &Shard| Load {
            objects: sum.objects + shard.database().storage().objects(),
            work: sum.work + shard.heat.work,
        };
        self.shards.open.values().fold(Load::default(), add)
    }

    /// Whether all its shards may have trees and leaves.
    fn is_welcome(&mut self, turn: &mut Turn<'_>) -> bool {
        let late = turn.known.map.late(turn.known.me);
        let unknown: Vec<_> = late.filter(|place| !self.shards.welcome.contains(place)).collect();
        for place in unknown {
            let is_welcome = matches!(self.holds(place, turn), Ok(true))
                && self
                    .shards
                    .open
                    .get(&place)
                    .is_some_and(|shard| matches!(shard.trees.is_welcome(), Ok(true)));
            if !is_welcome {
                return false;
            }
            self.shards.welcome.insert(place);
        }
        true
    }

    /// Tells how much this server holds and does, and sees to it that it is not too much.
    pub(super) fn balance(&mut self, turn: &mut Turn<'_>) {
        if !turn.known.clock.is_known() || !self.is_welcome(turn) {
            return;
        }
        if !Self::is_alone(turn.known) {
            // What nobody uses takes its share of room too.
            let held: Vec<_> = turn.known.map.held(turn.known.me).collect();
            held.into_iter().for_each(|place| drop(self.holds(place, turn)));
        }
        let load = self.load();
        turn.send(turn.known.map.manager, super::Message::Load(load));
        let (loads, draining) = (turn.known.loads.clone(), turn.known.map.draining.clone());
        let Some(room) = Room::of(&loads, &draining) else { return };
        // Those that are underway have not changed the loads yet.
        let underway = self.shards.open.values().map(Shard::moves_underway).sum();
        let mut most = room.share().saturating_sub(underway);
        for shard in self.shards.open.values_mut() {
            // What cannot be done now is tried again.
            most -= shard.even_out(&room, most, turn).unwrap_or(0);
        }
        // As others know it, and of the same time.
        let known = loads.get(&turn.known.me).map_or(0, |load| load.work);
        let partner = room.partner(turn.known.me).filter(|(_, its)| known > BUSY && known > its + known / 8);
        self.shards.busier = if partner.is_some() { self.shards.busier + 1 } else { 0 };
        let hottest = self.shards.open.values_mut().max_by_key(|shard| shard.heat.work);
        if let (Some((partner, its)), Some(shard)) = (partner, hottest)
            && self.shards.busier >= PATIENCE
        {
            self.shards.busier = 0;
            // What cannot be done now is wished for again while this server is busier.
            let _ = shard.relieve(partner, (known - its) / 4, turn);
        }
        self.shards.open.values_mut().for_each(|shard| shard.heat.cool());
    }
}

impl Shard {
    /// As the shard of trees' roots: moves some leaves from servers that hold too much, at most so many; and says how many.
    fn even_out(&mut self, room: &Room<'_>, most: usize, turn: &mut Turn<'_>) -> Result<usize, Error> {
        let (database, _) = self.name;
        let most = most.min(self.pace.at_once(turn.now).saturating_sub(self.moves_underway()));
        let Some(placement) = turn.known.map.databases.get(&database) else { return Ok(0) };
        let servers = placement.shards.clone();
        let stay = super::numbered(&servers).filter(|(_, server)| room.stays(**server));
        let Some((to, emptiest)) = stay.min_by_key(|(_, server)| room.objects(**server)) else {
            return Ok(0);
        };
        let has_room = room.objects(*emptiest) < room.objects;
        if most == 0 || !has_room || servers.iter().all(|server| room.excess(*server) == 0) {
            return Ok(0);
        }
        let Some(walked) = self.trees.leaves(self.walked.take())? else { return Ok(0) };
        let excess = |leaf: ObjectId| servers.get(usize::from(leaf.shard().0)).map_or(0, |s| room.excess(*s));
        let full = walked.links.iter().filter(|(_, leaf)| excess(*leaf) > 0);
        let mut moved = 0;
        for (low, leaf) in full.take(most) {
            let (low, shape) = (low.clone(), Shape::Move(to));
            self.reshape(Reshape { root: walked.root, leaf: *leaf, low, shape }, turn)?;
            moved += 1;
        }
        self.walked = walked.next;
        Ok(moved)
    }

    /// As the shard of leaves: wishes some away that do no more than `most`, and has those cut that do more.
    fn relieve(&mut self, partner: NodeId, most: u64, turn: &mut Turn<'_>) -> Result<(), Error> {
        let (database, _) = self.name;
        let Some(placement) = turn.known.map.databases.get(&database) else { return Ok(()) };
        let to = super::numbered(&placement.shards).find(|(_, server)| **server == partner);
        let Some((to, _)) = to else { return Ok(()) };
        for (leaf, cut) in self.heat.relief(most) {
            let Some(leaf) = self.database.read(leaf)?.filter(|object| object.level() == 0) else { continue };
            let interval = leaf.interval();
            let reshapes = match cut {
                Some(key) if interval.contains(&key) && interval.low() < &*key => {
                    self.trees.split(leaf.id(), vec![key])?
                }
                None if leaf.id() != leaf.root() => {
                    let (root, low, shape) = (leaf.root(), interval.low().into(), Shape::Move(to));
                    vec![Reshape { root, leaf: leaf.id(), low, shape }]
                }
                _ => Vec::new(),
            };
            self.wish(reshapes, turn);
        }
        Ok(())
    }
}
