//! Who leads a shard, and who takes itself for its leader.

use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, LATE, MANAGER, Role, connect, connect_by, connect_to, replicas, servers,
    world,
};
use fulmar_cluster::{DatabaseNumber, Replication};
use fulmar_dbt::{Durability, Tree};
use fulmar_kv::{Error, ShardId};
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use fulmar_sim::{Port, Seed, Sim, check, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Where its replicas are, but for [`LATE`].
pub(crate) const SHARD: ShardId = ShardId(1);
pub(crate) const OLD: NodeId = NodeId(1);
pub(crate) const OTHER: NodeId = NodeId(2);

/// Who serves a shard, as one of the servers knows it.
pub(crate) fn server_of(sim: &Sim<Role>, knows: NodeId, shard: ShardId) -> Option<NodeId> {
    match sim.process(knows) {
        Some(Role::Server(server, ..)) => server.map().server(DatabaseNumber(0), shard),
        _ => None,
    }
}

/// Waits until these servers know that another serves a shard than this one.
pub(crate) fn await_other(
    sim: &mut Sim<Role>,
    shard: ShardId,
    old: NodeId,
    know: &[NodeId],
) -> Result<(), String> {
    let is_other = |sim: &Sim<Role>| know.iter().all(|server| server_of(sim, *server, shard) != Some(old));
    let found = sim.run_until(Duration::from_secs(60), |_, _, _| {}, is_other);
    if found { Ok(()) } else { Err("nobody else leads".into()) }
}

/// Runs a program on a client to its end.
pub(crate) fn run(
    sim: &mut Sim<Role>,
    client: u32,
    program: impl FnOnce(Port<Role>) -> Result<(), Error> + Send + 'static,
) -> Result<(), String> {
    sim.host(NodeId(CLIENTS_BEGIN + client), move |port| program(port).expect("there are enough servers"));
    let ends = |sim: &Sim<Role>| sim.programs_running() == 0;
    if sim.run_until(Duration::from_secs(60), |_, _, _| {}, ends) {
        Ok(())
    } else {
        Err("a program does not end".into())
    }
}

/// A tree with a bird in it, in a shard that this server leads; known to the first client.
pub(crate) fn plant(sim: &mut Sim<Role>, shard: ShardId, leader: NodeId) -> Result<Tree, String> {
    let tree = Arc::new(Mutex::new(None));
    let made = Arc::clone(&tree);
    run(sim, 0, move |port| {
        let database = connect(port);
        while made.lock().is_none_or(|tree: Tree| tree.0 >> 22 != shard.0.into()) {
            let mut transaction = database.begin()?;
            *made.lock() = Some(transaction.create_tree()?);
            transaction.commit(Durability::Synced)?;
        }
        let mut transaction = database.begin()?;
        transaction.put(made.lock().expect("it is made"), b"bird", b"petrel")?;
        transaction.commit(Durability::Synced)?;
        Ok(())
    })?;
    let tree = tree.lock().take();
    tree.filter(|_| server_of(sim, MANAGER, shard) == Some(leader)).ok_or_else(|| "another leads".into())
}

/// A leader is cut off from the other replicas, but neither from a client nor, later, from the clock.
fn depose(seed: Seed, defect: Defect) -> Result<(), String> {
    let replication = Replication { replicas: 3, ..Replication::default() };
    let mut sim = world(seed, &Disks::default(), 2, defect, replication);
    sim.add(LATE);
    let all_know = |sim: &Sim<Role>| {
        servers().chain([LATE]).all(|server| match sim.process(server) {
            Some(Role::Server(server, ..)) => server.map().servers.contains_key(&LATE),
            _ => false,
        })
    };
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, all_know);
    let tree = plant(&mut sim, SHARD, OLD)?;
    sim.partition([OLD], [OTHER, LATE]);
    // Nor does it hear that the map has changed, but not for so long that it would doubt who keeps that.
    sim.run(Duration::from_millis(280), |_, _, _| {});
    let cut = sim.partition([OLD], [MANAGER]);
    await_other(&mut sim, SHARD, OLD, &[MANAGER])?;
    replace(&mut sim, tree, MANAGER)?;
    sim.mend(cut);
    require_new(&mut sim, tree)
}

