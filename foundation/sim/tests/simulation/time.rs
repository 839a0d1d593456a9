//! Clocks, services, syncs and multicasts.

use fulmar_node::{Lsn, MulticastId, NodeId, Outbox, Process, Time};
use fulmar_sim::{Delay, Sim};
use std::time::Duration;

const ALL: MulticastId = MulticastId(0);
const SECOND: Duration = Duration::from_secs(1);

/// Tells its user all that it is told.
struct Witness;

#[derive(Clone, Copy, Debug)]
enum Request {
    Set(Duration),
    Cancel,
    Log(u32),
    Multicast(u32),
    Send(NodeId, u32),
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Rang(Time),
    Durable(Lsn),
    Heard(NodeId, u32),
}

impl Process for Witness {
    type Message = u32;
    type Timer = u8;
    type Request = Request;
    type Event = Event;
    type Record = u32;

    fn receive(&mut self, _now: Time, from: NodeId, message: u32, out: &mut Outbox<Self>) {
        out.event(Event::Heard(from, message));
    }

    fn expire(&mut self, now: Time, _timer: u8, out: &mut Outbox<Self>) {
        out.event(Event::Rang(now));
    }

    fn request(&mut self, now: Time, request: Request, out: &mut Outbox<Self>) {
        match request {
            Request::Set(wait) => out.set_timer(0, now + wait),
            Request::Cancel => out.cancel_timer(0),
            Request::Log(records) => (0..records).for_each(|record| {
                out.record(record);
            }),
            Request::Multicast(message) => out.multicast(ALL, message),
            Request::Send(to, message) => out.send(to, message),
        }
    }

    fn durable(&mut self, _now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        out.event(Event::Durable(upto));
    }
}

fn witnesses(count: u32) -> Sim<Witness> {
    let mut sim = Sim::new(0, |_, _: &[u32]| Witness);
    sim.network.link.latency = Delay::Fixed(Duration::from_millis(1));
    (0..count).for_each(|id| sim.add(NodeId(id)));
    sim
}

fn events(sim: &mut Sim<Witness>, span: Duration) -> Vec<(Time, NodeId, Event)> {
    let mut events = Vec::new();
    sim.run(span, |sim, node, event| events.push((sim.now(), node, event)));
    events
}

fn seconds(seconds: u64) -> Time {
    Time::ZERO + SECOND * u32::try_from(seconds).expect("few seconds")
}

#[test]
fn a_timer_rings_once_at_its_last_deadline() {
    let mut sim = witnesses(1);
    let node = NodeId(0);
    for wait in [5, 1, 3] {
        sim.request(node, Request::Set(SECOND * wait));
    }
    assert_eq!(events(&mut sim, SECOND * 10), [(seconds(3), node, Event::Rang(seconds(3)))]);
    sim.request(node, Request::Set(SECOND));
    sim.request(node, Request::Cancel);
    assert_eq!(events(&mut sim, SECOND * 10), []);
    sim.request(node, Request::Set(SECOND));
    sim.run(SECOND / 2, |_, _, _| {});
    sim.crash(node);
    sim.restart(node);
    assert_eq!(events(&mut sim, SECOND * 10), [], "its successor set no timer");
}

#[test]
fn timers_follow_the_clock_of_their_node() {
    let mut sim = witnesses(2);
    let (fast, leaping) = (NodeId(0), NodeId(1));
    sim.set_clock(fast, Duration::ZERO, 1_000_000);
    sim.request(fast, Request::Set(SECOND * 8));
    sim.request(leaping, Request::Set(SECOND * 8));
    sim.at(seconds(1), move |sim| sim.set_clock(leaping, SECOND * 5, 0));
    sim.at(seconds(3), move |sim| sim.set_clock(fast, Duration::ZERO, 0));
    let rang = Event::Rang(seconds(8));
    assert_eq!(
        events(&mut sim, SECOND * 10),
        [(seconds(3), leaping, Event::Rang(seconds(8))), (seconds(5), fast, rang)]
    );
    assert_eq!((sim.clock(fast), sim.clock(leaping)), (seconds(13), seconds(15)));
}

#[test]
fn a_busy_node_takes_one_message_after_the_other() {
    let mut sim = witnesses(2);
    let (client, server) = (NodeId(0), NodeId(1));
    sim.set_service(server, Delay::Fixed(SECOND));
    for message in 0..3 {
        sim.request(client, Request::Send(server, message));
    }
    let arrival = Time::ZERO + Duration::from_millis(1);
    let heard: Vec<_> = events(&mut sim, SECOND * 10);
    let expected: Vec<_> =
        (0..3).map(|m| (arrival + SECOND * (m + 1), server, Event::Heard(client, m))).collect();
    assert_eq!(heard, expected);
}

