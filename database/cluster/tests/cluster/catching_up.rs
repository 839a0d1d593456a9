//! A replica that has missed what the others do not keep, while they go on without a pause.

use crate::world::{CLIENTS_BEGIN, Defect, Disks, MANAGER, Role, SERVERS, connect, replicas, servers, world};
use fulmar_cluster::Message;
use fulmar_dbt::{Durability, Tree};
use fulmar_kv::Error;
use fulmar_node::NodeId;
use fulmar_sim::{Delay, Port, Seed, Sim, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// So many rows of so many bytes, each of which is copied alone.
const ROWS: u64 = 20;
const BYTES: usize = 1 << 20;
/// Two checkpoints of the servers': further than that nobody's log reaches back.
const KEPT: u64 = 2_000;

/// Writes what is to be copied; then, in another tree of the same shard, one small row after the other, as long as it may.
fn write(port: Port<Role>, (written, is_over): (&AtomicU64, &AtomicBool)) -> Result<(), Error> {
    let database = connect(port);
    let plant = || {
        let mut transaction = database.begin()?;
        let tree = transaction.create_tree()?;
        transaction.commit(Durability::Synced)?;
        Ok::<Tree, Error>(tree)
    };
    let large = plant()?;
    let mut small = plant()?;
    while small.0 >> 22 != large.0 >> 22 {
        small = plant()?;
    }
    for row in 0..ROWS {
        let mut transaction = database.begin()?;
        transaction.put(large, &row.to_be_bytes(), &vec![1; BYTES])?;
        transaction.commit(Durability::Synced)?;
    }
    while !is_over.load(Relaxed) {
        let mut transaction = database.begin()?;
        let row = written.load(Relaxed) % 100;
        transaction.put(small, &row.to_be_bytes(), b"small")?;
        match transaction.commit(Durability::Synced) {
            Ok(_) => written.fetch_add(1, Relaxed),
            Err(Error::Conflict | Error::SnapshotGone) => continue,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

/// A server is away for a while, and comes back with its disk or without. To write down what it needs takes it longer than the
/// logs of the others reach back.
fn catch_up(seed: Seed) -> Result<(), String> {
    let (replication, is_wiped) = (replicas(&seed), seed.number % 2 == 1);
    let disks = Disks::default();
    let mut sim = world(seed, &disks, 1, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let quick = Delay::Fixed(Duration::from_micros(20));
    sim.network.link.latency = quick;
    servers().for_each(|server| sim.set_sync(server, quick));
    let late = NodeId(SERVERS - 1);
    let (written, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let shared = (Arc::clone(&written), Arc::clone(&is_over));
    sim.host(NodeId(CLIENTS_BEGIN), move |port| write(port, (&shared.0, &shared.1)).expect("servers"));
    let reaches = |count: u64| {
        let written = Arc::clone(&written);
        move |_: &Sim<Role>| written.load(Relaxed) >= count
    };
    if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, reaches(1)) {
        return Err("nothing is written".into());
    }
    sim.crash(late);
    if is_wiped {
        disks.wipe(late);
        sim.replace_disk(late);
    }
    if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, reaches(KEPT + 500)) {
        return Err("they do not go on without it".into());
    }
    sim.set_service_by(late, |message| match message {
        Message::Copied { .. } => Delay::Fixed(Duration::from_millis(100)),
        _ => Delay::Fixed(Duration::ZERO),
    });
    sim.restart(late);
    let holds_all = |sim: &Sim<Role>| match (sim.process(late), sim.process(MANAGER)) {
        (Some(Role::Server(server, ..)), Some(Role::Server(manager, ..))) => {
            server.map().version == manager.map().version && server.behind().is_empty()
        }
        _ => false,
    };
    let before = written.load(Relaxed);
    // And not for a moment only. To copy all of it takes two seconds.
    let comes = (0..4).any(|_| {
        sim.run_until(Duration::from_secs(1), |_, _, _| {}, holds_all);
        sim.run(Duration::from_millis(500), |_, _, _| {});
        holds_all(&sim)
    });
    let meanwhile = written.load(Relaxed) - before;
    is_over.store(true, Relaxed);
    if !comes {
        return Err(format!("it does not catch up while {meanwhile} rows are written"));
    }
    if meanwhile < KEPT { Err(format!("only {meanwhile} rows are written meanwhile")) } else { Ok(()) }
}

#[test]
fn a_replica_catches_up_under_load() {
    seeds("a_replica_catches_up_under_load", 0..3, catch_up);
}