/// Who keeps the clock, and leads a shard, is cut off from the other servers, but not from a client.
fn cut_off(seed: Seed, defect: Defect) -> Result<(), String> {
    let replication = Replication { replicas: 3, ..Replication::default() };
    let mut sim = world(seed, &Disks::default(), 2, defect, replication);
    // By then the clock has replicas.
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let shard = ShardId(0);
    let tree = plant(&mut sim, shard, MANAGER)?;
    let (other_servers, other_client) = ([OLD, OTHER], NodeId(CLIENTS_BEGIN + 1));
    sim.partition([MANAGER], other_servers.into_iter().chain([other_client]));
    await_other(&mut sim, shard, MANAGER, &other_servers)?;
    replace(&mut sim, tree, OTHER)?;
    require_new(&mut sim, tree)
}

/// The second client, which asks this server first, puts another bird there.
fn replace(sim: &mut Sim<Role>, tree: Tree, server: NodeId) -> Result<(), String> {
    run(sim, 1, move |port| {
        let mut transaction = connect_to(port, server).begin()?;
        transaction.put(tree, b"bird", b"fulmar")?;
        transaction.commit(Durability::Synced)?;
        Ok(())
    })
}

/// The first client is to see it.
fn require_new(sim: &mut Sim<Role>, tree: Tree) -> Result<(), String> {
    let seen = Arc::new(Mutex::new(None));
    let told = Arc::clone(&seen);
    run(sim, 0, move |port| {
        *told.lock() = connect(port).begin()?.get(tree, b"bird")?;
        Ok(())
    })?;
    let seen = seen.lock().take();
    if seen.as_deref() == Some(b"fulmar") { Ok(()) } else { Err(format!("the client sees {seen:?}")) }
}

/// Whoever serves a shard crashes, or is cut off, at some moment of a commit; its client asks whoever serves it next, which knows
/// whether it has taken place.
fn commit_while_the_leader_goes(seed: Seed) -> Result<(), String> {
    let replication = Replication { replicas: 3, ..Replication::default() };
    let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let tree = plant(&mut sim, SHARD, OLD)?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let outcomes = Arc::clone(&told);
    let reads = sim.random().one_in(2);
    let durability = if sim.random().one_in(2) { Durability::Synced } else { Durability::Written };
    sim.host(NodeId(CLIENTS_BEGIN), move |port| {
        let database = connect(port);
        for number in 0..20_u64 {
            let change = || {
                let mut transaction = database.begin()?;
                if reads {
                    transaction.get(tree, b"bird")?;
                }
                transaction.put(tree, &number.to_be_bytes(), b"fulmar")?;
                transaction.commit(durability)
            };
            let outcome = change().map_err(|error| error.to_string());
            outcomes.lock().push(outcome);
        }
    });
    let begun = Arc::clone(&told);
    sim.run_until(Duration::from_secs(10), |_, _, _| {}, move |_| begun.lock().len() > 2);
    let moment = Duration::from_micros(sim.random().below(3_000));
    sim.run(moment, |_, _, _| {});
    if sim.random().one_in(2) {
        sim.crash(OLD);
    } else {
        sim.partition([OLD], [MANAGER, OTHER, NodeId(CLIENTS_BEGIN)]);
    }
    if !sim.run_until(Duration::from_secs(200), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("a program does not end".into());
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&seen);
    run(&mut sim, 1, move |port| {
        let transaction = connect(port).begin()?;
        for number in 0..20_u64 {
            found.lock().push(transaction.get(tree, &number.to_be_bytes())?.is_some());
        }
        Ok(())
    })?;
    let (told, seen) = (told.lock().clone(), seen.lock().clone());
    let unknown = told.iter().find(|told| told.as_ref().is_err_and(|why| why.contains("unknown")));
    if let Some(unknown) = unknown {
        return Err(format!("{unknown:?}"));
    }
    match told.iter().zip(&seen).position(|(told, seen)| told.is_ok() != *seen) {
        None => Ok(()),
        Some(number) => Err(format!("{number}: told {:?}, seen {}", told[number], seen[number])),
    }
}

#[test]
fn whoever_leads_next_knows_what_was_committed() {
    seeds("whoever_leads_next_knows_what_was_committed", 0..60, commit_while_the_leader_goes);
}

#[test]
fn who_keeps_the_clock_no_more_tells_nothing_old() {
    seeds("who_keeps_the_clock_no_more_tells_nothing_old", 0..20, |seed| cut_off(seed, Defect::Nothing));
}

