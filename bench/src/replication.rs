//! Replication in memory, on loopback UDP, beside a bare ping-pong and beside etcd: replicas with a thread each, and
//! closed-loop clients with one for all.
//!
//! Measured is what the paper's authors measure (Ports and others 2015, section 4.5): an operation that puts 64 bytes
//! under a key, with one replica and with three, under each protocol. The network and the replicas share the cores of
//! one machine here, so throughput tells how much work a request takes altogether, not how much the busiest replica
//! has.

mod cluster;
mod etcd;
mod ping_pong;
pub(crate) mod simulated;
mod values;

use crate::fault::Fault;
use crate::figure::median;
use crate::{Error, Figure};
pub(crate) use cluster::Cluster;
use etcd::Etcd;
use fulmar_node::{NodeId, Random};
use fulmar_replication::{Group, GroupError, Protocol};
use fulmar_transport::Disturbance;
use hdrhistogram::Histogram;
use serde::Serialize;
use simulated::{Setting, World};
use std::io;
use std::time::Duration;

/// Longer than a thread that can run is kept waiting.
const PATIENCE: Duration = Duration::from_millis(200);

/// A way to replicate, as it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// One replica.
    Unreplicated,
    /// Viewstamped replication, a message for each operation.
    Viewstamped,
    /// Viewstamped replication with batches.
    Batching,
    /// Fast Paxos.
    Fast,
    /// Speculative Paxos.
    Speculative,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Unreplicated, Self::Viewstamped, Self::Batching, Self::Fast, Self::Speculative];

    /// What tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreplicated => "unreplicated",
            Self::Viewstamped => "viewstamped",
            Self::Batching => "viewstamped, batching",
            Self::Fast => "fast paxos",
            Self::Speculative => "speculative paxos",
        }
    }

    /// In the names of figures.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unreplicated => "unreplicated",
            Self::Viewstamped => "viewstamped",
            Self::Batching => "batching",
            Self::Fast => "fast",
            Self::Speculative => "speculative",
        }
    }

    /// So many replicas, or one.
    pub(crate) fn group(self, replicas: u32) -> Result<Group, GroupError> {
        let (replicas, protocol) = match self {
            Self::Unreplicated => (1, Protocol::Viewstamped),
            Self::Viewstamped | Self::Batching => (replicas, Protocol::Viewstamped),
            Self::Fast => (replicas, Protocol::Fast),
            Self::Speculative => (replicas, Protocol::Speculative),
        };
        Group::new((0..replicas).map(NodeId), protocol)
    }

    /// How its replicas work: in memory.
    pub(crate) fn options(self) -> fulmar_replication::Options {
        let (batch, window) = if self == Self::Batching { (64, 2) } else { (1, usize::MAX) };
        fulmar_replication::Options {
            is_durable: false,
            patience: PATIENCE,
            heartbeat: PATIENCE / 5,
            batch,
            window,
            ..fulmar_replication::Options::default()
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clients: so many of them in turn. Figures need 1 and 16.
    pub clients: Vec<u32>,
    /// Of each measurement.
    pub length: Duration,
    /// How often each is measured.
    pub runs: usize,
    /// How likely a datagram is dropped where a replica receives it, from 0 to 1…
    pub drop: f64,
    /// …and how likely those overtake it that have come by then.
    pub reorder: f64,
    /// Whether to install and start etcd, and to measure it, too.
    pub etcd: bool,
}

/// What is measured.
#[derive(Clone, Copy)]
enum System<'a> {
    PingPong,
    Ours(Mode),
    Etcd(&'a Etcd),
}

impl System<'_> {
    /// What tables call it.
    fn name(self) -> String {
        match self {
            Self::PingPong => "UDP ping-pong".into(),
            Self::Ours(mode) => mode.name().into(),
            Self::Etcd(etcd) => format!("etcd {}", etcd.version()),
        }
    }

    fn run(self, clients: u32, options: &Options) -> io::Result<Run> {
        match self {
            Self::PingPong => ping_pong::run(options.length),
            Self::Ours(mode) => {
                let Options { drop, reorder, .. } = *options;
                let disturbance = Disturbance { drop, reorder, random: Random::new(2) };
                Cluster::run(mode, clients, options.length, disturbance)
            }
            Self::Etcd(etcd) => etcd.run(clients, options.length).map_err(of_etcd),
        }
    }
}

