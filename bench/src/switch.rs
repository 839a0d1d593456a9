//! A switch between two hosts on one machine, beside Open vSwitch: how many bits, packets and connections a second go through.
//!
//! Hosts are network namespaces, on virtual cables to a third one, in which the switches run in turn: `fulmar switch`, and
//! `ovs-vswitchd` with its datapath in user space, on packet sockets as it does by default and on XDP sockets. All share the
//! machine's cores with the hosts, so what counts is the work of all together. Switches treat all packets as an ordinary switch does.
//!
//! Not measured: hardware, more than one flow of packets at a time except for connections, delays.

mod load;
mod network;
mod system;

use crate::fault::{Error, Fault};
use crate::figure::{is_wanted, median};
use crate::{Figure, classifier};
use network::Network;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use system::System;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program whose `switch` is measured.
    pub program: PathBuf,
    /// Whether Open vSwitch is measured beside it, and installed if it is missing.
    pub with_open_vswitch: bool,
    /// How often each is measured, all of them in turn.
    pub runs: usize,
    /// Of a measurement.
    pub span: Duration,
    /// Only figures whose name contains this.
    pub only: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Tcp,
    SmallPackets,
    Connections,
    TcpOffloads,
}

impl Load {
    const ALL: [Self; 4] = [Self::Tcp, Self::SmallPackets, Self::Connections, Self::TcpOffloads];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "switch.tcp",
            Self::SmallPackets => "switch.small_packets",
            Self::Connections => "switch.connection_rate",
            Self::TcpOffloads => "switch.tcp_offloads",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Tcp | Self::TcpOffloads => "bits a second",
            Self::SmallPackets => "packets a second",
            Self::Connections => "connections a second",
        }
    }

    fn measure(self, network: &Network, span: Duration) -> Result<f64, Fault> {
        network.set_offloads(self == Self::TcpOffloads)?;
        match self {
            Self::Tcp | Self::TcpOffloads => load::stream(network, span),
            Self::SmallPackets => load::packets(network, span),
            Self::Connections => load::connections(network, span),
        }
    }
}

/// A ratio that has a name.
struct Ratio {
    figure: &'static str,
    ours: Load,
    peer: System,
    theirs: Load,
    target: f64,
    note: &'static str,
}

const RATIOS: [Ratio; 6] = [
    Ratio {
        figure: "switch.tcp_vs_ovs",
        ours: Load::Tcp,
        peer: System::OpenVSwitch,
        theirs: Load::Tcp,
        target: 2.0,
        note: "one stream, hosts leave nothing to be done",
    },
    Ratio {
        figure: "switch.tcp_vs_ovs_afxdp",
        ours: Load::Tcp,
        peer: System::OpenVSwitchXdp,
        theirs: Load::Tcp,
        target: 1.0,
        note: "one stream, hosts leave nothing to be done",
    },
    Ratio {
        figure: "switch.tcp_offloads_vs_ovs_afxdp",
        ours: Load::TcpOffloads,
        peer: System::OpenVSwitchXdp,
        theirs: Load::Tcp,
        target: 3.0,
        note: "one stream; ours with checksums and segments left to be done, the peer's without: it cannot do them",
    },
    Ratio {
        figure: "switch.small_packets_vs_ovs",
        ours: Load::SmallPackets,
        peer: System::OpenVSwitch,
        theirs: Load::SmallPackets,
        target: 2.0,
        note: "frames of 60 bytes that are delivered when as many are sent as can be",
    },
    Ratio {
        figure: "switch.small_packets_vs_ovs_afxdp",
        ours: Load::SmallPackets,
        peer: System::OpenVSwitchXdp,
        theirs: Load::SmallPackets,
        target: 1.0,
        note: "frames of 60 bytes that are delivered when as many are sent as can be",
    },
    Ratio {
        figure: "switch.connection_rate_vs_ovs",
        ours: Load::Connections,
        peer: System::OpenVSwitch,
        theirs: Load::Connections,
        target: 1.5,
        note: "16 clients: connect, a byte there, a byte back, close",
    },
];

/// One switch under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// `switch.` and the load.
    pub measured: &'static str,
    /// Its name.
    pub system: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// Of all runs.
    pub median: f64,
    /// The best of them.
    pub best: f64,
    /// In their order.
    pub runs: Vec<f64>,
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// By load and switch.
    pub measured: Vec<Measured>,
    /// Ratios of them, and the classifier's.
    pub figures: Vec<Figure>,
}

