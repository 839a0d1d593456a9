//! Servers with disks, and clients that run programs.

mod connections;
mod defects;
mod disks;
mod faults;
mod programs;
mod role;

use connections::Connections;
pub(crate) use connections::encoded;
pub(crate) use defects::Defect;
use disks::Databases;
pub(crate) use disks::Disks;
pub(crate) use faults::{
    disturb, fail_syncs, fail_to_sync, faults, fill_disks, stir, strike, strike_disks, syncs_fail,
};
use fulmar_cluster::{Client, Cluster, DatabaseName, Map, Replication, Server, Synced};
use fulmar_node::NodeId;
use fulmar_replication::Protocol;
use fulmar_sim::{Seed, Sim};
pub(crate) use programs::{connect, connect_by, connect_to, plant};
pub(crate) use role::{Role, Wish};
use std::time::Duration;

/// How many servers there are, if no shard has more replicas; the first keeps the clock and the map.
pub(crate) const SERVERS: u32 = 3;
/// Clients are named from here on.
pub(crate) const CLIENTS_BEGIN: u32 = 100;
pub(crate) const MANAGER: NodeId = NodeId(0);
/// A server that is not there from the beginning.
pub(crate) const LATE: NodeId = NodeId(1_000);

/// Clients from this one on have a database each.
pub(crate) const LONERS: NodeId = NodeId(500);

pub(crate) fn servers() -> impl Iterator<Item = NodeId> {
    (0..SERVERS).map(NodeId)
}

/// Those of a world in which there may be more.
pub(crate) fn servers_of(sim: &Sim<Role>) -> Vec<NodeId> {
    sim.nodes().filter(|node| node.0 < CLIENTS_BEGIN).collect()
}

/// The name of a database.
pub(crate) fn named(name: &str) -> DatabaseName {
    name.try_into().expect("a good name")
}

/// Each shard on all servers, by one protocol or another.
pub(crate) fn replicas(seed: &Seed) -> Replication {
    replicas_on(3, seed)
}

/// …on so many.
pub(crate) fn replicas_on(replicas: u16, seed: &Seed) -> Replication {
    let protocols = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
    Replication { replicas, protocol: protocols[usize::try_from(seed.number % 3).unwrap()] }
}

/// Servers that know each other, whose disks are `disks`, and so many clients.
pub(crate) fn world(
    seed: Seed,
    disks: &Disks,
    clients: u32,
    defect: Defect,
    replication: Replication,
) -> Sim<Role> {
    let disks = disks.clone();
    let count = SERVERS.max(replication.replicas.into());
    let mut sim = Sim::new(seed, move |id, records: &[Synced]| {
        if id.0 >= CLIENTS_BEGIN && id != LATE {
            let name = if id < LONERS { "bank".into() } else { id.to_string() };
            return Role::Client(Box::new(Client::new(u64::from(id.0), named(&name), true)), defect);
        }
        disks.crash(id, records);
        let mut databases = Box::new(Databases(id, disks.clone(), defect));
        let address = id.to_string();
        let server = if id == MANAGER && !disks.1.lock().wiped.contains(&id) {
            Server::first((id, &address), databases, replication).expect("a sound disk")
        } else {
            let remembered = Cluster::remembered(0, &mut *databases).expect("what was written");
            let known = disks.known(id);
            let map = remembered.map_or_else(|| Map::of(known, &known.to_string()), |cluster| cluster.map);
            Server::member((id, &address), databases, map)
        };
        Role::Server(Box::new(server), defect, Connections::default())
    });
    (0..count).map(NodeId).for_each(|server| sim.add(server));
    for client in 0..clients {
        sim.add(NodeId(CLIENTS_BEGIN + client));
    }
    let knows_all = |role: Option<&Role>| match role {
        Some(Role::Server(server, ..)) => server.map().servers.len() == count as usize,
        _ => false,
    };
    let met = sim.run_until(
        Duration::from_secs(60),
        |_, _, _| {},
        |sim| servers_of(sim).into_iter().all(|server| knows_all(sim.process(server))),
    );
    assert!(met, "the servers do not find each other");
    sim
}

/// A server that is alone.
pub(crate) fn alone(seed: Seed, disks: &Disks) -> Sim<Role> {
    let disks = disks.clone();
    let mut sim = Sim::new(seed, move |id, _: &[Synced]| {
        if id != MANAGER {
            return Role::Client(
                Box::new(Client::new(u64::from(id.0), named("bank"), true)),
                Defect::Nothing,
            );
        }
        let databases = Box::new(Databases(id, disks.clone(), Defect::Nothing));
        let server = Server::first((id, &id.to_string()), databases, Replication::default());
        Role::Server(Box::new(server.expect("a sound disk")), Defect::Nothing, Connections::default())
    });
    sim.add(MANAGER);
    sim
}
