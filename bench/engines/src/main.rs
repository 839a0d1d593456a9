//! Measures embedded storage engines on the job of Fulmar's key-value store. `docs/engines.md` has the results.
//!
//! Every workload runs in a process of its own, so that peak memory and bytes written are its own.

mod damage;
mod engine;
mod measure;
mod workload;

use engine::Result;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "usage: fulmar-engines [--json] [--engine NAME]… [--workload NAME]… [--directory PATH]

Measures storage engines on Fulmar's key-value job. Workloads: commit_1, commit_16, bulk, churn, load, opening,
damage, full_disk (needs root, for a small tmpfs). Without --engine or --workload, all of them.

example: cargo run --release -- --engine fjall --workload commit_16 --json";

struct Options {
    json: bool,
    engines: Vec<String>,
    workloads: Vec<String>,
    directory: PathBuf,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options =
        Options { json: false, engines: Vec::new(), workloads: Vec::new(), directory: std::env::temp_dir() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n\n{USAGE}"));
        match argument.as_str() {
            "--json" => options.json = true,
            "--engine" => options.engines.push(value()?),
            "--workload" => options.workloads.push(value()?),
            "--directory" => options.directory = value()?.into(),
            _ => return Err(format!("unknown argument {argument:?}\n\n{USAGE}").into()),
        }
    }
    if options.engines.is_empty() {
        options.engines = engine::NAMES.iter().map(ToString::to_string).collect();
    }
    if options.workloads.is_empty() {
        let names = workload::NAMES.iter().chain(&["opening", "damage", "full_disk"]);
        options.workloads = names.map(ToString::to_string).collect();
    }
    Ok(options)
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = memory.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    format!("{cores} cores, {} GiB, shared virtual machine", (kibibytes + (1 << 19)) >> 20)
}

/// Runs this program again for one step, and returns its figures, each as text and as JSON.
fn step(step: &str, engine: &str, directory: &Path) -> Result<Vec<(String, String)>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--step", step, engine])
        .arg(directory)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{step} on {engine}: {}", output.status).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    let pairs = lines.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(text, json)| (text.into(), json.into())).collect())
}

/// The other side of `step`.
fn run_step(arguments: &[String]) -> Result<()> {
    let [step, engine, directory] = arguments else {
        return Err("a step takes its name, an engine and a directory".into());
    };
    let directory = Path::new(directory);
    match step.as_str() {
        "check" => return damage::check(engine, directory),
        "commit_and_die" => return damage::commit_and_die(engine, directory),
        "commit_until_full" => return damage::commit_until_full(engine, directory),
        _ => (),
    }
    let machine = machine();
    for figure in workload::run(step, engine, directory)? {
        println!("{}\t{}", figure.text(), figure.json(&machine));
    }
    Ok(())
}

/// How long a database of 120 MB takes to open after it was closed, and after its process was killed.
fn opening(engine: &str, directory: &Path) -> Result<Vec<(String, String)>> {
    let closed = directory.join("closed");
    let mut figures = step("fill_and_close", engine, &closed)?;
    figures.extend(step("open", engine, &closed)?);
    let killed = directory.join("killed");
    if step("fill_and_die", engine, &killed).is_ok() {
        return Err("the process that should have been killed ended by itself".into());
    }
    let rename = |text: String| text.replacen(".open.", ".open_killed.", 1);
    figures.extend(step("open", engine, &killed)?.into_iter().map(|(text, json)| (rename(text), rename(json))));
    Ok(figures)
}

fn measure(options: &Options) -> Result<()> {
    if !options.json {
        println!("{}: {} {}", machine(), std::env::consts::OS, std::env::consts::ARCH);
    }
    for workload in &options.workloads {
        for engine in &options.engines {
            let directory = options.directory.join(format!("fulmar-engines-{}", std::process::id()));
            std::fs::create_dir_all(&directory)?;
            let result = match workload.as_str() {
                "opening" => opening(engine, &directory),
                "damage" => damage::damage(engine, &directory).map(|()| Vec::new()),
                "full_disk" => damage::full_disk(engine, &directory).map(|()| Vec::new()),
                plain => step(plain, engine, &directory),
            };
            std::fs::remove_dir_all(&directory)?;
            for (text, json) in result? {
                println!("{}", if options.json { json } else { text });
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((first, _)) if first == "--help" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some((first, rest)) if first == "--step" => run_step(rest),
        _ => match options(arguments.into_iter()) {
            Ok(options) => measure(&options),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fulmar-engines: {error}");
            ExitCode::FAILURE
        }
    }
}
