//! The program itself, as it is run.

#![allow(clippy::unwrap_used, reason = "a test that cannot run a program has failed")]

use std::path::Path;
use std::process::{Command, Output};

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

fn fulmar(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(FULMAR).arg("sql").args(arguments).current_dir(folder).env("HOME", folder).output().unwrap()
}

fn answer(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Silence would look as if there were nothing to say of it.
#[test]
fn figures_that_are_not_there_are_not_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let bench = |arguments: &[&str]| {
        let mut program = Command::new(FULMAR);
        program.arg("bench").args(arguments).current_dir(directory.path()).output().unwrap()
    };
    for arguments in
        [["sql", "--only", "hist", "--rows", "2000"], ["switch", "--only", "hist", "--runs", "1"]]
    {
        let message = complaint(&bench(&arguments));
        assert!(message.contains("no figure has \"hist\" in its name"), "{message}");
    }
}

/// Who had mistyped the name found an empty database instead of an error, and a directory afterwards.
#[test]
fn what_only_reads_makes_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    for statements in [&["SELECT 1"][..], &["select 1;", "VALUES (2)"]] {
        let message = complaint(&fulmar(folder, &[&["tpyo"], statements].concat()));
        assert!(message.contains("tpyo"), "{message}");
        assert!(!folder.join("tpyo").exists());
    }
    answer(&fulmar(folder, &["birds", "CREATE TABLE t(x); INSERT INTO t VALUES (7)"]));
    assert_eq!(answer(&fulmar(folder, &["birds", "SELECT x FROM t"])), "7\n");
    assert_eq!(answer(&fulmar(folder, &["new", "SELECT 1; CREATE TABLE t(x)"])), "1\n");
}

/// The message for a program whose ordinary database `FULMAR_DATABASES` sends to Fulmar, followed to the letter.
#[test]
fn the_way_that_a_message_shows_leads_there() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().canonicalize().unwrap();
    let file = folder.join("app.db").to_string_lossy().into_owned();
    let content = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x); CREATE VIEW v AS SELECT x FROM t;
                   INSERT INTO t(x) VALUES ('one'), (x'00ff'), (NULL); DELETE FROM t WHERE id = 3";
    answer(&fulmar(&folder, &[&format!("file:{file}"), content]));

    let redirected = |arguments: &[&str]| {
        let mut program = Command::new(FULMAR);
        program.arg("sql").args(arguments).current_dir(&folder).env("HOME", &folder);
        program.env("FULMAR_DATABASES", "*.db").output().unwrap()
    };
    let message = complaint(&redirected(&[&format!("file:{file}"), "SELECT 1"]));
    let (_, command) = message.trim_end().split_once("and run: ").unwrap();

    std::fs::rename(&file, folder.join("OLD")).unwrap();
    let mut path = std::ffi::OsString::from(Path::new(FULMAR).parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let shell = Command::new("sh")
        .args(["-c", command])
        .current_dir(&folder)
        .env("PATH", path)
        .env("HOME", &folder)
        .output();
    answer(&shell.unwrap());

    let count = "SELECT count(*), max(id), (SELECT seq FROM sqlite_sequence) FROM t";
    assert_eq!(answer(&redirected(&[&format!("file:{file}"), count])), "2|2|3\n");
    // The shell knows what the file stands for, also without the variable.
    assert_eq!(answer(&fulmar(&folder, &["app.db", ".dump"])), answer(&fulmar(&folder, &["OLD", ".dump"])));
}

#[test]
fn what_is_no_database_is_said_to_be_none() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    std::fs::write(folder.join("load.sql"), "SELECT 1;").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (
            &["load.sql"],
            "Error: \"load.sql\" is a file, but not a database; if it is a script: fulmar sql NAME < load.sql\n",
        ),
        (&[":memroy:"], "Error: \":memroy:\" is no name of a database; "),
        (
            &["nowhere/birds", "CREATE TABLE t(x)"],
            "Error: cannot open \"fulmar:nowhere/birds\": nowhere: No such file or directory (os error 2)\n",
        ),
        (&["-readonly", "birds", "SELECT 1"], "birds: no such database\n"),
        (&["load.sql/birds", "CREATE TABLE t(x)"], "Not a directory (os error 20)\n"),
        (
            &[":memory:", ".backup nowhere/birds.db"],
            "Error: nowhere/birds.db: No such file or directory (os error 2)\n",
        ),
    ];
    for (arguments, expected) in cases {
        let message = complaint(&fulmar(folder, arguments));
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "nothing was made");
}
