//! Each fault occurs when it is on, and only then.

use crate::register::{Bug, CLIENT, Event, Request, Role, register, replicas};
use fulmar_node::NodeId;
use fulmar_sim::{Counts, Delay, Faults, Link, Sim};
use std::time::Duration;

fn keep_writing(sim: &mut Sim<Role>, span: Duration) -> Counts {
    let mut next = 1;
    sim.request(CLIENT, Request::Write(next));
    sim.run(span, |sim, client, event| {
        if event == Event::Written(next) {
            next += 1;
            sim.request(client, Request::Write(next));
        }
    });
    sim.counts
}

fn counts(set_up: impl Fn(&mut Sim<Role>)) -> Counts {
    let mut sim = register(3, Bug::None);
    set_up(&mut sim);
    keep_writing(&mut sim, Duration::from_secs(3))
}

fn with(change: impl Fn(&mut Faults)) -> Counts {
    counts(|sim| {
        let mut faults = Faults::none(replicas());
        change(&mut faults);
        sim.inject(faults);
    })
}

#[test]
fn nothing_goes_wrong_by_itself() {
    let calm = counts(|_| {});
    assert!(calm.received > 1_000 && calm.syncs > 1_000, "{calm:?}");
    let faultless = Counts {
        steps: calm.steps,
        sent: calm.sent,
        received: calm.received,
        syncs: calm.syncs,
        records: calm.records,
        events: calm.events,
        ..Counts::default()
    };
    assert_eq!(calm, faultless);
    assert_eq!(with(|_| {}), calm, "a plan without weights changes nothing");
}

#[test]
fn each_fault_occurs_when_its_weight_is_set() {
    let crashes = with(|faults| faults.crash = 1);
    assert!(crashes.crashes > 0 && crashes.restarts > 0 && crashes.dead > 0, "{crashes:?}");
    assert!(crashes.records_lost > 0, "{crashes:?}");
    assert_eq!((crashes.pauses, crashes.cuts, crashes.lost), (0, 0, 0));
    let blackouts = with(|faults| faults.blackout = 1);
    assert!(blackouts.crashes > crashes.crashes, "two at a time: {blackouts:?}");
    assert!(with(|faults| faults.pause = 1).pauses > 0);
    let cuts = with(|faults| faults.cut = 1);
    assert!(cuts.cuts > 0 && cuts.crashes == 0, "{cuts:?}");
    // The client is no node of the plan, so cut it off, too, to see messages stopped.
    let partitions = counts(|sim| {
        let mut faults = Faults::none(replicas().chain([CLIENT]));
        faults.partition = 1;
        sim.inject(faults);
    });
    assert!(partitions.cuts > 0 && partitions.cut > 0, "{partitions:?}");
    let weather = with(|faults| faults.weather = 1);
    assert!(weather.lost > 0 && weather.duplicated > 0 && weather.late > 0, "{weather:?}");
    let disks = with(|faults| faults.broken_disk = 1);
    assert!(disks.disks_broken > 0 && disks.crashes > 0 && disks.restarts > 0, "{disks:?}");
    assert!(with(|faults| faults.slow_disk = 1).syncs < with(|_| {}).syncs);
    assert!(with(|faults| faults.clock = 1).clock_changes > 0);
}

#[test]
fn links_lose_double_and_delay_as_they_are_told() {
    let link = |change: fn(&mut Link)| counts(move |sim| change(&mut sim.network.link));
    let lossy = link(|link| link.loss = 0.25);
    let share = lossy.lost as f64 / lossy.sent as f64;
    assert!((0.2..0.3).contains(&share), "{share}");
    let doubling = link(|link| link.duplication = 1.0);
    assert_eq!(doubling.duplicated, doubling.sent);
    let late = link(|link| link.reorder = 0.5);
    assert!(late.late > late.sent / 3 && late.lost == 0, "{late:?}");
}

#[test]
fn one_link_may_differ_from_all_others() {
    let counts = counts(|sim| {
        let dead = Link { loss: 1.0, ..sim.network.link };
        sim.network.set_link(CLIENT, NodeId(0), dead);
    });
    assert!(counts.lost > 0 && counts.lost * 5 <= counts.sent, "{counts:?}");
}

#[test]
fn a_cut_stops_one_direction_and_what_is_under_way() {
    let mut sim = register(1, Bug::None);
    sim.network.link.latency = Delay::Fixed(Duration::from_millis(1));
    let cut = sim.cut(replicas(), [CLIENT]);
    sim.request(CLIENT, Request::Read);
    sim.run(Duration::from_millis(5), |_, _, _| panic!("no answer can come"));
    assert_eq!((sim.counts.received, sim.counts.cut), (5, 5));
    sim.mend(cut);
    // The client asks again after 10 ms; the answers are on their way at 11.5 ms.
    sim.run(Duration::from_micros(6_500), |_, _, _| panic!("no answer can have come"));
    assert_eq!((sim.counts.received, sim.counts.cut), (10, 5));
    sim.partition([CLIENT], replicas());
    sim.run(Duration::from_millis(5), |_, _, _| panic!("no answer can come"));
    assert_eq!((sim.counts.received, sim.counts.cut), (10, 10));
    sim.heal(replicas());
    let is_over = sim.run_until(Duration::from_secs(1), |_, _, _| {}, |sim| sim.counts.events == 1);
    assert!(is_over);
}

