//! Table 2: what it takes an application to roll back, in lines of code and in time.

mod store;

use super::name;
use crate::Figure;
use crate::figure::median;
use fulmar_node::Random;
use fulmar_replication::applications::{LockMode, LockOperation, Locks, SessionId, Timestamps};
use fulmar_replication::{SequenceNumber, StateMachine};
use std::hint::black_box;
use std::mem;
use std::time::{Duration, Instant};

const TIMESTAMPS: &str = include_str!("../../../../agreement/replication/src/applications/timestamps.rs");
const LOCKS: &str = include_str!("../../../../agreement/replication/src/applications/locks.rs");
const UNDO: &str = include_str!("../../../../agreement/replication/src/applications/undo.rs");

/// As many operations as are speculative at a time, if replicas synchronise after a hundred.
const SPECULATIVE: usize = 100;
const ROUNDS: u32 = 300;
/// Of the lock manager.
const SESSIONS: u64 = 100;
const NAMES: u64 = 1_000;

/// What is replicated, and what rolling it back takes.
#[derive(Clone, Debug)]
pub struct Application {
    /// What people call it.
    pub name: &'static str,
    /// In names of figures.
    word: &'static str,
    /// Lines of code, without tests.
    pub lines: usize,
    /// Those of them that are there for rollback alone.
    pub rollback_lines: usize,
    /// Both as the paper has them, if it does.
    pub paper: Option<(f64, f64)>,
    /// Of each run, if it is an application by itself.
    times: Vec<Times>,
}

impl Application {
    /// The median of the runs, nanoseconds: to execute an operation, and to roll one back.
    pub fn nanoseconds(&self) -> Option<(f64, f64)> {
        let of = |time: fn(&Times) -> f64| median(&self.times.iter().map(time).collect::<Vec<_>>());
        (!self.times.is_empty()).then(|| (of(|times| times.execute), of(|times| times.rollback)))
    }
}

/// Nanoseconds an operation.
#[derive(Clone, Copy, Debug)]
struct Times {
    execute: f64,
    rollback: f64,
}

/// Counts lines, and measures each application so often, in turn.
pub(super) fn measure(runs: usize) -> Result<Vec<Application>, fulmar_kv::Error> {
    let application = |name, word, sources: &[&str], paper| Application {
        name,
        word,
        lines: sources.iter().map(|source| code(source).count()).sum(),
        rollback_lines: sources.iter().map(|source| of_rollback(source)).sum(),
        paper: Some(paper),
        times: Vec::new(),
    };
    let mut timestamps = application("timestamp server", "timestamps", &[TIMESTAMPS], (154.0, 10.0));
    let mut locks = application("lock manager", "locks", &[LOCKS], (606.0, 75.0));
    let sources = store::SOURCES.map(|(_, source)| source);
    let mut store = application("key-value store", "store", &sources, (2011.0, 248.0));
    for _ in 0..runs {
        timestamps.times.push(time(Timestamps::default(), SequenceNumber(0), || Timestamps::take(1)));
        let mut random = Random::new(1);
        let (service, opened) = with_sessions();
        locks.times.push(time(service, opened, || lock_operation(&mut random).encode()));
        let (entries, announced) = store::led()?;
        store.times.push(time(entries, announced, || store::operation(&mut random).encode()));
    }
    let lines = code(UNDO).count();
    let name = "undo log of the first two";
    let undo =
        Application { name, word: "undo", lines, rollback_lines: lines, paper: None, times: Vec::new() };
    Ok(vec![timestamps, locks, store, undo])
}

/// A lock manager whose sessions are open.
fn with_sessions() -> (Locks, SequenceNumber) {
    let mut locks = Locks::default();
    let opened = SequenceNumber(SESSIONS);
    let open = LockOperation::Open { ticks: 1, session: None }.encode();
    (1..=SESSIONS).for_each(|number| drop(locks.execute(SequenceNumber(number), &open)));
    locks.commit(opened);
    (locks, opened)
}

/// Any session takes or gives up any lock.
fn lock_operation(random: &mut Random) -> LockOperation {
    let session = SessionId(1 + random.below(SESSIONS));
    let name = random.below(NAMES).to_be_bytes().into();
    let mode = if random.one_in(2) { LockMode::Read } else { LockMode::Write };
    if random.one_in(2) {
        LockOperation::Release(session, name)
    } else {
        LockOperation::Acquire { session, name, mode, waits: true }
    }
}

