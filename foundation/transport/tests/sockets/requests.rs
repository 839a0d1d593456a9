//! What is asked comes back, whatever its size and whoever it passes.

use crate::fixtures::{ONE, PROTOCOL, Running, THREE, TWO, bytes, client_of};
use crate::processes::{Ask, Echo};
use fulmar_node::{Lsn, MulticastId, Random};
use fulmar_transport::{Address, Limits, Server};
use std::os::unix::net::UnixListener;

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
