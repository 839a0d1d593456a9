//! The log: operations in their order.

use crate::{ClientId, Operation, SequenceNumber};
use std::collections::VecDeque;
use std::fmt;
use xxhash_rust::xxh3::Xxh3;

/// What an entry takes in a message beside its operation, at most.
const ENTRY_BYTES: usize = 32;

/// An operation in the log, and whose it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Who asked for it.
    pub client: ClientId,
    /// The place of the entry that has let the client in: that it is still known there tells whether this was carried out before. 0, if it
    /// was not let in: then only that it is still known does.
    pub session: SequenceNumber,
    /// Which of the client's requests it was; 0, if it asks to be let in.
    pub number: u64,
    /// What was asked.
    pub operation: Operation,
    /// Whether it changes nothing: it is in the log all the same where replicas speculate.
    pub is_query: bool,
}

impl Entry {
    /// A client asks to be let in.
    pub(crate) fn asks_to_be_let_in(&self) -> bool {
        self.number == 0 && self.client != ClientId::GROUP
    }

    pub(crate) fn was_let_in(&self) -> bool {
        self.session > SequenceNumber(0)
    }

    /// What an entry is, in hashes and on the wire.
    pub(crate) fn flags(&self) -> u8 {
        u8::from(self.is_query) | u8::from(self.was_let_in()) << 1
    }

    /// About as many bytes it takes in a message.
    pub(crate) fn size(&self) -> usize {
        self.operation.len() + ENTRY_BYTES
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_query { "?" } else { "" };
        write!(f, "{}.{}{what} {:02x?}", self.client.0, self.number, &self.operation)
    }
}

/// A hash of a log's operations up to one of them (Speculative Paxos, section 4.2.1): replicas with the same one agree on all of
/// those and their order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Summary(pub u128);

impl Summary {
    /// That of the log with one more entry.
    #[must_use]
    pub fn then(self, entry: &Entry) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&self.0.to_be_bytes());
        hash.update(&entry.client.0.to_be_bytes());
        hash.update(&entry.number.to_be_bytes());
        hash.update(&[entry.flags()]);
        if entry.was_let_in() {
            hash.update(&entry.session.0.to_be_bytes());
        }
        hash.update(&entry.operation);
        Self(hash.digest128())
    }
}

impl fmt::Debug for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to tell logs apart in a trace.
        write!(f, "#{:08x}", self.0 >> 96)
    }
}

/// The operations after a point that is committed, each with the summary of all up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// What comes before is known from a checkpoint.
    start: SequenceNumber,
    before: Summary,
    entries: VecDeque<(Entry, Summary)>,
}

impl Log {
    /// An empty log that goes on after `start`, where its summary is `before`.
    #[must_use]
    pub const fn after(start: SequenceNumber, before: Summary) -> Self {
        Self { start, before, entries: VecDeque::new() }
    }

    /// It tells of what comes after this.
    #[must_use]
    pub const fn start(&self) -> SequenceNumber {
        self.start
    }

    /// The place of the last entry, or the start.
    #[must_use]
    pub fn last(&self) -> SequenceNumber {
        SequenceNumber(self.start.0 + self.entries.len() as u64)
    }

    fn place(&self, number: SequenceNumber) -> Option<usize> {
        usize::try_from(number.0.checked_sub(self.start.0 + 1)?).ok()
    }

    /// The entry at a place.
    #[must_use]
    pub fn get(&self, number: SequenceNumber) -> Option<&Entry> {
        self.entries.get(self.place(number)?).map(|(entry, _)| entry)
    }

    /// The summary of all up to a place, from the start on.
    #[must_use]
    pub fn summary(&self, number: SequenceNumber) -> Option<Summary> {
        if number == self.start {
            return Some(self.before);
        }
        self.entries.get(self.place(number)?).map(|(_, summary)| *summary)
    }

