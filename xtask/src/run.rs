//! Running other programs, and the places where things are kept.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Why a task failed, in words for whoever runs it.
pub(crate) type Failure = String;
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// The root of the work tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(1).take(1).collect()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Where installed tools and downloads live. `FULMAR_TOOLS` moves it, so that they outlive a work tree.
pub(crate) fn tools() -> PathBuf {
    std::env::var_os("FULMAR_TOOLS").map_or_else(|| target().join("tools"), PathBuf::from)
}

/// Cargo as it was called, in the root of the work tree.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// Which build of Fulmar is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// That of the tests, with every assertion on. It is there anyway.
    Tests,
    /// What users have, which takes minutes more.
    Release,
}

impl Build {
    /// Makes it, at once, so that nothing is built anew with other features; answers where it is.
    pub(crate) fn make(self) -> Result<PathBuf> {
        let (arguments, folder): (&[&str], _) = match self {
            // As `cargo test` does; and what nobody links, but loads.
            Self::Tests => (&["build", "--workspace", "--all-targets", "--locked"], "debug"),
            Self::Release => {
                (&["build", "--release", "--locked", "-p", "fulmar", "-p", "fulmar-sqlite3"], "release")
            }
        };
        run(&mut cargo(arguments))?;
        Ok(root().join(target()).join(folder))
    }
}

/// Puts the conformance crate's programs beside those of a build; answers where.
pub(crate) fn build_trial(build: Build) -> Result<PathBuf> {
    let (tests, trial) = (Build::Tests.make()?, root().join(target()).join("trial"));
    let users = if build == Build::Tests { tests.clone() } else { build.make()? };
    let place = |from: PathBuf| {
        let to = trial.join(from.file_name().unwrap_or_default());
        // Others than those that were built now may be there, and in use.
        let put = std::fs::create_dir_all(&trial)
            .and_then(|()| if to.exists() { std::fs::remove_file(&to) } else { Ok(()) })
            .and_then(|()| std::fs::hard_link(&from, &to));
        put.map_err(|error| format!("{} as {}: {error}", from.display(), to.display()))
    };
    place(users.join("fulmar"))?;
    place(tests.join("soak"))?;
    place(tests.join("libfulmar_disturb.so"))?;
    Ok(trial)
}

/// A program with arguments, in the root of the work tree.
pub(crate) fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a program with its output shown; an error names the command line.
pub(crate) fn run(command: &mut Command) -> Result {
    let line = command_line(command);
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Runs tests with their output shown; an error says what each that failed has printed, as much else may come after it.
pub(crate) fn run_tests(command: &mut Command) -> Result {
    let line = command_line(command);
    println!("$ {line}");
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut reasons = Reasons::default();
    for line in BufReader::new(child.stdout.take().expect("it is piped")).split(b'\n') {
        let line = line.map_err(failed)?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        reasons.note(&line);
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}{}", reasons.told)) }
}

/// What tests that failed have printed, out of all that a run of tests prints.
#[derive(Default)]
struct Reasons {
    told: String,
    /// Within what one has printed.
    inside: bool,
}

impl Reasons {
    fn note(&mut self, line: &str) {
        let begins = line.starts_with("---- ") && line.ends_with(" ----");
        // The names of all that failed follow.
        self.inside = (self.inside || begins) && line != "failures:";
        if self.inside && !line.is_empty() {
            self.told.push('\n');
            self.told.push_str(line);
        }
    }
}

/// What cargo tells of packages.
pub(crate) fn metadata(asked: &[&str]) -> Result<Value> {
    let told = output(cargo(&["metadata", "--locked", "--format-version", "1"]).args(asked))?;
    serde_json::from_str(&told).map_err(|error| format!("cargo metadata: {error}"))
}

/// Runs a program and returns what it prints to standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command.output().map_err(|error| format!("{line}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{line}: {error}"))
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A named part of a task.
pub(crate) type Step<'a> = (&'a str, &'a (dyn Fn() -> Result + Sync));

/// Runs every step, also after one failed, and sums up.
pub(crate) fn steps(steps: &[Step<'_>]) -> Result {
    side_by_side(&[steps])
}

/// The same for steps of several lanes: those of one lane after another, the lanes at the same time.
pub(crate) fn side_by_side(lanes: &[&[Step<'_>]]) -> Result {
    let ended: Vec<Ended<'_>> = std::thread::scope(|scope| {
        let lanes =
            lanes.iter().map(|lane| scope.spawn(|| lane.iter().map(|step| end(*step)).collect::<Vec<_>>()));
        let lanes: Vec<_> = lanes.collect();
        let join = |lane: std::thread::ScopedJoinHandle<'_, _>| {
            lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        lanes.into_iter().flat_map(join).collect()
    });
    println!();
    for Ended { name, result, seconds } in &ended {
        println!("{name}: {}, {seconds} s", if result.is_ok() { "ok" } else { "FAILED" });
    }
    // Once more with its reason, which others may have printed much after.
    let failed =
        ended.iter().filter_map(|ended| Some(format!("{}: {}", ended.name, ended.result.as_ref().err()?)));
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join("; "))) }
}

/// What became of a step.
struct Ended<'a> {
    name: &'a str,
    result: Result,
    seconds: u64,
}

fn end((name, step): Step<'_>) -> Ended<'_> {
    println!("\n== {name}");
    let start = Instant::now();
    let result = step();
    if let Err(failure) = &result {
        eprintln!("{name}: {failure}");
    }
    Ended { name, result, seconds: start.elapsed().as_secs() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn later_steps_run_after_a_failure_and_the_failure_is_named() {
        let last = AtomicBool::new(false);
        let result = steps(&[
            ("first", &|| Ok(())),
            ("second", &|| Err("broken".into())),
            ("third", &|| {
                last.store(true, Relaxed);
                Ok(())
            }),
        ]);
        assert_eq!(result, Err("failed: second: broken".into()));
        assert!(last.into_inner());
    }

    #[test]
    fn lanes_run_at_the_same_time_and_a_failure_of_each_is_named() {
        let both = std::sync::Barrier::new(2);
        let meet = || {
            both.wait();
            Err("broken".into())
        };
        let result = side_by_side(&[&[("left", &meet)], &[("right", &meet), ("later", &|| Ok(()))]]);
        assert_eq!(result, Err("failed: left: broken; right: broken".into()));
    }

    #[test]
    fn why_tests_failed_is_said_at_the_end() {
        let printed = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n\n\
            thread 'b' panicked at tests/b.rs:3:5:\nit broke\n\nfailures:\n    b\n\ntest result: FAILED.\n";
        let script = format!("printf '%s' \"{printed}\"; exit 101");
        let failure = run_tests(&mut command("sh", &["-c", &script])).expect_err("it fails");
        let reasons = "\n---- b stdout ----\nthread 'b' panicked at tests/b.rs:3:5:\nit broke";
        assert!(failure.ends_with(&format!("exit status: 101{reasons}")), "{failure}");
        assert_eq!(run_tests(&mut command("true", &[])), Ok(()));
    }

    #[test]
    fn a_failing_program_is_named_with_its_arguments() {
        let failure = run(&mut command("false", &["--loudly"])).expect_err("`false` fails");
        assert!(failure.starts_with("false --loudly: "), "{failure}");
    }
}
