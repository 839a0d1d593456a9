//! A run: a cluster, its clients, faults one after the other, and a verdict.

use super::check::{self, Final, Row, check};
use super::client::{self, Meeting, SLOTS};
use super::cluster::{Cluster, PATIENCE};
use super::history::{Event, Write};
use super::plan::{self, Fault, Replication, SERVERS, Step};
use super::stalls::Stalls;
use super::waits::{Acknowledged, Pauses};
use super::{Failure, apart, now, output, replicas};
use crate::database;
use fulmar_locks::Mutex;
use rusqlite::Connection;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many faults.
    pub events: usize,
    /// From which they follow.
    pub seed: u64,
    /// But for this, and how servers agree.
    pub given: plan::Given,
    /// Whether the pauses that are promised are part of the verdict: on a machine that does nothing else.
    pub is_bounded: bool,
    /// Where the servers' logs and the history are left.
    pub logs: PathBuf,
}

/// How long clients may take to end: more than a statement's limit.
const ENDING: Duration = Duration::from_secs(60);
/// Between faults, so that pauses are not one another's.
const CALM: Duration = Duration::from_millis(300);
/// Without clients, until all replicas have heard of all.
const SETTLING: Duration = Duration::from_secs(2);

/// Does it, in namespaces of this process's own.
///
/// # Errors
/// Violations, writers that do not come back, or what kept the run from going on.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    apart::settle()?;
    let replication = plan.given.replication;
    let steps = plan::draw(plan.seed, plan.events, &plan.given);
    if steps.len() < plan.events {
        return Err("there is no such kind of fault: docs/server.md shows a table of them".into());
    }
    let directory = plan.logs.join("run");
    std::fs::create_dir_all(&directory)?;
    output(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&directory))?;
    let mut cluster = Cluster::start(&directory, &plan.logs, replication)?;
    client::prepare(&database::open(&cluster.name())?)?;
    let clients = Clients::start(plan, &directory)?;
    let (mut pauses, stalls) = (Pauses::default(), Stalls::watch());
    let endured = steps.into_iter().enumerate().try_for_each(|(number, step)| {
        endure(&mut cluster, &clients, number + 1, step, &mut pauses, &stalls)
    });
    let told = clients.end(&Meeting::at(&directory));
    report(replication, &told.acknowledged, &pauses);
    if let Err(why) = endured {
        leave(&mut cluster, &plan.logs)?;
        return Err(why);
    }
    if let Some(line) = told.unread {
        return Err(format!("a client tells what nobody understands: {line}").into());
    }
    let state = read(&cluster, read_all)?;
    let mut problems = if replication == Replication::None {
        read(&cluster, problems)?
    } else {
        problems_of_all(&mut cluster)?
    };
    thread::sleep(SETTLING);
    problems.extend(replicas::differences(&leave(&mut cluster, &plan.logs)?)?);
    problems.iter().for_each(|problem| println!("VIOLATION {problem}"));
    let violations = check(&told.history, &state);
    for violation in violations.iter().take(50) {
        println!("VIOLATION {violation}");
    }
    if violations.is_empty() && problems.is_empty() {
        std::fs::remove_dir_all(left(&plan.logs))?;
    } else {
        let count = violations.len() + problems.len();
        return Err(format!("{count} violations; seed {}", plan.seed).into());
    }
    let broken: [(&str, Vec<_>); 2] = [
        ("longer pauses than promised", pauses.too_long().collect()),
        ("others lead too often after", pauses.restless().collect()),
    ];
    if let Some((what, kinds)) = broken.iter().find(|(_, kinds)| plan.is_bounded && !kinds.is_empty()) {
        return Err(format!("{what}: {}; seed {}", kinds.join(", "), plan.seed).into());
    }
    println!(
        "{replication}: {} lines of history, {} rows, no violation",
        told.history.len(),
        state.rows.len()
    );
    Ok(())
}

