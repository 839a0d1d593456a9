//! What SQL keeps by reading before it writes: a name is one bird's alone (a unique index), and who has seen a bird that is
//! there has seen it for as long as that note is there (a foreign key). Birds come, go and get other names at several clients at
//! once, while servers and clients crash.

use crate::isolation::{doom, judge_each};
use crate::transfers::{close, found_in};
use crate::world::{CLIENTS_BEGIN, Defect, Disks, Role, connect, servers, strike, world};
use fulmar_cluster::Replication;
use fulmar_dbt::{Cursor, Database, Durability, Error, Seek, Transaction, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, seeds};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const CLIENTS: u32 = 4;
const TRANSACTIONS: u64 = 30;
const BIRDS: u64 = 6;
const NAMES: u64 = 4;
const OBSERVERS: u64 = 5;

/// What a client forgets to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Omission {
    Nothing,
    /// To look whether a name is taken.
    Look,
    /// To keep the bird that it notes down.
    Keep,
}

/// Long, so that a few cells fill a leaf.
fn cell(parts: &[u64]) -> Vec<u8> {
    let numbers = parts.iter().flat_map(|part| part.to_be_bytes());
    numbers.chain([b'x'; 700]).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

#[derive(Clone, Copy)]
struct Tables {
    /// From a bird to its name.
    birds: Tree,
    /// From a name to its bird.
    names: Tree,
    /// Birds and their observers.
    seen: Tree,
}

impl Tables {
    fn read(self, at: &Transaction, tree: Tree, key: &[u64]) -> Result<Option<u64>, Error> {
        Ok(at.get(tree, &cell(key))?.map(|value| number(&value)))
    }

    fn name(self, writer: &mut Transaction, bird: u64, name: u64, omission: Omission) -> Result<(), Error> {
        let is_free = self.read(writer, self.names, &[name])?.is_none();
        if is_free || omission == Omission::Look {
            if let Some(old) = self.read(writer, self.birds, &[bird])? {
                writer.delete(self.names, &cell(&[old]))?;
            }
            writer.put(self.birds, &cell(&[bird]), &name.to_be_bytes())?;
            writer.put(self.names, &cell(&[name]), &bird.to_be_bytes())?;
        }
        Ok(())
    }

    fn note(
        self,
        writer: &mut Transaction,
        bird: u64,
        observer: u64,
        omission: Omission,
    ) -> Result<(), Error> {
        if self.read(writer, self.birds, &[bird])?.is_some() {
            if omission != Omission::Keep {
                writer.touch(self.birds, &cell(&[bird]));
            }
            writer.put(self.seen, &cell(&[bird, observer]), &[])?;
        }
        Ok(())
    }

    fn forget(self, writer: &mut Transaction, bird: u64) -> Result<(), Error> {
        let mut noted = Cursor::new(self.seen);
        let is_noted =
            noted.seek(writer, &bird.to_be_bytes(), Seek::AtOrAfter)? && number(noted.key()) == bird;
        if let Some(name) = self.read(writer, self.birds, &[bird])?
            && !is_noted
        {
            writer.delete(self.birds, &cell(&[bird]))?;
            writer.delete(self.names, &cell(&[name]))?;
        }
        Ok(())
    }

    /// What is wrong in a snapshot.
    fn judge(self, at: &Transaction) -> Result<Option<String>, Error> {
        let all = |tree| -> Result<Vec<(u64, u64)>, Error> {
            let mut cursor = Cursor::new(tree);
            let mut cells = Vec::new();
            let mut more = cursor.first(at)?;
            while more {
                let value = if cursor.value().is_empty() { 0 } else { number(cursor.value()) };
                cells.push((number(cursor.key()), value));
                more = cursor.next(at)?;
            }
            Ok(cells)
        };
        let birds: BTreeMap<u64, u64> = all(self.birds)?.into_iter().collect();
        let names: BTreeMap<u64, u64> =
            all(self.names)?.into_iter().map(|(name, bird)| (bird, name)).collect();
        if birds != names {
            return Ok(Some(format!("names of birds {birds:?}, birds by name {names:?}")));
        }
        let missing = all(self.seen)?.into_iter().find(|(bird, _)| !birds.contains_key(bird));
        Ok(missing.map(|(bird, _)| format!("bird {bird} is noted, and there is none: {birds:?}")))
    }
}

struct Client {
    database: Database,
    tables: Tables,
    omission: Omission,
    random: Random,
}

impl Client {
    /// What was wrong in some snapshot.
    fn run(mut self) -> Result<(), String> {
        judge_each(TRANSACTIONS, || self.transact())
    }

    fn transact(&mut self) -> Result<Option<String>, Error> {
        let mut writer = self.database.begin()?;
        let bird = self.random.below(BIRDS);
        match self.random.below(5) {
            0 => return self.tables.judge(&writer),
            1 => self.tables.forget(&mut writer, bird)?,
            2 => {
                let observer = self.random.below(OBSERVERS);
                self.tables.note(&mut writer, bird, observer, self.omission)?;
            }
            3 => writer.delete(self.tables.seen, &cell(&[bird, self.random.below(OBSERVERS)]))?,
            _ => {
                let name = self.random.below(NAMES);
                self.tables.name(&mut writer, bird, name, self.omission)?;
            }
        }
        let is_synced = self.random.one_in(2);
        writer.commit(if is_synced { Durability::Synced } else { Durability::Written })?;
        Ok(None)
    }
}

fn run(seed: Seed, omission: Omission) -> Result<(), String> {
    let number = seed.number;
    let mut sim = world(seed, &Disks::default(), CLIENTS, Defect::Nothing, Replication::default());
    let trees = found_in(&mut sim);
    let [birds, names, seen] = trees[..] else { panic!("a tree in each of three shards") };
    let tables = Tables { birds, names, seen };
    let problem = Arc::new(Mutex::new(Ok(())));
    for client in 0..CLIENTS {
        let (random, problem) = (sim.random().fork(), Arc::clone(&problem));
        sim.host(NodeId(CLIENTS_BEGIN + client), move |port: Port<Role>| {
            let outcome = Client { database: connect(port), tables, omission, random }.run();
            if outcome.is_err() {
                *problem.lock() = outcome;
            }
        });
    }
    strike(&mut sim, number, &trees, CLIENTS);
    let doomed = NodeId(CLIENTS_BEGIN + u32::try_from(sim.random().below(CLIENTS.into())).unwrap());
    doom(&mut sim, doomed);
    sim.after(Duration::from_secs(5), |sim| sim.heal(servers()));
    close(&mut sim, &trees)?;
    let survivor = (0..CLIENTS).map(|client| NodeId(CLIENTS_BEGIN + client)).find(|client| *client != doomed);
    let last = Arc::clone(&problem);
    sim.host(survivor.unwrap(), move |port: Port<Role>| {
        let found = connect(port).begin().and_then(|at| tables.judge(&at));
        let found = found.map_err(|error| error.to_string()).and_then(|found| found.map_or(Ok(()), Err));
        if found.is_err() {
            *last.lock() = found;
        }
    });
    sim.run_until(Duration::from_secs(300), |_, _, _| {}, |sim| sim.programs_running() == 0);
    let problem = problem.lock();
    problem.clone()
}

#[test]
fn names_are_unique_and_what_is_noted_is_there() {
    seeds("names_are_unique_and_what_is_noted_is_there", 0..150, |seed| run(seed, Omission::Nothing));
}

/// A note was deleted without a sync, on one server; another made durable that its bird was forgotten, as there was no note; and then
/// the power of the first one went. A note without a bird was left.
#[test]
fn nothing_rests_on_what_another_disk_may_lose() {
    let outcome =
        fulmar_sim::check("nothing_rests_on_what_another_disk_may_lose", 810_003..810_004, |seed| {
            run(seed, Omission::Nothing)
        });
    outcome.expect("the seed that found it");
}

/// The check notices clients that do not do what keeps it so.
#[test]
fn omissions_are_found() {
    for omission in [Omission::Look, Omission::Keep] {
        let found = (0..200)
            .any(|seed| fulmar_sim::check("omission", seed..seed + 1, |seed| run(seed, omission)).is_err());
        assert!(found, "{omission:?} is not noticed");
    }
}
