//! A server that is alone, and programs that come one after the other.

use crate::world::{Disks, MANAGER, Role, SERVERS, alone, connect};
use fulmar_dbt::Tree;
use fulmar_node::NodeId;
use fulmar_sim::{Port, Sim, seeds};
use std::time::Duration;

/// A program reads a row and goes.
fn read(sim: &mut Sim<Role>, client: u32) {
    let client = NodeId(SERVERS + client);
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
