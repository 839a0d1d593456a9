//! Commits that are too large for one operation of the replicas.

use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, MANAGER, Role, SERVERS, connect_to, encoded, plant, replicas, servers,
    world,
};
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use fulmar_sim::{Port, Seed, seeds};
use std::sync::Arc;
use std::time::Duration;

const ROWS: u64 = 6;
const BYTES: usize = 300 << 10;
const COMMITS: u8 = 4;

/// Every row has the same value in all of it.
fn read(database: &Database, tree: Tree) -> Result<Vec<Option<u8>>, Error> {
    let transaction = database.begin()?;
    let row = |row: u64| {
        let value = transaction.get(tree, &row.to_be_bytes())?;
        Ok(value.map(|value| {
            assert!(value.len() == BYTES && value.iter().all(|byte| *byte == value[0]));
            value[0]
        }))
    };
    (0..ROWS).map(row).collect()
}

/// Writes all rows anew, again and again, each time in one transaction; answers the last value that was committed, and one
/// that may have been since.
fn write(database: &Database, tree: Tree) -> Result<Vec<u8>, Error> {
    let mut last = vec![0];
    for value in 1..=COMMITS {
        loop {
            let mut transaction = database.begin()?;
            for row in 0..ROWS {
                transaction.put(tree, &row.to_be_bytes(), &vec![value; BYTES])?;
            }
            match transaction.commit(Durability::Synced) {
                Ok(_) => break last = vec![value],
                // Nobody can tell whether it has taken place: it is done again.
                Err(Error::Io { .. }) => last.push(value),
                Err(Error::Conflict | Error::SnapshotGone) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(last)
}

/// Leaders crash, and links are cut, in the midst of commits of many parts: each takes place whole or not at all.
fn run(seed: Seed) -> Result<(), String> {
    let replication = replicas(&seed);
    let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    // What is small waits behind what is large, as on a network of a gigabit.
    sim.set_rate(100 << 20, |message| encoded(message).len());
    let tree = plant(&mut sim, |_, _| {});
    let last = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&last);
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        *told.lock() = write(&connect_to(port, MANAGER), tree).expect("servers");
    });
    for _ in 0..4 {
        let pause = Duration::from_micros(sim.random().below(400_000));
        sim.run(pause, |_, _, _| {});
        let server = NodeId(u32::try_from(sim.random().below(SERVERS.into())).expect("few"));
        let lasting = Duration::from_micros(sim.random().below(1_000_000));
        if sim.random().one_in(2) {
            sim.crash(server);
            sim.after(lasting, move |sim| sim.restart(server));
        } else {
            let others: Vec<_> = servers().filter(|other| *other != server).collect();
            let cut = sim.partition([server], others);
            sim.after(lasting, move |sim| sim.mend(cut));
        }
        sim.run(lasting * 2, |_, _, _| {});
    }
    sim.heal(servers());
    if !sim.run_until(Duration::from_secs(300), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("the writer does not end".into());
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&seen);
    sim.host(NodeId(CLIENTS_BEGIN + 1), move |port: Port<Role>| {
        *found.lock() = read(&connect_to(port, MANAGER), tree).expect("servers");
    });
    if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("the reader does not end".into());
    }
    let (seen, last) = (seen.lock().clone(), last.lock().clone());
    let is_whole = seen.iter().all(|value| *value == seen[0]);
    let is_last = seen[0].is_some_and(|value| last.contains(&value));
    if is_whole && is_last { Ok(()) } else { Err(format!("{seen:?} where {last:?} was committed")) }
}

#[test]
fn a_large_commit_takes_place_whole() {
    seeds("a_large_commit_takes_place_whole", 0..9, run);
}
