//! `fulmar serve`, as it is run.

use crate::founding::misuse;
use fulmar_cluster::Cluster;
use rusqlite::Connection;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server, which is killed at the end.
pub(crate) struct Server {
    process: Child,
    /// `fulmar://IP:PORT`.
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(data: &Path, listen: &str) -> Self {
        Self::start_with(data, listen, &[])
    }

    /// With more arguments.
    pub(crate) fn start_with(data: &Path, listen: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.arg("serve").arg("--data").arg(data);
        if !more.contains(&"--join") && !data.join("CLUSTER").exists() {
            // It need not look whether it is another's who has lost its data.
            command.arg("--found");
        }
        Self::of(&mut command, listen, more)
    }

    /// By a command that lacks only some arguments.
    pub(crate) fn of(command: &mut Command, listen: &str, more: &[&str]) -> Self {
        Self::logged(command, listen, more, Stdio::null())
    }

    /// With its log.
    pub(crate) fn logged(command: &mut Command, listen: &str, more: &[&str], log: Stdio) -> Self {
        let command = command.args(["--listen", listen]).args(more);
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().expect("the program starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert!(line.starts_with("serving "), "it does not serve: {line:?}");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Self { process, address }
    }

    /// Waits until so many servers are one cluster with this one: whoever is not on the map yet would hold nothing.
    pub(crate) fn await_servers(&self, count: usize) {
        while Cluster::meet(self.port()).expect("it answers").map.servers.len() < count {
            std::thread::yield_now();
        }
    }

    /// Waits until so many servers hold the clock and the map.
    pub(crate) fn await_managers(&self, count: usize) {
        while Cluster::meet(self.port()).expect("it answers").map.managers().len() < count {
            std::thread::yield_now();
        }
    }

    /// Sends the process a signal, `TERM` or the like, and waits for its end.
    pub(crate) fn signal(&mut self, signal: &str) -> ExitStatus {
        self.send(signal);
        self.process.wait().expect("it ends")
    }

    /// Sends the process a signal.
    pub(crate) fn send(&self, signal: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there");
        assert!(sent.success());
    }

    /// With which status it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("it was started")
    }

    pub(crate) fn port(&self) -> &str {
        self.address.trim_start_matches("fulmar://")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL; it may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until one of these logs has a line with all of these in it, but not for ever.
pub(crate) fn await_line(logs: &[&Path], wanted: &[&str]) {
    let end = Instant::now() + Duration::from_secs(60);
    let has_all = |line: &str| wanted.iter().all(|wanted| line.contains(wanted));
    loop {
        let told: String =
            logs.iter().map(|log| std::fs::read_to_string(log).expect("it is there")).collect();
        if told.lines().any(has_all) {
            return;
        }
        assert!(Instant::now() < end, "no {wanted:?} in\n{told}");
        std::thread::yield_now();
    }
}

/// What `fulmar sql` prints, or its complaint.
pub(crate) fn sql(name: &str, statements: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(["sql", name])
        .args(statements)
        .output()
        .expect("the program runs");
    let text = if output.status.success() { output.stdout } else { output.stderr };
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[test]
fn what_a_server_acknowledged_survives_its_kill() {
    let data = tempfile::tempdir().expect("a directory");
    let first = Server::start(data.path(), "127.0.0.1:0");
    let (port, name) = (first.port().to_owned(), format!("{}/birds", first.address));
    sql(&name, &["CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX tb ON t(b)"]);
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
                INSERT INTO t(b) SELECT 'bird ' || i FROM n";
    assert_eq!(sql(&name, &[fill, "SELECT changes()"]), "3000");
    drop(first);
    assert!(sql(&name, &["SELECT 1"]).contains("cannot reach a server"));
    let _second = Server::start(data.path(), &port);
    assert_eq!(
        sql(&name, &["SELECT count(*), max(a) FROM t; SELECT a FROM t WHERE b = 'bird 77'"]),
        "3000|3000\n77"
    );
    assert_eq!(
        sql(&name, &["DELETE FROM t WHERE a % 2; SELECT count(*) FROM t; PRAGMA integrity_check"]),
        "1500\nok"
    );
}

/// The server is stopped when the statement has read what it needs. It was run again when it had waited for its commit in vain: it took
/// place twice if the server went on in time, and otherwise said no longer that it may have taken place.
#[test]
fn a_statement_whose_outcome_is_unknown_is_not_run_again() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Arc::new(Server::start(data.path(), "127.0.0.1:0"));
    let name = format!("{}/birds?timeout=2s", server.address);
    let mut connection = Connection::open(name).expect("a connection");
    let update = "UPDATE t SET v = v + 1 WHERE id = 1";
    let setup = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 0)";
    // Once it has been run, it reads and commits in a round trip each.
    connection.execute_batch(&format!("{setup}; {update}")).expect("it runs");
    let stops = Arc::clone(&server);
    let stop = move || {
        stops.send("STOP");
        false
    };
    connection.commit_hook(Some(stop)).expect("is a hook");
    let error = connection.execute(update, []).expect_err("the server is stopped").to_string();
    assert!(error.contains("it is unknown whether COMMIT has taken place"), "{error}");
    connection.commit_hook(None::<fn() -> bool>).expect("is none");
    server.send("CONT");
    // The server has heard of the other commit before this one.
    connection.execute("UPDATE t SET v = v + 10 WHERE id = 1", []).expect("it runs");
    let sum: i64 = connection.query_row("SELECT v FROM t", [], |row| row.get(0)).expect("it is there");
    assert!((11..=12).contains(&sum), "it took place {} times", sum - 11);
}

#[test]
fn wrong_servers_and_databases_are_told_apart() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    let at = &server.address;
    assert!(sql(&format!("{at}/nothing?mode=rw"), &["SELECT 1"]).contains("no such database"));
    assert!(sql(&format!("{at}/.hidden"), &["SELECT 1"]).contains("the name of a database has letters"));
    assert!(sql(at, &["SELECT 1"]).contains("expected fulmar://HOST:PORT/DATABASE"));
    assert!(sql(&format!("{at}/a?mode=ro"), &["CREATE TABLE t(a)"]).contains("no such database"));
    let settings = data.path().join("node.toml");
    std::fs::write(&settings, "data = \"x\"\nlisten_to = \"127.0.0.1:0\"").expect("a file");
    let wrong = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(["serve", "--config"])
        .arg(&settings)
        .output()
        .expect("the program runs");
    let complaint = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(complaint.contains("node.toml") && complaint.contains("listen_to"), "{complaint}");
    let twice = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(["serve", "--listen", server.port(), "--data"])
        .arg(data.path())
        .output()
        .expect("the program runs");
    assert!(String::from_utf8_lossy(&twice.stderr).contains("cannot listen on"));
    assert_eq!(twice.status.code(), Some(1));
}

