//! What clients tell: a line for each thing that they try and see.
//!
//! A *slot* is a place of a client: one after the other, processes write there, so it has at most one operation at a time.
//! An operation's number is the microsecond at which it began, so it is its slot's alone.

use std::fmt::{self, Write as _};

/// A place of a client.
pub type Slot = u32;
/// Microseconds of the monotonic clock.
pub type Time = u64;

/// What a transaction writes, beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// A row, and an amount from one account to another.
    Transfer {
        /// The account that loses.
        source: i64,
        /// The account that gains; the same if the row is all.
        target: i64,
        /// How much.
        amount: i64,
    },
    /// A unique key.
    Claim(i64),
}

/// What a client was told of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has taken place.
    Committed,
    /// It will not take place.
    Failed,
    /// Nobody can tell.
    Unknown,
}

/// A snapshot, as a reader saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Who reads.
    pub slot: Slot,
    /// When it began.
    pub begin: Time,
    /// When it had ended.
    pub end: Time,
    /// The sum of all accounts, by table and by index.
    pub sums: [i64; 2],
    /// Of each slot the newest rows, newest first.
    pub rows: Vec<(Slot, Vec<Time>)>,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transaction begins.
    Try(Slot, Time, Write),
    /// It has ended.
    Done(Slot, Time, Time, Outcome),
    /// Whether the session that wrote a row sees it.
    Own(Slot, Time, bool),
    /// A snapshot was read.
    Read(Read),
    /// All rows of a snapshot were counted, in their table and in its index.
    Count(Slot, Time, [i64; 2]),
    /// The database was found to be damaged.
    Damaged(Slot, Time),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Try(slot, n, Write::Transfer { source, target, amount }) => {
                write!(f, "transfer {slot} {n} {source} {target} {amount}")
            }
            Self::Try(slot, n, Write::Claim(key)) => write!(f, "claim {slot} {n} {key}"),
            Self::Done(slot, n, end, outcome) => write!(f, "{outcome:?} {slot} {n} {end}"),
            Self::Own(slot, n, seen) => write!(f, "own {slot} {n} {seen}"),
            Self::Damaged(slot, n) => write!(f, "damaged {slot} {n}"),
            Self::Count(slot, begin, [by_table, by_index]) => {
                write!(f, "count {slot} {begin} {by_table} {by_index}")
            }
            Self::Read(Read { slot, begin, end, sums: [by_table, by_index], rows }) => {
                let mut line = format!("read {slot} {begin} {end} {by_table} {by_index}");
                for (slot, rows) in rows {
                    write!(line, " {slot}:")?;
                    rows.iter().try_for_each(|n| write!(line, "{n},"))?;
                }
                f.write_str(&line)
            }
        }
    }
}

impl Event {
    /// The event that a line tells; what follows on it is for people.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let slot = words.next()?.parse().ok()?;
        let n = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse::<i64>().ok();
        Some(match kind {
            "transfer" => Self::Try(
                slot,
                n,
                Write::Transfer { source: number()?, target: number()?, amount: number()? },
            ),
            "count" => Self::Count(slot, n, [number()?, number()?]),
            "claim" => Self::Try(slot, n, Write::Claim(number()?)),
            "damaged" => Self::Damaged(slot, n),
            "own" => Self::Own(slot, n, words.next()?.parse().ok()?),
            "read" => {
                let end = number()?.try_into().ok()?;
                let sums = [number()?, number()?];
                let rows = words.map(rows).collect::<Option<_>>()?;
                Self::Read(Read { slot, begin: n, end, sums, rows })
            }
            _ => {
                let outcomes = [Outcome::Committed, Outcome::Failed, Outcome::Unknown];
                let outcome = outcomes.into_iter().find(|outcome| format!("{outcome:?}") == kind)?;
                Self::Done(slot, n, number()?.try_into().ok()?, outcome)
            }
        })
    }
}

/// `SLOT:N,N,…,`
fn rows(word: &str) -> Option<(Slot, Vec<Time>)> {
    let (slot, rows) = word.split_once(':')?;
    let rows = rows.split_terminator(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    Some((slot.parse().ok()?, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let events = [
            Event::Try(3, 12, Write::Transfer { source: 1, target: 2, amount: -5 }),
            Event::Try(3, 12, Write::Claim(99)),
            Event::Done(3, 12, 15, Outcome::Unknown),
            Event::Own(3, 12, false),
            Event::Count(3, 12, [7, 8]),
            Event::Damaged(3, 12),
            Event::Read(Read {
                slot: 0,
                begin: 5,
                end: 7,
                sums: [1, -2],
                rows: vec![(0, vec![4, 2]), (1, vec![])],
            }),
        ];
        for event in events {
            assert_eq!(Event::parse(&event.to_string()), Some(event));
        }
        let explained = Event::parse("Failed 1 2 3 the database is busy");
        assert_eq!(explained, Some(Event::Done(1, 2, 3, Outcome::Failed)));
        assert_eq!(Event::parse("Failed 1 2"), None);
    }
}
