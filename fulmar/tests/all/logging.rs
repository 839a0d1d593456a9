//! Whoever reads the log of a server, or does not, the server goes on.

use crate::server::sql;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
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

    /// So many come and go, each worth two lines; afterwards others are served.
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

#[test]
fn what_others_repeat_does_not_fill_the_log() {
    let mut logged = Logged::start(Stdio::piped());
    let mut log = logged.log();
    logged.serves_after(3_000);
    drop(logged);
    let mut told = String::new();
    log.read_to_string(&mut told).expect("text");
    assert!(told.lines().count() < 1_000 && told.contains(" connected: "), "{told}");
}
