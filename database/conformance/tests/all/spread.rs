//! That databases under test are where they are meant to be: otherwise what the other tests say would be about something
//! else.

use fulmar_conformance::{database, server};

#[test]
fn tables_lie_on_every_server() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = database::open(&database::under_test(directory.path())).expect("a database");
    for n in 0..12 {
        connection.execute_batch(&format!("CREATE TABLE t{n}(a)")).expect("a table");
    }
    let shards = "SELECT count(DISTINCT rootpage >> 22) FROM sqlite_schema";
    let shards: usize = connection.query_row(shards, [], |row| row.get(0)).expect("a count");
    assert_eq!(shards, server::count().max(1));
}

#[test]
fn an_index_lies_with_its_table_whenever_it_is_made() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = database::open(&database::under_test(directory.path())).expect("a database");
    for n in 0..12 {
        connection.execute_batch(&format!("CREATE TABLE t{n}(a, b)")).expect("a table");
    }
    for n in 0..12 {
        let index = format!("CREATE INDEX i{n} ON t{n}(b); INSERT INTO t{n} VALUES (1, 2)");
        connection.execute_batch(&index).expect("an index");
    }
    let apart = "SELECT count(*) FROM sqlite_schema i JOIN sqlite_schema t ON i.type = 'index' AND t.name = i.tbl_name
                 WHERE i.rootpage >> 22 <> t.rootpage >> 22";
    assert_eq!(connection.query_row(apart, [], |row| row.get::<_, i64>(0)).expect("a count"), 0);
    let found =
        connection.query_row("SELECT a FROM t7 INDEXED BY i7 WHERE b = 2", [], |row| row.get::<_, i64>(0));
    assert_eq!(found.expect("a row"), 1);
}
