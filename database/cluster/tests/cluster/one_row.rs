//! Clients change the same rows at once, without having read them.

use crate::transfers::found_in;
use crate::world::{CLIENTS_BEGIN, Defect, Disks, connect, world};
use fulmar_cluster::Replication;
use fulmar_dbt::Durability;
use fulmar_node::NodeId;
use fulmar_sim::seeds;
use std::time::Duration;

const CLIENTS: u32 = 4;

#[test]
fn changes_that_nothing_was_read_for_do_not_conflict() {
    seeds("changes_that_nothing_was_read_for_do_not_conflict", 0..20, |seed| {
        let mut sim = world(seed, &Disks::default(), CLIENTS, Defect::Nothing, Replication::default());
        let trees = found_in(&mut sim);
        let is_over = |sim: &fulmar_sim::Sim<_>| sim.programs_running() == 0;
        for client in 0..CLIENTS {
            let trees = trees.clone();
            sim.host(NodeId(CLIENTS_BEGIN + client), move |port| {
                let database = connect(port);
                for tree in trees {
                    // From now on it knows the leaf, and need not read to find it.
                    database.begin().unwrap().get(tree, b"row").unwrap();
                    for _ in 0..10 {
                        let mut writer = database.begin().unwrap();
                        writer.put(tree, b"row", &client.to_be_bytes()).unwrap();
                        writer.commit(Durability::Written).unwrap();
                    }
                }
            });
        }
        if sim.run_until(Duration::from_secs(60), |_, _, _| {}, is_over) {
            Ok(())
        } else {
            Err("a client waits for ever".into())
        }
    });
}
