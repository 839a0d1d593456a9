//! Clients read and write registers in several shards, servers and clients crash: what they saw is judged by the
//! specification of snapshot isolation.

use crate::transfers::{close, found_in};
use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, Role, connect, replicas, replicas_on, servers_of, strike, strike_disks,
    syncs_fail, world,
};
use fulmar_cluster::Replication;
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_history::isolation::{self, Isolation, Operation, Order, Outcome, Transaction};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, Sim, seeds};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const CLIENTS: u32 = 4;
const TRANSACTIONS: u64 = 25;
const REGISTERS: u64 = 12;
/// More bytes than an operation among replicas has.
const LARGE: usize = (1 << 20) + 1;

/// Long, so that a few registers fill a leaf.
fn key(register: u64) -> Vec<u8> {
    [&register.to_be_bytes()[..], &[b'x'; 2000]].concat()
}

#[derive(Default)]
struct History {
    transactions: Vec<Transaction>,
    /// Numbers what begins and ends, in the order in which it does.
    moment: u64,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }
}

struct Client {
    name: u64,
    database: Database,
    trees: Vec<Tree>,
    defect: Defect,
    /// Whether it changes much at once now and then, and does not ask for syncs: what is acknowledged stays nevertheless.
    is_varied: bool,
    disks_fail: bool,
    random: Random,
    history: Arc<Mutex<History>>,
}

/// Why a client goes on, or ends.
enum Ended {
    Aborted,
    Unknown,
    Crashed,
}

impl Client {
    fn tree(&self, register: u64) -> Tree {
        self.trees[usize::try_from(register).unwrap() % self.trees.len()]
    }

    /// Writes of this many of a client's transactions; each value is written once.
    fn value(&self, transaction: u64, place: u64) -> u64 {
        (self.name << 32) + (transaction << 8) + place
    }

    fn run(mut self) {
        for number in 0..TRANSACTIONS {
            let begun = self.history.lock().tick();
            let mut done = Transaction::new(self.name, Outcome::Unknown, Vec::new());
            let ended = self.transact(number, &mut done);
            let mut history = self.history.lock();
            // Whatever becomes of one that is unknown may come later.
            let over = history.tick();
            match ended {
                Ok(at) => {
                    (done.outcome, done.commit) = (Outcome::Committed, at);
                    done.interval = Some((begun, over));
                }
                Err(Ended::Aborted) => done.outcome = Outcome::Aborted,
                Err(Ended::Unknown | Ended::Crashed) => {}
            }
            history.transactions.push(done);
            if matches!(ended, Err(Ended::Crashed)) {
                return;
            }
        }
    }