/// One fault, until all writers have written again and all servers take part.
fn endure(
    cluster: &mut Cluster,
    clients: &Clients,
    number: usize,
    step: Step,
    pauses: &mut Pauses,
    stalls: &Stalls,
) -> Result<(), Failure> {
    thread::sleep(CALM);
    let leaders = cluster.leaders()?;
    let begin = now();
    let failed = |what: Failure| Failure::from(format!("#{number} {step} at {begin}: {what}"));
    println!("#{number} {step}, at {begin}");
    cluster.strike(step.fault).map_err(failed)?;
    thread::sleep(step.hold);
    let (last_start, ended) = cluster.heal(step.fault).map_err(failed)?;
    let healed = now();
    clients.await_commits(healed).map_err(failed)?;
    let resumed = now();
    cluster.await_whole().map_err(failed)?;
    let pause = clients.told.lock().acknowledged.longest_pause(last_start.unwrap_or(begin), now());
    let stalled = stalls.longest(begin, now());
    let seconds = |from, to: u64| Duration::from_micros(to - from).as_secs_f64();
    let now_lead = cluster.leaders()?;
    let others_lead = now_lead.iter().zip(&leaders).any(|(now, before)| now.displaces(before));
    println!(
        "   paused for {:.2} s; all write {:.2} s, and all is whole {:.2} s after it was healed{}{}",
        pause.as_secs_f64(),
        seconds(healed, resumed),
        seconds(healed, now()),
        if others_lead { "; others lead" } else { "" },
        if stalled.is_zero() {
            String::new()
        } else {
            format!("; the machine stood still for {:.2} s", stalled.as_secs_f64())
        }
    );
    pauses.note(step.fault.kind(), pause, others_lead);
    let may_end = matches!(step.fault, Fault::Fill(_) | Fault::FillAll | Fault::FailDisk(_));
    if !ended.is_empty() && !may_end {
        return Err(failed(format!("servers {ended:?} ended by themselves").into()));
    }
    Ok(())
}

fn report(replication: Replication, acknowledged: &Acknowledged, pauses: &Pauses) {
    println!("\n{replication}: {} commits", acknowledged.count());
    if let Some(waits) = acknowledged.distribution() {
        let [median, most, longest] = waits.map(|wait| wait.as_secs_f64() * 1_000.0);
        println!("  waits: median {median:.1} ms, 99 % {most:.1} ms, longest {longest:.1} ms");
    }
    println!("  longest pause of a writer:");
    pauses.lines(replication != Replication::None).for_each(|line| println!("{line}"));
}

/// What clients have told so far.
#[derive(Default)]
struct Told {
    history: Vec<Event>,
    acknowledged: Acknowledged,
    /// A line that says nothing.
    unread: Option<String>,
}

struct Clients {
    processes: Vec<Child>,
    listeners: Vec<JoinHandle<()>>,
    told: Arc<Mutex<Told>>,
}

impl Clients {
    fn start(plan: &Plan, directory: &Path) -> Result<Self, Failure> {
        let told = Arc::new(Mutex::new(Told::default()));
        let (mut processes, mut listeners) = (Vec::new(), Vec::new());
        for number in 0..client::CLIENTS {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("client").arg(directory).args([number.to_string(), plan.seed.to_string()]);
            let errors = File::create(plan.logs.join(format!("client{number}.errors")))?;
            let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn()?;
            let lines = BufReader::new(process.stdout.take().ok_or("no pipe")?);
            processes.push(process);
            let mut log = File::create(plan.logs.join(format!("client{number}.history")))?;
            let told = Arc::clone(&told);
            listeners.push(thread::spawn(move || {
                for line in lines.lines().map_while(Result::ok) {
                    // The log is for people.
                    let _ = writeln!(log, "{line}");
                    let event = Event::parse(&line);
                    let mut told = told.lock();
                    match event {
                        Some(event) => {
                            told.acknowledged.note(&event);
                            told.history.push(event);
                        }
                        None => told.unread = Some(line),
                    }
                }
            }));
        }
        Ok(Self { processes, listeners, told })
    }

