//! What a user may get wrong when naming a database: each gets a result code and a message that says which file and why,
//! and nothing on the disk changes.

use fulmar_conformance::database;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const READONLY: i32 = 8;
const CANTOPEN: i32 = 14;
const NOTADB: i32 = 26;

/// Opening `name` must fail; the code and the message.
fn refusal(name: &str) -> (i32, String) {
    let error = database::open(name).expect_err(name);
    (error.sqlite_error().map_or(0, |e| e.extended_code & 0xff), error.to_string())
}

fn assert_refused(name: &str, code: i32, words: &[&str]) {
    let (found, message) = refusal(name);
    assert_eq!(found, code, "{message}");
    for word in words {
        assert!(message.contains(word), "{name}: {message:?} does not say {word:?}");
    }
}

/// A closed database in `directory` with one row.
fn make(directory: &Path) -> String {
    let name = database::under_test(directory);
    let connection = database::open(&name).expect("opens");
    connection.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (42)").expect("runs");
    name
}

fn number(connection: &Connection) -> i64 {
    connection.query_row("SELECT x FROM t", [], |row| row.get(0)).expect("is there")
}

#[test]
fn another_format_is_told_by_its_number() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = make(directory.path());
    let format = directory.path().join("db/FORMAT");
    let sound = fs::read(&format).expect("readable");
    for (found, word) in [
        ("fulmar database, format 2\n", "fulmar database, format 2"),
        ("fulmar database, format 10\n", "format 10"),
        ("", "says \"\""),
        ("\0\u{1}\u{2}", "\\0"),
        ("another program's", "another program's"),
    ] {
        fs::write(&format, found).expect("written");
        assert_refused(&name, NOTADB, &[&format.display().to_string(), word, "fulmar database, format 1"]);
        assert_eq!(fs::read(&format).expect("readable"), found.as_bytes());
    }
    fs::remove_file(&format).expect("removed");
    assert_refused(&name, NOTADB, &["db", "no FORMAT file"]);
    fs::write(&format, sound).expect("written");
    assert_eq!(number(&database::open(&name).expect("opens again")), 42);
}

#[test]
fn files_are_not_databases() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("db");
    let name = database::under_test(directory.path());
    fs::write(&path, "Dear Sir or Madam").expect("written");
    assert_refused(&name, NOTADB, &[&path.display().to_string(), "a file, not a Fulmar database"]);
    assert_eq!(fs::read(&path).expect("readable"), b"Dear Sir or Madam");

    fs::remove_file(&path).expect("removed");
    let ordinary = Connection::open(&path).expect("opens");
    ordinary.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (42)").expect("runs");
    drop(ordinary);
    let before = fs::read(&path).expect("readable");
    assert_refused(&name, NOTADB, &[&path.display().to_string(), "an ordinary SQLite database file"]);
    assert_eq!(fs::read(&path).expect("readable"), before);
    assert_eq!(number(&Connection::open(&path).expect("is still good")), 42);

    let inside = format!("{name}/deeper");
    assert_refused(&inside, CANTOPEN, &["db", "Not a directory"]);
}

#[test]
fn directories_of_others_are_left_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = database::under_test(directory.path());
    let letter = directory.path().join("db/letter.txt");
    fs::create_dir(directory.path().join("db")).expect("made");
    fs::write(&letter, "Dear Sir or Madam").expect("written");
    assert_refused(&name, NOTADB, &["letter.txt", "no FORMAT file"]);
    let left: Vec<_> = fs::read_dir(directory.path().join("db")).expect("readable").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read(&letter).expect("readable"), b"Dear Sir or Madam");
}

