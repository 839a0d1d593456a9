//! Concurrent transfers.

use fulmar_conformance::{database, transfers};

#[test]
fn sixteen_threads_lose_no_update_and_see_no_half() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = database::under_test(directory.path());
    transfers::run(&name, 16, 60).expect("every snapshot sums up");
}

#[test]
fn the_check_notices_half_a_transfer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = database::open(&database::under_test(directory.path())).expect("a database");
    transfers::prepare(&connection).expect("accounts");
    transfers::check_sum(&connection).expect("nothing is moved yet");
    transfers::half(&connection, 1, -5).expect("an update of its own");
    transfers::check_sum(&connection).expect_err("the other half is missing");
}
