//! The rules of one mask: a tuple, with a hash table for each of its stages (section 5.3).

use crate::Optimisations;
use crate::hash::{Hash, Seed, kept};
use crate::hashes::Hashes;
use crate::rule::{Mask, Rule};
use crate::rules::{Entry, Rules};
use crate::trie::Trie;
use crate::tries::{Lengths, Prefixes, lengths};
use fulmar_packet::{Field, FlowKey, FlowMask, Stage};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Subtable<T> {
    mask: Arc<Mask>,
    /// Where each stage ends that is looked up by itself: in how many words, and what the rules have there, if something comes
    /// behind.
    stages: Vec<(usize, Option<Hashes>)>,
    rules: Rules<T>,
    /// How many rules there are of each priority.
    priorities: BTreeMap<u16, usize>,
    /// The highest of these, or 0.
    max_priority: u16,
    lengths: Lengths,
    ports: Option<Ports>,
}

/// The ports that rules ask for, as 32 bits.
#[derive(Clone)]
struct Ports {
    mask: u128,
    /// Up to the last of the bits that are asked for.
    length: u8,
    trie: Trie,
}

impl Ports {
    fn of(mask: &Mask) -> Option<Self> {
        let mask = ports(mask.whole().get(Field::L4_SOURCE), mask.whole().get(Field::L4_DESTINATION));
        let length = 32 - u8::try_from(mask.trailing_zeros().min(32)).unwrap_or(32);
        (length > 0).then(|| Self { mask, length, trie: Trie::default() })
    }

    fn of_key(&self, key: &FlowKey) -> u128 {
        (ports(key.get(Field::L4_SOURCE), key.get(Field::L4_DESTINATION)) & self.mask) << 96
    }

    fn change(&mut self, key: &FlowKey, is_more: bool) {
        let value = self.of_key(key);
        if is_more {
            self.trie.insert(value, self.length);
        } else {
            self.trie.remove(value, self.length);
        }
    }

    /// What bits of the ports tell that no rule has them all, of those that the rules ask for.
    fn deciding(&self, key: &FlowKey) -> u128 {
        let found = self.trie.find(self.of_key(key), 32);
        let ones = u128::from(u32::MAX);
        self.mask & !(ones >> found.bits)
    }
}

fn ports(source: u128, destination: u128) -> u128 {
    source << 16 | destination
}

impl<T> Subtable<T> {
    pub(crate) fn new(mask: Arc<Mask>, optimisations: Optimisations) -> Self {
        let all = mask.words.len();
        let mut ends: Vec<_> = if optimisations.staged_lookup { mask.ends.to_vec() } else { Vec::new() };
        ends.retain(|end| *end > 0 && *end < all);
        ends.dedup();
        let mut stages: Vec<_> = ends.into_iter().map(|end| (end, Some(Hashes::default()))).collect();
        stages.push((all, None));
        Self {
            stages,
            rules: Rules::default(),
            priorities: BTreeMap::new(),
            max_priority: 0,
            lengths: lengths(&mask),
            ports: Ports::of(&mask).filter(|_| optimisations.port_tracking),
            mask,
        }
    }

    pub(crate) fn mask(&self) -> &Arc<Mask> {
        &self.mask
    }

    pub(crate) fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// That of its most important rule.
    pub(crate) fn max_priority(&self) -> u16 {
        self.max_priority
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.rules.iter()
    }

    /// The hashes of a key at the end of each stage.
    fn hashes(&self, seed: Seed, words: &[u64]) -> SmallVec<[Hash; 4]> {
        let (mut hash, mut from) = (seed.start(), 0);
        let to_end_of = |(end, _): &(usize, _)| {
            hash = words[from..*end].iter().fold(hash, |hash, word| seed.and(hash, *word));
            from = *end;
            kept(hash)
        };
        self.stages.iter().map(to_end_of).collect()
    }

    /// Takes in a rule with this key, and answers the one whose place it has taken.
    pub(crate) fn insert(&mut self, rule: Arc<Rule<T>>, key: &FlowKey, seed: Seed) -> Option<Arc<Rule<T>>> {
        let hashes = self.hashes(seed, &rule.words);
        let priority = rule.priority();
        let replaced = self.rules.insert(*hashes.last()?, rule);
        if replaced.is_some() {
            return replaced;
        }
        *self.priorities.entry(priority).or_default() += 1;
        self.max_priority = self.max_priority.max(priority);
        for ((_, index), hash) in self.stages.iter_mut().zip(hashes) {
            if let Some(index) = index {
                index.insert(hash);
            }
        }
        if let Some(ports) = &mut self.ports {
            ports.change(key, true);
        }
        None
    }

