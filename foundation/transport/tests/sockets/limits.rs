//! What limits keep small: memory for what is not whole or not read, and the number of connections.

use crate::fixtures::{ONE, Running, TWO, client_of};
use crate::processes::{ASKS_FOR_MUCH, Ask, LARGE_ANSWER};
use crate::raw;
use fulmar_transport::{Limits, LinkError, Notice};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[test]
fn a_client_that_does_not_read_is_not_heard() {
    const REQUESTS: usize = 400;
    const SIZE: usize = 100_000;
    let limits = Limits { unsent: 1 << 20, ..Limits::default() };
    let server = Running::start(ONE, limits);
    let mut stream = raw::connect(&server.address);
    stream.write_all(&raw::hello()).unwrap();
    raw::frame(&mut stream).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writer = thread::spawn(move || {
        for _ in 0..REQUESTS {
            writer.write_all(&raw::question(1, SIZE)).unwrap();
        }
    });
    // Others are served all the while, and when the unsent bytes grow no more the slow one is waiting.
    let mut client = client_of(&[(ONE, &server)]);
    while server.handle.counters().unwrap().unsent_peak < 1 << 20 {
        client.request(Ask::together(vec![vec![1]])).unwrap();
    }
    for _ in 0..REQUESTS {
        assert_eq!(raw::frame(&mut stream).unwrap().len(), SIZE + 9);
    }
    writer.join().unwrap();
    let counters = server.handle.counters().unwrap();
    assert!(counters.unsent_peak <= (1 << 20) + 2 * SIZE as u64, "{counters:?}");
    assert_eq!(counters.dropped, 0);
    server.stop();
}

