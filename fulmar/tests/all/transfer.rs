//! `fulmar import`, `export`, `backup` and `restore`, as they are run.

#![allow(clippy::unwrap_used, reason = "a test that cannot run a program has failed")]

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_sql as _;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::server::Server;

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

/// A database with every kind of object, and values that a careless copy changes.
const EVERYTHING: &str = include_str!("../transfer/everything.sql");

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(FULMAR);
    command.args(arguments).current_dir(folder).env_remove("FULMAR_DATABASES");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn answer(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn complaint(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn file(folder: &Path, name: &str, content: &str) -> Connection {
    let connection = Connection::open(folder.join(name)).unwrap();
    connection.execute_batch(content).unwrap();
    connection
}

fn strings(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// All that a database holds: its schema, the numbers in its header, and each row of each table, rowids included.
/// Text is shown as the bytes it consists of.
fn content(connection: &Connection) -> Vec<String> {
    let mut all = strings(
        connection,
        "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || sql FROM sqlite_schema
         WHERE sql IS NOT NULL AND name <> '_fulmar_backup' ORDER BY type, name",
    );
    for pragma in ["user_version", "application_id", "encoding"] {
        let value: Value = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0)).unwrap();
        all.push(format!("{pragma} {value:?}"));
    }
    let tables = strings(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> '_fulmar_backup' ORDER BY name",
    );
    for table in tables {
        let quoted = format!("\"{}\"", table.replace('"', "\"\""));
        let names: Vec<String> = {
            let mut statement =
                connection.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden <> 1").unwrap();
            statement.query_map([&table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let rowid = ["rowid", "_rowid_", "oid"].into_iter().find(|rowid| {
            !names.iter().any(|name| name == rowid)
                && connection.prepare(&format!("SELECT {rowid} FROM {quoted}")).is_ok()
        });
        let mut columns: Vec<String> = rowid.into_iter().map(str::to_owned).collect();
        for name in &names {
            let name = format!("\"{}\"", name.replace('"', "\"\""));
            columns.push(format!("typeof({name})"));
            columns.push(format!("CASE typeof({name}) WHEN 'text' THEN hex({name}) ELSE {name} END"));
        }
        let mut statement = connection
            .prepare(&format!("SELECT {} FROM {quoted} ORDER BY 1, 2, 3", columns.join(", ")))
            .unwrap();
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<Value> = (0..width).map(|column| row.get(column).unwrap()).collect();
            all.push(format!("{table} {values:?}"));
        }
    }
    all
}

fn assert_same(left: &Connection, right: &Connection) {
    let (left, right) = (content(left), content(right));
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left, right);
    }
    assert_eq!(left.len(), right.len());
}

#[test]
fn every_kind_of_object_goes_there_and_back_unchanged() {
    for encoding in ["UTF-8", "UTF-16le", "UTF-16be"] {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        let original = file(folder, "old.db", &format!("PRAGMA encoding = '{encoding}'; {EVERYTHING}"));
        let output = run(folder, &["import", "old.db", "birds"]);
        assert!(output.status.success(), "{output:?}");
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(warnings.contains("Warning: rows of child without a parent in bird: 1"), "{warnings}");
        {
            let imported = Connection::open(format!("fulmar:{}/birds", folder.display())).unwrap();
            assert_same(&original, &imported);
            assert_eq!(strings(&imported, "PRAGMA integrity_check"), ["ok"]);
            assert_eq!(strings(&imported, "SELECT title FROM page WHERE page MATCH 'petrel'"), ["storm"]);
            // The triggers are there, and AUTOINCREMENT goes on where it was.
            let after = "BEGIN; INSERT INTO bird(name, weight) VALUES('new', 1)";
            imported.execute_batch(after).unwrap();
            assert_eq!(
                strings(
                    &imported,
                    "SELECT id || name FROM bird WHERE name = 'new' UNION ALL SELECT what FROM log WHERE what LIKE '%new'"
                ),
                ["8new", "added new"]
            );
            imported.execute_batch("ROLLBACK").unwrap();
        }
        answer(folder, &["export", "birds", "new.db"]);
        answer(folder, &["backup", "birds", "birds.backup"]);
        answer(folder, &["restore", "birds.backup", "restored"]);
        for copy in ["new.db", "birds.backup", "restored"] {
            let name = folder.join(copy).to_string_lossy().into_owned();
            let scheme = if copy == "restored" { "fulmar:" } else { "" };
            let copy = Connection::open(format!("{scheme}{name}")).unwrap();
            assert_same(&original, &copy);
            assert_eq!(strings(&copy, "PRAGMA integrity_check"), ["ok"]);
        }
        assert!(!folder.join("new.db.part").exists());
    }
}

/// Begins a command and kills it once it has told that so many hundredths are done. Answers whether it was still running.
fn kill_at(folder: &Path, arguments: &[&str], hundredths: u32) -> bool {
    let mut child = command(folder, arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let told = line.trim_start().split(' ').next().and_then(|number| number.parse::<u32>().ok());
        if told.is_some_and(|told| told >= hundredths) {
            child.kill().unwrap();
            break;
        }
    }
    !child.wait().unwrap().success()
}

/// Enough rows for some tens of batches.
const MANY_ROWS: &str = "CREATE TABLE number(n);
    INSERT INTO number WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT i FROM n;
    CREATE TABLE filler(a INTEGER PRIMARY KEY, b BLOB);
    INSERT INTO filler SELECT n, randomblob(20000) FROM number WHERE n <= 3000;
    CREATE TABLE packed(a, b, PRIMARY KEY(b DESC, a)) WITHOUT ROWID;
    INSERT INTO packed SELECT n, hex(randomblob(2000)) FROM number;
    CREATE INDEX filler_b ON filler(substr(b, 1, 10));
    CREATE INDEX packed_a ON packed(a);";

#[test]
fn an_import_that_was_killed_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0");
    let original = file(folder, "old.db", &format!("{EVERYTHING};{MANY_ROWS}"));
    for name in ["fulmar:birds".to_owned(), format!("{}/birds", server.address)] {
        let import = ["import", "old.db", &name];
        for hundredths in [3, 30, 70] {
            assert!(kill_at(folder, &import, hundredths), "the import was over at {hundredths} %");
            let refused = complaint(folder, &["export", &name, "new.db"]);
            assert!(refused.contains("unfinished import"), "{refused}");
        }
        let output = run(folder, &import);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("going on after"), "{output:?}");
        let name = name.replace("fulmar:birds", &format!("fulmar:{}/birds", folder.display()));
        let imported = Connection::open(name).unwrap();
        assert_same(&original, &imported);
        assert_eq!(strings(&imported, "PRAGMA integrity_check"), ["ok"]);
    }
}

