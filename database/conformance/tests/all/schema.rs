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

/// What `one` knew before must not keep it from finding what `other` has made since: at the first try, with nothing else
/// asked in between.
#[test]
fn what_another_connection_has_made_is_found() {
    let (_directory, one, other) = two();
    let changes = [
        ("CREATE TABLE n(x)", "SELECT * FROM n"),
        ("CREATE TABLE m(x)", "INSERT INTO m VALUES (1)"),
        ("ALTER TABLE t ADD COLUMN b", "SELECT b FROM t"),
        ("ALTER TABLE t ADD COLUMN c", "UPDATE t SET c = 1"),
        ("ALTER TABLE t ADD COLUMN d", "INSERT INTO t(d) VALUES (1)"),
        ("CREATE VIEW v AS SELECT 1", "SELECT * FROM v"),
        ("CREATE INDEX i ON t(a)", "SELECT a FROM t INDEXED BY i"),
        ("CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END", "DROP TRIGGER r"),
        ("CREATE TABLE o(x)", "BEGIN; SELECT * FROM o; COMMIT"),
        ("CREATE TABLE p(x)", "BEGIN IMMEDIATE; INSERT INTO p VALUES (1); COMMIT"),
    ];
    for (change, then) in changes {
        one.execute_batch("SELECT * FROM t").expect("it knows the schema");
        other.execute_batch(change).expect(change);
        one.execute_batch(then).expect(then);
    }
}

#[test]
fn what_another_connection_has_made_is_found_in_an_attached_database() {
    let (_directory, one, other) = two();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let more = database::under_test(directory.path());
    one.execute("ATTACH ?1 AS more", [&more]).expect("another database");
    one.execute_batch("CREATE TEMP TABLE mine(x); CREATE TABLE more.n(x); SELECT * FROM mine, t, n")
        .expect("tables");
    other.execute_batch("CREATE TABLE m(x)").expect("a table");
    database::open(&more).and_then(|third| third.execute_batch("CREATE TABLE l(x)")).expect("a table");
    one.execute_batch("SELECT * FROM mine, m, l").expect("it finds them");
}

/// These read no row by which a connection would learn that the schema is another.
#[test]
fn whether_something_exists_is_asked_of_the_newest_schema() {
    let (_directory, one, other) = two();
    let number = |connection: &Connection, sql: &str| {
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
    };
    let after = |change: &str| {
        one.execute_batch("SELECT * FROM t").expect("it knows the schema");
        other.execute_batch(change).expect(change);
    };
    for kind in ["TABLE n(x)", "VIEW n AS SELECT 1", "INDEX n ON t(a)"] {
        after(&format!("CREATE {kind}"));
        let drop = format!("DROP {} IF EXISTS n", kind.split(' ').next().unwrap_or_default());
        one.execute_batch(&drop).expect(&drop);
        assert_eq!(number(&other, "SELECT count(*) FROM sqlite_schema WHERE name = 'n'"), 0, "{drop}");
    }
    after("CREATE TABLE m(x)");
    assert_eq!(number(&one, "SELECT count(*) FROM pragma_table_info('m')"), 1);
    after("ALTER TABLE m ADD COLUMN y");
    assert_eq!(number(&one, "SELECT count(*) FROM pragma_table_info('m')"), 2);
    after("DROP TABLE m");
    one.execute_batch("CREATE TABLE IF NOT EXISTS m(x)").expect("a table");
    assert_eq!(number(&other, "SELECT count(*) FROM m"), 0);
    after("PRAGMA user_version = 7; CREATE TABLE l(x)");
    assert_eq!(number(&one, "PRAGMA user_version"), 7);
    let version = number(&one, "PRAGMA data_version");
    after("CREATE TABLE k(x)");
    assert_ne!(number(&one, "PRAGMA data_version"), version);
    let cookie = number(&one, "PRAGMA schema_version");
    after("CREATE TABLE j(x)");
    assert_eq!(number(&one, "PRAGMA schema_version"), cookie + 1);
}

/// The second counts its change of the schema on top of the first, and both find both.
#[test]
fn two_connections_make_tables_in_turn() {
    let (_directory, one, other) = two();
    for turn in 0..3 {
        for (connection, name) in [(&one, "a"), (&other, "b")] {
            connection.execute_batch(&format!("CREATE TABLE {name}{turn}(x)")).expect("a table");
        }
        for connection in [&one, &other] {
            connection.execute_batch(&format!("SELECT * FROM a{turn}, b{turn}")).expect("it finds both");
        }
    }
}
