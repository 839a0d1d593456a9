//! A classifier that many threads read while one changes it, none of which waits for it.
//!
//! There are two of them. Readers look at one; changes are made in the other, which on [`Writer::publish`] becomes the one that
//! is looked at, and made again in the first when nobody reads that any more (left-right, Ramalhete and Correia 2015). Rules are
//! shared by both.

use crate::{Classifier, Rule};
use left_right::{Absorb, ReadHandle, ReadHandleFactory, WriteHandle};
use std::sync::Arc;

/// What may change.
enum Change<T> {
    Insert(Arc<Rule<T>>),
    Remove(Arc<Rule<T>>),
}

impl<T> Classifier<T> {
    fn change(&mut self, change: &Change<T>) {
        match change {
            Change::Insert(rule) => drop(self.insert(rule.clone())),
            Change::Remove(rule) => drop(self.remove(rule)),
        }
    }
}

impl<T> Absorb<Change<T>> for Classifier<T> {
    fn absorb_first(&mut self, change: &mut Change<T>, _other: &Self) {
        self.change(change);
    }

    fn absorb_second(&mut self, change: Change<T>, _other: &Self) {
        self.change(&change);
    }

    fn sync_with(&mut self, first: &Self) {
        self.clone_from(first);
    }
}

/// Changes it.
pub struct Writer<T>(WriteHandle<Classifier<T>, Change<T>>);

/// Reads it, in one thread.
pub struct Reader<T>(ReadHandle<Classifier<T>>);

/// Makes readers, in any thread.
#[derive(Clone)]
pub struct Readers<T>(ReadHandleFactory<Classifier<T>>);

/// A classifier with the rules that this one has, for one who changes it and many who read it.
pub fn share<T>(classifier: Classifier<T>) -> (Writer<T>, Readers<T>) {
    let (mut writer, reader) = left_right::new_from_empty(classifier);
    writer.publish();
    let readers = Readers(reader.factory());
    (Writer(writer), readers)
}

impl<T> Writer<T> {
    /// Takes a rule in, when this is published; it takes the place of one for the same packets at the same priority.
    pub fn insert(&mut self, rule: Arc<Rule<T>>) {
        self.0.append(Change::Insert(rule));
    }

    /// Removes a rule, when this is published.
    pub fn remove(&mut self, rule: Arc<Rule<T>>) {
        self.0.append(Change::Remove(rule));
    }

    /// All changes so far take place, for readers at once: whoever begins to read from now on sees them. Waits for those who still
    /// read what was published before the last time.
    pub fn publish(&mut self) {
        self.0.publish();
    }
}

impl<T> Readers<T> {
    /// One more reader.
    pub fn reader(&self) -> Reader<T> {
        Reader(self.0.handle())
    }
}

impl<T> Reader<T> {
    /// Looks at what is published, for as short a time as can be: who changes it waits for that. Nothing, if who changes it is gone.
    pub fn read<R>(&self, look: impl FnOnce(&Classifier<T>) -> R) -> Option<R> {
        self.0.enter().map(|classifier| look(&classifier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Masks;
    use fulmar_packet::{Field, FlowKey, Match};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// Readers see all changes between two publications, or none: a rule that moves between two tables is always in one.
    #[test]
    fn changes_take_place_at_once() {
        let mut masks = Masks::default();
        let mut rule = |field| {
            let asked = Match::ANY.with(field, 7);
            Arc::new(Rule::new(masks.get(asked.mask()), asked.key(), 1, field))
        };
        let rules = [rule(Field::IN_PORT), rule(Field::METADATA)];
        let mut packet = FlowKey::EMPTY;
        packet.set(Field::IN_PORT, 7);
        packet.set(Field::METADATA, 7);
        let (mut writer, readers) = share(Classifier::default());
        writer.insert(rules[0].clone());
        writer.publish();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (reader, packet, is_over) = (readers.reader(), &packet, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let seen =
                            reader.read(|classifier| (classifier.len(), classifier.find(packet).is_some()));
                        assert_eq!(seen, Some((1, true)));
                    }
                });
            }
            for round in 0..2_000 {
                writer.remove(rules[round % 2].clone());
                writer.insert(rules[(round + 1) % 2].clone());
                writer.publish();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let reader = readers.reader();
        drop(writer);
        assert_eq!(reader.read(Classifier::len), None);
    }

    /// Whoever begins to read after a publication sees it.
    #[test]
    fn what_is_published_is_seen() {
        let mut masks = Masks::default();
        let (mut writer, readers) = share(Classifier::default());
        let reader = readers.reader();
        for value in 0..1_000_u32 {
            let asked = Match::ANY.with(Field::METADATA, value.into());
            writer.insert(Arc::new(Rule::new(masks.get(asked.mask()), asked.key(), 1, value)));
            writer.publish();
            let found = reader.read(|classifier| classifier.find(asked.key()).map(|rule| *rule.value()));
            assert_eq!(found, Some(Some(value)));
        }
    }
}
