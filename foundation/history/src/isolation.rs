//! Isolation of transactions: which phenomena of Adya's does a history show?
//!
//! From what transactions read follows on whom they depend (Adya 1999, §3.1): *ww*, one overwrote what the other wrote;
//! *wr*, one read what the other wrote; *rw*, one overwrote what the other read. As in Elle (Kingsbury and Alvaro, 2020)
//! each write has a value of its own, so that a read tells its writer (*recoverability*), and a list tells the order of
//! all that was appended to it (*traceability*). A register has no such memory: its order is that of commit timestamps.

mod cycles;
mod observe;
#[cfg(test)]
mod store;
#[cfg(test)]
mod tests;

use std::fmt;

/// A time or a timestamp; only its order matters.
pub type Timestamp = u64;
/// The name of a list or register. A list and a register of one number are two objects.
pub type Key = u64;
/// What is appended or written: at most once to each object.
pub type Value = u64;

/// What a client saw of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Who ran it. The transactions of a process stand in the history in the order in which it ran them.
    pub process: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What it did, in its order. Of reads that failed nothing is told.
    pub operations: Vec<Operation>,
    /// When its client began and ended it, for [`Order::RealTime`]. The end of an unknown one is not looked at.
    pub interval: Option<(Timestamp, Timestamp)>,
    /// It should have seen all that committed at this timestamp or before, and nothing else.
    pub snapshot: Option<Timestamp>,
    /// When what it wrote became part of snapshots, by the same clock; unlike that of any other writer.
    pub commit: Option<Timestamp>,
}

impl Transaction {
    /// A transaction without times.
    #[must_use]
    pub const fn new(process: u64, outcome: Outcome, operations: Vec<Operation>) -> Self {
        Self { process, outcome, operations, interval: None, snapshot: None, commit: None }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client was told that it committed.
    Committed,
    /// The client was told that it did not, and nobody may have seen it.
    Aborted,
    /// The client was told nothing. If somebody saw what it wrote it did commit.
    Unknown,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Puts an element at the end of a list.
    Append(Key, Value),
    /// Saw a list that consists of these elements.
    ReadList(Key, Vec<Value>),
    /// Replaces what is in a register.
    Write(Key, Value),
    /// Saw this in a register: nothing, if it has never been written.
    Read(Key, Option<Value>),
}

/// What is asked of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Adya's PL-SI: no G1, no G-SI. Write skew is fine.
    Snapshot,
    /// Adya's PL-3, without predicates: no G1, no G2-item.
    Serializable,
}

/// Which order of transactions, beyond their dependencies, has to be respected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// None: a transaction may see an old snapshot.
    Any,
    /// Each process sees what it has done itself (*strong session*; Daudjee and Salem, 2006).
    Session,
    /// That, and who begins after another's end sees what that did (*strong* snapshot isolation, *strict*
    /// serializability).
    RealTime,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phenomenon {
    /// Two transactions wrote one value to one object: the history does not say who was read.
    DuplicateWrite,
    /// A transaction contradicts itself: it does not see its own writes, or sees two states.
    Internal,
    /// A read of what nobody wrote.
    GarbageRead,
    /// A list that holds an element twice.
    DuplicateElement,
    /// Two lists, or a list and commit timestamps, of which neither continues the other.
    IncompatibleOrder,
    /// Aborted read.
    G1a,
    /// Intermediate read: of what its writer replaced or continued before it committed.
    G1b,
    /// Write cycle, or dirty write: ww alone.
    G0,
    /// Circular information flow: ww and wr.
    G1c,
    /// Two transactions replaced the version that both had read; or one a version that it had not seen, having read
    /// one before.
    LostUpdate,
    /// Read skew, and all other cycles with one rw.
    GSingle,
    /// Cycles with several rw, no two in a row: a long fork for example. With G-single they are what Adya's G-SI finds
    /// when timestamps are not known (Cerone and Gotsman, 2016).
    GNonadjacent,
    /// Interference: it depends on a transaction that had not committed at its snapshot.
    GSIa,
    /// Missed effects: it saw less than its snapshot.
    GSIb,
    /// Cycles with two rw in a row: write skew.
    G2Item,
}

