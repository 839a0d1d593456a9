//! A server that is alone, and programs that come one after the other.

use crate::world::{CLIENTS_BEGIN, Disks, MANAGER, Role, alone, connect, connect_by};
use fulmar_dbt::{Durability, Error, Tree};
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use fulmar_sim::{Port, Sim, seeds};
use std::sync::Arc;
use std::time::Duration;

/// A program reads a row and goes.
fn read(sim: &mut Sim<Role>, client: u32) {
    let client = NodeId(CLIENTS_BEGIN + client);
    sim.add(client);
    sim.host(client, |port: Port<Role>| {
        connect(port).begin().unwrap().get(Tree(1), b"key").unwrap();
    });
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
    sim.disconnect(MANAGER, client);
}

/// It was closed when the last of those that used it had gone, and each program waited for it to be opened.
#[test]
fn a_database_stays_open_for_a_while_for_whoever_comes_next() {
    seeds("a_database_stays_open_for_a_while_for_whoever_comes_next", 0..3, |seed| {
        let disks = Disks::default();
        let mut sim = alone(seed, &disks);
        (0..5).for_each(|client| read(&mut sim, client));
        let soon = disks.opened("bank");
        sim.run(Duration::from_secs(20), |_, _, _| {});
        read(&mut sim, 5);
        let later = disks.opened("bank");
        match (&soon[..], &later[..]) {
            ([1], [2]) => Ok(()),
            _ => Err(format!("opened {soon:?} times, and {later:?} after it was not used for 20 s")),
        }
    });
}

/// Who has a snapshot, and nothing else yet, deletes a row that somebody has relied on since, who is gone. What has been relied on is
/// forgotten with the shard, which was closed.
#[test]
fn a_database_stays_open_for_who_has_a_snapshot_of_it() {
    seeds("a_database_stays_open_for_who_has_a_snapshot_of_it", 0..3, |seed| {
        let mut sim = alone(seed, &Disks::default());
        let (stays, goes) = (NodeId(CLIENTS_BEGIN), NodeId(CLIENTS_BEGIN + 1));
        let (parents, children) = (Tree(1), Arc::new(Mutex::new(None)));
        [stays, goes].into_iter().for_each(|client| sim.add(client));
        let made = Arc::clone(&children);
        let found = move |port: Port<Role>| {
            let mut transaction = connect(port).begin().unwrap();
            *made.lock() = Some(transaction.create_tree().unwrap());
            transaction.put(parents, b"parent", b"").unwrap();
            transaction.commit(Durability::Synced).unwrap();
        };
        sim.host(goes, found);
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
        let deleted = Arc::new(Mutex::new(None));
        let told = Arc::clone(&deleted);
        sim.host(stays, move |port: Port<Role>| {
            let port = Arc::new(Mutex::new(port));
            let mut transaction = connect_by(&port, MANAGER).begin().unwrap();
            transaction.snapshot().unwrap();
            port.lock().sleep(Duration::from_secs(40)).unwrap();
            transaction.delete(parents, b"parent").unwrap();
            *told.lock() = Some(transaction.commit(Durability::Synced).map(drop));
        });
        sim.run(Duration::from_secs(1), |_, _, _| {});
        sim.host(goes, move |port: Port<Role>| {
            let children = children.lock().take().expect("it is made");
            let mut transaction = connect(port).begin().unwrap();
            transaction.touch(parents, b"parent");
            transaction.put(children, b"child", b"parent").unwrap();
            transaction.commit(Durability::Synced).unwrap();
        });
        sim.run(Duration::from_secs(1), |_, _, _| {});
        sim.disconnect(MANAGER, goes);
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
        let deleted = deleted.lock().take();
        match deleted {
            Some(Err(Error::Conflict | Error::SnapshotGone)) => Ok(()),
            told => Err(format!("it was told {told:?}")),
        }
    });
}
