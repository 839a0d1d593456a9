//! What strikes the world: connections that break, leaves that are moved, disks that are full or fail to sync.

use super::disks::synced;
use super::{CLIENTS_BEGIN, Disks, Role, Wish, servers_of};
use fulmar_cluster::{Replication, Server};
use fulmar_dbt::{Reshape, Shape, Tree};
use fulmar_kv::{ShardId, linked};
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Faults, Seed, Sim};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// For so long, leaves of these trees are moved, joined and split at random.
pub(crate) fn stir(sim: &mut Sim<Role>, trees: Vec<Tree>, until: Duration) {
    let mut random = sim.random().fork();
    let pause = Duration::from_micros(1 + random.below(50_000));
    let Some(left) = until.checked_sub(pause) else { return };
    sim.after(pause, move |sim| {
        let tree = trees[any(&mut random, trees.len())];
        let servers = servers_of(sim);
        let reshape = servers.iter().find_map(|server| match sim.process(*server) {
            Some(Role::Server(process, ..)) => {
                Some((*server, any_leaf(process, tree, servers.len(), &mut random)?))
            }
            _ => None,
        });
        if let Some((server, reshape)) = reshape {
            sim.request(server, Wish::Reshape(reshape));
        }
        stir(sim, trees, left);
    });
}

/// For so long, connections of these clients with servers break and are made again, and links between them are cut, in one
/// direction or both.
pub(crate) fn disturb(sim: &mut Sim<Role>, clients: u32, until: Duration) {
    let mut random = sim.random().fork();
    let pause = Duration::from_micros(1 + random.below(400_000));
    let Some(left) = until.checked_sub(pause) else { return };
    sim.after(pause, move |sim| {
        let client = NodeId(CLIENTS_BEGIN + u32::try_from(random.below(clients.into())).unwrap());
        let server = any_server(sim, &mut random);
        let lasting = Duration::from_micros(1 + random.below(400_000));
        let (cut, breaks) = match random.below(4) {
            0 => (sim.cut([client], [server]), false),
            1 => (sim.cut([server], [client]), false),
            _ => (sim.partition([client], [server]), true),
        };
        sim.after(lasting, move |sim| {
            if breaks && sim.is_up(server) {
                sim.disconnect(server, client);
            }
            sim.mend(cut);
        });
        disturb(sim, clients, left);
    });
}

/// For so long, the disk of one server at a time is full now and then.
pub(crate) fn fill_disks(sim: &mut Sim<Role>, disks: &Disks, until: Duration) {
    let mut random = sim.random().fork();
    let mut moment = Duration::ZERO;
    while moment < until {
        let is_full = disks.full(any_server(sim, &mut random));
        let (begin, end) =
            (Duration::from_micros(random.below(2_000_000)), Duration::from_micros(random.below(500_000)));
        let has_room = Arc::clone(&is_full);
        sim.after(moment + begin, move |_| is_full.store(true, Relaxed));
        sim.after(moment + begin + end, move |_| has_room.store(false, Relaxed));
        moment += begin + end;
    }
}

/// Faults, connections that break, and leaves that are moved, for some seconds.
pub(crate) fn strike(sim: &mut Sim<Role>, run: u64, trees: &[Tree], clients: u32) {
    let faults = faults(sim, run);
    sim.inject(faults);
    stir(sim, trees.to_vec(), Duration::from_secs(4));
    disturb(sim, clients, Duration::from_secs(4));
}

/// Disks that are full and that do not sync, for as long.
pub(crate) fn strike_disks(sim: &mut Sim<Role>, disks: &Disks) {
    fill_disks(sim, disks, Duration::from_secs(4));
    fail_syncs(sim, disks, Duration::from_secs(4));
}

/// Faults of servers and of what is between them and everybody, in every other two runs with [stalls](Faults::stall).
pub(crate) fn faults(sim: &mut Sim<Role>, run: u64) -> Faults {
    let stall = if run % 4 >= 2 { 4 } else { 0 };
    Faults { broken_disk: 0, stall, ..Faults::random(servers_of(sim), sim.random()) }
}

/// Whether [`fail_syncs`] is for this run: every other one without replicas.
pub(crate) fn syncs_fail(seed: &Seed, replication: Replication) -> bool {
    replication == Replication::default() && seed.number % 2 == 1
}

/// For so long, syncs of what shards without replicas have written fail now and then, on one server at a time. The disk may take
/// nothing for a while then. What was not synced before is lost in a crash, unless the shard is opened again first.
pub(crate) fn fail_syncs(sim: &mut Sim<Role>, disks: &Disks, until: Duration) {
    let (mut random, disks) = (sim.random().fork(), disks.clone());
    let pause = Duration::from_micros(1 + random.below(2_000_000));
    let Some(left) = until.checked_sub(pause) else { return };
    sim.after(pause, move |sim| {
        let server = any_server(sim, &mut random);
        if let Some(Role::Server(process, ..)) = sim.process(server) {
            let is_full = disks.full(server);
            is_full.store(true, Relaxed);
            fail_to_sync(sim, &disks, server, process.databases().chain(process.arrived()));
            let lasting = Duration::from_micros(random.below(2) * random.below(1_000_000));
            sim.after(lasting, move |_| is_full.store(false, Relaxed));
        }
        fail_syncs(sim, &disks, left);
    });
}

/// A sync of these fails, on a server whose disk is full: what was not synced before is lost in a crash.
pub(crate) fn fail_to_sync<'a>(
    sim: &Sim<Role>,
    disks: &Disks,
    server: NodeId,
    written: impl Iterator<Item = &'a fulmar_kv::Database>,
) {
    let synced = synced(sim.durable_log(server));
    for kv in written {
        disks.get(kv.path()).lose_after(synced.get(kv.path()).copied().unwrap_or(0));
        assert!(kv.sync().is_err(), "there is room");
    }
}

fn any_server(sim: &Sim<Role>, random: &mut Random) -> NodeId {
    let servers = servers_of(sim);
    servers[any(random, servers.len())]
}

/// One of so many.
fn any(random: &mut Random, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).unwrap()
}

/// Something to be done to one of the tree's leaves, unless it is the root.
fn any_leaf(server: &Server, tree: Tree, shards: usize, random: &mut Random) -> Option<Reshape> {
    let kv = server.databases().find(|kv| u32::from(kv.shard().0) == tree.0 >> 22)?;
    let mut node = kv.read(tree.root()).unwrap()?;
    while node.level() > 0 {
        let slot = any(random, node.slots());
        let (low, leaf) = (node.key(slot).into(), linked(node.value(slot))?);
        if node.level() == 1 {
            let shape = match random.below(8) {
                0 => Shape::Join(6 << 10),
                1 => Shape::Split(vec![[node.key(slot), &random.next().to_be_bytes()].concat().into()]),
                _ => Shape::Move(ShardId(u16::try_from(any(random, shards)).unwrap())),
            };
            return Some(Reshape { root: tree.root(), leaf, low, shape });
        }
        node = kv.read(leaf).unwrap()?;
    }
    None
}
