//! A replica's records so far, with fewer that come to the same.

use fulmar_replication::{Checkpoint, Log, Record, SequenceNumber, View};
use std::sync::Arc;

/// What the records say together, as [`Replica::new`](fulmar_replication::Replica::new) reads them.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    is_begun: bool,
    checkpoint: Option<Arc<Checkpoint>>,
    log: Log,
    view: View,
    last_normal: View,
    ordered: SequenceNumber,
}

impl Kept {
    /// There is one more.
    pub(crate) fn note(&mut self, record: &Record) {
        self.is_begun = true;
        match record {
            Record::View { view, last_normal } => {
                (self.view, self.last_normal) = (*view, *last_normal);
                if view == last_normal {
                    self.ordered = self.log.last();
                }
            }
            Record::Append(entry) => {
                self.log.append(entry.clone());
            }
            Record::Truncate(last) => {
                self.log.truncate(*last);
                self.ordered = self.ordered.min(*last);
            }
            Record::Ordered(upto) => self.ordered = *upto,
            Record::Checkpoint(checkpoint) => self.note_checkpoint(checkpoint),
        }
    }

    fn note_checkpoint(&mut self, checkpoint: &Arc<Checkpoint>) {
        let first = View::first_of(checkpoint.group.epoch());
        let ends_epoch = first.epoch > self.view.epoch;
        if ends_epoch {
            (self.view, self.last_normal) = (first, first);
        }
        if !ends_epoch && self.log.summary(checkpoint.at) == Some(checkpoint.summary) {
            self.log.drop_until(checkpoint.at);
        } else {
            self.log = Log::after(checkpoint.at, checkpoint.summary);
        }
        self.ordered = self.ordered.max(checkpoint.at);
        self.checkpoint = Some(checkpoint.clone());
    }

    /// Records that come to the same, or none if there were none.
    pub(crate) fn records(&self) -> Vec<Record> {
        if !self.is_begun {
            return Vec::new();
        }
        let checkpoint = self.checkpoint.iter().cloned().map(Record::Checkpoint);
        let entries = self.log.entries_after(self.log.start()).cloned().map(Record::Append);
        // After the view, which says in another way how far the log is ordered.
        let view = Record::View { view: self.view, last_normal: self.last_normal };
        checkpoint.chain(entries).chain([view, Record::Ordered(self.ordered)]).collect()
    }
}
