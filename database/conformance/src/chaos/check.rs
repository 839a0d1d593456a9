//! Whether what clients saw, and what the database holds in the end, is possible.
//!
//! Rows are never changed or removed, so each row has one moment from which all must see it: when its commit was
//! acknowledged, or when a reader that had seen it ended, whichever is first.

use super::history::{Event, Outcome, Read, Slot, Time, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Accounts there are.
pub const ACCOUNTS: i64 = 16;
/// What each holds at first.
pub const BALANCE: i64 = 1_000;
/// How many rows of each slot a reader asks for.
pub const NEWEST: usize = 8;

/// A row of a transfer, or the key of a claim, with who wrote it.
pub type Row = (Slot, Time, Write);

/// What the database holds in the end.
#[derive(Clone, Debug, Default)]
pub struct Final {
    /// All rows and claims.
    pub rows: Vec<Row>,
    /// The balance of each account.
    pub balances: Vec<i64>,
}

/// What cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It was acknowledged, and is not there.
    Lost(Row),
    /// Its commit was told to have failed, or nobody tried it.
    Unwarranted(Row),
    /// It is there more than once.
    Doubled(Row),
    /// Two rows have the same unique key.
    Duplicate(Row, Row),
    /// A snapshot held another sum than was put in.
    Torn(Read),
    /// The balances in the end are not what the rows come to.
    Balance(i64),
    /// A snapshot held another number of rows in a table than in its index.
    Uneven(Slot, Time, [i64; 2]),
    /// A reader missed a row that was there before it began.
    Stale(Read, (Slot, Time)),
    /// A reader saw a row that nobody wrote, or that nobody was writing yet.
    Imagined(Read, (Slot, Time)),
    /// A session missed what it had written itself.
    OwnWrite(Slot, Time),
    /// A session was told that the database is damaged.
    Damaged(Slot, Time),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = |read: &Read| Event::Read(read.clone());
        match self {
            Self::Lost(row) => write!(f, "acknowledged, and lost: {row:?}"),
            Self::Unwarranted(row) => {
                write!(f, "there, although its commit failed or was never tried: {row:?}")
            }
            Self::Doubled(row) => write!(f, "there more than once: {row:?}"),
            Self::Duplicate(one, other) => write!(f, "the same unique key: {one:?} and {other:?}"),
            Self::Torn(at) => write!(f, "a sum that is not {}: {}", ACCOUNTS * BALANCE, read(at)),
            Self::Uneven(slot, begin, [by_table, by_index]) => {
                write!(f, "{by_table} rows, {by_index} in the index, in a snapshot of slot {slot} at {begin}")
            }
            Self::Balance(account) => write!(f, "account {account} does not hold what the rows come to"),
            Self::Stale(at, row) => write!(f, "{row:?} was there before, and is missed: {}", read(at)),
            Self::Imagined(at, row) => write!(f, "{row:?} cannot be there: {}", read(at)),
            Self::Damaged(slot, n) => write!(f, "slot {slot} is told at {n} that the database is damaged"),
            Self::OwnWrite(slot, n) => write!(f, "slot {slot} does not see its own row {n}"),
        }
    }
}

/// What is known of one transaction.
struct Known {
    write: Write,
    outcome: Outcome,
    /// From then on all must see it.
    since: Option<Time>,
}

/// Judges a history, in any order of lines, and the state after it. A commit that never ended is as one of which nobody can tell.
#[must_use]
pub fn check(history: &[Event], state: &Final) -> Vec<Violation> {
    let known = transactions(history);
    let mut violations = Vec::new();
    for event in history {
        match event {
            Event::Own(slot, n, false) => violations.push(Violation::OwnWrite(*slot, *n)),
            Event::Count(slot, begin, counts) if counts[0] != counts[1] => {
                violations.push(Violation::Uneven(*slot, *begin, *counts));
            }
            Event::Damaged(slot, n) => violations.push(Violation::Damaged(*slot, *n)),
            Event::Read(read) => check_read(read, &known, &mut violations),
            _ => {}
        }
    }
    check_rows(state, &known, &mut violations);
    check_balances(state, &mut violations);
    violations
}

type Transactions = BTreeMap<(Slot, Time), Known>;

