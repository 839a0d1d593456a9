//! What an engine says about damaged files and a full disk: the whole truth, an error, or nothing while data is lost.

use crate::engine::{Change, Result, Sync, is_log, open};
use crate::measure::{files, noise};
use crate::workload::{key, meta_key};
use fulmar_node::Random;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Commits before the process dies: the first 3,000 are checkpoints in unsynced batches, so that the engines have data
/// files and not only a log; the rest are small and durable.
const CHECKPOINTS: u64 = 3_000;
const COMMITS: u64 = 3_600;

/// Damaged copies of each kind.
const TRIALS: u64 = 25;

/// How long an engine may take to answer before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

fn value(commit: u64) -> Vec<u8> {
    let bytes = if commit <= CHECKPOINTS { 6 << 10 } else { 150 };
    noise(&mut Random::new(commit), bytes)
}

fn changes(commit: u64) -> Vec<Change> {
    vec![
        Change::Put(key(commit % 100, commit), value(commit)),
        Change::Put(meta_key(), commit.to_be_bytes().to_vec()),
    ]
}

/// Commits, then ends as by SIGKILL.
pub(crate) fn commit_and_die(engine: &str, directory: &Path) -> Result<()> {
    let database = open(engine, directory)?;
    for commit in 1..=COMMITS {
        let sync = if commit < CHECKPOINTS { Sync::Later } else { Sync::Now };
        database.apply(changes(commit), sync)?;
    }
    // No destructor runs, so nothing is written after the last acknowledged commit.
    std::process::exit(0)
}

/// Durable commits of checkpoints until one fails; says how many went well, the error, and whether reads still work.
pub(crate) fn commit_until_full(engine: &str, directory: &Path) -> Result<()> {
    let database = open(engine, directory)?;
    for commit in 1.. {
        if let Err(error) = database.apply(changes(commit), Sync::Now) {
            println!("failed {error}");
            break;
        }
        println!("acknowledged {commit}");
    }
    match database.for_each(&mut |_, _| ()) {
        Ok(()) => println!("reads go on"),
        Err(error) => println!("reads fail: {error}"),
    }
    Ok(())
}

/// Opens a database that `commit_and_die` left and says what is in it: `commits N` if it holds exactly the first N.
pub(crate) fn check(engine: &str, directory: &Path) -> Result<()> {
    let database = match open(engine, directory) {
        Ok(database) => database,
        Err(error) => {
            println!("refused {error}");
            return Ok(());
        }
    };
    let mut meta = 0;
    let mut found = 0;
    let mut wrong = 0;
    let outcome = database.for_each(&mut |entry, stored| {
        if entry == meta_key() {
            meta = stored.try_into().map_or(u64::MAX, u64::from_be_bytes);
            return;
        }
        let commit = entry.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
        found += 1;
        if entry != key(commit % 100, commit) || stored != value(commit) {
            wrong += 1;
        }
    });
    match outcome {
        Err(error) => println!("read fails {error}"),
        Ok(()) if wrong == 0 && meta == found => println!("commits {found}"),
        Ok(()) => println!("mixed: {found} entries, {wrong} of them wrong, meta entry says {meta}"),
    }
    Ok(())
}

/// Runs one step of this program with its output in a file; `None` when it hangs.
fn answer(step: &str, engine: &str, directory: &Path, output: &Path) -> Result<Option<(bool, String)>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--step", step, engine])
        .arg(directory)
        .stdout(File::create(output)?)
        .stderr(Stdio::null())
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = fs::read_to_string(output)?;
    Ok(match status {
        Some(status) if status.signal().is_some() => Some((false, format!("signal {:?}", status.signal()))),
        Some(status) => Some((status.success(), text)),
        None => {
            println!("  {step} hangs; so far: {}", text.lines().last().unwrap_or("nothing"));
            None
        }
    })
}

/// A verdict in few words, for counting.
fn verdict(answer: Option<(bool, String)>, commits: u64) -> String {
    let Some((well, text)) = answer else { return "hangs".into() };
    let line = text.lines().last().unwrap_or("");
    match line.split_once(' ') {
        _ if !well => "panics or dies".into(),
        Some(("commits", number)) if number.parse() == Ok(commits) => "nothing lost".into(),
        Some(("commits", _)) => "SILENT loss of the last commits".into(),
        Some(("refused", _)) => "error at open".into(),
        Some(("read", _)) => "error at read".into(),
        _ => "SILENT damage".into(),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    // `cp` keeps the holes of preallocated logs.
    let status = Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(format!("cp: {status}").into()) }
}

/// The length of a file up to its last byte that is not zero: logs may be preallocated.
fn used(path: &Path) -> Result<u64> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1))
}

fn flip(path: &Path, offset: u64) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    byte[0] ^= 0x55;
    Ok(file.write_all_at(&byte, offset)?)
}

