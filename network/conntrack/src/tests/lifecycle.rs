//! Connections from their first packet to when they are forgotten.

use super::{
    Numbers, again, at, commit, datagram, echo, ends, seconds, segment, state, syn, syn_ack, track, tracker,
    udp,
};
use crate::state::{ESTABLISHED, INVALID, NEW, REPLY, TRACKED};
use crate::tcp::{ACK, FIN, PSH, RST, SYN, URG};
use crate::{Endpoint, Limits, Request, Tracker};
use fulmar_packet::ip;
use std::thread;

fn pair() -> (Endpoint, Endpoint) {
    (at("10.0.0.1", 1234), at("10.0.0.2", 80))
}

fn turned((a, b): (Endpoint, Endpoint)) -> (Endpoint, Endpoint) {
    (b, a)
}

/// What is not committed leaves nothing.
#[test]
fn only_what_is_committed_is_remembered() {
    let (tracker, look) = (tracker(), Request::default());
    let (question, answer) = (udp(pair().0, pair().1), udp(pair().1, pair().0));
    assert_eq!(state(&tracker, seconds(0), &question, &look), TRACKED | NEW);
    assert_eq!(state(&tracker, seconds(0), &answer, &look), TRACKED | NEW);
    assert!(tracker.connections().is_empty());
    assert_eq!(state(&tracker, seconds(0), &question, &commit()), TRACKED | NEW);
    assert_eq!(state(&tracker, seconds(0), &question, &look), TRACKED | NEW);
    assert_eq!(state(&tracker, seconds(0), &answer, &look), TRACKED | ESTABLISHED | REPLY);
    assert_eq!(state(&tracker, seconds(0), &question, &look), TRACKED | ESTABLISHED);
    let elsewhere = Request { zone: 1, ..look };
    assert_eq!(state(&tracker, seconds(0), &answer, &elsewhere), TRACKED | NEW);
    tracker.flush(Some(1));
    assert_eq!(tracker.connections().len(), 1);
    tracker.flush(None);
    assert!(tracker.connections().is_empty());
}

#[test]
fn marks_and_labels_are_set_by_bits_and_seen_by_replies() {
    let tracker = tracker();
    let (mut question, mut answer) = (udp(pair().0, pair().1), udp(pair().1, pair().0));
    let marked = Request { mark: Some((0xff, 0x0f)), label: Some((1 << 100, u128::MAX)), ..commit() };
    assert_eq!(track(&tracker, seconds(0), &mut question, &marked).mark, 0x0f);
    let more = Request { mark: Some((0x30, 0x11)), label: Some((3, 1)), ..Request::default() };
    assert_eq!(track(&tracker, seconds(0), &mut question, &more).mark, 0x0f, "without commit");
    let more = Request { commit: true, ..more };
    track(&tracker, seconds(0), &mut question, &more);
    let seen = track(&tracker, seconds(0), &mut answer, &Request::default());
    assert_eq!((seen.mark, seen.label), (0x1e, 1 << 100 | 1));
    let line = tracker.connections()[0].to_string();
    assert!(line.ends_with(",mark=30,labels=0x10000000000000000000000001"), "{line}");
}

#[test]
fn force_turns_a_connection_round() {
    let tracker = tracker();
    let (question, answer) = (udp(pair().0, pair().1), udp(pair().1, pair().0));
    let force = Request { force: true, ..commit() };
    state(&tracker, seconds(0), &question, &force);
    assert_eq!(state(&tracker, seconds(0), &question, &force), TRACKED | NEW);
    assert_eq!(state(&tracker, seconds(0), &answer, &Request::default()), TRACKED | ESTABLISHED | REPLY);
    assert_eq!(state(&tracker, seconds(0), &answer, &force), TRACKED | NEW);
    assert_eq!(tracker.connections()[0].original().source, pair().1);
}

