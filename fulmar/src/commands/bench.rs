//! `fulmar bench`: figures, for people and for programs.

mod replication;
mod scaling;
mod switch;
mod ycsb;

pub use replication::Replication;
pub use scaling::Scaling;
pub use switch::Switch;
pub use ycsb::Ycsb;

use crate::ending::exit_code;
use clap::{Args, Subcommand};
use fulmar_bench::{Figure, machine, sql};
use indicatif::style::TemplateError;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `fulmar bench` measures.
#[derive(Subcommand)]
pub enum Bench {
    /// Single SQL operations, beside SQLite's own B-tree
    #[command(after_help = "Example:\n  fulmar bench sql --directory /var/tmp --json")]
    Sql(Sql),
    /// YCSB on a server, beside Redis, PostgreSQL and rqlite
    #[command(after_help = ycsb::EXAMPLES)]
    Ycsb(Ycsb),
    /// YCSB B on 1 to 64 servers in the simulator
    #[command(after_help = scaling::EXAMPLES)]
    Scaling(Scaling),
    /// Replication protocols on loopback, beside a bare ping-pong and etcd
    #[command(after_help = replication::EXAMPLES)]
    Replication(Replication),
    /// The virtual switch between two hosts, beside Open vSwitch, and its classifier; needs root
    #[command(after_help = switch::EXAMPLES)]
    Switch(Switch),
}

/// Options of `fulmar bench sql`.
#[derive(Args)]
pub struct Sql {
    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Where to make the databases, on the disk to be measured; they are removed at the end
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// How often to measure both sides in turn
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Rows in the table
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(2_000..))]
    rows: u32,
    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs the benchmark and prints its figures.
pub fn run(bench: Bench) -> ExitCode {
    let done = match bench {
        Bench::Sql(sql) => run_sql(sql),
        Bench::Ycsb(ycsb) => ycsb::run(&ycsb),
        Bench::Scaling(scaling) => scaling::run(&scaling),
        Bench::Replication(replication) => replication::run(&replication),
        Bench::Switch(switch) => switch::run(&switch),
    };
    exit_code(done)
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.01..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0.01 to 86400".into()) }
}

/// Ratios beside their targets, for people.
fn figures(figures: &[Figure]) -> String {
    let mut text = String::new();
    if !figures.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{:<50} {:>7} {:>7} {:>7} {:>7}  peer", "", "ratio", "min", "max", "target");
    }
    for f in figures {
        let _ = writeln!(
            text,
            "{:<50} {:>7.2} {:>7.2} {:>7.2} {:>7}  {}\n    {}",
            f.figure,
            f.value,
            f.min,
            f.max,
            or_nothing(f.target, 2),
            f.peer,
            f.note
        );
    }
    text
}

/// A number with so many digits after the point, or an empty place.
pub(crate) fn or_nothing(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(String::new, |number| format!("{number:.digits$}"))
}

/// Prints what was measured, and its ratios: a JSON object a line, or what `tables` makes of them.
pub(crate) fn print(
    is_json: bool,
    measured: &[impl Serialize],
    figures: &[Figure],
    tables: impl FnOnce() -> String,
) -> Result<(), serde_json::Error> {
    if is_json {
        for measured in measured {
            println!("{}", serde_json::to_string(measured)?);
        }
        figures.iter().for_each(|figure| println!("{}", figure.to_json()));
    } else {
        print!("{}", tables());
    }
    Ok(())
}

/// Whoever asks for a figure that is not there is told so.
pub(crate) fn found(only: Option<&str>, is_empty: bool) -> Result<(), String> {
    match only {
        Some(only) if is_empty => Err(format!(
            "no figure has {only:?} in its name; without --only all are measured, with their names"
        )),
        _ => Ok(()),
    }
}

/// Hands `work` what it tells of its progress: how much of how much is done, and what comes next.
pub(crate) fn with_progress<T>(
    work: impl FnOnce(&mut dyn FnMut(usize, usize, &str)) -> T,
) -> Result<T, TemplateError> {
    let progress = ProgressBar::hidden();
    let visible = stderr().is_terminal();
    if visible {
        progress.set_draw_target(ProgressDrawTarget::stderr());
        progress.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left: {msg}")?);
    }
    let done = work(&mut |done, all, what| {
        progress.set_length(all as u64);
        progress.set_position(done as u64);
        progress.set_message(what.to_owned());
        if !visible {
            eprintln!("{what}");
        }
    });
    progress.finish_and_clear();
    Ok(done)
}

fn run_sql(sql: Sql) -> Result<(), Box<dyn Error>> {
    let options = sql::Options {
        directory: sql.directory,
        runs: usize::from(sql.runs),
        rows: i64::from(sql.rows),
        only: sql.only,
    };
    let figures = sql::run(&options, |figure| eprintln!("measuring {figure}"))?;
    found(options.only.as_deref(), figures.is_empty())?;
    if sql.json {
        figures.iter().for_each(|figure| println!("{}", figure.to_json()));
    } else {
        print_table(&figures);
    }
    Ok(())
}

fn print_table(figures: &[Figure]) {
    println!("On {}; above 1, Fulmar is the faster.\n", machine());
    println!(
        "{:<34} {:>7} {:>7} {:>7} {:>7}  {:>12} {:>12}",
        "", "ratio", "min", "max", "target", "Fulmar ns", "SQLite ns"
    );
    for f in figures {
        println!(
            "{:<34} {:>7.2} {:>7.2} {:>7.2} {:>7}  {:>12} {:>12}",
            f.figure,
            f.value,
            f.min,
            f.max,
            or_nothing(f.target, 2),
            or_nothing(f.fulmar_nanoseconds, 0),
            or_nothing(f.peer_nanoseconds, 0)
        );
    }
}
