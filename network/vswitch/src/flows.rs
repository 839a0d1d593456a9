//! The flows of one table: those that packets meet alone, and those that they meet together.
//!
//! A conjunction is met by a packet that meets, for each of its clauses, one of the clause's flows, all of one priority. It is then looked
//! up with the number of the conjunction. So flows for each of a hundred addresses and a hundred ports are two hundred, not ten
//! thousand.

use crate::flow::Flow;
use crate::table::Entry;
use crate::translate::MAX_WORK;
use fulmar_classifier::{Classifier, Optimisations, Rule};
use fulmar_openflow::action::Conjunction;
use fulmar_packet::{Field, FlowKey, FlowMask};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The flows of a table.
pub(crate) struct Flows {
    /// Those that decide by themselves.
    whole: Classifier<Flow>,
    clauses: Clauses,
}

impl Flows {
    pub(crate) fn new(optimisations: Optimisations, seed: u64) -> Self {
        Self { whole: Classifier::new(optimisations, seed), clauses: Clauses::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.len() + self.clauses.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.whole.iter().chain(self.clauses.iter())
    }

    /// The one of the same match and priority.
    pub(crate) fn get<T>(&self, like: &Rule<T>) -> Option<&Entry> {
        self.whole.get(like).or_else(|| self.clauses.get(like))
    }

    /// Takes a flow in, and answers the one whose place it has taken.
    pub(crate) fn insert(&mut self, flow: Entry) -> Option<Entry> {
        let (other, same) = if flow.value().is_clause() {
            (self.whole.remove(&flow), self.clauses.insert(flow))
        } else {
            (self.clauses.remove(&flow), self.whole.insert(flow))
        };
        other.or(same)
    }

    pub(crate) fn remove(&mut self, flow: &Entry) -> Option<Entry> {
        self.whole.remove(flow).or_else(|| self.clauses.remove(flow))
    }

    /// The flow that a packet meets; the bits that this depends on, and how many clauses were looked at.
    pub(crate) fn find_consulting(&self, key: &FlowKey, consulted: &mut FlowMask) -> (Option<&Entry>, u32) {
        let alone = self.whole.find_consulting(key, consulted);
        let (met, clauses) = self.clauses.met(key, alone.map(|flow| flow.priority()), consulted);
        let found = met.into_iter().find_map(|conjunction| {
            let mut key = key.clone();
            key.set(Field::CONJUNCTION, conjunction.into());
            self.whole.find_consulting(&key, consulted)
        });
        // What follows from the other bits.
        consulted.remove(Field::CONJUNCTION);
        (found.or(alone), clauses)
    }
}

/// Flows that packets meet together with others.
#[derive(Default)]
struct Clauses {
    tuples: Vec<Tuple>,
    len: usize,
}

/// Those of one mask: by what they ask for, and by their priorities.
#[derive(Default)]
struct Tuple {
    mask: FlowMask,
    flows: HashMap<FlowKey, BTreeMap<u16, Entry>, foldhash::fast::FixedState>,
    /// How many there are of each priority.
    priorities: BTreeMap<u16, usize>,
}

impl Clauses {
    fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.tuples.iter().flat_map(|tuple| tuple.flows.values()).flat_map(BTreeMap::values)
    }

    fn place(&self, mask: &FlowMask) -> Option<usize> {
        self.tuples.iter().position(|tuple| tuple.mask == *mask)
    }

    fn get<T>(&self, like: &Rule<T>) -> Option<&Entry> {
        let tuple = &self.tuples[self.place(like.mask().whole())?];
        tuple.flows.get(&like.key())?.get(&like.priority())
    }

    fn insert(&mut self, flow: Entry) -> Option<Entry> {
        let mask = flow.mask().whole();
        let at = self.place(mask).unwrap_or_else(|| {
            self.tuples.push(Tuple { mask: mask.clone(), ..Tuple::default() });
            self.tuples.len() - 1
        });
        let Tuple { flows, priorities, .. } = &mut self.tuples[at];
        let priority = flow.priority();
        let before = flows.entry(flow.key()).or_default().insert(priority, flow);
        if before.is_none() {
            *priorities.entry(priority).or_default() += 1;
            self.len += 1;
        }
        before
    }

    fn remove(&mut self, flow: &Entry) -> Option<Entry> {
        let (at, key) = (self.place(flow.mask().whole())?, flow.key());
        let Tuple { flows, priorities, .. } = &mut self.tuples[at];
        let same = flows.get_mut(&key)?;
        let removed = same.remove(&flow.priority())?;
        self.len -= 1;
        if let Some(count) = priorities.get_mut(&flow.priority()) {
            *count -= 1;
            if *count == 0 {
                priorities.remove(&flow.priority());
            }
        }
        if same.is_empty() {
            flows.remove(&key);
        }
        if flows.is_empty() {
            self.tuples.remove(at);
        }
        Some(removed)
    }

    /// The conjunctions that a packet meets beyond this priority: the highest first, and of several of one priority those of low numbers;
    /// and how many clauses were looked at. After [`MAX_WORK`] nobody wants to know any more.
    fn met(&self, key: &FlowKey, beyond: Option<u16>, consulted: &mut FlowMask) -> (Vec<u32>, u32) {
        let mut looked_at = 0;
        let mut met: BTreeMap<(Reverse<u16>, u32, u8), u64> = BTreeMap::new();
        let may_have =
            |tuple: &&Tuple| tuple.priorities.last_key_value().map(|(priority, _)| *priority) > beyond;
        for Tuple { mask, flows, .. } in self.tuples.iter().filter(may_have) {
            consulted.add_mask(mask);
            let same = flows.get(&key.masked(mask)).into_iter().flatten();
            for (priority, flow) in same.filter(|(priority, _)| Some(**priority) > beyond) {
                for Conjunction { clause, clauses, id } in flow.value().clauses() {
                    looked_at += 1;
                    if looked_at >= MAX_WORK {
                        return (Vec::new(), looked_at);
                    }
                    *met.entry((Reverse(*priority), *id, *clauses)).or_default() |= 1 << clause;
                }
            }
        }
        let is_met = |((_, _, clauses), met): &(&(_, _, u8), &u64)| met.count_ones() == u32::from(*clauses);
        (met.iter().filter(is_met).map(|((_, id, _), _)| *id).collect(), looked_at)
    }
}