    /// Waits until a commit that began after `time` was acknowledged in each slot.
    fn await_commits(&self, time: u64) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let silent = self.told.lock().acknowledged.silent_since(time, SLOTS);
            if silent.is_empty() {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(
                    format!("writers {silent:?} did not come back in {} s", PATIENCE.as_secs()).into()
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Has them end; what they told.
    fn end(mut self, meeting: &Meeting) -> Told {
        let start = Instant::now();
        if let Err(error) = meeting.is_over() {
            eprintln!("clients cannot be told that it is over: {error}");
        }
        while start.elapsed() < ENDING && self.listeners.iter().any(|listener| !listener.is_finished()) {
            thread::sleep(Duration::from_millis(20));
        }
        for process in &mut self.processes {
            // It has ended, or hangs.
            let _ = process.kill();
            let _ = process.wait();
        }
        std::mem::take(&mut *self.told.lock())
    }
}

/// What is wrong with the database, also where others lead: what one replica has wrong is seen when that leads.
fn problems_of_all(cluster: &mut Cluster) -> Result<Vec<String>, Failure> {
    let mut all = read(cluster, problems)?;
    for server in 0..SERVERS {
        let fault = Fault::End(server);
        cluster.strike(fault)?;
        let found = read(cluster, problems)?;
        all.extend(found.into_iter().map(|problem| format!("without server {server}: {problem}")));
        cluster.heal(fault)?;
        cluster.await_whole()?;
    }
    Ok(all)
}

/// Reads the database; again, if the snapshot went with a leader, as leaders go back some time after a fault.
fn read<T>(cluster: &Cluster, look: impl Fn(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        match database::open(&cluster.name()).map_err(Failure::from).and_then(|connection| look(&connection))
        {
            Err(why) if lost_its_snapshot(&why) && start.elapsed() < PATIENCE => {}
            read => return read,
        }
    }
}

fn lost_its_snapshot(why: &Failure) -> bool {
    let error = why.downcast_ref().and_then(rusqlite::Error::sqlite_error);
    error.is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_BUSY_SNAPSHOT)
}

/// Where what servers have left stays, if something is wrong.
fn left(logs: &Path) -> PathBuf {
    logs.join("left")
}

/// Ends all servers at one moment; copies of what they have left.
fn leave(cluster: &mut Cluster, logs: &Path) -> Result<Vec<PathBuf>, Failure> {
    let left = left(logs);
    if left.exists() {
        // Of an earlier run of this seed.
        std::fs::remove_dir_all(&left)?;
    }
    std::fs::create_dir_all(&left)?;
    let copy = |(place, data): (usize, PathBuf)| {
        let to = left.join(place.to_string());
        output(Command::new("cp").arg("-a").arg(data).arg(&to)).map(|_| to)
    };
    cluster.end_all()?.into_iter().enumerate().map(copy).collect()
}

/// What SQLite finds wrong with the database.
fn problems(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut check = connection.prepare("PRAGMA integrity_check")?;
    let mut problems = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    if problems == ["ok"] {
        return Ok(Vec::new());
    }
    problems.push(client::odd(connection)?);
    Ok(problems)
}

/// All that the database holds.
fn read_all(connection: &Connection) -> Result<Final, Failure> {
    let mut entries = connection.prepare("SELECT slot, n, source, target, amount FROM entry NOT INDEXED")?;
    let entries = entries.query_map([], |row| {
        let write = Write::Transfer { source: row.get(2)?, target: row.get(3)?, amount: row.get(4)? };
        Ok((row.get(0)?, row.get(1)?, write))
    })?;
    let mut rows = entries.collect::<rusqlite::Result<Vec<Row>>>()?;
    let mut claims = connection.prepare("SELECT slot, n, key FROM claim NOT INDEXED")?;
    let claims = claims.query_map([], |row| Ok((row.get(0)?, row.get(1)?, Write::Claim(row.get(2)?))))?;
    rows.extend(claims.collect::<rusqlite::Result<Vec<Row>>>()?);
    let mut balances = connection.prepare("SELECT balance FROM account ORDER BY id")?;
    let balances = balances.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    if i64::try_from(balances.len()).ok() != Some(check::ACCOUNTS) {
        return Err(format!("there are {} accounts", balances.len()).into());
    }
    Ok(Final { rows, balances })
}