#[test]
fn a_sync_covers_all_records_that_wait_for_it() {
    let mut sim = witnesses(1);
    let node = NodeId(0);
    sim.set_sync(node, Delay::Fixed(SECOND));
    for records in [1, 2, 3] {
        sim.request(node, Request::Log(records));
    }
    let durable = |at, lsn| (seconds(at), node, Event::Durable(Lsn(lsn)));
    assert_eq!(events(&mut sim, SECOND * 10), [durable(1, 1), durable(2, 6)]);
    sim.crash(node);
    sim.restart(node);
    sim.request(node, Request::Log(1));
    assert_eq!(events(&mut sim, SECOND * 10), [durable(11, 7)]);
}

#[test]
fn a_multicast_reaches_its_members_and_each_by_its_link() {
    let mut sim = witnesses(4);
    sim.network.set_members(ALL, [NodeId(1), NodeId(2), NodeId(3)]);
    sim.cut([NodeId(1)], [NodeId(2)]);
    sim.request(NodeId(1), Request::Multicast(7));
    let heard: Vec<_> = events(&mut sim, SECOND).into_iter().map(|(at, to, _)| (at, to)).collect();
    let later = Time::ZERO + Duration::from_millis(1);
    assert_eq!(heard, [(Time::ZERO, NodeId(1)), (later, NodeId(3))]);
}

/// What is sent leaves one after the other, and what comes meanwhile waits.
#[test]
fn a_busy_node_sends_one_message_after_the_other() {
    let mut sim = witnesses(3);
    let (busy, receiver, other) = (NodeId(0), NodeId(1), NodeId(2));
    sim.network.set_members(ALL, [receiver, other]);
    sim.set_departure(busy, Delay::Fixed(SECOND));
    sim.request(busy, Request::Send(receiver, 1));
    sim.request(other, Request::Send(busy, 2));
    sim.request(busy, Request::Multicast(3));
    let way = Duration::from_millis(1);
    let heard = |left, to, from, message| (seconds(left) + way, to, Event::Heard(from, message));
    let expected = [
        heard(1, receiver, busy, 1),
        // It came before the multicast left, and waited.
        (seconds(2), busy, Event::Heard(other, 2)),
        heard(2, receiver, busy, 3),
        heard(2, other, busy, 3),
    ];
    assert_eq!(events(&mut sim, SECOND * 10), expected);
    assert_eq!([busy, receiver, other].map(|node| sim.messages(node)), [3, 2, 2]);
}

#[test]
fn a_busy_node_takes_as_long_as_the_message_asks() {
    let mut sim = witnesses(2);
    let (client, server) = (NodeId(0), NodeId(1));
    sim.set_service_by(server, |message| Delay::Fixed(SECOND * *message));
    for message in [3, 0, 2] {
        sim.request(client, Request::Send(server, message));
    }
    let arrival = Time::ZERO + Duration::from_millis(1);
    let heard: Vec<_> = events(&mut sim, SECOND * 10);
    let expected = [(3, 3), (3, 0), (5, 2)];
    let expected: Vec<_> =
        expected.map(|(done, m)| (arrival + SECOND * done, server, Event::Heard(client, m))).into();
    assert_eq!(heard, expected);
}

#[test]
fn a_message_waits_for_those_before_it_on_its_link() {
    let mut sim = witnesses(3);
    // Each takes a second of its own.
    sim.set_rate(10, |_| 10);
    let one = NodeId(0);
    let requests = [
        Request::Send(NodeId(1), 7),
        Request::Send(NodeId(1), 8),
        Request::Send(NodeId(2), 9),
        Request::Send(one, 6),
    ];
    requests.into_iter().for_each(|request| sim.request(one, request));
    let arrived = |after: u64| seconds(after) + Duration::from_millis(1);
    assert_eq!(
        events(&mut sim, SECOND * 10),
        [
            (seconds(0), one, Event::Heard(one, 6)),
            (arrived(1), NodeId(1), Event::Heard(one, 7)),
            (arrived(1), NodeId(2), Event::Heard(one, 9)),
            (arrived(2), NodeId(1), Event::Heard(one, 8)),
        ]
    );
}