    /// Whether it ends an epoch: nothing comes after that.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.entries.back().is_some_and(|(entry, _)| entry.client == ClientId::GROUP)
    }

    /// Appends an entry; answers its place.
    pub fn append(&mut self, entry: Entry) -> SequenceNumber {
        let before = self.entries.back().map_or(self.before, |(_, summary)| *summary);
        let summary = before.then(&entry);
        self.entries.push_back((entry, summary));
        self.last()
    }

    /// Forgets the entries after `last`.
    pub fn truncate(&mut self, last: SequenceNumber) {
        self.entries.truncate(self.place(last.next()).unwrap_or_default());
    }

    /// Forgets the entries up to `start`, if it has them.
    pub fn drop_until(&mut self, start: SequenceNumber) {
        if let Some(before) = self.summary(start) {
            self.entries.drain(..self.place(start.next()).unwrap_or_default());
            (self.start, self.before) = (start, before);
        }
    }

    /// The entries that come after `last`, as far as the log has them.
    pub fn entries_after(
        &self,
        last: SequenceNumber,
    ) -> impl ExactSizeIterator<Item = &Entry> + DoubleEndedIterator {
        let first = self.place(last.next()).unwrap_or_default();
        self.entries.range(first.min(self.entries.len())..).map(|(entry, _)| entry)
    }

    /// The last place, from `from` on, up to which both are the same; nothing, if they differ there already or one of them does
    /// not tell.
    #[must_use]
    pub fn agrees_until(&self, other: &Self, from: SequenceNumber) -> Option<SequenceNumber> {
        let same = |number: SequenceNumber| {
            self.summary(number).is_some_and(|summary| other.summary(number) == Some(summary))
        };
        if !same(from) {
            return None;
        }
        let (mut agreed, mut differs) = (from.0, self.last().min(other.last()).0 + 1);
        while differs - agreed > 1 {
            let middle = agreed + (differs - agreed) / 2;
            if same(SequenceNumber(middle)) { agreed = middle } else { differs = middle }
        }
        Some(SequenceNumber(agreed))
    }

    /// The same log without what comes up to `start`, if it tells of that, and with no more than so many bytes, but one entry.
    #[must_use]
    pub fn part(&self, start: SequenceNumber, bytes: usize) -> Self {
        let (start, before) = self.summary(start).map_or((self.start, self.before), |before| (start, before));
        let mut part = Self::after(start, before);
        let first = self.place(start.next()).unwrap_or_default();
        let mut size = 0;
        for (entry, summary) in self.entries.range(first..) {
            size += entry.size();
            if size > bytes && !part.entries.is_empty() {
                break;
            }
            part.entries.push_back((entry.clone(), *summary));
        }
        part
    }

    /// Goes on with a part, from where that begins; says whether it is known to lead there.
    pub fn go_on_with(&mut self, part: &Self) -> bool {
        let leads_to = self.summary(part.start) == Some(part.before);
        if leads_to {
            self.truncate(part.start);
            self.entries.extend(part.entries.iter().cloned());
        }
        leads_to
    }

    /// The last place, and the summary of all up to it.
    #[must_use]
    pub fn end(&self) -> (SequenceNumber, Summary) {
        (self.last(), self.entries.back().map_or(self.before, |(_, summary)| *summary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        let session = SequenceNumber(0);
        Entry { client: ClientId(1), session, number, operation: [7].into(), is_query: false }
    }

    fn log(numbers: impl IntoIterator<Item = u64>) -> Log {
        let mut log = Log::default();
        for number in numbers {
            log.append(entry(number));
        }
        log
    }

    #[test]
    fn prefixes_have_the_same_summary_and_nothing_else_has() {
        let at = SequenceNumber;
        let (a, b) = (log(1..=9), log((1..=4).chain([6, 5]).chain(7..=9)));
        assert_eq!(a.agrees_until(&b, at(0)), Some(at(4)));
        assert_eq!(a.agrees_until(&log(1..=9), at(3)), Some(at(9)));
        assert_eq!(a.agrees_until(&b, at(5)), None);
        let late = a.part(at(6), usize::MAX);
        assert_eq!((late.start(), late.last()), (at(6), at(9)));
        assert_eq!(late.agrees_until(&a, at(6)), Some(at(9)));
        assert_eq!(late.agrees_until(&a, at(5)), None);
    }

    #[test]
    fn parts_of_it_come_to_the_same() {
        let whole = log(1..=9);
        for bytes in [1, 70, 120, 1_000] {
            let mut again = whole.part(SequenceNumber(2), bytes);
            while again.end() != whole.end() {
                let part = whole.part(again.last(), bytes);
                assert!(part.last().0 - part.start().0 <= (bytes as u64 / 33).max(1));
                assert!(again.go_on_with(&part));
            }
            assert_eq!(again, whole.part(SequenceNumber(2), usize::MAX));
            assert!(!again.go_on_with(&log([3, 4, 5]).part(SequenceNumber(2), 1_000)));
        }
    }

    #[test]
    fn it_grows_and_shrinks_at_both_ends() {
        let at = SequenceNumber;
        let mut log = log(1..=5);
        let whole = log.clone();
        log.truncate(at(3));
        assert_eq!((log.last(), log.get(at(4))), (at(3), None));
        assert_eq!(log.append(entry(4)), at(4));
        log.append(entry(5));
        assert_eq!(log, whole);
        log.drop_until(at(2));
        assert_eq!((log.get(at(2)), log.get(at(3))), (None, Some(&entry(3))));
        assert_eq!(log.summary(at(2)), whole.summary(at(2)));
        let after = |last| -> Vec<u64> { log.entries_after(at(last)).map(|entry| entry.number).collect() };
        assert_eq!((after(0), after(3), after(7)), (vec![3, 4, 5], vec![4, 5], vec![]));
        log.drop_until(at(9));
        assert_eq!(log.start(), at(2));
        log.truncate(at(2));
        assert_eq!((log.start(), log.last()), (at(2), at(2)));
    }
}
