//! Runs of many seeds.

use crate::Detail;
use std::any::Any;
use std::cell::RefCell;
use std::env;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// One seed in so many runs twice.
const TWICE: u64 = 16;

#[derive(Default)]
struct Outcome {
    hash: u64,
    trace: String,
}

/// What a simulation is made from: a number, and how much of its trace is made, which changes nothing else.
#[derive(Clone)]
pub struct Seed {
    /// The number from which all chance comes.
    pub number: u64,
    detail: Detail,
    outcome: Rc<RefCell<Outcome>>,
}

impl Seed {
    /// A seed whose simulations make their traces like this.
    #[must_use]
    pub fn new(number: u64, detail: Detail) -> Self {
        Self { number, detail, outcome: Rc::default() }
    }

    pub(crate) const fn detail(&self) -> Detail {
        self.detail
    }

    /// Remembers how a simulation went.
    pub(crate) fn record(&self, hash: u64, trace: &str) {
        let mut outcome = self.outcome.borrow_mut();
        outcome.hash = outcome.hash.rotate_left(1) ^ hash;
        outcome.trace.push_str(trace);
    }
}

impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        Self::new(number, Detail::default())
    }
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The test.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// What went wrong.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, seed, reason } = self;
        let package = env::var("CARGO_PKG_NAME").map_or_else(|_| String::new(), |p| format!(" -p {p}"));
        writeln!(f, "{name} fails with seed {seed}: {reason}")?;
        write!(f, "replay it with: FULMAR_SEED={seed} cargo test{package} {name} -- --nocapture")
    }
}

/// Runs a test with many seeds, some of them twice, on all cores, and panics at the first that fails, with the command that
/// replays it.
///
/// `FULMAR_SEEDS=20000` runs so many from the first of `range`, or from `FULMAR_FIRST_SEED`; `FULMAR_SEED=17` runs that one, with its
/// trace on the standard output.
///
/// # Panics
///
/// If a seed fails, or one of these variables is no number.
pub fn seeds(name: &str, range: Range<u64>, run: impl Fn(Seed) -> Result<(), String> + Sync) {
    if let Some(number) = variable("FULMAR_SEED") {
        if let Err(reason) = run(Seed::new(number, Detail::Printed)) {
            panic!("{}", Failure { name: name.to_owned(), seed: number, reason });
        }
        return;
    }
    let first = variable("FULMAR_FIRST_SEED").unwrap_or(range.start);
    let count = variable("FULMAR_SEEDS").unwrap_or(range.end - range.start);
    if let Err(failure) = check(name, first..first.saturating_add(count), run) {
        panic!("{failure}");
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}, and should be a number")))
}

/// Runs a test with many seeds, whatever the environment says, and tells of the first that fails. Two runs of a seed
/// that differ are a failure too.
///
/// # Errors
///
/// If a seed fails, by an error, a panic or a difference.
pub fn check(
    name: &str,
    range: Range<u64>,
    run: impl Fn(Seed) -> Result<(), String> + Sync,
) -> Result<(), Failure> {
    // Seeds are begun in their order, and none after one that has failed: so the first that fails is among them.
    let next = AtomicU64::new(range.start);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let work = || {
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= range.end || lock(&failed).is_some() {
                return;
            }
            let result = if (number - range.start).is_multiple_of(TWICE) {
                run_twice(number, &run)
            } else {
                attempt(&run, Seed::from(number))
            };
            if let Err(reason) = result {
                let mut failed = lock(&failed);
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failed = Some((number, reason));
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..cores {
            scope.spawn(work);
        }
        work();
    });
    let failed = lock(&failed).take();
    failed.map_or(Ok(()), |(seed, reason)| Err(Failure { name: name.to_owned(), seed, reason }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attempt(run: &impl Fn(Seed) -> Result<(), String>, seed: Seed) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(seed)))
        .unwrap_or_else(|payload| Err(panic_message(payload.as_ref())))
}

fn run_twice(number: u64, run: &impl Fn(Seed) -> Result<(), String>) -> Result<(), String> {
    let once = |detail| {
        let seed = Seed::new(number, detail);
        let result = attempt(run, seed.clone());
        (result, seed.outcome.take())
    };
    let (result, outcome) = once(Detail::Hashed);
    result?;
    let (again, other) = once(Detail::Hashed);
    if outcome.hash == other.hash {
        return again.map_err(|reason| format!("the second of two equal runs failed: {reason}"));
    }
    let (left, right) = (once(Detail::Kept).1.trace, once(Detail::Kept).1.trace);
    let differing = left.lines().zip(right.lines()).find(|(left, right)| left != right);
    Err(differing.map_or_else(
        || "two runs differ".to_owned(),
        |(left, right)| format!("two runs differ, first here:\n{left}\n{right}"),
    ))
}

pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("with no message"))
}