/// How long a connection is remembered after these packets, which come at once.
fn remembered(frames: &[Vec<u8>]) -> u64 {
    let is_there = |after: u64| {
        let tracker = tracker();
        for frame in frames {
            assert_eq!(state(&tracker, seconds(0), frame, &commit()) & INVALID, 0);
        }
        tracker.forget(seconds(after), usize::MAX);
        !tracker.connections().is_empty()
    };
    let (mut yes, mut no) = (0_u64, 1 << 20);
    while no - yes > 1 {
        let middle = yes.midpoint(no);
        if is_there(middle) { yes = middle } else { no = middle }
    }
    no
}

fn numbers(sequence: u32, acknowledgement: u32) -> Numbers {
    Numbers { sequence, acknowledgement, window: 8_000 }
}

/// The life of a connection, segment by segment.
fn life() -> Vec<Vec<u8>> {
    let (there, back) = (pair(), turned(pair()));
    vec![
        syn(there),
        syn_ack(back),
        segment(there, ACK, numbers(1_001, 5_001), b""),
        segment(there, ACK | PSH, numbers(1_001, 5_001), b"question"),
        segment(back, ACK | PSH, numbers(5_001, 1_009), b"answer"),
        segment(there, ACK | FIN, numbers(1_009, 5_007), b""),
        segment(back, ACK | FIN, numbers(5_007, 1_009), b""),
        segment(back, ACK, numbers(5_008, 1_010), b""),
        segment(there, ACK, numbers(1_010, 5_008), b""),
    ]
}

/// The defaults of Open vSwitch in user space.
#[test]
fn connections_are_remembered_as_long_as_their_state_says() {
    let (a, b) = pair();
    let expected = [30, 30, 86_400, 86_400, 86_400, 900, 45, 45, 30];
    for (count, seconds) in (1..).zip(expected) {
        assert_eq!(remembered(&life()[..count]), seconds, "after {count} segments");
    }
    let reset = segment((b, a), RST | ACK, numbers(5_007, 1_009), b"");
    assert_eq!(remembered(&[&life()[..5], &[reset]].concat()), 30);
    for protocol in [ip::UDP, ip::SCTP] {
        let (there, back) = (datagram(a, b, protocol), datagram(b, a, protocol));
        assert_eq!(remembered(std::slice::from_ref(&there)), 60);
        assert_eq!(remembered(&[there.clone(), there.clone()]), 60);
        assert_eq!(remembered(&[there.clone(), back]), 30);
    }
    for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (a, b) = (at(a, 7), at(b, 0));
        assert_eq!(remembered(&[echo(a, b, true)]), 60);
        assert_eq!(remembered(&[echo(a, b, true), echo(b, a, false)]), 30);
    }
}

#[test]
fn tcp_lives_from_syn_to_the_last_acknowledgement() {
    let tracker = tracker();
    let mut states = Vec::new();
    for frame in life() {
        let state = state(&tracker, seconds(1), &frame, &commit());
        let line = tracker.connections()[0].to_string();
        states.push((state & !TRACKED, line.split("state=").nth(1).expect("a state").to_owned()));
    }
    let (est, rpl) = (ESTABLISHED, REPLY);
    let expected = [
        (NEW, "SYN_SENT)"),
        (est | rpl, "ESTABLISHED)"),
        (est, "ESTABLISHED)"),
        (est, "ESTABLISHED)"),
        (est | rpl, "ESTABLISHED)"),
        (est, "CLOSING)"),
        (est | rpl, "CLOSING)"),
        (est | rpl, "FIN_WAIT_2)"),
        (est, "FIN_WAIT_2)"),
    ];
    assert_eq!(states, expected.map(|(state, line)| (state, line.to_owned())));
    // Another begins where this one was.
    assert_eq!(state(&tracker, seconds(2), &syn(pair()), &Request::default()), TRACKED | NEW);
    assert!(tracker.connections().is_empty());
}

