//! How long a backup waits for its leader.

use super::{LEADER, One, heartbeat};
use crate::{Log, Message, Options, Protocol, Timer, View};
use fulmar_node::{NodeId, Process, Time};
use std::time::Duration;

#[test]
fn a_timer_that_was_put_off_means_nothing() {
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    one.step(|replica, out| replica.expire(Time::ZERO, Timer::Patience, out));
    assert_eq!(one.replica.view(), Some(View::first_of(0)));
}

/// Before, nobody can tell whether it is in the view that the others are in.
#[test]
fn who_begins_again_takes_part_when_it_hears_its_leader() {
    let before = One::begun(Protocol::Viewstamped, Options::default());
    let mut one = One::new(Protocol::Viewstamped, Options::default(), &before.records);
    one.sync();
    assert!(one.replica.view().is_some() && !one.replica.takes_part());
    one.hear(LEADER, heartbeat(0, &Log::default()));
    assert!(one.replica.takes_part());
    let silence = Time::ZERO + Options::default().patience * 4;
    one.step(|replica, out| replica.expire(silence, Timer::Patience, out));
    assert!(!one.replica.takes_part());
}

#[test]
fn a_leader_that_is_slow_is_waited_for_longer_and_not_for_ever() {
    let options = Options::default();
    let mut one = One::begun(Protocol::Viewstamped, options.clone());
    let log = Log::default();
    let mut now = Time::ZERO;
    let mut waits = |gap: Duration| {
        now = now + gap;
        one.step(|replica, out| replica.receive(now, LEADER, heartbeat(0, &log), out));
        one.replica.patience_until.since(now)
    };
    assert_eq!(waits(options.heartbeat), options.patience);
    // It was cut off.
    assert_eq!(waits(options.patience * 4), options.patience);
    assert_eq!(waits(options.patience * 3 / 4), options.patience * 3 / 2);
    assert_eq!(waits(options.patience * 2), options.patience * 3);
    // What is long ago does not count.
    let last = (0..500).map(|_| waits(options.heartbeat)).last();
    assert_eq!(last, Some(options.patience));
}

/// Where one of two backups was cut off, it waited for longer than the other, who could do nothing without it.
#[test]
fn a_leader_that_is_slow_is_waited_for_no_longer_where_another_does_not_hear_it_either() {
    let patience = Options::default().patience;
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    let silence = Message::Suspect { view: View::first_of(0) };
    let heard = Time::ZERO + patience;
    for (since, is_patient) in [(patience / 2, true), (patience, false)] {
        one.step(|replica, out| replica.receive(heard, LEADER, heartbeat(0, &Log::default()), out));
        assert!(one.replica.patience_until.since(heard) > patience * 3 / 2);
        one.step(|replica, out| replica.receive(heard + since, NodeId(2), silence.clone(), out));
        // A sign of the leader that has come by now would be heard first.
        assert!(one.replica.view().is_some());
        one.step(|replica, out| replica.expire(heard + since, Timer::Patience, out));
        assert_eq!(one.replica.view().is_some(), is_patient);
        assert!(one.replica.patience_until <= heard + since + patience);
    }
}
