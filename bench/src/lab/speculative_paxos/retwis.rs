//! Figure 10: Retwis on the transactional key-value store, and how much of it is done while answers come in time.
//!
//! The servers, their clients and the tree are those of `fulmar serve`, with the service times and the network of
//! [`crate::scaling`], and without disks. What is replicated are the batches of writes that the leader of a group has made,
//! one message at a time with all that wait: so viewstamped replication always batches, and nobody speculates for a client.

use super::curves::{Claim, Curves};
use crate::Figure;
use crate::replication::{Mode, Run};
use crate::retwis::{Request, key};
use crate::scaling::cluster::{Line, Role, begin_service, cluster, connect, protocol};
use crate::scaling::{Error, Outcome};
use crate::ycsb::{Chooser, Distribution, Values};
use fulmar_cluster::Replication;
use fulmar_dbt::{Durability, Error as Failure, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random, Time};
use fulmar_sim::{Delay, Port, Sim};
use std::sync::Arc;
use std::time::Duration;

/// The protocols of the store.
pub(super) const MODES: [Mode; 4] = [Mode::Unreplicated, Mode::Batching, Mode::Fast, Mode::Speculative];
/// Where they are not [unreplicated](Mode::Unreplicated).
const REPLICAS: u16 = 3;
/// All in one tree, whose group one server leads.
const RECORDS: u64 = 10_000;
const VALUE_BYTES: usize = 64;
/// How long loading may take, in virtual time…
const LOADING: Duration = Duration::from_secs(60);
/// …and all servers may have something else to do after it.
const SETTLING: Duration = Duration::from_secs(2);
/// In which clients get to know the tree.
const WARMING: Duration = Duration::from_millis(50);
/// So long after each other they begin.
const STAGGER: Duration = Duration::from_micros(20);

/// What all clients share.
struct Plan {
    tree: Tree,
    seed: u64,
    /// What ends from then on, and until the end, is counted.
    counted: Time,
    end: Time,
    outcome: Mutex<Outcome>,
}

/// What so many clients see for a time.
pub(super) fn measure(mode: Mode, clients: u32, span: Duration, seed: u64) -> Result<Run, Error> {
    let replicas = if mode == Mode::Unreplicated { 1 } else { REPLICAS };
    let servers = u32::from(replicas);
    let chosen = mode.group(servers).map_err(Error::new)?.protocol();
    let mut sim = cluster(seed, servers, Replication { replicas, protocol: chosen })
        .ok_or_else(|| Error::new("the servers do not find each other"))?;
    (0..servers).for_each(|server| sim.set_sync(NodeId(server), Delay::ZERO));
    let tree = loaded(&mut sim, NodeId(servers))?;
    begin_service(&mut sim, servers);
    sim.run(SETTLING, |_, _, _| {});

    let counted = sim.now() + WARMING;
    let end = counted + span;
    let plan = Arc::new(Plan { tree, seed, counted, end, outcome: Mutex::new(Outcome::new()) });
    for number in 0..clients {
        let (node, plan) = (NodeId(servers + 1 + number), plan.clone());
        sim.add(node);
        sim.host(node, move |port| work(port, number, &plan));
    }
    if !sim.run_until(LOADING, |_, _, _| {}, |sim| sim.programs_running() == 0) {
        return Err(Error::new("clients do not come to an end"));
    }
    // Where a group lacks a replica it may go on with another one.
    if protocol(&sim, tree).is_some_and(|protocol| protocol != chosen) {
        return Err(Error::new("the group has changed its protocol"));
    }
    let outcome = std::mem::replace(&mut *plan.outcome.lock(), Outcome::new());
    match outcome.failure {
        Some(failure) => Err(Error::new(failure)),
        None => Ok(Run::of(outcome.latencies, span)),
    }
}

/// The tree with all records, which a program on this node makes.
fn loaded(sim: &mut Sim<Role>, node: NodeId) -> Result<Tree, Error> {
    let made = Arc::new(Mutex::new(None));
    let to_make = made.clone();
    sim.add(node);
    sim.host(node, move |port| *to_make.lock() = Some(load(port)));
    sim.run_until(LOADING, |_, _, _| {}, |sim| sim.programs_running() == 0);
    let tree = made.lock().take().ok_or_else(|| Error::new("the records take too long to load"))?;
    tree.map_err(|error| Error::new(format!("the records cannot be loaded: {error}")))
}

fn load(port: Port<Role>) -> Result<Tree, Failure> {
    let database = connect(&Arc::new(Mutex::new(port)));
    let mut maker = database.begin()?;
    let tree = maker.create_tree()?;
    maker.commit(Durability::Written)?;
    let (values, mut random) = (Values::new(VALUE_BYTES), Random::new(0));
    let mut loader = database.begin()?;
    for record in 0..RECORDS {
        loader.put(tree, &key(record), values.any(&mut random).as_bytes())?;
    }
    loader.commit(Durability::Written)?;
    Ok(tree)
}

