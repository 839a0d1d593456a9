//! Clients make trees and drop them, each in any shard, and write them down in a tree of the first: whoever sees that a tree is
//! written down finds it, and what is in it.

use crate::isolation::{doom, judge_each};
use crate::transfers::{close, found_in};
use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, Role, connect, disturb, faults, replicas, servers, stir, world,
};
use fulmar_cluster::Replication;
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Seed, seeds};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const CLIENTS: u32 = 3;
const TRANSACTIONS: u64 = 30;
const NAMES: u64 = 4;

struct Client {
    database: Database,
    catalog: Tree,
    /// What it has found there before, if it does not look again.
    remembered: Option<BTreeMap<u64, Vec<u8>>>,
    random: Random,
}

impl Client {
    /// What was wrong in some snapshot.
    fn run(mut self) -> Result<(), String> {
        judge_each(TRANSACTIONS, || self.transact())
    }

    fn transact(&mut self) -> Result<Option<String>, Error> {
        let mut transaction = self.database.begin()?;
        let number = self.random.below(NAMES);
        let name = number.to_be_bytes();
        let mut written = transaction.get(self.catalog, &name)?.map(|tree| tree.to_vec());
        if let Some(remembered) = &mut self.remembered {
            written = remembered.get(&number).cloned().or(written);
            remembered.extend(written.clone().map(|tree| (number, tree)));
        }
        match written {
            None => {
                let tree = transaction.create_tree()?;
                transaction.put(tree, &name, &tree.0.to_be_bytes())?;
                transaction.put(self.catalog, &name, &tree.0.to_be_bytes())?;
            }
            Some(written) => {
                let tree = Tree(u32::from_be_bytes(written[..].try_into().unwrap()));
                if transaction.get(tree, &name)?.as_deref() != Some(&*written) {
                    return Ok(Some(format!("{tree:?} is empty")));
                }
                if self.random.one_in(2) {
                    transaction.drop_tree(tree)?;
                    transaction.delete(self.catalog, &name)?;
                }
            }
        }
        let is_synced = self.random.one_in(2);
        transaction.commit(if is_synced { Durability::Synced } else { Durability::Written })?;
        Ok(None)
    }
}

fn run(seed: Seed, remember: bool, replication: Replication) -> Result<(), String> {
    let number = seed.number;
    let mut sim = world(seed, &Disks::hurried(), CLIENTS, Defect::Nothing, replication);
    let trees = found_in(&mut sim);
    let problem = Arc::new(Mutex::new(Ok(())));
    for client in 0..CLIENTS {
        let (random, problem, catalog) = (sim.random().fork(), Arc::clone(&problem), trees[0]);
        sim.host(NodeId(CLIENTS_BEGIN + client), move |port: Port<Role>| {
            let remembered = remember.then(BTreeMap::new);
            let outcome = Client { database: connect(port), catalog, remembered, random }.run();
            if outcome.is_err() {
                *problem.lock() = outcome;
            }
        });
    }
    let faults = faults(&mut sim, number);
    sim.inject(faults);
    stir(&mut sim, trees.clone(), Duration::from_secs(4));
    disturb(&mut sim, CLIENTS, Duration::from_secs(4));
    let doomed = NodeId(CLIENTS_BEGIN + u32::try_from(sim.random().below(CLIENTS.into())).unwrap());
    doom(&mut sim, doomed);
    sim.after(Duration::from_secs(5), |sim| sim.heal(servers()));
    close(&mut sim, &trees)?;
    let problem = problem.lock();
    problem.clone()
}

#[test]
fn a_tree_is_where_it_is_said_to_be() {
    seeds("a_tree_is_where_it_is_said_to_be", 0..150, |seed| run(seed, false, Replication::default()));
}

#[test]
fn a_tree_on_replicas_is_where_it_is_said_to_be() {
    seeds("a_tree_on_replicas_is_where_it_is_said_to_be", 0..150, |seed| {
        let replication = replicas(&seed);
        run(seed, false, replication)
    });
}

/// Who does not look where a tree is by now looks for trees that were dropped.
#[test]
fn a_tree_that_was_dropped_is_missed() {
    let found = (0..200).any(|seed| {
        let once = |seed| run(seed, true, Replication::default());
        fulmar_sim::check("defect", seed..seed + 1, once).is_err()
    });
    assert!(found, "nobody misses it");
}