#[test]
fn an_import_of_a_file_that_has_changed_begins_anew_if_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let original = file(folder, "old.db", &format!("{EVERYTHING};{MANY_ROWS}"));
    file(folder, "other.db", "CREATE TABLE t(a)");
    assert!(kill_at(folder, &["import", "old.db", "birds"], 50));
    original.execute("INSERT INTO bird(name, weight) VALUES('late', 2)", []).unwrap();
    let changed = complaint(folder, &["import", "old.db", "birds"]);
    assert!(changed.contains("unfinished import of old.db, which has changed since; --force"), "{changed}");
    let other = complaint(folder, &["import", "other.db", "birds"]);
    assert!(other.contains("old.db; --force removes"), "{other}");
    answer(folder, &["import", "old.db", "birds", "--force"]);
    let imported = Connection::open(format!("fulmar:{}/birds", folder.display())).unwrap();
    assert_same(&original, &imported);
}

#[test]
fn of_two_imports_into_one_database_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0");
    let original = file(folder, "old.db", &format!("{EVERYTHING};{MANY_ROWS}"));
    let name = format!("{}/birds", server.address);
    let import = || {
        let mut import = command(folder, &["import", "old.db", &name]);
        import.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [import(), import()].map(|child| child.wait_with_output().unwrap());
    let (done, stopped): (Vec<_>, Vec<_>) = both.iter().partition(|output| output.status.success());
    assert_eq!(done.len(), 1, "{both:?}");
    let why = String::from_utf8_lossy(&stopped[0].stderr);
    assert!(why.contains("another program changes") || why.contains("is not empty"), "{why}");
    assert_same(&original, &Connection::open(name).unwrap());
}