#[test]
fn nothing_comes_of_a_connection_that_has_ended() {
    let mut sim = register(1, Bug::None);
    sim.network.link.latency = Delay::Fixed(Duration::from_millis(1));
    sim.request(CLIENT, Request::Read);
    // The replicas have answered, and the answers are on their way.
    sim.run(Duration::from_micros(1_500), |_, _, _| panic!("no answer can have come"));
    replicas().for_each(|id| sim.disconnect(id, CLIENT));
    sim.run(Duration::from_millis(5), |_, _, _| panic!("no answer can come"));
    assert_eq!((sim.counts.received, sim.counts.severed), (5, 5));
    // The client asks again, over connections that are made anew.
    assert!(sim.run_until(Duration::from_secs(1), |_, _, _| {}, |sim| sim.counts.events == 1));
    assert_eq!(sim.counts.severed, 5);
}

#[test]
fn what_comes_to_a_paused_node_waits() {
    let mut sim = register(1, Bug::None);
    replicas().for_each(|id| sim.pause(id));
    sim.request(CLIENT, Request::Read);
    sim.run(Duration::from_millis(5), |_, _, _| panic!("nobody answers"));
    assert_eq!(sim.counts.received, 0);
    replicas().for_each(|id| sim.resume(id));
    sim.run(Duration::from_micros(1), |_, _, _| {});
    assert_eq!(sim.counts.received, 5);
}

#[test]
fn a_crash_keeps_what_is_durable_and_some_of_the_rest() {
    let mut kept = Vec::new();
    for seed in 0..50 {
        let mut sim = register(seed, Bug::None);
        let replica = NodeId(0);
        sim.request(CLIENT, Request::Write(1));
        sim.run(Duration::from_secs(1), |_, _, _| {});
        sim.set_sync(replica, Delay::Fixed(Duration::from_secs(60)));
        for value in 2..=5 {
            sim.request(CLIENT, Request::Write(value));
            sim.run(Duration::from_millis(1), |_, _, _| {});
        }
        assert_eq!(sim.log(replica), [1, 2, 3, 4, 5]);
        sim.crash(replica);
        assert!(!sim.is_up(replica) && sim.process(replica).is_none());
        let log = sim.log(replica).to_vec();
        assert_eq!(log, (1..=log.len() as u64).collect::<Vec<_>>());
        kept.push(log.len());
        sim.restart(replica);
        let Some(Role::Replica(process)) = sim.process(replica) else { panic!("it is up") };
        assert_eq!(process.value, log.len() as u64);
        sim.replace_disk(replica);
        assert!(sim.log(replica).is_empty());
    }
    assert!((1..=5).all(|length| kept.contains(&length)), "{kept:?}");
}

#[test]
fn a_broken_disk_ends_its_process_until_it_is_repaired() {
    let mut sim = register(1, Bug::None);
    let replica = NodeId(0);
    sim.break_disk(replica);
    assert!(sim.is_up(replica));
    sim.request(CLIENT, Request::Write(1));
    sim.run(Duration::from_secs(1), |_, _, _| {});
    assert!(!sim.is_up(replica));
    sim.restart(replica);
    assert!(!sim.is_up(replica));
    sim.repair_disk(replica);
    sim.restart(replica);
    assert!(sim.is_up(replica));
}

#[test]
fn a_plan_takes_no_more_nodes_down_than_it_may() {
    for seed in 0..10 {
        let mut sim = register(seed, Bug::None);
        let faults = Faults { crash: 1, blackout: 1, broken_disk: 1, ..Faults::none(replicas()) };
        assert_eq!(faults.down, 2);
        sim.invariant(1, |processes| {
            let up = processes.iter().count();
            if up >= 4 { Ok(()) } else { Err(format!("only {up} of 6 are up")) }
        });
        sim.inject(faults);
        let counts = keep_writing(&mut sim, Duration::from_secs(3));
        assert!(counts.crashes > 10 && counts.events > 10, "{counts:?}");
    }
}

#[test]
fn after_a_healing_nothing_goes_wrong_any_more() {
    for seed in 0..10 {
        let mut sim = register(seed, Bug::None);
        for _ in 0..2 {
            let faults = Faults::random(replicas().chain([CLIENT]), sim.random());
            sim.inject(faults);
        }
        sim.run(Duration::from_secs(2), |_, _, _| {});
        sim.heal(replicas().chain([CLIENT]));
        sim.run(Duration::from_millis(1), |_, _, _| {});
        let before = sim.counts;
        keep_writing(&mut sim, Duration::from_secs(2));
        let after = sim.counts;
        let faults =
            |c: &Counts| (c.crashes, c.pauses, c.cut, c.lost, c.late, c.dead, c.restarts, c.clock_changes);
        assert_eq!(faults(&before), faults(&after), "seed {seed}");
        assert!(after.events > before.events + 100, "seed {seed}: {after:?}");
    }
}
