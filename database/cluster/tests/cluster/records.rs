//! The clock and the map: when the disk of the server is full that keeps them alone, and as soon as others may.

use crate::world::{Defect, Disks, LONERS, MANAGER, Role, connect, replicas, servers, world};
use fulmar_cluster::Replication;
use fulmar_dbt::Durability;
use fulmar_node::NodeId;
use fulmar_sim::{Port, Sim, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A database that nobody has used before, which has to be on the map; counts whose are.
fn found_another(sim: &mut Sim<Role>, number: u32, made: &Arc<AtomicUsize>) {
    let (client, made) = (NodeId(LONERS.0 + number), Arc::clone(made));
    sim.add(client);
    sim.host(client, move |port: Port<Role>| {
        let database = connect(port);
        let made_one = || {
            let mut transaction = database.begin()?;
            let tree = transaction.create_tree()?;
            transaction.put(tree, b"bird", b"petrel")?;
            transaction.commit(Durability::Synced)
        };
        while made_one().is_err() {}
        made.fetch_add(1, Relaxed);
    });
}

/// What could not be written down is when there is room again, though nobody has ended the server.
#[test]
fn the_map_changes_again_when_there_is_room() {
    seeds("the_map_changes_again_when_there_is_room", 0..10, |seed| {
        let disks = Disks::of_all();
        let mut sim = world(seed, &disks, 1, Defect::Nothing, Replication::default());
        let made = Arc::new(AtomicUsize::new(0));
        let is_made = |count: usize| {
            let made = Arc::clone(&made);
            move |_: &Sim<Role>| made.load(Relaxed) == count
        };
        found_another(&mut sim, 0, &made);
        if !sim.run_until(Duration::from_secs(10), |_, _, _| {}, is_made(1)) {
            return Err("no database is made".into());
        }
        disks.full(MANAGER).store(true, Relaxed);
        found_another(&mut sim, 1, &made);
        if sim.run_until(Duration::from_secs(3), |_, _, _| {}, is_made(2)) {
            return Err("there is no room, and yet it is made".into());
        }
        let failures = |sim: &Sim<Role>| match sim.process(MANAGER) {
            Some(Role::Server(server, ..)) => server.failures().join("; "),
            _ => "it has ended".into(),
        };
        if !failures(&sim).contains("clock and map cannot be written") {
            return Err(format!("it says {:?}", failures(&sim)));
        }
        disks.full(MANAGER).store(false, Relaxed);
        if !sim.run_until(Duration::from_secs(20), |_, _, _| {}, is_made(2)) {
            return Err("it is never made".into());
        }
        if failures(&sim).is_empty() { Ok(()) } else { Err(failures(&sim)) }
    });
}

/// Who is told that all is well, as by `fulmar status`, may lose the first server at that moment. Clock and map were still about to have
/// replicas, and gone with it.
#[test]
fn a_cluster_that_is_well_outlives_its_first_server() {
    seeds("a_cluster_that_is_well_outlives_its_first_server", 0..60, |seed| {
        let replication = replicas(&seed);
        let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, replication);
        let is_well = |sim: &Sim<Role>| {
            servers().all(|server| match sim.process(server) {
                Some(Role::Server(server, ..)) => server.status().failures.is_empty(),
                _ => false,
            })
        };
        if !sim.run_until(Duration::from_secs(10), |_, _, _| {}, is_well) {
            return Err("it is never well".into());
        }
        sim.crash(MANAGER);
        let goes_on = |sim: &Sim<Role>| {
            servers().any(|server| match sim.process(server) {
                Some(Role::Server(server, ..)) => server.map().manager != MANAGER,
                _ => false,
            })
        };
        if sim.run_until(Duration::from_secs(10), |_, _, _| {}, goes_on) {
            return Ok(());
        }
        Err("nobody keeps the clock and the map any more".into())
    });
}
