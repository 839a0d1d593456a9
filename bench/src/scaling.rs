//! Scaling: YCSB's workload B on 1 to 64 servers and 1 to 1,024 clients in the simulator.
//!
//! Machines that can run 64 servers are not at hand, and would be other ones next year. So servers and clients, which
//! are values that know no sockets, run in [`fulmar_sim`]: each server is a node that a message keeps busy for as long as
//! it was measured to take, each client is one that takes no time, and messages are on their way for some microseconds.
//! All else is what `fulmar serve` and its clients run. The same seed gives the same figures on every machine.

pub(crate) mod cluster;
mod load;
mod plot;

pub(crate) use load::Outcome;
pub use plot::plot;

use crate::Figure;
use cluster::{Role, begin_service, cluster, work};
use fulmar_cluster::{NodeId, Replication};
use fulmar_locks::Mutex;
use fulmar_sim::Sim;
use load::{Plan, Turn};
use serde::Serialize;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

/// Clients for each server, where both grow.
const CLIENTS_PER_SERVER: u32 = 16;
/// Between turns nobody works for so long.
const PAUSE: Duration = Duration::from_millis(50);
/// In which clients get to know the trees.
const WARMING: Duration = Duration::from_secs(2);
/// How long loading the rows may take.
const LOADING: Duration = Duration::from_secs(600);
/// Where all clients end up at one server, it takes so many times as long until all is as it stays.
const SKEWED: u32 = 5;
/// The figure compares so many servers with one.
const COMPARED: u32 = 64;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many servers: so many of them in turn.
    pub servers: Vec<u32>,
    /// How many clients use each of these: so many in turn, and 16 for each server.
    pub clients: Vec<u32>,
    /// How long a measurement takes, in virtual time, and five times as long where not all records are alike; before it,
    /// clients work as long without being measured.
    pub span: Duration,
    /// From which all chance comes.
    pub seed: u64,
}

/// How operations are spread over records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spread {
    /// All records alike.
    Uniform,
    /// YCSB's: the most popular record gets 4 % of the operations.
    Zipfian,
    /// All operations go to one record.
    HotRow,
}

impl Spread {
    /// Its name, as it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::HotRow => "one row",
        }
    }
}

impl Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that should not happen has happened in the simulation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub(crate) fn new(what: impl Display) -> Self {
        Self(what.to_string())
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// `ycsb.sim_scaling`.
    pub measured: &'static str,
    /// How many servers.
    pub servers: u32,
    /// How many clients, each with one operation at a time.
    pub clients: u32,
    /// `uniform`, `zipfian` or `one row`.
    pub spread: &'static str,
    /// In virtual time.
    pub operations_per_second: f64,
    /// Half of the operations took at most so many microseconds…
    pub p50_microseconds: f64,
    /// …and so many of a hundred.
    pub p99_microseconds: f64,
    /// How many conflicts there were for each operation that was done.
    pub repeated: f64,
    /// How many failed.
    pub failed: u64,
    /// Why the first of them did.
    pub failure: Option<String>,
    /// Share of the time in which the first server, which keeps the clock, was at work.
    pub manager_busy: f64,
    /// The same for the server that was most at work of the others.
    pub busiest: f64,
    /// How long a server waits for the time, on average: nothing if one server is all there is.
    pub clock_microseconds: Option<f64>,
    /// Questions for the time that one operation needs, on average.
    pub clock_questions: f64,
    #[serde(skip)]
    kind: Spread,
}

impl Measured {
    /// How operations were spread over records.
    pub const fn spread(&self) -> Spread {
        self.kind
    }

    /// Whether there were as many clients as there are for each number of servers.
    pub const fn is_proportional(&self) -> bool {
        self.clients == self.servers * CLIENTS_PER_SERVER
    }
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// By servers, and then in turn.
    pub measured: Vec<Measured>,
    /// `ycsb.sim_scaling_64`, if 1 and 64 servers were measured.
    pub figures: Vec<Figure>,
}

/// Runs all that is asked for; `begin` hears how many of how many clusters are done, and what comes next.
///
/// # Errors
/// [`Error`], if a cluster does not get to work. Single operations that fail are counted.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> Result<Report, Error> {
    let mut measured = Vec::new();
    for (done, &servers) in options.servers.iter().enumerate() {
        let noun = if servers == 1 { "server" } else { "servers" };
        begin(done, options.servers.len(), &format!("{servers} {noun}"));
        measured.extend(measure(options, servers)?);
    }
    let figures = figure(&measured, options.seed).into_iter().collect();
    Ok(Report { measured, figures })
}

