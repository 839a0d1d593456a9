//! YCSB: closed-loop clients on a server of Fulmar and on its peers, in turn.
//!
//! The loads are those of the Yahoo! Cloud Serving Benchmark (Cooper and others, SoCC 2010), with two simplifications: a
//! record is a number and one value instead of ten, and numbers are handed out in order. Each system gets the same number
//! of records, clients, connections (one for each client) and operations under way (one for each connection). All of
//! them answer from memory. Rounds are interleaved: in each, every system is measured for every load, and the one that
//! goes first takes turns.

mod distribution;
mod driver;
mod fulmar;
mod plot;
mod postgres;
mod redis;
mod rqlite;
mod system;
mod workload;

pub use distribution::Distribution;
pub use driver::Length;
pub use plot::plot;
pub use workload::Workload;

pub(crate) use distribution::Chooser;
pub(crate) use system::Values;
pub(crate) use workload::Operation;

use crate::figure::median;
use crate::{Error, Figure};
use driver::{Load, Outcome};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use system::System;

/// A system to compare with, that the benchmark installs and starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// Without persistence.
    Redis,
    /// With asynchronous commit.
    Postgres,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `fulmar` that serves.
    pub program: PathBuf,
    /// Which loads.
    pub workloads: Vec<Workload>,
    /// How operations are spread over records, where the load leaves it open.
    pub distributions: Vec<Distribution>,
    /// Whether to use Fulmar's key-value interface, too.
    pub key_value: bool,
    /// Records to begin with.
    pub records: u64,
    /// Bytes of a value: each of these in turn.
    pub value_bytes: Vec<usize>,
    /// Clients: so many of them in turn.
    pub clients: Vec<u32>,
    /// Of each measurement.
    pub length: Length,
    /// How often each is measured.
    pub runs: usize,
    /// Systems to install and start.
    pub peers: Vec<Peer>,
    /// The address of an rqlite that runs already.
    pub rqlite: Option<String>,
}

/// Measurements of one system under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// `ycsb.` and the load.
    pub measured: String,
    /// Its name and version.
    pub system: String,
    /// `uniform`, `zipfian` or `latest`.
    pub distribution: &'static str,
    /// How many, each with a connection and one operation at a time.
    pub clients: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The median of the runs.
    pub operations_per_second: f64,
    /// Of all runs: half of the operations took at most so many microseconds…
    pub p50_microseconds: f64,
    /// …and so many of a hundred…
    pub p99_microseconds: f64,
    /// …and of a thousand.
    pub p999_microseconds: f64,
    /// The longest.
    pub max_microseconds: f64,
    /// How many failed, in all runs.
    pub failed: u64,
    /// Why the first of them did.
    pub failure: Option<String>,
    #[serde(skip)]
    workload: Workload,
    #[serde(skip)]
    rates: Vec<f64>,
}

impl Measured {
    /// The load.
    pub const fn workload(&self) -> Workload {
        self.workload
    }
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// By load, clients and system.
    pub measured: Vec<Measured>,
    /// Ratios of them.
    pub figures: Vec<Figure>,
}

/// Runs all that is asked for; `begin` hears how many of how many measurements are done, and what comes next.
///
/// # Errors
/// [`Error`], if a system cannot be started or reached. Single operations that fail are counted.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> Result<Report, Error> {
    begin(0, 0, "starting servers");
    let server = fulmar::Server::start(&options.program).map_err(Error::of("fulmar serve"))?;
    let mut systems: Vec<Box<dyn System + '_>> = vec![Box::new(fulmar::Sql(&server))];
    if options.key_value {
        systems.push(Box::new(fulmar::Kv::new(&server)));
    }
    for peer in &options.peers {
        begin(0, 0, "starting servers");
        systems.push(match peer {
            Peer::Redis => Box::new(redis::Redis::start().map_err(Error::of("redis"))?),
            Peer::Postgres => Box::new(postgres::Postgres::start().map_err(Error::of("postgresql"))?),
        });
    }
    if let Some(url) = &options.rqlite {
        systems.push(Box::new(rqlite::Rqlite::at(url).map_err(Error::of("rqlite"))?));
    }
    let cells = cells(options);
    let all = cells.len() * options.runs * systems.len() * options.value_bytes.len();
    let mut done = 0;
    let mut measured = Vec::new();
    for &bytes in &options.value_bytes {
        let values = Values::new(bytes);
        let mut records = Vec::new();
        for system in &systems {
            begin(done, all, &format!("{}: loading {} records", system.name(), options.records));
            let logs = options.clients.iter().copied().max().unwrap_or(1);
            system.load(options.records, logs, &values).map_err(Error::of(system.name()))?;
            records.push(AtomicU64::new(options.records));
        }
        let mut outcomes: Vec<Vec<Vec<Outcome>>> =
            cells.iter().map(|_| systems.iter().map(|_| Vec::new()).collect()).collect();
        for run in 0..options.runs {
            for (cell, outcomes) in cells.iter().zip(&mut outcomes) {
                for turn in 0..systems.len() {
                    let place = (turn + run) % systems.len();
                    let system = &*systems[place];
                    begin(done, all, &format!("{}: {}", system.name(), cell.describe(bytes)));
                    done += 1;
                    if matches!(cell.workload, Workload::Insert | Workload::Inserts) && !system.appends() {
                        continue;
                    }
                    let load = Load {
                        workload: cell.workload,
                        distribution: cell.distribution,
                        clients: cell.clients,
                        length: options.length,
                        values: &values,
                        records: &records[place],
                        seed: run as u64,
                    };
                    outcomes[place].push(driver::run(system, &load).map_err(Error::of(system.name()))?);
                }
            }
        }
        for (cell, outcomes) in cells.iter().zip(outcomes) {
            for (system, outcomes) in systems.iter().zip(outcomes) {
                if !outcomes.is_empty() {
                    measured.push(summary(cell, bytes, system.name(), outcomes));
                }
            }
        }
    }
    let figures = figures(&measured);
    Ok(Report { measured, figures })
}

