//! Which cluster a server is of: servers that lost their disks, strangers where a member was, addresses that changed.

use crate::replicas::Cluster;
use crate::server::{Server, sql};
use rusqlite::Connection;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

fn run(arguments: &[&str]) -> Output {
    Command::new(FULMAR).args(arguments).output().expect("the program runs")
}

/// What a server says that does not start, or ends.
pub(crate) fn complaint(data: &Path, arguments: &[&str]) -> String {
    ended(1, data, arguments)
}

/// What a server says whose settings or arguments are wrong, whatever the world is like.
pub(crate) fn misuse(data: &Path, arguments: &[&str]) -> String {
    ended(2, data, arguments)
}

fn ended(status: i32, data: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(FULMAR);
    let output = command.arg("serve").arg("--data").arg(data).args(arguments).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit status and text of `fulmar status`.
pub(crate) fn status(server: &str) -> (Option<i32>, String) {
    let output = run(&["status", server]);
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Waits until all servers answer, at these addresses.
pub(crate) fn await_all(servers: &[Server]) {
    loop {
        let (code, told) = status(servers[0].port());
        let is_known = |server: &Server| told.contains(&format!("{} ", server.port()));
        if code == Some(0) && servers.iter().all(is_known) {
            return;
        }
        thread::yield_now();
    }
}

/// A message says what to do; this does it.
fn command_after<'a>(message: &'a str, words: &str) -> &'a str {
    let (_, rest) = message.split_once(words).unwrap_or_else(|| panic!("{message}"));
    rest.split([',', ';', ' ']).next().expect("something")
}

/// Three replicas with a table of one row, of which the first server has lost its disk.
fn lose_the_first(folder: &Path) -> Cluster {
    let mut cluster = Cluster::start(folder, "viewstamped");
    assert_eq!(sql(&cluster.database("birds"), &["CREATE TABLE t(a); INSERT INTO t VALUES (7)"]), "");
    cluster.servers[0].signal("KILL");
    fs::remove_dir_all(&cluster.data[0]).expect("it was there");
    cluster
}

/// The session of docs/operations.md: a server is brought back that has lost its disk.
#[test]
fn a_first_server_that_lost_its_disk_founds_nothing_and_is_brought_back() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = lose_the_first(folder.path());
    let (listen, settings) =
        (cluster.servers[0].port().to_owned(), cluster.settings.to_string_lossy().into_owned());
    let second = cluster.servers[1].port().to_owned();
    // As it is always started.
    let told = complaint(&cluster.data[0], &["--config", &settings, "--listen", &listen]);
    assert!(told.contains("looks for its server n0 at this address"), "{told}");
    assert!(told.contains("no other cluster is founded") && told.contains("--found"), "{told}");
    assert!(!cluster.data[0].join("CLUSTER").exists());
    let (code, told_status) = status(&second);
    assert!(code == Some(1) && told_status.contains("does not answer"), "{told_status}");
    assert_eq!(sql(&cluster.database("birds"), &["SELECT a FROM t"]), "7");

    let name = command_after(&told, "write its name, ");
    fs::write(cluster.data[0].join("SERVER"), name).expect("a file");
    let alone = complaint(&cluster.data[0], &["--config", &settings, "--listen", &listen]);
    assert!(alone.contains("which has lost its data") && alone.contains("`join`"), "{alone}");
    let mut command = Command::new(FULMAR);
    command.args(["serve", "--config", &settings, "--join", &second, "--data"]).arg(&cluster.data[0]);
    cluster.servers[0] = Server::of(&mut command, &listen, &[]);
    await_all(&cluster.servers);
    // It holds all, as soon as it has caught up, and starts from then on as before.
    assert_eq!(sql(&cluster.database("birds"), &["INSERT INTO t VALUES (8); SELECT sum(a) FROM t"]), "15");
    cluster.servers[0].signal("KILL");
    cluster.restart(0);
    await_all(&cluster.servers);
    cluster.servers[1].signal("KILL");
    assert_eq!(sql(&cluster.database("birds"), &["INSERT INTO t VALUES (9); SELECT sum(a) FROM t"]), "24");
}

