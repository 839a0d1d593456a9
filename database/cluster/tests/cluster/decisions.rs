//! Transactions of several shards: what their clients are told holds, whoever leads, and whoever is asked again.

use crate::leaders::{OLD, OTHER, SHARD, await_other, plant, run};
use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, MANAGER, Role, connect, connect_to, replicas, servers, world,
};
use fulmar_cluster::Replication;
use fulmar_dbt::{Durability, Tree};
use fulmar_kv::{Error, ShardId};
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use fulmar_sim::{Seed, Sim, check, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A transaction is prepared by one of two shards; the other, which is to decide, is asked about it where it was led from before,
/// and then is to prepare it where it is led from now.
fn ask_the_old(seed: Seed, defect: Defect) -> Result<(), String> {
    let replication = Replication { replicas: 3, ..Replication::default() };
    let mut sim = world(seed, &Disks::default(), 2, defect, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let second = ShardId(2);
    let trees = [plant(&mut sim, SHARD, OLD)?, plant(&mut sim, second, OTHER)?];
    let (client, writer) = (NodeId(CLIENTS_BEGIN), NodeId(CLIENTS_BEGIN + 1));
    let is_cut = Arc::new(AtomicBool::new(false));
    let may_begin = Arc::clone(&is_cut);
    let change = move |port| {
        let database = connect(port);
        let look = |tree| database.begin()?.get(tree, b"bird").map(drop);
        // From now on it knows the leaf, and has nothing to read in the first shard.
        look(trees[0])?;
        while !may_begin.load(Relaxed) {
            look(trees[1])?;
        }
        let mut transaction = database.begin()?;
        transaction.get(trees[1], b"bird")?;
        for tree in trees {
            transaction.put(tree, b"bird", b"fulmar")?;
            transaction.put(tree, b"fish", b"cod")?;
        }
        transaction.commit(Durability::Synced)
    };
    // Whether it takes place or not, it does so in both shards.
    sim.host(client, move |port| drop(change(port)));
    sim.run(Duration::from_millis(50), |_, _, _| {});
    let cut = sim.partition([client], [OLD]);
    is_cut.store(true, Relaxed);
    let is_prepared = |sim: &Sim<Role>| match sim.process(OTHER) {
        Some(Role::Server(server, ..)) => {
            server.databases().any(|kv| kv.shard() == second && !kv.is_settled())
        }
        _ => false,
    };
    if !sim.run_until(Duration::from_secs(10), |_, _, _| {}, is_prepared) {
        return Err("it is not prepared".into());
    }
    sim.pause(OLD);
    // Somebody meets its lock.
    let meet = move |port| {
        let mut transaction = connect_to(port, OTHER).begin()?;
        transaction.put(trees[1], b"bird", b"petrel")?;
        transaction.commit(Durability::Synced)
    };
    sim.host(writer, move |port| drop(meet(port)));
    await_other(&mut sim, SHARD, OLD, &[MANAGER])?;
    sim.resume(OLD);
    sim.mend(cut);
    if !sim.run_until(Duration::from_secs(100), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("a program does not end".into());
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    run(&mut sim, 0, move |port| {
        let transaction = connect(port).begin()?;
        for tree in trees {
            told.lock().push(transaction.get(tree, b"fish")?.is_some());
        }
        Ok(())
    })?;
    let seen = seen.lock();
    if seen[0] == seen[1] { Ok(()) } else { Err(format!("it has taken place: {seen:?}")) }
}

/// Whoever decides about a transaction is cut off from its replicas at some moment of the commit; its client, whose connection
/// breaks, asks for the decision again, there. What it is told holds under whoever leads next.
fn ask_again(seed: Seed, defect: Defect) -> Result<(), String> {
    let replication = Replication { replicas: 3, ..Replication::default() };
    let mut sim = world(seed, &Disks::default(), 2, defect, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let trees = [plant(&mut sim, SHARD, OLD)?, plant(&mut sim, ShardId(2), OTHER)?];
    let client = NodeId(CLIENTS_BEGIN);
    let told = change_both(&mut sim, trees);
    let is_prepared = |sim: &Sim<Role>| match sim.process(OLD) {
        Some(Role::Server(server, ..)) => {
            server.databases().any(|kv| kv.shard() == SHARD && !kv.is_settled())
        }
        _ => false,
    };
    if !sim.run_until(Duration::from_secs(10), |_, _, _| {}, is_prepared) {
        return Err("it is not prepared".into());
    }
    let moment = Duration::from_micros(sim.random().below(2_000));
    sim.run(moment, |_, _, _| {});
    let others = [MANAGER, OTHER];
    sim.partition([OLD], others);
    sim.partition([client], others);
    let broken = sim.partition([client], [OLD]);
    sim.run(Duration::from_millis(20), |_, _, _| {});
    sim.disconnect(OLD, client);
    sim.mend(broken);
    await_other(&mut sim, SHARD, OLD, &others)?;
    sim.run(Duration::from_secs(2), |_, _, _| {});
    sim.heal(servers());
    if !sim.run_until(Duration::from_secs(100), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("a program does not end".into());
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&seen);
    run(&mut sim, 1, move |port| {
        let transaction = connect(port).begin()?;
        for tree in trees {
            found.lock().push(transaction.get(tree, b"bird")?.as_deref() == Some(b"fulmar"));
        }
        Ok(())
    })?;
    let told = told.lock().as_ref().map(Result::is_ok);
    let seen = seen.lock().clone();
    let holds = seen[0] == seen[1] && (told != Some(true) || seen[0]);
    if holds { Ok(()) } else { Err(format!("told {told:?}, and it has taken place: {seen:?}")) }
}

/// Whoever leads the shard that decides about a transaction, the other in which it is prepared, or both, crash or are cut off so long
/// after it is prepared. It is decided, in both alike, and as its client is told; and so it stays under whoever leads then.
fn decide_under_other_leaders(seed: Seed, defect: Defect) -> Result<(), String> {
    let (replication, number) = (replicas(&seed), seed.number);
    let moment = Duration::from_micros(100 * (number / 9));
    let mut sim = world(seed, &Disks::default(), 2, defect, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let trees = [plant(&mut sim, SHARD, OLD)?, plant(&mut sim, ShardId(2), OTHER)?];
    let told = change_both(&mut sim, trees);
    let is_prepared = |sim: &Sim<Role>| {
        servers().any(|server| match sim.process(server) {
            Some(Role::Server(server, ..)) => server.databases().any(|kv| !kv.is_settled()),
            _ => false,
        })
    };
    if !sim.run_until(Duration::from_secs(10), |_, _, _| {}, is_prepared) {
        return Err("it is not prepared".into());
    }
    sim.run(moment, |_, _, _| {});
    let leaders = [&[OLD][..], &[OTHER], &[OLD, OTHER]][usize::try_from(number / 3 % 3).unwrap()];
    for leader in leaders {
        let lasting = Duration::from_micros(400_000 + sim.random().below(1_000_000));
        if sim.random().one_in(2) {
            sim.crash(*leader);
            let leader = *leader;
            sim.after(lasting, move |sim| sim.restart(leader));
        } else {
            let cut = sim.partition([*leader], servers().filter(|server| server != leader));
            sim.after(lasting, move |sim| sim.mend(cut));
        }
    }
    if !sim.run_until(Duration::from_secs(100), |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err("a program does not end".into());
    }
    let mut seen = look(&mut sim, trees)?;
    for gone in servers() {
        sim.run(Duration::from_secs(2), |_, _, _| {});
        sim.crash(gone);
        seen.extend(look(&mut sim, trees)?);
        sim.restart(gone);
    }
    let took_place = seen[0];
    let told = told.lock().take();
    let is_as_told = match &told {
        Some(Ok(_)) => took_place,
        Some(Err(Error::Conflict | Error::SnapshotGone)) => !took_place,
        Some(Err(_)) | None => false,
    };
    let is_same = seen.iter().all(|seen| *seen == took_place);
    if is_same && is_as_told {
        Ok(())
    } else {
        Err(format!("told {told:?}, and it has taken place: {seen:?}"))
    }
}

/// The first client changes the bird in each tree, in one transaction; what it is told.
fn change_both(sim: &mut Sim<Role>, trees: [Tree; 2]) -> Arc<Mutex<Option<Result<(), Error>>>> {
    let told = Arc::new(Mutex::new(None));
    let outcome = Arc::clone(&told);
    sim.host(NodeId(CLIENTS_BEGIN), move |port| {
        let database = connect(port);
        let change = || {
            let mut transaction = database.begin()?;
            for tree in trees {
                transaction.put(tree, b"bird", b"fulmar")?;
            }
            transaction.commit(Durability::Synced).map(drop)
        };
        *outcome.lock() = Some(change());
    });
    told
}

/// Whether the second client sees that the bird was changed in each tree.
fn look(sim: &mut Sim<Role>, trees: [Tree; 2]) -> Result<Vec<bool>, String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&seen);
    run(sim, 1, move |port| {
        let database = connect_to(port, OTHER);
        let see = || {
            let transaction = database.begin()?;
            let has = |tree| Ok(transaction.get(tree, b"bird")?.as_deref() == Some(b"fulmar"));
            trees.into_iter().map(has).collect::<Result<Vec<_>, Error>>()
        };
        *found.lock() = loop {
            match see() {
                Err(Error::SnapshotGone) => {}
                seen => break seen?,
            }
        };
        Ok(())
    })?;
    let seen = seen.lock().clone();
    Ok(seen)
}

#[test]
fn an_undecided_transaction_outlives_its_leaders() {
    let run = |seed| decide_under_other_leaders(seed, Defect::Nothing);
    seeds("an_undecided_transaction_outlives_its_leaders", 0..180, run);
}

/// The check above finds a server that tells a decision which its successor does not know.
#[test]
fn a_decision_that_replicas_do_not_hold_may_become_another() {
    let run = |seed| decide_under_other_leaders(seed, Defect::Eager);
    let found = (0..180).find(|seed| check("defect", *seed..seed + 1, run).is_err());
    assert!(found.is_some(), "it is not found");
}

#[test]
fn a_decision_is_told_when_it_holds() {
    seeds("a_decision_is_told_when_it_holds", 0..60, |seed| ask_again(seed, Defect::Nothing));
}

/// The check above finds a server that answers before its replicas have.
#[test]
fn who_tells_a_decision_again_at_once_tells_too_early() {
    let found =
        (0..60).find(|seed| check("defect", *seed..seed + 1, |seed| ask_again(seed, Defect::Eager)).is_err());
    assert!(found.is_some(), "it is not found");
}

#[test]
fn who_leads_no_more_gives_up_nothing() {
    seeds("who_leads_no_more_gives_up_nothing", 0..20, |seed| ask_the_old(seed, Defect::Nothing));
}

/// The check above finds a server that gives up what it does not know, and does not see to it that others do not prepare it.
#[test]
fn who_forgets_what_it_has_given_up_lets_it_take_place() {
    let found = (0..20)
        .find(|seed| check("defect", *seed..seed + 1, |seed| ask_the_old(seed, Defect::Forgetful)).is_err());
    assert!(found.is_some(), "it is not found");
}
