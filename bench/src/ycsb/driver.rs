//! Runs a load: clients in closed loops, each operation timed.

use super::distribution::{Chooser, Distribution};
use super::system::{Client, System, Values};
use super::workload::{LONGEST_SCAN, Operation, Workload};
use crate::fault::{Fault, Wrong, chain};
use fulmar_node::Random;
use hdrhistogram::Histogram;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Reads by each client before the clock starts, so that caches, plans and threads are warm.
const WARMING: u32 = 500;
/// Three digits of each latency are kept.
const DIGITS: u8 = 3;

/// When a measurement ends.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// After this time.
    Time(Duration),
    /// After so many operations of all clients.
    Operations(u64),
}

/// What to run.
pub(super) struct Load<'a> {
    pub(super) workload: Workload,
    pub(super) distribution: Distribution,
    pub(super) clients: u32,
    pub(super) length: Length,
    pub(super) values: &'a Values,
    /// How many records there are: insertions add to it.
    pub(super) records: &'a AtomicU64,
    pub(super) seed: u64,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) time: Duration,
    /// Nanoseconds an operation.
    pub(super) latencies: Histogram<u64>,
    pub(super) failed: u64,
    /// Why the first failed.
    pub(super) failure: Option<String>,
}

impl Outcome {
    pub(super) fn operations_per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.time.as_secs_f64()
    }
}

/// Runs the load on the system.
pub(super) fn run(system: &dyn System, load: &Load<'_>) -> Result<Outcome, Fault> {
    let together = Barrier::new(load.clients as usize);
    let mut random = Random::new(load.seed);
    let workers: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..load.clients)
            .map(|number| {
                let mut random = random.fork();
                let together = &together;
                scope.spawn(move || {
                    let mut worked = None;
                    let mut waits = true;
                    let mut work = |client: &mut dyn Client| -> Result<(), Fault> {
                        let warm = warm(client, load, &mut random);
                        waits = false;
                        together.wait();
                        warm?;
                        worked = Some(Worker { load, number, random: random.fork() }.work(client));
                        Ok(())
                    };
                    let connected = system.connected(&mut work);
                    if waits {
                        // The others are not to wait for one that could not connect.
                        together.wait();
                    }
                    connected?;
                    worked.ok_or_else(|| Fault::from(Wrong("no connection".into())))
                })
            })
            .collect();
        let ended = |worker: std::thread::ScopedJoinHandle<'_, Result<Worked, Fault>>| {
            worker.join().unwrap_or_else(|_| Err(Wrong("a client panicked".into()).into()))
        };
        workers.into_iter().map(ended).collect::<Result<_, Fault>>()
    })?;
    let mut latencies = Histogram::new(DIGITS)?;
    let (mut failed, mut failure) = (0, None);
    let begun = workers.iter().map(|worked| worked.begun).min();
    let ended = workers.iter().map(|worked| worked.ended).max();
    for worked in workers {
        latencies.add(&worked.latencies)?;
        failed += worked.failed;
        failure = failure.or(worked.failure);
    }
    let time = begun.zip(ended).map_or(Duration::ZERO, |(begun, ended)| ended - begun);
    Ok(Outcome { time, latencies, failed, failure })
}

fn warm(client: &mut dyn Client, load: &Load<'_>, random: &mut Random) -> Result<(), Fault> {
    let records = load.records.load(Ordering::Relaxed);
    for _ in 0..WARMING {
        let bytes = client.read(random.below(records))?;
        if bytes != load.values.bytes {
            return Err(Wrong(format!("a value of {bytes} bytes instead of {}", load.values.bytes)).into());
        }
    }
    Ok(())
}

struct Worker<'a> {
    load: &'a Load<'a>,
    number: u32,
    random: Random,
}

struct Worked {
    begun: Instant,
    ended: Instant,
    latencies: Histogram<u64>,
    failed: u64,
    failure: Option<String>,
}

impl Worker<'_> {
    fn work(mut self, client: &mut dyn Client) -> Worked {
        let mut chooser = Chooser::new(self.load.distribution, self.load.records.load(Ordering::Relaxed));
        let mut latencies = Histogram::new(DIGITS).expect("a precision that there is");
        let (mut failed, mut failure) = (0, None);
        let begun = Instant::now();
        let (limit, share) = match self.load.length {
            Length::Time(limit) => (limit, u64::MAX),
            Length::Operations(all) => (Duration::MAX, all.div_ceil(self.load.clients.into())),
        };
        let mut now = begun;
        for _ in 0..share {
            if now - begun >= limit {
                break;
            }
            let operation = self.load.workload.next(&mut self.random);
            if let Err(why) = self.operate(client, operation, &mut chooser) {
                failed += 1;
                failure.get_or_insert_with(|| chain(&*why));
            }
            let before = std::mem::replace(&mut now, Instant::now());
            let latency = u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX);
            latencies.record(latency).expect("it grows");
        }
        Worked { begun, ended: now, latencies, failed, failure }
    }

    fn operate(
        &mut self,
        client: &mut dyn Client,
        operation: Operation,
        chooser: &mut Chooser,
    ) -> Result<(), Fault> {
        let load = self.load;
        let records = load.records.load(Ordering::Relaxed);
        match operation {
            Operation::Read => {
                let record = chooser.choose(&mut self.random, records);
                // The latest may be still on their way.
                if client.read(record)? == 0 && load.distribution != Distribution::Latest {
                    return Err(Wrong(format!("record {record} is missing")).into());
                }
            }
            Operation::Update => {
                let record = chooser.choose(&mut self.random, records);
                client.update(record, load.values.any(&mut self.random))?;
            }
            Operation::ReadModifyWrite => {
                let record = chooser.choose(&mut self.random, records);
                client.read(record)?;
                client.update(record, load.values.any(&mut self.random))?;
            }
            Operation::Scan => {
                let from = chooser.choose(&mut self.random, records);
                client.scan(from, 1 + self.random.below(LONGEST_SCAN))?;
            }
            Operation::Insert => {
                let record = load.records.fetch_add(1, Ordering::Relaxed);
                client.insert(record, load.values.any(&mut self.random))?;
            }
            Operation::Append { own_table } => {
                let log = if own_table { self.number } else { 0 };
                client.append(log, load.values.any(&mut self.random))?;
            }
        }
        Ok(())
    }
}