/// Does one kind of damage to the database in `directory`.
fn hurt(engine: &str, kind: &str, directory: &Path, random: &mut Random) -> Result<()> {
    let all = files(directory)?;
    let pick = |log: bool, random: &mut Random| -> Result<(PathBuf, u64)> {
        let mut candidates = Vec::new();
        for path in all.iter().filter(|path| is_log(engine, path) == log) {
            candidates.push((path.clone(), used(path)?));
        }
        let total = candidates.iter().map(|(_, length)| length).sum();
        let mut offset = random.below(total);
        for (path, length) in candidates {
            if offset < length {
                return Ok((path, offset));
            }
            offset -= length;
        }
        Err("no such file".into())
    };
    // The log of the last commits: of several, the one that was made last.
    let last_log = || -> Result<(PathBuf, u64)> {
        let mut logs = Vec::new();
        for path in all.iter().filter(|path| is_log(engine, path)) {
            let length = used(path)?;
            if length > 0 {
                logs.push((fs::metadata(path)?.len(), path.clone(), length));
            }
        }
        let (_, path, length) = logs.pop().ok_or("no log")?;
        Ok((path, length))
    };
    match kind {
        "log cut in its last 4 KiB" => {
            let (path, length) = last_log()?;
            File::options().write(true).open(path)?.set_len(length - 1 - random.below(4096))?;
        }
        "garbage after the log's end" => {
            let (path, length) = last_log()?;
            let mut file = File::options().write(true).open(path)?;
            file.seek(SeekFrom::Start(length))?;
            file.write_all(&noise(random, 300))?;
        }
        "byte flipped in the log" => {
            let (path, offset) = pick(true, random)?;
            flip(&path, offset)?;
        }
        _ => {
            let (path, offset) = pick(engine == "redb", random)?;
            flip(&path, offset)?;
        }
    }
    Ok(())
}

/// Damages copies of one database and prints what the engine made of each kind.
pub(crate) fn damage(engine: &str, directory: &Path) -> Result<()> {
    let original = directory.join("original");
    let output = directory.join("answer");
    answer("commit_and_die", engine, &original, &output)?.filter(|(well, _)| *well).ok_or("could not commit")?;
    let mut random = Random::new(6);
    for kind in
        ["log cut in its last 4 KiB", "garbage after the log's end", "byte flipped in the log", "byte flipped in data"]
    {
        let mut verdicts = BTreeMap::<String, u64>::new();
        for _ in 0..TRIALS {
            let damaged = directory.join("damaged");
            copy(&original, &damaged)?;
            hurt(engine, kind, &damaged, &mut random)?;
            let answer = answer("check", engine, &damaged, &output)?;
            if std::env::var("FULMAR_ENGINES_TALK").is_ok() {
                println!("  {kind}: {answer:?}");
            }
            *verdicts.entry(verdict(answer, COMMITS)).or_default() += 1;
            fs::remove_dir_all(damaged)?;
        }
        let counts: Vec<_> = verdicts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        println!("engines.{engine}.damage: {kind}: {}", counts.join(", "));
    }
    Ok(())
}

fn mount(arguments: &[&str], place: &Path) -> Result<()> {
    let status = Command::new("mount").args(arguments).arg(place).status()?;
    if status.success() { Ok(()) } else { Err("cannot mount a tmpfs: this workload needs root".into()) }
}

/// Commits into a tmpfs of 100 MB until it is full, and opens what is there, while full and after room was made.
pub(crate) fn full_disk(engine: &str, directory: &Path) -> Result<()> {
    let small = directory.join("small");
    fs::create_dir_all(&small)?;
    mount(&["-t", "tmpfs", "-o", "size=100m", "tmpfs"], &small)?;
    let result = commit_on_full_disk(engine, &small, &directory.join("answer"));
    Command::new("umount").arg(&small).status()?;
    result
}

fn commit_on_full_disk(engine: &str, small: &Path, output: &Path) -> Result<()> {
    let database = small.join("database");
    let first = answer("commit_until_full", engine, &database, output)?;
    let text = match &first {
        Some((_, text)) => text.clone(),
        None => fs::read_to_string(output)?,
    };
    let acknowledged = text.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok()).max();
    let acknowledged: u64 = acknowledged.unwrap_or(0);
    let rest: Vec<_> = text.lines().filter(|line| !line.starts_with("acknowledged")).collect();
    println!("engines.{engine}.full_disk: {acknowledged} commits, then {}", rest.join("; "));
    for room in ["full", "roomy"] {
        if room == "roomy" {
            mount(&["-o", "remount,size=400m"], small)?;
        }
        let found = answer("check", engine, &database, output)?;
        let line = found.as_ref().map_or("hangs", |(_, text)| text.lines().last().unwrap_or("nothing"));
        println!("engines.{engine}.full_disk: reopened on a {room} disk: {line} (acknowledged {acknowledged})");
    }
    Ok(())
}