#[test]
fn the_time_out_of_leaders_is_a_setting_with_a_range() {
    let folder = tempfile::tempdir().expect("a directory");
    let (data, settings) = (folder.path().join("data"), folder.path().join("node.toml"));
    for time in ["50ms", "11s", "soon"] {
        let told = misuse(&data, &["--leader-timeout", time]);
        assert!(told.contains(time) && told.contains("from 100 to 10000 milliseconds"), "{told}");
    }
    std::fs::write(&settings, "leader_timeout = \"1ms\"").expect("a file");
    let settings = settings.to_str().expect("a name in Unicode");
    let told = misuse(&data, &["--config", settings]);
    assert!(told.contains("1ms") && told.contains("from 100 to 10000 milliseconds"), "{told}");
    assert!(!data.exists(), "nothing is half done");
    let server = Server::start_with(&data, "127.0.0.1:0", &["--config", settings, "--leader-timeout", "2s"]);
    assert_eq!(sql(&format!("{}/birds", server.address), &["CREATE TABLE t(a); SELECT 1"]), "1");
}

#[test]
fn a_server_that_is_told_to_end_does_so_in_good_order() {
    let data = tempfile::tempdir().expect("a directory");
    let mut listen = "127.0.0.1:0".to_owned();
    for (n, signal) in ["TERM", "INT", "TERM"].into_iter().enumerate() {
        let mut server = Server::start(data.path(), &listen);
        listen = server.port().to_owned();
        // Which is open meanwhile, and knows nothing of it.
        let connection = Connection::open(format!("{}/birds", server.address)).expect("a connection");
        connection.execute_batch("CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES (1)").expect("a row");
        assert_eq!(server.signal(signal).code(), Some(0), "{signal}");
        assert!(TcpStream::connect(&listen).is_err(), "its socket is gone");
        let server = Server::start(data.path(), &listen);
        let count: usize =
            connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("it is back");
        assert_eq!(count, n + 1);
        drop(server);
    }
}

/// Each that is written to has four of its own while it is open for that.
#[test]
fn many_databases_take_no_more_threads_than_some() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    let count = |connection: &Connection| -> usize {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a count")
    };
    let threads = || {
        let tasks = format!("/proc/{}/task", server.process.id());
        std::fs::read_dir(tasks).expect("it runs").count()
    };
    let before = threads();
    let connections: Vec<_> = (0..100)
        .map(|number| Connection::open(format!("{}/flock-{number}", server.address)).expect("a connection"))
        .collect();
    for rows in 1..=2 {
        for connection in &connections {
            connection
                .execute_batch("CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES (1)")
                .expect("a row");
            assert_eq!(count(connection), rows);
        }
    }
    let most = before + 4 * 64;
    // A shard that has much to merge has one more until that is done.
    let end = Instant::now() + Duration::from_secs(60);
    while threads() > most {
        assert!(Instant::now() < end, "{} threads, not {most}", threads());
        std::thread::yield_now();
    }
    assert!(connections.iter().all(|connection| count(connection) == 2));
}

#[test]
fn begin_immediate_is_exclusive_on_servers_too_if_the_environment_says_so() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    let name = format!("{}/birds", server.address);
    assert_eq!(sql(&name, &["CREATE TABLE t(a)"]), "");
    let alone = Connection::open(format!("{name}?immediate=exclusive")).expect("a connection");
    alone.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let begin = |immediate: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.env("FULMAR_IMMEDIATE", immediate).args(["sql", &name, "BEGIN IMMEDIATE"]);
        String::from_utf8_lossy(&command.output().expect("the program runs").stderr).into_owned()
    };
    assert!(begin("exclusive").contains("database is locked"), "{}", begin("exclusive"));
    assert_eq!(begin("shared"), "");
    assert!(begin("now").contains("FULMAR_IMMEDIATE=now: expected shared or exclusive"), "{}", begin("now"));
    alone.execute_batch("COMMIT").expect("is alone");
    assert_eq!(begin("exclusive"), "");
}