#[test]
fn a_stranger_where_the_first_server_was_is_passed_over() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = lose_the_first(folder.path());
    let listen = cluster.servers[0].port().to_owned();
    // Somebody insists.
    cluster.servers[0] = Server::start(&folder.path().join("stranger"), &listen);
    let stranger = format!("{}/cats", cluster.servers[0].address);
    assert_eq!(sql(&stranger, &["CREATE TABLE t(a); INSERT INTO t VALUES (1)"]), "");
    // Those that list it start all the same.
    for place in [1, 2] {
        cluster.servers[place].signal("KILL");
    }
    for place in [1, 2] {
        cluster.restart(place);
    }
    let birds = cluster.database("birds");
    assert_eq!(sql(&birds, &["INSERT INTO t VALUES (8); SELECT sum(a) FROM t"]), "15");
    assert_eq!(sql(&cluster.database("cats"), &["SELECT a FROM t"]), "1");
    let (code, told) = status(cluster.servers[1].port());
    assert!(code == Some(1) && told.contains("a server of another cluster"), "{told}");
    assert!(told.contains(&listen), "{told}");
    // A database that is nowhere is made in neither.
    let told = sql(&cluster.database("dogs"), &["CREATE TABLE t(a)"]);
    assert!(told.contains("no database is made before all that are named are of one"), "{told}");
    let told = sql(&format!("{}?mode=rw", cluster.database("dogs")), &["SELECT 1"]);
    assert!(told.contains("no such database"), "{told}");
    // Nor by one that cannot ask the others.
    let nobody = [address(), address()].join(",");
    let told = sql(&format!("fulmar://{},{nobody}/dogs", cluster.servers[1].port()), &["CREATE TABLE t(a)"]);
    assert!(told.contains("on 1 of the 3 servers") && told.contains("Connection refused"), "{told}");
    // A new server joins one of them, and not whichever answers first.
    let join = [cluster.servers[0].port(), cluster.servers[1].port()].join(",");
    let told = complaint(&folder.path().join("new"), &["--listen", "127.0.0.1:0", "--join", &join]);
    assert!(told.contains("name servers of the one to join"), "{told}");
}

#[test]
fn who_held_the_only_copy_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = |name: &str| folder.path().join(name);
    let first = Server::start(&data("a"), "127.0.0.1:0");
    let port = first.port().to_owned();
    let second = Server::start_with(&data("b"), "127.0.0.1:0", &["--join", &port]);
    first.await_servers(2);
    assert_eq!(sql(&format!("{}/birds", first.address), &["CREATE TABLE t(a)"]), "");
    let name = fs::read_to_string(data("b").join("SERVER")).expect("it has a name");
    fs::create_dir(data("c")).expect("a directory");
    fs::write(data("c").join("SERVER"), &name).expect("a file");
    let told = complaint(&data("c"), &["--listen", "127.0.0.1:0", "--join", &port]);
    assert!(told.contains("held parts of birds that have no replicas"), "{told}");
    fs::write(data("c").join("SERVER"), "0").expect("a file");
    let told = complaint(&data("c"), &["--listen", "127.0.0.1:0", "--join", second.port()]);
    assert!(told.contains("kept the cluster's clock and map alone"), "{told}");
    // A directory that says no more whose it is is not taken for a new one.
    drop(first);
    fs::remove_file(data("a").join("CLUSTER")).expect("it was there");
    let told = complaint(&data("a"), &["--listen", "127.0.0.1:0"]);
    assert!(told.contains("CLUSTER") && told.contains("put that back"), "{told}");
}

/// Addresses that nobody else uses.
pub(crate) fn address() -> String {
    static PLACES: AtomicU32 = AtomicU32::new(1);
    let (process, place) = (std::process::id(), PLACES.fetch_add(1, SeqCst));
    format!("127.{}.{}.{place}:7400", 1 + process / 256 % 250, process % 256)
}

