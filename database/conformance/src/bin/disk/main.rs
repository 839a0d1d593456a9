//! Databases on disks that lose power and calls that fail: `disk states --count 1000`. A program of its own, because it
//! takes the place of the C library's functions that change files.

mod interpose;
mod recorder;

use fulmar_conformance::disk::failures::{self, Fault, Nature};
use fulmar_conformance::disk::states;
use fulmar_conformance::{database, workload};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str = "\
usage: disk states --count N [--seed SEED]      power cuts
       disk states --count N --lying            on a disk that answers that it has stored what it has not
       disk replay TRACE STATE [--lying]        what a power cut left, again
       disk failures --rounds N [--seed SEED]   calls that fail";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["states", "--count", count] => states(count, "1", false),
        ["states", "--count", count, "--lying"] => states(count, "1", true),
        ["states", "--count", count, "--seed", seed] => states(count, seed, false),
        ["replay", trace, state] => replay(trace, state, false),
        ["replay", trace, state, "--lying"] => replay(trace, state, true),
        ["failures", "--rounds", rounds] => failures(rounds, "1"),
        ["failures", "--rounds", rounds, "--seed", seed] => failures(rounds, seed),
        // What `states` and `failures` start and record.
        ["work", root, trace, transactions] => work(root, trace, transactions),
        ["endure", root, trace, transactions, nature, first, calls] => {
            endure(root, trace, transactions, [nature, first, calls])
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

type Outcome = Result<(), Box<dyn Error>>;

fn states(count: &str, seed: &str, lies: bool) -> Outcome {
    let program = std::env::current_exe()?;
    let mut worker = || {
        let mut command = Command::new(&program);
        command.arg("work");
        command
    };
    let plan = states::Plan { states: count.parse()?, seed: seed.parse()?, lies };
    let seen = states::run(&mut worker, plan)?;
    println!(
        "{} power cuts among {} operations, no acknowledged commit lost, none in half",
        seen.states, seen.operations
    );
    Ok(())
}

fn replay(trace: &str, state: &str, lies: bool) -> Outcome {
    Ok(states::replay(Path::new(trace), state.parse()?, lies)?)
}

fn failures(rounds: &str, seed: &str) -> Outcome {
    let program = std::env::current_exe()?;
    let mut worker = || {
        let mut command = Command::new(&program);
        command.arg("endure");
        command
    };
    let plan = failures::Plan { rounds: rounds.parse()?, seed: seed.parse()? };
    let seen = failures::run(&mut worker, plan)?;
    println!(
        "{} processes, calls failed or fell short in {}, {} statements refused, no acknowledged commit lost, none in half",
        seen.rounds, seen.struck, seen.refused
    );
    Ok(())
}

fn work(root: &str, trace: &str, transactions: &str) -> Outcome {
    end_if_it_hangs();
    recorder::watch(Path::new(root), appending(trace)?, None)?;
    let name = database::under_test(Path::new(root));
    Ok(workload::work(&name, Some(transactions.parse()?), &recorder::acknowledge)?)
}

fn endure(root: &str, trace: &str, transactions: &str, [nature, first, calls]: [&str; 3]) -> Outcome {
    end_if_it_hangs();
    let nature = Nature::named(nature).ok_or_else(|| format!("no such fault: {nature}"))?;
    let fault = Fault { nature, first: first.parse()?, calls: calls.parse()? };
    recorder::watch(Path::new(root), appending(trace)?, Some(fault))?;
    let name = database::under_test(Path::new(root));
    let report = failures::endure(&name, transactions.parse()?, &recorder::acknowledge, &recorder::heal)?;
    println!("{report}");
    Ok(())
}

fn appending(trace: &str) -> io::Result<File> {
    OpenOptions::new().append(true).open(trace)
}

/// What takes so long waits for something that will not come.
fn end_if_it_hangs() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        eprintln!("not done after two minutes");
        std::process::abort();
    });
}