/// Connections of clients, or of somebody who invents the names of servers.
fn strangers(server: &Running, count: u8, invent: bool) -> Vec<TcpStream> {
    let connect = |number| {
        let mut stream = raw::connect(&server.address);
        let hello = if invent { raw::hello_of_server(100 + number) } else { raw::hello() };
        stream.write_all(&hello).unwrap();
        raw::frame(&mut stream).unwrap();
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn clients_that_do_not_read_have_little_waiting_together() {
    who_does_not_read_has_little_waiting(false);
}

#[test]
fn who_invents_names_and_does_not_read_has_little_waiting() {
    who_does_not_read_has_little_waiting(true);
}

fn who_does_not_read_has_little_waiting(invent: bool) {
    const SIZE: usize = 200_000;
    const CLIENTS: u8 = 8;
    let limits = Limits { unread: 4 << 20, unsent: 16 << 20, ..Limits::default() };
    let server = Running::start(ONE, limits);
    let question = raw::question(1, SIZE);
    let streams = strangers(&server, CLIENTS, invent);
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let mut streams: Vec<_> = streams.into_iter().map(|stream| (stream, 0, 0)).collect();
    let mut client = client_of(&[(ONE, &server)]);
    // All ask and read nothing until none is heard any more.
    let mut silent = 0;
    while silent < 1_000 {
        silent += 1;
        for (stream, asked, rest) in &mut streams {
            match stream.write(&question[*rest..]) {
                Ok(count) => {
                    silent = 0;
                    *rest = (*rest + count) % question.len();
                    *asked += usize::from(*rest == 0);
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        client.request(Ask::together(vec![vec![1]])).unwrap();
    }
    // Who reads is heard again, and gets all answers.
    for (stream, asked, rest) in &mut streams {
        stream.set_nonblocking(false).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let left = question[*rest..].to_vec();
        let is_begun = *rest > 0;
        let writer = thread::spawn(move || writer.write_all(if is_begun { &left } else { &[] }).unwrap());
        for _ in 0..*asked + usize::from(is_begun) {
            assert_eq!(raw::frame(stream).unwrap().len(), SIZE + 9);
        }
        writer.join().unwrap();
    }
    let counters = server.handle.counters().unwrap();
    // The bound, a mebibyte of each, and what one turn brings.
    assert!(counters.backlog_peak > 4 << 20, "{counters:?}");
    assert!(counters.backlog_peak <= (4 << 20) + u64::from(CLIENTS) * (2 << 20), "{counters:?}");
    assert_eq!(counters.dropped, 0);
    server.stop();
}

/// What a turn adds to what is not read was counted when the turn was over.
#[test]
fn who_asks_for_much_at_once_gets_it_bit_by_bit() {
    const CLIENTS: u8 = 40;
    const EACH: usize = 30;
    let limits = Limits { unread: 4 << 20, unsent: 64 << 20, ..Limits::default() };
    let server = Running::start(ONE, limits);
    let mut streams = strangers(&server, CLIENTS, false);
    // All have asked before the server hears any.
    let (tell, told) = mpsc::channel::<()>();
    assert!(server.handle.run(move |_, _, _| assert!(told.recv().is_err())));
    for stream in &mut streams {
        stream.write_all(&raw::question(ASKS_FOR_MUCH, 1).repeat(EACH)).unwrap();
    }
    drop(tell);
    for stream in &mut streams {
        for _ in 0..EACH {
            assert_eq!(raw::frame(stream).unwrap().len(), LARGE_ANSWER + 9);
        }
    }
    let counters = server.handle.counters().unwrap();
    assert!(counters.backlog_peak <= (4 << 20) + u64::from(CLIENTS) * (2 << 20), "{counters:?}");
    server.stop();
}

#[test]
fn clients_with_large_messages_wait_for_each_other() {
    those_with_large_messages_wait_for_each_other(false);
}

#[test]
fn who_invents_names_and_has_a_large_message_waits_for_others() {
    those_with_large_messages_wait_for_each_other(true);
}

fn those_with_large_messages_wait_for_each_other(invent: bool) {
    const SIZE: usize = 6 << 20;
    const CLIENTS: u8 = 8;
    let limits = Limits { unread: 4 << 20, ..Limits::default() };
    let server = Running::start(ONE, limits);
    // The first begins a message, and says no more.
    let question = raw::question(1, SIZE);
    let mut streams = strangers(&server, CLIENTS + 1, invent);
    let mut stray = streams.pop().unwrap();
    stray.write_all(&question[..SIZE / 2]).unwrap();
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let mut streams: Vec<_> = streams.into_iter().map(|stream| (stream, &question[..])).collect();
    let mut client = client_of(&[(ONE, &server)]);
    // All send a little in turn, as far as they are read from.
    while streams.iter().any(|(_, rest)| !rest.is_empty()) {
        for (stream, rest) in streams.iter_mut().filter(|(_, rest)| !rest.is_empty()) {
            match stream.write(&rest[..rest.len().min(1 << 18)]) {
                Ok(count) => *rest = &rest[count..],
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        // Small messages go on.
        client.request(Ask::together(vec![vec![1]])).unwrap();
    }
    for (mut stream, _) in streams {
        stream.set_nonblocking(false).unwrap();
        assert_eq!(raw::frame(&mut stream).unwrap().len(), SIZE + 9);
    }
    let peak = server.handle.counters().unwrap().unread_peak;
    // The bound, one message that goes on beyond it, and for each a mebibyte that does not count and what one read brings.
    assert!(peak > 4 << 20, "{peak}");
    assert!(peak <= (4 << 20) + SIZE as u64 + u64::from(CLIENTS) * (3 << 19), "{peak}");
    server.stop();
}

#[test]
fn what_a_server_does_not_read_is_dropped() {
    // This one accepts and reads nothing, not even the greeting.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let limits = Limits { unsent: 1 << 20, ..Limits::default() };
    let server = Running::start(ONE, limits);
    server.handle.address(TWO, deaf.local_addr().unwrap().into());
    let mut stream = raw::connect(&server.address);
    stream.write_all(&raw::hello()).unwrap();
    let mut relayed = raw::question(1, 100_000);
    relayed[12] = 1;
    relayed[13] = 2;
    while server.handle.counters().unwrap().dropped == 0 {
        stream.write_all(&relayed).unwrap();
    }
    let counters = server.handle.counters().unwrap();
    assert!(counters.unsent_peak <= (1 << 20) + 200_000, "{counters:?}");
    server.stop();
}

#[test]
fn a_full_server_says_so() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = Running::start(ONE, limits);
    // Servers do not make room, however idle.
    let inside = [2, 3].map(|name| {
        let mut stream = raw::connect(&server.address);
        stream.write_all(&raw::hello_of_server(name)).unwrap();
        raw::frame(&mut stream).unwrap();
        stream
    });
    let mut outside = client_of(&[(ONE, &server)]);
    let error = outside.request(Ask::together(vec![vec![1]])).unwrap_err().to_string();
    assert!(error.contains("has 2 connections"), "{error}");
    drop(inside);
    for _ in 0..2 {
        server.await_notice(|notice| matches!(notice, Notice::Closed { .. }).then_some(()));
    }
    let mut outside = client_of(&[(ONE, &server)]);
    outside.request(Ask::together(vec![vec![1]])).unwrap();
    server.stop();
}

#[test]
fn an_idle_client_is_let_go_and_comes_back() {
    let limits = Limits { idle: Some(Duration::from_millis(1)), ..Limits::default() };
    let server = Running::start(ONE, limits);
    let mut client = client_of(&[(ONE, &server)]);
    client.request(Ask::together(vec![vec![1]])).unwrap();
    let why = server.await_notice(|notice| match notice {
        Notice::Closed { why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Idle(_)), "{why}");
    assert_eq!(client.request(Ask::together(vec![vec![2]])).unwrap(), [[[2]]]);
    assert_eq!(client.counters().connections, 2);
    server.stop();
}
