//! Threads that race, each on a connection of its own.

use crate::basics::rows;
use crate::concurrency::{BUSY_SNAPSHOT, connections, failure, number, open};
use rusqlite::{Connection, types::Value};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

const CONSTRAINT_UNIQUE: i32 = 2067;
const CONSTRAINT_FOREIGN_KEY: i32 = 787;
const THREADS: i64 = 16;

/// The extended code of a failure, or 0.
fn code<T>(result: rusqlite::Result<T>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(error) => error.sqlite_error().expect("an error of SQLite's").extended_code,
    }
}

/// Runs `work(thread, connection)` in sixteen threads.
fn race(directory: &tempfile::TempDir, work: impl Fn(i64, &Connection) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread, &open(directory)));
        }
    });
}

fn barrier() -> Barrier {
    Barrier::new(usize::try_from(THREADS).expect("is small"))
}

fn sound(connection: &Connection) {
    assert_eq!(rows(connection, "PRAGMA integrity_check"), [[Value::Text("ok".into())]]);
    assert!(rows(connection, "PRAGMA foreign_key_check").is_empty());
}

#[test]
fn rows_numbered_by_sqlite_do_not_conflict() {
    for key in ["INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT", ""] {
        let (directory, [a]) =
            connections(&format!("CREATE TABLE t(id {key}, thread, x); CREATE INDEX tx ON t(thread, x)"));
        let (all_began, each) = (barrier(), 8);
        race(&directory, |thread, c| {
            c.execute_batch("BEGIN").expect("begins");
            assert_eq!(number(c, "SELECT count(*) FROM t"), 0);
            all_began.wait();
            let insert = format!("INSERT INTO t(thread, x) VALUES ({thread}, 1), ({thread}, 2); COMMIT");
            c.execute_batch(&insert).expect("no conflict");
            for x in 3..each {
                c.execute("INSERT INTO t(thread, x) VALUES (?, ?)", (thread, x)).expect("no conflict");
            }
        });
        let expected = THREADS * (each - 1);
        assert_eq!(number(&a, "SELECT count(DISTINCT rowid) FROM t"), expected, "{key}");
        sound(&a);
    }
}

#[test]
fn one_of_equal_keys_wins() {
    for table in
        ["t(k UNIQUE, thread)", "t(k PRIMARY KEY, thread) WITHOUT ROWID", "t(k INTEGER PRIMARY KEY, thread)"]
    {
        let (directory, [a]) = connections(&format!("CREATE TABLE {table}"));
        let (start, won, rounds) = (barrier(), AtomicI64::new(0), 8);
        race(&directory, |thread, c| {
            for round in 0..rounds {
                start.wait();
                let result = c.execute("INSERT INTO t(k, thread) VALUES (?, ?)", (round, thread));
                match code(result) & 0xff {
                    0 => won.fetch_add(1, Ordering::Relaxed),
                    19 => 0,
                    other => panic!("{table}: {other}"),
                };
            }
        });
        assert_eq!(won.into_inner(), rounds, "{table}");
        assert_eq!(number(&a, "SELECT count(*) FROM t"), rounds, "{table}");
        sound(&a);
    }
}

#[test]
fn one_of_equal_keys_wins_in_transactions_too() {
    let (directory, [a]) = connections("CREATE TABLE t(k UNIQUE)");
    let (all_wrote, won) = (barrier(), AtomicI64::new(0));
    race(&directory, |_, c| {
        c.execute_batch("BEGIN; INSERT INTO t VALUES ('same')").expect("nobody has committed it");
        all_wrote.wait();
        match code(c.execute_batch("COMMIT")) {
            0 => won.fetch_add(1, Ordering::Relaxed),
            BUSY_SNAPSHOT => 0,
            other => panic!("{other}"),
        };
        let again = code(c.execute("INSERT INTO t VALUES ('same')", []));
        assert_eq!(again, CONSTRAINT_UNIQUE);
    });
    assert_eq!(won.into_inner(), 1);
    sound(&a);
}

#[test]
fn no_child_is_left_without_its_parent() {
    let (directory, [a]) = connections(
        "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p(id));
         CREATE TABLE d(p REFERENCES p(id) ON DELETE CASCADE); CREATE INDEX cp ON c(p); CREATE INDEX dp ON d(p)",
    );
    let (start, rounds) = (barrier(), 12);
    race(&directory, |thread, connection| {
        connection.execute_batch("PRAGMA foreign_keys = ON").expect("is a PRAGMA");
        for round in 0..rounds {
            if thread == 0 {
                connection.execute("INSERT INTO p VALUES (?)", [round]).expect("is new");
            }
            start.wait();
            let sql = match thread % 3 {
                0 => "INSERT INTO c VALUES (?)",
                1 => "INSERT INTO d VALUES (?)",
                _ => "DELETE FROM p WHERE id = ?",
            };
            let code = code(connection.execute(sql, [round]));
            assert!(matches!(code, 0 | CONSTRAINT_FOREIGN_KEY), "{sql}: {code}");
            start.wait();
        }
    });
    sound(&a);
}

