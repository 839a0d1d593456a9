//! The job: objects of some 6 KiB as a checkpoint and small deltas, each under object id ++ commit timestamp.

use crate::engine::{Change, Engine, Result, Sync, open};
use crate::measure::{Better, Figure, bytes_written, disk_bytes, forget_pages, noise, peak_memory};
use fulmar_node::Random;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a checkpoint and of a delta.
const CHECKPOINT: usize = 6 << 10;
const DELTA: usize = 150;

/// Objects of the big data set, some 2 GB.
const OBJECTS: u64 = 300_000;

/// Runs of each timed workload; a run of the engine and a run of its peer take turns.
const RUNS: usize = 5;

const APPEND: &str = "append and fdatasync of the same bytes";

/// The key of an object's version at `timestamp`.
pub(crate) fn key(object: u64, timestamp: u64) -> Vec<u8> {
    [object.to_be_bytes(), timestamp.to_be_bytes()].concat()
}

/// The key of the one entry that every commit overwrites.
pub(crate) fn meta_key() -> Vec<u8> {
    b"\xff\xff\xff\xff\xff\xff\xff\xffm".to_vec()
}

/// Runs the workload called `name` on one engine in `directory`, in this process.
pub(crate) fn run(name: &str, engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    match name {
        "commit_1" => commits(engine, directory, name, 1, 100),
        "commit_16" => commits(engine, directory, name, 16, 100),
        "bulk" => bulk(engine, directory),
        "load" => load(engine, directory),
        "churn" => churn(engine, directory),
        "fill_and_die" => fill_and_die(engine, directory),
        "fill_and_close" => fill_and_close(engine, directory),
        "open" => reopen(engine, directory),
        _ => Err(format!("no workload {name:?}").into()),
    }
}

/// The workloads that `main` runs one after another, each in a process and a directory of its own.
pub(crate) const NAMES: &[&str] = &["commit_1", "commit_16", "bulk", "churn", "load"];

fn figure(engine: &str, what: &str, values: Vec<f64>, unit: &'static str, better: Better) -> Figure {
    Figure { name: format!("engines.{engine}.{what}"), values, unit, better, peer: "", note: String::new() }
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

fn megabytes(bytes: u64) -> f64 {
    float(bytes) / 1e6
}

fn memory(engine: &str, workload: &str) -> Result<Figure> {
    let peak = vec![megabytes(peak_memory()?)];
    Ok(figure(engine, &format!("{workload}.peak_memory"), peak, "MB", Better::Lower))
}

/// The floor under every durable commit: a file that grows by the bytes of the commit, synced.
struct Floor {
    file: File,
}

impl Floor {
    fn create(directory: &Path) -> Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(directory.join("floor"))? })
    }

    fn commit(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes)?;
        Ok(self.file.sync_data()?)
    }
}

/// Durable commits of `group` deltas and the meta entry, by one writer.
fn commits(engine: &str, directory: &Path, name: &str, group: u64, count: u64) -> Result<Vec<Figure>> {
    let database = open(engine, &directory.join("database"))?;
    let mut floor = Floor::create(directory)?;
    let mut random = Random::new(1);
    let mut ratios = Vec::new();
    let mut written = Vec::new();
    let mut rates = Vec::new();
    let mut timestamp = 0;
    for _ in 0..RUNS {
        let before = bytes_written()?;
        let started = Instant::now();
        for _ in 0..count {
            timestamp += 1;
            let mut batch: Vec<_> = (0..group)
                .map(|_| Change::Put(key(random.below(OBJECTS), timestamp), noise(&mut random, DELTA)))
                .collect();
            batch.push(Change::Put(meta_key(), timestamp.to_be_bytes().to_vec()));
            database.apply(batch, Sync::Now)?;
        }
        let ours = started.elapsed();
        written.push(float(bytes_written()? - before) / float(count) / 1024.0);
        let bytes = noise(&mut random, usize::try_from(group)? * (16 + DELTA) + 17);
        let started = Instant::now();
        for _ in 0..count {
            floor.commit(&bytes)?;
        }
        ratios.push(started.elapsed().as_secs_f64() / ours.as_secs_f64());
        rates.push(float(count) / ours.as_secs_f64());
    }
    let mut speed = figure(engine, name, ratios, "ratio", Better::Higher);
    speed.peer = APPEND;
    let mut rate = figure(engine, &format!("{name}.rate"), rates, "1/s", Better::Higher);
    rate.note = "an absolute time: not comparable between runs".into();
    let written = figure(engine, &format!("{name}.written"), written, "KiB", Better::Lower);
    Ok(vec![speed, rate, written, memory(engine, name)?])
}