fn of_etcd(why: Fault) -> io::Error {
    io::Error::other(Error::of("etcd")(why))
}

/// Measurements of one system with so many clients.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Its name.
    pub measured: String,
    /// How many, each with one operation at a time.
    pub clients: u32,
    /// The median of the runs.
    pub operations_per_second: f64,
    /// Of all runs: half of the operations took at most so many microseconds…
    pub p50_microseconds: f64,
    /// …and so many of a hundred.
    pub p99_microseconds: f64,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Operations a second.
    pub(crate) rate: f64,
    /// Nanoseconds.
    latencies: Histogram<u64>,
}

impl Run {
    /// So many of a hundred operations took at most so many microseconds.
    pub(crate) fn microseconds(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e3
    }

    /// The mean.
    pub(crate) fn mean_microseconds(&self) -> f64 {
        self.latencies.mean() / 1e3
    }

    pub(crate) fn of(latencies: Histogram<u64>, time: Duration) -> Self {
        Self { rate: latencies.len() as f64 / time.as_secs_f64(), latencies }
    }
}

/// A system with so many clients, and how it did.
struct Cell<'a> {
    system: System<'a>,
    clients: u32,
    runs: Vec<Run>,
}

impl Cell<'_> {
    fn is(&self, wanted: Mode) -> bool {
        matches!(self.system, System::Ours(mode) if mode == wanted)
    }

    /// Operations a second, the median of the runs.
    fn rate(&self) -> f64 {
        median(&self.runs.iter().map(|run| run.rate).collect::<Vec<f64>>())
    }

    fn measured(&self) -> Measured {
        let mut sum = latencies();
        for run in &self.runs {
            sum.add(&run.latencies).expect("both grow");
        }
        let all = Run { rate: self.rate(), latencies: sum };
        Measured {
            measured: self.system.name(),
            clients: self.clients,
            operations_per_second: all.rate.round(),
            p50_microseconds: all.microseconds(50.0),
            p99_microseconds: all.microseconds(99.0),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// By clients and system.
    pub measured: Vec<Measured>,
    /// Ratios of them.
    pub figures: Vec<Figure>,
}

/// A latency of which three digits are kept.
fn latencies() -> Histogram<u64> {
    Histogram::new(3).expect("a precision that there is")
}

/// Measures all systems in turn, as often as is asked for; `begin` hears how many of how many measurements are done,
/// and what comes next.
///
/// # Errors
/// What the system says if there are no sockets or threads for it; [`Error`], if etcd cannot be used.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> io::Result<Report> {
    let etcd = options.etcd.then(|| {
        begin(0, 0, "starting etcd");
        Etcd::start().map_err(of_etcd)
    });
    let etcd = etcd.transpose()?;
    let cell = |system, clients| Cell { system, clients, runs: Vec::new() };
    let mut cells = vec![cell(System::PingPong, 1)];
    for &clients in &options.clients {
        cells.extend(Mode::ALL.map(|mode| cell(System::Ours(mode), clients)));
        cells.extend(etcd.iter().map(|etcd| cell(System::Etcd(etcd), clients)));
    }
    let all = cells.len() * options.runs;
    for done in 0..all {
        let place = done % cells.len();
        let Cell { system, clients, runs } = &mut cells[place];
        begin(done, all, &format!("{}, {clients} clients", system.name()));
        runs.push(system.run(*clients, options)?);
    }
    let mut figures = figures(&cells);
    figures.extend(simulated_figures().map_err(io::Error::other)?);
    Ok(Report { measured: cells.iter().map(Cell::measured).collect(), figures })
}

/// Ratios of the median latencies of one client to that of the ping-pong.
const LATENCIES: [(&str, f64, Mode); 4] = [
    ("replication.latency_unreplicated_vs_udp", 2.5, Mode::Unreplicated),
    ("replication.latency_speculative_vs_udp", 4.0, Mode::Speculative),
    ("replication.latency_viewstamped_vs_udp", 6.0, Mode::Viewstamped),
    ("replication.latency_fast_vs_udp", 6.0, Mode::Fast),
];