/// The session of docs/operations.md: all servers are elsewhere from one moment to the next. Where they were nobody answers, and
/// nobody says that there is nobody.
fn move_all(settings: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("first.toml");
    fs::write(&file, settings).expect("a file");
    let data = ["a", "b", "c"].map(|name| folder.path().join(name));
    let start = |place: usize, listen: &str, more: &[&str]| {
        let mut command = Command::new(FULMAR);
        command.arg("serve").arg("--data").arg(&data[place]);
        if place == 0 {
            command.arg("--config").arg(&file);
        }
        Server::of(&mut command, listen, more)
    };
    let old = [(); 3].map(|()| address());
    let mut servers = vec![start(0, &old[0], &["--found"])];
    servers.extend([1, 2].map(|place| start(place, &old[place], &["--join", &old[0]])));
    servers[0].await_servers(3);
    if settings.contains("replicas = 3") {
        servers[0].await_managers(3);
    }
    let name = |addresses: &[String; 3]| format!("fulmar://{}/birds", addresses.join(","));
    assert_eq!(sql(&name(&old), &["CREATE TABLE t(a); INSERT INTO t VALUES (7)"]), "");
    for server in &mut servers {
        server.signal("KILL");
    }
    let _silent = old.each_ref().map(|old| TcpListener::bind(old).expect("it has ended"));
    let new = [(); 3].map(|()| address());
    let join = new.join(",");
    // The first one last: nobody whom the others know answers before.
    let mut servers: Vec<_> = [2, 1, 0].map(|place| start(place, &new[place], &["--join", &join])).into();
    servers.reverse();
    assert_eq!(sql(&name(&new), &["INSERT INTO t VALUES (8); SELECT sum(a) FROM t"]), "15");
    await_all(&servers);
    let (_, told) = status(&new[1]);
    assert!(old.iter().all(|old| !told.contains(old)), "{told}");
}

#[test]
fn all_servers_are_found_at_other_addresses() {
    move_all("replicas = 1");
}

#[test]
fn all_replicas_are_found_at_other_addresses() {
    move_all("replicas = 3");
}

#[test]
fn a_directory_is_one_servers() {
    let folder = tempfile::tempdir().expect("a directory");
    let first = Server::start(&folder.path().join("a"), "127.0.0.1:0");
    let second = folder.path().join("b");
    let _second = Server::start_with(&second, "127.0.0.1:0", &["--join", first.port()]);
    let told = complaint(&second, &["--listen", "127.0.0.1:0", "--join", first.port()]);
    assert!(told.contains("another server runs in this directory"), "{told}");
}

#[test]
fn an_address_that_leads_elsewhere_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().join("data");
    let told = misuse(&data, &["--listen", "0.0.0.0:0"]);
    assert!(
        told.contains("is every address of this machine") && told.contains("--advertise HOST:"),
        "{told}"
    );
    let told = misuse(&data, &["--listen", "[::]:0"]);
    assert!(told.contains("is every address of this machine"), "{told}");
    let told = misuse(&data, &["--listen", "127.0.0.1:0", "--advertise", "0.0.0.0:7400"]);
    assert!(told.contains("is every address of this machine"), "{told}");
    let told = complaint(&data, &["--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1"]);
    assert!(told.contains("`advertise` = 127.0.0.1:1: Connection refused"), "{told}");
    let told = complaint(&data, &["--listen", "127.0.0.1:0", "--advertise", "nowhere.invalid:7400"]);
    assert!(told.contains("nowhere.invalid"), "{told}");
    let other = Server::start(&folder.path().join("other"), "127.0.0.1:0");
    let told = complaint(&data, &["--listen", "127.0.0.1:0", "--advertise", other.port()]);
    assert!(told.contains("another program answers there"), "{told}");
    assert!(!data.exists(), "nothing is half done");
}

/// A newcomer's first command is one, and a cluster that has nothing yet is founded once.
#[test]
fn a_server_alone_needs_no_more_than_to_be_started() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().join("data");
    let start = || {
        let mut command = Command::new(FULMAR);
        Server::of(command.arg("serve").arg("--data").arg(&data), "127.0.0.1:0", &[])
    };
    let mut server = start();
    let name = fs::read_to_string(data.join("CLUSTER")).expect("it has one");
    assert_eq!(sql(&format!("{}/birds", server.address), &["CREATE TABLE t(a); SELECT 1"]), "1");
    server.signal("TERM");
    let told = complaint(&data, &["--listen", "127.0.0.1:0", "--found"]);
    assert!(told.contains("start it without `--found`"), "{told}");
    let server = start();
    assert_eq!(sql(&format!("{}/birds", server.address), &["SELECT count(*) FROM t"]), "0");
    assert_eq!(fs::read_to_string(data.join("CLUSTER")).expect("it has one"), name);
}