/// The check above finds a server that takes it that the others follow.
#[test]
fn who_does_not_ask_the_replicas_of_the_clock_tells_something_old() {
    let found = (0..20)
        .find(|seed| check("defect", *seed..seed + 1, |seed| cut_off(seed, Defect::NoQuorum)).is_err());
    assert!(found.is_some(), "it is not found");
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

/// What another server has come to lead goes back when all are there again.
#[test]
fn leaders_go_back() {
    seeds("leaders_go_back", 0..10, |seed| {
        let replication = replicas(&seed);
        let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, replication);
        sim.run(Duration::from_secs(2), |_, _, _| {});
        run(&mut sim, 0, |port| {
            let mut transaction = connect(port).begin()?;
            transaction.create_tree()?;
            transaction.commit(Durability::Synced)?;
            Ok(())
        })?;
        sim.crash(MANAGER);
        await_other(&mut sim, ShardId(0), MANAGER, &[OLD, OTHER])?;
        sim.restart(MANAGER);
        let are_back = |sim: &Sim<Role>| {
            let shards = (0..).map(ShardId).zip(servers());
            shards.into_iter().all(|(shard, first)| server_of(sim, OTHER, shard) == Some(first))
                && matches!(sim.process(OTHER), Some(Role::Server(server, ..)) if server.map().manager == MANAGER)
        };
        let went = sim.run_until(Duration::from_secs(120), |_, _, _| {}, are_back);
        if went { Ok(()) } else { Err("they stay where they are".into()) }
    });
}

/// A commit is carried out, and its answer is lost. The disk fails, as others write, and then the client asks again: that it has not taken
/// place would be wrong.
#[test]
fn what_took_place_before_a_disk_was_full_is_not_denied() {
    seeds("what_took_place_before_a_disk_was_full_is_not_denied", 0..10, |seed| {
        let disks = Disks::default();
        let mut sim = world(seed, &disks, 2, Defect::Nothing, Replication::default());
        let tree = plant(&mut sim, SHARD, OLD)?;
        let (client, told) = (NodeId(CLIENTS_BEGIN), Arc::new(Mutex::new(None)));
        let (result, known) = (Arc::clone(&told), Arc::new(AtomicBool::new(false)));
        let knows = Arc::clone(&known);
        sim.host(client, move |port| {
            let port = Arc::new(Mutex::new(port));
            let mut transaction = connect_by(&port, MANAGER).begin().expect("there is room");
            transaction.get(tree, b"bird").expect("it is there");
            transaction.put(tree, b"bird", b"fulmar").expect("it is known where");
            knows.store(true, Relaxed);
            port.lock().sleep(Duration::from_secs(1)).expect("it runs");
            *result.lock() = Some(transaction.commit(Durability::Synced).map(drop));
        });
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |_| known.load(Relaxed));
        let cut = sim.cut([OLD], [client]);
        let newest = |sim: &Sim<Role>| match sim.process(OLD) {
            Some(Role::Server(server, ..)) => server.databases().map(fulmar_kv::Database::newest).max(),
            _ => None,
        };
        let before = newest(&sim);
        if !sim.run_until(Duration::from_secs(5), |_, _, _| {}, |sim| newest(sim) > before) {
            return Err("it is not carried out".into());
        }
        disks.full(OLD).store(true, Relaxed);
        let refused = Arc::new(AtomicBool::new(false));
        let is_refused = Arc::clone(&refused);
        sim.host(NodeId(CLIENTS_BEGIN + 1), move |port| {
            let write = |port| {
                let mut transaction = connect_to(port, OLD).begin()?;
                transaction.put(tree, b"egg", b"white")?;
                transaction.commit(Durability::Synced)
            };
            is_refused.store(write(port).is_err(), Relaxed);
        });
        if !sim.run_until(Duration::from_secs(5), |_, _, _| {}, |_| refused.load(Relaxed)) {
            return Err("nothing is refused".into());
        }
        sim.disconnect(OLD, client);
        sim.disconnect(client, OLD);
        sim.mend(cut);
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |_| told.lock().is_some());
        match told.lock().take() {
            Some(Err(Error::Io { source, .. })) if source.kind() == std::io::ErrorKind::StorageFull => {
                Err("it was said that it has not taken place".into())
            }
            Some(Ok(()) | Err(Error::Io { .. })) => Ok(()),
            told => Err(format!("it was told {told:?}")),
        }
    });
}
