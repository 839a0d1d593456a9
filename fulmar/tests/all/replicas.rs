//! A database on three servers, each of which holds all of it.

use crate::cluster::status;
use crate::server::{Server, sql};
use rusqlite::{Connection, ErrorCode};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

/// How often a server is killed or stopped, if not as often as `FULMAR_ROUNDS` says.
const ROUNDS: usize = 9;
/// So many rows are to be written while a server is away, and after it is back.
const ROWS: u64 = 20;

/// Three servers with their data in a directory each; the first says how databases are replicated.
pub(crate) struct Cluster {
    pub(crate) settings: PathBuf,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) servers: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start(folder: &std::path::Path, protocol: &str) -> Self {
        let settings = folder.join("node.toml");
        fs::write(&settings, format!("replicas = 3\nreplication = \"{protocol}\"\n")).expect("a file");
        let data = ["a", "b", "c"].map(|name| folder.join(name)).to_vec();
        let mut cluster = Self { settings, data, servers: Vec::new() };
        for place in 0..3 {
            let server = cluster.serve(place, "127.0.0.1:0");
            cluster.servers.push(server);
        }
        cluster.servers[0].await_servers(3);
        cluster.servers[0].await_managers(3);
        cluster
    }

    /// A name of a database that any of the servers can tell of.
    pub(crate) fn database(&self, name: &str) -> String {
        let ports: Vec<_> = self.servers.iter().map(Server::port).collect();
        format!("fulmar://{}/{name}", ports.join(","))
    }

    fn serve(&self, place: usize, listen: &str) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.arg("serve").arg("--data").arg(&self.data[place]);
        match self.servers.first() {
            Some(first) if place > 0 => Server::of(&mut command, listen, &["--join", first.port()]),
            _ => {
                let is_new = !self.data[place].join("CLUSTER").exists();
                let found: &[&str] = if is_new { &["--found"] } else { &[] };
                Server::of(command.arg("--config").arg(&self.settings), listen, found)
            }
        }
    }

    pub(crate) fn restart(&mut self, place: usize) {
        let port = self.servers[place].port().to_owned();
        self.servers[place] = self.serve(place, &port);
    }
}

/// Inserts so many rows into `t`, numbered from one, with a value.
fn rows(count: u32, value: &str) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
         INSERT INTO t SELECT i, {value} FROM n"
    )
}

/// Waits until so many more rows are acknowledged.
fn await_rows(acknowledged: &AtomicU64) {
    await_rows_while(acknowledged, || true);
}

/// …or somebody does not go on.
fn await_rows_while(acknowledged: &AtomicU64, goes_on: impl Fn() -> bool) {
    let enough = acknowledged.load(SeqCst) + ROWS;
    while acknowledged.load(SeqCst) < enough && goes_on() {
        thread::yield_now();
    }
}

/// Lets a writer end when it is dropped, also by a panic: whoever has begun it waits for it.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn write(name: &str, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let mut row = 0;
    while !is_over.load(SeqCst) {
        let Ok(connection) = Connection::open(name) else { continue };
        // It may have been written by an attempt of which nobody knows what became.
        while !is_over.load(SeqCst)
            && connection.execute("INSERT OR IGNORE INTO t VALUES(?1, ?1 % 7)", [row]).is_ok()
        {
            row += 1;
            acknowledged.store(row, SeqCst);
        }
    }
}

fn kill_and_stop(protocol: &str) {
    let rounds = std::env::var("FULMAR_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), protocol);
    let name = cluster.database("birds");
    assert_eq!(sql(&name, &["CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX tb ON t(b)"]), "");
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| write(&name, &acknowledged, &is_over));
        let _until = Until(&is_over);
        for round in 0..rounds {
            let (place, stops) = (round % 3, round % 2 == 1);
            await_rows(&acknowledged);
            if stops {
                cluster.servers[place].send("STOP");
            } else {
                // It holds its directory and its port until it has ended.
                cluster.servers[place].signal("KILL");
            }
            await_rows(&acknowledged);
            if stops {
                cluster.servers[place].send("CONT");
            } else {
                cluster.restart(place);
            }
            await_rows(&acknowledged);
        }
    });
    let rows = acknowledged.load(SeqCst);
    let found =
        sql(&name, &["SELECT count(*) FROM t; SELECT count(*) FROM t WHERE b >= 0; PRAGMA integrity_check"]);
    let [all, indexed, sound] = found.lines().collect::<Vec<_>>()[..] else { panic!("{found}") };
    let all: u64 = all.parse().unwrap_or_else(|_| panic!("{found}"));
    // One more may have been written and not acknowledged.
    assert!(
        (rows..=rows + 1).contains(&all) && indexed == all.to_string() && sound == "ok",
        "{found}: {rows} rows"
    );
}

