//! Which of many rules a packet meets, and which of its bits that depends on.
//!
//! *Known as:* packet classification, tuple space search, wildcard (megaflow) generation, staged lookup.
//!
//! # The problem
//!
//! A flow table has rules that ask for any bits of any fields; of those that a packet meets, the most important counts. Tables are
//! large, change all the time, and are looked at for each packet of a new kind. And whoever remembers the answer needs to know for
//! which other packets it is the same: for as many as possible.
//!
//! # The idea
//!
//! *Tuple space search* (Srinivasan and others 1999; Pfaff and others 2015, sections 3.2 and 5, which section numbers in this crate
//! are of). The rules that ask for the same bits are a hash table; there are as many tables as kinds of rules, and a lookup looks in
//! each. So a rule comes and goes in constant time, whatever fields it asks for. What a lookup has looked at are all bits of
//! all masks, unless one is careful:
//!
//! - *priority sorting* (5.2): tables with more important rules come first, and no other is looked at once none can have a better;
//! - *staged lookup* (5.3): the metadata, L2, L3 and L4 are hashed one after the other, and if no rule has the first of them the
//!   others were not looked at;
//! - *prefix tracking* (5.4): a trie of the prefixes that rules ask for tells which tables cannot have a rule, and by how few bits
//!   of an address; another, of a table's ports, why it has none;
//! - *partitioning* (5.5): tables whose rules ask for other metadata are passed over.
//!
//! # The structure
//!
//! [`Classifier`] over `subtable`, one for each [`Mask`], over `rules` and `hashes`, which are kept by `hash` in a `table`, whose memory is had in time by `fetch`; `trie`, `tries` and `partition` for what is passed over; [`Rule`]; [`shared`],
//! a classifier that is read while it changes.
//!
//! # Example
//!
//! ```
//! use fulmar_classifier::{Classifier, Masks, Rule};
//! use fulmar_packet::{Field, FlowKey, FlowMask, Match};
//! use std::sync::Arc;
//!
//! let (mut classifier, mut masks) = (Classifier::default(), Masks::default());
//! let net = Match::ANY.with_prefix(Field::IPV4_DESTINATION, 0x0a00_0000, 8);
//! classifier.insert(Arc::new(Rule::new(masks.get(net.mask()), net.key(), 10, "forward")));
//!
//! let mut packet = FlowKey::default();
//! packet.set(Field::IPV4_DESTINATION, 0x0a01_0203);
//! let mut consulted = FlowMask::default();
//! let rule = classifier.find_consulting(&packet, &mut consulted).unwrap();
//! assert_eq!(*rule.value(), "forward");
//! assert_eq!(consulted.get(Field::IPV4_DESTINATION), 0xff00_0000);
//! ```
//!
//! # What is guaranteed
//!
//! The rule that is found is the one of the highest priority that the packet meets (of several of one priority, any), whatever is
//! optimised. Every packet that agrees with this one in the consulted bits is answered by the same rule.
//!
//! Not guaranteed: that no fewer bits would do.

mod hash;
mod hashes;
mod partition;
mod rule;
mod rules;
pub mod shared;
mod subtable;
mod table;
#[cfg(test)]
mod tests;
mod trie;
mod tries;

pub use rule::{Mask, Masks, Rule};

use fulmar_packet::{Field, FlowKey, FlowMask};
use hash::Seed;
use partition::Partition;
use rules::Entry;
use std::sync::Arc;
use subtable::Subtable;
use tries::{Prefixes, Tries};

/// What is done so that fewer tables and fewer bits are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimisations {
    /// Section 5.2.
    pub priority_sorting: bool,
    /// Section 5.3.
    pub staged_lookup: bool,
    /// Section 5.4, of addresses.
    pub prefix_tracking: bool,
    /// Section 5.4, of ports.
    pub port_tracking: bool,
    /// Section 5.5.
    pub partitioning: bool,
}

