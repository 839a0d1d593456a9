//! Children of one process on three servers: nothing that makes one of them known is another's, too.

use crate::{alone, fork, wait};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, ErrorCode};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CHILDREN: i64 = 6;
const COMMITS: i64 = 60;

/// Three servers that are one cluster, killed at the end; and where the first is.
pub(crate) struct Cluster {
    processes: Vec<Child>,
    pub(crate) address: String,
}

impl Cluster {
    pub(crate) fn start(directory: &Path, replicas: u32, protocol: &str) -> Self {
        let settings = directory.join("first.toml");
        let first = format!(
            "data = \"{}\"\nlisten = \"127.0.0.1:0\"\nreplicas = {replicas}\nreplication = \"{protocol}\"\ndiscovery = false\n",
            directory.join("1").display()
        );
        std::fs::write(&settings, first).unwrap();
        let mut cluster = Self { processes: Vec::new(), address: String::new() };
        cluster.address = cluster.serve(Command::new(env!("CARGO_BIN_EXE_fulmar")).args([
            "serve".as_ref(),
            "--config".as_ref(),
            settings.as_os_str(),
        ]));
        for name in ["2", "3"] {
            let mut server = Command::new(env!("CARGO_BIN_EXE_fulmar"));
            let join = ["--listen", "127.0.0.1:0", "--join", &cluster.address];
            server.arg("serve").arg("--data").arg(directory.join(name)).args(join);
            cluster.serve(&mut server);
        }
        let known = || fulmar_cluster::Cluster::meet(&cluster.address).unwrap().map.servers.len();
        while known() < 3 {
            std::thread::yield_now();
        }
        cluster
    }

    /// Where the server listens that this command starts.
    fn serve(&mut self, command: &mut Command) -> String {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.processes.push(process);
        line.trim().rsplit('/').next().unwrap().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

/// Commits rows of two tables together, and reads back what it has been told is committed: the number of rows that it misses.
fn work(connection: &Connection, worker: i64) -> i32 {
    let mut missed = 0;
    for n in 1..=COMMITS {
        let change = format!(
            "BEGIN; INSERT INTO note VALUES ({worker}, {n}); \
             UPDATE counter SET n = {n} WHERE worker = {worker}; COMMIT"
        );
        while let Err(error) = connection.execute_batch(&change) {
            let is_lost =
                matches!(&error, Error::SqliteFailure(why, _) if why.code == ErrorCode::DatabaseBusy);
            assert!(is_lost, "{error}");
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").unwrap();
            }
        }
        let read = format!("SELECT n FROM counter WHERE worker = {worker}");
        let seen: i64 = connection.query_row(&read, [], |row| row.get(0)).unwrap();
        missed += i32::from(seen != n);
    }
    missed
}

/// A child goes on with its parent's connection, or with one of its own, or has a child of its own that goes on with its grandparent's.
fn forked_workers(name: &str) {
    let parent = Connection::open(name).unwrap();
    parent
        .execute_batch(
            "CREATE TABLE note(worker INT, n INT, PRIMARY KEY(worker, n)); \
             CREATE TABLE counter(worker INTEGER PRIMARY KEY, n INT)",
        )
        .unwrap();
    for worker in 0..CHILDREN {
        parent.execute("INSERT INTO counter VALUES (?, 0)", [worker]).unwrap();
    }
    let child = |worker| match worker % 3 {
        0 => work(&parent, worker),
        1 => work(&Connection::open(name).unwrap(), worker),
        _ => wait(fork(|| work(&parent, worker))),
    };
    let workers: Vec<_> = (0..CHILDREN).map(|worker| fork(|| child(worker))).collect();
    let missed: Vec<_> = workers.into_iter().map(wait).collect();
    assert!(
        missed.iter().all(|missed| *missed == 0),
        "commits that were not read back, by worker: {missed:?}"
    );
    let rows: i64 = parent.query_row("SELECT count(*) FROM note", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, CHILDREN * COMMITS);
}

fn forked_workers_on(replicas: u32, protocol: &str) {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(directory.path(), replicas, protocol);
    forked_workers(&format!("fulmar://{}/jobs", cluster.address));
}

#[test]
fn forked_workers_on_servers_keep_what_was_acknowledged() {
    forked_workers_on(1, "viewstamped");
}

#[test]
fn forked_workers_that_share_a_directory_keep_what_was_acknowledged() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    forked_workers(&format!("fulmar:{}", directory.path().join("jobs").display()));
}

#[test]
fn forked_workers_on_replicas_keep_what_was_acknowledged() {
    for protocol in ["viewstamped", "fast-paxos", "speculative-paxos"] {
        forked_workers_on(3, protocol);
    }
}

#[test]
fn a_child_leaves_what_its_parent_has_open_on_servers_alone() {
    let _alone = alone();
    for replicas in [1, 3] {
        let directory = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(directory.path(), replicas, "viewstamped");
        crate::children_leave_their_parents_alone(&format!("fulmar://{}/db", cluster.address));
    }
}

#[test]
fn a_child_waits_for_servers_as_its_parent_would() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(directory.path(), 1, "viewstamped");
    let parent = Connection::open(format!("fulmar://{}/db", cluster.address)).unwrap();
    parent
        .execute_batch(
            "PRAGMA busy_timeout = 1500; CREATE TABLE t(a); CREATE TABLE u(a); INSERT INTO u VALUES (7)",
        )
        .unwrap();
    let interrupts = parent.get_interrupt_handle();
    let interrupt = move |_: &Context<'_>| {
        interrupts.interrupt();
        Ok(1)
    };
    parent.create_scalar_function("interrupt", 0, FunctionFlags::SQLITE_UTF8, interrupt).unwrap();
    let child = fork(|| {
        parent.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        for server in &cluster.processes {
            // SAFETY: a process that this test has started.
            unsafe { libc::kill(server.id().cast_signed(), libc::SIGSTOP) };
        }
        let read = |sql| parent.query_row(sql, [], |_| Ok(())).unwrap_err();
        let interrupted = read("SELECT a FROM u WHERE rowid = interrupt()").sqlite_error_code();
        let silent = read("SELECT a FROM u").to_string();
        i32::from(interrupted == Some(ErrorCode::OperationInterrupted)) << 1
            | i32::from(silent.contains("no answer for 1.5s"))
    });
    assert_eq!(wait(child), 0b11);
}

#[test]
fn children_with_files_of_one_name_get_a_database_each() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(directory.path(), 1, "viewstamped");
    let folders = ["one", "other"].map(|folder| directory.path().join(folder));
    let file = |folder: &Path| folder.join("app.db");
    // SAFETY: the other threads of this process wait for their turn.
    unsafe {
        std::env::set_var("FULMAR_DATABASES", "*/app.db");
        std::env::set_var("FULMAR_SERVERS", &cluster.address);
    }
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let write = |folder: &Path| {
        let connection = Connection::open(file(folder)).unwrap();
        connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        0
    };
    // What children inherit has drawn a name before.
    let parents = directory.path().join("parents");
    std::fs::create_dir(&parents).unwrap();
    write(&parents);
    let children: Vec<_> = folders.iter().map(|folder| fork(|| write(folder))).collect();
    assert_eq!(children.into_iter().map(wait).collect::<Vec<_>>(), [0, 0]);
    for folder in &folders {
        assert_eq!(crate::count(&Connection::open(file(folder)).unwrap()), Ok(1));
        let marker = std::fs::read(file(folder)).unwrap();
        assert!(marker.starts_with(b"Fulmar database"), "{}", String::from_utf8_lossy(&marker));
    }
}
