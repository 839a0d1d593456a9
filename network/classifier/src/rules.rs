//! The rules of one mask, by what they ask for.

use crate::hash::Hash;
use crate::rule::{LINE, Mask, Rule};
use crate::table::Table;
use fulmar_packet::FlowKey;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule, and what a lookup asks of it, in one line of the cache: the rule itself is somewhere else, and not waited for.
#[repr(align(64))]
pub(crate) struct Entry<T> {
    /// What the words of the mask are to be, if they all have room here: most have.
    line: [u64; LINE],
    pub(crate) rule: Arc<Rule<T>>,
    pub(crate) priority: u16,
}

impl<T> Entry<T> {
    fn of(rule: Arc<Rule<T>>) -> Self {
        let line = rule.mask().line(rule.words.iter().copied()).unwrap_or_default();
        Self { line, priority: rule.priority(), rule }
    }

    /// Whether a packet has all that the rule, which has this mask, asks for.
    #[inline]
    pub(crate) fn is_met_by(&self, key: &FlowKey, mask: &Mask) -> bool {
        if mask.words.len() <= LINE {
            return mask.masked(key).zip(&self.line).all(|(word, own)| word == *own);
        }
        match mask.line(mask.masked(key)) {
            Some(line) => line == self.line,
            None => self.rule.is_met_by(key),
        }
    }
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { line: self.line, rule: self.rule.clone(), priority: self.priority }
    }
}

/// Those that ask for the same differ in priority, and only the most important one is ever met.
pub(crate) struct Rules<T> {
    best: Table<Entry<T>>,
    /// The others, by what they ask for, in descending order of priority: there are few.
    others: BTreeMap<SmallVec<[u64; 4]>, Vec<Arc<Rule<T>>>>,
}

impl<T> Rules<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.best.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.best.iter().map(|best| &best.rule).chain(self.others.values().flatten())
    }

    /// The table that lookups look in.
    #[inline]
    pub(crate) fn best(&self) -> &Table<Entry<T>> {
        &self.best
    }

    /// The most important one of those with this hash that `is_it`.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, is_it: impl Fn(&Entry<T>) -> bool) -> Option<&Entry<T>> {
        self.best.find(hash, is_it)
    }

    /// The one for the same packets at the same priority.
    pub(crate) fn get<U>(&self, hash: Hash, like: &Rule<U>) -> Option<&Arc<Rule<T>>> {
        let best = self.find(hash, |best| best.rule.words == like.words)?;
        let others = self.others.get(&*like.words).into_iter().flatten();
        [&best.rule].into_iter().chain(others).find(|rule| rule.priority() == like.priority())
    }

    /// Takes a rule in; answers the one for the same packets at the same priority, whose place it has taken.
    pub(crate) fn insert(&mut self, hash: Hash, mut rule: Arc<Rule<T>>) -> Option<Arc<Rule<T>>> {
        let Some(best) = self.best.find_mut(hash, |other| other.rule.words == rule.words) else {
            self.best.insert(hash, Entry::of(rule));
            return None;
        };
        if rule.priority() >= best.priority {
            rule = std::mem::replace(best, Entry::of(rule)).rule;
            if rule.priority() == best.priority {
                return Some(rule);
            }
        }
        let others = self.others.entry(SmallVec::from_slice(&rule.words)).or_default();
        let at = others.partition_point(|other| other.priority() > rule.priority());
        match others.get_mut(at).filter(|other| other.priority() == rule.priority()) {
            Some(same) => Some(std::mem::replace(same, rule)),
            None => {
                others.insert(at, rule);
                None
            }
        }
    }

    /// Removes the rule for the same packets at the same priority, and answers it.
    pub(crate) fn remove(&mut self, hash: Hash, like: &Rule<T>) -> Option<Arc<Rule<T>>> {
        let is_like = |best: &Entry<T>| best.rule.words == like.words;
        let Some(others) = self.others.get_mut(&*like.words) else {
            let removed = self.best.remove(hash, |best| is_like(best) && best.priority == like.priority());
            return removed.map(|removed| removed.rule);
        };
        let best = self.best.find_mut(hash, is_like)?;
        let removed = if best.priority == like.priority() {
            std::mem::replace(best, Entry::of(others.remove(0))).rule
        } else {
            others.remove(others.iter().position(|other| other.priority() == like.priority())?)
        };
        if others.is_empty() {
            self.others.remove(&*like.words);
        }
        Some(removed)
    }
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { best: Table::default(), others: BTreeMap::new() }
    }
}

impl<T> Clone for Rules<T> {
    fn clone(&self) -> Self {
        Self { best: self.best.clone(), others: self.others.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Masks;
    use fulmar_packet::{FlowMask, WORDS, ones};

    /// Hashes hardly ever let a lookup come so far with a packet that differs: each bit is compared all the same.
    #[test]
    fn an_entry_is_met_by_what_has_all_its_bits() {
        // Of each word so many: as few as fit into a line with those of others, or more.
        for (count, bits) in
            (1..=WORDS).flat_map(|count| [(count, 0xff), (count, u64::MAX), (count, 0xffff << 40)])
        {
            let (mut whole, mut key) = (FlowMask::EMPTY, FlowKey::EMPTY);
            for word in 0..count {
                whole.add_word(word, bits);
                key.put(word, (0x0101_0101_0101_0101 * (word as u64 + 1)) & bits);
            }
            let mask = Masks::default().get(&whole);
            let entry = Entry::of(Arc::new(Rule::new(mask.clone(), &key, 1, ())));
            assert!(entry.is_met_by(&key, &mask));
            for (word, bit) in (0..count).flat_map(|word| ones(bits).map(move |bit| (word, bit))) {
                let mut other = key.clone();
                other.put(word, key.word(word) ^ 1 << bit);
                assert!(!entry.is_met_by(&other, &mask), "bit {bit} of word {word} of {count}");
            }
            let mut others = key.clone();
            (count..WORDS).for_each(|word| others.put(word, u64::MAX));
            assert!(entry.is_met_by(&others, &mask));
        }
    }
}
