//! Servers whose disk is full. The disks are file systems in memory, in a mount namespace of their own, so these tests need
//! `unshare` and `nsenter`, and root or unprivileged user namespaces.

use crate::founding::status;
use crate::server::{Server, await_line, sql};
use fulmar_cluster::Cluster;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

/// A file system of its own size at a directory, for who enters it. It is gone with this value.
pub(crate) struct Disk {
    /// Keeps the namespace.
    holder: Child,
    pub(crate) path: PathBuf,
}

impl Disk {
    pub(crate) fn new(path: &Path, size: &str) -> Self {
        std::fs::create_dir_all(path).expect("a directory");
        let mount = format!("mount -t tmpfs -o size={size} none \"$0\" && echo mounted && exec cat");
        let mut holder = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", &mount])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is there");
        let mut line = String::new();
        let output = holder.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "mounted\n", "this needs root, or unprivileged user namespaces");
        Self { holder, path: path.into() }
    }

    /// A program that sees it.
    pub(crate) fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &self.holder.id().to_string(),
            "--user",
            "--mount",
            "--preserve-credentials",
        ]);
        command.arg(program);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        self.enter(program).args(arguments).arg(&self.path).output().expect("it runs")
    }

    pub(crate) fn resize(&self, size: &str) {
        let output = self.run("mount", &["-o", &format!("remount,size={size}")]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Writes until nothing more fits.
    fn fill(&self) {
        let fill = "cat /dev/zero > \"$0/filler\"";
        assert!(!self.run("sh", &["-c", fill]).status.success(), "it is never full");
    }

    fn serve(&self, listen: &str, more: &[&str]) -> Server {
        self.serve_and_log(listen, more, Stdio::null())
    }

    fn serve_and_log(&self, listen: &str, more: &[&str], log: Stdio) -> Server {
        let mut command = self.enter(FULMAR);
        Server::logged(command.arg("serve").arg("--data").arg(self.path.join("data")), listen, more, log)
    }

    /// What a server says that does not start at last: the last pages of its files may have room for some of its notes.
    fn complaint(&self) -> String {
        loop {
            let mut command = self.enter(FULMAR);
            command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(self.path.join("data"));
            let mut server =
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
            let mut line = String::new();
            let output = server.stdout.take().expect("a pipe");
            BufReader::new(output).read_line(&mut line).expect("a line");
            // It serves before it has written anything.
            let answers = |address: &str| Cluster::meet(address).is_ok();
            let is_up = line.trim().rsplit_once("fulmar://").is_some_and(|(_, address)| answers(address));
            if is_up {
                server.kill().expect("it runs");
            }
            let output = server.wait_with_output().expect("it ends");
            if !is_up {
                assert_eq!(output.status.code(), Some(1), "{output:?}");
                return String::from_utf8_lossy(&output.stderr).into_owned();
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn open(name: &str) -> Connection {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(name, flags).expect("a connection")
}

fn count(connection: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    connection.query_row(&sql, [], |row| row.get(0)).expect("reads go on")
}

/// Inserts rows until one is refused; how many were acknowledged, and why the last one was not.
fn insert_until_full(connection: &Connection, table: &str) -> (i64, String) {
    let mut insert =
        connection.prepare(&format!("INSERT INTO {table} VALUES (randomblob(20000))")).expect("a statement");
    for acknowledged in 0.. {
        if let Err(error) = insert.execute([]) {
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
            return (acknowledged, error.to_string());
        }
    }
    unreachable!("some disk is full at last")
}

fn insert_when_there_is_room(connection: &Connection, table: &str) {
    let insert = format!("INSERT INTO {table} VALUES (1)");
    for _ in 0..100_000 {
        match connection.execute_batch(&insert) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}"),
        }
    }
    panic!("nobody finds out that there is room again");
}

#[test]
fn a_full_disk_is_named_and_nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Server::start(&directory.path().join("first"), "127.0.0.1:0");
    let disk = Disk::new(&directory.path().join("small"), "12m");
    let join = ["--join", first.port()];
    let small = disk.serve("127.0.0.1:0", &join);
    first.await_servers(2);
    let name = format!("{}/birds", first.address);
    let connection = open(&name);
    // A shard on each server: the first shard's is the first server's, as the first database's.
    connection.execute_batch("CREATE TABLE a(x); CREATE TABLE b(x)").expect("tables");
    let shards = "SELECT name, rootpage >> 22 FROM sqlite_schema ORDER BY 2";
    let mut shards = connection.prepare(shards).expect("a query");
    let tables: Vec<(String, i64)> = shards
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .expect("where they are");
    let [(large, 0), (full, 1)] = tables.as_slice() else { panic!("{tables:?}") };

    let (acknowledged, why) = insert_until_full(&connection, full);
    assert!(why.contains(small.port()) && why.contains("small/data"), "{why}");
    assert!(why.contains("No space left on device"), "{why}");
    assert_eq!(count(&connection, full), acknowledged);
    assert_eq!(count(&open(&name), full), acknowledged);
    // The other server goes on, but not alone in what belongs together.
    connection.execute_batch(&format!("INSERT INTO {large} VALUES (1)")).expect("there is room");
    let both = format!("BEGIN; INSERT INTO {large} VALUES (2); INSERT INTO {full} VALUES (2); COMMIT");
    let error = connection.execute_batch(&both).expect_err("half of it has no room");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
    assert_eq!((count(&connection, large), count(&connection, full)), (1, acknowledged));

    disk.resize("200m");
    let port = small.port().to_owned();
    drop(small);
    let _small = disk.serve(&port, &join);
    assert_eq!(count(&connection, full), acknowledged);
    connection.execute_batch(&both).expect("there is room");
    assert_eq!((count(&connection, large), count(&connection, full)), (2, acknowledged + 1));
    assert_eq!(sql(&name, &["PRAGMA integrity_check"]), "ok");
}

#[test]
fn the_first_server_goes_on_to_be_read_when_its_disk_is_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Disk::new(&directory.path().join("small"), "12m");
    let server = disk.serve("127.0.0.1:0", &[]);
    let name = format!("{}/birds", server.address);
    let connection = open(&name);
    connection.execute_batch("CREATE TABLE t(x)").expect("a table");
    let (acknowledged, why) = insert_until_full(&connection, "t");
    assert!(why.contains("small/data/birds"), "{why}");
    assert_eq!(count(&open(&name), "t"), acknowledged);
    let new = sql(&format!("{}/more", server.address), &["CREATE TABLE t(x)"]);
    assert!(new.contains("No space left on device"), "{new}");
    assert_eq!(count(&connection, "t"), acknowledged);
    assert!(status(server.port()).1.contains("only read until there is room"));
    disk.resize("200m");
    // It finds that out by itself.
    insert_when_there_is_room(&connection, "t");
    assert_eq!(count(&open(&name), "t"), acknowledged + 1);
    assert_eq!(status(server.port()).0, Some(0));
    assert_eq!(sql(&format!("{}/more", server.address), &["CREATE TABLE t(x); SELECT 1"]), "1");
    let port = server.port().to_owned();
    drop((server, connection));
    let _server = disk.serve(&port, &[]);
    assert_eq!(
        sql(&name, &["SELECT count(*) FROM t; PRAGMA integrity_check"]),
        format!("{}\nok", acknowledged + 1)
    );
}

/// The session of docs/operations.md.
#[test]
fn a_replica_without_room_says_so_and_takes_part_again_when_there_is_some() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("node.toml");
    std::fs::write(&settings, "replicas = 3\n").expect("a file");
    let mut command = Command::new(FULMAR);
    command
        .args(["serve", "--found", "--config"])
        .arg(&settings)
        .arg("--data")
        .arg(directory.path().join("a"));
    let first = Server::of(&mut command, "127.0.0.1:0", &[]);
    let disk = Disk::new(&directory.path().join("small"), "200m");
    let join = ["--join", first.port()];
    let mut second = Server::start_with(&directory.path().join("b"), "127.0.0.1:0", &join);
    let log = directory.path().join("log");
    let small = disk.serve_and_log("127.0.0.1:0", &join, File::create(&log).expect("a file").into());
    first.await_managers(3);
    let name = format!("fulmar://{},{},{}/birds", first.port(), second.port(), small.port());
    let connection = open(&name);
    connection.execute_batch("CREATE TABLE t(a)").expect("a table");
    disk.fill();
    // The others go on; the table of servers says that one does not, and why.
    let mut rows = 0;
    let told = loop {
        connection.execute_batch("INSERT INTO t VALUES (randomblob(20000))").expect("two of three");
        rows += 1;
        let (code, told) = status(first.port());
        if told.contains("takes no part") {
            assert_eq!(code, Some(1), "{told}");
            break told;
        }
    };
    assert!(told.contains("No space left on device"), "{told}");
    await_line(&[&log], &[" of birds takes no part: "]);
    // So it is with the map, which has nothing to write by itself when there is room again.
    for database in 0.. {
        let more = format!("fulmar://{},{}/more{database}", first.port(), second.port());
        assert_eq!(sql(&more, &["CREATE TABLE t(a); SELECT 1"]), "1");
        if status(first.port()).1.contains("the replica of the cluster's clock and map takes no part") {
            break;
        }
    }
    disk.run("sh", &["-c", "rm \"$0/filler\""]);
    loop {
        let (code, told) = status(first.port());
        if code == Some(0) {
            break;
        }
        assert!(told.contains("takes no part") || told.contains("is not up to date yet"), "{told}");
    }
    await_line(&[&log], &["no longer: ", " of birds takes no part: "]);
    // It has what the others have, and does without one of them.
    second.signal("KILL");
    connection.execute_batch("INSERT INTO t VALUES (1)").expect("two of three");
    assert_eq!(count(&connection, "t"), rows + 1);
    assert_eq!(sql(&name, &["PRAGMA integrity_check"]), "ok");
}

