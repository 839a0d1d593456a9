//! What is translated comes back to whom it came from.

use super::{
    again, at, commit, echo, ends, identifier, is_sound, key, read, seconds, state, syn, syn_ack, to, track,
    tracker, udp,
};
use crate::state::{DESTINATION_TRANSLATED, ESTABLISHED, INVALID, NEW, REPLY, SOURCE_TRANSLATED, TRACKED};
use crate::{Endpoint, Request, Rewritten, Side, Tracker, Translation};
use fulmar_node::Random;
use fulmar_packet::{Field, build, ip};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;

fn gateway(ports: Option<std::ops::RangeInclusive<u16>>) -> Request {
    to(Side::Source, ("192.0.2.1", "192.0.2.1"), ports)
}

/// Sends a frame through, and answers where it went.
fn sent(tracker: &Tracker, mut frame: Vec<u8>, request: &Request) -> (Endpoint, Endpoint) {
    let tracked = track(tracker, seconds(0), &mut frame, request);
    assert!(tracked.state & INVALID == 0 && is_sound(&frame), "{tracked:?} {frame:?}");
    ends(&frame)
}

#[test]
fn a_source_is_translated_and_back() {
    let (tracker, gateway) = (tracker(), gateway(None));
    let (host, server, outside) = (at("10.0.0.1", 1234), at("198.51.100.1", 80), at("192.0.2.1", 1234));
    let mut frame = syn((host, server));
    let tracked = track(&tracker, seconds(0), &mut frame, &gateway);
    assert_eq!(tracked.state, TRACKED | NEW | SOURCE_TRANSLATED);
    assert_eq!(tracked.rewritten, Rewritten { source: true, ..Rewritten::default() });
    assert_eq!((ends(&frame), is_sound(&frame)), ((outside, server), true));
    let mut frame = syn_ack((server, outside));
    let untouched = track(&tracker, seconds(0), &mut frame, &Request::default());
    assert_eq!(untouched.state, TRACKED | ESTABLISHED | REPLY);
    assert_eq!(ends(&frame), (server, outside), "nobody has asked for it");
    let tracked = track(&tracker, seconds(0), &mut frame, &again());
    assert_eq!(tracked.state, TRACKED | ESTABLISHED | REPLY | DESTINATION_TRANSLATED);
    assert_eq!((ends(&frame), is_sound(&frame)), ((server, host), true));
    let line = tracker.connections()[0].to_string();
    let expected = "tcp,orig=(src=10.0.0.1,dst=198.51.100.1,sport=1234,dport=80),\
                    reply=(src=198.51.100.1,dst=192.0.2.1,sport=80,dport=1234),protoinfo=(state=ESTABLISHED)";
    assert_eq!(line, expected);
}

#[test]
fn a_destination_is_translated_and_back() {
    let tracker = tracker();
    let (host, service, server) = (at("2001:db8::1", 999), at("fd00::80", 80), at("fd00::1", 8080));
    let balance = to(Side::Destination, ("fd00::1", "fd00::1"), Some(8080..=8080));
    let mut frame = udp(host, service);
    assert_eq!(
        track(&tracker, seconds(0), &mut frame, &balance).state,
        TRACKED | NEW | DESTINATION_TRANSLATED
    );
    assert_eq!((ends(&frame), is_sound(&frame)), ((host, server), true));
    let mut frame = udp(server, host);
    let tracked = track(&tracker, seconds(0), &mut frame, &again());
    assert_eq!(tracked.state, TRACKED | ESTABLISHED | REPLY | SOURCE_TRANSLATED);
    assert_eq!((ends(&frame), is_sound(&frame)), ((service, host), true));
}

/// A packet goes through the same zone twice: by the second time it is what it has become.
#[test]
fn what_was_translated_is_known_again_and_left_alone() {
    let (tracker, request) = (tracker(), gateway(None));
    let (host, server) = (at("10.0.0.1", 1234), at("198.51.100.1", 80));
    for expected in [NEW, NEW] {
        let mut frame = udp(host, server);
        let tracked = track(&tracker, seconds(0), &mut frame, &request);
        assert_eq!(tracked.state, TRACKED | expected | SOURCE_TRANSLATED);
        let (mut key, layers) = read(&frame);
        key.set(Field::CT_STATE, tracked.state.into());
        let before = frame.clone();
        let second = tracker.track(seconds(0), &key, &mut frame, layers, &request);
        assert_eq!((second.state, second.rewritten), (tracked.state, Rewritten::default()));
        assert_eq!(frame, before);
    }
    assert_eq!(tracker.connections().len(), 1);
}

