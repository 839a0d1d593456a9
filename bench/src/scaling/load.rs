//! What clients do: read and change rows in turns that are fixed beforehand.

use super::cluster::{Line, Role, connect};
use super::{Error, Spread};
use crate::ycsb::{Chooser, Distribution, Operation, Values, Workload};
use fulmar_dbt::{Database, Durability, Error as Failure, Store, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{Random, Time};
use fulmar_sim::Port;
use hdrhistogram::Histogram;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a value.
const VALUE_BYTES: usize = 64;
/// Rows in each table.
const ROWS: u64 = 1_000;
/// Before it has a tree in each shard, a database has so many times as many trees, at most.
const TREES: u64 = 20;
/// So long after each other clients begin.
const STAGGER: Duration = Duration::from_micros(20);

/// Where rows are: in one table on each server that has a part of the database.
pub(super) struct Tables(Vec<Tree>);

impl Tables {
    /// Makes the tables, each where the database puts it, until there is one in each shard, and the rows.
    fn make(database: &Database) -> Result<Self, Failure> {
        let shards = database.site().shards()?.founded;
        let mut trees = Vec::new();
        let mut taken = BTreeSet::new();
        for _ in 0..TREES * u64::from(shards) {
            let mut maker = database.begin()?;
            let tree = maker.create_tree()?;
            maker.commit(Durability::Written)?;
            if taken.insert(tree.root().shard()) {
                trees.push(tree);
            }
            if taken.len() == usize::from(shards) {
                break;
            }
        }
        let values = Values::new(VALUE_BYTES);
        let mut random = Random::new(0);
        for tree in &trees {
            let mut loader = database.begin()?;
            for row in 0..ROWS {
                loader.put(*tree, &row.to_be_bytes(), values.any(&mut random).as_bytes())?;
            }
            loader.commit(Durability::Written)?;
        }
        Ok(Self(trees))
    }

    fn records(&self) -> u64 {
        self.0.len() as u64 * ROWS
    }

    fn place(&self, record: u64) -> (Tree, [u8; 8]) {
        let tables = self.0.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of tables")]
        let tree = self.0[(record % tables) as usize];
        (tree, (record / tables).to_be_bytes())
    }

    /// A record of each table.
    fn samples(&self) -> impl Iterator<Item = u64> + use<> {
        0..self.0.len() as u64
    }
}

/// Makes what all clients use, as a program.
pub(super) fn load(port: Port<Role>, made: &Mutex<Option<Result<Tables, Failure>>>) {
    let database = connect(&Arc::new(Mutex::new(port)));
    *made.lock() = Some(Tables::make(&database));
}

/// A time in which some clients work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) spread: Spread,
    pub(super) clients: u32,
    pub(super) begin: Time,
    /// What ends from then on, and until the turn ends, is counted.
    pub(super) counted: Time,
    pub(super) end: Time,
}

/// What came of a turn.
pub(crate) struct Outcome {
    /// Nanoseconds an operation.
    pub(crate) latencies: Histogram<u64>,
    /// How often a change met a conflict and was made anew.
    pub(crate) repeated: u64,
    pub(crate) failed: u64,
    pub(crate) failure: Option<String>,
}

impl Outcome {
    pub(crate) fn new() -> Self {
        // Three digits, up to ten seconds.
        let latencies = Histogram::new_with_max(10_000_000_000, 3).expect("bounds that there are");
        Self { latencies, repeated: 0, failed: 0, failure: None }
    }

    /// An operation has come to its end, after so long.
    pub(crate) fn note(&mut self, done: Result<(), Failure>, taken: Duration) {
        match done {
            Ok(()) => {
                self.latencies.saturating_record(u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX));
            }
            Err(error) => {
                self.failed += 1;
                self.failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// What all clients share.
pub(super) struct Plan {
    pub(super) tables: Tables,
    pub(super) turns: Vec<Turn>,
    pub(super) outcomes: Mutex<Vec<Outcome>>,
    pub(super) seed: u64,
}

/// One client, as a program.
pub(super) fn work(port: Port<Role>, number: u32, plan: &Plan) {
    let line: Line = Arc::new(Mutex::new(port));
    let worker = Worker {
        number,
        random: Random::new(plan.seed << 32 | u64::from(number)),
        database: connect(&line),
        line,
        values: Values::new(VALUE_BYTES),
        plan,
    };
    if let Err(error) = worker.work() {
        let mut outcomes = plan.outcomes.lock();
        if let Some(first) = outcomes.first_mut() {
            first.failed += 1;
            first.failure.get_or_insert_with(|| error.to_string());
        }
    }
}

struct Worker<'p> {
    number: u32,
    random: Random,
    database: Database,
    line: Line,
    values: Values,
    plan: &'p Plan,
}

impl Worker<'_> {
    fn work(mut self) -> Result<(), Error> {
        self.wait(STAGGER * self.number)?;
        // From now on it knows the inner nodes.
        for record in self.plan.tables.samples() {
            self.operate(Operation::Read, record).map_err(Error::new)?;
        }
        for (place, turn) in self.plan.turns.iter().enumerate() {
            if self.number >= turn.clients {
                continue;
            }
            let now = self.now();
            if now > turn.begin {
                return Err(Error::new("clients take too long to begin"));
            }
            self.wait(turn.begin.since(now))?;
            self.take(place, turn);
        }
        Ok(())
    }

    fn take(&mut self, place: usize, turn: &Turn) {
        let mut chooser = turn.spread.distribution().map(|d| Chooser::new(d, self.plan.tables.records()));
        let mut begun = self.now();
        while begun < turn.end {
            let operation = Workload::B.next(&mut self.random);
            let record = chooser
                .as_mut()
                .map_or(0, |chooser| chooser.choose(&mut self.random, self.plan.tables.records()));
            let mut done = self.operate(operation, record);
            while matches!(done, Err(Failure::Conflict)) && self.now() < turn.end {
                self.count(place, turn, |outcome| outcome.repeated += 1);
                done = self.operate(operation, record);
            }
            let ended = self.now();
            self.count(place, turn, |outcome| outcome.note(done, ended.since(begun)));
            begun = ended;
        }
    }

    /// Takes down what happens now, if it is counted.
    fn count(&self, place: usize, turn: &Turn, note: impl FnOnce(&mut Outcome)) {
        if (turn.counted..turn.end).contains(&self.now()) {
            note(&mut self.plan.outcomes.lock()[place]);
        }
    }

    /// One operation, as a statement of SQL on a server does it.
    fn operate(&mut self, operation: Operation, record: u64) -> Result<(), Failure> {
        let (tree, key) = self.plan.tables.place(record);
        if operation == Operation::Read {
            let found = self.database.begin()?.get_only(tree, &key)?;
            return found.map(|_| ()).ok_or(Failure::Unexpected);
        }
        let mut writer = self.database.begin()?;
        writer.assume(tree, &key);
        writer.put(tree, &key, self.values.any(&mut self.random).as_bytes())?;
        writer.commit(Durability::Written).map(|_| ())
    }

    fn now(&self) -> Time {
        self.line.lock().now()
    }

    fn wait(&self, span: Duration) -> Result<(), Error> {
        self.line.lock().sleep(span).map_err(Error::new)
    }
}

impl Spread {
    fn distribution(self) -> Option<Distribution> {
        match self {
            Self::Uniform => Some(Distribution::Uniform),
            Self::Zipfian => Some(Distribution::Zipfian),
            Self::HotRow => None,
        }
    }
}