#[test]
fn killed_and_stopped_replicas_lose_nothing() {
    kill_and_stop("viewstamped");
}

#[test]
fn killed_and_stopped_replicas_lose_nothing_with_speculation() {
    kill_and_stop("speculative-paxos");
}

/// Servers are told to end, one after the other, and started again, while rows are written: whoever leads hands over first.
/// For good: nobody waits for it to come back.
#[test]
fn one_of_three_servers_may_be_gone() {
    for protocol in ["viewstamped", "fast-paxos", "speculative-paxos"] {
        for place in 0..3 {
            let folder = tempfile::tempdir().expect("a directory");
            let mut cluster = Cluster::start(folder.path(), protocol);
            let name = cluster.database("birds");
            assert_eq!(sql(&name, &["CREATE TABLE t(a); INSERT INTO t VALUES (1)"]), "", "{protocol}");
            let others = Connection::open(&name).expect("a connection");
            drop(cluster.servers.remove(place));
            others.execute_batch("INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)").expect(protocol);
            assert_eq!(sql(&name, &["SELECT sum(a) FROM t"]), "6", "{protocol}");
        }
    }
}

fn end_in_turn(protocol: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), protocol);
    let name = cluster.database("birds");
    assert_eq!(sql(&name, &["CREATE TABLE t(a INTEGER PRIMARY KEY)"]), "");
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let refused = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let connection = Connection::open(&name).expect("a connection");
            let rows = (0_u64..).take_while(|_| !is_over.load(SeqCst));
            let insert = |row| connection.execute("INSERT INTO t VALUES(?1)", [row]);
            rows.map(insert).inspect(|_| _ = acknowledged.fetch_add(1, SeqCst)).find_map(Result::err)
        });
        let until = Until(&is_over);
        let await_more = || await_rows_while(&acknowledged, || !writer.is_finished());
        for place in [0, 1, 2, 0] {
            await_more();
            assert!(cluster.servers[place].signal("TERM").success(), "{protocol}: server {place}");
            await_more();
            cluster.restart(place);
        }
        await_more();
        drop(until);
        writer.join().expect("it has not panicked")
    });
    assert_eq!(refused, None, "{protocol}");
    let rows = acknowledged.load(SeqCst).to_string();
    assert_eq!(sql(&name, &["SELECT count(*) FROM t"]), rows, "{protocol}");
}

#[test]
fn servers_that_are_told_to_end_leave_no_commit_unknown() {
    ["viewstamped", "fast-paxos", "speculative-paxos"].into_iter().for_each(end_in_turn);
}

/// At a terminal, that is: nobody reads it in a script.
#[test]
fn the_shell_says_what_it_waits_for() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    assert_eq!(sql(&name, &["CREATE TABLE t(a)"]), "");
    for place in [1, 2] {
        cluster.servers[place].signal("KILL");
    }
    let command = format!(
        "'{}' sql '{name}?timeout=60s' 'INSERT INTO t VALUES (7); SELECT a FROM t'",
        env!("CARGO_BIN_EXE_fulmar")
    );
    // A terminal of its own.
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bsdutils has it");
    let mut lines = BufReader::new(script.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().and_then(Result::ok).expect("it goes on");
    let told = std::iter::repeat_with(&mut line).find(|line| line.contains("waiting for ")).expect("a line");
    assert!(cluster.servers.iter().any(|server| told.contains(server.port())), "{told}");
    cluster.restart(1);
    std::iter::repeat_with(line).find(|line| line.trim() == "7").expect("a line");
    assert!(script.wait().expect("it ends").success());
}

