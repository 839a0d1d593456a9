//! Settings of ours.

use crate::concurrency::{BUSY_SNAPSHOT, connections, failure, number};
use rusqlite::Connection;
use std::time::Duration;

const BUSY: i32 = 5;

fn immediate(connection: &Connection) -> String {
    connection.query_row("PRAGMA fulmar_immediate", [], |row| row.get(0)).expect("a PRAGMA of ours")
}

#[test]
fn begin_immediate_takes_the_writers_turn_if_told_to() {
    let (directory, [shared]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (0)");
    let open = |parameters: &str| {
        let name = format!("fulmar:{}/db{parameters}", directory.path().display());
        let connection = Connection::open(name).expect("opens");
        connection.busy_timeout(Duration::ZERO).expect("no waiting");
        connection
    };
    let (by_name, by_pragma) = (open("?immediate=exclusive"), open(""));
    assert_eq!((immediate(&shared), immediate(&by_name)), ("shared".into(), "exclusive".into()));
    // A statement that was prepared before follows the PRAGMA too.
    let mut begin = by_pragma.prepare("BEGIN IMMEDIATE").expect("a statement");
    begin.execute([]).expect("begins");
    shared.execute_batch("UPDATE t SET x = x + 1").expect("is not kept out");
    by_pragma.execute_batch("UPDATE t SET x = x + 1").expect("is not kept out");
    assert_eq!(failure(by_pragma.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
    by_pragma.execute_batch("PRAGMA fulmar_immediate = exclusive").expect("is set");
    assert_eq!(immediate(&by_pragma), "exclusive");

    begin.execute([]).expect("begins");
    assert_eq!(failure(by_name.execute_batch("BEGIN IMMEDIATE")).0, BUSY);
    assert_eq!(number(&by_name, "SELECT x FROM t"), 1, "readers go on");
    shared.busy_timeout(Duration::ZERO).expect("no waiting");
    assert_eq!(failure(shared.execute("UPDATE t SET x = x + 1", [])).0, BUSY);
    by_pragma.execute_batch("UPDATE t SET x = x + 1; COMMIT").expect("nobody else has written");
    by_name.execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = x + 1; COMMIT").expect("is alone");
    assert_eq!(number(&shared, "SELECT x FROM t"), 3);

    let (_, why) = failure(shared.execute_batch("PRAGMA fulmar_immediate = now"));
    assert!(why.contains("expected shared or exclusive"), "{why}");
}

#[test]
fn pages_are_about_as_many_as_what_is_stored_would_fill() {
    let (_directory, [a]) = connections("CREATE TABLE t(x)");
    let stored = |what: &str| number(&a, &format!("PRAGMA {what}"));
    let before = stored("page_count") * stored("page_size");
    a.execute_batch(
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO t SELECT randomblob(2000) FROM n",
    )
    .expect("rows");
    let grown = stored("page_count") * stored("page_size") - before;
    assert!((1_500_000..8_000_000).contains(&grown), "{before}, {grown} more");
}
