//! Two hundred nodes in twenty processes, two of which are killed by SIGKILL: how long the others take to agree, and with how many
//! messages.
//!
//! `cargo run --release -p fulmar-discovery --example crowd -- [SEEDS]`
//!
//! Exit status: 0 if all agreed in each run, and within the bound on messages; 1 if not, with the seed. Times are printed only.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this measures the time on real sockets"
)]

mod hosts;
mod processes;

use fulmar_node::Random;
use hosts::Line;
use processes::Processes;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PROCESSES: usize = 20;
const NODES: usize = PROCESSES * hosts::COUNT;
/// Processes that are killed.
const KILLED: usize = 2;
/// In which they are killed, in milliseconds from the start.
const FIRST: u64 = 500;
/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(60);
/// Messages of a run of up to three seconds: 8 *n* ⌈log₂ *n*⌉, as in the simulator…
const MOST_SENT: u64 = 8 * NODES as u64 * NODES.next_power_of_two().ilog2() as u64;
/// …and of each second more: five signs of life of each node, and the answers. A busy machine takes longer.
const MORE_SENT: u64 = 10 * NODES as u64;

type View = BTreeSet<SocketAddr>;

struct Outcome {
    taken: Duration,
    /// When the processes were killed, in milliseconds.
    killed: Vec<u64>,
    sent: u64,
}

/// One run.
struct Run {
    processes: Processes,
    /// The nodes of each process that was not killed.
    living: BTreeMap<usize, Vec<SocketAddr>>,
    /// The last stable view that each node told of.
    views: BTreeMap<SocketAddr, View>,
    /// What was counted of each process.
    sent: BTreeMap<usize, u64>,
}

impl Run {
    fn start() -> Result<Self, Box<dyn Error>> {
        let mut run = Self {
            processes: Processes::start(PROCESSES)?,
            living: BTreeMap::new(),
            views: BTreeMap::new(),
            sent: BTreeMap::new(),
        };
        let is_ready = |run: &Self| run.living.len() == PROCESSES;
        if run.listen(Instant::now() + LIMIT, is_ready)? { Ok(run) } else { Err("not all started".into()) }
    }

    /// Tells each node the addresses of three others, upon which it begins.
    fn begin(&mut self, random: &mut Random) -> Result<(), Box<dyn Error>> {
        let all: Vec<SocketAddr> = self.living.values().flatten().copied().collect();
        let mut known_to = |node: &SocketAddr| {
            let mut known = View::new();
            while known.len() < 3 {
                known.extend(random.choose(&all).filter(|other| *other != node));
            }
            known.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        let mut starts = Vec::new();
        for (process, nodes) in &self.living {
            starts.push((*process, nodes.iter().map(&mut known_to).collect::<Vec<_>>().join(" ")));
        }
        for (process, start) in starts {
            self.processes.tell(process, &start)?;
        }
        Ok(())
    }

    /// Notes what is told until it is `done`, or that moment; says whether it is done.
    fn listen(&mut self, until: Instant, done: impl Fn(&Self) -> bool) -> Result<bool, Box<dyn Error>> {
        while !done(self) {
            let Some((process, line)) = self.processes.next(until)? else { return Ok(false) };
            match line {
                Line::Ready(nodes) => drop(self.living.insert(process, nodes)),
                Line::Stable(node, view) => drop(self.views.insert(node, view)),
                Line::Sent(sent) => drop(self.sent.insert(process, sent)),
            }
        }
        Ok(true)
    }

    /// Whether each living node has told that just the living are a stable view.
    fn has_converged(&self) -> bool {
        let all: View = self.living.values().flatten().copied().collect();
        all.iter().all(|node| self.views.get(node) == Some(&all))
    }

    /// Counts what a process has sent. What it sends between this and its end is not counted.
    fn count(&mut self, process: usize) -> Result<(), Box<dyn Error>> {
        self.processes.tell(process, "sent")?;
        let is_counted = |run: &Self| run.sent.contains_key(&process);
        if self.listen(Instant::now() + LIMIT, is_counted)? { Ok(()) } else { Err("no count".into()) }
    }
}

/// Starts all, kills some, and waits until each node of the others calls just those a stable view.
fn run(seed: u64) -> Result<Outcome, Box<dyn Error>> {
    let mut random = Random::new(seed);
    let mut victims = BTreeMap::new();
    while victims.len() < KILLED {
        victims.insert(random.index(PROCESSES), random.below(FIRST));
    }
    let mut kills: Vec<(u64, usize)> = victims.into_iter().map(|(process, when)| (when, process)).collect();
    kills.sort_unstable();
    let mut run = Run::start()?;
    let begun = Instant::now();
    run.begin(&mut random)?;
    for (when, process) in &kills {
        if run.listen(begun + Duration::from_millis(*when), Run::has_converged)? {
            return Err(format!("all agreed before {when} ms: none was killed meanwhile").into());
        }
        run.count(*process)?;
        run.processes.kill(*process)?;
        run.living.remove(process);
    }
    if !run.listen(begun + LIMIT, Run::has_converged)? {
        return Err(format!("no agreement within {LIMIT:?}").into());
    }
    let taken = begun.elapsed();
    let living: Vec<usize> = run.living.keys().copied().collect();
    for process in living {
        run.count(process)?;
    }
    let sent = run.sent.values().sum();
    let most = MOST_SENT + MORE_SENT * taken.as_secs().saturating_sub(2);
    if sent > most {
        return Err(format!("{sent} messages, not {most}, in {taken:?}").into());
    }
    Ok(Outcome { taken, killed: kills.into_iter().map(|(when, _)| when).collect(), sent })
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = env::args().nth(1);
    if argument.as_deref() == Some(hosts::ARGUMENT) {
        return hosts::run();
    }
    let seeds = argument.map_or(Ok(5), |text| text.parse::<u64>())?;
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for seed in 0..seeds {
        let Outcome { taken, killed, sent } = run(seed).map_err(|why| format!("seed {seed}: {why}"))?;
        println!(
            "seed {seed}: {NODES} nodes, {} of them killed after {killed:?} ms: {:.2} s, {sent} messages",
            KILLED * hosts::COUNT,
            taken.as_secs_f64()
        );
        times.push(taken);
        counts.push(sent);
    }
    times.sort();
    counts.sort_unstable();
    let middle = times.len() / 2;
    if let (Some(median), Some(longest)) = (times.get(middle), times.last()) {
        println!(
            "median {:.2} s and {} messages, at most {:.2} s and {} messages",
            median.as_secs_f64(),
            counts[middle],
            longest.as_secs_f64(),
            counts[counts.len() - 1]
        );
    }
    Ok(())
}
