//! Exclusive transactions are alone: between the snapshot of one and its commit nobody else commits, in whichever shard, while
//! servers crash, leaders change and connections break.

use crate::isolation::doom;
use crate::transfers::{close, found_in};
use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, MANAGER, Role, connect_by, replicas, servers, strike, strike_disks,
    syncs_fail, world,
};
use fulmar_cluster::Replication;
use fulmar_dbt::{Database, Durability, Error, Transaction, Tree};
use fulmar_kv::Exclusion;
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, Sim, seeds};
use std::io;
use std::sync::Arc;
use std::time::Duration;

const CLIENTS: u32 = 4;
const TRANSACTIONS: u64 = 40;
/// What a client that nothing is in the way of does until it has been alone once: some ten seconds, as a shard whose disk has failed is
/// opened again up to two seconds after there is room.
const TRIES: u64 = 400;
const REGISTERS: u64 = 12;

/// Long, so that a few registers fill a leaf.
fn key(register: u64) -> Vec<u8> {
    [&register.to_be_bytes()[..], &[b'x'; 2000]].concat()
}

/// A transaction that was committed.
#[derive(Clone, Copy, Debug)]
struct Committed {
    client: u64,
    is_exclusive: bool,
    snapshot: Option<u64>,
    at: u64,
}

/// Whether who begins as the only one commits so, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commits {
    Alone,
    LikeOthers,
}

struct Client {
    name: u64,
    port: Arc<Mutex<Port<Role>>>,
    database: Database,
    trees: Vec<Tree>,
    commits: Commits,
    random: Random,
    committed: Arc<Mutex<Vec<Committed>>>,
}

