//! Killing a process that commits.

use fulmar_conformance::{database, kill};
use std::process::Command;

#[test]
fn acknowledged_commits_outlive_a_kill() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut worker = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
        command.arg("work");
        command
    };
    let acknowledged = kill::run(&mut worker, directory.path(), 10).expect("nothing is lost");
    assert!(acknowledged > 0);
}

#[test]
fn the_check_notices_what_is_missing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = database::open(&database::under_test(directory.path())).expect("a database");
    kill::prepare(&connection).expect("tables");
    kill::check(&connection, &[0, 0, 0]).expect("nothing was acknowledged, and nothing is there");
    connection.execute_batch("INSERT INTO entry VALUES (0, 1, 0, 'x'), (0, 1, 1, 'x')").expect("entries");
    connection.execute_batch("UPDATE progress SET n = 1 WHERE thread = 0").expect("progress");
    kill::check(&connection, &[1, 0, 0]).expect("transaction 1 is there as a whole");
    kill::check(&connection, &[2, 0, 0]).expect_err("transaction 2 is lost");
    connection.execute_batch("DELETE FROM entry WHERE part = 1").expect("a deletion");
    kill::check(&connection, &[1, 0, 0]).expect_err("transaction 1 is there in half");
}