impl Optimisations {
    /// All of them.
    pub const ALL: Self = Self {
        priority_sorting: true,
        staged_lookup: true,
        prefix_tracking: true,
        port_tracking: true,
        partitioning: true,
    };
    /// None of them.
    pub const NONE: Self = Self {
        priority_sorting: false,
        staged_lookup: false,
        prefix_tracking: false,
        port_tracking: false,
        partitioning: false,
    };
}

impl Default for Optimisations {
    fn default() -> Self {
        Self::ALL
    }
}

/// With so many rules, what is looked at in a subtable is no longer in a near cache.
const MANY: usize = 10_000;

/// Of so many subtables that is fetched at once: a lookup may end before it comes to more.
const GROUP: usize = 8;

/// A table of rules.
pub struct Classifier<T> {
    optimisations: Optimisations,
    seed: Seed,
    /// In descending order of their highest priority, or as they came.
    subtables: Vec<(Subtable<T>, Option<Partition>)>,
    tries: Tries,
    rules: usize,
}

impl<T> Default for Classifier<T> {
    fn default() -> Self {
        Self::new(Optimisations::ALL, 0)
    }
}

impl<T> Clone for Classifier<T> {
    fn clone(&self) -> Self {
        Self {
            optimisations: self.optimisations,
            seed: self.seed,
            subtables: self.subtables.clone(),
            tries: self.tries.clone(),
            rules: self.rules,
        }
    }
}

impl<T> Classifier<T> {
    /// An empty one. Whoever does not know the seed cannot make packets that all meet in one place of a hash table.
    pub fn new(optimisations: Optimisations, seed: u64) -> Self {
        let seed = Seed::new(seed);
        Self { optimisations, seed, subtables: Vec::new(), tries: Tries::default(), rules: 0 }
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// How many masks they have.
    pub fn masks(&self) -> usize {
        self.subtables.len()
    }

    /// The rules, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.subtables.iter().flat_map(|(subtable, _)| subtable.rules())
    }

    fn place(&self, mask: &Mask) -> Option<usize> {
        self.subtables.iter().position(|(subtable, _)| subtable.mask().whole() == mask.whole())
    }

    /// Takes a rule in, and answers the one for the same packets at the same priority whose place it has taken.
    pub fn insert(&mut self, rule: Arc<Rule<T>>) -> Option<Arc<Rule<T>>> {
        let at = self.place(rule.mask()).unwrap_or_else(|| {
            let partition = self.optimisations.partitioning.then(|| Partition::of(rule.mask())).flatten();
            self.subtables.push((Subtable::new(rule.mask().clone(), self.optimisations), partition));
            self.subtables.len() - 1
        });
        let (subtable, partition) = &mut self.subtables[at];
        let key = rule.key();
        let replaced = subtable.insert(rule, &key, self.seed);
        if replaced.is_none() {
            self.rules += 1;
            if let Some(partition) = partition {
                partition.insert(&key);
            }
            self.tries.change(subtable.lengths(), &key, true);
            self.sort();
        }
        replaced
    }

    /// Removes the rule for the same packets at the same priority, and answers it.
    pub fn remove(&mut self, like: &Rule<T>) -> Option<Arc<Rule<T>>> {
        let at = self.place(like.mask())?;
        let (subtable, partition) = &mut self.subtables[at];
        let key = like.key();
        let removed = subtable.remove(like, &key, self.seed)?;
        self.rules -= 1;
        if let Some(partition) = partition {
            partition.remove(&key);
        }
        self.tries.change(subtable.lengths(), &key, false);
        if subtable.is_empty() {
            self.subtables.remove(at);
        } else {
            self.sort();
        }
        Some(removed)
    }

    /// The rule for the same packets at the same priority.
    pub fn get<U>(&self, like: &Rule<U>) -> Option<&Arc<Rule<T>>> {
        let (subtable, _) = &self.subtables[self.place(like.mask())?];
        subtable.get(like, self.seed)
    }