/// A load for a number of clients.
struct Cell {
    workload: Workload,
    distribution: Distribution,
    clients: u32,
}

impl Cell {
    fn describe(&self, bytes: usize) -> String {
        let Self { workload, distribution, clients } = self;
        format!("{workload}, {}, {clients} clients, {bytes} bytes", distribution.name())
    }
}

fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &workload in &options.workloads {
        for distribution in workload.distributions(&options.distributions) {
            let cell = |&clients| Cell { workload, distribution, clients };
            cells.extend(options.clients.iter().map(cell));
        }
    }
    cells
}

fn summary(cell: &Cell, bytes: usize, system: String, outcomes: Vec<Outcome>) -> Measured {
    let rates: Vec<_> = outcomes.iter().map(Outcome::operations_per_second).collect();
    let failed = outcomes.iter().map(|outcome| outcome.failed).sum();
    let mut latencies = Histogram::<u64>::new(3).expect("a precision that there is");
    let mut failure = None;
    for outcome in outcomes {
        latencies.add(&outcome.latencies).expect("both grow");
        failure = failure.or(outcome.failure);
    }
    let microseconds = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Measured {
        measured: format!("ycsb.{}", cell.workload),
        system,
        distribution: cell.distribution.name(),
        clients: cell.clients,
        value_bytes: bytes,
        operations_per_second: median(&rates).round(),
        p50_microseconds: microseconds(0.5),
        p99_microseconds: microseconds(0.99),
        p999_microseconds: microseconds(0.999),
        max_microseconds: latencies.max() as f64 / 1e3,
        failed,
        failure,
        workload: cell.workload,
        rates,
    }
}

/// Names, targets and what they compare: Fulmar's SQL on uniform records with a peer.
const FIGURES: [(&str, f64, Workload, &str); 4] = [
    ("ycsb.read_vs_redis", 0.9, Workload::C, "redis"),
    ("ycsb.update_vs_redis", 0.6, Workload::Update, "redis"),
    ("ycsb.read_vs_postgres", 1.2, Workload::C, "postgresql"),
    ("ycsb.update_vs_postgres", 1.2, Workload::Update, "postgresql"),
];
/// The same for many clients beside one.
const SCALING: [(&str, Workload); 2] = [
    ("ycsb.insert_one_table_vs_1_client", Workload::Insert),
    ("ycsb.insert_own_tables_vs_1_client", Workload::Inserts),
];

/// One value of a figure: the ratio of two systems' rates, run by run.
struct Ratio {
    what: String,
    runs: Vec<f64>,
    ours: f64,
    theirs: f64,
}

impl Ratio {
    fn new(what: String, ours: &Measured, theirs: &Measured) -> Self {
        let runs = ours.rates.iter().zip(&theirs.rates).map(|(our, their)| our / their).collect();
        Self { what, runs, ours: ours.operations_per_second, theirs: theirs.operations_per_second }
    }
}

fn figures(measured: &[Measured]) -> Vec<Figure> {
    let ours = |workload| {
        measured.iter().filter(move |m| {
            m.workload == workload
                && m.system == "fulmar sql"
                && m.distribution == Distribution::Uniform.name()
        })
    };
    let mut figures = Vec::new();
    for (name, target, workload, peer) in FIGURES {
        let mut version = None;
        let mut ratios = Vec::new();
        for our in ours(workload) {
            let same = |m: &&Measured| {
                let load = (m.workload, m.distribution, m.clients, m.value_bytes);
                load == (our.workload, our.distribution, our.clients, our.value_bytes)
                    && m.system.starts_with(peer)
            };
            if let Some(their) = measured.iter().find(same) {
                version = Some(their.system.clone());
                ratios.push(Ratio::new(
                    format!("{} clients, {} bytes", our.clients, our.value_bytes),
                    our,
                    their,
                ));
            }
        }
        figures.extend(version.and_then(|version| figure(name, target, version, &ratios)));
    }
    for (name, workload) in SCALING {
        let mut ratios = Vec::new();
        for one in ours(workload).filter(|m| m.clients == 1) {
            for many in ours(workload).filter(|m| m.clients > 1 && m.value_bytes == one.value_bytes) {
                ratios.push(Ratio::new(
                    format!("{} clients, {} bytes", many.clients, many.value_bytes),
                    many,
                    one,
                ));
            }
        }
        figures.extend(figure(name, 1.0, "fulmar sql, 1 client".into(), &ratios));
    }
    figures
}

/// The worst of the ratios; the others go into the note.
fn figure(name: &'static str, target: f64, peer: String, ratios: &[Ratio]) -> Option<Figure> {
    let worst = ratios.iter().min_by(|a, b| median(&a.runs).total_cmp(&median(&b.runs)))?;
    let each: Vec<_> = ratios.iter().map(|r| format!("{} {:.2}", r.what, median(&r.runs))).collect();
    Some(Figure {
        peer,
        target: Some(target),
        fulmar_nanoseconds: Some(1e9 / worst.ours),
        peer_nanoseconds: Some(1e9 / worst.theirs),
        note: format!(
            "operations a second, uniform, in memory, on loopback; the worst of: {}",
            each.join("; ")
        ),
        ..Figure::of(name, "ratio", "higher", &worst.runs)
    })
}
