//! Clients add rows of growing numbers to one tree: they change nothing that another depends on, so none loses a conflict.

use crate::transfers::close;
use crate::world::{CLIENTS_BEGIN, Defect, Disks, Role, connect, plant, world};
use fulmar_cluster::Replication;
use fulmar_dbt::{Cursor, Database, Durability, Error, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, seeds};
use std::sync::Arc;

const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 40;

/// Rows are added, each with a number that is picked as an INSERT picks a rowid; now and then that is given up.
fn append(database: &Database, tree: Tree, random: &mut Random) -> Result<(), Error> {
    let mut transaction = database.begin()?;
    for _ in 0..=random.below(4) {
        let mut cursor = Cursor::new(tree);
        let last = cursor.last(&transaction)?.then(|| cursor.key().try_into().map(i64::from_be_bytes));
        let next = last.transpose().expect("keys are numbers").map_or(1, |last| last + 1);
        let number = transaction.pick(tree, next)?.expect("servers pick");
        transaction.put(tree, &number.to_be_bytes(), &[7; 100])?;
    }
    if random.one_in(5) {
        return Ok(());
    }
    transaction.commit(Durability::Synced).map(|_| ())
}

fn run(seed: Seed) -> Result<(), String> {
    let mut sim = world(seed, &Disks::default(), CLIENTS, Defect::Nothing, Replication::default());
    let tree = plant(&mut sim, |_, _| {});
    let outcome = Arc::new(Mutex::new(Ok(())));
    for client in 0..CLIENTS {
        let (mut random, told) = (sim.random().fork(), Arc::clone(&outcome));
        sim.host(NodeId(CLIENTS_BEGIN + client), move |port: Port<Role>| {
            let database = connect(port);
            if let Some(error) = (0..TRANSACTIONS).find_map(|_| append(&database, tree, &mut random).err()) {
                *told.lock() = Err(error.to_string());
            }
        });
    }
    close(&mut sim, &[tree])?;
    let outcome = outcome.lock();
    outcome.clone()
}

#[test]
fn who_appends_beside_others_loses_no_conflict() {
    seeds("who_appends_beside_others_loses_no_conflict", 0..100, run);
}
