//! Processes on real sockets of this machine.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

mod claims;
mod processes;
mod raw;

use fulmar_node::{Lsn, MulticastId, NodeId, Random};
use fulmar_transport::{
    Address, Client, ClientError, ClusterId, Datagrams, Handle, LARGEST_DATAGRAM, Limits, LinkError, Notice,
    Protocol, Refusal, Server, User,
};
use processes::{Ask, Caller, Echo, Restless};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PROTOCOL: Protocol = Protocol { cluster: ClusterId(0xf01), version: 3 };
const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const THREE: NodeId = NodeId(3);

/// Passes notices on to the test.
struct Watcher(Sender<Notice>);

impl User<Echo> for Watcher {
    fn event(&mut self, _event: (), _requests: &mut Vec<()>) {}

    fn notice(&mut self, notice: Notice, _requests: &mut Vec<()>) {
        // A test that has seen enough no longer listens.
        let _ = self.0.send(notice);
    }
}

/// A server on a thread.
struct Running {
    address: Address,
    handle: Handle<Echo>,
    notices: Receiver<Notice>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(name: NodeId, limits: Limits) -> Self {
        Self::at("127.0.0.1:0", name, PROTOCOL, limits)
    }

    fn at(address: &str, name: NodeId, protocol: Protocol, limits: Limits) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().into();
        let mut server = Server::new(name, protocol, limits, Echo::default(), Lsn(0)).unwrap();
        server.listen(listener).unwrap();
        Self::run(server, address)
    }

    fn run(server: Server<Echo>, address: Address) -> Self {
        let handle = server.handle();
        let (sender, notices) = mpsc::channel();
        let thread = thread::spawn(move || {
            server.run(&mut (), &mut Watcher(sender)).unwrap();
        });
        Self { address, handle, notices, thread }
    }

    fn stop(self) -> Address {
        self.handle.stop();
        self.thread.join().unwrap();
        self.address
    }

    fn end(self) {
        self.stop();
    }

    /// Waits for a notice of which `wanted` makes something.
    fn await_notice<T>(&self, wanted: impl Fn(Notice) -> Option<T>) -> T {
        self.notices.iter().find_map(wanted).expect("the server runs")
    }
}

fn client(caller: Caller) -> Client<Caller> {
    Client::new(PROTOCOL, Limits::default(), caller)
}

fn client_of(servers: &[(NodeId, &Running)]) -> Client<Caller> {
    let mut client = client(Caller::new(servers.iter().map(|&(name, _)| name)));
    for &(name, running) in servers {
        client.address(name, running.address.clone());
    }
    client
}

fn bytes(random: &mut Random, longest: usize) -> Vec<u8> {
    let length = random.index(longest);
    let first = random.next().to_le_bytes()[0];
    (0..length).map(|at| first.wrapping_add(at.to_le_bytes()[0])).collect()
}

#[test]
fn thousands_of_messages_of_all_sizes_come_back() {
    let server = Running::start(ONE, Limits::default());
    let mut client = client_of(&[(ONE, &server)]);
    let mut random = Random::new(1);
    for turn in 0..500 {
        let longest = if turn % 50 == 0 { 1 << 20 } else { 5000 };
        let bodies: Vec<_> = (0..random.below(16)).map(|_| bytes(&mut random, longest)).collect();
        let echoed = client.request(Ask::together(bodies.clone())).unwrap();
        assert_eq!(echoed, [bodies]);
    }
    let counters = client.counters();
    assert_eq!(counters.messages_sent, counters.messages_received);
    assert_eq!(counters.connections, 1);
    assert_eq!(counters.dropped, 0);
    server.stop();
}

#[test]
fn round_trips_are_counted_exactly() {
    let servers = [ONE, TWO, THREE].map(|name| Running::start(name, Limits::default()));
    let mut client = client_of(&[(ONE, &servers[0]), (TWO, &servers[1]), (THREE, &servers[2])]);
    let mut expected = 0;
    for rounds in [1, 1, 4, 2, 0, 7] {
        client.request(Ask::rounds(rounds, vec![b"to all of them".to_vec(); 5])).unwrap();
        expected += u64::from(rounds);
        assert_eq!(client.round_trips(), expected);
        assert_eq!(client.counters().messages_received, expected * 15);
    }
    servers.into_iter().for_each(Running::end);
}