/// 2,000 checkpoints in one synced batch.
fn bulk(engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    const BATCH: u64 = 2_000;
    let database = open(engine, &directory.join("database"))?;
    let mut floor = Floor::create(directory)?;
    let mut random = Random::new(2);
    let mut ratios = Vec::new();
    let mut rates = Vec::new();
    for run in 0..2 * RUNS as u64 {
        let values: Vec<_> = (0..BATCH).map(|_| noise(&mut random, CHECKPOINT)).collect();
        let bytes = values.concat();
        let batch = (0..BATCH).zip(values).map(|(object, value)| Change::Put(key(object, run), value)).collect();
        let started = Instant::now();
        database.apply(batch, Sync::Now)?;
        let ours = started.elapsed();
        let started = Instant::now();
        floor.commit(&bytes)?;
        ratios.push(started.elapsed().as_secs_f64() / ours.as_secs_f64());
        rates.push(megabytes(bytes.len() as u64) / ours.as_secs_f64());
    }
    let mut speed = figure(engine, "bulk", ratios, "ratio", Better::Higher);
    speed.peer = APPEND;
    let rate = figure(engine, "bulk.rate", rates, "MB/s", Better::Higher);
    Ok(vec![speed, rate, memory(engine, "bulk")?])
}

/// Writes the big data set: for every object a checkpoint and up to ten deltas after it.
fn fill(database: &dyn Engine, objects: u64) -> Result<u64> {
    let mut random = Random::new(3);
    let mut bytes = 0;
    for first in (0..objects).step_by(500) {
        let mut batch = Vec::new();
        for object in first..(first + 500).min(objects) {
            batch.push(Change::Put(key(object, 1), noise(&mut random, CHECKPOINT)));
            for delta in 0..random.below(11) {
                batch.push(Change::Put(key(object, 2 + delta), noise(&mut random, DELTA)));
            }
        }
        for change in &batch {
            if let Change::Put(key, value) = change {
                bytes += (key.len() + value.len()) as u64;
            }
        }
        database.apply(batch, Sync::Later)?;
    }
    database.apply(vec![Change::Put(meta_key(), bytes.to_be_bytes().to_vec())], Sync::Now)?;
    Ok(bytes)
}

/// Loads of random objects from 2 GB: with the files in the kernel's page cache, and without.
fn load(engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    let data = directory.join("database");
    let database = open(engine, &data)?;
    let filling = Instant::now();
    let bytes = fill(&*database, OBJECTS)?;
    let filled = figure(
        engine,
        "fill.rate",
        vec![megabytes(bytes) / filling.elapsed().as_secs_f64()],
        "MB/s",
        Better::Higher,
    );
    let fill_memory = memory(engine, "fill")?;
    drop(database);
    let space = vec![float(disk_bytes(&data)?) / float(bytes)];

    let flat = File::options().read(true).write(true).create(true).truncate(true).open(directory.join("floor"))?;
    let mut random = Random::new(4);
    for _ in 0..bytes / (1 << 20) {
        (&flat).write_all(&noise(&mut random, 1 << 20))?;
    }
    let mut figures = vec![filled, fill_memory, figure(engine, "fill.space", space, "ratio", Better::Lower)];
    for (what, count, cold) in [("load_warm", 20_000, false), ("load_cold", 1_000, true)] {
        let mut ratios = Vec::new();
        let mut times = Vec::new();
        for _ in 0..3 {
            let database = open(engine, &data)?;
            let mut values = Vec::new();
            let mut piece = vec![0; CHECKPOINT];
            // What the first look at any file costs is no part of a load.
            for _ in 0..100 {
                database.load(&random.below(OBJECTS).to_be_bytes(), &mut values)?;
            }
            if cold {
                forget_pages(directory)?;
            }
            let started = Instant::now();
            for _ in 0..count {
                values.clear();
                let entries = database.load(&random.below(OBJECTS).to_be_bytes(), &mut values)?;
                if entries == 0 || values.len() != CHECKPOINT + (entries - 1) * DELTA {
                    return Err("an object came back with other entries than were stored".into());
                }
            }
            let ours = started.elapsed();
            let started = Instant::now();
            for _ in 0..count {
                flat.read_exact_at(&mut piece, random.below(bytes - (2 << 20)))?;
            }
            ratios.push(started.elapsed().as_secs_f64() / ours.as_secs_f64());
            times.push(ours.as_secs_f64() * 1e6 / float(count));
        }
        let mut speed = figure(engine, what, ratios, "ratio", Better::Higher);
        speed.peer = "pread of 6 KiB at random from a flat file";
        figures.push(speed);
        figures.push(figure(engine, &format!("{what}.time"), times, "µs", Better::Lower));
    }
    figures.push(memory(engine, "load")?);
    Ok(figures)
}