fn transactions(history: &[Event]) -> Transactions {
    let mut known = BTreeMap::new();
    for event in history {
        if let Event::Try(slot, n, write) = event {
            known.insert((*slot, *n), Known { write: *write, outcome: Outcome::Unknown, since: None });
        }
    }
    let earlier = |since: Option<Time>, time: Time| Some(since.map_or(time, |since| since.min(time)));
    for event in history {
        match event {
            Event::Done(slot, n, end, outcome) => {
                if let Some(known) = known.get_mut(&(*slot, *n)) {
                    known.outcome = *outcome;
                    if *outcome == Outcome::Committed {
                        known.since = earlier(known.since, *end);
                    }
                }
            }
            Event::Read(read) => {
                for (slot, rows) in &read.rows {
                    for n in rows {
                        if let Some(known) = known.get_mut(&(*slot, *n)) {
                            known.since = earlier(known.since, read.end);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    known
}

fn check_read(read: &Read, known: &Transactions, violations: &mut Vec<Violation>) {
    if read.sums.iter().any(|sum| *sum != ACCOUNTS * BALANCE) {
        violations.push(Violation::Torn(read.clone()));
    }
    for (slot, rows) in &read.rows {
        let seen: BTreeSet<Time> = rows.iter().copied().collect();
        for n in &seen {
            let is_possible = known.get(&(*slot, *n)).is_some_and(|known| known.outcome != Outcome::Failed);
            if !is_possible || *n > read.end {
                violations.push(Violation::Imagined(read.clone(), (*slot, *n)));
            }
        }
        // Older rows were not asked for; while a reader waits, all that it finds may be newer than its beginning.
        let is_all = rows.len() < NEWEST;
        let oldest = seen.first().copied().filter(|_| !is_all).unwrap_or(0).min(read.begin);
        for ((slot, n), known) in known.range((*slot, oldest)..(*slot, read.begin)) {
            let is_row = matches!(known.write, Write::Transfer { .. });
            if is_row && known.since.is_some_and(|since| since < read.begin) && !seen.contains(n) {
                violations.push(Violation::Stale(read.clone(), (*slot, *n)));
            }
        }
    }
}

fn check_rows(state: &Final, known: &Transactions, violations: &mut Vec<Violation>) {
    let mut found = BTreeSet::new();
    let mut keys: BTreeMap<i64, Row> = BTreeMap::new();
    for row in &state.rows {
        let (slot, n, write) = *row;
        let tried = known.get(&(slot, n));
        if tried.is_none_or(|known| known.write != write || known.outcome == Outcome::Failed) {
            violations.push(Violation::Unwarranted(*row));
        }
        if !found.insert((slot, n)) {
            violations.push(Violation::Doubled(*row));
        } else if let Write::Claim(key) = write
            && let Some(other) = keys.insert(key, *row)
        {
            violations.push(Violation::Duplicate(other, *row));
        }
    }
    for (&(slot, n), known) in known {
        if known.since.is_some() && !found.contains(&(slot, n)) {
            violations.push(Violation::Lost((slot, n, known.write)));
        }
    }
}

fn check_balances(state: &Final, violations: &mut Vec<Violation>) {
    let mut expected: BTreeMap<i64, i64> = (0..ACCOUNTS).map(|account| (account, BALANCE)).collect();
    for (_, _, write) in &state.rows {
        if let Write::Transfer { source, target, amount } = write {
            *expected.entry(*source).or_default() -= amount;
            *expected.entry(*target).or_default() += amount;
        }
    }
    let wrong = expected
        .iter()
        .zip(0..)
        .filter(|((_, expected), place)| state.balances.get(*place) != Some(*expected));
    violations.extend(wrong.map(|((account, _), _)| Violation::Balance(*account)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Write = Write::Transfer { source: 1, target: 2, amount: 5 };

    /// One row at 10, acknowledged at 20.
    fn sound() -> (Vec<Event>, Final) {
        let mut balances = vec![BALANCE; 16];
        (balances[1], balances[2]) = (BALANCE - 5, BALANCE + 5);
        let history = vec![
            Event::Try(0, 10, ROW),
            Event::Done(0, 10, 20, Outcome::Committed),
            Event::Own(0, 10, true),
            Event::Read(read(30, 40, &[10])),
        ];
        (history, Final { rows: vec![(0, 10, ROW)], balances })
    }

    fn read(begin: Time, end: Time, rows: &[Time]) -> Read {
        let sum = ACCOUNTS * BALANCE;
        Read { slot: 1, begin, end, sums: [sum, sum], rows: vec![(0, rows.into())] }
    }

    /// The same, but a reader sees nothing that is older than this, as there are so many rows, and ends then.
    fn with_newer_rows(oldest: Time, end: Time) -> (Vec<Event>, Final) {
        let (mut history, mut state) = sound();
        let newer: Vec<Time> = (oldest..).take(NEWEST).collect();
        let more = Write::Transfer { source: 0, target: 0, amount: 0 };
        for n in &newer {
            history.push(Event::Try(0, *n, more));
            state.rows.push((0, *n, more));
        }
        history[3] = Event::Read(read(30, end, &newer));
        (history, state)
    }

    #[test]
    fn what_is_sound_passes() {
        let (history, state) = sound();
        assert_eq!(check(&history, &state), []);
    }

    #[test]
    fn a_lost_row_is_found() {
        let (history, mut state) = sound();
        state.rows.clear();
        state.balances = vec![BALANCE; 16];
        assert_eq!(check(&history, &state), [Violation::Lost((0, 10, ROW))]);
    }

    #[test]
    fn a_row_whose_outcome_is_unknown_may_be_there_or_not() {
        let (mut history, mut state) = sound();
        history[1] = Event::Done(0, 10, 20, Outcome::Unknown);
        assert_eq!(check(&history, &state), []);
        history.pop();
        state.rows.clear();
        state.balances = vec![BALANCE; 16];
        assert_eq!(check(&history, &state), []);
    }

    #[test]
    fn what_a_reader_saw_stays_also_if_its_outcome_is_unknown() {
        let (mut history, state) = sound();
        history[1] = Event::Done(0, 10, 20, Outcome::Unknown);
        let late = read(50, 60, &[]);
        history.push(Event::Read(late.clone()));
        assert_eq!(check(&history, &state), [Violation::Stale(late, (0, 10))]);
    }

    #[test]
    fn a_row_that_failed_is_found() {
        let (mut history, state) = sound();
        history[1] = Event::Done(0, 10, 20, Outcome::Failed);
        let seen = Violation::Imagined(read(30, 40, &[10]), (0, 10));
        assert_eq!(check(&history, &state), [seen, Violation::Unwarranted((0, 10, ROW))]);
    }

    #[test]
    fn a_row_that_is_there_twice_is_found() {
        let (history, mut state) = sound();
        state.rows.push((0, 10, ROW));
        assert!(check(&history, &state).contains(&Violation::Doubled((0, 10, ROW))));
    }

    #[test]
    fn a_torn_sum_is_found() {
        let (mut history, state) = sound();
        let torn = Read { sums: [ACCOUNTS * BALANCE, ACCOUNTS * BALANCE - 5], ..read(30, 40, &[10]) };
        history[3] = Event::Read(torn.clone());
        assert_eq!(check(&history, &state), [Violation::Torn(torn)]);
    }

    #[test]
    fn a_lost_update_is_found() {
        let (history, mut state) = sound();
        state.balances[2] -= 5;
        assert_eq!(check(&history, &state), [Violation::Balance(2)]);
    }

    #[test]
    fn a_stale_read_is_found_and_one_that_overlaps_is_none() {
        let (mut history, state) = sound();
        let (stale, early) = (read(21, 25, &[]), read(15, 25, &[]));
        history.extend([Event::Read(stale.clone()), Event::Read(early)]);
        assert_eq!(check(&history, &state), [Violation::Stale(stale, (0, 10))]);
    }

    #[test]
    fn rows_that_were_not_asked_for_are_not_missed() {
        let (history, state) = with_newer_rows(11, 40);
        assert_eq!(check(&history, &state), []);
    }

    #[test]
    fn rows_that_are_newer_than_a_slow_readers_beginning_say_nothing() {
        let (history, state) = with_newer_rows(50, 90);
        assert_eq!(check(&history, &state), []);
    }

    #[test]
    fn a_row_from_the_future_is_found() {
        let (mut history, state) = sound();
        let early = read(1, 5, &[10]);
        history.push(Event::Read(early.clone()));
        assert_eq!(check(&history, &state), [Violation::Imagined(early, (0, 10))]);
    }

    #[test]
    fn a_duplicate_key_is_found() {
        let (mut history, mut state) = sound();
        for slot in [1, 2] {
            history.push(Event::Try(slot, 10, Write::Claim(7)));
            history.push(Event::Done(slot, 10, 20, Outcome::Committed));
            state.rows.push((slot, 10, Write::Claim(7)));
        }
        let duplicate = Violation::Duplicate((1, 10, Write::Claim(7)), (2, 10, Write::Claim(7)));
        assert_eq!(check(&history, &state), [duplicate]);
    }

    #[test]
    fn a_row_that_is_missing_in_the_index_is_found() {
        let (mut history, state) = sound();
        history.extend([Event::Count(1, 30, [7, 7]), Event::Count(1, 50, [8, 7])]);
        assert_eq!(check(&history, &state), [Violation::Uneven(1, 50, [8, 7])]);
    }

    #[test]
    fn a_lost_own_write_is_found() {
        let (mut history, state) = sound();
        history[2] = Event::Own(0, 10, false);
        assert_eq!(check(&history, &state), [Violation::OwnWrite(0, 10)]);
    }
}
