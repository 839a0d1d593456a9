//! A process that commits is killed, again and again.
//!
//! It carries out the transactions of [`workload`], and acknowledges each on a pipe. After the kill the database must hold
//! what was acknowledged, of each thread at most one transaction more, and nothing in half.

use crate::database;
use crate::workload::{self, Acknowledged, Error};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Commits on and on, and acknowledges each transaction on standard output as `THREAD N`. The process ends when that is
/// closed.
///
/// # Errors
/// What SQLite answers.
pub fn work(name: &str) -> rusqlite::Result<()> {
    workload::work(name, None, &|thread, n| {
        let mut output = io::stdout().lock();
        if writeln!(output, "{thread} {n}").and_then(|()| output.flush()).is_err() {
            std::process::exit(0);
        }
    })
}

/// Lets `worker`, a program that calls [`work`] with its last argument, commit in a new database in `directory`, and
/// kills it after a different number of commits in each of `rounds` rounds. Returns how many commits there were.
///
/// # Errors
/// The first breach.
pub fn run(worker: &mut dyn FnMut() -> Command, directory: &Path, rounds: u32) -> Result<i64, Error> {
    let name = database::under_test(directory);
    let mut acknowledged = Acknowledged::default();
    for round in 0..rounds {
        let mut child = worker().arg(&name).stdout(Stdio::piped()).spawn()?;
        let mut lines = child.stdout.take().map(|out| BufReader::new(out).lines());
        let patience = round.wrapping_mul(2_654_435_761) % 97;
        for _ in 0..patience {
            match lines.as_mut().and_then(Iterator::next) {
                Some(line) => note(&line?, &mut acknowledged),
                None => return Err(Error::Breach(format!("round {round}: the process ended by itself"))),
            }
        }
        child.kill()?;
        child.wait()?;
        // What it said before it died counts; a line cut short does not.
        for line in lines.into_iter().flatten() {
            note(&line?, &mut acknowledged);
        }
        workload::check(&database::open(&name)?, acknowledged.by_thread()).map_err(|error| match error {
            Error::Breach(what) => Error::Breach(format!("round {round}: {what}")),
            other => other,
        })?;
    }
    Ok(acknowledged.by_thread().iter().sum())
}

fn note(line: &str, acknowledged: &mut Acknowledged) {
    let numbers = line.split_once(' ').map(|(thread, n)| (thread.parse(), n.parse()));
    if let Some((Ok(thread), Ok(n))) = numbers {
        acknowledged.note(thread, n);
    }
}