#[test]
fn the_schema_changes_under_those_who_write() {
    let (directory, [a]) = connections("CREATE TABLE t(x)");
    let (ended, each) = (AtomicBool::new(false), 30);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let directory = &directory;
                scope.spawn(move || {
                    let c = open(directory);
                    for x in 0..each {
                        c.execute("INSERT INTO t(x) VALUES (?)", [x]).expect("is run again inside");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let c = open(&directory);
            let mut column = 0;
            while !ended.load(Ordering::Relaxed) {
                column += 1;
                c.execute_batch(&format!(
                    "CREATE INDEX tx ON t(x); ALTER TABLE t ADD COLUMN y{column} DEFAULT {column};
                     DROP INDEX tx; ALTER TABLE t DROP COLUMN y{column}"
                ))
                .expect("is run again inside");
            }
            c.execute_batch("CREATE INDEX tx ON t(x)").expect("runs");
        });
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        ended.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert_eq!(number(&a, "SELECT count(*) FROM t INDEXED BY tx"), 4 * each);
    assert_eq!(number(&a, "SELECT count(*) FROM t NOT INDEXED"), 4 * each);
    sound(&a);
}

#[test]
fn a_long_reader_sees_the_same_rows_at_the_end() {
    let (directory, [reader, counter]) = connections(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX tx ON t(x);
         WITH ids(id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM ids WHERE id < 2000)
         INSERT INTO t SELECT id, id * 7 % 100 FROM ids",
    );
    let all = "SELECT id, x FROM t ORDER BY x, id";
    reader.execute_batch("BEGIN").expect("begins");
    let before = rows(&reader, all);
    // One statement is stepped all the while.
    let mut slow = counter.prepare("SELECT x FROM t NOT INDEXED ORDER BY id").expect("prepares");
    let mut slow = slow.query([]).expect("runs");
    let mut sum = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_i64)
            .map(|thread| {
                let directory = &directory;
                scope.spawn(move || {
                    let c = open(directory);
                    for i in 0..50 {
                        c.execute("UPDATE t SET x = x + 1 WHERE id % 97 = ?", [(i * 4 + thread) % 97])
                            .expect("runs");
                        c.execute("DELETE FROM t WHERE id = ?", [i * 40 + thread]).expect("runs");
                        c.execute("INSERT INTO t(x) VALUES (?)", [i]).expect("runs");
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            assert_eq!(number(&reader, "SELECT count(*) FROM t INDEXED BY tx"), 2000);
            if let Some(row) = slow.next().expect("steps") {
                sum += row.get::<_, i64>(0).expect("a number");
            }
        }
    });
    while let Some(row) = slow.next().expect("steps") {
        sum += row.get::<_, i64>(0).expect("a number");
    }
    assert_eq!(rows(&reader, all), before);
    assert_eq!(sum, (1..=2000).map(|id| id * 7 % 100).sum::<i64>());
    reader.execute_batch("COMMIT").expect("commits");
    assert_ne!(rows(&reader, all), before);
    sound(&reader);
}

#[test]
fn the_busy_handler_waits_for_an_exclusive_transaction() {
    static CALLS: AtomicI64 = AtomicI64::new(0);
    let (_directory, [a, mut b]) = connections("CREATE TABLE t(x)");
    a.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t VALUES (1)").expect("begins");
    b.busy_handler(Some(|calls| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        calls < 3
    }))
    .expect("is set");
    assert_eq!(failure(b.execute("INSERT INTO t VALUES (2)", [])).0, 5);
    assert_eq!(CALLS.load(Ordering::Relaxed), 4);
    assert_eq!(failure(b.execute_batch("BEGIN EXCLUSIVE")).0, 5);
    b.busy_timeout(Duration::from_secs(600)).expect("is set");
    std::thread::scope(|scope| {
        scope.spawn(move || b.execute("INSERT INTO t VALUES (2)", []).expect("waits"));
        a.execute_batch("COMMIT").expect("commits");
    });
    assert_eq!(number(&a, "SELECT count(*) FROM t"), 2);
}

#[test]
fn exclusive_transactions_follow_each_other() {
    let (directory, [a]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (0)");
    race(&directory, |_, c| {
        c.busy_timeout(Duration::from_secs(600)).expect("is set");
        c.execute_batch("BEGIN EXCLUSIVE").expect("waits");
        let x = number(c, "SELECT x FROM t");
        c.execute("UPDATE t SET x = ?", [x + 1]).expect("writes");
        c.execute_batch("COMMIT").expect("no conflict");
    });
    assert_eq!(number(&a, "SELECT x FROM t"), THREADS);
}
