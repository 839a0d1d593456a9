//! Clients move amounts between accounts; every snapshot holds the same sum.

use crate::world::{Disk, Role, SERVER, connect, world};
use fulmar_dbt::{Cursor, Database, Durability, Error, Transaction, Tree};
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Faults, Port, Sim, seeds};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

const TREE: Tree = Tree(1);
const CLIENTS: u32 = 3;
const ACCOUNTS: u64 = 40;
const TRANSFERS: usize = 12;

/// Long, so that a few accounts fill a leaf.
fn key(account: u64) -> Vec<u8> {
    [&account.to_be_bytes()[..], &[b'x'; 300]].concat()
}

fn balance(transaction: &Transaction, account: u64) -> Result<i64, Error> {
    let value = transaction.get(TREE, &key(account))?;
    Ok(value.map_or(0, |value| i64::from_be_bytes((*value).try_into().unwrap())))
}

/// The sum of all accounts.
fn sum(transaction: &Transaction) -> Result<i64, Error> {
    let mut cursor = Cursor::new(TREE);
    let mut sum = 0;
    let mut more = cursor.first(transaction)?;
    while more {
        sum += i64::from_be_bytes(cursor.value().try_into().unwrap());
        more = cursor.next(transaction)?;
    }
    Ok(sum)
}

fn transfer(database: &Database, random: &mut Random) -> Result<(), Error> {
    let mut transaction = database.begin()?;
    assert_eq!(sum(&transaction)?, 0);
    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    let amount = random.between(1, 100);
    let before = balance(&transaction, from)?;
    transaction.put(TREE, &key(from), &(before - amount).to_be_bytes())?;
    let before = balance(&transaction, to)?;
    // The transaction sees its own change, if it is the same account.
    transaction.put(TREE, &key(to), &(before + amount).to_be_bytes())?;
    transaction.commit(Durability::Synced)?;
    Ok(())
}

/// Transfers until so many have succeeded, and returns when the server is out of reach for good.
fn work(database: &Database, random: &mut Random, done: &Mutex<usize>) {
    let mut failures = 0;
    let mut succeeded = 0;
    while succeeded < TRANSFERS && failures < 1_000 {
        match transfer(database, random) {
            Ok(()) => {
                succeeded += 1;
                *done.lock() += 1;
            }
            Err(Error::Conflict | Error::SnapshotGone | Error::Io { .. }) => failures += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

fn run(sim: &mut Sim<Role>) -> Arc<Mutex<usize>> {
    let done = Arc::new(Mutex::new(0));
    for client in 1..=CLIENTS {
        let mut random = sim.random().fork();
        let done = Arc::clone(&done);
        sim.host(NodeId(client), move |port: Port<Role>| work(&connect(port), &mut random, &done));
    }
    done
}

fn finished(sim: &mut Sim<Role>) -> Result<(), String> {
    let finished = sim.run_until(Duration::from_secs(3_000), |_, _, _| {}, |sim| sim.programs_running() == 0);
    if !finished {
        return Err("programs wait for ever".into());
    }
    sim.heal([SERVER]);
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.process(SERVER).is_some());
    let Some(Role::Server(server)) = sim.process(SERVER) else { return Err("the server is down".into()) };
    let database = Database::on(server.databases().next().ok_or("nobody has opened the database")?.clone())
        .map_err(|error| error.to_string())?;
    let reader = database.begin().map_err(|error| error.to_string())?;
    let problems = reader.check(TREE).map_err(|error| error.to_string())?;
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

#[test]
fn every_snapshot_holds_the_same_sum() {
    seeds("every_snapshot_holds_the_same_sum", 0..150, |seed| {
        let mut sim = world(seed, &Disk::default(), CLIENTS);
        let done = run(&mut sim);
        let faults = Faults::random([SERVER], sim.random());
        sim.inject(Faults { down: 1, broken_disk: 0, ..faults });
        sim.after(Duration::from_secs(5), |sim| sim.heal([SERVER]));
        finished(&mut sim)?;
        let done = *done.lock();
        if done == CLIENTS as usize * TRANSFERS { Ok(()) } else { Err(format!("{done} transfers")) }
    });
}