fn figures(cells: &[Cell<'_>]) -> Vec<Figure> {
    let find = |mode, clients| cells.iter().find(move |cell| cell.is(mode) && cell.clients == clients);
    let ping_pong = cells.iter().find(|cell| matches!(cell.system, System::PingPong));
    let median_latency = |run: &Run| run.microseconds(50.0);
    let latency = |(name, target, mode)| {
        let note = "median latency of one client, three replicas (one, if unreplicated)";
        ratio((name, target, "lower", note), find(mode, 1)?, ping_pong?, median_latency)
    };
    let throughput = |name, target, ours: Option<&Cell<'_>>, theirs: Option<&Cell<'_>>, note: &str| {
        ratio((name, target, "higher", note), ours?, theirs?, |run| run.rate)
    };
    let fastest = |mode| {
        let of_mode = cells.iter().filter(move |cell| cell.is(mode));
        of_mode.max_by(|a, b| a.rate().total_cmp(&b.rate()))
    };
    let rates = [
        throughput(
            "replication.speculative_throughput_vs_viewstamped",
            1.7,
            find(Mode::Speculative, 16),
            find(Mode::Viewstamped, 16),
            "operations a second of 16 clients, without batching",
        ),
        throughput(
            "replication.batching_vs_speculative_peak",
            0.9,
            fastest(Mode::Batching),
            fastest(Mode::Speculative),
            "operations a second, each with as many clients as it does most with",
        ),
        throughput(
            "replication.viewstamped_vs_etcd",
            8.0,
            find(Mode::Batching, 16),
            cells.iter().find(|cell| matches!(cell.system, System::Etcd(_)) && cell.clients == 16),
            "operations a second of 16 clients, with batching, as etcd batches too; etcd has three members that write \
             to files in memory, its leader is asked by gRPC on one connection",
        ),
    ];
    LATENCIES.into_iter().filter_map(latency).chain(rates.into_iter().flatten()).collect()
}

/// Speculative Paxos beside viewstamped replication, where each replica has a processor of its own.
fn simulated_figures() -> Result<[Figure; 2], GroupError> {
    const CLIENTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    let all = |mode| -> Result<Vec<Run>, GroupError> {
        CLIENTS.iter().map(|&clients| Ok(World::new(&Setting::of(mode, clients))?.measure())).collect()
    };
    let (ours, theirs) = (all(Mode::Speculative)?, all(Mode::Viewstamped)?);
    let peak = |runs: &[Run]| runs.iter().map(|run| run.rate).fold(0.0, f64::max);
    let alone = |runs: &[Run]| runs[0].microseconds(50.0);
    let figure = |figure: &str, value, target, better, what| Figure {
        peer: "viewstamped, simulated".into(),
        target: Some(target),
        fulmar_nanoseconds: Some(alone(&ours) * 1e3),
        peer_nanoseconds: Some(alone(&theirs) * 1e3),
        note: format!("{what}; three replicas with a processor each, 3.4 µs a message, 10 µs a link"),
        ..Figure::of(figure, "ratio", better, &[value])
    };
    Ok([
        figure(
            "replication.sim_speculative_throughput_vs_viewstamped",
            peak(&ours) / peak(&theirs),
            2.6,
            "higher",
            "the most operations a second of 1 to 64 clients, without batching",
        ),
        figure(
            "replication.sim_speculative_latency_vs_viewstamped",
            alone(&ours) / alone(&theirs),
            0.6,
            "lower",
            "latency of one client",
        ),
    ])
}

fn ratio(
    (figure, target, better, note): (&'static str, f64, &'static str, &str),
    ours: &Cell<'_>,
    theirs: &Cell<'_>,
    value: impl Fn(&Run) -> f64,
) -> Option<Figure> {
    let values = |cell: &Cell<'_>| cell.runs.iter().map(&value).collect::<Vec<f64>>();
    let ratios: Vec<f64> = values(ours).iter().zip(values(theirs)).map(|(our, their)| our / their).collect();
    let (ours, theirs) = (ours.measured(), theirs.measured());
    (!ratios.is_empty()).then(|| Figure {
        peer: theirs.measured,
        target: Some(target),
        fulmar_nanoseconds: Some(ours.p50_microseconds * 1e3),
        peer_nanoseconds: Some(theirs.p50_microseconds * 1e3),
        note: format!("{note}; in memory, loopback, replicas and clients on the same cores"),
        ..Figure::of(figure, "ratio", better, &ratios)
    })
}