#[test]
fn an_import_sees_one_moment_of_a_file_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let writer = file(folder, "old.db", &format!("PRAGMA journal_mode = WAL; {MANY_ROWS}"));
    writer.execute_batch("CREATE TABLE late(a); INSERT INTO number VALUES(-1)").unwrap();
    let mut import = command(folder, &["import", "old.db", "birds"]);
    let mut import = import.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(import.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    // It has begun, so these come too late.
    writer.execute_batch("INSERT INTO late VALUES(1); DELETE FROM packed; DELETE FROM number").unwrap();
    lines.for_each(drop);
    assert!(import.wait().unwrap().success());
    let imported = Connection::open(format!("fulmar:{}/birds", folder.display())).unwrap();
    let counts = "SELECT (SELECT count(*) FROM number) || ' ' || (SELECT count(*) FROM packed) || ' ' ||
                         (SELECT count(*) FROM late)";
    assert_eq!(strings(&imported, counts), ["5001 5000 0"]);
}

#[test]
fn an_export_holds_one_moment_while_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0");
    let name = format!("{}/bank", server.address);
    Connection::open(&name)
        .unwrap()
        .execute_batch(
            "CREATE TABLE account(id INTEGER PRIMARY KEY, amount INTEGER); CREATE TABLE moved(n INTEGER);
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 2000)
             INSERT INTO account SELECT i, 100 FROM n",
        )
        .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Two writers go on while the copies are made.
        for writer in 0..2 {
            let (name, done) = (&name, &done);
            scope.spawn(move || {
                let connection = Connection::open(name).unwrap();
                for turn in 0_i64.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let (from, to) = (turn * 7 % 1000, 1000 + (turn * 13 + writer) % 1000);
                    // Whoever loses a conflict has changed nothing.
                    let _ = connection.execute_batch(&format!(
                        "BEGIN; UPDATE account SET amount = amount - 1 WHERE id = {from};
                         UPDATE account SET amount = amount + 1 WHERE id = {to}; COMMIT"
                    ));
                }
            });
        }
        for round in 0..5 {
            let (copy, backup) = (format!("{round}.db"), format!("{round}.backup"));
            answer(folder, &["export", &name, &copy]);
            answer(folder, &["backup", &name, &backup]);
            answer(folder, &["restore", &backup, &format!("restored{round}")]);
            for copy in [copy, backup] {
                let copy = Connection::open(folder.join(copy)).unwrap();
                let sum = strings(&copy, "SELECT count(*) || ' ' || sum(amount) FROM account");
                assert_eq!(sum, ["2000 200000"]);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let first = Connection::open(folder.join("0.db")).unwrap();
    let last = Connection::open(folder.join("4.db")).unwrap();
    assert_ne!(content(&first), content(&last), "nobody wrote");
}

#[test]
fn a_backup_that_was_altered_is_refused_and_the_target_stays_empty() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let original = file(folder, "old.db", EVERYTHING);
    answer(folder, &["import", "old.db", "birds"]);
    answer(folder, &["backup", "birds", "good"]);
    let good = std::fs::read(folder.join("good")).unwrap();
    let alterations = [
        "UPDATE bird SET weight = weight + 1 WHERE id = 2",
        "DELETE FROM child",
        "INSERT INTO odd(rowid) VALUES(77)",
        "DROP INDEX bird_weight",
        "DROP TABLE log",
        "CREATE TABLE more(a)",
        "PRAGMA user_version = 8",
        "UPDATE _fulmar_backup SET rows = rows + 1 WHERE name = 'bird'",
        "DELETE FROM _fulmar_backup WHERE name = 'bird'",
        "UPDATE sqlite_sequence SET seq = seq + 1",
    ];
    let refuse = |name: &str| {
        let refused = complaint(folder, &["restore", name, "target"]);
        assert!(refused.contains(name) && refused.contains("damaged"), "{name}: {refused}");
        assert!(!folder.join("target").exists(), "{name}");
    };
    for (number, alteration) in alterations.into_iter().enumerate() {
        let name = format!("altered{number}");
        std::fs::write(folder.join(&name), &good).unwrap();
        file(folder, &name, alteration);
        refuse(&name);
    }
    for kept in [1000, 4096, good.len() / 2, good.len() - 1] {
        let name = format!("truncated{kept}");
        std::fs::write(folder.join(&name), &good[..kept]).unwrap();
        refuse(&name);
    }
    // A byte that was changed is found, unless nothing that anybody put into the database depends on it.
    let mut found = 0;
    for at in (100..good.len()).step_by(good.len() / 60) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        std::fs::write(folder.join("flipped"), flipped).unwrap();
        if run(folder, &["restore", "flipped", "target"]).status.success() {
            let restored = Connection::open(format!("fulmar:{}/target", folder.display())).unwrap();
            assert_same(&original, &restored);
            drop(restored);
            std::fs::remove_dir_all(folder.join("target")).unwrap();
        } else {
            found += 1;
            assert!(!folder.join("target").exists(), "byte {at}");
        }
    }
    assert!(found > 0);
    answer(folder, &["restore", "good", "target"]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    file(folder, "old.db", "CREATE TABLE t(a)");
    let german = Connection::open(folder.join("german.db")).unwrap();
    german.create_collation("german", |left: &str, right: &str| left.cmp(right)).unwrap();
    german.execute_batch("CREATE TABLE t(a COLLATE german); CREATE INDEX by_name ON t(a)").unwrap();
    answer(folder, &["import", "old.db", "full"]);
    std::fs::write(folder.join("noise"), [7; 5000]).unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    std::fs::write(folder.join("busy.db-wal"), "changes").unwrap();
    let before = std::fs::read_dir(folder).unwrap().count();
    let cases: [(&[&str], &str); 15] = [
        (&["import", "missing.db", "new"], "missing.db: No such file or directory"),
        (&["import", "noise", "new"], "noise: not a SQLite database, or an encrypted one"),
        (&["import", "folder", "new"], "folder: Is a directory"),
        (&["import", "fulmar:full", "new"], "is no file but the name of a Fulmar database"),
        (&["import", "old.db", "full"], "full is not empty, it has \"t\""),
        (&["import", "old.db", "german.db"], "is no Fulmar database"),
        (&["import", "old.db", ":memory:"], "is no Fulmar database"),
        (&["import", "german.db", "new"], "index by_name of table t: its order under the collation german"),
        (&["import", "old.db", "fulmar://127.0.0.1:1/new"], "cannot reach a server"),
        (&["export", "nothing", "new.db"], "no such database"),
        (&["export", "full", "old.db"], "old.db exists; --force replaces it"),
        (&["export", "full", "nowhere/new.db"], "No such file or directory"),
        (&["export", "full", "folder"], "folder: a folder"),
        (&["export", "full", "busy.db", "--force"], "busy.db-wal exists"),
        (&["restore", "old.db", "new"], "not made by `fulmar backup`"),
    ];
    for (arguments, expected) in cases {
        let message = complaint(folder, arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let misnamed = run(folder, &["import", "old.db", "foo:bar"]);
    assert_eq!(misnamed.status.code(), Some(2), "{misnamed:?}");
    assert!(String::from_utf8_lossy(&misnamed.stderr).contains("unknown scheme \"foo:\""), "{misnamed:?}");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), before, "nothing was made");
    // Who could not read the old one cannot read the new one.
    std::fs::set_permissions(folder.join("old.db"), Permissions::from_mode(0o600)).unwrap();
    for replace in [["export", "full", "old.db", "--force"].as_slice(), &["sql", "full", ".backup old.db"]] {
        answer(folder, replace);
        let mode = std::fs::metadata(folder.join("old.db")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{replace:?}");
    }
    let redirected =
        command(folder, &["export", "full", "new.db"]).env("FULMAR_DATABASES", "*").output().unwrap();
    assert!(String::from_utf8_lossy(&redirected.stderr).contains("env -u FULMAR_DATABASES"));
    assert_eq!(run(folder, &["import", "old.db"]).status.code(), Some(2));
}

#[test]
fn foreign_keys_that_never_worked_do_not_fail_an_import() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    file(folder, "old.db", "CREATE TABLE p(a); CREATE TABLE k(x REFERENCES p(a)); INSERT INTO k VALUES(1)");
    let output = run(folder, &["import", "old.db", "birds"]);
    assert!(output.status.success(), "{output:?}");
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(warning.contains("foreign key mismatch - \"k\" referencing \"p\""), "{warning}");
}

/// What people see, word by word.
#[test]
fn a_session_reads_as_written_down() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    file(folder, "old.db", EVERYTHING);
    let mut session = String::new();
    for line in
        include_str!("../transfer/session.out").lines().filter_map(|line| line.strip_prefix("$ fulmar "))
    {
        let output = run(folder, &line.split(' ').collect::<Vec<_>>());
        let answered = [output.stderr, output.stdout].concat();
        session.push_str(&format!("$ fulmar {line}\n{}", String::from_utf8(answered).unwrap()));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transfer/session.out");
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, session).unwrap();
    } else {
        assert_eq!(session, std::fs::read_to_string(golden).unwrap());
    }
}
