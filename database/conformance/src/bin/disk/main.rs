//! Databases on disks that lose power and calls that fail: `disk states --count 1000`. A program of its own, because it
//! takes the place of the C library's functions that change files.

mod interpose;
mod recorder;

use fulmar_conformance::disk::states;
use fulmar_conformance::{database, workload};
use std::error::Error;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: disk states --count N [--seed SEED] [--lying]   power cuts
       disk replay TRACE STATE [--lying]               what a power cut left, again";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["states", "--count", count] => states(count, "1", false),
        ["states", "--count", count, "--lying"] => states(count, "1", true),
        ["states", "--count", count, "--seed", seed] => states(count, seed, false),
        ["replay", trace, state] => replay(trace, state, false),
        ["replay", trace, state, "--lying"] => replay(trace, state, true),
        // What `states` starts and records.
        ["work", root, trace, transactions] => work(root, trace, transactions),
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

fn work(root: &str, trace: &str, transactions: &str) -> Outcome {
    let root = Path::new(root);
    let trace = OpenOptions::new().append(true).open(trace)?;
    recorder::watch(root, trace, None)?;
    let name = database::under_test(root);
    Ok(workload::work(&name, Some(transactions.parse()?), &recorder::acknowledge)?)
}