impl fmt::Display for Phenomenon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DuplicateWrite => "duplicate write",
            Self::Internal => "internal inconsistency",
            Self::GarbageRead => "garbage read",
            Self::DuplicateElement => "duplicate element",
            Self::IncompatibleOrder => "incompatible order",
            Self::G1a => "G1a (aborted read)",
            Self::G1b => "G1b (intermediate read)",
            Self::G0 => "G0 (dirty write)",
            Self::G1c => "G1c (circular information flow)",
            Self::LostUpdate => "lost update",
            Self::GSingle => "G-single (read skew)",
            Self::GNonadjacent => "G-nonadjacent (long fork)",
            Self::GSIa => "G-SIa (interference)",
            Self::GSIb => "G-SIb (missed effects)",
            Self::G2Item => "G2-item (write skew)",
        })
    }
}

/// A phenomenon, and who shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub phenomenon: Phenomenon,
    /// The order that is violated: it is none unless that of `Session` or `RealTime` is respected.
    pub order: Order,
    /// Indices in the history; those of a cycle in its order.
    pub transactions: Vec<usize>,
    /// Why, a line for each step.
    pub explanation: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Any => "",
            Order::Session => ", by the order of a session",
            Order::RealTime => ", by real time",
        };
        write!(f, "{}{order}:\n{}", self.phenomenon, self.explanation)
    }
}

/// All objects that transactions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    List(Key),
    Register(Key),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(key) => write!(f, "list {key}"),
            Self::Register(key) => write!(f, "register {key}"),
        }
    }
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// The other wrote `after` in place of `before`, or behind it.
    Ww { object: Object, before: Value, after: Value },
    /// The other read `value`.
    Wr { object: Object, value: Value },
    /// It saw `seen`; the other wrote `after` in place of it, or behind it.
    Rw { object: Object, seen: Option<Value>, after: Value },
    /// One process ran both.
    Session,
    /// It ended before the other began.
    RealTime,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    reason: Reason,
}

/// The phenomena that a history shows and may not; none if all is well. A few examples of each are told, not all, and
/// of cycles that have transactions in common the worst.
#[must_use]
pub fn check(history: &[Transaction], isolation: Isolation, order: Order) -> Vec<Violation> {
    let (mut violations, dependencies) = observe::observe(history);
    if isolation == Isolation::Snapshot {
        violations.append(&mut missed_snapshots(history, &dependencies));
    }
    violations.append(&mut cycles::find(history, dependencies, isolation, order));
    violations.sort_by_key(|violation| violation.phenomenon);
    let mut told = 0;
    let mut last = None;
    violations.retain(|violation| {
        told = if last == Some(violation.phenomenon) { told + 1 } else { 1 };
        last = Some(violation.phenomenon);
        told <= EXAMPLES
    });
    violations
}

/// How many violations of a kind are told.
const EXAMPLES: usize = 10;

/// G-SI (Adya 1999, §4.3), where timestamps are given. Who depends on another started after its commit (G-SIa). Given
/// that, G-SIb is an rw against the order of commit and start: a longer cycle with one rw has such an edge too.
fn missed_snapshots(history: &[Transaction], dependencies: &[Vec<Edge>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (from, edges) in dependencies.iter().enumerate() {
        for edge in edges {
            let is_seen =
                |writer: usize, other: usize| Some(history[writer].commit? <= history[other].snapshot?);
            let phenomenon = match edge.reason {
                Reason::Ww { .. } | Reason::Wr { .. } if is_seen(from, edge.to) == Some(false) => {
                    Phenomenon::GSIa
                }
                Reason::Rw { .. } if is_seen(edge.to, from) == Some(true) => Phenomenon::GSIb,
                _ => continue,
            };
            let mut explanation = cycles::explain(history, from, edge);
            for transaction in [from, edge.to] {
                let Transaction { snapshot, commit, .. } = history[transaction];
                let at = |time: Option<u64>| time.map_or_else(|| "?".to_owned(), |time| time.to_string());
                explanation +=
                    &format!("  T{transaction}: snapshot {}, commit {}\n", at(snapshot), at(commit));
            }
            violations.push(Violation {
                phenomenon,
                order: Order::Any,
                transactions: vec![from, edge.to],
                explanation,
            });
        }
    }
    violations
}