#[test]
fn what_no_window_allows_is_invalid() {
    let (there, back) = (pair(), turned(pair()));
    let ((tracker, life), look) = ((tracker(), life()), Request::default());
    for frame in &life[..3] {
        state(&tracker, seconds(0), frame, &commit());
    }
    let far = [
        segment(there, ACK, numbers(1_001 + 8_001, 5_001), b"beyond the window"),
        segment(there, ACK, numbers(1_001_u32.wrapping_sub(8_100), 5_001), b"long ago"),
        segment(back, ACK, numbers(5_001, 1_001 + 70_000), b"acknowledges what was not sent"),
        segment(back, ACK, numbers(5_001, 1_001_u32.wrapping_sub(70_000)), b"acknowledges little"),
        segment(there, RST, numbers(1_001 + 500, 0), b""),
    ];
    for frame in far {
        assert_eq!(state(&tracker, seconds(0), &frame, &look), TRACKED | INVALID, "{frame:?}");
    }
    let near = [
        segment(there, ACK, numbers(1_001 + 4_000, 5_001), b"a segment was lost before"),
        segment(there, ACK, numbers(1_001, 5_001), b"and comes again"),
        segment(there, RST, numbers(5_001 + 25, 0), b""),
    ];
    for frame in near {
        assert_eq!(state(&tracker, seconds(0), &frame, &look), TRACKED | ESTABLISHED, "{frame:?}");
    }
}

/// RFC 7323: with both sides' options, and only then.
#[test]
fn windows_are_scaled() {
    let with_shift = |mut frame: Vec<u8>, shift: u8| {
        // The header becomes longer by the option and what fills it up; checksums are not looked at.
        frame[14 + 20 + 12] = 6 << 4;
        frame.extend([1, 3, 3, shift]);
        frame[17] += 4;
        frame
    };
    let (there, back) = (pair(), turned(pair()));
    let far = segment(there, ACK, numbers(1_001 + 30_000, 5_001), b"data");
    for (shifts, expected) in [([4, 4], ESTABLISHED), ([0, 0], INVALID), ([4, 0], INVALID)] {
        let tracker = tracker();
        let frames = [
            with_shift(syn(there), shifts[0]),
            with_shift(syn_ack(back), shifts[1]),
            segment(there, ACK, numbers(1_001, 5_001), b""),
            segment(back, ACK, numbers(5_001, 1_001), b""),
        ];
        frames
            .iter()
            .for_each(|frame| assert_eq!(state(&tracker, seconds(0), frame, &commit()) & INVALID, 0));
        assert_eq!(state(&tracker, seconds(0), &far, &commit()), TRACKED | expected, "{shifts:?}");
    }
}

/// As far as numbers go, there is nothing special about 0.
#[test]
fn numbers_come_round() {
    let (there, back, tracker) = (pair(), turned(pair()), tracker());
    let (mut mine, mut other) = (u32::MAX - 5_000, u32::MAX - 3_000);
    let frames =
        [segment(there, SYN, numbers(mine, 0), b""), segment(back, SYN | ACK, numbers(other, mine + 1), b"")];
    for frame in frames {
        state(&tracker, seconds(0), &frame, &commit());
    }
    (mine, other) = (mine + 1, other + 1);
    for _ in 0..20 {
        let question = segment(there, ACK, numbers(mine, other), &[0; 700]);
        mine = mine.wrapping_add(700);
        let answer = segment(back, ACK, numbers(other, mine), &[0; 500]);
        other = other.wrapping_add(500);
        assert_eq!(state(&tracker, seconds(0), &question, &commit()), TRACKED | ESTABLISHED);
        assert_eq!(state(&tracker, seconds(0), &answer, &commit()), TRACKED | ESTABLISHED | REPLY);
    }
    let ahead = segment(there, ACK, numbers(mine.wrapping_add(8_001), other), b"x");
    assert_eq!(state(&tracker, seconds(0), &ahead, &commit()), TRACKED | INVALID);
}

