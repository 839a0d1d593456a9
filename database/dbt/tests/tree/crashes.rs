//! Random transactions on a disk that fails and loses power, against an oracle that knows every state that may be
//! found afterwards.
//!
//! A failing seed is reported; `FULMAR_SEED=n` runs it alone, `FULMAR_SEEDS=n` runs more of them.

use crate::disk::{Breach, Disk};
use fulmar_dbt::{Cursor, Database, Durability, Error, Options, Seek, Transaction, Tree};
use fulmar_kv::{ObjectId, linked};
use fulmar_node::Random;
use fulmar_sim::seeds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Every tree with all its keys. `Tree(0)` has a key for each of the others, as a drop by itself shows nowhere.
type State = BTreeMap<Tree, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Where the database is kept between two openings.
enum Store {
    Faulty(Disk),
    Real(PathBuf),
}

impl Store {
    fn open(&self, cache_bytes: u64) -> Result<Database, Error> {
        let options = Options { cache_bytes, ..Options::default() };
        match self {
            Self::Faulty(disk) => Database::on(fulmar_kv::Database::with_engine(
                Path::new("test"),
                Box::new(disk.clone()),
                &options,
            )?),
            Self::Real(path) => Database::open(path, &options),
        }
    }

    fn fail(&self, one_in: u64) {
        if let Self::Faulty(disk) = self {
            disk.fail(one_in);
        }
    }

    fn fail_reads(&self, one_in: u64) {
        if let Self::Faulty(disk) = self {
            disk.fail_reads(one_in);
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self, Self::Faulty(disk) if disk.has_failed())
    }
}

/// What the database may be after a crash.
struct Oracle {
    /// The states that commits left, from the newest synced one on: a loss of power may bring back any of them.
    states: Vec<State>,
    /// What a commit that was not acknowledged would have left.
    possible: Option<State>,
    /// Whether the last crash was no loss of power, but only the end of the process.
    killed: bool,
}

impl Oracle {
    fn newest(&self) -> &State {
        self.states.last().unwrap()
    }

    fn acknowledged(&mut self, state: State, durability: Durability) {
        if durability == Durability::Synced {
            self.states.clear();
        }
        self.states.push(state);
    }
}

struct Run {
    random: Random,
    store: Store,
    oracle: Oracle,
    keys: u64,
    value_bytes: u64,
}

impl Run {
    fn new(seed: u64, store: Store) -> Self {
        let mut random = Random::new(seed);
        let state = State::from([(Tree(0), BTreeMap::new()), (Tree(1), BTreeMap::new())]);
        Self {
            keys: 1 << random.below(11),
            value_bytes: 1 << random.below(12),
            random,
            store,
            oracle: Oracle { states: vec![state], possible: None, killed: true },
        }
    }