#[test]
fn a_port_stays_if_it_is_free_and_else_is_one_of_its_class() {
    let (tracker, request, server) = (tracker(), gateway(None), at("198.51.100.1", 80));
    for (port, class) in [(22, 1..=511), (700, 600..=1023), (5_000, 1024..=u16::MAX)] {
        let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let outside = hosts.map(|host| sent(&tracker, udp(at(host, port), server), &request).0.port);
        assert_eq!(outside[0], port);
        assert!(outside[1..].iter().all(|other| *other != port && class.contains(other)), "{outside:?}");
        assert_ne!(outside[1], outside[2]);
        // To another server it is free.
        assert_eq!(sent(&tracker, udp(at(hosts[1], port), at("198.51.100.2", 80)), &request).0.port, port);
    }
}

#[test]
fn when_all_are_taken_no_more_are_committed() {
    let (tracker, server) = (tracker(), at("198.51.100.1", 80));
    let request = to(Side::Source, ("192.0.2.1", "192.0.2.3"), Some(10..=13));
    let mut taken: Vec<_> =
        (1..=12).map(|port| sent(&tracker, udp(at("10.0.0.1", port), server), &request).0).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 12);
    let frame = udp(at("10.0.0.1", 99), server);
    let mut same = frame.clone();
    assert_eq!(track(&tracker, seconds(0), &mut same, &request).state, TRACKED | INVALID);
    assert_eq!(same, frame);
    assert_eq!((tracker.connections().len(), tracker.counts().untranslatable), (12, 1));
    assert_eq!(state(&tracker, seconds(60), &frame, &request), TRACKED | NEW | SOURCE_TRANSLATED);
}

#[test]
fn a_range_that_cannot_be_is_none() {
    let mixed = to(Side::Source, ("192.0.2.1", "fd00::1"), None);
    let reversed = to(Side::Source, ("192.0.2.9", "192.0.2.1"), None);
    let other = to(Side::Destination, ("fd00::1", "fd00::2"), None);
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is tested")]
    let ports = gateway(Some(9..=8));
    for request in [mixed, reversed, other, ports, gateway(Some(0..=0))] {
        let frame = udp(at("10.0.0.1", 1), at("10.0.0.2", 2));
        assert_eq!(state(&tracker(), seconds(0), &frame, &request), TRACKED | INVALID, "{request:?}");
    }
}

/// Somebody really has the address and the port that a connection is translated to.
#[test]
fn who_would_be_confused_with_another_is_not_committed() {
    let (tracker, server) = (tracker(), at("198.51.100.1", 80));
    let outside = sent(&tracker, udp(at("10.0.0.1", 1234), server), &gateway(None)).0;
    assert_eq!(state(&tracker, seconds(0), &udp(outside, server), &commit()), TRACKED | INVALID);
    let null = Request { translation: Some(Translation::default()), ..commit() };
    assert_eq!(state(&tracker, seconds(0), &udp(outside, server), &null), TRACKED | INVALID);
    let port = Translation { side: Some(Side::Source), ..Translation::default() };
    let moved = sent(&tracker, udp(outside, server), &Request { translation: Some(port), ..commit() });
    assert!(moved.0.address == outside.address && moved.0.port != outside.port);
    assert_eq!(tracker.counts().untranslatable, 2);
}

#[test]
fn two_who_ping_with_one_identifier_are_told_apart() {
    for (hosts, server, outside) in [
        (["10.0.0.1", "10.0.0.2"], "8.8.8.8", "192.0.2.1"),
        (["fd00::1", "fd00::2"], "2001:db8::1", "2001:db8::2"),
    ] {
        let (tracker, request) = (tracker(), to(Side::Source, (outside, outside), None));
        let mut identifiers = Vec::new();
        for host in hosts {
            let mut frame = echo(at(host, 7), at(server, 0), true);
            track(&tracker, seconds(0), &mut frame, &request);
            assert!(is_sound(&frame));
            let outer = identifier(&frame);
            let mut answer = echo(at(server, 0), at(outside, outer), false);
            let tracked = track(&tracker, seconds(0), &mut answer, &again());
            assert_eq!(tracked.rewritten.destination_port, outer != 7);
            assert_eq!((super::addresses(&answer).1, identifier(&answer)), (at(host, 0).address, 7));
            assert!(is_sound(&answer));
            identifiers.push(outer);
        }
        assert!(identifiers[0] == 7 && identifiers[1] != 7, "{identifiers:?}");
    }
}

