//! One client writes, while leaves are moved, joined and split: nobody changes what it depends on, so it loses no conflict.

use crate::transfers::{close, found_in};
use crate::world::{Defect, Disks, Role, SERVERS, connect, replicas, stir, world};
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_kv::remote::Replication;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, seeds};
use parking_lot::Mutex;
use std::sync::Arc;
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
    sim.host(NodeId(SERVERS), move |port: Port<Role>| {
        let database = connect(port);
        let lost = (0..TRANSACTIONS).find_map(|_| transact(&database, &written, &mut random).err());
        *told.lock() = lost.map_or(Ok(()), |error| Err(error.to_string()));
    });
    stir(&mut sim, trees.clone(), Duration::from_secs(10));
    close(&mut sim, &trees)?;
    let outcome = outcome.lock();
    outcome.clone()
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
