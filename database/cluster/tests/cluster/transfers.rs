//! Clients move amounts between accounts; every snapshot holds the same sum.

use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, LATE, MANAGER, Role, SERVERS, Wish, connect, disturb, fail_syncs,
    fail_to_sync, faults, fill_disks, replicas, replicas_on, servers, servers_of, stir, syncs_fail, world,
};
use fulmar_cluster::Replication;
use fulmar_dbt::{Cursor, Database, Durability, Error, Transaction, Tree, check};
use fulmar_dbt::{Reshape, Shape};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Faults, Port, Seed, Sim, seeds};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const CLIENTS: u32 = 3;
const ACCOUNTS: u64 = 40;
const TRANSFERS: usize = 12;

/// Long, so that a few accounts fill a leaf.
fn key(account: u64) -> Vec<u8> {
    [&account.to_be_bytes()[..], &[b'x'; 300]].concat()
}

/// The tree that holds an account.
fn tree(trees: &[Tree], account: u64) -> Tree {
    trees[usize::try_from(account).unwrap() % trees.len()]
}

/// Has the first client make them.
pub(crate) fn found_in(sim: &mut Sim<Role>) -> Vec<Tree> {
    let trees = Arc::new(Mutex::new(Vec::new()));
    let (founded, shards) = (Arc::clone(&trees), servers_of(sim).len());
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        *founded.lock() = found_each(&connect(port), shards).unwrap();
    });
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
    trees.lock().clone()
}

/// Makes trees until each shard has one.
pub(crate) fn found(database: &Database) -> Result<Vec<Tree>, Error> {
    found_each(database, SERVERS as usize)
}

