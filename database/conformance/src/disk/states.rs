//! Databases on disks that lost power.
//!
//! A process commits and leaves a trace; at many places of it the power is cut, and what the disk may hold then is
//! opened as a database. Some of these are where the next process goes on, so the power fails during recovery too.

use super::crash::Disk;
use super::trace::{self, Operation};
use crate::database;
use crate::workload::{self, Acknowledged, Error};
use fulmar_node::Random;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many states of disks.
    pub states: usize,
    /// Decides everything that threads do not.
    pub seed: u64,
    /// Whether the disk lies about `fdatasync`, which the checks must notice.
    pub lies: bool,
}

/// States of the disk that are taken of one trace.
const STATES_OF_A_TRACE: usize = 15;

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// States of disks, each sound.
    pub states: usize,
    /// Operations that they were cut out of.
    pub operations: usize,
}

/// Checks as much as `plan` says. `worker` is a program that is told a directory to watch, a trace to append to and a
/// number of transactions, and calls [`workload::work`] on the database there.
///
/// # Errors
/// The first breach, with how to see it again.
pub fn run(worker: &mut dyn FnMut() -> Command, plan: Plan) -> Result<Seen, Error> {
    let scratch = tempfile::tempdir()?;
    let mut seen = Seen::default();
    let mut chance = Random::new(plan.seed);
    let mut start: Option<(PathBuf, Acknowledged)> = None;
    for recording in 0.. {
        let left = plan.states - seen.states;
        if left == 0 {
            break;
        }
        let (root, acknowledged) = match start.take() {
            Some(start) => start,
            None => (empty(scratch.path().join(format!("root {recording}")))?, Acknowledged::default()),
        };
        // Now and then enough for tables in memory to be flushed and logs to be replaced.
        let transactions = if recording % 8 == 7 { 400 } else { chance.between(5, 50) };
        let trace = scratch.path().join("trace");
        let mut command = worker();
        command.arg(&root).arg(&trace).arg(transactions.to_string());
        let (operations, _) = record(command, &root, &trace, acknowledged.by_thread())?;
        fs::remove_dir_all(&root)?;
        let mut seeds: Vec<u64> = (0..left.min(STATES_OF_A_TRACE)).map(|_| chance.next()).collect();
        seeds.sort_by_key(|seed| place(*seed, &operations));
        let next = chance.choose(&seeds).copied().filter(|_| recording % 3 != 2);
        let mut replay = Replay::new(&operations, plan.lies);
        for seed in seeds {
            replay.advance(place(seed, &operations));
            let state = empty(scratch.path().join("state"))?;
            if let Err(error) = replay.check(seed, &state) {
                return Err(keep(&trace, seed, plan.lies, &error));
            }
            if next == Some(seed) {
                let root = empty(scratch.path().join(format!("root {}", recording + 1)))?;
                replay.disk.cut(&mut Random::new(seed)).store(&root)?;
                start = Some((root, replay.acknowledged.clone()));
            }
            seen.states += 1;
        }
        seen.operations += operations.len();
    }
    Ok(seen)
}

/// Checks again what a run has found.
///
/// # Errors
/// The breach.
pub fn replay(trace: &Path, seed: u64, lies: bool) -> Result<(), Error> {
    let operations = trace::decode(&fs::read(trace)?)?;
    let state = tempfile::tempdir()?;
    let mut replay = Replay::new(&operations, lies);
    replay.advance(place(seed, &operations));
    let result = replay.check(seed, state.path());
    if result.is_err() {
        println!("power cut after operation {} of {}", replay.done, operations.len());
        println!("the disk's state, after the attempt to open it: {}", state.keep().display());
    }
    result
}

/// `directory`, which is empty now.
pub(super) fn empty(directory: PathBuf) -> Result<PathBuf, Error> {
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir(&directory)?;
    Ok(directory)
}

