//! Servers whose disks are slow, and that are all there.

use crate::world::{CLIENTS_BEGIN, Defect, Disks, MANAGER, Role, connect, plant, replicas, servers, world};
use fulmar_cluster::DatabaseNumber;
use fulmar_dbt::{Durability, Error, Tree};
use fulmar_node::NodeId;
use fulmar_sim::{Delay, Port, Seed, Sim, seeds};
use std::time::Duration;

/// Longer than a group of replicas that have committed nothing goes on so if one of them is gone.
const SYNC: Duration = Duration::from_secs(3);

/// Writes, while a snapshot is in use that was there before.
fn write(port: Port<Role>, tree: Tree) -> Result<(), Error> {
    let database = connect(port);
    let before = database.begin()?;
    assert_eq!(before.get(tree, b"bird")?.as_deref(), Some(&b"petrel"[..]));
    let mut transaction = database.begin()?;
    transaction.put(tree, b"bird", b"fulmar")?;
    transaction.commit(Durability::Synced)?;
    assert_eq!(before.get(tree, b"bird")?.as_deref(), Some(&b"petrel"[..]));
    Ok(())
}

/// Who keeps the map, and whom that has serve the shard of a tree.
fn leaders(sim: &Sim<Role>, tree: Tree) -> Option<(NodeId, NodeId)> {
    let Some(Role::Server(server, ..)) = sim.process(MANAGER) else { return None };
    let map = server.map();
    Some((map.manager, map.server(DatabaseNumber(0), tree.root().shard())?))
}

/// No leader changes because of slow disks, nor does a group take another protocol: transactions would lose their snapshots.
fn run(seed: Seed) -> Result<(), String> {
    let replication = replicas(&seed);
    let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let tree = plant(&mut sim, |transaction, tree| transaction.put(tree, b"bird", b"petrel").expect("a row"));
    let before = leaders(&sim, tree);
    servers().for_each(|server| sim.set_sync(server, Delay::Fixed(SYNC)));
    sim.host(NodeId(CLIENTS_BEGIN + 1), move |port: Port<Role>| write(port, tree).expect("servers"));
    if !sim.run_until(Duration::from_secs(120), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("the writer does not end".into());
    }
    let after = leaders(&sim, tree);
    if before == after { Ok(()) } else { Err(format!("{before:?} led, and now {after:?} do")) }
}

#[test]
fn slow_disks_change_no_leader() {
    seeds("slow_disks_change_no_leader", 0..9, run);
}