    /// Removes the rule for the same packets, with this key, at the same priority, and answers it.
    pub(crate) fn remove(&mut self, like: &Rule<T>, key: &FlowKey, seed: Seed) -> Option<Arc<Rule<T>>> {
        let hashes = self.hashes(seed, &like.words);
        let removed = self.rules.remove(*hashes.last()?, like)?;
        if let Some(count) = self.priorities.get_mut(&removed.priority()) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&removed.priority());
                self.max_priority = self.priorities.last_key_value().map_or(0, |(priority, _)| *priority);
            }
        }
        for ((_, index), hash) in self.stages.iter_mut().zip(hashes) {
            if let Some(index) = index {
                index.remove(hash);
            }
        }
        if let Some(ports) = &mut self.ports {
            ports.change(key, false);
        }
        Some(removed)
    }

    /// The rule for the same packets at the same priority.
    pub(crate) fn get<U>(&self, like: &Rule<U>, seed: Seed) -> Option<&Arc<Rule<T>>> {
        self.rules.get(*self.hashes(seed, &like.words).last()?, like)
    }

    /// The most important rule for a packet.
    pub(crate) fn find(&self, key: &FlowKey, seed: Seed) -> Option<&Entry<T>> {
        self.at(self.hash(key, seed), key)
    }

    /// What a packet is looked for by.
    pub(crate) fn hash(&self, key: &FlowKey, seed: Seed) -> Hash {
        kept(self.mask.masked(key).fold(seed.start(), |hash, word| seed.and(hash, word)))
    }

    /// Has what tells whether there may be a rule of this hash come near.
    pub(crate) fn fetch(&self, hash: Hash) {
        self.rules.best().fetch_tags(hash);
    }

    /// The most important rule for a packet of this hash.
    pub(crate) fn at(&self, hash: Hash, key: &FlowKey) -> Option<&Entry<T>> {
        self.rules.find(hash, |entry| entry.is_met_by(key, &self.mask))
    }

    /// The most important rule for a packet; and which of its bits that depends on are consulted, if they were not.
    pub(crate) fn find_consulting(
        &self,
        key: &FlowKey,
        seed: Seed,
        prefixes: &mut Prefixes<'_>,
        consulted: &mut FlowMask,
    ) -> Option<&Entry<T>> {
        let words = &self.mask.words;
        let (mut hash, mut from) = (seed.start(), 0);
        for (end, index) in &self.stages {
            if prefixes.exclude(&words[from..*end], &self.lengths, key, consulted) {
                consult(&words[..from], consulted);
                return None;
            }
            for (word, bits) in &words[from..*end] {
                hash = seed.and(hash, key.word(usize::from(*word)) & bits);
            }
            from = *end;
            if index.as_ref().is_some_and(|index| !index.may_have(kept(hash))) {
                consult(&words[..from], consulted);
                return None;
            }
        }
        // No stage has told that there is none: most likely there is one.
        self.rules.best().fetch_both(kept(hash));
        let found = self.at(kept(hash), key);
        match &self.ports {
            // It is the ports that decide, and perhaps not all of them.
            Some(ports) if found.is_none() => {
                consult(&words[..words.len() - 1], consulted);
                let (word, bits) = words[words.len() - 1];
                let deciding = u64::try_from(ports.deciding(key)).unwrap_or(u64::MAX) << 32;
                consulted.add_word(usize::from(word), bits & (deciding | u64::from(u32::MAX)));
            }
            _ => consult(words, consulted),
        }
        found
    }
}

fn consult(words: &[(u8, u64)], consulted: &mut FlowMask) {
    words.iter().for_each(|(word, bits)| consulted.add_word(usize::from(*word), *bits));
}

impl<T> Clone for Subtable<T> {
    fn clone(&self) -> Self {
        Self {
            mask: self.mask.clone(),
            stages: self.stages.clone(),
            rules: self.rules.clone(),
            priorities: self.priorities.clone(),
            max_priority: self.max_priority,
            lengths: self.lengths,
            ports: self.ports.clone(),
        }
    }
}

/// Ports are all that the last word holds besides TCP's flags.
const _: () = assert!(Stage::L4.end() == Stage::L4.start() + 1);