/// The session of docs/operations.md.
#[test]
fn a_backup_outlives_a_majority() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let birds = cluster.database("birds");
    assert_eq!(sql(&birds, &["CREATE TABLE t(a); INSERT INTO t VALUES (7)"]), "");
    let backup = folder.path().join("birds.db").to_string_lossy().into_owned();
    assert!(run(&["backup", &birds, &backup]).status.success());
    for place in [0, 1] {
        cluster.servers[place].signal("KILL");
        fs::remove_dir_all(&cluster.data[place]).expect("it was there");
    }
    let new = folder.path().join("new");
    let settings = cluster.settings.to_string_lossy().into_owned();
    let first = Server::start_with(&new, "127.0.0.1:0", &["--config", &settings]);
    let others = ["d", "e"]
        .map(|name| Server::start_with(&folder.path().join(name), "127.0.0.1:0", &["--join", first.port()]));
    first.await_servers(3);
    first.await_managers(3);
    let restored = format!("fulmar://{},{}/birds", first.port(), others[0].port());
    let done = run(&["restore", &backup, &restored]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(sql(&restored, &["SELECT a FROM t"]), "7");
}

/// Two of three replicas are stopped: nothing is refused, and nothing is answered.
#[test]
fn who_waits_is_told_for_what_and_for_as_long_as_it_wants() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    let birds = cluster.database("birds");
    assert_eq!(sql(&birds, &["CREATE TABLE t(a); INSERT INTO t VALUES (7)"]), "");
    let connection = Connection::open(&birds).expect("a connection");
    connection.execute_batch("SELECT a FROM t; PRAGMA busy_timeout = 1500").expect("all are there");
    let writer = Connection::open(format!("{birds}?timeout=1500ms")).expect("a connection");
    // What it needs to know for the commit it has read before.
    writer
        .execute_batch("INSERT INTO t VALUES (9); BEGIN; SELECT a FROM t; UPDATE t SET a = 8")
        .expect("all are there");
    // It does not know the schema yet, and has read six things in vain for that, one after the other.
    let new = Connection::open(format!("{birds}?timeout=1500ms")).expect("a connection");
    let third = cluster.servers[2].port().to_owned();
    let first = cluster.servers[0].port().to_owned();
    cluster.servers[0].signal("KILL");
    cluster.servers[1].signal("KILL");
    let error = writer.execute_batch("COMMIT").expect_err("nobody answers").to_string();
    assert!(error.contains("unknown whether COMMIT has taken place"), "{error}");
    let error = new.prepare("SELECT a FROM t").expect_err("nobody answers").to_string();
    assert!(error.contains("no answer for 1.5s"), "{error}");
    let alone =
        |timeout: &str| sql(&format!("fulmar://{third}/birds?timeout={timeout}"), &["SELECT a FROM t"]);
    let told = alone("2s");
    assert!(told.contains("no answer for 2s"), "{told}");
    // It has asked the one that it knows, and those of which that knows.
    assert!(told.contains(&third) || told.contains(&first), "{told}");
    assert!(told.contains("fulmar status") || told.contains("cannot reach"), "{told}");
    // The third says so itself as soon as it has missed the others for a leader's time-out.
    let (second, told) = (cluster.servers[1].port().to_owned(), alone("5s"));
    let missing = told
        .split_once(&format!("; {third} says: no majority of replicas is there for "))
        .map(|(_, why)| why);
    assert!(missing.is_some_and(|why| why.contains(&first) && why.contains(&second)), "{told}");
    assert!(status(&third).1.contains("no majority of replicas is there for the cluster's clock and map"));
    assert!(alone("5").contains("expected a time such as 5s"));
    let error = connection.query_row("SELECT a FROM t", [], |_| Ok(())).expect_err("nobody answers");
    assert!(error.to_string().contains("no answer for 1.5s"), "{error}");
}
