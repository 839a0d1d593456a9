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
    let groups = "SELECT count(DISTINCT rootpage >> 22) FROM sqlite_schema";
    let groups: usize = connection.query_row(groups, [], |row| row.get(0)).expect("a count");
    assert_eq!(groups, server::count().max(1));
}