#[test]
fn unix_sockets_serve_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut server = Server::new(ONE, PROTOCOL, Limits::default(), Echo::default(), Lsn(0)).unwrap();
    server.listen(UnixListener::bind(&path).unwrap()).unwrap();
    let server = Running::run(server, Address::Unix(path));
    let mut client = client_of(&[(ONE, &server)]);
    let bodies = vec![vec![1; 300_000], vec![2]];
    assert_eq!(client.request(Ask::together(bodies.clone())).unwrap(), [bodies]);
    server.stop();
}

#[test]
fn a_client_learns_names_and_cluster_from_addresses() {
    let server = Running::start(TWO, Limits::default());
    let anyone = Protocol { cluster: ClusterId::ANY, ..PROTOCOL };
    let mut client = Client::new(anyone, Limits::default(), Caller::new([TWO]));
    assert_eq!(client.meet(server.address.clone()).unwrap(), TWO);
    assert_eq!(client.cluster(), PROTOCOL.cluster);
    assert_eq!(client.request(Ask::together(vec![vec![5]])).unwrap(), [[[5]]]);
    assert_eq!(client.counters().connections, 1);

    let foreign = Protocol { cluster: ClusterId(0xbad), ..PROTOCOL };
    let other = Running::at("127.0.0.1:0", ONE, foreign, Limits::default());
    let error = client.meet(other.address.clone()).unwrap_err().to_string();
    assert!(error.contains("0f01") && error.contains("0bad"), "{error}");
    let gone = other.stop();
    let error = client.meet(gone.clone()).unwrap_err().to_string();
    assert!(error.contains(&gone.to_string()) && error.contains("Connection refused"), "{error}");
    server.stop();
}

#[test]
fn who_does_not_belong_is_told_and_so_is_the_server() {
    let server = Running::start(ONE, Limits::default());
    let refused = |notice| match notice {
        Notice::Refused { why, .. } => Some(why),
        _ => None,
    };
    let cases = [
        (Protocol { version: 4, ..PROTOCOL }, Refusal::Version { theirs: 4, ours: 3 }),
        (
            Protocol { cluster: ClusterId(9), ..PROTOCOL },
            Refusal::Cluster { theirs: ClusterId(9), ours: PROTOCOL.cluster },
        ),
    ];
    for (protocol, refusal) in cases {
        let mut stranger = Client::new(protocol, Limits::default(), Caller::new([ONE]));
        let error = stranger.meet(server.address.clone()).unwrap_err();
        assert!(
            matches!(&error.why, LinkError::Refused(reason) if *reason == refusal.to_string()),
            "{error}"
        );
        assert_eq!(server.await_notice(refused), refusal);

        // The same when messages follow the greeting at once.
        stranger.address(ONE, server.address.clone());
        let error = stranger.request(Ask::together(vec![vec![0; 100_000]; 40])).unwrap_err();
        assert!(
            matches!(&error, ClientError::Refused { reason, .. } if *reason == refusal.to_string()),
            "{error}"
        );
        assert_eq!(server.await_notice(refused), refusal);
    }
    let mut lost = client(Caller::new([TWO]));
    lost.address(TWO, server.address.clone());
    let error = lost.request(Ask::together(vec![vec![0]])).unwrap_err();
    assert!(error.to_string().contains("meant for server n2"), "{error}");
    assert_eq!(server.handle.counters().unwrap().messages_received, 0);
    server.stop();
}

