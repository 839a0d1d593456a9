//! Early-stopping agreement against adversaries in bulk: every message of one liar of four, random and composed plans, and searches.
//!
//! `soak exhaustive PARTS`, `soak random PERCENT` and `soak hunt PERCENT` run one part in so many, or so much of the whole;
//! `soak replay N SEED` runs the one plan of a seed of `random`. Exit status: 0 if all held, 1 if something broke, with how to find it again, 2 if
//! asked for something else.

use fulmar_byzantine::Decision;
use fulmar_byzantine::adversaries::Setting;
use fulmar_byzantine::runs::{EarlyStopping, Tally, campaign, exhaustive, hunt};
use std::env::args;
use std::process::ExitCode;

/// What processes begin with; the first is the default.
const VALUES: [Decision<u8>; 3] = [Decision::Bottom, Decision::Value(1), Decision::Value(2)];
/// Numbers of processes, and how many runs of all strategies each gets.
const RANDOM: [(usize, u64); 14] = [
    (4, 250_000),
    (5, 100_000),
    (6, 100_000),
    (7, 250_000),
    (8, 100_000),
    (9, 100_000),
    (10, 150_000),
    (13, 4_000),
    (16, 2_500),
    (19, 1_500),
    (22, 1_000),
    (25, 600),
    (28, 400),
    (31, 300),
];
/// Numbers of processes, how many searches each gets, and of how many plans.
const HUNTS: [(usize, u64, usize); 10] = [
    (4, 20, 1_000),
    (7, 20, 1_000),
    (10, 20, 500),
    (13, 10, 200),
    (16, 5, 100),
    (19, 3, 100),
    (22, 2, 50),
    (25, 1, 50),
    (28, 1, 50),
    (31, 1, 50),
];

fn main() -> ExitCode {
    let words: Vec<String> = args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let numbers: Option<Vec<u64>> = words.iter().skip(1).map(|word| word.parse().ok()).collect();
    let held = match (words.first().copied(), numbers.as_deref()) {
        (Some("exhaustive"), Some(&[parts])) if parts > 0 => exhaust(parts),
        (Some("random"), Some(&[percent])) => random(percent),
        (Some("hunt"), Some(&[percent])) => hunts(percent),
        (Some("replay"), Some(&[n, seed])) if (4..=31).contains(&n) => replay(n, seed),
        _ => {
            eprintln!("soak exhaustive PARTS | random PERCENT | hunt PERCENT | replay N SEED");
            return ExitCode::from(2);
        }
    };
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All that one of four can say, or one part in so many of that.
fn exhaust(parts: u64) -> bool {
    let setting = Setting::optimal(4, VALUES.into());
    let protocol = EarlyStopping::default();
    let mut runs = 0;
    let mut stands_for = 0;
    for liar in 0..4 {
        let messages = [1, 2].map(|round| protocol.every_message(&setting, liar, round));
        match exhaustive(&protocol, &setting, liar, &messages, (0, parts)) {
            Ok(coverage) => {
                runs += coverage.runs;
                stands_for += coverage.stands_for;
            }
            Err(found) => {
                println!("{found:#?}");
                return false;
            }
        }
    }
    println!("n = 4, t = 1: {runs} runs, which stand for {stands_for}; nothing broke");
    true
}

fn random(percent: u64) -> bool {
    let each = |n, runs: u64, tally: &mut Tally<_>| {
        campaign(&EarlyStopping::default(), &setting(n), 0..(runs * percent).div_ceil(100), tally);
    };
    RANDOM.iter().fold(true, |held, &(n, runs)| report(n, |tally| each(n, runs, tally)) && held)
}

fn hunts(percent: u64) -> bool {
    let each = |n, seeds: u64, tries, tally: &mut Tally<_>| {
        hunt(&EarlyStopping::default(), &setting(n), 0..seeds * percent / 100, tries, tally);
    };
    HUNTS
        .iter()
        .fold(true, |held, &(n, seeds, tries)| report(n, |tally| each(n, seeds, tries, tally)) && held)
}

fn replay(n: u64, seed: u64) -> bool {
    let n = usize::try_from(n).expect("it is at most 31");
    report(n, |tally| campaign(&EarlyStopping::default(), &setting(n), seed..seed + 1, tally))
}

fn setting(n: usize) -> Setting<Decision<u8>> {
    Setting::optimal(n, VALUES.into())
}

/// Prints what came of runs with `n` processes; whether nothing broke.
fn report(n: usize, run: impl FnOnce(&mut Tally<Decision<u8>>)) -> bool {
    let mut tally = Tally::default();
    run(&mut tally);
    let most = tally.most.get(&n).copied().unwrap_or_default();
    println!(
        "n = {n}: {} runs, {} broken; at most {} nodes, {} bytes in a message",
        tally.runs,
        tally.failures.len(),
        most.most_nodes,
        most.longest_message
    );
    let rounds: Vec<String> = tally.rounds.iter().map(|((_, f), rounds)| format!("{f}: {rounds}")).collect();
    println!("  last rounds by how many lie: {}", rounds.join(", "));
    tally.failures.iter().for_each(|failure| print!("{failure}"));
    tally.failures.is_empty()
}
