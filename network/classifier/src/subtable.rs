//! The rules of one mask: a tuple, with a hash table for each of its stages (section 5.3).

use crate::Optimisations;
use crate::rule::{Mask, Rule};
use crate::trie::Trie;
use crate::tries::{Lengths, Prefixes, lengths};
use foldhash::fast::FixedState;
use fulmar_packet::{Field, FlowKey, FlowMask, Stage};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

pub(crate) struct Subtable<T> {
    mask: Arc<Mask>,
    /// Where each stage ends that is looked up by itself: in how many words, and what the rules have there, if something comes
    /// behind.
    stages: Vec<(usize, Option<Hashes>)>,
    rules: HashTable<Entry<T>>,
    /// How many rules there are of each priority.
    priorities: BTreeMap<u16, usize>,
    lengths: Lengths,
    ports: Option<Ports>,
}

/// The rules that ask for the same.
struct Entry<T> {
    hash: u64,
    /// In descending order of priority; of most there is one.
    best: Arc<Rule<T>>,
    #[expect(clippy::box_collection, reason = "an entry without others has one word for them, not three")]
    others: Option<Box<Vec<Arc<Rule<T>>>>>,
}

/// Hashes, and of how many rules each is.
#[derive(Clone, Default)]
struct Hashes(HashTable<(u64, usize)>);

impl Hashes {
    fn has(&self, hash: u64) -> bool {
        self.0.find(hash, |(other, _)| *other == hash).is_some()
    }

    fn insert(&mut self, hash: u64) {
        let entry = self.0.entry(hash, |(other, _)| *other == hash, |(other, _)| *other);
        entry.or_insert((hash, 0)).get_mut().1 += 1;
    }