/// A row of a megabyte is longer than an operation among replicas, and thirty of them are longer than all that a connection holds.
fn take_large_commits(protocol: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::start(folder.path(), protocol);
    let rows = &rows(30, "zeroblob(1000000)");
    let made = ["CREATE TABLE t(a INTEGER PRIMARY KEY, b)", rows];
    let count = "SELECT count(*), sum(length(b)) FROM t";
    let name = cluster.database("birds");
    assert_eq!(
        sql(&name, &[&made[..], &["UPDATE t SET b = zeroblob(999999)", count]].concat()),
        "30|29999970"
    );
    let file = folder.path().join("birds.sqlite").display().to_string();
    Connection::open(&file).and_then(|sqlite| sqlite.execute_batch(&made.join(";"))).expect("a file");
    let imported = cluster.database("imported");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.args(["import", &file, &imported]).output().expect("the program runs");
    assert!(output.status.success(), "{protocol}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(sql(&imported, &[count]), "30|30000000");
}

#[test]
fn replicas_take_large_commits() {
    ["viewstamped", "fast-paxos", "speculative-paxos"].into_iter().for_each(take_large_commits);
}

/// Who found only in carrying it out that it was too much had to be opened anew, and all others lost their snapshots.
#[test]
fn a_commit_that_is_more_than_replicas_take_costs_nobody_a_snapshot() {
    let folder = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    let [writer, reader] = [(); 2].map(|()| Connection::open(&name).expect("a connection"));
    writer.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").expect("a table");
    let count = || reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u64>(0));
    reader.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(count().expect("a snapshot"), 0);
    let rows = &rows(270, "zeroblob(1000000)");
    let refused = writer.execute_batch(rows).expect_err("it is more than 256 MiB");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::TooBig), "{refused}");
    assert!(refused.to_string().contains("more than replicas take"), "{refused}");
    writer.execute_batch("INSERT INTO t VALUES (1, 1)").expect("it goes on");
    assert_eq!(count().expect("the same snapshot"), 0);
    reader.execute_batch("COMMIT").expect("nothing was changed");
    assert_eq!(count().expect("a new one"), 1);
}

/// With each batch another server is killed and started again.
#[test]
fn an_import_outlives_its_leaders() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let file = folder.path().join("birds.sqlite").display().to_string();
    let rows = &rows(60, "zeroblob(1000000)");
    let made = ["CREATE TABLE t(a INTEGER PRIMARY KEY, b)", rows].join(";");
    Connection::open(&file).and_then(|sqlite| sqlite.execute_batch(&made)).expect("a file");
    let name = cluster.database("birds");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let mut import =
        command.args(["import", &file, &name]).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(import.stderr.take().expect("a pipe")).lines();
    let mut told = Vec::new();
    // A line for each batch, and the next has begun.
    for (number, line) in lines.map_while(Result::ok).enumerate() {
        told.push(line);
        let place = number % 3;
        cluster.servers[place].signal("KILL");
        cluster.restart(place);
    }
    assert!(import.wait().expect("it ends").success(), "{told:#?}");
    assert!(told.len() > 5, "{told:#?}");
    let found = sql(&name, &["SELECT count(*), sum(length(b)) FROM t; PRAGMA integrity_check"]);
    assert_eq!(found, "60|60000000\nok");
}

#[test]
fn pages_are_about_as_many_as_one_copy_would_fill() {
    let folder = tempfile::tempdir().expect("a directory");
    let alone = Server::start(&folder.path().join("alone"), "127.0.0.1:0");
    let cluster = Cluster::start(folder.path(), "viewstamped");
    for name in [format!("{}/birds", alone.address), cluster.database("birds")] {
        let bytes = || -> i64 {
            let told = sql(&name, &["PRAGMA page_count; PRAGMA page_size"]);
            told.lines().map(|number| number.parse::<i64>().expect("a number")).product()
        };
        assert_eq!(sql(&name, &["CREATE TABLE t(a)"]), "");
        let before = bytes();
        let rows = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                    INSERT INTO t SELECT randomblob(2000) FROM n";
        assert_eq!(sql(&name, &[rows]), "");
        let grown = bytes() - before;
        assert!((1_500_000..10_000_000).contains(&grown), "{name}: {before} bytes, then {grown} more");
    }
}

