//! Frames that nobody sends who means well.

use super::{
    NETWORK, about, again, at, commit, echo, error, read, seconds, state, syn, to, track, tracker, udp,
};
use crate::state::{INVALID, NEW, RELATED, REPLY, TRACKED};
use crate::{Request, Side};
use fulmar_node::Random;
use fulmar_packet::{Field, build, ethernet, ip};

fn is_invalid(frame: &[u8]) -> bool {
    let (tracker, mut same) = (tracker(), frame.to_vec());
    let tracked = track(&tracker, seconds(0), &mut same, &commit());
    tracked.state == TRACKED | INVALID && same == frame && tracker.connections().is_empty()
}

#[test]
fn what_has_no_connections_is_invalid() {
    let (a, b) = (at("10.0.0.1", 1), at("10.0.0.2", 2));
    assert!(is_invalid(&[]));
    assert!(is_invalid(&build(&super::key(a, b, 99), b"whatever it is")));
    assert!(is_invalid(&build(&super::key(a, b, ip::IGMP), b"")));
    let mut arp = fulmar_packet::FlowKey::EMPTY;
    arp.set(Field::ETH_TYPE, ethernet::ARP.into());
    assert!(is_invalid(&build(&arp, b"")));
    let mut neighbours = super::key(at("fd00::1", 135), at("fd00::2", 0), ip::ICMPV6);
    neighbours.set(Field::ND_TARGET, 1);
    assert!(is_invalid(&build(&neighbours, b"")));
    // ICMP in the other IP.
    assert!(is_invalid(&build(&super::key(at("fd00::1", 8), at("fd00::2", 0), ip::ICMP), &[0; 8])));
    assert!(is_invalid(&build(&super::key(at("10.0.0.1", 128), at("10.0.0.2", 0), ip::ICMPV6), &[0; 8])));
}

#[test]
fn port_0_is_invalid() {
    for (from, to) in [(0, 80), (80, 0), (0, 0)] {
        assert!(is_invalid(&udp(at("10.0.0.1", from), at("10.0.0.2", to))));
        assert!(is_invalid(&syn((at("fd00::1", from), at("fd00::2", to)))));
    }
}

#[test]
fn later_fragments_and_tiny_ones_are_invalid() {
    for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut key = super::key(at(a, 1), at(b, 2), ip::UDP);
        key.set(Field::IP_FRAGMENT, 1);
        let first = build(&key, b"data");
        assert_eq!(state(&tracker(), seconds(0), &first, &commit()), TRACKED | NEW);
        key.set(Field::IP_FRAGMENT, 3);
        assert!(is_invalid(&build(&key, b"what would be ports")));
    }
    // The first fragment ends in the middle of TCP's header (RFC 1858).
    let whole = syn((at("10.0.0.1", 1), at("10.0.0.2", 2)));
    for bytes in 0..20 {
        let mut tiny = whole[..NETWORK + 20 + usize::from(bytes)].to_vec();
        tiny[NETWORK + 3] = 20 + bytes;
        tiny[NETWORK + 6] = 0x20;
        assert!(is_invalid(&tiny), "{bytes} bytes");
    }
    // Options that would be behind the end.
    let mut long = whole;
    long[NETWORK + 20 + 12] = 0xf0;
    assert!(is_invalid(&long));
    long[NETWORK + 20 + 12] = 0x40;
    assert!(is_invalid(&long));
}

#[test]
fn errors_about_too_little_are_invalid() {
    for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let header = if a.contains(':') { 40 } else { 20 };
        let frame = syn((at(a, 1), at(b, 2)));
        let tracker = tracker();
        state(&tracker, seconds(0), &frame, &commit());
        for bytes in 0..60 {
            let expected = if bytes < header + 8 { INVALID } else { RELATED | REPLY };
            let error = error(b, &frame, bytes);
            assert_eq!(state(&tracker, seconds(0), &error, &commit()), TRACKED | expected, "{bytes} bytes");
        }
    }
}

