//! Servers and clients that do not fit together: each is told why, and nothing is lost.

use crate::server::{Server, sql};
use fulmar_cluster::VERSION;
use rusqlite::{Connection, ErrorCode};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

/// What greetings begin with: magic, and the version of framing.
const MAGIC: &[u8] = b"fulmar\x01\x00";

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short body");
    [&length.to_le_bytes(), body].concat()
}

/// A client's greeting in this version of the protocol.
fn hello(version: u32) -> Vec<u8> {
    // Any cluster, from a client, to whatever server it is.
    frame(&[MAGIC, &version.to_le_bytes(), &[0; 16], &[0xff; 8]].concat())
}

#[test]
fn an_older_client_is_refused_with_both_versions() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    let name = format!("{}/birds", server.address);
    assert_eq!(sql(&name, &["CREATE TABLE t(a); INSERT INTO t VALUES (7)"]), "");
    let mut stream = TcpStream::connect(server.port()).expect("a connection");
    stream.write_all(&hello(VERSION - 1)).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer, and the end");
    let answer = String::from_utf8_lossy(&answer);
    let expected = format!("speaks protocol version {}, and this server version {VERSION}", VERSION - 1);
    assert!(answer.contains(&expected), "{answer:?}");
    assert_eq!(sql(&name, &["SELECT a FROM t"]), "7");
}

#[test]
fn what_an_older_server_says_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut greeting = vec![0; hello(VERSION).len()];
        stream.read_exact(&mut greeting).expect("its greeting");
        let reason = format!("the connection speaks protocol version {VERSION}, and this server version 1");
        let body = [MAGIC, &1_u32.to_le_bytes(), &[1], reason.as_bytes()].concat();
        stream.write_all(&frame(&body)).expect("sent");
        greeting
    });
    let told = sql(&format!("fulmar://{address}/birds"), &["SELECT 1"]);
    assert!(told.contains(&address.to_string()) && told.contains("this server version 1"), "{told}");
    assert_eq!(server.join().expect("no panic"), hello(VERSION));
}

#[test]
fn wrong_addresses_are_told_apart() {
    let nobody = sql("fulmar://127.0.0.1:1/birds", &["SELECT 1"]);
    assert!(nobody.contains("cannot reach a server at 127.0.0.1:1: "), "{nobody}");
    let unknown = sql("fulmar://nowhere.invalid:7400/birds", &["SELECT 1"]);
    assert!(unknown.contains("nowhere.invalid:7400: "), "{unknown}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("sent");
    });
    let other_program = sql(&format!("fulmar://{address}/birds"), &["SELECT 1"]);
    assert!(other_program.contains("no Fulmar server"), "{other_program}");
    other.join().expect("no panic");
}

#[test]
fn a_client_is_told_when_another_cluster_is_where_its_own_was() {
    let data = tempfile::tempdir().expect("a directory");
    let own = Server::start(&data.path().join("own"), "127.0.0.1:0");
    let port = own.port().to_owned();
    let connection = Connection::open(format!("{}/birds", own.address)).expect("a connection");
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").expect("a table");
    drop(own);
    let other = Server::start(&data.path().join("other"), &port);
    let error = connection.execute_batch("INSERT INTO t VALUES (8)").expect_err("it is another cluster");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{error}");
    let told = error.to_string();
    assert!(told.contains("is meant for cluster") && told.contains("belongs to cluster"), "{told}");
    drop(other);
    let _own = Server::start(&data.path().join("own"), &port);
    let sum: i64 = connection.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).expect("all is there");
    assert_eq!(sum, 7);
    connection.execute_batch("INSERT INTO t VALUES (8)").expect("as before");
}

/// They took those of files and of other servers, and nobody was answered any more, nor who was there first.
#[test]
fn more_clients_than_descriptors_leave_enough_of_these() {
    let data = tempfile::tempdir().expect("a directory");
    let start = |descriptors: u32, name: &str| {
        let mut command = Command::new("bash");
        let limited = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_fulmar"), "serve", "--found", "--data"]);
        command.arg(data.path().join(name));
        command
    };
    let server = Server::of(&mut start(160, "enough"), "127.0.0.1:0", &[]);
    let name = format!("{}/birds", server.address);
    let first = Connection::open(&name).expect("a connection");
    first.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").expect("a table");
    let count = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u64>(0))
    };
    let mut inside = Vec::new();
    for _ in 0..300 {
        let opened = Connection::open(&name).and_then(|connection| Ok((count(&connection)?, connection)));
        match opened {
            Ok((_, connection)) => inside.push(connection),
            Err(error) => assert!(error.to_string().contains("connections"), "{error}"),
        }
        first.execute_batch("INSERT INTO t VALUES (7)").expect("it was there first, and is not idle");
    }
    assert!(inside.len() >= 70, "{} were let in", inside.len());
    drop(inside);
    first.execute_batch("CREATE TABLE u(a); INSERT INTO u VALUES (7)").expect("it goes on");
    let output = start(64, "few").args(["--listen", "127.0.0.1:0"]).output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("raise the limit"), "{told}");
}

#[test]
fn a_value_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    let connection = Connection::open(format!("{}/birds", server.address)).expect("a connection");
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").expect("a table");
    let error = connection
        .execute_batch("INSERT INTO t VALUES (zeroblob(1000000001))")
        .expect_err("SQLite's limit is a thousand million bytes");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::TooBig), "{error}");
    connection.execute_batch("INSERT INTO t VALUES (8)").expect("goes on");
    let sum: i64 = connection.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).expect("all is there");
    assert_eq!(sum, 15);
}

/// A server that does not greet at once is given up for the next; when nobody else is of use it is asked again, for longer.
#[test]
fn a_slow_server_on_a_list_keeps_nobody_and_is_not_forgotten() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    assert_eq!(
        sql(&format!("{}/birds", server.address), &["CREATE TABLE t(a); INSERT INTO t VALUES (7)"]),
        ""
    );
    let slow = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let name = format!("fulmar://{},127.0.0.1:1/birds", slow.local_addr().expect("an address"));
    let port = server.port().to_owned();
    thread::spawn(move || {
        let (mut given_up, _) = slow.accept().expect("a client");
        given_up.read_to_end(&mut Vec::new()).expect("the end");
        for client in slow.incoming() {
            let client = client.expect("the client again");
            let server = TcpStream::connect(&port).expect("a connection");
            for (from, to) in [(&client, &server), (&server, &client)] {
                let both = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                let (mut from, mut to) = both.expect("descriptors");
                // A connection that ends is the test's end.
                thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
            }
        }
    });
    assert_eq!(sql(&name, &["SELECT a FROM t"]), "7");
}