#[test]
fn both_sides_are_translated_in_two_zones() {
    let tracker = tracker();
    let (host, service, server) = (at("10.0.0.1", 1234), at("10.0.0.80", 80), at("10.1.0.1", 8080));
    let first = Request { zone: 1, ..to(Side::Destination, ("10.1.0.1", "10.1.0.1"), Some(8080..=8080)) };
    let second = Request { zone: 2, ..to(Side::Source, ("10.1.0.254", "10.1.0.254"), None) };
    let mut frame = udp(host, service);
    track(&tracker, seconds(0), &mut frame, &first);
    track(&tracker, seconds(0), &mut frame, &second);
    assert_eq!((ends(&frame), is_sound(&frame)), ((at("10.1.0.254", 1234), server), true));
    let mut frame = udp(server, at("10.1.0.254", 1234));
    track(&tracker, seconds(0), &mut frame, &Request { zone: 2, ..again() });
    track(&tracker, seconds(0), &mut frame, &Request { zone: 1, ..again() });
    assert_eq!((ends(&frame), is_sound(&frame)), ((service, host), true));
}

/// Many hosts behind few addresses, with frames of any length: who answers reaches who has asked.
#[test]
fn all_answers_come_back() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (tracker, is_ipv4) = (tracker(), random.one_in(2));
        let base =
            if is_ipv4 { ["10.0.0.", "192.0.2.", "198.51.100."] } else { ["fd00::", "fd01::", "fd02::"] };
        let outside = (format!("{}1", base[1]), format!("{}3", base[1]));
        let ports = random.one_in(2).then_some(2_000..=2_020);
        let request = to(Side::Source, (&outside.0, &outside.1), ports);
        let mut asked = BTreeMap::new();
        for _ in 0..150 {
            let protocol = [ip::TCP, ip::UDP, ip::SCTP][random.index(3)];
            let end = |random: &mut Random, net: &str, hosts, first| {
                let port = u16::try_from(first + random.below(4)).expect("small");
                at(&format!("{net}{}", 1 + random.below(hosts)), port)
            };
            let (host, server) = (end(&mut random, base[0], 9, 2_000), end(&mut random, base[2], 2, 80));
            let data = vec![7; random.index(40)];
            let mut there = key(host, server, protocol);
            there.set(Field::TCP_FLAGS, u128::from(protocol == ip::TCP) * 2);
            let mut frame = build(&there, &data);
            let tracked = track(&tracker, seconds(0), &mut frame, &request);
            assert_eq!(tracked.state, TRACKED | NEW | SOURCE_TRANSLATED, "seed {seed}");
            assert!(is_sound(&frame), "seed {seed}: {frame:?}");
            let (outer, inner) = ((ends(&frame), protocol), (host, server));
            assert_eq!(*asked.entry(outer).or_insert(inner), inner, "seed {seed}: one for two");
        }
        for (((outside, server), protocol), (host, same)) in asked {
            let mut back = key(server, outside, protocol);
            back.set(Field::TCP_FLAGS, u128::from(protocol == ip::TCP) * 0x12);
            let mut frame = build(&back, &vec![8; random.index(40)]);
            track(&tracker, seconds(0), &mut frame, &again());
            assert_eq!((ends(&frame), is_sound(&frame)), ((same, host), true), "seed {seed}");
        }
    }
}

/// Connections that are committed at the same time do not get the same port.
#[test]
fn threads_share_ports() {
    let (tracker, request) = (tracker(), gateway(Some(3_000..=3_999)));
    let outside: Vec<_> = thread::scope(|scope| {
        let run = |host: u8| {
            let (tracker, request) = (&tracker, &request);
            move || {
                let frames =
                    (1..=250).map(|port| udp(at(&format!("10.0.0.{host}"), port), at("198.51.100.1", 80)));
                frames.map(|frame| sent(tracker, frame, request).0.port).collect::<Vec<_>>()
            }
        };
        let running: Vec<_> = (1..=4).map(|host| scope.spawn(run(host))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(outside.into_iter().collect::<BTreeSet<_>>(), (3_000..=3_999).collect());
}