fn found_each(database: &Database, shards: usize) -> Result<Vec<Tree>, Error> {
    let mut trees = BTreeMap::new();
    while trees.len() < shards {
        let make = || {
            let mut transaction = database.begin()?;
            let tree = transaction.create_tree()?;
            transaction.commit(Durability::Synced).map(|_| tree)
        };
        match make() {
            Ok(tree) => drop(trees.insert(tree.0 >> 22, tree)),
            // Another server leads some shard by now.
            Err(Error::SnapshotGone) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(trees.into_values().collect())
}

fn balance(transaction: &Transaction, trees: &[Tree], account: u64) -> Result<i64, Error> {
    let value = transaction.get(tree(trees, account), &key(account))?;
    Ok(value.map_or(0, |value| i64::from_be_bytes((*value).try_into().unwrap())))
}

/// The sum of all accounts.
fn sum(transaction: &Transaction, trees: &[Tree]) -> Result<i64, Error> {
    let mut sum = 0;
    for tree in trees {
        let mut cursor = Cursor::new(*tree);
        let mut more = cursor.first(transaction)?;
        while more {
            sum += i64::from_be_bytes(cursor.value().try_into().unwrap());
            more = cursor.next(transaction)?;
        }
    }
    Ok(sum)
}

fn transfer(database: &Database, trees: &[Tree], random: &mut Random) -> Result<(), Error> {
    let mut transaction = database.begin()?;
    assert_eq!(sum(&transaction, trees)?, 0);
    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    let amount = random.between(1, 100);
    let before = balance(&transaction, trees, from)?;
    transaction.put(tree(trees, from), &key(from), &(before - amount).to_be_bytes())?;
    let before = balance(&transaction, trees, to)?;
    // The transaction sees its own change, if it is the same account.
    transaction.put(tree(trees, to), &key(to), &(before + amount).to_be_bytes())?;
    transaction.commit(if random.one_in(2) { Durability::Written } else { Durability::Synced })?;
    Ok(())
}

/// Transfers until so many have succeeded, and returns when the servers are out of reach for good.
fn work(database: &Database, trees: &[Tree], random: &mut Random, done: &Mutex<usize>) {
    // While a disk is full thousands fail at once.
    let mut failures = 0;
    let mut succeeded = 0;
    while succeeded < TRANSFERS && failures < 100_000 {
        match transfer(database, trees, random) {
            Ok(()) => {
                succeeded += 1;
                *done.lock() += 1;
            }
            Err(Error::Conflict | Error::SnapshotGone | Error::Io { .. }) => failures += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

struct Bank {
    trees: Vec<Tree>,
    done: Arc<Mutex<usize>>,
}

/// Founds a bank, whose clients then are at work.
fn open(sim: &mut Sim<Role>) -> Bank {
    let trees = found_in(sim);
    let bank = Bank { trees, done: Arc::new(Mutex::new(0)) };
    employ(sim, &bank);
    bank
}

/// Has each client do its transfers.
fn employ(sim: &mut Sim<Role>, bank: &Bank) {
    for client in 0..CLIENTS {
        let mut random = sim.random().fork();
        let (trees, done) = (bank.trees.clone(), Arc::clone(&bank.done));
        let program = move |port: Port<Role>| work(&connect(port), &trees, &mut random, &done);
        sim.host(NodeId(CLIENTS_BEGIN + client), program);
    }
}

/// Whether all programs end, and leave sound trees.
pub(crate) fn close(sim: &mut Sim<Role>, trees: &[Tree]) -> Result<(), String> {
    let finished = sim.run_until(Duration::from_secs(3_000), |_, _, _| {}, |sim| sim.programs_running() == 0);
    if !finished {
        return Err("programs wait for ever".into());
    }
    let servers = servers_of(sim);
    sim.heal(servers.clone());
    sim.run_until(
        Duration::from_secs(60),
        |_, _, _| {},
        |sim| servers.iter().all(|s| sim.process(*s).is_some()),
    );
    check_trees(sim, trees)
}

/// Whether the trees are sound, on servers that are all up, as soon as nothing is underway.
pub(crate) fn check_trees(sim: &mut Sim<Role>, trees: &[Tree]) -> Result<(), String> {
    let servers = servers_of(sim);
    let shards = |sim: &Sim<Role>| {
        let server = |server| match sim.process(server) {
            Some(Role::Server(server, ..)) => server.databases().cloned().collect(),
            _ => Vec::new(),
        };
        servers.iter().copied().chain([LATE]).flat_map(server).collect::<Vec<_>>()
    };
    let is_settled = |sim: &Sim<Role>| {
        let shards = shards(sim);
        // Who led before, and has not heard of who leads now, has it open, too.
        let are_led_once =
            servers.iter().all(|n| shards.iter().filter(|kv| u32::from(kv.shard().0) == n.0).count() == 1);
        are_led_once && shards.iter().all(fulmar_kv::Database::is_settled)
    };
    let settled = (0..60).any(|_| {
        for tree in trees {
            // Whoever is told something about a shard opens it.
            let nothing =
                Reshape { root: tree.root(), leaf: tree.root(), low: [].into(), shape: Shape::Remove };
            for server in &servers {
                sim.request(*server, Wish::Reshape(nothing.clone()));
            }
        }
        sim.run_until(Duration::from_secs(1), |_, _, _| {}, is_settled)
    });
    if !settled {
        return Err("transactions do not end".into());
    }
    let shards = shards(sim);
    for tree in trees {
        let problems = check(*tree, &shards).map_err(|error| error.to_string())?;
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
    }
    Ok(())
}

fn run(seed: Seed, defect: Defect, replication: Replication) -> Result<(), String> {
    let disks = Disks::hurried();
    let (syncs_fail, number) = (syncs_fail(&seed, replication), seed.number);
    let mut sim = world(seed, &disks, CLIENTS, defect, replication);
    let bank = open(&mut sim);
    if syncs_fail {
        fail_syncs(&mut sim, &disks, Duration::from_secs(4));
    }
    fill_disks(&mut sim, &disks, Duration::from_secs(4));
    let faults = faults(&mut sim, number);
    sim.inject(faults);
    stir(&mut sim, bank.trees.clone(), Duration::from_secs(4));
    disturb(&mut sim, CLIENTS, Duration::from_secs(4));
    sim.after(Duration::from_secs(5), |sim| sim.heal(servers_of(sim)));
    close(&mut sim, &bank.trees)?;
    compare_replicas(&mut sim, &disks)?;
    let done = *bank.done.lock();
    if done == CLIENTS as usize * TRANSFERS { Ok(()) } else { Err(format!("{done} transfers")) }
}

#[test]
fn what_one_replica_has_lost_is_found() {
    seeds("what_one_replica_has_lost_is_found", 0..3, |seed| {
        let (replication, disks) = (replicas(&seed), Disks::hurried());
        let mut sim = world(seed, &disks, CLIENTS, Defect::Nothing, replication);
        let bank = open(&mut sim);
        close(&mut sim, &bank.trees)?;
        compare_replicas(&mut sim, &disks)?;
        disks.lose_objects(NodeId(1));
        if disks.differences().is_empty() { Err("they are taken to be the same".into()) } else { Ok(()) }
    });
}

/// Whether all replicas hold the same, as soon as all have heard of all. A view may change at any moment, and take away what one replica
/// alone had in its log: what differs for good does so a second later too.
fn compare_replicas(sim: &mut Sim<Role>, disks: &Disks) -> Result<(), String> {
    for further in [10, 1] {
        sim.run(Duration::from_secs(further), |_, _, _| {});
        if disks.differences().is_empty() {
            return Ok(());
        }
    }
    Err(disks.differences().join("; "))
}

#[test]
fn every_snapshot_holds_the_same_sum() {
    seeds("every_snapshot_holds_the_same_sum", 0..150, |seed| {
        run(seed, Defect::Nothing, Replication::default())
    });
}

#[test]
fn every_snapshot_on_replicas_holds_the_same_sum() {
    seeds("every_snapshot_on_replicas_holds_the_same_sum", 0..150, |seed| {
        let replication = replicas(&seed);
        run(seed, Defect::Nothing, replication)
    });
}

#[test]
fn every_snapshot_on_five_replicas_holds_the_same_sum() {
    seeds("every_snapshot_on_five_replicas_holds_the_same_sum", 0..40, |seed| {
        let replication = replicas_on(5, &seed);
        run(seed, Defect::Nothing, replication)
    });
}

/// The disk of one of two shards becomes full while a transaction of both is prepared there: it takes place in both or in none, and
/// nobody sees half of it, whether that shard decides or follows.
#[test]
fn what_a_full_disk_does_not_take_is_told_to_nobody() {
    seeds("what_a_full_disk_does_not_take_is_told_to_nobody", 0..40, |seed| {
        let disks = Disks::default();
        let full = 1 + u32::try_from(seed.number % 2).unwrap();
        let mut sim = world(seed, &disks, CLIENTS, Defect::Nothing, Replication::default());
        let trees = found_in(&mut sim);
        let changed = trees.clone();
        sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
            let database = connect(port);
            let mut transaction = database.begin().unwrap();
            for (tree, amount) in [(changed[1], -5_i64), (changed[2], 5)] {
                transaction.put(tree, &key(0), &amount.to_be_bytes()).unwrap();
            }
            match transaction.commit(Durability::Synced) {
                Ok(_) | Err(Error::Conflict | Error::Io { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        });
        let is_prepared = |sim: &Sim<Role>| match sim.process(NodeId(full)) {
            Some(Role::Server(server, ..)) => server.databases().any(|kv| !kv.is_settled()),
            _ => false,
        };
        if !sim.run_until(Duration::from_secs(5), |_, _, _| {}, is_prepared) {
            return Err("nothing is prepared".into());
        }
        let is_full = disks.full(NodeId(full));
        is_full.store(true, Relaxed);
        sim.after(Duration::from_secs(1), move |_| is_full.store(false, Relaxed));
        let sums = Arc::new(Mutex::new(BTreeMap::<i64, usize>::new()));
        let (seen, read) = (Arc::clone(&sums), trees.clone());
        sim.host(NodeId(CLIENTS_BEGIN + 1), move |port: Port<Role>| {
            let database = connect(port);
            for _ in 0..2_000 {
                if let Ok(sum) = database.begin().and_then(|transaction| sum(&transaction, &read)) {
                    *seen.lock().entry(sum).or_default() += 1;
                }
            }
        });
        close(&mut sim, &trees)?;
        let sums = sums.lock();
        if sums.keys().eq(&[0]) { Ok(()) } else { Err(format!("sums, and how often: {sums:?}")) }
    });
}

/// The decision may be lost in a crash, or be for a later time; what the other shards have done stands.
#[test]
fn who_tells_a_decision_before_it_is_durable_breaks_the_sum() {
    require_broken_sum(Defect::Hasty);
}

/// What was prepared may be lost in a crash, and the others commit their parts of it.
#[test]
fn who_confirms_what_it_has_prepared_before_that_is_durable_breaks_the_sum() {
    require_broken_sum(Defect::Careless);
}

fn require_broken_sum(defect: Defect) {
    let found = (0..400).any(|seed| {
        let once = |seed| run(seed, defect, Replication::default());
        fulmar_sim::check("defect", seed..seed + 1, once).is_err()
    });
    assert!(found, "nobody misses anything");
}

/// Before a server is gone for good the clock has replicas: operators are told to wait for that, too.
fn await_managers(sim: &mut Sim<Role>) -> Result<(), String> {
    let have_clock = |sim: &Sim<Role>| match sim.process(MANAGER) {
        Some(Role::Server(server, ..)) => server.map().managers().len() == SERVERS as usize,
        _ => false,
    };
    let comes = sim.run_until(Duration::from_secs(60), |_, _, _| {}, have_clock);
    if comes { Ok(()) } else { Err("the clock has no replicas".into()) }
}

/// One server loses all that it had, and comes back; when it has had time to catch up, another is gone for good.
#[test]
fn replicas_outlive_their_servers() {
    seeds("replicas_outlive_their_servers", 0..200, |seed| {
        let (replication, disks) = (replicas(&seed), Disks::hurried());
        let mut sim = world(seed, &disks, CLIENTS, Defect::Nothing, replication);
        await_managers(&mut sim)?;
        let bank = open(&mut sim);
        let faults = Faults::random(servers(), sim.random());
        sim.inject(Faults { crash: 0, blackout: 0, broken_disk: 0, ..faults });
        stir(&mut sim, bank.trees.clone(), Duration::from_secs(2));
        fill_disks(&mut sim, &disks, Duration::from_secs(3));
        let any = |count: u32, sim: &mut Sim<Role>| u32::try_from(sim.random().below(count.into())).unwrap();
        let wiped = NodeId(any(SERVERS, &mut sim));
        let gone = NodeId((wiped.0 + 1 + any(SERVERS - 1, &mut sim)) % SERVERS);
        let moment = Duration::from_micros(sim.random().below(2_000_000));
        let lost = disks.clone();
        sim.after(moment, move |sim| {
            sim.crash(wiped);
            lost.wipe(wiped);
            sim.replace_disk(wiped);
            let later = Duration::from_micros(sim.random().below(1_000_000));
            sim.after(later, move |sim| sim.restart(wiped));
        });
        sim.run(Duration::from_secs(4), |_, _, _| {});
        sim.heal(servers());
        sim.run(Duration::from_secs(20), |_, _, _| {});
        sim.crash(gone);
        employ(&mut sim, &bank);
        close(&mut sim, &bank.trees)?;
        sim.restart(gone);
        compare_replicas(&mut sim, &disks)?;
        let done = *bank.done.lock();
        if done == 2 * CLIENTS as usize * TRANSFERS { Ok(()) } else { Err(format!("{done} transfers")) }
    });
}

/// Runs until a server that was drained is no longer on the map.
fn await_empty(sim: &mut Sim<Role>, drained: NodeId) -> Result<(), String> {
    let is_empty = |sim: &Sim<Role>| match sim.process(MANAGER) {
        Some(Role::Server(server, ..)) => !server.map().servers.contains_key(&drained),
        _ => false,
    };
    if sim.run_until(Duration::from_secs(3_000), |_, _, _| {}, is_empty) {
        Ok(())
    } else {
        Err("it is not empty".into())
    }
}

/// While a server hands over what it holds, all goes on.
#[test]
fn a_server_can_be_drained() {
    seeds("a_server_can_be_drained", 0..60, drain);
}

/// A shard's disk had failed when its server began to hand it over, and it was opened anew before that was heard of. What was handed over was what
/// the server had before, without what was committed since.
#[test]
fn what_was_opened_anew_is_handed_over_as_it_is() {
    let first = 178_027_475_023;
    let outcome = fulmar_sim::check("what_was_opened_anew_is_handed_over_as_it_is", first..first + 1, drain);
    outcome.expect("the seed that found it");
}

fn drain(seed: Seed) -> Result<(), String> {
    let (disks, number) = (Disks::default(), seed.number);
    let syncs_fail = syncs_fail(&seed, Replication::default());
    let mut sim = world(seed, &disks, CLIENTS, Defect::Nothing, Replication::default());
    let bank = open(&mut sim);
    if syncs_fail {
        fill_disks(&mut sim, &disks, Duration::from_secs(4));
        fail_syncs(&mut sim, &disks, Duration::from_secs(4));
    }
    let drained = NodeId(SERVERS - 1);
    let faults = faults(&mut sim, number);
    sim.inject(Faults { down: 1, ..faults });
    let trees = bank.trees.clone();
    let moment = Duration::from_micros(sim.random().below(3_000_000));
    sim.after(moment, move |sim| ask_to_drain(sim, drained));
    stir(&mut sim, trees, Duration::from_secs(2));
    sim.after(Duration::from_secs(5), move |sim| {
        sim.heal(servers());
        ask_to_drain(sim, drained);
    });
    await_empty(&mut sim, drained)?;
    sim.crash(drained);
    close(&mut sim, &bank.trees)?;
    let done = *bank.done.lock();
    if done == CLIENTS as usize * TRANSFERS { Ok(()) } else { Err(format!("{done} transfers")) }
}

/// What a server hands over has all come, and its sync fails. Then the power goes: what the other had is not gone yet.
#[test]
fn what_a_disk_did_not_take_has_not_arrived() {
    seeds("what_a_disk_did_not_take_has_not_arrived", 0..20, |seed| {
        let disks = Disks::default();
        let mut sim = world(seed, &disks, CLIENTS, Defect::Nothing, Replication::default());
        let bank = open(&mut sim);
        sim.run(Duration::from_secs(2), |_, _, _| {});
        let drained = NodeId(SERVERS - 1);
        let arrived = |sim: &Sim<Role>| {
            servers().find(|server| match sim.process(*server) {
                Some(Role::Server(server, ..)) => server.arrived().next().is_some(),
                _ => false,
            })
        };
        ask_to_drain(&mut sim, drained);
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| arrived(sim).is_some()) {
            return Err("nothing arrives".into());
        }
        let server = arrived(&sim).expect("it does");
        let is_full = disks.full(server);
        is_full.store(true, Relaxed);
        if let Some(Role::Server(process, ..)) = sim.process(server) {
            fail_to_sync(&sim, &disks, server, process.arrived());
        }
        is_full.store(false, Relaxed);
        sim.run(Duration::from_millis(100), |_, _, _| {});
        servers().for_each(|server| sim.crash(server));
        servers().for_each(|server| sim.restart(server));
        await_empty(&mut sim, drained)?;
        sim.crash(drained);
        close(&mut sim, &bank.trees)
    });
}

/// Replicas of a server that is to go are made anew on another, also if it is gone before.
#[test]
fn a_server_with_replicas_can_be_drained() {
    seeds("a_server_with_replicas_can_be_drained", 0..60, |seed| {
        let (replication, is_gone) = (replicas(&seed), seed.number % 2 == 1);
        let mut sim = world(seed, &Disks::default(), CLIENTS, Defect::Nothing, replication);
        await_managers(&mut sim)?;
        let bank = open(&mut sim);
        let drained = NodeId(u32::try_from(sim.random().below(SERVERS.into())).unwrap());
        sim.add(LATE);
        let knows_late = |sim: &Sim<Role>, server| match sim.process(server) {
            Some(Role::Server(server, ..)) => server.map().servers.contains_key(&LATE),
            _ => false,
        };
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| servers().all(|s| knows_late(sim, s)));
        let faults = Faults::random(servers().chain([LATE]), sim.random());
        sim.inject(Faults { down: 1, broken_disk: 0, ..faults });
        stir(&mut sim, bank.trees.clone(), Duration::from_secs(2));
        let moment = Duration::from_micros(sim.random().below(3_000_000));
        sim.after(moment, move |sim| ask_to_drain(sim, drained));
        sim.after(Duration::from_secs(5), move |sim| {
            sim.heal(servers().chain([LATE]));
            if is_gone {
                sim.crash(drained);
            }
        });
        sim.run(Duration::from_secs(6), |_, _, _| {});
        let stay: Vec<_> = servers().chain([LATE]).filter(|server| *server != drained).collect();
        let is_empty = |sim: &Sim<Role>| {
            stay.iter().all(|server| match sim.process(*server) {
                Some(Role::Server(server, ..)) => !server.map().servers.contains_key(&drained),
                _ => false,
            })
        };
        let becomes_empty = (0..300).any(|_| {
            // There may have been nobody who kept the map.
            ask_to_drain(&mut sim, drained);
            sim.run_until(Duration::from_secs(10), |_, _, _| {}, is_empty)
        });
        if !becomes_empty {
            return Err("it is not empty".into());
        }
        if !is_gone {
            sim.crash(drained);
        }
        close(&mut sim, &bank.trees)?;
        let done = *bank.done.lock();
        if done == CLIENTS as usize * TRANSFERS { Ok(()) } else { Err(format!("{done} transfers")) }
    });
}

/// Asks all, of whom the one that keeps the map does it.
fn ask_to_drain(sim: &mut Sim<Role>, drained: NodeId) {
    for server in servers().chain([LATE]) {
        if sim.process(server).is_some() {
            sim.request(server, Wish::Drain(drained));
        }
    }
}
