//! `cargo xtask figures --against REVISION`: what has become slower since a revision of this repository.
//!
//! That revision is built once. Then its benchmarks and those of the work tree run in turn, and their figures are compared. One run says
//! little on a machine that does other things, too: a figure *fell* if it was worse in each turn, and by more than [`NOISE`] in the median.

use crate::run::{Build, Result, cargo, command, output, root, run, target};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// How often each build is measured. That all turns of so many agree by chance happens once in 32 times.
const TURNS: usize = 5;
/// By how much a figure may be worse without being called so, as a share.
const NOISE: f64 = 0.03;

/// What is measured, and how.
const BENCHMARKS: [(&str, &[&str]); 4] = [
    ("sql", &["--runs", "1"]),
    (
        "ycsb",
        &[
            "--apis",
            "sql",
            "--distributions",
            "uniform",
            "--workloads",
            "a,c,update",
            "--clients",
            "1,16",
            "--value-bytes",
            "64",
            "--runs",
            "1",
        ],
    ),
    ("replication", &["--clients", "1,16", "--runs", "1"]),
    ("switch", &["--runs", "1"]),
];

/// Figures by name, such that more is better.
type Figures = BTreeMap<String, f64>;

/// Compares the benchmarks of these names, or all.
pub(crate) fn against(revision: &str, names: &[&str]) -> Result {
    if let Some(unknown) = names.iter().find(|name| BENCHMARKS.iter().all(|(known, _)| known != *name)) {
        let known: Vec<_> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        return Err(format!("{unknown}: no such benchmark; known are {}", known.join(", ")));
    }
    let (before, now) = (build(revision)?, Build::Release.make()?.join("fulmar"));
    let mut fallen = Vec::new();
    for (name, arguments) in BENCHMARKS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("\n== {name}, in turn");
        let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for turn in 0..TURNS {
            let measure = |program: &Path| measure(program, name, arguments);
            // Whoever is first finds the machine otherwise than whoever is second.
            let (before, now) = if turn % 2 == 0 {
                let before = measure(&before)?;
                (before, measure(&now)?)
            } else {
                let now = measure(&now)?;
                (measure(&before)?, now)
            };
            for (figure, value) in now {
                if let Some(before) = before.get(&figure) {
                    ratios.entry(figure).or_default().push(value / before);
                }
            }
        }
        for (figure, mut ratios) in ratios {
            let (line, has_fallen) = verdict(&figure, &mut ratios);
            println!("{line}");
            fallen.extend(has_fallen.then_some(figure));
        }
    }
    if fallen.is_empty() { Ok(()) } else { Err(format!("fell since {revision}: {}", fallen.join("; "))) }
}

/// What to say of a figure, by how many times as good it was in each turn; and whether it fell.
fn verdict(figure: &str, ratios: &mut [f64]) -> (String, bool) {
    ratios.sort_by(f64::total_cmp);
    let (Some(worst), Some(best), Some(median)) =
        (ratios.first(), ratios.last(), ratios.get(ratios.len() / 2))
    else {
        return (format!("{figure}: not measured"), false);
    };
    let has_fallen = *best < 1.0 && *median < 1.0 - NOISE;
    let mark = if has_fallen { "FELL " } else { "" };
    (format!("{mark}{median:.2} ({worst:.2} to {best:.2}) {figure}"), has_fallen)
}

/// Builds `fulmar` of a revision, unless that was done before; answers where it is.
fn build(revision: &str) -> Result<PathBuf> {
    let commit = output(&mut command("git", &["rev-parse", "--verify", &format!("{revision}^{{commit}}")]))?;
    let commit = commit.trim();
    let folder = root().join(target()).join("against");
    let program = folder.join(format!("fulmar-{commit}"));
    if program.exists() {
        return Ok(program);
    }
    let source = folder.join("source");
    let failed = |what: &Path| {
        let what = what.display().to_string();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    if source.exists() {
        std::fs::remove_dir_all(&source).map_err(failed(&source))?;
    }
    std::fs::create_dir_all(&source).map_err(failed(&source))?;
    let archive = folder.join("source.tar");
    run(command("git", &["archive", "--output"]).arg(&archive).arg(commit))?;
    run(command("tar", &["-xf"]).arg(&archive).arg("-C").arg(&source))?;
    let built = folder.join("target");
    let mut build = cargo(&["build", "--release", "--locked", "-p", "fulmar"]);
    run(build.current_dir(&source).env("CARGO_TARGET_DIR", &built))?;
    std::fs::copy(built.join("release/fulmar"), &program).map_err(failed(&program))?;
    Ok(program)
}

/// Runs a benchmark of a build once.
fn measure(program: &Path, name: &str, arguments: &[&str]) -> Result<Figures> {
    let mut bench = command(program, &["bench", name, "--json"]);
    let text = output(bench.args(arguments).stderr(Stdio::inherit()))?;
    text.lines()
        .map(figure)
        .collect::<Result<Vec<_>>>()
        .map(|figures| figures.into_iter().flatten().collect())
}

/// The figure that a line of JSON tells, if it does. One whose lower values are better is turned over.
fn figure(line: &str) -> Result<Option<(String, f64)>> {
    let told: Map<String, Value> = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    let number = |key: &str| told.get(key).and_then(Value::as_f64);
    if let (Some(figure), Some(value), Some(better)) = (text("figure"), number("value"), text("better")) {
        return Ok(Some((figure.to_owned(), if better == "higher" { value } else { value.recip() })));
    }
    let Some((measured, rate)) = text("measured").zip(number("operations_per_second")) else {
        return Ok(None);
    };
    let of = text("system").map_or_else(String::new, |system| format!(", {system}"));
    let clients = number("clients").map_or_else(String::new, |clients| format!(", {clients} clients"));
    Ok(Some((format!("{measured}{of}{clients}, operations a second"), rate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_kinds_are_read() {
        let told = r#"{"figure":"sql.scan","value":4.0,"better":"lower","note":""}"#;
        assert_eq!(figure(told), Ok(Some(("sql.scan".into(), 0.25))));
        let told = r#"{"measured":"ycsb.c","system":"fulmar sql","clients":16,"operations_per_second":10.5}"#;
        assert_eq!(
            figure(told),
            Ok(Some(("ycsb.c, fulmar sql, 16 clients, operations a second".into(), 10.5)))
        );
        assert_eq!(figure(r#"{"machine":"x"}"#), Ok(None));
        assert!(figure("12 rows").is_err());
    }

    #[test]
    fn what_is_worse_in_each_turn_fell() {
        let fell = |mut ratios: [f64; 5]| verdict("f", &mut ratios).1;
        assert!(fell([0.9, 0.95, 0.8, 0.99, 0.9]));
        assert!(!fell([0.9, 0.95, 0.8, 1.01, 0.9]), "once it was better");
        assert!(!fell([0.98, 0.99, 0.98, 0.99, 0.97]), "by less than can be told");
        assert!(!fell([1.2, 1.1, 1.0, 1.3, 1.5]));
    }
}