#[test]
fn names_are_explained() {
    for (name, words) in [
        ("fulmar:", ["names no directory", "fulmar:PATH"]),
        ("fulmar://host:eggs/db", ["fulmar://host:eggs/db", "expected fulmar://HOST:PORT/DATABASE"]),
        ("fulmar:/nowhere/at/all", ["/nowhere/at", "No such file"]),
        ("fulmar:db?cache=much", ["cache=much", "64MB"]),
        ("fulmar:db?mode=append", ["mode=append", "ro, rw or rwc"]),
        ("fulmar:db?color=blue", ["unknown parameter color", "cache, mode and timeout"]),
        ("fulmar:%zz", ["%zz", "hexadecimal"]),
    ] {
        assert_refused(name, CANTOPEN, &words);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let error =
        Connection::open_with_flags(database::under_test(directory.path()), flags).expect_err("no such");
    assert!(error.to_string().contains("no such database"), "{error}");
    assert!(fs::read_dir(directory.path()).expect("readable").next().is_none(), "nothing was made");
}

/// Another scheme is a file's name to SQLite, as it is to stock SQLite.
#[test]
fn other_schemes_are_not_ours() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = directory.path().join("fulmer:db");
    Connection::open(&name).expect("opens").execute_batch("CREATE TABLE t(x)").expect("runs");
    assert!(fs::read(&name).expect("is a file").starts_with(b"SQLite format 3"));
}

#[test]
fn a_second_process_is_told_who_holds_the_database() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = database::under_test(directory.path());
    fulmar_conformance::workload::prepare(&database::open(&name).expect("opens")).expect("tables");
    let mut holder = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["work", &name])
        // Otherwise it would start a server, and share.
        .env("FULMAR_PROGRAM", "/nowhere/fulmar")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker runs");
    let mut lines = BufReader::new(holder.stdout.take().expect("is a pipe")).lines();
    lines.next().expect("has committed").expect("a line");
    let process = format!("process {} (", holder.id());
    assert_refused(&name, CANTOPEN, &["already open in another process", &process, "soak work"]);
    // Not by another path either, nor for reading.
    assert_refused(&format!("fulmar:{}/./db?mode=ro", directory.path().display()), CANTOPEN, &[&process]);
    holder.kill().expect("is there");
    holder.wait().expect("ends");
    database::open(&name).expect("is free again");
}

/// The lock is the system's; the file only says who has it.
#[test]
fn what_is_in_the_lock_file_does_not_matter() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = make(directory.path());
    let lock = directory.path().join("db/LOCK");
    for content in [&b"process 1 (init)\n"[..], b"\xff\xfe\0", b""] {
        fs::write(&lock, content).expect("written");
        assert_eq!(number(&database::open(&name).expect("opens")), 42);
    }
    fs::remove_file(&lock).expect("removed");
    assert_eq!(number(&database::open(&name).expect("opens")), 42);
}

/// The tests may run as root, who may write anywhere; so somebody else tries.
#[test]
fn a_directory_that_is_not_writable_is_named() {
    const NOBODY: u32 = 65_534;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("soak");
    fs::copy(env!("CARGO_BIN_EXE_soak"), &program).expect("copied");
    let is_root = fs::metadata("/proc/self").expect("this is Linux").uid() == 0;
    let tried = |name: &str| {
        let mut command = Command::new(&program);
        command.args(["work", name]).stdout(Stdio::null()).stderr(Stdio::piped());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().expect("runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("is text")
    };
    let permit =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("is ours");

    let name = make(directory.path());
    permit(directory.path(), 0o555);
    let made = tried(&format!("fulmar:{}/new", directory.path().display()));
    assert!(made.contains("/new: Permission denied"), "{made}");

    let database = directory.path().join("db");
    permit(&database.join("LOCK"), 0o444);
    permit(&database, 0o555);
    let opened = tried(&name);
    assert!(opened.contains("db/LOCK: Permission denied"), "{opened}");
    permit(&database, 0o700);
    permit(&database.join("LOCK"), 0o644);
    permit(directory.path(), 0o700);
    assert_eq!(number(&database::open(&name).expect("opens")), 42);
}

#[test]
fn a_connection_for_reading_writes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = make(directory.path());
    let connection = database::open(&format!("{name}?mode=ro")).expect("opens");
    for sql in ["INSERT INTO t VALUES (1)", "CREATE TABLE u(x)", "DROP TABLE t", "PRAGMA user_version = 3"] {
        let error = connection.execute_batch(sql).expect_err(sql);
        assert_eq!(error.sqlite_error().map(|e| e.extended_code & 0xff), Some(READONLY), "{error}");
    }
    assert_eq!(number(&connection), 42);
}
