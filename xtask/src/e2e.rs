//! `cargo xtask e2e`: programs that other people wrote, unmodified, on the drop-in library.
//!
//! Each suite runs on ordinary files (the library must be a good SQLite) and with every database sent to Fulmar; what does
//! not take long, on a cluster of three servers, too.
//! `e2e/expected/SUITE.MODE.txt` lists what cannot pass, with reasons; see `outcomes.rs`.

mod cluster;
mod install;
mod suites;

use crate::outcomes::{self, Extent};
use crate::run::{Build, Result, Step, output, root, side_by_side, target};
use crate::{dropin, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Which library a suite runs on, and where its databases go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The system's own libsqlite3.
    Stock,
    /// The drop-in, ordinary files.
    Plain,
    /// The drop-in, every database sent to Fulmar.
    Fulmar,
    /// The drop-in, every database sent to a cluster of three servers.
    Cluster,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Plain => "plain",
            Self::Fulmar => "fulmar",
            Self::Cluster => "cluster",
        }
    }
}

/// One suite in one mode.
struct Run<'a> {
    suite: &'static str,
    mode: Mode,
    extent: Extent,
    library: &'a Path,
    /// The program of the same build.
    program: &'a Path,
    /// The servers of a cluster, `HOST:PORT` with commas between them, in the mode that needs one.
    servers: String,
}

impl Run<'_> {
    /// An empty folder for the suite's databases and reports.
    fn folder(&self) -> PathBuf {
        target().join("e2e").join(format!("{}.{}", self.suite, self.mode.name()))
    }

    /// A program that finds the library under test, in the run's folder.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder());
        command.env("FULMAR_LIBRARY", self.library).env("FULMAR_OUTCOMES", self.outcomes());
        command.env("FULMAR_E2E", self.folder()).env("PYTHONDONTWRITEBYTECODE", "1");
        if self.mode != Mode::Stock {
            command.env("LD_LIBRARY_PATH", self.library.with_file_name(""));
        }
        if matches!(self.mode, Mode::Fulmar | Mode::Cluster) {
            command.env("FULMAR_DATABASES", "*");
        }
        if self.mode == Mode::Cluster {
            command.env("FULMAR_SERVERS", &self.servers);
        }
        command
    }

    fn outcomes(&self) -> PathBuf {
        self.folder().join("outcomes")
    }

    /// Runs the suite from an empty folder and compares what became of its tests with the list.
    fn check(&self, suite: &suites::Suite) -> Result<String> {
        let folder = self.folder();
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = (suite.command)(self)?;
        println!("$ {command:?}");
        // A suite with failing tests exits with a failure; its outcomes tell which tests those are.
        let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
        let text = std::fs::read_to_string(self.outcomes());
        let text = text.map_err(|error| format!("no outcomes ({error}); the runner ended with {status}"))?;
        let outcomes = outcomes::parse(&text).map_err(|error| format!("{error}, with {status}"))?;
        let list = root().join("e2e/expected").join(format!("{}.{}.txt", self.suite, self.mode.name()));
        let list = if list.exists() {
            std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?
        } else {
            String::new()
        };
        outcomes::compare(&outcomes, &list, self.extent)
    }
}

pub(crate) fn main(arguments: &[&str]) -> Result {
    let (mut extent, mut build) = (Extent::Part, Build::Tests);
    let mut modes = vec![Mode::Plain, Mode::Fulmar, Mode::Cluster];
    let mut chosen = Vec::new();
    for argument in arguments {
        match *argument {
            "--full" => extent = Extent::Whole,
            "--release" => build = Build::Release,
            "--stock" => modes = vec![Mode::Stock],
            "--plain" => modes = vec![Mode::Plain],
            "--fulmar" => modes = vec![Mode::Fulmar],
            "--cluster" => modes = vec![Mode::Cluster],
            name => match suites::SUITES.iter().find(|suite| suite.name == name) {
                Some(suite) => chosen.push(suite),
                None => return Err(format!("no suite {name}; there are: {}", suites::names())),
            },
        }
    }
    let is_chosen = !chosen.is_empty();
    if !is_chosen {
        chosen = suites::SUITES.iter().collect();
    }

    install::debian_packages()?;
    // Before several want it at the same time.
    install::python()?;
    let (is_stock, library) = (modes == [Mode::Stock], Mutex::new(None));
    let prepare = || {
        *lock(&library) = Some(if is_stock { system_library()? } else { drop_in(build)? });
        Ok(())
    };
    // Programs of Open vSwitch wait for packets most of the time.
    let built: [Step<'_>; 1] = [("the drop-in library", &prepare)];
    let switch: [Step<'_>; 1] = [("programs of Open vSwitch", &open_vswitch)];
    let prepared = side_by_side(&[&built, if is_chosen { &[] } else { &switch }]);
    let library = lock(&library).take();
    let Some(library) = library else { return prepared };
    // Beside the library's folder.
    let program = library.ancestors().nth(2).map(|folder| folder.join("fulmar")).unwrap_or_default();
    let summary = Mutex::new(String::new());
    let runs: Vec<_> = chosen
        .iter()
        .flat_map(|suite| modes.iter().map(move |mode| (suite, *mode)))
        .filter(|(suite, mode)| *mode != Mode::Cluster || suite.on_cluster || is_chosen && modes.len() == 1)
        .map(|(suite, mode)| {
            let (library, program, summary) = (&library, &program, &summary);
            let step = move || {
                let cluster =
                    (mode == Mode::Cluster).then(|| cluster::Cluster::start(program)).transpose()?;
                let servers = cluster.as_ref().map(cluster::Cluster::addresses).unwrap_or_default();
                let run = Run { suite: suite.name, mode, extent, library, program, servers };
                let result = run.check(suite)?;
                *lock(summary) += &format!("{}, {}: {result}\n", suite.name, mode.name());
                Ok(())
            };
            (suite.lane, format!("{}, {}", suite.name, mode.name()), step)
        })
        .collect();
    let lane = |lane| -> Vec<Step<'_>> {
        let these = runs.iter().filter(|run| run.0 == lane);
        these.map(|(_, name, step)| (name.as_str(), step as _)).collect()
    };
    let result = side_by_side(&[&lane(suites::Lane::Left), &lane(suites::Lane::Right)]);
    print!("\n{}", lock(&summary));
    prepared.and(result)
}

/// The drop-in, which has all that the system's own has.
fn drop_in(build: Build) -> Result<PathBuf> {
    let library = dropin::build(build)?;
    dropin::compare_exports(&library, &system_library()?)?;
    Ok(library)
}

/// Programs of Open vSwitch, and a controller on os-ken, on what is to take its place.
fn open_vswitch() -> Result {
    // Of the whole workspace, so that nothing is built anew with other features.
    let test = ["test", "--workspace", "--locked", "--test", "all", "--", "--ignored", "programs::"];
    run::run_tests(run::cargo(&test).env("FULMAR_PYTHON", install::python()?))
}

/// A step that panicked has left nothing half done in it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Where the dynamic linker finds libsqlite3 when nobody interferes.
fn system_library() -> Result<PathBuf> {
    let maps =
        "import sqlite3; print(*{l.split()[-1] for l in open('/proc/self/maps') if 'libsqlite3' in l})";
    Ok(output(&mut run::command("/usr/bin/python3", &["-c", maps]))?.trim().into())
}