/// Ten rounds over 20,000 objects: five deltas each, then a checkpoint that replaces all that came before.
fn churn(engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    const LIVE: u64 = 20_000;
    const GROUP: u64 = 100;
    let data = directory.join("database");
    let database = open(engine, &data)?;
    let mut random = Random::new(5);
    let mut given = 0_u64;
    let mut peak = 0;
    let before = bytes_written()?;
    let started = Instant::now();
    for round in 0..10 {
        let base = round * 10;
        for first in (0..LIVE).step_by(GROUP as usize) {
            for delta in 1..=5 {
                let group = first..first + GROUP;
                let batch =
                    group.map(|object| Change::Put(key(object, base + delta), noise(&mut random, DELTA))).collect();
                given += GROUP * (16 + DELTA) as u64;
                database.apply(batch, Sync::Later)?;
            }
        }
        for first in (0..LIVE).step_by(GROUP as usize) {
            let mut batch = Vec::new();
            for object in first..first + GROUP {
                batch.push(Change::Put(key(object, base + 10), noise(&mut random, CHECKPOINT)));
                batch.extend((1..=5).map(|delta| Change::Remove(key(object, base + delta))));
                if round > 0 {
                    batch.push(Change::Remove(key(object, base)));
                }
            }
            given += GROUP * (16 * 7 + CHECKPOINT) as u64;
            database.apply(batch, Sync::Later)?;
        }
        database.apply(vec![Change::Put(meta_key(), vec![0; 8])], Sync::Now)?;
        peak = peak.max(disk_bytes(&data)?);
    }
    let elapsed = started.elapsed();
    let mut values = Vec::new();
    for object in 0..1_000 {
        values.clear();
        let entries = database.load(&(object * 20_u64).to_be_bytes(), &mut values)?;
        if entries != 1 || values.len() != CHECKPOINT {
            return Err(format!("object {} has {entries} entries instead of a checkpoint", object * 20).into());
        }
    }
    drop(database);
    let written = bytes_written()? - before;
    let live = float(LIVE * (16 + CHECKPOINT) as u64);
    let ratio = |value: u64| vec![float(value) / live];
    Ok(vec![
        figure(engine, "churn.peak_space", ratio(peak), "ratio", Better::Lower),
        figure(engine, "churn.space", ratio(disk_bytes(&data)?), "ratio", Better::Lower),
        figure(engine, "churn.written", vec![float(written) / float(given)], "ratio", Better::Lower),
        figure(engine, "churn.rate", vec![megabytes(given) / elapsed.as_secs_f64()], "MB/s", Better::Higher),
        memory(engine, "churn")?,
    ])
}

/// Objects that the database of the opening test holds: about 120 MB.
const OPENED: u64 = 20_000;

fn fill_and_die(engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    let database = open(engine, directory)?;
    fill(&*database, OPENED)?;
    #[allow(unsafe_code, reason = "the standard library cannot send SIGKILL to itself")]
    // SAFETY: a signal to the own process; nothing runs after it.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL)
    };
    Err("survived SIGKILL".into())
}

fn fill_and_close(engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    let database = open(engine, directory)?;
    fill(&*database, OPENED)?;
    let started = Instant::now();
    drop(database);
    Ok(vec![milliseconds(engine, "close.time", started.elapsed())])
}

fn reopen(engine: &str, directory: &Path) -> Result<Vec<Figure>> {
    let started = Instant::now();
    let database = open(engine, directory)?;
    let time = started.elapsed();
    let mut values = Vec::new();
    if database.load(&meta_key(), &mut values)? != 1 {
        return Err("the last synced entry is gone".into());
    }
    Ok(vec![milliseconds(engine, "open.time", time), memory(engine, "open")?])
}

fn milliseconds(engine: &str, what: &str, time: Duration) -> Figure {
    figure(engine, what, vec![time.as_secs_f64() * 1e3], "ms", Better::Lower)
}