#[test]
fn a_connection_is_taken_up_in_the_middle() {
    let (tracker, life) = (tracker(), life());
    assert_eq!(state(&tracker, seconds(0), &life[1], &commit()), TRACKED | INVALID, "an answer to nothing");
    let states = life[3..5].iter().map(|frame| state(&tracker, seconds(0), frame, &commit()));
    assert_eq!(states.collect::<Vec<_>>(), [TRACKED | NEW, TRACKED | ESTABLISHED | REPLY]);
}

#[test]
fn flags_that_no_one_means_are_invalid() {
    let tracker = tracker();
    for flags in [0, SYN | FIN, SYN | RST, SYN | RST | ACK, FIN, PSH, URG, SYN | PSH, FIN | RST] {
        let frame = segment(pair(), flags, numbers(1, 0), b"");
        assert_eq!(state(&tracker, seconds(0), &frame, &commit()), TRACKED | INVALID, "{flags:#x}");
    }
}

#[test]
fn an_answer_to_no_query_is_invalid() {
    let (tracker, a, b) = (tracker(), at("10.0.0.1", 7), at("10.0.0.2", 0));
    assert_eq!(state(&tracker, seconds(0), &echo(b, a, false), &commit()), TRACKED | INVALID);
    state(&tracker, seconds(0), &echo(a, b, true), &commit());
    let other = Endpoint { port: 8, ..a };
    assert_eq!(state(&tracker, seconds(0), &echo(b, other, false), &commit()), TRACKED | INVALID);
    assert_eq!(state(&tracker, seconds(0), &echo(b, a, false), &commit()), TRACKED | ESTABLISHED | REPLY);
    let line = tracker.connections()[0].to_string();
    assert!(line.contains("reply=(src=10.0.0.2,dst=10.0.0.1,id=7,type=0,code=0)"), "{line}");
}

#[test]
fn limits_are_kept_and_what_is_over_is_counted() {
    let tracker = Tracker::new(Limits { connections: 5, connections_in_zone: 3 }, 1);
    let states: Vec<_> = (0..8)
        .map(|number| {
            let request = Request { zone: number % 2, ..commit() };
            state(&tracker, seconds(0), &udp(at("10.0.0.1", 1 + number), pair().1), &request) & INVALID
        })
        .collect();
    assert_eq!(states, [0, 0, 0, 0, 0, INVALID, INVALID, INVALID]);
    assert_eq!((tracker.counts().committed, tracker.counts().over_limit), (5, 3));
    assert_eq!(state(&tracker, seconds(60), &udp(pair().0, pair().1), &commit()), TRACKED | NEW);
}

/// More than are looked at together.
#[test]
fn a_zone_is_flushed_and_others_stay() {
    let tracker = tracker();
    for port in 1..=10_000 {
        let request = Request { zone: port % 2, ..commit() };
        state(&tracker, seconds(0), &udp(at("10.0.0.1", port), pair().1), &request);
    }
    assert_eq!(tracker.connections().len(), 10_000);
    tracker.flush(Some(1));
    assert!(tracker.connections().iter().all(|connection| connection.original().zone == 0));
    assert_eq!(tracker.connections().len(), 5_000);
    assert_eq!(tracker.forget(seconds(60), 4_000), 4_000);
    assert!(tracker.connections().is_empty(), "what has timed out is not there, forgotten or not");
    assert_eq!((tracker.forget(seconds(60), 4_000), tracker.forget(seconds(60), 4_000)), (1_000, 0));
}

/// Threads whose packets are of the same connections.
#[test]
fn threads_track_together() {
    let tracker = tracker();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for port in 1..=2_000 {
                    let (a, b) = (Endpoint { port, ..pair().0 }, pair().1);
                    state(&tracker, seconds(1), &udp(a, b), &commit());
                    let mut answer = udp(b, a);
                    let expected = TRACKED | ESTABLISHED | REPLY;
                    assert_eq!(track(&tracker, seconds(1), &mut answer, &again()).state, expected);
                    assert_eq!(ends(&answer), (b, a));
                }
            });
        }
    });
    assert_eq!(tracker.counts().committed, 2_000);
}