/// All turns on so many servers.
fn measure(options: &Options, servers: u32) -> Result<Vec<Measured>, Error> {
    let mut sim = cluster(options.seed, servers, Replication::default())
        .ok_or_else(|| Error::new("the servers do not find each other"))?;
    let loader = NodeId(servers);
    sim.add(loader);
    let made = Arc::new(Mutex::new(None));
    let to_make = made.clone();
    sim.host(loader, move |port| load::load(port, &to_make));
    let is_over = |sim: &Sim<Role>| sim.programs_running() == 0;
    sim.run_until(LOADING, |_, _, _| {}, is_over);
    let tables = made.lock().take().ok_or_else(|| Error::new("the rows take too long to load"))?;
    let tables = tables.map_err(|error| Error(format!("the rows cannot be loaded: {error}")))?;
    begin_service(&mut sim, servers);

    let turns = turns(options, servers, &sim);
    let outcomes = Mutex::new(turns.iter().map(|_| Outcome::new()).collect());
    let plan = Arc::new(Plan { tables, turns, outcomes, seed: options.seed });
    let clients = plan.turns.iter().map(|turn| turn.clients).max().unwrap_or(0);
    for number in 0..clients {
        let (node, plan) = (NodeId(servers + 1 + number), plan.clone());
        sim.add(node);
        sim.host(node, move |port| load::work(port, number, &plan));
    }
    let mut measured = Vec::new();
    for (place, turn) in plan.turns.iter().enumerate() {
        sim.run(turn.counted.since(sim.now()), |_, _, _| {});
        let before = work(&sim, servers);
        sim.run(turn.end.since(sim.now()), |_, _, _| {});
        let after = work(&sim, servers);
        let worked: Vec<_> = after.iter().zip(&before).map(|(after, before)| after.since(*before)).collect();
        measured.push(summary(servers, turn, &plan.outcomes.lock()[place], &worked));
    }
    if !sim.run_until(LOADING, |_, _, _| {}, is_over) {
        return Err(Error::new("clients do not come to an end"));
    }
    Ok(measured)
}

/// Who works when.
fn turns(options: &Options, servers: u32, sim: &Sim<Role>) -> Vec<Turn> {
    let proportional = servers * CLIENTS_PER_SERVER;
    let mut clients = options.clients.clone();
    clients.push(proportional);
    clients.sort_unstable();
    clients.dedup();
    let loads = clients.into_iter().map(|clients| (Spread::Uniform, clients));
    let skewed = [Spread::Zipfian, Spread::HotRow].map(|spread| (spread, proportional));
    let mut begin = sim.now() + WARMING;
    let turn = |(spread, clients)| {
        let span = if spread == Spread::Uniform { options.span } else { options.span * SKEWED };
        let counted = begin + span;
        let end = counted + span;
        let turn = Turn { spread, clients, begin, counted, end };
        begin = end + PAUSE;
        turn
    };
    loads.chain(skewed).map(turn).collect()
}

fn summary(servers: u32, turn: &Turn, outcome: &Outcome, worked: &[cluster::Work]) -> Measured {
    let seconds = turn.end.since(turn.counted).as_secs_f64();
    let operations = outcome.latencies.len() as f64;
    let microseconds = |quantile| outcome.latencies.value_at_quantile(quantile) as f64 / 1e3;
    let times: u32 = worked.iter().map(|work| work.times).sum();
    let waits: Duration = worked.iter().map(|work| work.time_waits).sum();
    let mut busy = worked.iter().map(|work| work.busy.as_secs_f64() / seconds);
    Measured {
        measured: "ycsb.sim_scaling",
        servers,
        clients: turn.clients,
        spread: turn.spread.name(),
        operations_per_second: (operations / seconds).round(),
        p50_microseconds: microseconds(0.5),
        p99_microseconds: microseconds(0.99),
        repeated: outcome.repeated as f64 / operations.max(1.0),
        failed: outcome.failed,
        failure: outcome.failure.clone(),
        manager_busy: busy.next().unwrap_or_default(),
        busiest: busy.fold(0.0, f64::max),
        clock_microseconds: (times > 0).then(|| waits.as_secs_f64() * 1e6 / f64::from(times)),
        clock_questions: f64::from(times) / operations.max(1.0),
        kind: turn.spread,
    }
}

/// How much of the throughput of as many single servers a cluster has, with as many clients for each server.
pub fn of_linear(measured: &[Measured], m: &Measured) -> Option<f64> {
    let one = measured.iter().find(|m| m.servers == 1 && m.is_proportional() && m.kind == Spread::Uniform)?;
    Some(m.operations_per_second / (one.operations_per_second * f64::from(m.servers)))
}

fn figure(measured: &[Measured], seed: u64) -> Option<Figure> {
    let is_it = |m: &&Measured| m.servers == COMPARED && m.is_proportional() && m.kind == Spread::Uniform;
    let many = measured.iter().find(is_it)?;
    let value = of_linear(measured, many)?;
    let nanoseconds = f64::from(COMPARED) * 1e9 / many.operations_per_second;
    Some(Figure {
        peer: "as many times 1 server with 16 clients".into(),
        target: Some(0.9),
        fulmar_nanoseconds: Some(nanoseconds),
        peer_nanoseconds: Some(nanoseconds * value),
        machine: format!("simulated, seed {seed}"),
        note: format!(
            "YCSB B, uniform, {} clients; a table on each server; nanoseconds are of one server, virtual",
            many.clients
        ),
        ..Figure::of("ycsb.sim_scaling_64", "ratio", "higher", &[value])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_answer_all_operations_and_do_so_again() {
        let options =
            Options { servers: vec![1, 2, 4], clients: vec![3], span: Duration::from_millis(2), seed: 7 };
        let report = run(&options, |_, _, _| {}).expect("clusters that work");
        assert_eq!(report.measured.len(), 3 * 4);
        for m in &report.measured {
            assert!(m.operations_per_second > 0.0 && m.failed == 0, "{m:?}");
        }
        assert_eq!(run(&options, |_, _, _| {}).expect("clusters that work").measured, report.measured);
    }
}