    fn remove(&mut self, hash: u64) {
        if let Ok(mut entry) = self.0.find_entry(hash, |(other, _)| *other == hash) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
            }
        }
    }
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
            rules: HashTable::new(),
            priorities: BTreeMap::new(),
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
        self.priorities.last_key_value().map_or(0, |(priority, _)| *priority)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.rules.iter().flat_map(Entry::all)
    }

    /// The hashes of a key at the end of each stage.
    fn hashes(&self, seed: &FixedState, words: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut hasher = seed.build_hasher();
        let mut hashes = Vec::with_capacity(self.stages.len());
        let mut ends = self.stages.iter().map(|(end, _)| *end).peekable();
        for (number, word) in words.enumerate() {
            hasher.write_u64(word);
            if ends.next_if_eq(&(number + 1)).is_some() {
                hashes.push(hasher.finish());
            }
        }
        // A mask without words has one stage all the same.
        hashes.resize(self.stages.len(), hasher.finish());
        hashes
    }

    /// Takes in a rule with this key, and answers the one whose place it has taken.
    pub(crate) fn insert(
        &mut self,
        rule: Arc<Rule<T>>,
        key: &FlowKey,
        seed: &FixedState,
    ) -> Option<Arc<Rule<T>>> {
        let hashes = self.hashes(seed, rule.words.iter().copied());
        let hash = *hashes.last()?;
        let found = self.rules.find_mut(hash, |entry| entry.hash == hash && entry.best.words == rule.words);
        if let Some(entry) = found {
            let replaced = entry.insert(&rule);
            if replaced.is_some() {
                return replaced;
            }
        } else {
            let entry = Entry { hash, best: rule.clone(), others: None };
            self.rules.insert_unique(hash, entry, |entry| entry.hash);
        }
        *self.priorities.entry(rule.priority()).or_default() += 1;
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
    pub(crate) fn remove(
        &mut self,
        like: &Rule<T>,
        key: &FlowKey,
        seed: &FixedState,
    ) -> Option<Arc<Rule<T>>> {
        let hashes = self.hashes(seed, like.words.iter().copied());
        let hash = *hashes.last()?;
        let mut found =
            self.rules.find_entry(hash, |entry| entry.hash == hash && entry.best.words == like.words).ok()?;
        let removed = match found.get_mut().remove(like)? {
            Removed::Last => found.remove().0.best,
            Removed::One(rule) => rule,
        };
        if let Some(count) = self.priorities.get_mut(&removed.priority()) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&removed.priority());
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
    pub(crate) fn get<U>(&self, like: &Rule<U>, seed: &FixedState) -> Option<&Arc<Rule<T>>> {
        let hash = *self.hashes(seed, like.words.iter().copied()).last()?;
        let entry = self.rules.find(hash, |entry| entry.hash == hash && entry.best.words == like.words)?;
        entry.all().find(|rule| rule.is_same(like))
    }

    /// The most important rule for a packet.
    pub(crate) fn find(&self, key: &FlowKey, seed: &FixedState) -> Option<&Arc<Rule<T>>> {
        let mut hasher = seed.build_hasher();
        self.mask.masked(key).for_each(|word| hasher.write_u64(word));
        self.at(hasher.finish(), key)
    }

    fn at(&self, hash: u64, key: &FlowKey) -> Option<&Arc<Rule<T>>> {
        let is_it = |entry: &Entry<T>| {
            entry.hash == hash && self.mask.masked(key).zip(&entry.best.words).all(|(a, b)| a == *b)
        };
        self.rules.find(hash, is_it).map(|entry| &entry.best)
    }

    /// The most important rule for a packet; and which of its bits that depends on are consulted, if they were not.
    pub(crate) fn find_consulting(
        &self,
        key: &FlowKey,
        seed: &FixedState,
        prefixes: &mut Prefixes<'_>,
        consulted: &mut FlowMask,
    ) -> Option<&Arc<Rule<T>>> {
        let words = &self.mask.words;
        let mut hasher = seed.build_hasher();
        let mut from = 0;
        for (end, index) in &self.stages {
            if prefixes.exclude(&words[from..*end], &self.lengths, key, consulted) {
                consult(&words[..from], consulted);
                return None;
            }
            for (word, bits) in &words[from..*end] {
                hasher.write_u64(key.word(usize::from(*word)) & bits);
            }
            from = *end;
            if index.as_ref().is_some_and(|index| !index.has(hasher.finish())) {
                consult(&words[..from], consulted);
                return None;
            }
        }
        let found = self.at(hasher.finish(), key);
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

enum Removed<T> {
    /// It was the only one.
    Last,
    One(Arc<Rule<T>>),
}

impl<T> Entry<T> {
    fn all(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        [&self.best].into_iter().chain(self.others.iter().flat_map(|others| &**others))
    }

    /// Takes a rule in; answers the one of the same priority, whose place it has taken.
    fn insert(&mut self, rule: &Arc<Rule<T>>) -> Option<Arc<Rule<T>>> {
        if rule.priority() == self.best.priority() {
            return Some(std::mem::replace(&mut self.best, rule.clone()));
        }
        let others = self.others.get_or_insert_default();
        let mut rule = rule.clone();
        if rule.priority() > self.best.priority() {
            std::mem::swap(&mut rule, &mut self.best);
        }
        let at = others.partition_point(|other| other.priority() > rule.priority());
        match others.get_mut(at).filter(|other| other.priority() == rule.priority()) {
            Some(same) => Some(std::mem::replace(same, rule)),
            None => {
                others.insert(at, rule);
                None
            }
        }
    }

    fn remove(&mut self, like: &Rule<T>) -> Option<Removed<T>> {
        let others = self.others.as_deref_mut().filter(|others| !others.is_empty());
        if self.best.is_same(like) {
            return Some(match others {
                None => Removed::Last,
                Some(others) => Removed::One(std::mem::replace(&mut self.best, others.remove(0))),
            });
        }
        let others = others?;
        let at = others.iter().position(|other| other.is_same(like))?;
        Some(Removed::One(others.remove(at)))
    }
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { hash: self.hash, best: self.best.clone(), others: self.others.clone() }
    }
}

impl<T> Clone for Subtable<T> {
    fn clone(&self) -> Self {
        Self {
            mask: self.mask.clone(),
            stages: self.stages.clone(),
            rules: self.rules.clone(),
            priorities: self.priorities.clone(),
            lengths: self.lengths,
            ports: self.ports.clone(),
        }
    }
}

/// Ports are all that the last word holds besides TCP's flags.
const _: () = assert!(Stage::L4.end() == Stage::L4.start() + 1);
