//! What SQLite draws by chance, in children of a process that has drawn before.

use crate::servers::Cluster;
use crate::{alone, count, fork, wait};
use rusqlite::Connection;

const CHILDREN: i64 = 6;
const KEYS: i64 = 25;

#[test]
fn keys_that_children_draw_by_chance_are_unique() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    draw_in_children(&format!("fulmar:{}/db", directory.path().display()));
}

#[test]
fn keys_that_children_draw_by_chance_on_servers_are_unique() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(directory.path(), 1, "viewstamped");
    draw_in_children(&format!("fulmar://{}/db", cluster.address));
}

fn draw_in_children(name: &str) {
    let parent = Connection::open(name).unwrap();
    parent.execute_batch("CREATE TABLE t(a BLOB PRIMARY KEY); SELECT randomblob(16)").unwrap();
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {KEYS}) \
         INSERT INTO t SELECT randomblob(16) FROM n"
    );
    // Each way to go on after a fork: by a connection of the parent's, and by one of its own.
    let by_inherited = || i32::from(parent.execute_batch(&fill).is_err());
    let by_own = || i32::from(Connection::open(name).and_then(|own| own.execute_batch(&fill)).is_err());
    // And by a key that is drawn before there is a transaction.
    let draw = || parent.query_row("SELECT randomblob(16)", [], |row| row.get::<_, Vec<u8>>(0));
    let before = || {
        i32::from(
            (0..KEYS)
                .any(|_| draw().and_then(|key| parent.execute("INSERT INTO t VALUES (?)", [key])).is_err()),
        )
    };
    let child = |n| match n % 3 {
        0 => fork(by_inherited),
        1 => fork(by_own),
        _ => fork(before),
    };
    let children: Vec<_> = (0..CHILDREN).map(child).collect();
    let ended: Vec<_> = children.into_iter().map(wait).collect();
    assert!(ended.iter().all(|status| *status == 0), "keys that another child has drawn, too: {ended:?}");
    assert_eq!(count(&parent), Ok(CHILDREN * KEYS));
}