/// One client, as a program: one transaction after the other, each again until it meets no conflict.
fn work(port: Port<Role>, number: u32, plan: &Plan) {
    let line: Line = Arc::new(Mutex::new(port));
    let database = connect(&line);
    let now = || line.lock().now();
    let mut random = Random::new(plan.seed << 32 | u64::from(number));
    let mut chooser = Chooser::new(Distribution::Zipfian, RECORDS);
    let values = Values::new(VALUE_BYTES);
    // Nothing crashes here.
    let _ = line.lock().sleep(STAGGER * number);
    let mut begun = now();
    while begun < plan.end {
        let request = Request::next(&mut random, &mut chooser, RECORDS);
        let value = values.any(&mut random);
        let mut done = request.carry_out(&database, plan.tree, value.as_bytes());
        while matches!(done, Err(Failure::Conflict)) && now() < plan.end {
            done = request.carry_out(&database, plan.tree, value.as_bytes());
        }
        let ended = now();
        if (plan.counted..plan.end).contains(&ended) {
            plan.outcome.lock().note(done, ended.since(begun));
        }
        begun = ended;
    }
}

/// Of these runs of a protocol, the most transactions a second of which 99 of 100 take no longer than the bound.
fn most_within(runs: &[&Run], bound: Duration) -> Option<f64> {
    let in_time = runs.iter().filter(|run| run.microseconds(99.0) <= bound.as_secs_f64() * 1e6);
    in_time.map(|run| run.rate).max_by(f64::total_cmp)
}

/// The paper's text has no numbers for its figure 10, but those of one client (section 5).
pub(super) fn figures(curves: &Curves<'_>, bound: Duration) -> Vec<Figure> {
    use Mode::{Batching, Fast, Speculative, Unreplicated};
    let most = |runs: &[&Run]| most_within(runs, bound);
    let bounded = format!("Retwis, with as many clients as it does most with, 99 of 100 within {bound:?}");
    let rates = MODES.into_iter().filter_map(|mode| {
        let what = format!("transactions_{}", mode.word());
        let claim = Claim { what: &what, better: "higher", paper: None, note: &bounded };
        let (unit, note) = ("transactions/s", bounded.clone());
        Some(Figure { unit, note, ..curves.figure(&claim, "", &curves.each_run(mode, most)?) })
    });
    let ratio = |what, mode| {
        let claim = Claim { what, better: "higher", paper: None, note: &bounded };
        curves.ratio([mode, Batching], &claim, most)
    };
    let alone = |what, mode, paper: f64| {
        let note = "mean latency of the fewest clients; the paper's transactions are others";
        let claim = Claim { what, better: "lower", paper: Some(paper), note };
        curves.ratio([mode, Batching], &claim, |runs| Some(runs.first()?.mean_microseconds()))
    };
    let compared = [
        ratio("throughput_unreplicated_vs_viewstamped", Unreplicated),
        ratio("throughput_fast_vs_viewstamped", Fast),
        ratio("throughput_speculative_vs_viewstamped", Speculative),
        alone("latency_fast_vs_viewstamped", Fast, 1.12 / 1.44),
        alone("latency_speculative_vs_viewstamped", Speculative, 1.01 / 1.44),
    ];
    rates.chain(compared.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::throughput::measure;
    use super::super::{Options, Part, curves};
    use super::*;

    /// Virtual time: the same on every machine.
    #[test]
    fn the_store_serves_retwis_under_each_protocol_and_does_so_again() {
        let options = Options {
            parts: vec![Part::Figure10],
            runs: 1,
            retwis_clients: vec![1, 4],
            span: Duration::from_millis(10),
            ..Options::default()
        };
        let run = || {
            let points = measure(&options, |_, _, _| {}).expect("a simulator");
            assert_eq!(points.len(), 2 * MODES.len());
            curves::figures(&options, &points)
        };
        let figures = run();
        let value = |what: &str| {
            let figure = figures.iter().find(|figure| figure.figure.ends_with(what));
            figure.unwrap_or_else(|| panic!("no {what}")).value
        };
        for mode in MODES {
            assert!(value(&format!("figure10.transactions_{}", mode.word())) > 0.0);
        }
        assert!(value("figure10.throughput_unreplicated_vs_viewstamped") > 1.0);
        let values = |figures: &[Figure]| figures.iter().map(|figure| figure.value).collect::<Vec<_>>();
        assert_eq!(values(&figures), values(&run()));
    }

    #[test]
    fn what_comes_too_late_does_not_count() {
        let run = |rate: u64, milliseconds: u64| {
            let mut outcome = Outcome::new();
            (0..rate).for_each(|_| outcome.note(Ok(()), Duration::from_millis(milliseconds)));
            Run::of(outcome.latencies, Duration::from_secs(1))
        };
        let runs = [run(10, 1), run(30, 9), run(20, 9), run(40, 11)];
        let within = |bound| most_within(&runs.each_ref(), Duration::from_millis(bound));
        assert_eq!([within(10), within(2), within(0)], [Some(30.0), Some(10.0), None]);
    }
}
