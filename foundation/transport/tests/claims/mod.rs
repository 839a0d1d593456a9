//! Who says another's name, and who only takes up room.

use super::{ONE, Running, client_of, raw};
use crate::processes::Ask;
use fulmar_transport::{Limits, LinkError, Notice};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What is not done by then is never done.
const LONG: Duration = Duration::from_secs(30);

/// A connection that has greeted as the server with this name, and is let in.
fn greeted(server: &Running, name: u8) -> TcpStream {
    let mut stream = raw::connect(&server.address);
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&raw::hello_of_server(name)).unwrap();
    assert_eq!(raw::frame(&mut stream).unwrap()[12..15], [0, 1, 0xf]);
    stream
}

/// Asks, and waits for the answer on the same connection.
fn is_answered(stream: &mut TcpStream, tag: u8) -> bool {
    stream.write_all(&raw::question(tag, 0)).unwrap();
    raw::frame(stream).is_ok_and(|answer| answer == [tag, 0, 0, 0, 0, 0, 0, 0x80, 0])
}

/// What ends in time, or is not waited for.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(LONG).expect("it ends in time")
}

#[test]
fn a_greeting_in_drips_is_not_waited_for() {
    let server = Running::start(ONE, Limits::default());
    let mut drips = raw::connect(&server.address);
    drips.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A server that is busy says this before anything else, as often as it likes.
    let drip = move || {
        while drips.write_all(&[0xff]).is_ok()
            && drips.read(&mut [0]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
        {}
    };
    in_time(drip);
    let why = server.await_notice(|notice| match notice {
        Notice::Unknown { why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Mute(_)), "{why}");
    server.stop();
}

#[test]
fn who_is_idle_makes_room() {
    let server = Running::start(ONE, Limits { connections: 3, ..Limits::default() });
    let client_greeted = || {
        let mut stream = raw::connect(&server.address);
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(&raw::hello()).unwrap();
        raw::frame(&mut stream).unwrap();
        stream
    };
    let mut fellow = greeted(&server, 2);
    let mut asks = client_greeted();
    assert!(is_answered(&mut asks, 1));
    let mut idle = client_greeted();
    // Both are idle for a second, and the one that has asked is for longer.
    thread::sleep(Duration::from_millis(1100));
    let mut newcomer = client_of(&[(ONE, &server)]);
    newcomer.request(Ask::together(vec![vec![1]])).unwrap();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "who has never asked goes first");
    assert!(is_answered(&mut asks, 2) && is_answered(&mut fellow, 3));
    server.stop();
}

#[test]
fn who_does_not_greet_makes_room() {
    let server = Running::start(ONE, Limits { connections: 1, ..Limits::default() });
    let silent: Vec<_> = (0..65).map(|_| raw::connect(&server.address)).collect();
    let mut newcomer = client_of(&[(ONE, &server)]);
    in_time(move || newcomer.request(Ask::together(vec![vec![1]])).unwrap());
    let why = server.await_notice(|notice| match notice {
        Notice::Unknown { why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Mute(long) if long < Duration::from_secs(5)), "{why}");
    drop(silent);
    server.stop();
}