#[test]
fn a_server_without_room_to_begin_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Disk::new(&directory.path().join("small"), "12m");
    disk.fill();
    let new = disk.complaint();
    assert!(new.contains("small/data") && new.contains("No space left on device"), "{new}");
    disk.run("sh", &["-c", "rm \"$0/filler\""]);
    let server = disk.serve("127.0.0.1:0", &[]);
    assert_eq!(sql(&format!("{}/birds", server.address), &["CREATE TABLE t(x); SELECT 1"]), "1");
    drop(server);
    // The one that keeps the clock must write down how far it may go.
    disk.fill();
    let again = disk.complaint();
    assert!(again.contains("small/data") && again.contains("No space left on device"), "{again}");
    disk.run("sh", &["-c", "rm \"$0/filler\""]);
    let server = disk.serve("127.0.0.1:0", &[]);
    assert_eq!(sql(&format!("{}/birds", server.address), &["SELECT count(*) FROM t"]), "0");
}

/// It copied its log to open it, for which there was no room, and left the copy.
#[test]
fn an_embedded_database_on_a_full_disk_opens_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Disk::new(&directory.path().join("small"), "40m");
    let shell = |mode: &str, statements: &str| {
        let name = format!("fulmar:{}/birds?mode={mode}", disk.path.display());
        let mut command = disk.enter(FULMAR);
        let mut shell = command
            .args(["sql", &name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the shell starts");
        // A shell that could not open has ended.
        let _ = shell.stdin.take().expect("a pipe").write_all(statements.as_bytes());
        let output = shell.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let used = || {
        let output = disk.run("du", &["-s"]).stdout;
        let kilobytes = String::from_utf8_lossy(&output).split_whitespace().next().map(str::parse::<u64>);
        kilobytes.expect("a line").expect("a number")
    };
    let insert = "INSERT INTO t VALUES (randomblob(20000));\n";
    let count = "SELECT count(*) FROM t;\n";
    let fill = format!("CREATE TABLE t(a);\n{}{count}", insert.repeat(2200));
    let (acknowledged, why) = shell("rwc", &fill);
    assert!(why.contains("No space left on device"), "{acknowledged}: {why}");
    assert_ne!(acknowledged, "0");

    assert_eq!(shell("ro", count), (acknowledged.clone(), String::new()));
    let before = used();
    for mode in ["ro", "rw", "rw"] {
        assert_eq!(shell(mode, count), (acknowledged.clone(), String::new()), "{mode}");
    }
    assert!(used() <= before, "opening does not fill it further");

    disk.resize("200m");
    let more = (acknowledged.parse::<i64>().expect("a number") + 1).to_string();
    let (answer, why) = shell("rw", &format!("{insert}{count}PRAGMA integrity_check;\n"));
    assert_eq!((answer, why), (format!("{more}\nok"), String::new()));
}

/// The rest of what had no room was written when the database was closed, if there was room by then.
#[test]
fn what_a_full_disk_refuses_is_not_there_once_it_has_room() {
    const INSERTED: usize = 5_000;
    let directory = tempfile::tempdir().expect("a directory");
    // Only the log grows: tables come later.
    let disk = Disk::new(&directory.path().join("small"), "1m");
    let name = format!("fulmar:{}/birds", disk.path.display());
    let count = "SELECT count(*) FROM t;\n";
    let mut filling = disk
        .enter(FULMAR)
        .args(["sql", &name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the shell starts");
    let mut input = filling.stdin.take().expect("a pipe");
    let inserts = "INSERT INTO t VALUES (randomblob(100));\n".repeat(INSERTED);
    write!(input, "CREATE TABLE t(a);\n{inserts}{count}").expect("it reads");
    let mut acknowledged = String::new();
    BufReader::new(filling.stdout.take().expect("a pipe")).read_line(&mut acknowledged).expect("a line");
    assert!(acknowledged.trim().parse::<usize>().is_ok_and(|rows| rows < INSERTED), "{acknowledged}");
    disk.resize("200m");
    drop(input);
    assert_eq!(filling.wait().expect("it ends").code(), Some(1));
    let output = disk.enter(FULMAR).args(["sql", &name, count]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), acknowledged, "{output:?}");
}

#[test]
fn a_database_on_a_read_only_file_system_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Disk::new(&directory.path().join("small"), "40m");
    let shell = |statements: &str| {
        let name = format!("fulmar:{}/birds", disk.path.display());
        let output = disk.enter(FULMAR).args(["sql", &name, statements]).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(shell("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").1, "");
    let remount = |how| assert!(disk.run("mount", &["-o", &format!("remount,{how}")]).status.success());
    remount("ro");
    assert_eq!(shell("SELECT sum(a) FROM t; PRAGMA integrity_check"), ("3\nok".into(), String::new()));
    let refused = shell("INSERT INTO t VALUES (3)").1;
    assert!(refused.contains("reading only"), "{refused}");
    remount("rw");
    assert_eq!(shell("INSERT INTO t VALUES (3); SELECT sum(a) FROM t").0, "6");
}
