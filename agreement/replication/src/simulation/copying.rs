//! States that are copied part by part, while all go on.

use super::registers::invocation;
use super::role::{Order, Role, Said};
use super::{Incarnations, is_settled, newest_group, replicas, wipe, world};
use crate::{Group, Options, Protocol, Wish};
use fulmar_history::linearizability::{KeyValueOperation, RegisterOperation};
use fulmar_node::NodeId;
use fulmar_sim::{Seed, Sim, seeds};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const PARTS: u32 = 3;

/// Which copy it is that is under way to each replica: one that begins ends the one before.
#[derive(Clone, Default)]
pub(super) struct Copies(Rc<RefCell<BTreeMap<NodeId, u64>>>);

impl Copies {
    /// Copies the state for a replica that is behind, each part of it within so long.
    pub(super) fn begin(&self, sim: &mut Sim<Role>, node: NodeId, within: Duration) {
        let mut copies = self.0.borrow_mut();
        let number = copies.entry(node).or_default();
        *number += 1;
        self.copy(sim, (node, *number), PARTS, within);
    }

    fn copy(&self, sim: &mut Sim<Role>, (node, number): (NodeId, u64), parts: u32, within: Duration) {
        let copies = self.clone();
        let time = within.mul_f64(sim.random().fraction()) + Duration::from_millis(1);
        sim.after(time, move |sim| {
            if copies.0.borrow().get(&node) != Some(&number) {
                return;
            }
            let own = replicas(sim).find(|(other, _)| *other == node).map(|(_, replica)| replica.committed());
            let donor = replicas(sim).find(|(other, replica)| {
                *other != node && !replica.is_copying() && Some(replica.committed()) >= own
            });
            let Some(upto) = donor.map(|(_, donor)| donor.committed()) else {
                return copies.copy(sim, (node, number), parts, within);
            };
            sim.request(node, Order::Replica(Wish::Copied { upto, is_whole: parts == 1 }));
            if parts > 1 {
                copies.copy(sim, (node, number), parts - 1, within);
            }
        });
    }
}

/// A replica comes back after it has missed much, with its disk or without, while clients go on without a pause: it is to take
/// part again meanwhile.
fn catch_up(seed: Seed, protocol: Protocol) -> Result<(), String> {
    const CLIENTS: std::ops::Range<u32> = 3..5;
    let group = Group::new((0..3).map(NodeId), protocol).map_err(|error| error.to_string())?;
    let options = Options { checkpoint: 5, is_copied: true, ..Options::default() };
    let incarnations = Incarnations::default();
    let is_wiped = seed.number.is_multiple_of(2);
    let late = NodeId(u32::try_from(seed.number % 3).unwrap_or_default());
    let mut sim = world(seed, &group, (0, 2), &options, &incarnations);
    let copies = Copies::default();
    let answered = Rc::new(RefCell::new(0_u64));
    let ask = |sim: &mut Sim<Role>, client| {
        let value = RegisterOperation::Write(Some(sim.random().below(1_000)));
        sim.request(client, Order::Client(invocation(KeyValueOperation { key: 1, operation: value }, false)));
    };
    let hear = |sim: &mut Sim<Role>, node, said| match said {
        Said::Behind => copies.begin(sim, node, Duration::from_millis(400)),
        Said::Client(_) => {
            *answered.borrow_mut() += 1;
            ask(sim, node);
        }
    };
    CLIENTS.map(NodeId).for_each(|client| ask(&mut sim, client));
    sim.run(Duration::from_millis(300), hear);
    if is_wiped {
        wipe(&mut sim, &incarnations, late, Duration::from_millis(500));
    } else {
        sim.crash(late);
        sim.after(Duration::from_millis(500), move |sim| sim.restart(late));
    }
    sim.run(Duration::from_millis(600), hear);
    let before = *answered.borrow();
    let is_back = |sim: &Sim<Role>| newest_group(sim).is_some_and(|group| is_settled(sim, &group, late));
    if !sim.run_until(Duration::from_secs(20), hear, is_back) {
        return Err(format!("it does not come back while {} are answered", *answered.borrow() - before));
    }
    Ok(())
}

#[test]
fn who_has_missed_much_catches_up_under_load() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        seeds("who_has_missed_much_catches_up_under_load", 0..30, |seed| catch_up(seed, protocol));
    }
}
