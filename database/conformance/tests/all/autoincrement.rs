//! The first rows of tables with AUTOINCREMENT, from several clients of a cluster at once. Each is deleted right away, so that
//! only `sqlite_sequence` keeps its number from being used again.

use fulmar_cluster::{Protocol, Replication};
use fulmar_conformance::database;
use fulmar_conformance::server::{self, Keep};
use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};

const CLIENTS: usize = 6;
const TABLES: usize = 8;
/// How many rows each client inserts into each table.
const ROWS: usize = 4;

fn numbers_are_used_once(servers: usize, replication: Replication) {
    let cluster = server::start(servers, Keep::InMemory, replication).expect("servers on loopback");
    let open = || database::open(&format!("fulmar://{cluster}/numbers")).expect("a connection");
    let connection = open();
    for table in 0..TABLES {
        let make = format!("CREATE TABLE t{table}(id INTEGER PRIMARY KEY AUTOINCREMENT, x)");
        connection.execute_batch(&make).expect("a table");
    }
    let start = Barrier::new(CLIENTS);
    let given = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let connection = open();
                for table in 0..TABLES {
                    let insert = format!("INSERT INTO t{table}(x) VALUES (1) RETURNING id");
                    let delete = format!("DELETE FROM t{table} WHERE id = ?1");
                    start.wait();
                    for _ in 0..ROWS {
                        let id: i64 = connection.query_row(&insert, [], |row| row.get(0)).expect("a number");
                        connection.execute(&delete, [id]).expect("deleted");
                        given.lock().expect("no client has failed").push((table, id));
                    }
                }
            });
        }
    });
    let given = given.into_inner().expect("no client has failed");
    let once: BTreeSet<_> = given.iter().collect();
    assert_eq!((given.len(), once.len()), (CLIENTS * TABLES * ROWS, CLIENTS * TABLES * ROWS));
    let count = "SELECT count(*) || ' rows for ' || count(DISTINCT name) FROM sqlite_sequence";
    let rows: String = connection.query_row(count, [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, format!("{TABLES} rows for {TABLES}"));
}

#[test]
fn numbers_of_a_new_table_on_a_server_are_used_once() {
    numbers_are_used_once(1, Replication::default());
}

#[test]
fn numbers_of_a_new_table_on_replicas_are_used_once() {
    numbers_are_used_once(3, Replication { replicas: 3, protocol: Protocol::Viewstamped });
}