    /// Several lives of the database, each ended by a crash or a shutdown.
    fn lives(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            // A start writes too, but only what is missing; that it succeeds keeps the oracle simple.
            self.store.fail(0);
            let cache_bytes = if self.random.one_in(2) { 1 << 14 } else { 64 << 20 };
            let database = self.store.open(cache_bytes).map_err(|e| format!("does not open: {e}"))?;
            self.recovered(&database)?;
            let one_in = if self.random.one_in(3) { 0 } else { 1 << self.random.below(8) };
            self.store.fail(one_in);
            let commits = self.random.below(40);
            self.life(&database, commits)?;
            drop(database);
            self.crash();
        }
        Ok(())
    }

    fn crash(&mut self) {
        let Store::Faulty(disk) = &self.store else { return };
        if self.random.one_in(3) {
            disk.kill();
            self.oracle.killed = true;
        } else {
            disk.lose_power();
            self.oracle.killed = false;
        }
    }

    fn recovered(&mut self, database: &Database) -> Result<(), String> {
        let reader = database.begin().unwrap();
        let oracle = &mut self.oracle;
        let found = if oracle.possible.as_ref().is_some_and(|state| shows(&reader, state).is_ok()) {
            oracle.states.extend(oracle.possible.take());
            oracle.states.len() - 1
        } else {
            // What was written survives the end of the process, all of it.
            let first = if oracle.killed { oracle.states.len() - 1 } else { 0 };
            let fits = |n: &usize| shows(&reader, &oracle.states[*n]).is_ok();
            let Some(found) = (first..oracle.states.len()).rev().find(fits) else {
                let why = shows(&reader, oracle.newest());
                return Err(format!("none of {} states was found: {why:?}", oracle.states.len() - first));
            };
            found
        };
        oracle.possible = None;
        oracle.states.truncate(found + 1);
        if !oracle.killed {
            // What survived one loss of power survives the next.
            oracle.states.drain(..found);
        }
        sound(&reader, oracle.newest())?;
        if let Store::Faulty(disk) = &self.store {
            without_leaks(disk, &reader, oracle.newest())?;
        }
        Ok(())
    }

    fn life(&mut self, database: &Database, commits: u64) -> Result<(), String> {
        let mut reader = (database.begin().unwrap(), self.oracle.newest().clone());
        for _ in 0..commits {
            let mut writer = database.begin().unwrap();
            let mut state = self.oracle.newest().clone();
            for _ in 0..=self.random.below(8) {
                self.change(&mut writer, &mut state).map_err(|e| e.to_string())?;
            }
            // A transaction that changes nothing has nothing to sync.
            let is_synced = writer.is_changed() && self.random.one_in(2);
            let durability = if is_synced { Durability::Synced } else { Durability::Written };
            self.store.fail_reads(if self.random.one_in(3) { 1 << self.random.below(6) } else { 0 });
            let committed = writer.commit(durability);
            self.store.fail_reads(0);
            match committed {
                Ok(_) => self.oracle.acknowledged(state, durability),
                // It could not be read what to write.
                Err(Error::Io { .. }) if !self.store.has_failed() => {}
                Err(Error::Io { .. }) => {
                    self.oracle.possible = Some(state);
                    self.latched(database)?;
                    break;
                }
                Err(error) => return Err(format!("a commit failed: {error}")),
            }
            if self.random.one_in(10) {
                shows(&reader.0, &reader.1)?;
                reader = (database.begin().unwrap(), self.oracle.newest().clone());
            }
        }
        shows(&reader.0, &reader.1)
    }

    /// After a failed commit others fail, and readers see what was acknowledged.
    fn latched(&mut self, database: &Database) -> Result<(), String> {
        let mut writer = database.begin().unwrap();
        writer.put(Tree(1), b"latched", b"").map_err(|e| e.to_string())?;
        match writer.commit(Durability::Written) {
            Err(Error::Io { .. }) => {}
            other => return Err(format!("a commit after a failed one gave {other:?}")),
        }
        shows(&database.begin().unwrap(), self.oracle.newest())
    }

    fn change(&mut self, writer: &mut Transaction, state: &mut State) -> Result<(), Error> {
        let random = &mut self.random;
        let trees: Vec<_> = state.keys().copied().collect();
        let tree = trees[1 + random.index(trees.len() - 1)];
        let key = random.below(self.keys).to_be_bytes().to_vec();
        let map = state.get_mut(&tree).unwrap();
        match random.below(20) {
            0..10 => {
                let length = usize::try_from(random.below(self.value_bytes)).unwrap();
                let value = vec![random.next().to_be_bytes()[0]; length];
                writer.put(tree, &key, &value)?;
                map.insert(key, value);
            }
            10..13 => {
                writer.delete(tree, &key)?;
                map.remove(&key);
            }
            13 | 14 => {
                for i in 0..random.below(400) {
                    let key = [&key[..], &i.to_be_bytes()].concat();
                    writer.put(tree, &key, &key)?;
                    map.insert(key.clone(), key);
                }
            }
            15..17 => {
                let high = random.below(self.keys).to_be_bytes().to_vec();
                writer.delete_range(tree, Bound::Included(&key), Bound::Excluded(&high))?;
                map.retain(|k, _| *k < key || *k >= high);
            }
            17 if trees.len() < 6 => {
                let tree = writer.create_tree()?;
                writer.put(Tree(0), &tree.0.to_be_bytes(), &[])?;
                state.insert(tree, BTreeMap::new());
                state.get_mut(&Tree(0)).unwrap().insert(tree.0.to_be_bytes().to_vec(), Vec::new());
            }
            18 if tree != Tree(1) => {
                writer.drop_tree(tree)?;
                writer.delete(Tree(0), &tree.0.to_be_bytes())?;
                state.remove(&tree);
                state.get_mut(&Tree(0)).unwrap().remove(&tree.0.to_be_bytes()[..]);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether the transaction sees exactly this state.
fn shows(reader: &Transaction, state: &State) -> Result<(), String> {
    for (tree, map) in state {
        let mut cursor = Cursor::new(*tree);
        let mut more = cursor.first(reader).map_err(|e| e.to_string())?;
        for (key, value) in map {
            if !more || (cursor.key(), cursor.value()) != (key, value) {
                return Err(format!("tree {}: {:02x?} instead of {key:02x?}", tree.0, cursor.key()));
            }
            more = cursor.next(reader).map_err(|e| e.to_string())?;
        }
        let is_ours = *tree != Tree(0) || cursor.key().first() != Some(&0xff);
        if more && is_ours {
            return Err(format!("tree {}: {:02x?} too many", tree.0, cursor.key()));
        }
    }
    Ok(())
}

fn sound(reader: &Transaction, state: &State) -> Result<(), String> {
    for tree in state.keys() {
        let problems = reader.check(*tree).map_err(|e| e.to_string())?;
        if !problems.is_empty() {
            return Err(problems.join("\n"));
        }
    }
    Ok(())
}

/// Whether the disk holds nodes of these trees and of dropped ones, and no others.
fn without_leaks(disk: &Disk, reader: &Transaction, state: &State) -> Result<(), String> {
    let nodes =
        fulmar_kv::Database::with_engine(Path::new("test"), Box::new(disk.clone()), &Options::default());
    let nodes = nodes.map_err(|e| e.to_string())?;
    let mut left: Vec<_> = state.keys().map(|tree| ObjectId(tree.0.into())).collect();
    let mut cursor = Cursor::new(Tree(0));
    let mut more = cursor.seek(reader, b"\xffdropped", Seek::After).map_err(|e| e.to_string())?;
    while more && let Some(tree) = cursor.key().strip_prefix(b"\xffdropped") {
        left.push(ObjectId(u32::from_be_bytes(tree.try_into().unwrap()).into()));
        more = cursor.next(reader).map_err(|e| e.to_string())?;
    }
    let mut reachable = BTreeSet::new();
    while let Some(id) = left.pop() {
        reachable.insert(id);
        let node = nodes.read(id).map_err(|e| e.to_string())?;
        if let Some(node) = node.filter(|node| node.level() > 0) {
            left.extend((0..node.slots()).filter_map(|slot| linked(node.value(slot))));
        }
    }
    match disk.objects().difference(&reachable).next() {
        Some(leaked) => Err(format!("object {} belongs to no tree", leaked.0)),
        None => Ok(()),
    }
}

fn run(seed: u64, breach: Option<Breach>) -> Result<(), String> {
    Run::new(seed, Store::Faulty(Disk::new(seed, breach))).lives(6)
}

#[test]
fn crashes_lose_no_acknowledged_commit_and_show_no_half_of_one() {
    let name = "crashes_lose_no_acknowledged_commit_and_show_no_half_of_one";
    seeds(name, 0..120, |seed| run(seed.number, None));
}

#[test]
fn a_disk_that_forgets_a_synced_batch_is_noticed() {
    assert!((0..20).any(|seed| shows_another_state(seed, Breach::Forgets)));
}

#[test]
fn a_disk_that_loses_a_written_batch_is_noticed() {
    assert!((0..20).any(|seed| shows_another_state(seed, Breach::Loses)));
}

#[test]
fn a_disk_that_tears_a_batch_is_noticed() {
    assert!((0..20).any(|seed| shows_another_state(seed, Breach::Tears)));
}

/// Whether the oracle is what notices the breach.
fn shows_another_state(seed: u64, breach: Breach) -> bool {
    let ended = std::panic::catch_unwind(|| run(seed, Some(breach)));
    matches!(ended, Ok(Err(problem)) if problem.contains("states was found"))
}

#[test]
fn what_is_closed_is_found_again_on_the_real_engine() {
    for seed in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::Real(directory.path().join("database"));
        if let Err(problem) = Run::new(seed, store).lives(4) {
            panic!("seed {seed} fails: {problem}");
        }
    }
}
