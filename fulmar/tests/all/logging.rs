//! Whoever reads the log of a server, or does not, the server goes on.

use crate::founding::{address, complaint};
use crate::server::{Server, await_line, sql};
use crate::services::{Place, draw_some};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

struct Logged {
    server: Child,
    port: String,
}

impl Logged {
    fn start(log: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.args(["serve", "--memory", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(log);
        let mut server = command.spawn().expect("the program starts");
        let mut first = String::new();
        BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
        let port = first.trim().rsplit_once("fulmar://").expect("an address").1.to_owned();
        Self { server, port }
    }

    fn log(&mut self) -> ChildStderr {
        self.server.stderr.take().expect("a pipe")
    }

    /// So many come and go, each worth a line; afterwards others are served.
    fn serves_after(&mut self, connections: usize) {
        for _ in 0..connections {
            drop(TcpStream::connect(&self.port).expect("a connection"));
        }
        let name = format!("fulmar://{}/birds", self.port);
        assert_eq!(sql(&name, &["CREATE TABLE t(a); INSERT INTO t VALUES (7); SELECT a FROM t"]), "7");
        assert_eq!(self.server.try_wait().expect("it is ours"), None);
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // It may have ended already, which the test says.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_full_disk_does_not_end_the_server() {
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    Logged::start(full.into()).serves_after(10);
}

#[test]
fn a_reader_that_is_gone_does_not_end_the_server() {
    let mut logged = Logged::start(Stdio::piped());
    drop(logged.log());
    logged.serves_after(10);
}

#[test]
fn a_reader_that_does_not_read_does_not_stop_the_server() {
    let mut logged = Logged::start(Stdio::piped());
    let log = logged.log();
    logged.serves_after(3_000);
    drop(log);
}

/// Where the log of a command goes that nobody reads.
struct Unread {
    log: Stdio,
    reader: Option<PipeReader>,
}

impl Unread {
    /// A full disk, a reader that is gone, and one that does not read.
    fn all() -> [Self; 3] {
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let [(gone, to_gone), (idle, to_idle)] = [(); 2].map(|()| pipe().expect("a pipe"));
        drop(gone);
        [(full.into(), None), (to_gone.into(), None), (to_idle.into(), Some(idle))]
            .map(|(log, reader)| Self { log, reader })
    }
}

/// Each replica of a service has a reader that is none.
#[test]
fn a_service_goes_on_whose_logs_nobody_reads() {
    let place = Place::new("timestamps", "viewstamped");
    let start = |(replica, Unread { log, reader }): (usize, Unread)| {
        let listen = &place.members[replica];
        (Server::logged(&mut place.command(replica), listen, &["--found"], log), reader)
    };
    let mut servers: Vec<_> = (0..).zip(Unread::all()).map(start).collect();
    for member in &place.members {
        for _ in 0..3_000 {
            drop(TcpStream::connect(member).expect("a connection"));
        }
    }
    assert!(draw_some(&place, 3) >= 3);
    servers.iter_mut().for_each(|(server, _)| assert_eq!(server.ended(), None));
}

#[test]
fn a_switch_goes_on_whose_log_nobody_reads() {
    for Unread { log, reader: _reader } in Unread::all() {
        let folder = tempfile::tempdir().expect("a directory");
        let (config, metrics) = (folder.path().join("switch.toml"), address());
        let settings = format!("directory = {:?}\nmetrics = \"{metrics}\"\n", folder.path());
        fs::write(&config, settings).expect("a file");
        let fulmar = || Command::new(env!("CARGO_BIN_EXE_fulmar"));
        let mut command = fulmar();
        let mut switch = command
            .args(["switch", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let mut first = String::new();
        BufReader::new(switch.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
        let database = first.trim().rsplit_once(' ').expect("where it is").1;
        for _ in 0..3_000 {
            let mut client = UnixStream::connect(database).expect("a connection");
            // It may have been let go of already.
            let _ = client.write_all(b"{]");
        }
        let stats = fulmar().args(["switch", "stats", "--directory"]).arg(folder.path()).output();
        let stats = stats.expect("the program runs");
        // What the log could not say is counted.
        let counts = |_| figures(&metrics).contains("fulmar_switch_events_total{kind=\"client\"} ");
        assert!((0..10_000).any(counts));
        let ended = switch.try_wait().expect("it is ours");
        switch.kill().and_then(|()| switch.wait()).expect("it is ours");
        assert!(ended.is_none() && stats.status.success(), "{ended:?}, {stats:?}");
    }
}

#[test]
fn what_others_repeat_does_not_fill_the_log() {
    let mut logged = Logged::start(Stdio::piped());
    let mut log = logged.log();
    logged.serves_after(3_000);
    drop(logged);
    let mut told = String::new();
    log.read_to_string(&mut told).expect("text");
    assert!(told.lines().count() < 1_000 && told.contains(" ended: "), "{told}");
}

/// What Prometheus would be told.
pub(crate) fn figures(metrics: &str) -> String {
    let mut asker = TcpStream::connect(metrics).expect("it listens");
    asker.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is there");
    let mut answer = String::new();
    asker.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn the_log_says_who_serves_what_and_nothing_of_clients() {
    let folder = tempfile::tempdir().expect("a directory");
    let settings = folder.path().join("node.toml");
    let metrics = address();
    fs::write(&settings, format!("replicas = 3\nmetrics = \"{metrics}\"\n")).expect("a file");
    let logs = ["a", "b", "c"].map(|name| folder.path().join(name).with_extension("log"));
    let mut servers: Vec<Server> = Vec::new();
    for log in &logs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.arg("serve").arg("--data").arg(log.with_extension(""));
        let place: &[&str] = match servers.first() {
            Some(first) => &["--join", first.port()],
            None => &["--found", "--config", settings.to_str().expect("text")],
        };
        let log = File::create(log).expect("a file");
        servers.push(Server::logged(&mut command, "127.0.0.1:0", place, log.into()));
    }
    servers[0].await_servers(3);
    servers[0].await_managers(3);
    let ports: Vec<_> = servers.iter().map(Server::port).collect();
    let name = format!("fulmar://{}/birds", ports.join(","));
    assert_eq!(sql(&name, &["CREATE TABLE t(a); INSERT INTO t VALUES (7); SELECT a FROM t"]), "7");
    let [first, second, third] = logs.each_ref().map(PathBuf::as_path);
    await_line(&[first], &[" is a server of the cluster, at ", servers[2].port()]);
    await_line(&[first, second, third], &[" of birds: served by this server, from view v0.0 on"]);
    let told = figures(&metrics);
    for figure in [
        "fulmar_server_events_total{kind=\"serves\"} ",
        "fulmar_shard_commits_total{database=\"birds\",shard=\"0\"} ",
        "fulmar_server_failures 0\n",
        "fulmar_discovery_members{standing=\"alive\"} ",
    ] {
        assert!(told.contains(figure), "no {figure} in\n{told}");
    }
    servers[0].signal("TERM");
    await_line(&[first], &["the cluster's clock and map: no longer served by this server"]);
    for later in [" of birds", "the cluster's clock and map"] {
        await_line(&[second, third], &[later, ": served by this server, from view "]);
        await_line(&[second, third], &[later, ": view ", " has begun, led by "]);
    }
    await_line(&[second], &[" keeps the clock and the map"]);
    for log in logs {
        let told = fs::read_to_string(log).expect("text");
        // Names of clients begin with 2147483648.
        assert!(!told.contains("n21474"), "{told}");
    }
}

#[test]
fn nothing_is_founded_where_figures_cannot_be_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let settings = folder.path().join("node.toml");
    let metrics = format!("metrics = \"{}\"\n", taken.local_addr().expect("bound"));
    fs::write(&settings, metrics).expect("a file");
    let data = folder.path().join("a");
    let settings = settings.to_str().expect("text");
    let told = complaint(&data, &["--listen", "127.0.0.1:0", "--config", settings]);
    assert!(told.contains("cannot listen on 127.0.0.1:") && told.contains("`metrics`"), "{told}");
    assert!(!data.join("CLUSTER").exists());
}
