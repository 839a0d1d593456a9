//! Killing a process that commits.

use fulmar_conformance::{database, kill, workload};
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
    workload::check(&connection, &[]).expect("nothing was acknowledged, and nothing is there");
    workload::check(&connection, &[1]).expect_err("all is lost");
    workload::prepare(&connection).expect("tables");
    workload::commit(&connection, 0, 1).expect("a transaction");
    workload::check(&connection, &[0]).expect("transaction 1 is there before it was acknowledged");
    workload::check(&connection, &[1]).expect("transaction 1 is there as a whole");
    workload::check(&connection, &[2]).expect_err("transaction 2 is lost");
    connection.execute_batch("DELETE FROM entry WHERE part = 1").expect("a deletion");
    workload::check(&connection, &[1]).expect_err("transaction 1 is there in half");
}
