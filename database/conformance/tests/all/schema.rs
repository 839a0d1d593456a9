//! The schema changes while others have statements prepared for it.

use fulmar_conformance::database;
use rusqlite::{Connection, Result, Statement};

fn two() -> (tempfile::TempDir, Connection, Connection) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = || database::open(&database::under_test(directory.path())).expect("a connection");
    let (one, other) = (open(), open());
    one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").expect("a table");
    (directory, one, other)
}

/// All rows of a statement that was prepared before.
fn rows(statement: &mut Statement<'_>) -> Result<Vec<Vec<i64>>> {
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let width = row.as_ref().column_count();
        rows.push((0..width).map(|column| row.get(column)).collect::<Result<_>>()?);
    }
    Ok(rows)
}

#[test]
fn a_prepared_statement_runs_on_the_schema_of_its_snapshot() {
    let (_directory, one, other) = two();
    let mut all = one.prepare("SELECT * FROM t").expect("a query");
    assert_eq!(rows(&mut all), Ok(vec![vec![1]]));
    other.execute_batch("ALTER TABLE t ADD COLUMN b DEFAULT 7").expect("a column");
    assert_eq!(rows(&mut all), Ok(vec![vec![1, 7]]));
    one.execute_batch("BEGIN").expect("begins");
    assert_eq!(rows(&mut all), Ok(vec![vec![1, 7]]));
    other.execute_batch("DROP TABLE t").expect("drops");
    assert_eq!(rows(&mut all), Ok(vec![vec![1, 7]]));
    one.execute_batch("COMMIT").expect("commits");
    let error = rows(&mut all).expect_err("the table is gone").to_string();
    assert!(error.contains("no such table: t"), "{error}");
}

#[test]
fn an_index_made_by_another_connection_is_kept() {
    let (_directory, one, other) = two();
    let mut statement = one.prepare("INSERT INTO t VALUES (?1)").expect("a statement");
    let mut insert = |value: i64| statement.execute([value]);
    assert_eq!(insert(2), Ok(1));
    other.execute_batch("CREATE INDEX i ON t(a)").expect("an index");
    assert_eq!(insert(3), Ok(1));
    let by_index = "SELECT group_concat(a) FROM t INDEXED BY i WHERE a > 0";
    assert_eq!(other.query_row(by_index, [], |row| row.get::<_, String>(0)), Ok("1,2,3".into()));
    let sound = other.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(sound, Ok("ok".into()));
    other.execute_batch("DROP INDEX i; CREATE UNIQUE INDEX u ON t(a)").expect("another index");
    let error = insert(3).expect_err("the value is there").to_string();
    assert!(error.contains("UNIQUE constraint failed: t.a"), "{error}");
}
