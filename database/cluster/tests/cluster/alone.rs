//! One client writes, while leaves are moved, joined and split: nobody changes what it depends on, so it loses no conflict.

use crate::retiring::longest_standstill;
use crate::transfers::{close, found_in};
use crate::world::{CLIENTS_BEGIN, Defect, Disks, Role, SERVERS, connect, replicas, stir, world};
use fulmar_cluster::Replication;
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, Sim, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const TRANSACTIONS: u64 = 60;
const KEYS: u64 = 40;

fn transact(database: &Database, trees: &[Tree], random: &mut Random) -> Result<(), Error> {
    let mut transaction = database.begin()?;
    for _ in 0..=random.below(6) {
        let tree = trees[random.index(trees.len())];
        let key = random.below(KEYS).to_be_bytes();
        if random.one_in(2) {
            transaction.get(tree, &key)?;
        }
        transaction.put(tree, &key, &vec![0; random.index(3_000)])?;
    }
    transaction.commit(Durability::Synced).map(|_| ())
}

fn run(seed: Seed, replication: Replication) -> Result<(), String> {
    let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, replication);
    let trees = found_in(&mut sim);
    let outcome = Arc::new(Mutex::new(Ok(())));
    let (mut random, written, told) = (sim.random().fork(), trees.clone(), Arc::clone(&outcome));
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        let database = connect(port);
        let lost = (0..TRANSACTIONS).find_map(|_| transact(&database, &written, &mut random).err());
        *told.lock() = lost.map_or(Ok(()), |error| Err(error.to_string()));
    });
    stir(&mut sim, trees.clone(), Duration::from_secs(10));
    close(&mut sim, &trees)?;
    let outcome = outcome.lock();
    outcome.clone()
}

/// The longest pause of the writer, while a server is killed, and started again before long.
fn longest_pause(seed: Seed) -> Result<Duration, String> {
    let replication = replicas(&seed);
    let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, replication);
    let trees = found_in(&mut sim);
    let (mut random, written) = (sim.random().fork(), trees.clone());
    let (count, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, ends) = (Arc::clone(&count), Arc::clone(&is_over));
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        let database = connect(port);
        while !ends.load(Relaxed) {
            match transact(&database, &written, &mut random) {
                // It was opened by a server that has begun anew.
                Ok(()) | Err(Error::SnapshotGone) => counted.fetch_add(1, Relaxed),
                Err(error) => panic!("{error}"),
            };
        }
    });
    stir(&mut sim, trees.clone(), Duration::from_secs(10));
    let (killed, begun) =
        (NodeId(u32::try_from(sim.random().below(SERVERS.into())).unwrap()), Duration::from_millis(500));
    let later = begun + Duration::from_micros(sim.random().below(500_000));
    sim.run(later, |_, _, _| {});
    sim.kill(killed);
    let away = Duration::from_micros(sim.random().below(300_000));
    sim.after(away, move |sim| sim.restart(killed));
    let (begin, second) = (sim.now(), Duration::from_secs(1));
    let is_later = |sim: &Sim<Role>| sim.now() >= begin + 3 * second;
    let longest = longest_standstill(&mut sim, 4 * second, || count.load(Relaxed), is_later);
    is_over.store(true, Relaxed);
    close(&mut sim, &trees)?;
    longest.ok_or_else(|| "nothing happens any more".into())
}

/// A leaf that is on its way to a server, or from one, is locked: it is given up when that is gone.
#[test]
fn who_is_killed_while_leaves_move_is_missed_at_once() {
    seeds("who_is_killed_while_leaves_move_is_missed_at_once", 0..30, |seed| {
        let pause = longest_pause(seed)?;
        if pause <= Duration::from_millis(700) { Ok(()) } else { Err(format!("a pause of {pause:?}")) }
    });
}

#[test]
fn who_writes_alone_loses_no_conflict() {
    seeds("who_writes_alone_loses_no_conflict", 0..150, |seed| run(seed, Replication::default()));
}

#[test]
fn who_writes_alone_on_replicas_loses_no_conflict() {
    seeds("who_writes_alone_on_replicas_loses_no_conflict", 0..150, |seed| {
        let replication = replicas(&seed);
        run(seed, replication)
    });
}
