//! The checks of this crate for as long as one likes: `soak kill --rounds 1000`, `soak transfers --rounds 100000`.

use fulmar_conformance::{chaos, database, fuzz, hostile, kill, memory, slt, small, transfers};
use fulmar_services::Application;
use std::borrow::Cow;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: soak kill --rounds N
       soak transfers --rounds N
       soak memory --cache MEGABYTES
       soak small [--bounded]
       soak fuzz --statements N [--seed SEED]
       soak slt [--files BEGINNING]
       soak hostile [databases|replicas|timestamps|locks|discovery|openflow|ovsdb] --seconds N --seed SEED   the last two as root
       soak chaos --protocol PROTOCOL|none --events N --seed SEED --logs DIRECTORY [--only KIND,…] [--hold MILLISECONDS]
                  [--pauses bounded]   as root
With FULMAR_ON_SERVERS=N, the databases of transfers, fuzz and slt are on N servers.";

/// What `hostile` attacks.
const ATTACKED: [&str; 7] =
    ["databases", "replicas", "timestamps", "locks", "discovery", "openflow", "ovsdb"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["kill", "--rounds", rounds] => rounds.parse().map_err(Into::into).and_then(kills),
        ["transfers", "--rounds", rounds] => rounds.parse().map_err(Into::into).and_then(transfer),
        // What `kill` starts and kills.
        ["work", name] => kill::work(name).map_err(Into::into),
        ["memory", "--cache", megabytes] => megabytes.parse().map_err(Into::into).and_then(memory),
        ["small"] => cost(false),
        ["small", "--bounded"] => cost(true),
        ["fuzz", "--statements", statements] => differ(statements, "0"),
        ["fuzz", "--statements", statements, "--seed", seed] => differ(statements, seed),
        ["slt"] => scripts(""),
        ["slt", "--files", beginning] => scripts(beginning),
        ["hostile", "--seconds", seconds, "--seed", seed] => {
            ATTACKED.into_iter().try_for_each(|what| attack(what, seconds, seed))
        }
        ["hostile", what, "--seconds", seconds, "--seed", seed] if ATTACKED.contains(what) => {
            attack(what, seconds, seed)
        }
        ["chaos", "--protocol", protocol, "--events", events, "--seed", seed, "--logs", logs, given @ ..] => {
            endure([protocol, events, seed, logs], given)
        }
        // What `chaos` starts: the run itself, and its clients.
        ["chaos-apart", protocol, events, seed, logs, given @ ..] => {
            endure_apart([protocol, events, seed, logs], given)
        }
        ["client", directory, number, seed] => work(directory, number, seed),
        // What `memory` starts and measures.
        ["fill", name, bytes] => {
            bytes.parse().map_err(Into::into).and_then(|bytes| memory::work(name, bytes).map_err(Into::into))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn kills(rounds: u32) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let program = std::env::current_exe()?;
    let mut worker = || {
        let mut command = Command::new(&program);
        command.arg("work");
        command
    };
    let commits = kill::run(&mut worker, directory.path(), rounds)?;
    println!("{rounds} kills, {commits} commits, none that was acknowledged lost, none in half");
    Ok(())
}

fn differ(statements: &str, seed: &str) -> Result<(), Box<dyn Error>> {
    let tally = fuzz::run(statements.parse()?, seed.parse()?, |sql| Cow::Borrowed(sql))?;
    println!(
        "{} statements, {} of them without an error, each did the same on both sides; of {} episodes {} ended early at \
         the largest rowid",
        tally.statements, tally.succeeded, tally.episodes, tally.by_chance
    );
    Ok(())
}

fn memory(megabytes: u64) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let program = std::env::current_exe()?;
    let mut worker = || {
        let mut command = Command::new(&program);
        command.arg("fill");
        command
    };
    let [bounded, unbounded] = memory::run(&mut worker, directory.path(), megabytes << 20)?;
    println!(
        "{} MB at most with a cache of {megabytes} MB for {} MB of data, {} MB with a cache for all",
        bounded.0 >> 20,
        10 * megabytes,
        unbounded.0 >> 20,
    );
    Ok(())
}