impl Client {
    /// Commits, now and then, until this is so, or it has crashed.
    fn run(&mut self, is_done: impl Fn(u64, &[Committed]) -> bool) -> Result<(), Error> {
        for number in 0.. {
            match self.transact() {
                Ok(()) | Err(Error::Conflict | Error::SnapshotGone | Error::Excluded) => {}
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotConnected => break,
                Err(Error::Io { .. }) => {}
                Err(error) => return Err(error),
            }
            if is_done(number, &self.committed.lock()) {
                break;
            }
            let pause = Duration::from_micros(self.random.below(100_000));
            if self.random.one_in(2) && self.port.lock().sleep(pause).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn transact(&mut self) -> Result<(), Error> {
        if self.random.one_in(2) {
            return self.change(false);
        }
        let changed = match self.database.exclude(Exclusion::Begin)? {
            true => self.change(true),
            false => return Ok(()),
        };
        let ended = self.database.exclude(Exclusion::End).map(|_| ());
        changed.and(ended)
    }

    fn change(&mut self, is_exclusive: bool) -> Result<(), Error> {
        let mut transaction = self.database.begin()?;
        transaction.set_exclusive(is_exclusive && self.commits == Commits::Alone);
        for _ in 0..self.random.below(3) {
            let register = self.random.below(REGISTERS);
            transaction.get(self.tree(register), &key(register))?;
        }
        for _ in 0..=self.random.below(2) {
            self.write(&mut transaction)?;
        }
        // Others need none, if they have read nothing.
        let snapshot = match is_exclusive {
            true => Some(transaction.snapshot()?),
            false => transaction.known_snapshot(),
        };
        let durability = if self.random.one_in(2) { Durability::Synced } else { Durability::Written };
        let (snapshot, at) = (snapshot.map(|at| at.0), transaction.commit(durability)?.0);
        self.committed.lock().push(Committed { client: self.name, is_exclusive, snapshot, at });
        Ok(())
    }

    fn write(&mut self, transaction: &mut Transaction) -> Result<(), Error> {
        let register = self.random.below(REGISTERS);
        transaction.put(self.tree(register), &key(register), &self.name.to_be_bytes())
    }

    fn tree(&self, register: u64) -> Tree {
        self.trees[usize::try_from(register).unwrap() % self.trees.len()]
    }
}

/// Who has committed beside somebody that was to be alone.
fn intruder(committed: &[Committed]) -> Option<String> {
    let exclusive = committed.iter().filter(|one| one.is_exclusive);
    let mut pairs = exclusive.flat_map(|one| committed.iter().map(move |other| (one, other)));
    let is_between = |at, one: &Committed| one.snapshot.is_some_and(|seen| seen < at) && at < one.at;
    let found = pairs.find(|(one, other)| one.client != other.client && is_between(other.at, one));
    found.map(|(one, other)| format!("{other:?} is beside {one:?}"))
}

fn run(seed: Seed, commits: Commits, replication: Replication) -> Result<(), String> {
    let (disks, number) = (Disks::hurried(), seed.number);
    let disks_fail = syncs_fail(&seed, replication);
    let mut sim = world(seed, &disks, CLIENTS, Defect::Nothing, replication);
    let trees = found_in(&mut sim);
    let committed = Arc::new(Mutex::new(Vec::new()));
    let problem = Arc::new(Mutex::new(Ok(())));
    let client = |sim: &mut Sim<Role>, name: u32| {
        let (trees, random, committed) = (trees.clone(), sim.random().fork(), Arc::clone(&committed));
        move |port: Port<Role>| {
            let port = Arc::new(Mutex::new(port));
            let database = connect_by(&port, MANAGER);
            Client { name: name.into(), port, database, trees, commits, random, committed }
        }
    };
    for name in 0..CLIENTS {
        let (client, problem) = (client(&mut sim, name), Arc::clone(&problem));
        sim.host(NodeId(CLIENTS_BEGIN + name), move |port: Port<Role>| {
            if let Err(error) = client(port).run(|number, _| number == TRANSACTIONS) {
                *problem.lock() = Err(error.to_string());
            }
        });
    }
    strike(&mut sim, number, &trees, CLIENTS);
    if disks_fail {
        strike_disks(&mut sim, &disks);
    }
    let doomed = u32::try_from(sim.random().below(CLIENTS.into())).unwrap();
    doom(&mut sim, NodeId(CLIENTS_BEGIN + doomed));
    sim.after(Duration::from_secs(5), |sim| sim.heal(servers()));
    close(&mut sim, &trees)?;
    problem.lock().clone()?;
    // Nobody is left out for good.
    let before = committed.lock().len();
    let survivor = (0..CLIENTS).find(|name| *name != doomed).unwrap();
    let last = client(&mut sim, survivor);
    sim.host(NodeId(CLIENTS_BEGIN + survivor), move |port: Port<Role>| {
        let is_done =
            |number, all: &[Committed]| number == TRIES || all[before..].iter().any(|one| one.is_exclusive);
        last(port).run(is_done).unwrap();
    });
    sim.run_until(Duration::from_secs(300), |_, _, _| {}, |sim| sim.programs_running() == 0);
    let committed = committed.lock();
    if !committed[before..].iter().any(|one| one.is_exclusive) {
        return Err("nobody else is there, and it cannot be alone".into());
    }
    intruder(&committed).map_or(Ok(()), Err)
}

#[test]
fn exclusive_transactions_are_alone() {
    seeds("exclusive_transactions_are_alone", 0..150, |seed| {
        run(seed, Commits::Alone, Replication::default())
    });
}

#[test]
fn exclusive_transactions_on_replicas_are_alone() {
    seeds("exclusive_transactions_on_replicas_are_alone", 0..100, |seed| {
        let replication = replicas(&seed);
        run(seed, Commits::Alone, replication)
    });
}

/// What was begun as the only one is not committed so if nobody looks.
#[test]
fn who_does_not_look_whether_it_is_alone_is_found() {
    let found = (0..200).any(|seed| {
        let once = |seed| run(seed, Commits::LikeOthers, Replication::default());
        let outcome = fulmar_sim::check("intruder", seed..seed + 1, once);
        outcome.is_err_and(|failure| failure.to_string().contains("is beside"))
    });
    assert!(found, "nobody has come in between");
}
