//! Clients make trees and drop them, each in any group, and write them down in a tree of the first: whoever sees that a tree is
//! written down finds it, and what is in it.

use crate::isolation::crash_client;
use crate::transfers::{check_trees, found};
use crate::world::{Defect, Disks, Role, SERVERS, connect, disturb, replicas, servers, stir, world};
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_kv::remote::Replication;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Faults, Port, Seed, seeds};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
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
        for _ in 0..TRANSACTIONS {
            match self.transact() {
                Ok(None) | Err(Error::Conflict | Error::SnapshotGone) => {}
                Ok(Some(problem)) => return Err(problem),
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotConnected => {
                    return Ok(());
                }
                Err(Error::Io { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
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
        transaction.commit(Durability::Synced)?;
        Ok(None)
    }
}

fn run(seed: Seed, remember: bool, replication: Replication) -> Result<(), String> {
    let mut sim = world(seed, &Disks::default(), CLIENTS, Defect::Nothing, replication);
    let trees = Arc::new(Mutex::new(Vec::new()));
    let founded = Arc::clone(&trees);
    sim.host(NodeId(SERVERS), move |port: Port<Role>| *founded.lock() = found(&connect(port)).unwrap());
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
    let trees = trees.lock().clone();
    let problem = Arc::new(Mutex::new(Ok(())));
    for client in 0..CLIENTS {
        let (random, problem, catalog) = (sim.random().fork(), Arc::clone(&problem), trees[0]);
        sim.host(NodeId(SERVERS + client), move |port: Port<Role>| {
            let remembered = remember.then(BTreeMap::new);
            let outcome = Client { database: connect(port), catalog, remembered, random }.run();
            if outcome.is_err() {
                *problem.lock() = outcome;
            }
        });
    }
    let faults = Faults::random(servers(), sim.random());
    sim.inject(Faults { down: 1, broken_disk: 0, ..faults });
    stir(&mut sim, trees.clone(), Duration::from_secs(4));
    disturb(&mut sim, CLIENTS, Duration::from_secs(4));
    let doomed = NodeId(SERVERS + u32::try_from(sim.random().below(CLIENTS.into())).unwrap());
    let after = Duration::from_micros(1_000 + sim.random().below(500_000));
    let noticed = Duration::from_micros(100 + sim.random().below(2_000_000));
    sim.after(after, move |sim| crash_client(sim, doomed, noticed));
    sim.after(Duration::from_secs(5), |sim| sim.heal(servers()));
    if !sim.run_until(Duration::from_secs(3_000), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("programs wait for ever".into());
    }
    sim.heal(servers());
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| servers().all(|s| sim.process(s).is_some()));
    check_trees(&mut sim, &trees)?;
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