#[test]
fn a_client_gets_through_to_a_server_that_comes_back() {
    let mut server = Running::start(ONE, Limits::default());
    let mut client = client(Caller::new([ONE]).with_retry(Duration::from_millis(5)));
    client.address(ONE, server.address.clone());
    for turn in 0..5 {
        assert_eq!(client.request(Ask::together(vec![vec![turn]])).unwrap(), [[[turn]]]);
        let address = server.stop().to_string();
        let (asked, answered) = (
            vec![vec![turn, turn]],
            thread::spawn(move || {
                let echoed = client.request(Ask::together(vec![vec![turn, turn]])).unwrap();
                (client, echoed)
            }),
        );
        server = Running::at(&address, ONE, PROTOCOL, Limits::default());
        let echoed;
        (client, echoed) = answered.join().unwrap();
        assert_eq!(echoed, [asked]);
    }
    server.stop();
}

#[test]
fn a_client_with_nothing_to_wait_for_says_so() {
    let mut client = client(Caller::new([ONE]));
    assert!(matches!(client.request(Ask::together(vec![vec![1]])), Err(ClientError::Stuck)));
    let gone = Running::start(ONE, Limits::default()).stop();
    client.address(ONE, gone);
    assert!(matches!(client.request(Ask::together(vec![vec![1]])), Err(ClientError::Stuck)));
    let why = client.fault(ONE).map(ToString::to_string);
    assert!(why.as_ref().is_some_and(|why| why.contains("refused")), "{why:?}");
}

#[test]
fn a_process_knows_addresses_itself() {
    let server = Running::start(TWO, Limits::default());
    let mut client = client(Caller::new([TWO]));
    let address = server.address.clone();
    client.directory(move |caller, name| caller.servers.contains(&name).then(|| address.clone()));
    assert_eq!(client.request(Ask::together(vec![vec![3]])).unwrap(), [[[3]]]);
    server.stop();
}

/// An address that nobody has any more is silent: whoever connects there is not refused, and never greeted.
fn silent() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().into();
    (listener, address)
}

#[test]
fn a_client_does_not_wait_where_a_server_no_longer_is() {
    let server = Running::start(TWO, Limits::default());
    let (_silent, old) = silent();
    let new = server.address.clone();
    let asked = AtomicU32::new(0);
    let mut client = client(Caller::new([TWO]).with_retry(Duration::from_millis(5)));
    client
        .directory(move |_, _| Some(if asked.fetch_add(1, SeqCst) == 0 { old.clone() } else { new.clone() }));
    assert_eq!(client.request(Ask::together(vec![vec![3]])).unwrap(), [[[3]]]);
    server.stop();
}

#[test]
fn a_server_does_not_wait_where_another_no_longer_is() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    let (_silent, old) = silent();
    one.handle.address(TWO, old.clone());
    let mut client = client(Caller::new([ONE]).with_retry(Duration::from_millis(5)));
    client.address(ONE, one.address.clone());
    let asked = thread::spawn(move || client.request(Ask::relayed(&[2])).unwrap());
    let tried = one.await_notice(|notice| match notice {
        Notice::Connecting { peer: TWO, address } => Some(address),
        _ => None,
    });
    assert_eq!(tried, old);
    one.handle.address(TWO, two.address.clone());
    let why = one.await_notice(|notice| match notice {
        Notice::Unreachable { peer: TWO, why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Moved), "{why}");
    assert_eq!(asked.join().unwrap(), [[b"relayed"]]);
    one.stop();
    two.stop();
}

#[test]
fn servers_pass_messages_on_to_each_other_and_to_themselves() {
    let servers = [ONE, TWO, THREE].map(|name| Running::start(name, Limits::default()));
    for from in &servers {
        for (name, to) in [ONE, TWO, THREE].into_iter().zip(&servers) {
            from.handle.address(name, to.address.clone());
        }
    }
    // An echo that is asked to relays to the server named first, which answers the relay, and so on back.
    let mut client = client_of(&[(ONE, &servers[0])]);
    for path in [[2, 3], [3, 2], [1, 2], [2, 2], [2, 1]] {
        let echoed = client.request(Ask::relayed(&path)).unwrap();
        assert_eq!(echoed, [[b"relayed"]], "{path:?}");
    }
    let accepted: u64 = servers.iter().map(|server| server.handle.counters().unwrap().connections).sum();
    // One of the client, and between servers no more than one that each has dialed.
    assert!(accepted <= 1 + 2 * 6, "{accepted}");
    servers.into_iter().for_each(Running::end);
}

