//! Jobs that several clients of a cluster claim, each by one `UPDATE … RETURNING` whose statement is only reset after its
//! row: what that says is ignored, as many drivers do.

use fulmar_cluster::{Protocol, Replication};
use fulmar_conformance::database;
use fulmar_conformance::server::{self, Keep};
use rusqlite::{Connection, MAIN_DB};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;

const JOBS: i64 = 120;

fn first(connection: &Connection, sql: &str) -> Option<i64> {
    let mut statement = connection.prepare(sql).expect("a statement");
    let mut rows = statement.query([]).expect("a query");
    rows.next().expect("no error before the row").map(|row| row.get(0).expect("a number"))
}

fn claim_each_once(replication: Replication) {
    let cluster = server::start(3, Keep::OnDisk, replication).expect("servers on loopback");
    let open = || database::open(&format!("fulmar://{cluster}/claims")).expect("a connection");
    let jobs = format!(
        "CREATE TABLE job(id INTEGER PRIMARY KEY, owner); CREATE TABLE log(id INTEGER PRIMARY KEY, job, owner);
         CREATE TRIGGER logs AFTER UPDATE ON job BEGIN INSERT INTO log(job, owner) VALUES (new.id, new.owner); END;
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})
         INSERT INTO job(id) SELECT i FROM n"
    );
    let connection = open();
    connection.execute_batch(&jobs).expect("jobs");
    let claims = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (claims, open) = (&claims, &open);
            scope.spawn(move || {
                let connection = open();
                let claim = format!(
                    "UPDATE job SET owner = {worker}
                     WHERE id = (SELECT id FROM job WHERE owner IS NULL ORDER BY id LIMIT 1) RETURNING id"
                );
                while let Some(job) = first(&connection, &claim) {
                    claims.lock().expect("no worker has failed").push(job);
                }
            });
        }
    });
    let claims = claims.into_inner().expect("no worker has failed");
    let once: BTreeSet<_> = claims.iter().collect();
    assert_eq!((claims.len(), once.len()), (120, 120));
    assert_eq!(first(&connection, "SELECT count(*) FROM log"), Some(JOBS));
}

#[test]
fn each_job_on_servers_is_claimed_once() {
    claim_each_once(Replication::default());
}

#[test]
fn each_job_on_replicas_is_claimed_once() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        claim_each_once(Replication { replicas: 3, protocol });
    }
}

#[test]
fn a_blob_that_is_written_on_servers_cannot_lose() {
    let cluster = server::start(1, Keep::InMemory, Replication::default()).expect("a server on loopback");
    let open = || database::open(&format!("fulmar://{cluster}/blobs")).expect("a connection");
    let (a, b) = (open(), open());
    a.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(4))").expect("a row");
    b.busy_timeout(std::time::Duration::ZERO).expect("no waiting");
    let mut blob = a.blob_open(MAIN_DB, "t", "x", 1, false).expect("opens");
    blob.write_all(&[1, 2]).expect("writes");
    b.execute("UPDATE t SET x = x || x'07'", []).expect_err("it would make the other lose");
    drop(blob);
    b.execute("UPDATE t SET x = x || x'07'", []).expect("nobody else writes");
    assert_eq!(first(&a, "SELECT hex(x) = '0102000007' FROM t"), Some(1));
}