#[test]
fn wrong_settings_of_replicas_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let settings = folder.path().join("node.toml");
    let complaint = |text: &str, more: &[&str]| {
        fs::write(&settings, text).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings).arg("--data");
        let output = command.arg(folder.path().join("data")).args(more).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let even = complaint("replicas = 2", &[]);
    assert!(even.contains("replicas = 2") && even.contains("an odd number, such as 3"), "{even}");
    let unknown = complaint("replicas = 3\nreplication = \"raft\"", &[]);
    assert!(
        unknown.contains("node.toml") && unknown.contains("`raft`") && unknown.contains("viewstamped"),
        "{unknown}"
    );
    let joins = complaint("replicas = 3", &["--join", "127.0.0.1:1"]);
    assert!(joins.contains("for the first server") && joins.contains("SERVER"), "{joins}");
    // A host that is not known may be later; what is none is not waited for.
    for wrong in ["127.0.0.1:", "", "127.0.0.1:1,fulmar://127.0.0.1:1/birds"] {
        let joins = complaint("", &["--join", wrong]);
        assert!(joins.contains("expected HOST:PORT"), "{joins}");
    }
    for wrong in ["9474", "127.0.0.1:", "here:eggs"] {
        let metrics = complaint(&format!("metrics = \"{wrong}\""), &[]);
        assert!(metrics.contains("metrics = ") && metrics.contains("expected HOST:PORT"), "{metrics}");
    }
    fs::write(&settings, "replicas = 3").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["serve", "--config"]).arg(&settings).arg("--data").arg(folder.path().join("alone"));
    let alone = Server::of(&mut command, "127.0.0.1:0", &[]);
    let told = sql(&format!("{}/birds", alone.address), &["CREATE TABLE t(a)"]);
    assert!(told.contains("3 replicas") && told.contains("there are 1"), "{told}");
}

/// It ended with "the snapshot of this transaction is gone", and the night's backup was missing.
#[test]
fn a_backup_outlives_a_server() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    let rows = &rows(30000, "randomblob(500)");
    assert_eq!(sql(&name, &["CREATE TABLE t(a INTEGER PRIMARY KEY, b)", rows]), "");
    let leads = |status: &str, server: &Server| {
        status.lines().any(|line| line.starts_with("birds") && line.contains(server.port()))
    };
    let status = status(cluster.servers[0].port());
    let leader = cluster.servers.iter().position(|server| leads(&status, server)).expect("one leads");
    let file = folder.path().join("birds.db");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let backup = command.args(["backup", &name]).arg(&file).stderr(Stdio::piped()).spawn().expect("it runs");
    while !folder.path().join("birds.db.part").exists() {
        thread::yield_now();
    }
    drop(cluster.servers.remove(leader));
    let output = backup.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let count = Connection::open(&file)
        .and_then(|file| file.query_row("SELECT count(*) FROM t", [], |row| row.get(0)));
    assert_eq!(count, Ok(30_000));
}

