//! Who is told how flows change knows how they are.

use super::model::{change, frame};
use super::{Bench, ToKey};
use crate::Event;
use fulmar_node::Random;
use fulmar_openflow::monitor::{MonitorFlags, MonitorRequest, MonitorUpdate, MonitoredFlow};
use fulmar_openflow::{ALL_TABLES, Instructions, PortNumber, parse_match};
use fulmar_packet::Match;
use std::collections::BTreeMap;
use std::time::Duration;

fn all() -> MonitorRequest {
    MonitorRequest {
        monitor: 1,
        flags: MonitorFlags::ALL,
        out_port: PortNumber::ANY,
        table: ALL_TABLES,
        asked: Match::ANY,
    }
}

/// Flows as they are told.
#[derive(Default)]
struct Told(BTreeMap<(u8, u16, String), (u64, Instructions)>);

impl Told {
    fn update(&mut self, update: MonitorUpdate) {
        let of = |flow: MonitoredFlow| {
            ((flow.table, flow.priority, flow.asked.to_key()), (flow.cookie, flow.instructions))
        };
        match update {
            MonitorUpdate::Added(flow) => {
                let (key, does) = of(flow);
                self.0.insert(key, does);
            }
            MonitorUpdate::Modified(flow) => {
                let (key, does) = of(flow);
                assert!(self.0.insert(key, does).is_some(), "it was not there");
            }
            MonitorUpdate::Deleted(_, flow) => {
                let (key, does) = of(flow);
                assert_eq!(self.0.remove(&key), Some(does), "it was not there, or did something else");
            }
            MonitorUpdate::Own(_) => panic!("nobody has asked"),
        }
    }

    fn hear(&mut self, events: Vec<Event>) {
        for event in events {
            if let Event::FlowChanged(change) = event {
                assert!(change.is_told_by(&all()));
                self.update(change.told(MonitorFlags::ALL));
            }
        }
    }
}

/// Random changes, packets that teach, and time.
fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(5, crate::Settings::default());
    let mut told = Told::default();
    let frames: Vec<_> = (0..30).map(|_| frame(&mut random)).collect();
    for step in 0..2_000 {
        if step == 200 {
            let (_, there) = bench.switch.watch(&[all()]);
            there.into_iter().for_each(|update| told.update(update));
        }
        match random.below(20) {
            0..4 => {
                let Some(body) = change(&mut random) else { continue };
                bench.credit();
                if let Ok(done) = bench.switch.request(body, bench.now) {
                    told.hear(done.learned);
                    told.hear(done.events);
                }
            }
            4 => {
                bench.credit();
                bench.now = bench.now + Duration::from_millis(random.below(3_000));
                told.hear(bench.switch.expire(bench.now));
            }
            _ => {
                drop(bench.send(
                    1 + u32::try_from(random.below(5)).expect("few"),
                    &frames[random.index(frames.len())],
                ))
            }
        }
    }
    told.hear(bench.switch.expire(bench.now));
    let flows = bench
        .flows()
        .into_iter()
        .map(|flow| ((flow.table, flow.priority, flow.asked.to_key()), (flow.cookie, flow.instructions)));
    assert_eq!(told.0, flows.collect(), "seed {seed}");
    assert!(!told.0.is_empty(), "seed {seed}");
}

#[test]
fn what_is_told_is_how_flows_are() {
    (0..30).for_each(run);
}

/// What a monitor tells of these requests, one letter and a cookie for each.
fn hears(bench: &Bench, monitor: &MonitorRequest, requests: &[&str]) -> Vec<String> {
    let letter = |update: MonitorUpdate| match update {
        MonitorUpdate::Added(flow) => format!("+{}", flow.cookie),
        MonitorUpdate::Deleted(_, flow) => format!("-{}", flow.cookie),
        MonitorUpdate::Modified(flow) => format!("!{}", flow.cookie),
        MonitorUpdate::Own(_) => panic!("nobody has asked"),
    };
    let (_, there) = bench.switch.watch(std::slice::from_ref(monitor));
    let mut heard: Vec<String> = there.into_iter().map(letter).collect();
    for request in requests {
        let done =
            bench.switch.request(fulmar_openflow::Body::FlowMod(request.parse().expect(request)), bench.now);
        for event in done.expect(request).events {
            if let Event::FlowChanged(change) = event {
                heard.extend(change.is_told_by(monitor).then(|| letter(change.told(monitor.flags))));
            }
        }
    }
    heard
}

#[test]
fn monitors_tell_of_some_flows() {
    let bench = Bench::with(3, &["cookie=1,ip actions=output:2", "cookie=2,table=1,arp actions=output:1"]);
    let of = |asked: &str| MonitorRequest { asked: parse_match(asked).expect(asked), ..all() };
    assert_eq!(hears(&bench, &all(), &[]), ["+1", "+2"]);
    assert_eq!(
        hears(&bench, &of("ip"), &["cookie=3,tcp actions=drop", "cookie=4,arp actions=drop"]),
        ["+1", "+3"]
    );
    let table = MonitorRequest { table: 1, ..all() };
    assert_eq!(hears(&bench, &table, &["cookie=5,udp actions=drop"]), ["+2"]);
    let port = MonitorRequest { out_port: PortNumber(2), ..all() };
    let requests =
        ["cookie=6,sctp actions=output:2", "cookie=7,icmp actions=output:3", "cookie=8,ip actions=drop"];
    assert_eq!(
        hears(&bench, &port, &requests),
        ["+1", "+6", "+8"],
        "of the last, what it did before counts, too"
    );
    let (_, there) = bench.switch.watch(&[all(), table, port]);
    assert_eq!(there.len(), bench.switch.flows(), "each once");
    let late = MonitorRequest { flags: MonitorFlags::ADD, ..all() };
    assert_eq!(hears(&bench, &late, &[]), [""; 0]);
}

#[test]
fn nobody_is_told_when_nobody_watches() {
    let bench = Bench::with(2, &[]);
    let events = |bench: &Bench| {
        bench.request(fulmar_openflow::Body::FlowMod("ip actions=drop".parse().expect("it is sound")))
    };
    assert_eq!(events(&bench), Ok(Vec::new()));
    bench.switch.watch(&[]);
    assert_eq!(events(&bench).map(|events| events.len()), Ok(1));
    bench.switch.stop_watching();
    assert_eq!(events(&bench), Ok(Vec::new()));
}