/// Runs `command`, which appends to `trace` what it does in `root`. Answers that, and what the process said.
pub(super) fn record(
    mut command: Command,
    root: &Path,
    trace: &Path,
    acknowledged: &[i64],
) -> Result<(Vec<Operation>, String), Error> {
    let mut before = Vec::new();
    for (thread, n) in (0..).zip(acknowledged) {
        Operation::Acknowledged(thread, *n).encode(&mut before);
    }
    fs::write(trace, before)?;
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Breach(format!("the process that commits: {}: {said}", output.status)));
    }
    let operations = trace::decode(&fs::read(trace)?)?;
    whole(&operations, root)?;
    Ok((operations, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The trace must tell all that was done, or what is made of it proves nothing.
fn whole(operations: &[Operation], root: &Path) -> Result<(), Error> {
    let mut disk = Disk::new();
    operations.iter().for_each(|operation| disk.apply(operation));
    match disk.whole().difference(root)? {
        Some(path) => Err(Error::Breach(format!("the trace does not tell of {}", path.display()))),
        None => Ok(()),
    }
}

/// How many operations take place before the power cut of this seed: at least those that tell what was there before,
/// which end with the first sync of the watched directory.
pub(super) fn place(seed: u64, operations: &[Operation]) -> usize {
    let is_sync = |operation: &Operation| *operation == Operation::SyncDirectory(PathBuf::new());
    let before = operations.iter().position(is_sync).map_or(0, |last| last + 1);
    before + Random::new(!seed).index(operations.len() - before + 1)
}

/// Keeps the trace of a breach, and says how to see it again.
fn keep(trace: &Path, seed: u64, lies: bool, error: &Error) -> Error {
    let kept = std::env::temp_dir().join(format!("fulmar-{seed:016x}.trace"));
    let kept = fs::copy(trace, &kept).map_or_else(|_| trace.into(), |_| kept);
    let lies = if lies { " --lying" } else { "" };
    Error::Breach(format!(
        "state {seed}: {error}\nto see it again: cargo run --release -p fulmar-conformance --bin disk -- \
         replay {} {seed}{lies}",
        kept.display()
    ))
}

pub(super) struct Replay<'a> {
    operations: &'a [Operation],
    done: usize,
    disk: Disk,
    pub(super) acknowledged: Acknowledged,
}

impl<'a> Replay<'a> {
    pub(super) fn new(operations: &'a [Operation], lies: bool) -> Self {
        let disk = if lies { Disk::lying() } else { Disk::new() };
        Self { operations, done: 0, disk, acknowledged: Acknowledged::default() }
    }

    /// Goes on until `place` operations are done.
    pub(super) fn advance(&mut self, place: usize) {
        for operation in &self.operations[self.done..place] {
            self.disk.apply(operation);
            if let Operation::Acknowledged(thread, n) = operation {
                self.acknowledged.note(*thread, *n);
            }
        }
        self.done = place;
    }

    /// Cuts the power now, and checks what is found in `directory`, which is empty.
    pub(super) fn check(&self, seed: u64, directory: &Path) -> Result<(), Error> {
        self.disk.cut(&mut Random::new(seed)).store(directory)?;
        let check = AssertUnwindSafe(|| found(directory, self.acknowledged.by_thread()));
        panic::catch_unwind(check).unwrap_or_else(|_| Err(Error::Breach("panic".into())))
    }
}

/// Opens the database in `directory`, checks it, commits to it, opens it again and checks that.
fn found(directory: &Path, acknowledged: &[i64]) -> Result<(), Error> {
    let name = database::under_test(directory);
    let connection = database::open(&name)?;
    workload::check(&connection, acknowledged)?;
    let mut progress = match workload::progress(&connection)? {
        Some(progress) => progress,
        None => {
            workload::prepare(&connection)?;
            vec![0; usize::try_from(workload::THREADS).unwrap_or(0)]
        }
    };
    if let Some(n) = progress.first_mut() {
        *n += 1;
        workload::commit(&connection, 0, *n)?;
    }
    drop(connection);
    let connection = database::open(&name)?;
    workload::check(&connection, &progress)?;
    match workload::progress(&connection)? {
        Some(reached) if reached == progress => Ok(()),
        reached => Err(Error::Breach(format!("opened again, it has {reached:?}, not {progress:?}"))),
    }
}