fn cost(is_bounded: bool) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let program = std::env::current_exe()?.with_file_name("fulmar");
    let costs = small::run(&program, directory.path())?;
    let small::Costs { openings, memory, processor } = costs;
    let [small, large, remote] = openings.map(|took| took.as_secs_f64() * 1_000.0);
    println!(
        "open, SELECT, close: {small:.2} ms, {large:.2} ms with 100 MB, {remote:.2} ms on servers; \
         three servers of 30 databases: at most {} MB, {:.2} % of a processor while idle",
        memory >> 20,
        100.0 * processor
    );
    if is_bounded { Ok(costs.judge()?) } else { Ok(()) }
}

fn transfer(rounds: u32) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let moved = transfers::run(&database::under_test(directory.path()), 16, rounds)?;
    println!("{moved} transfers by 16 threads, none lost, every snapshot whole");
    Ok(())
}

fn attack(what: &str, seconds: &str, seed: &str) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let program = std::env::current_exe()?.with_file_name("fulmar");
    let (path, length, number) = (directory.path(), Duration::from_secs(seconds.parse()?), seed.parse()?);
    let tally = match what {
        "timestamps" => hostile::services::run(&program, path, Application::Timestamps, length, number),
        "locks" => hostile::services::run(&program, path, Application::Locks, length, number),
        "discovery" => hostile::discovery::run(length, number),
        "openflow" => hostile::switch::openflow(&program, path, length, number),
        "ovsdb" => hostile::switch::ovsdb(&program, path, length, number),
        "replicas" => hostile::database::run_replicated(&program, path, length, number),
        _ => hostile::database::run(&program, path, length, number),
    };
    let tally = tally.map_err(|failure| {
        format!("{what}, seed {seed}, data and log in {}: {failure}", directory.keep().display())
    })?;
    println!(
        "{what}: {} frames on {} connections; {} times a client was served beside them, each within {:.2} s; {} MB of memory more at the most",
        tally.frames,
        tally.connections,
        tally.commits,
        tally.longest.as_secs_f64(),
        tally.growth >> 20,
    );
    Ok(())
}

fn endure([protocol, events, seed, logs]: [&str; 4], given: &[&str]) -> Result<(), Box<dyn Error>> {
    // Before anything is made for it.
    protocol.parse::<chaos::plan::Replication>()?;
    std::fs::create_dir_all(logs)?;
    println!("{protocol}: {events} events, seed {seed}, logs in {logs}");
    let logs = std::fs::canonicalize(logs)?.to_string_lossy().into_owned();
    let arguments = [&["chaos-apart", protocol, events, seed, &logs], given].concat();
    let status = chaos::apart::again(&arguments).map_err(|failure| failure as Box<dyn Error>)?;
    if status.success() { Ok(()) } else { Err(format!("{protocol}, seed {seed}: {status}").into()) }
}

fn endure_apart([protocol, events, seed, logs]: [&str; 4], given: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut plan = chaos::run::Plan {
        events: events.parse()?,
        seed: seed.parse()?,
        given: chaos::plan::Given { replication: protocol.parse()?, ..Default::default() },
        is_bounded: false,
        logs: logs.into(),
    };
    for option in given.chunks(2) {
        match option {
            ["--only", kinds] => plan.given.kinds = Some((*kinds).into()),
            ["--pauses", "bounded"] => plan.is_bounded = true,
            ["--hold", hold] => plan.given.hold = Some(Duration::from_millis(hold.parse()?)),
            _ => return Err(USAGE.into()),
        }
    }
    chaos::run::run(&plan).map_err(|failure| failure as _)
}

fn work(directory: &str, number: &str, seed: &str) -> Result<(), Box<dyn Error>> {
    let (number, seed) = (number.parse()?, seed.parse()?);
    chaos::client::work(directory, number, seed).map_err(|failure| failure as _)
}

/// The sqllogictest files whose names begin so, each on a new database.
fn scripts(beginning: &str) -> Result<(), Box<dyn Error>> {
    let folder = slt::folder().ok_or("no folder ../shared/sqllogictest beside the repository")?;
    let (mut records, mut failures) = (0, 0);
    for file in slt::files(&folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(beginning) {
            continue;
        }
        let directory = tempfile::tempdir()?;
        let start = Instant::now();
        match slt::run_file(&file, &database::under_test(directory.path())) {
            Ok(passed) => {
                println!("{name}: {} records in {} s", passed.records, start.elapsed().as_secs());
                records += passed.records;
            }
            Err(error) => {
                eprintln!("{error}");
                failures += 1;
            }
        }
    }
    println!("{records} records passed");
    if failures == 0 { Ok(()) } else { Err(format!("{failures} files failed").into()) }
}
