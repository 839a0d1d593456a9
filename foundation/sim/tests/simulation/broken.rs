//! What the runner must not let pass.

use crate::register::{Bug, CLIENT, Request, Role, register, replicas};
use fulmar_node::{NodeId, Outbox, Process, Time};
use fulmar_sim::{Detail, Faults, Seed, Sim, check};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A process whose messages come from outside of the simulation.
struct Leaky(Arc<AtomicU64>);

impl Process for Leaky {
    type Message = u64;
    type Timer = ();
    type Request = ();
    type Event = ();
    type Record = ();

    fn start(&mut self, _now: Time, out: &mut Outbox<Self>) {
        out.send(NodeId(0), self.0.fetch_add(1, Relaxed));
    }
}

#[test]
fn runs_that_differ_in_a_message_are_caught() {
    let outside = Arc::new(AtomicU64::new(0));
    let failure = check("leaky", 0..1, |seed| {
        let outside = Arc::clone(&outside);
        let mut sim = Sim::new(seed, move |_, _: &[()]| Leaky(Arc::clone(&outside)));
        sim.add(NodeId(0));
        sim.run(Duration::from_secs(1), |_, _, ()| {});
        Ok(())
    });
    let reason = failure.expect_err("the second run sends another message").reason;
    assert!(reason.starts_with("two runs differ") && reason.contains("to n0"), "{reason}");
}

fn invariant_broken(seed: Seed) -> Result<(), String> {
    let mut sim = register(seed, Bug::None);
    sim.invariant(1, |processes| {
        let highest = processes.iter().filter_map(|(_, role)| match role {
            Role::Replica(replica) => Some(replica.value),
            Role::Client(_) => None,
        });
        if highest.max() < Some(3) { Ok(()) } else { Err("three is too much".to_owned()) }
    });
    for value in 1..=3 {
        sim.request(CLIENT, Request::Write(value));
        sim.run(Duration::from_millis(20), |_, _, _| {});
    }
    Ok(())
}

#[test]
fn a_broken_invariant_is_reported_with_its_seed() {
    let failure = check("invariant", 7..8, invariant_broken).expect_err("the third write breaks it");
    assert_eq!(failure.seed, 7);
    assert!(failure.reason.contains("three is too much"), "{failure}");
}

#[test]
fn a_trace_is_the_same_for_the_same_seed_only() {
    let trace = |seed| {
        let mut sim = register(Seed::new(seed, Detail::Kept), Bug::None);
        sim.request(CLIENT, Request::Write(1));
        sim.run(Duration::from_millis(30), |_, _, _| {});
        sim.trace().to_owned()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
    let first: Vec<String> = trace(1).lines().take(8).map(str::to_owned).collect();
    assert_eq!(first[0], "0.000000000 n0    start   after 0 records");
    assert_eq!(first[6], "0.000000000 n5    request Write(1)");
    assert_eq!(first[7], "0.000000000 n5    send    to n0 Write(1)");
}

#[test]
fn the_detail_of_a_trace_changes_nothing_else() {
    let end = |detail| {
        let mut sim = register(Seed::new(3, detail), Bug::None);
        let faults = Faults::random(replicas(), sim.random());
        sim.inject(faults);
        sim.request(CLIENT, Request::Write(1));
        sim.run(Duration::from_secs(1), |sim, client, _| sim.request(client, Request::Read));
        (sim.counts, sim.random().next(), sim.trace().is_empty(), sim.hash())
    };
    let (numbers, hashed, kept) = (end(Detail::Numbers), end(Detail::Hashed), end(Detail::Kept));
    assert_eq!((numbers.0, numbers.1), (kept.0, kept.1));
    assert_eq!((hashed.0, hashed.1, hashed.3), (kept.0, kept.1, kept.3));
    assert!(numbers.2 && hashed.2 && !kept.2);
}