#[test]
fn errors_about_what_was_not_sent_by_whom_they_reach_are_invalid() {
    let (tracker, sent) = (tracker(), udp(at("10.0.0.1", 1), at("10.0.0.2", 2)));
    state(&tracker, seconds(0), &sent, &commit());
    let mut other = sent.clone();
    other[NETWORK + 15] = 77;
    let mut lie = error("10.9.9.9", &other, usize::MAX);
    let start = super::transport(&lie) + 8;
    lie[start..].copy_from_slice(&sent[NETWORK..]);
    assert_eq!(state(&tracker, seconds(0), &lie, &commit()), TRACKED | INVALID);
    let nested = error("10.9.9.9", &error("10.0.0.1", &sent, usize::MAX), usize::MAX);
    assert_eq!(state(&tracker, seconds(0), &nested, &commit()), TRACKED | INVALID);
    // Of a later fragment, what is there are no ports.
    let mut fragment = sent;
    fragment[NETWORK + 7] = 1;
    let error = error("10.9.9.9", &fragment, usize::MAX);
    assert_eq!(about(&error)[NETWORK + 7], 1);
    assert_eq!(state(&tracker, seconds(0), &error, &commit()), TRACKED | INVALID);
}

/// Extension headers in an error are passed over, as long as they are there.
#[test]
fn errors_may_have_extension_headers() {
    let (tracker, sent) = (tracker(), udp(at("fd00::1", 1), at("fd00::2", 2)));
    state(&tracker, seconds(0), &sent, &commit());
    let extended = |headers: &[[u8; 8]]| {
        let mut frame = sent.clone();
        let mut next = ip::UDP;
        for header in headers.iter().rev() {
            frame.splice(54..54, [&[next], &header[1..]].concat());
            next = header[0];
        }
        frame[NETWORK + 6] = next;
        error("fd09::9", &frame, usize::MAX)
    };
    // The first byte is what the header itself is.
    let look = |headers: &[[u8; 8]]| state(&tracker, seconds(0), &extended(headers), &commit()) & !TRACKED;
    assert_eq!(look(&[[0; 8], [60, 0, 1, 4, 0, 0, 0, 0], [44, 0, 0, 1, 0, 0, 0, 0]]), RELATED | REPLY);
    assert_eq!(look(&[[44, 0, 0, 8, 0, 0, 0, 0]]), INVALID, "a later fragment");
    assert_eq!(look(&[[0, 200, 0, 0, 0, 0, 0, 0]]), INVALID, "a header behind the end");
}

/// Whatever bytes come, in whatever zone, with whatever asked: an answer, and a frame of the same length.
#[test]
fn nothing_makes_it_panic() {
    let mut random = Random::new(1);
    let tracker = tracker();
    let (a, b) = (at("10.0.0.1", 7), at("10.0.0.2", 8));
    let (c, d) = (at("fd00::1", 7), at("fd00::2", 8));
    let plain = [udp(a, b), syn((a, b)), echo(a, b, true), udp(c, d), syn((c, d)), echo(c, d, true)];
    let errors = plain
        .clone()
        .map(|frame| error(if frame[14] >> 4 == 4 { "10.0.0.2" } else { "fd00::2" }, &frame, 99));
    let requests = [
        commit(),
        again(),
        Request { force: true, ..commit() },
        to(Side::Source, ("10.0.0.1", "10.0.0.9"), Some(1..=9)),
        to(Side::Destination, ("fd00::1", "fd00::9"), None),
    ];
    for _ in 0..100_000 {
        let frames = if random.one_in(2) { &plain } else { &errors };
        let mut frame = frames[random.index(frames.len())].clone();
        for _ in 0..random.below(4) {
            let at = NETWORK + random.index(frame.len() - NETWORK);
            frame[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        if random.one_in(4) {
            frame.truncate(random.index(frame.len()));
        }
        let (mut key, layers) = read(&frame);
        if random.one_in(4) {
            key.set(Field::CT_STATE, random.below(256).into());
        }
        let length = frame.len();
        let now = seconds(random.below(100));
        let tracked = tracker.track(now, &key, &mut frame, layers, &requests[random.index(requests.len())]);
        assert!(tracked.state & TRACKED != 0 && frame.len() == length);
    }
}