#[test]
fn a_multicast_reaches_its_group_by_tcp() {
    let others = [TWO, THREE].map(|name| Running::start(name, Limits::default()));
    let mut client = client_of(&[(TWO, &others[0]), (THREE, &others[1])]);
    client.group(MulticastId(4), [TWO, THREE]);
    assert_eq!(client.request(Ask::multicast(MulticastId(4), b"all")).unwrap(), [[b"all"]]);
    assert_eq!(client.counters().messages_received, 2);
    others.into_iter().for_each(Running::end);
}

#[test]
fn requests_and_work_come_from_other_threads() {
    let server = Running::start(ONE, Limits::default());
    let (sender, seen) = mpsc::channel();
    for _ in 0..3 {
        assert!(server.handle.request(()));
    }
    assert!(server.handle.run(move |echo, _now, _out| sender.send(echo.requests).unwrap()));
    // Work is done before requests that came in the same turn.
    assert!(seen.recv().unwrap() <= 3);
    let handle = server.handle.clone();
    server.stop();
    assert!(!handle.request(()) && handle.counters().is_none());
}

/// A log that a test looks into, and that fails when told to.
struct Disk {
    appended: Vec<u8>,
    syncs: usize,
    fails_at: usize,
}

impl fulmar_transport::Log<u8> for Disk {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.appended.extend(records);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        if self.syncs == self.fails_at { Err(io::Error::other("the disk is on fire")) } else { Ok(()) }
    }
}

#[test]
fn answers_wait_for_the_disk_and_a_failed_one_gives_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = Server::new(ONE, PROTOCOL, Limits::default(), Echo::durable(), Lsn(0)).unwrap();
    server.listen(listener).unwrap();
    let mut disk = Disk { appended: Vec::new(), syncs: 0, fails_at: 3 };
    let thread = thread::spawn(move || {
        let error = server.run(&mut disk, &mut ()).err();
        (disk, error)
    });
    let mut client = client(Caller::new([ONE]));
    client.address(ONE, address.into());
    for turn in 0..2 {
        assert_eq!(client.request(Ask::together(vec![vec![turn]])).unwrap(), [[[turn]]]);
    }
    assert!(matches!(client.request(Ask::together(vec![vec![2]])), Err(ClientError::Stuck)));
    let (disk, error) = thread.join().unwrap();
    assert_eq!((disk.appended, disk.syncs), (vec![0, 1, 2], 3));
    assert_eq!(error.unwrap().to_string(), "the log failed: the disk is on fire");
}

#[test]
fn the_wire_is_as_documented_byte_by_byte() {
    let server = Running::start(ONE, Limits::default());
    let mut stream = raw::connect(&server.address);
    for byte in [raw::hello(), raw::question(7, 2)].concat() {
        stream.write_all(&[byte]).unwrap();
    }
    let welcome = raw::frame(&mut stream).unwrap();
    assert_eq!(welcome[..12], *b"fulmar\x01\x00\x03\x00\x00\x00");
    assert_eq!(welcome[12..15], [0, 1, 0xf]);
    assert_eq!(welcome[29..], [1, 0, 0, 0, 0, 0, 0, 0x80]);
    assert_eq!(raw::frame(&mut stream).unwrap(), [7, 0, 0, 0, 0, 0, 0, 0x80, 0, 7, 7]);
    server.stop();
}

