//! Who leads a group, and who takes itself for its leader.

use crate::world::{Defect, Disks, LATE, MANAGER, Role, SERVERS, connect, servers, world};
use fulmar_dbt::{Durability, Tree};
use fulmar_kv::remote::{DatabaseNumber, Replication};
use fulmar_kv::{Error, GroupId};
use fulmar_node::NodeId;
use fulmar_sim::{Port, Seed, Sim, check, seeds};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Where its replicas are, but for [`LATE`].
const GROUP: GroupId = GroupId(1);
const OLD: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn serves(sim: &Sim<Role>) -> Option<NodeId> {
    match sim.process(MANAGER) {
        Some(Role::Server(server, _)) => server.map().server(DatabaseNumber(0), GROUP),
        _ => None,
    }
}

/// Runs a program on a client to its end.
fn run(
    sim: &mut Sim<Role>,
    client: u32,
    program: impl FnOnce(Port<Role>) -> Result<(), Error> + Send + 'static,
) -> Result<(), String> {
    sim.host(NodeId(SERVERS + client), move |port| program(port).expect("there are enough servers"));
    let ends = |sim: &Sim<Role>| sim.programs_running() == 0;
    if sim.run_until(Duration::from_secs(60), |_, _, _| {}, ends) {
        Ok(())
    } else {
        Err("a program does not end".into())
    }
}

/// A leader is cut off from the other replicas, but neither from a client nor, later, from the clock.
fn depose(seed: Seed, defect: Defect) -> Result<(), String> {
    let replication = Replication { replicas: 3, ..Replication::default() };
    let mut sim = world(seed, &Disks::default(), 2, defect, replication);
    sim.add(LATE);
    let all_know = |sim: &Sim<Role>| {
        servers().chain([LATE]).all(|server| match sim.process(server) {
            Some(Role::Server(server, _)) => server.map().servers.contains_key(&LATE),
            _ => false,
        })
    };
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, all_know);
    let tree = Arc::new(Mutex::new(Tree(0)));
    let made = Arc::clone(&tree);
    run(&mut sim, 0, move |port| {
        let database = connect(port);
        while made.lock().0 >> 22 != GROUP.0.into() {
            let mut transaction = database.begin()?;
            *made.lock() = transaction.create_tree()?;
            transaction.commit(Durability::Synced)?;
        }
        let mut transaction = database.begin()?;
        transaction.put(*made.lock(), b"bird", b"petrel")?;
        transaction.commit(Durability::Synced)?;
        Ok(())
    })?;
    let tree = *tree.lock();
    if serves(&sim) != Some(OLD) {
        return Err("it was founded elsewhere".into());
    }
    sim.partition([OLD], [OTHER, LATE]);
    // Nor does it hear that the map has changed, but not for so long that it would doubt who keeps that.
    sim.run(Duration::from_millis(240), |_, _, _| {});
    let cut = sim.partition([OLD], [MANAGER]);
    if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| serves(sim) != Some(OLD)) {
        return Err("nobody else leads".into());
    }
    run(&mut sim, 1, move |port| {
        let mut transaction = connect(port).begin()?;
        transaction.put(tree, b"bird", b"fulmar")?;
        transaction.commit(Durability::Synced)?;
        Ok(())
    })?;
    sim.mend(cut);
    let seen = Arc::new(Mutex::new(None));
    let told = Arc::clone(&seen);
    run(&mut sim, 0, move |port| {
        *told.lock() = connect(port).begin()?.get(tree, b"bird")?;
        Ok(())
    })?;
    let seen = seen.lock().take();
    if seen.as_deref() == Some(b"fulmar") { Ok(()) } else { Err(format!("the client sees {seen:?}")) }
}

#[test]
fn who_leads_no_more_tells_nothing_old() {
    seeds("who_leads_no_more_tells_nothing_old", 0..20, |seed| depose(seed, Defect::Nothing));
}

/// The check above finds a server that does not wait for the map.
#[test]
fn who_does_not_heed_the_map_tells_something_old() {
    let found =
        (0..20).find(|seed| check("defect", *seed..seed + 1, |seed| depose(seed, Defect::OldMap)).is_err());
    assert!(found.is_some(), "it is not found");
}