fn drain(server: &Server, more: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.args(["drain", server.port()]).args(more).output().expect("the program runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(complaint) }
}

/// The first server keeps the clock and the map: it, too, can go for ever, first drained and then, another, as it is.
#[test]
fn what_a_server_held_is_made_anew_on_another() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    let rows = &rows(2000, "i");
    assert_eq!(sql(&name, &["CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX tb ON t(b)", rows]), "");
    let too_few = drain(&cluster.servers[0], &[]).expect_err("there are three");
    assert!(too_few.contains("3 servers, and without it there are 2"), "{too_few}");
    let join = [cluster.servers[1].port(), cluster.servers[0].port()].join(",");
    for number in [4, 5] {
        let data = folder.path().join(number.to_string());
        cluster.servers.push(Server::start_with(&data, "127.0.0.1:0", &["--join", &join]));
        cluster.servers[0].await_servers(number);
    }
    assert_eq!(drain(&cluster.servers[0], &[]), Ok(()));
    cluster.servers[0].signal("KILL");
    cluster.servers[1].signal("KILL");
    let survivor = cluster.servers[2].port();
    let gone = drain(&cluster.servers[1], &[]).expect_err("it is dead");
    assert!(gone.contains("cannot reach a server"), "{gone}");
    let other = folder.path().join("other");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["serve", "--listen", cluster.servers[1].port(), "--join", survivor, "--data"]).arg(&other);
    let refused = command.output().expect("the program runs");
    let refused = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.contains("is the address of another server") && refused.contains("SERVER"), "{refused}");
    assert_eq!(drain(&cluster.servers[1], &["--ask", survivor]), Ok(()));
    let check = "SELECT count(*), sum(b) FROM t; PRAGMA integrity_check";
    assert_eq!(sql(&cluster.database("birds"), &[check]), "2000|2001000\nok");
    // Of the three that are left any may go again.
    cluster.servers[3].signal("KILL");
    assert_eq!(sql(&cluster.database("birds"), &["INSERT INTO t VALUES(0, 0)", check]), "2001|2001000\nok");
}

/// Nobody had the time to drain it.
/// What the settings say is for databases that are made from then on.
#[test]
fn a_server_that_joins_holds_nothing_alone_of_what_is_replicated() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    let table = "CREATE TABLE t(a INTEGER PRIMARY KEY, b)";
    assert_eq!(sql(&name, &[table, &rows(20_000, "randomblob(100)")]), "");
    cluster.servers[0].signal("KILL");
    fs::write(&cluster.settings, "replicas = 1\n").expect("a file");
    cluster.restart(0);
    let first = cluster.servers[0].port().to_owned();
    let mut late = Server::start_with(&folder.path().join("d"), "127.0.0.1:0", &["--join", &first]);
    cluster.servers[0].await_servers(4);
    let port = late.port().to_owned();
    let holds = |line: &str| line.starts_with("birds ") && line.contains(&port);
    while !(status(&first).lines().any(holds) && crate::founding::status(&first).0 == Some(0)) {
        thread::yield_now();
    }
    late.signal("KILL");
    let all = "SELECT count(*), count(DISTINCT length(b)) FROM t";
    assert_eq!(sql(&name, &[all, "UPDATE t SET b = 'x'", all]), "20000|1\n20000|1");
}

#[test]
fn the_first_server_can_be_lost() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    assert_eq!(sql(&name, &["CREATE TABLE t(a); INSERT INTO t VALUES (1)"]), "");
    let fourth = folder.path().join("fourth");
    cluster.servers.push(Server::start_with(&fourth, "127.0.0.1:0", &["--join", cluster.servers[1].port()]));
    cluster.servers[1].await_servers(4);
    cluster.servers[0].signal("KILL");
    assert_eq!(drain(&cluster.servers[0], &["--ask", cluster.servers[1].port()]), Ok(()));
    let name = cluster.database("birds");
    assert_eq!(sql(&name, &["INSERT INTO t VALUES (2); SELECT count(*) FROM t"]), "2");
    cluster.servers[1].signal("KILL");
    assert_eq!(sql(&name, &["INSERT INTO t VALUES (3); SELECT count(*) FROM t"]), "3");
}

#[test]
fn two_directories_of_three_are_enough() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let name = cluster.database("birds");
    assert_eq!(sql(&name, &["CREATE TABLE t(a); INSERT INTO t VALUES (1)"]), "");
    for lost in 0..3 {
        cluster.servers.iter_mut().for_each(|server| _ = server.signal("KILL"));
        (0..3).filter(|place| *place != lost).for_each(|place| cluster.restart(place));
        let count: usize =
            sql(&name, &["INSERT INTO t VALUES (2); SELECT count(*) FROM t"]).parse().expect("a number");
        assert_eq!(count, lost + 2);
        cluster.restart(lost);
    }
}
