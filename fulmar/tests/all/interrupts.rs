//! `sqlite3_interrupt` while servers are waited for.

use crate::server::Server;
use rusqlite::{Connection, ErrorCode, InterruptHandle};
use std::io::{Read, Write, copy};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Where one client reaches the server at `real`, and through which it is interrupted: with the next that it says after it was told of
/// here, which nobody hears.
fn interrupting(real: &str) -> (String, Sender<InterruptHandle>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (sender, told) = channel();
    let real = real.to_owned();
    thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let server = TcpStream::connect(real).expect("a server");
        let (mut answers, mut answered) =
            (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
        thread::spawn(move || copy(&mut answers, &mut answered));
        pass_on(client, server, &told);
    });
    (address, sender)
}

fn pass_on(mut client: TcpStream, mut server: TcpStream, told: &Receiver<InterruptHandle>) {
    let mut bytes = vec![0; 1 << 16];
    let mut is_deaf = false;
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        if let Ok(client) = told.try_recv() {
            is_deaf = true;
            client.interrupt();
        }
        if !is_deaf {
            server.write_all(&bytes[..count]).expect("the server is there");
        }
    }
}

/// It waited for as long as servers may take to answer, a minute.
#[test]
fn who_waits_for_a_server_can_be_interrupted() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    let open = || {
        let (address, interrupts) = interrupting(server.port());
        let connection = Connection::open(format!("fulmar://{address}/birds")).expect("a connection");
        (connection, interrupts)
    };
    let (reader, interrupts) = open();
    reader.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").expect("they run");
    interrupts.send(reader.get_interrupt_handle()).expect("it is served");
    let error = reader.query_row("SELECT a FROM t", [], |_| Ok(())).expect_err("nobody answers");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted), "{error}");

    let (writer, interrupts) = open();
    writer.execute_batch("BEGIN; INSERT INTO t VALUES (8)").expect("they run");
    interrupts.send(writer.get_interrupt_handle()).expect("it is served");
    let error = writer.execute_batch("COMMIT").expect_err("nobody answers");
    assert!(error.to_string().contains("it is unknown whether COMMIT has taken place"), "{error}");
    assert_ne!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted), "it may have been made");
}
