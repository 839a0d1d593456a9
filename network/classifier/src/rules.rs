//! The rules of one mask, by what they ask for.

use crate::hash::Hash;
use crate::rule::Rule;
use crate::table::Table;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those that ask for the same differ in priority, and only the most important one is ever met.
pub(crate) struct Rules<T> {
    best: Table<Arc<Rule<T>>>,
    /// The others, by what they ask for, in descending order of priority: there are few.
    others: BTreeMap<SmallVec<[u64; 4]>, Vec<Arc<Rule<T>>>>,
}

impl<T> Rules<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.best.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.best.iter().chain(self.others.values().flatten())
    }

    /// Has what is looked at first for this hash come near.
    #[inline]
    pub(crate) fn fetch(&self, hash: Hash) {
        self.best.fetch(hash);
    }

    /// The most important one of those with this hash that `is_it`.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, is_it: impl Fn(&Rule<T>) -> bool) -> Option<&Arc<Rule<T>>> {
        self.best.find(hash, |rule| is_it(rule))
    }

    /// The one for the same packets at the same priority.
    pub(crate) fn get<U>(&self, hash: Hash, like: &Rule<U>) -> Option<&Arc<Rule<T>>> {
        let best = self.find(hash, |rule| rule.words == like.words)?;
        let others = self.others.get(&*like.words).into_iter().flatten();
        [best].into_iter().chain(others).find(|rule| rule.priority() == like.priority())
    }

    /// Takes a rule in; answers the one for the same packets at the same priority, whose place it has taken.
    pub(crate) fn insert(&mut self, hash: Hash, mut rule: Arc<Rule<T>>) -> Option<Arc<Rule<T>>> {
        let Some(best) = self.best.find_mut(hash, |other| other.words == rule.words) else {
            self.best.insert(hash, rule);
            return None;
        };
        if rule.priority() >= best.priority() {
            std::mem::swap(&mut rule, best);
            if rule.priority() == best.priority() {
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
        let is_like = |rule: &Arc<Rule<T>>| rule.words == like.words;
        let Some(others) = self.others.get_mut(&*like.words) else {
            return self.best.remove(hash, |rule| is_like(rule) && rule.priority() == like.priority());
        };
        let best = self.best.find_mut(hash, is_like)?;
        let removed = if best.priority() == like.priority() {
            std::mem::replace(best, others.remove(0))
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