/// Executes some operations, takes them back, executes them again and commits them; and so on.
fn time(
    mut service: impl StateMachine,
    mut last: SequenceNumber,
    mut next: impl FnMut() -> Vec<u8>,
) -> Times {
    let (mut executing, mut rolling_back) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        let operations: Vec<Vec<u8>> = (0..SPECULATIVE).map(|_| next()).collect();
        let first = last.next();
        let execute = |service: &mut dyn StateMachine| {
            for (number, operation) in (first.0..).map(SequenceNumber).zip(&operations) {
                black_box(service.execute(number, operation));
            }
        };
        let begun = Instant::now();
        execute(&mut service);
        let executed = Instant::now();
        service.rollback(first);
        rolling_back += executed.elapsed();
        executing += executed - begun;
        execute(&mut service);
        last = SequenceNumber(last.0 + SPECULATIVE as u64);
        service.commit(last);
    }
    let each = |time: Duration| time.as_nanos() as f64 / f64::from(ROUNDS) / SPECULATIVE as f64;
    Times { execute: each(executing), rollback: each(rolling_back) }
}

/// What is neither blank nor a comment nor for tests, which come last if they are not elsewhere.
fn code(source: &str) -> impl Iterator<Item = &str> {
    let mut begins_tests = false;
    source.lines().take_while(|line| *line != "mod tests {").filter(move |line| {
        let is_of_tests = mem::replace(&mut begins_tests, *line == "#[cfg(test)]") || begins_tests;
        !is_of_tests && !line.trim().is_empty() && !line.trim().starts_with("//")
    })
}

/// How many lines are there for rollback alone: the methods `rollback` and `commit` of a state machine, and what says which
/// operation is the next that may have to be undone.
fn of_rollback(source: &str) -> usize {
    let mut end = None;
    let mut is_in_machine = false;
    let is_of_rollback = |line: &&str| {
        if line.starts_with("impl ") {
            is_in_machine = line.starts_with("impl StateMachine ");
        }
        let is_method = |method| is_in_machine && line.trim().starts_with(method);
        let begins = ["fn rollback(", "fn commit("].into_iter().any(is_method);
        if begins {
            end = line.split_once("fn ").map(|(indentation, _)| format!("{indentation}}}"));
        }
        let is_within = end.is_some();
        if end.as_deref() == Some(line) {
            end = None;
        }
        is_within
            || is_in_machine && [".begin(", "executed.push_back("].iter().any(|note| line.contains(note))
    };
    code(source).filter(is_of_rollback).count()
}

pub(super) fn figures(applications: &[Application]) -> Vec<Figure> {
    applications.iter().flat_map(of_application).collect()
}

fn of_application(application: &Application) -> Vec<Figure> {
    let Application { word, rollback_lines, paper, times, .. } = application;
    let lines = |what: &str, lines: usize, paper| Figure {
        paper,
        note: "of code, without tests, blank lines and comments".into(),
        ..Figure::of(name("table2", &format!("{word}_{what}")), "lines", "lower", &[lines as f64])
    };
    let mut figures = vec![
        lines("lines", application.lines, paper.map(|paper| paper.0)),
        lines("rollback_lines", *rollback_lines, paper.map(|paper| paper.1)),
    ];
    if let Some((execute, rollback)) = application.nanoseconds() {
        let ratios: Vec<f64> = times.iter().map(|times| times.rollback / times.execute).collect();
        figures.push(Figure {
            peer: "to execute it".into(),
            fulmar_nanoseconds: Some(rollback),
            peer_nanoseconds: Some(execute),
            note: format!("time to roll an operation back, one of {SPECULATIVE}"),
            ..Figure::of(name("table2", &format!("{word}_rollback_vs_execute")), "ratio", "lower", &ratios)
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_up_to_the_tests() {
        let source = "\
//! A counter.
use std::mem;

#[cfg(test)]
mod oracle;

impl Store for Counter {
    fn commit(&self) {}
}

impl StateMachine for Counter {
    fn execute(&mut self) {
        // Why.
        self.undo.begin(1);
        self.0 += 1;
    }

    fn rollback(&mut self) {
        if self.0 > 0 {
            self.0 -= 1;
        }
    }
}

#[cfg(test)]
mod tests {}
";
        assert_eq!(code(source).count(), 15);
        assert_eq!(of_rollback(source), 6);
    }

    #[test]
    fn less_than_half_of_an_application_is_rollback() {
        let applications = measure(1).expect("memory");
        for application in &applications[..3] {
            assert!((1..application.lines / 2).contains(&application.rollback_lines), "{application:?}");
            assert!(application.nanoseconds().is_some(), "{application:?}");
        }
        assert_eq!(figures(&applications).len(), 3 + 3 + 3 + 2);
    }
}
