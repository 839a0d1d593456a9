//! Errors of ICMP and ICMPv6 about connections.

use super::{
    about, addresses, again, at, commit, echo, ends, error, identifier, is_sound, seconds, state, syn, to,
    track, tracker, udp,
};
use crate::state::{DESTINATION_TRANSLATED, INVALID, RELATED, REPLY, SOURCE_TRANSLATED, TRACKED};
use crate::{Request, Side};

#[test]
fn an_error_is_related_to_what_it_is_about() {
    for (a, b, router) in [("10.0.0.1", "10.0.0.2", "10.9.9.9"), ("fd00::1", "fd00::2", "fd09::9")] {
        let (a, b) = (at(a, 1234), at(b, 80));
        for frame in
            [udp(a, b), syn((a, b)), echo(at(&a.address.to_string(), 9), at(&b.address.to_string(), 0), true)]
        {
            let tracker = tracker();
            let marked = Request { mark: Some((5, 5)), ..commit() };
            let error = error(router, &frame, usize::MAX);
            assert_eq!(state(&tracker, seconds(0), &error, &marked), TRACKED | INVALID, "about nothing");
            state(&tracker, seconds(0), &frame, &marked);
            let tracked = track(&tracker, seconds(0), &mut error.clone(), &Request::default());
            assert_eq!((tracked.state, tracked.mark), (TRACKED | RELATED | REPLY, 5));
            let forced = Request { force: true, ..commit() };
            assert_eq!(state(&tracker, seconds(0), &error, &forced), TRACKED | RELATED | REPLY);
        }
        let tracker = tracker();
        state(&tracker, seconds(0), &udp(a, b), &commit());
        let of_an_answer = error(router, &udp(b, a), usize::MAX);
        assert_eq!(state(&tracker, seconds(0), &of_an_answer, &commit()), TRACKED | RELATED);
    }
}

/// An error does not make a connection stay.
#[test]
fn errors_are_no_part_of_a_connection() {
    let (tracker, frame) = (tracker(), udp(at("10.0.0.1", 1), at("10.0.0.2", 2)));
    state(&tracker, seconds(0), &frame, &commit());
    let error = error("10.9.9.9", &frame, usize::MAX);
    assert_eq!(state(&tracker, seconds(59), &error, &commit()), TRACKED | RELATED | REPLY);
    assert_eq!(state(&tracker, seconds(60), &error, &commit()), TRACKED | INVALID);
}

/// What an error has of a packet becomes what was sent, however much of it there is.
#[test]
fn errors_are_translated_with_what_they_are_about() {
    let nets = [
        ("10.0.0.1", "198.51.100.1", "192.0.2.1", "203.0.113.9"),
        ("fd00::1", "fd01::1", "fd02::1", "fd03::9"),
    ];
    for (host, server, outside, router) in nets {
        let header = if host.contains(':') { 40 } else { 20 };
        let (host, server) = (at(host, 1234), at(server, 80));
        let request = to(Side::Source, (outside, outside), Some(4_000..=4_001));
        let frames = [udp(host, server), syn((host, server))];
        // Of half a checksum of TCP nobody can say what it was.
        let lengths = (header + 8..header + 24).filter(|length| *length != header + 17);
        let cases = frames.iter().flat_map(|frame| lengths.clone().map(move |bytes| (frame, bytes)));
        for (sent, bytes) in cases {
            let (tracker, mut frame) = (tracker(), sent.clone());
            track(&tracker, seconds(0), &mut frame, &request);
            let mut error = error(router, &frame, bytes);
            let tracked = track(&tracker, seconds(0), &mut error, &again());
            assert_eq!(tracked.state, TRACKED | RELATED | REPLY | DESTINATION_TRANSLATED);
            assert_eq!(addresses(&error), (at(router, 0).address, host.address));
            assert!(is_sound(&error), "{bytes} bytes of {sent:?}");
            let about = about(&error);
            assert_eq!(ends(&about), (host, server));
            assert_eq!(about[14..], sent[14..][..about.len() - 14], "as it was sent");
        }
    }
}

#[test]
fn an_error_about_a_query_has_its_identifier() {
    for (a, b, server, outside) in
        [("10.0.0.1", "10.0.0.2", "8.8.8.8", "192.0.2.1"), ("fd00::1", "fd00::2", "fd01::1", "fd02::1")]
    {
        let (tracker, request) = (tracker(), to(Side::Source, (outside, outside), None));
        track(&tracker, seconds(0), &mut echo(at(a, 7), at(server, 0), true), &request);
        let sent = echo(at(b, 7), at(server, 0), true);
        let mut frame = sent.clone();
        track(&tracker, seconds(0), &mut frame, &request);
        assert_ne!(identifier(&frame), 7);
        let mut error = error(server, &frame, usize::MAX);
        track(&tracker, seconds(0), &mut error, &again());
        assert_eq!((about(&error)[14..].to_vec(), is_sound(&error)), (sent[14..].to_vec(), true));
    }
}

/// The server itself says that a port is closed; nobody is to know where it is.
#[test]
fn a_translated_server_does_not_show_itself() {
    let (tracker, host, service) = (tracker(), at("10.0.0.1", 1234), at("10.0.0.80", 80));
    let mut frame = udp(host, service);
    track(&tracker, seconds(0), &mut frame, &to(Side::Destination, ("10.1.0.1", "10.1.0.1"), None));
    let mut error = error("10.1.0.1", &frame, usize::MAX);
    let tracked = track(&tracker, seconds(0), &mut error, &again());
    assert_eq!(tracked.state, TRACKED | RELATED | REPLY | SOURCE_TRANSLATED);
    assert_eq!((addresses(&error), is_sound(&error)), ((service.address, host.address), true));
    assert_eq!(ends(&about(&error)), (host, service));
}