    /// Few subtables change their place at a time, so that this takes one look at each.
    fn sort(&mut self) {
        if self.optimisations.priority_sorting {
            self.subtables.sort_by_key(|(subtable, _)| std::cmp::Reverse(subtable.max_priority()));
        }
    }

    /// Whether no subtable from this one on can have a better rule (figure 2).
    fn is_best(&self, best: Option<&Entry<T>>, subtable: &Subtable<T>) -> bool {
        best.is_some_and(|best| {
            self.optimisations.priority_sorting && best.priority >= subtable.max_priority()
        })
    }

    /// The most important rule that a packet meets.
    pub fn find(&self, key: &FlowKey) -> Option<&Arc<Rule<T>>> {
        let found = if self.rules < MANY { self.search(key, || ()) } else { self.search_in_groups(key) };
        found.map(|found| &found.rule)
    }

    /// In how many tables [`Self::find`] looks for a packet: its tuples.
    pub fn searched(&self, key: &FlowKey) -> usize {
        let mut searched = 0;
        self.search(key, || searched += 1);
        searched
    }

    fn search(&self, key: &FlowKey, mut looks: impl FnMut()) -> Option<&Entry<T>> {
        let tags = partition::of_packet(key);
        let mut best = None;
        for (subtable, partition) in &self.subtables {
            if self.is_best(best, subtable) {
                break;
            }
            if partition.as_ref().is_none_or(|partition| partition.may_have(tags)) {
                looks();
                best = better(best, subtable.find(key, self.seed));
            }
        }
        best
    }

    /// The same, but memory is waited for once, and not for each subtable: a hash needs no answer of the table before, and what a
    /// group is looked up by is fetched before the group in front of it is looked at. Where nothing is waited for, it is in vain.
    fn search_in_groups(&self, key: &FlowKey) -> Option<&Entry<T>> {
        let tags = partition::of_packet(key);
        let may_have = |partition: &Option<Partition>| {
            partition.as_ref().is_none_or(|partition| partition.may_have(tags))
        };
        let fetched = |group: &[(Subtable<T>, Option<Partition>)]| {
            let mut hashes = [0; GROUP];
            for ((subtable, partition), hash) in group.iter().zip(&mut hashes) {
                if may_have(partition) {
                    *hash = subtable.hash(key, self.seed);
                    subtable.fetch(*hash);
                }
            }
            hashes
        };
        let mut groups = self.subtables.chunks(GROUP).map(|group| (group, fetched(group)));
        let mut next = groups.next();
        let mut best = None;
        while let Some((group, hashes)) = next {
            next = groups.next();
            for ((subtable, partition), hash) in group.iter().zip(&hashes) {
                if self.is_best(best, subtable) {
                    return best;
                }
                if may_have(partition) {
                    best = better(best, subtable.at(*hash, key));
                }
            }
        }
        best
    }

    /// The most important rule that a packet meets; and the bits that this depends on are consulted, if they were not.
    pub fn find_consulting(&self, key: &FlowKey, consulted: &mut FlowMask) -> Option<&Arc<Rule<T>>> {
        let tags = partition::of_packet(key);
        let mut prefixes = Prefixes::of(self.optimisations.prefix_tracking.then_some(&self.tries));
        let mut best = None;
        for (subtable, partition) in &self.subtables {
            if self.is_best(best, subtable) {
                break;
            }
            if partition.as_ref().is_some_and(|partition| !partition.may_have(tags)) {
                consulted.add_all(Field::METADATA);
                continue;
            }
            best = better(best, subtable.find_consulting(key, self.seed, &mut prefixes, consulted));
        }
        best.map(|best| &best.rule)
    }
}

fn better<'a, T>(best: Option<&'a Entry<T>>, found: Option<&'a Entry<T>>) -> Option<&'a Entry<T>> {
    match (best, found) {
        (Some(best), Some(found)) if found.priority > best.priority => Some(found),
        (None, found) => found,
        (best, _) => best,
    }
}
