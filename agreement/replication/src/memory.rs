//! What a replica's records come to: for itself when it begins again, and for whoever keeps them.

use crate::{Checkpoint, Log, Record, SequenceNumber, View};
use std::sync::Arc;

/// Where a replica stands, but for its log and its checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The view that it is in, or wants to be.
    pub view: View,
    /// The last view that it was in, whose log it has.
    pub last_normal: View,
    /// Up to here the leader of that view has given the log's entries their places.
    pub ordered: SequenceNumber,
    /// Whether its state is to be copied yet.
    pub is_copying: bool,
}

impl Standing {
    /// Takes in the next record; before it the log ended with `last`.
    pub fn note(&mut self, record: &Record, last: SequenceNumber) {
        match record {
            Record::View { view, last_normal } => {
                (self.view, self.last_normal) = (*view, *last_normal);
                if view == last_normal {
                    self.ordered = last;
                }
            }
            Record::Install { view, after, entries } => {
                (self.view, self.last_normal) = (*view, *view);
                self.ordered = SequenceNumber(after.0 + entries.len() as u64);
            }
            Record::Append(_) => {}
            Record::Truncate(last) => self.ordered = self.ordered.min(*last),
            Record::Ordered(upto) => self.ordered = *upto,
            Record::Checkpoint(checkpoint) => {
                self.begin_epoch_of(checkpoint);
                self.ordered = self.ordered.max(checkpoint.at);
            }
            Record::Adopt(checkpoint) => {
                self.begin_epoch_of(checkpoint);
                self.ordered = checkpoint.at;
            }
            Record::Copying(is_copying) => self.is_copying = *is_copying,
        }
    }

    fn begin_epoch_of(&mut self, checkpoint: &Checkpoint) {
        if self.is_ended_by(checkpoint) {
            let first = View::first_of(checkpoint.group.epoch());
            (self.view, self.last_normal) = (first, first);
        }
    }

    /// Whether the checkpoint begins a later epoch.
    fn is_ended_by(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.group.epoch() > self.view.epoch
    }

    /// Records that come to the same after those of the log. The second is said in another way by the first.
    #[must_use]
    pub fn records(&self) -> [Record; 3] {
        let Self { view, last_normal, ordered, is_copying } = *self;
        [Record::View { view, last_normal }, Record::Ordered(ordered), Record::Copying(is_copying)]
    }
}

/// What a replica remembers by its records. Of its log that is what comes after the checkpoint.
#[derive(Debug, Default)]
pub struct Memory {
    is_begun: bool,
    pub(crate) standing: Standing,
    pub(crate) log: Log,
    pub(crate) checkpoint: Option<Arc<Checkpoint>>,
}

impl Memory {
    /// Takes in the next record.
    pub fn note(&mut self, record: &Record) {
        self.is_begun = true;
        let begins_epoch =
            matches!(record, Record::Checkpoint(checkpoint) if self.standing.is_ended_by(checkpoint));
        self.standing.note(record, self.log.last());
        match record {
            Record::View { .. } | Record::Ordered(_) | Record::Copying(_) => {}
            Record::Install { after, entries, .. } => {
                self.log.truncate(*after);
                for entry in entries {
                    self.log.append(entry.clone());
                }
            }
            Record::Append(entry) => {
                self.log.append(entry.clone());
            }
            Record::Truncate(last) => self.log.truncate(*last),
            Record::Checkpoint(checkpoint) => {
                if !begins_epoch && self.log.summary(checkpoint.at) == Some(checkpoint.summary) {
                    self.log.drop_until(checkpoint.at);
                } else {
                    self.log = Log::after(checkpoint.at, checkpoint.summary);
                }
                self.checkpoint = Some(checkpoint.clone());
            }
            Record::Adopt(checkpoint) => {
                self.log = Log::after(checkpoint.at, checkpoint.summary);
                self.checkpoint = Some(checkpoint.clone());
            }
        }
    }

    /// Records that come to the same: none, if there were none.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        if !self.is_begun {
            return Vec::new();
        }
        let checkpoint = self.checkpoint.iter().cloned().map(Record::Checkpoint);
        let entries = self.log.entries_after(self.log.start()).cloned().map(Record::Append);
        checkpoint.chain(entries).chain(self.standing.records()).collect()
    }
}