/// A switch and a load, and what came of each run.
struct Cell {
    system: System,
    load: Load,
    runs: Vec<f64>,
}

/// Runs all that is asked for; `begin` hears how many of how many measurements are done, and what comes next.
///
/// # Errors
/// [`Error`], if a switch or the network around it cannot be set up: for want of root's rights, say.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> Result<Report, Error> {
    let mut cells = cells(options);
    if !cells.is_empty() {
        let network = Network::new().map_err(Error::of("network"))?;
        let all = options.runs * cells.len();
        for run in 0..options.runs {
            let mut systems = [System::Fulmar, System::OpenVSwitch, System::OpenVSwitchXdp];
            // None of them always has the place after another.
            systems.rotate_left(run % 3);
            let are_measured = |system: &System| cells.iter().any(|cell| cell.system == *system);
            let systems: Vec<_> = systems.into_iter().filter(are_measured).collect();
            for (turn, system) in systems.iter().copied().enumerate() {
                let done = run * cells.len() + turn * cells.len() / systems.len();
                begin(done, all, &format!("run {} of {}: {}", run + 1, options.runs, system.name()));
                let these = cells.iter_mut().filter(|cell| cell.system == system);
                measure(options, &network, system, these).map_err(Error::of(system.name()))?;
            }
        }
    }
    let mut figures = ratios(options, &cells)?;
    let classifier = classifier::Options {
        runs: options.runs,
        only: options.only.clone(),
        ..classifier::Options::default()
    };
    figures.extend(classifier::run(&classifier, |what| begin(0, 0, what)));
    let measured = cells.into_iter().map(|cell| Measured {
        measured: cell.load.name(),
        system: cell.system.name(),
        unit: cell.load.unit(),
        median: median(&cell.runs),
        best: cell.runs.iter().copied().fold(0.0, f64::max),
        runs: cell.runs,
    });
    Ok(Report { measured: measured.collect(), figures })
}

fn wanted(options: &Options) -> Vec<&'static Ratio> {
    RATIOS.iter().filter(|ratio| is_wanted(options.only.as_deref(), ratio.figure)).collect()
}

/// What the figures that are asked for are made of.
fn cells(options: &Options) -> Vec<Cell> {
    let ratios = wanted(options);
    let pairs = Load::ALL.into_iter().flat_map(|load| {
        [System::Fulmar, System::OpenVSwitch, System::OpenVSwitchXdp].map(|system| (system, load))
    });
    let is_needed = |(system, load): &(System, Load)| match system {
        System::Fulmar => ratios.iter().any(|ratio| ratio.ours == *load),
        peer => {
            options.with_open_vswitch
                && ratios.iter().any(|ratio| ratio.theirs == *load && ratio.peer == *peer)
        }
    };
    pairs.filter(is_needed).map(|(system, load)| Cell { system, load, runs: Vec::new() }).collect()
}

fn measure<'a>(
    options: &Options,
    network: &Network,
    system: System,
    cells: impl Iterator<Item = &'a mut Cell>,
) -> Result<(), Fault> {
    network.set_offloads(false)?;
    let running = system.start(&options.program, network)?;
    for cell in cells {
        cell.runs.push(cell.load.measure(network, options.span)?);
    }
    drop(running);
    Ok(())
}

/// Each of the same run.
fn ratios(options: &Options, cells: &[Cell]) -> Result<Vec<Figure>, Error> {
    if !options.with_open_vswitch || cells.is_empty() {
        return Ok(Vec::new());
    }
    let version = system::version().map_err(Error::of(System::OpenVSwitch.name()))?;
    let runs = |system, load| cells.iter().find(|cell| cell.system == system && cell.load == load);
    let figure = |ratio: &Ratio| {
        let (ours, theirs) = (runs(System::Fulmar, ratio.ours)?, runs(ratio.peer, ratio.theirs)?);
        let ratios: Vec<f64> =
            ours.runs.iter().zip(&theirs.runs).map(|(ours, theirs)| ours / theirs).collect();
        Some(Figure {
            peer: format!("{} {version}", ratio.peer.name()),
            target: Some(ratio.target),
            note: ratio.note.into(),
            ..Figure::of(ratio.figure, "ratio", "higher", &ratios)
        })
    };
    Ok(wanted(options).into_iter().filter_map(figure).collect())
}