    /// When it was committed; nothing, if it only read.
    fn transact(&mut self, number: u64, done: &mut Transaction) -> Result<Option<u64>, Ended> {
        let reading = |error| match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotConnected => Ended::Crashed,
            Error::Conflict | Error::SnapshotGone | Error::Io { .. } => Ended::Aborted,
            error => panic!("{error}"),
        };
        let mut transaction = self.database.begin().map_err(reading)?;
        let operations = 1 + self.random.below(5);
        let may_be_only = (operations == 1 || self.defect == Defect::OnlyReads) && self.random.one_in(2);
        for place in 0..operations {
            let register = self.random.below(REGISTERS);
            let tree = self.tree(register);
            if self.random.one_in(2) {
                let found = if may_be_only {
                    transaction.get_only(tree, &key(register))
                } else {
                    transaction.get(tree, &key(register))
                };
                let found = found.map_err(reading)?;
                let value = found.map(|value| u64::from_be_bytes(value[..8].try_into().unwrap()));
                done.operations.push(Operation::Read(register, value));
            } else {
                let value = self.value(number, place);
                let mut bytes = value.to_be_bytes().to_vec();
                if self.is_varied && self.random.one_in(40) {
                    bytes.resize(LARGE, 0);
                }
                transaction.put(tree, &key(register), &bytes).map_err(reading)?;
                done.operations.push(Operation::Write(register, value));
            }
        }
        // Who has read nothing, or one register only, needs none; it would be a newer one than that was read from.
        let snapshot = match transaction.known_snapshot() {
            None if may_be_only || self.random.one_in(2) => None,
            _ => Some(transaction.snapshot().map_err(reading)?),
        };
        done.snapshot = snapshot.map(|at| at.0);
        let is_changed = transaction.is_changed();
        let is_synced = !self.is_varied || self.random.one_in(2);
        match transaction.commit(if is_synced { Durability::Synced } else { Durability::Written }) {
            Ok(at) => Ok(is_changed.then_some(at.0)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotConnected => {
                Err(Ended::Crashed)
            }
            // It has not taken place.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull => {
                Err(Ended::Aborted)
            }
            Err(Error::Io { source, .. }) => {
                // That nobody answers in time is nobody's fault; but whoever answers knows, unless what it knew was not synced.
                assert!(self.disks_fail || source.kind() != io::ErrorKind::ConnectionReset, "{source}");
                Err(Ended::Unknown)
            }
            Err(Error::Conflict | Error::SnapshotGone) => Err(Ended::Aborted),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A client crashes, and after a while the servers hear of it.
fn crash_client(sim: &mut Sim<Role>, client: NodeId, noticed: Duration) {
    sim.crash(client);
    sim.after(noticed, move |sim| {
        for server in servers_of(sim).into_iter().filter(|server| sim.is_up(*server)).collect::<Vec<_>>() {
            sim.disconnect(server, client);
        }
    });
}

/// A client crashes in a while.
pub(crate) fn doom(sim: &mut Sim<Role>, client: NodeId) {
    let after = Duration::from_micros(1_000 + sim.random().below(500_000));
    let noticed = Duration::from_micros(100 + sim.random().below(2_000_000));
    sim.after(after, move |sim| crash_client(sim, client, noticed));
}

/// Tries so many transactions, of which each says what is wrong in what it sees, until one finds something or the client has crashed.
pub(crate) fn judge_each(
    count: u64,
    mut transact: impl FnMut() -> Result<Option<String>, Error>,
) -> Result<(), String> {
    for _ in 0..count {
        match transact() {
            Ok(None) | Err(Error::Conflict | Error::SnapshotGone) => {}
            Ok(Some(problem)) => return Err(problem),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotConnected => return Ok(()),
            Err(Error::Io { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn run(seed: Seed, defect: Defect, replication: Replication) -> Result<(), String> {
    let disks = Disks::hurried();
    let (disks_fail, number) = (syncs_fail(&seed, replication), seed.number);
    let is_varied = number % 2 == 0;
    let mut sim = world(seed, &disks, CLIENTS, defect, replication);
    let trees = found_in(&mut sim);
    let history = Arc::new(Mutex::new(History::default()));
    for client in 0..CLIENTS {
        let (trees, history, random) = (trees.clone(), Arc::clone(&history), sim.random().fork());
        let name = u64::from(client);
        sim.host(NodeId(CLIENTS_BEGIN + client), move |port: Port<Role>| {
            let database = connect(port);
            Client { name, database, trees, defect, is_varied, disks_fail, random, history }.run();
        });
    }
    strike(&mut sim, number, &trees, CLIENTS);
    if disks_fail {
        strike_disks(&mut sim, &disks);
    }
    let doomed: BTreeSet<u64> =
        (0..sim.random().below(3)).map(|_| sim.random().below(CLIENTS.into())).collect();
    for client in doomed {
        let client = NodeId(CLIENTS_BEGIN + u32::try_from(client).unwrap());
        doom(&mut sim, client);
    }
    sim.after(Duration::from_secs(5), |sim| sim.heal(servers_of(sim)));
    close(&mut sim, &trees)?;
    let violations = isolation::check(&history.lock().transactions, Isolation::Snapshot, Order::RealTime);
    violations.first().map_or(Ok(()), |first| Err(first.to_string()))
}

#[test]
fn what_clients_see_is_snapshot_isolation() {
    seeds("what_clients_see_is_snapshot_isolation", 0..200, |seed| {
        run(seed, Defect::Nothing, Replication::default())
    });
}

/// Who had led before, and did not know that another led, said of a commit that it was asked for again that its leaf was elsewhere. The
/// next leader had carried it out.
#[test]
fn who_leads_no_more_denies_nothing() {
    let outcome = fulmar_sim::check("who_leads_no_more_denies_nothing", 403..404, |seed| {
        let replication = replicas(&seed);
        run(seed, Defect::Nothing, replication)
    });
    outcome.expect("the seed that found it");
}

/// A server that began anew beside a full disk had no room to open the shard, and said so of a commit that it had carried out
/// before, when it was asked for that again: to the client it had not taken place.
#[test]
fn who_has_no_room_denies_nothing() {
    let outcome = fulmar_sim::check("who_has_no_room_denies_nothing", 1421..1422, |seed| {
        run(seed, Defect::Nothing, Replication::default())
    });
    outcome.expect("the seed that found it");
}

#[test]
fn what_clients_of_replicas_see_is_snapshot_isolation() {
    seeds("what_clients_of_replicas_see_is_snapshot_isolation", 0..150, |seed| {
        let replication = replicas(&seed);
        run(seed, Defect::Nothing, replication)
    });
}

/// Two of five may fail.
#[test]
fn what_clients_of_five_replicas_see_is_snapshot_isolation() {
    seeds("what_clients_of_five_replicas_see_is_snapshot_isolation", 0..40, |seed| {
        let replication = replicas_on(5, &seed);
        run(seed, Defect::Nothing, replication)
    });
}

/// Each of these is wrong in a way that the check must find.
#[test]
fn defects_are_found() {
    let defects = [
        Defect::NoFences,
        Defect::LostRecords,
        Defect::LateTimestamp,
        Defect::FastClock,
        Defect::OnlyReads,
        Defect::Eager,
    ];
    for defect in defects {
        let found = (0..200).any(|seed| {
            let once = |seed| run(seed, defect, Replication::default());
            fulmar_sim::check("defect", seed..seed + 1, once).is_err()
        });
        assert!(found, "{defect:?} is not found");
    }
}