#[test]
fn noise_harms_nobody() {
    let limits = Limits { message: 1000, ..Limits::default() };
    let server = Running::start(ONE, limits);
    let answer = raw::exchange(&server.address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(String::from_utf8_lossy(&answer).contains("this is a Fulmar server"), "{answer:?}");
    let mut random = Random::new(3);
    for _ in 0..300 {
        let mut noise = if random.one_in(3) { Vec::new() } else { raw::hello() };
        if random.one_in(2) && !noise.is_empty() {
            let at = random.index(noise.len());
            noise[at] ^= 1 << random.below(8);
        }
        for _ in 0..random.below(3) {
            noise.extend(raw::question(1, random.index(1100)));
        }
        noise.extend(bytes(&mut random, 40));
        raw::exchange(&server.address, &noise);
    }
    let mut client = client_of(&[(ONE, &server)]);
    assert_eq!(client.request(Ask::together(vec![vec![1]])).unwrap(), [[[1]]]);
    server.stop();
}

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

/// Passes what a caller tells on to the test.
struct Told(Sender<Vec<Vec<u8>>>);

impl User<Caller> for Told {
    fn event(&mut self, echoed: Vec<Vec<u8>>, _requests: &mut Vec<Ask>) {
        let _ = self.0.send(echoed);
    }
}

#[test]
fn one_datagram_reaches_a_group_and_what_does_not_fit_goes_by_stream() {
    let sockets = [ONE, TWO, THREE].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let places = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
    let all = MulticastId(1);
    // Naming the loopback interface needs no route and no privilege.
    let loopback = Ipv4Addr::LOCALHOST;
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 1), places[0].port());
    let mut datagrams = sockets.map(|socket| Datagrams::new(socket).unwrap()).into_iter();
    let mut first = datagrams.next().unwrap();
    first.group(all, group, loopback, 0).unwrap();

    let mut caller =
        Server::new(ONE, PROTOCOL, Limits::default(), Caller::new([TWO, THREE]), Lsn(0)).unwrap();
    caller.datagrams(first).unwrap();
    caller.group(all, [TWO, THREE]);
    let mut echoes = Vec::new();
    for (name, mut datagrams) in [TWO, THREE].into_iter().zip(datagrams) {
        datagrams.join(group, loopback).unwrap();
        datagrams.address(ONE, places[0]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = listener.local_addr().unwrap().into();
        let mut echo = Server::new(name, PROTOCOL, Limits::default(), Echo::default(), Lsn(0)).unwrap();
        echo.listen(listener).unwrap();
        echo.datagrams(datagrams).unwrap();
        caller.address(name, address.clone());
        echoes.push(Running::run(echo, address));
    }
    let handle = caller.handle();
    let (sender, told) = mpsc::channel();
    let thread = thread::spawn(move || caller.run(&mut (), &mut Told(sender)).unwrap());

    // Whoever sends noise is not answered, and no noise stops a server; it is counted.
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = Random::new(5);
    for _ in 0..100 {
        let mut bytes = raw::hello()[4..].to_vec();
        bytes.truncate(random.index(60));
        noise.send_to(&bytes, places[1]).unwrap();
    }
    noise.send_to(b"noise", places[0]).unwrap();

    let longest = LARGEST_DATAGRAM - 36 - 2 - 9;
    let body = vec![1; longest];
    handle.request(Ask::multicast(all, &body));
    assert_eq!(told.recv().unwrap(), [body]);
    let counters = handle.counters().unwrap();
    assert_eq!((counters.messages_sent, counters.messages_received, counters.connections), (1, 2, 0));
    assert_eq!(counters.malformed, 1);

    let body = vec![1; longest + 1];
    handle.request(Ask::multicast(all, &body));
    assert_eq!(told.recv().unwrap(), [body]);
    let counters = handle.counters().unwrap();
    assert_eq!((counters.messages_sent, counters.messages_received, counters.connections), (3, 4, 2));
    handle.stop();
    thread.join().unwrap();
    echoes.into_iter().for_each(Running::end);
}

#[test]
fn a_restless_process_can_be_stopped() {
    let server = Server::new(ONE, PROTOCOL, Limits::default(), Restless::default(), Lsn(0)).unwrap();
    let handle = server.handle();
    let thread = thread::spawn(move || server.run(&mut (), &mut ()).unwrap());
    for _ in 0..3 {
        assert!(handle.counters().is_some());
    }
    handle.stop();
    assert!(thread.join().unwrap().turns > 0);
}
