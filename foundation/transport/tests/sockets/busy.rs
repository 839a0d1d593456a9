//! Servers that are busy for long, and are heard of all the same.

use crate::fixtures::{ONE, Running, TWO, client_of};
use crate::processes::{Ask, Caller};
use crate::raw;
use fulmar_transport::{Client, Limits};
use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Two servers that have met, and say that they are there when a turn takes long; with a client of the first.
fn two_that_keep_alive() -> (Running, Running, Client<Caller>) {
    let limits = Limits { busy: MINUTE, ..Limits::default() };
    let (one, two) = (Running::start(ONE, limits), Running::start(TWO, limits));
    one.handle.address(TWO, two.address.clone());
    let mut client = client_of(&[(ONE, &one)]);
    client.request(Ask::relayed(&[2])).unwrap();
    (one, two, client)
}

#[test]
fn a_server_whose_turn_takes_long_is_heard_of() {
    let (one, two, mut client) = two_that_keep_alive();
    // Whoever has dialed is heard by the other, and the other by it.
    for (busy, name, idle) in [(&one, ONE, &two), (&two, TWO, &one)] {
        let (sender, heard) = mpsc::channel();
        idle.handle.run(|echo, _, _| echo.told_of_busy = Some(sender));
        let (end, ended) = mpsc::channel::<()>();
        busy.handle.run(move |_, _, _| _ = ended.recv());
        assert_eq!(heard.recv_timeout(MINUTE), Ok(name));
        assert_eq!(heard.recv_timeout(MINUTE), Ok(name), "more than once");
        drop(end);
    }
    client.request(Ask::relayed(&[2])).unwrap();
    one.stop();
    two.stop();
}

/// With five busy loops, commits of 100 MB made replicas choose other leaders: who was long in a turn read a part of what had come, and
/// took those to be silent whose signs were in the rest.
#[test]
fn a_server_from_which_more_is_on_its_way_is_heard_of() {
    let server = Running::start(ONE, Limits::default());
    let (sender, heard) = mpsc::channel();
    server.handle.run(|echo, _, _| echo.told_of_busy = Some(sender));
    let mut two = raw::connect(&server.address);
    two.write_all(&raw::hello_of_server(2)).unwrap();
    raw::frame(&mut two).unwrap();
    let is_heard = |byte: &u8| {
        two.write_all(&[*byte]).unwrap();
        heard.try_recv() == Ok(TWO)
    };
    assert!(raw::question(1, 4 << 20).iter().any(is_heard));
    server.stop();
}

/// It has no room for what comes, which is sent again and again as if a network lost it. It was called anew, and what had come was lost.
#[test]
fn a_server_that_is_busy_is_not_called_anew() {
    let (one, two, mut client) = two_that_keep_alive();
    let connections = one.handle.counters().unwrap().connections;
    let (sender, heard) = mpsc::channel();
    one.handle.run(|echo, _, _| echo.told_of_busy = Some(sender));
    let (end, ended) = mpsc::channel::<()>();
    two.handle.run(move |_, _, _| _ = ended.recv());
    let large = thread::spawn(move || client.request(Ask::relayed(&[2]).of(vec![1; 12 << 20])).unwrap());
    // Each tells of 50 milliseconds.
    heard.iter().take(30).for_each(drop);
    assert_eq!(one.handle.counters().unwrap().connections, connections);
    drop(end);
    large.join().unwrap();
    one.stop();
    two.stop();
}
