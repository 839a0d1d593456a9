//! Open vSwitch (Pfaff and others, NSDI 2015): what its optimisations of classification and its caches are for, table 1, table 2 and
//! figure 8.
//!
//! The switch is Fulmar's, without sockets: packets are in memory, and go nowhere. So what a transaction costs is what deciding about its
//! packets costs, and not what kernels and hosts add; counts of megaflows and masks are those of the same traffic on a wire.

use crate::chart::{Axis, Chart, Curve, Scale, draw};
use fulmar_classifier::Optimisations;
use fulmar_node::{Random, Time};
use fulmar_openflow::flow::FlowMod;
use fulmar_packet::{Field, FlowKey, build, ethernet, extract, ip};
use fulmar_port::{Frame, Offload};
use fulmar_vswitch::{Caching, Forwarder, Notice, Output, PortInfo, Settings, Switch};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Instant;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Transactions to each of three destinations.
    pub transactions: usize,
    /// Packets of each point of figure 8.
    pub packets: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { transactions: 15_000, packets: 1_000_000 }
    }
}

/// A row of table 1 or 2.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which table.
    pub table: u8,
    /// What is done.
    pub optimisations: &'static str,
    /// Whether there are hints.
    pub microflows: bool,
    /// Thousand transactions a second.
    pub kilotransactions: f64,
    /// Megaflows at the end…
    pub flows: usize,
    /// …and their masks.
    pub masks: usize,
    /// In how many tables a packet was looked for among the megaflows, on average.
    pub tuples: f64,
    /// What the paper has in the columns of this table.
    pub paper: &'static [f64],
}

/// A point of figure 8.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// In how many tables a packet was looked for, on average; with hints, how many there would have been.
    pub tuples: f64,
    /// Whether there are hints.
    pub microflows: bool,
    /// Million packets a second.
    pub megapackets: f64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Table 1, and then table 2.
    pub rows: Vec<Row>,
    /// Figure 8.
    pub points: Vec<Point>,
}

/// Where packets go: nowhere.
struct Nowhere;

impl Output for Nowhere {
    fn send(&mut self, _: u32, _: &Frame<'_>) {}
    fn send_part(&mut self, _: u32, _: &Frame<'_>, _: usize) {}
    fn tell(&mut self, _: &Notice, _: &[u8]) {}
}

/// Room before a frame, as the kernel's rings have.
const HEADROOM: usize = 64;
/// Packets of a transaction, each way in turn: to connect, a byte there and back, to close (TCP_CRR).
const PACKETS: usize = 10;

/// A frame in its buffer, the port where it comes in, and its key there.
struct Packet {
    port: u32,
    buffer: Vec<u8>,
    key: FlowKey,
}

impl Packet {
    fn new(port: u32, key: &FlowKey) -> Self {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend(build(key, &[]));
        let mut key = FlowKey::EMPTY;
        key.set(Field::IN_PORT, port.into());
        extract(&buffer[HEADROOM..], &mut key);
        Self { port, buffer, key }
    }
}

fn forward(forwarder: &mut Forwarder, packet: &mut Packet) {
    let frame = Frame::new(&mut packet.buffer, HEADROOM, Offload::NONE);
    forwarder.forward(Time::ZERO, packet.port, &FlowKey::EMPTY, frame, &mut Nowhere);
}

/// A switch with two ports and these flows.
fn switch(flows: impl IntoIterator<Item = String>, settings: Settings) -> Switch {
    let switch = Switch::new(1, "tested", settings);
    for number in 1..=2 {
        switch.put_port(number, PortInfo::new(&format!("p{number}"), [2, 0, 0, 0, 0, 1]), Time::ZERO);
    }
    for flow in flows {
        let flow_mod: FlowMod = flow.parse().unwrap_or_else(|why| unreachable!("{flow}: {why}"));
        switch.add_flow(flow_mod, Time::ZERO).unwrap_or_else(|why| unreachable!("{flow}: {why}"));
    }
    switch
}

/// The flows of section 7.2.
const FLOWS: [&str; 4] = [
    "priority=40,arp actions=NORMAL",
    "priority=30,ip,nw_dst=11.1.1.1/16 actions=NORMAL",
    "priority=20,tcp,nw_dst=9.1.1.1,tp_src=10,tp_dst=10 actions=NORMAL",
    "priority=10,ip,nw_dst=9.1.1.1/24 actions=NORMAL",
];
/// Of each kind of flow one destination that meets it, or does not by little.
const DESTINATIONS: [u32; 3] =
    [u32::from_be_bytes([9, 1, 1, 2]), u32::from_be_bytes([9, 1, 1, 1]), u32::from_be_bytes([11, 1, 1, 2])];

/// A packet of a connection, there or back.
fn packet(destination: u32, ports: (u16, u16), is_back: bool) -> Packet {
    let client = destination & !0xff | 3;
    let ends = [(0x0a_u64, client, ports.0), (0x0b, destination, ports.1)];
    let (from, to) = if is_back { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_SOURCE, from.0.into());
    key.set(Field::ETH_DESTINATION, to.0.into());
    key.set(Field::ETH_TYPE, ethernet::IPV4.into());
    key.set(Field::IP_PROTOCOL, ip::TCP.into());
    key.set(Field::IP_TTL, 64);
    key.set(Field::IPV4_SOURCE, from.1.into());
    key.set(Field::IPV4_DESTINATION, to.1.into());
    key.set(Field::L4_SOURCE, from.2.into());
    key.set(Field::L4_DESTINATION, to.2.into());
    Packet::new(if is_back { 2 } else { 1 }, &key)
}

/// The packets of transactions to all destinations: of each, one there and one back.
fn transactions(options: &Options) -> Vec<[Packet; 2]> {
    let mut random = Random::new(1);
    let mut pairs = Vec::new();
    for destination in DESTINATIONS {
        let mut seen = BTreeSet::new();
        while seen.len() < options.transactions.min(60_000) {
            let port = u16::try_from(1024 + random.below(64_000)).unwrap_or(u16::MAX);
            if seen.insert(port) {
                let ports = (port, u16::try_from(5000 + random.below(50)).unwrap_or(u16::MAX));
                pairs.push([packet(destination, ports, false), packet(destination, ports, true)]);
            }
        }
    }
    pairs
}

fn row(
    table: u8,
    (optimisations, paper): (&'static str, &'static [f64]),
    settings: Settings,
    pairs: &mut [[Packet; 2]],
) -> Row {
    let switch = switch(FLOWS.map(str::to_owned), settings);
    // Both are heard first, so that it is known where they are.
    for destination in DESTINATIONS {
        let mut forwarder = switch.forwarder();
        for is_back in [false, true] {
            forward(&mut forwarder, &mut packet(destination, (1, 1), is_back));
        }
    }
    let mut forwarder = switch.forwarder();
    let start = Instant::now();
    for pair in &mut *pairs {
        for turn in 0..PACKETS {
            forward(&mut forwarder, &mut pair[turn % 2]);
        }
        forwarder.credit(Time::ZERO);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let (flows, masks, _) = forwarder.sizes();
    // Once more, slowly: a packet that a hint is right for is looked for in no table.
    let mut tuples = 0;
    for pair in &mut *pairs {
        for turn in 0..PACKETS {
            let packet = &mut pair[turn % 2];
            let before = forwarder.hits().microflow;
            forward(&mut forwarder, packet);
            if forwarder.hits().microflow == before {
                tuples += forwarder.searched(&packet.key);
            }
        }
        forwarder.credit(Time::ZERO);
    }
    Row {
        table,
        optimisations,
        microflows: settings.caching.microflows,
        kilotransactions: pairs.len() as f64 / elapsed / 1e3,
        flows,
        masks,
        tuples: tuples as f64 / (pairs.len() * PACKETS) as f64,
        paper,
    }
}

/// Measures all of it. `begin` hears how much is done, of how much, and what comes next.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> Report {
    let (all, none) = (Optimisations::ALL, Optimisations::NONE);
    let (on, off) = (Caching::default(), Caching { microflows: false, ..Caching::default() });
    let exact = Caching { megaflows: false, ..Caching::default() };
    let settings = |optimisations, caching| Settings { optimisations, caching, seed: 1 };
    let plan: [(u8, &'static str, Settings, &'static [f64]); 11] = [
        (1, "megaflows disabled", settings(all, exact), &[37.0, 1_051_884.0, 1.0]),
        (1, "none", settings(none, on), &[56.0, 905_758.0, 3.0]),
        (
            1,
            "priority sorting",
            settings(Optimisations { priority_sorting: true, ..none }, on),
            &[57.0, 794_124.0, 4.0],
        ),
        (
            1,
            "prefix tracking",
            settings(Optimisations { prefix_tracking: true, ..none }, on),
            &[95.0, 13.0, 10.0],
        ),
        (
            1,
            "staged lookup",
            settings(Optimisations { staged_lookup: true, ..none }, on),
            &[115.0, 14.0, 13.0],
        ),
        (1, "port tracking", settings(Optimisations { port_tracking: true, ..none }, on), &[]),
        (1, "all", settings(all, on), &[117.0, 15.0, 14.0]),
        (2, "all", settings(all, on), &[120.0, 1.68]),
        (2, "all", settings(all, off), &[92.0, 3.21]),
        (2, "none", settings(none, on), &[56.0, 1.29]),
        (2, "none", settings(none, off), &[56.0, 2.45]),
    ];
    let steps = plan.len() + 2 * TUPLES.len();
    let mut pairs = transactions(options);
    let mut rows = Vec::new();
    for (done, (table, optimisations, settings, paper)) in plan.into_iter().enumerate() {
        begin(done, steps, &format!("table {table}: {optimisations}"));
        rows.push(row(table, (optimisations, paper), settings, &mut pairs));
    }
    let mut points = Vec::new();
    for masks in TUPLES {
        for microflows in [false, true] {
            begin(rows.len() + points.len(), steps, &format!("figure 8: {masks} masks"));
            points.push(point(masks, microflows, options));
        }
    }
    Report { rows, points }
}

/// How many masks megaflows have, for the points of figure 8.
const TUPLES: [u8; 7] = [1, 4, 8, 12, 16, 22, 30];

/// Long-lived flows, the megaflows of which have so many masks: a flow for each length of a prefix, told apart by Ethernet addresses.
fn point(masks: u8, microflows: bool, options: &Options) -> Point {
    let address = |number: u8| u128::from(0x0200_0000_0100_u64 | u64::from(number));
    let flow = |number: u8| {
        format!("priority=9,ip,dl_dst=02:00:00:00:01:{number:02x},nw_dst=10.0.0.1/{number} actions=output:2")
    };
    let caching = Caching { microflows, ..Caching::default() };
    let settings = Settings { caching, seed: 1, ..Settings::default() };
    let mut forwarder = switch((1..=masks).map(flow), settings).forwarder();
    let mut random = Random::new(2);
    let mut packets: Vec<Packet> = (0..256)
        .map(|_| {
            let number = 1 + u8::try_from(random.below(masks.into())).unwrap_or_default();
            let mut key = FlowKey::EMPTY;
            key.set(Field::ETH_DESTINATION, address(number));
            key.set(Field::ETH_TYPE, ethernet::IPV4.into());
            key.set(Field::IP_PROTOCOL, ip::UDP.into());
            key.set(Field::IPV4_DESTINATION, 0x0a00_0001);
            key.set(Field::L4_SOURCE, random.below(60_000).into());
            Packet::new(1, &key)
        })
        .collect();
    packets.iter_mut().for_each(|packet| forward(&mut forwarder, packet));
    let tuples: usize = packets.iter().map(|packet| forwarder.searched(&packet.key)).sum();
    let start = Instant::now();
    let rounds = options.packets.div_ceil(packets.len());
    for _ in 0..rounds {
        packets.iter_mut().for_each(|packet| forward(&mut forwarder, packet));
        forwarder.credit(Time::ZERO);
    }
    let rate = (rounds * packets.len()) as f64 / start.elapsed().as_secs_f64() / 1e6;
    Point { tuples: tuples as f64 / packets.len() as f64, microflows, megapackets: rate }
}

/// Figure 8 as SVG.
pub fn plot(points: &[Point]) -> String {
    let curve = |microflows: bool, name: &str| {
        let of = points.iter().filter(|point| point.microflows == microflows);
        Curve { name: name.into(), points: of.map(|point| (point.tuples, point.megapackets)).collect() }
    };
    draw(&[Chart {
        title: "Figure 8: forwarding rate by tuples searched".into(),
        x: Axis { label: "tuples searched for a packet, on average", scale: Scale::Linear },
        y: Axis { label: "million packets a second", scale: Scale::Linear },
        curves: vec![curve(false, "megaflows alone"), curve(true, "with microflows")],
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That counts come out as they must: rates are for a quiet machine.
    #[test]
    fn optimisations_are_worth_what_the_paper_says_in_megaflows() {
        let report = run(&Options { transactions: 200, packets: 1_000 }, |_, _, _| ());
        let flows =
            |name: &str| report.rows.iter().find(|row| row.optimisations == name).map(|row| row.flows);
        assert_eq!(flows("none"), Some(1_200), "one for each connection and direction");
        assert!(flows("all") < Some(20) && flows("all") > Some(2));
        let tuples: Vec<f64> =
            report.points.iter().filter(|point| !point.microflows).map(|point| point.tuples).collect();
        assert!(tuples.is_sorted() && tuples[0] == 1.0, "{tuples:?}");
        assert!(plot(&report.points).contains("</svg>"));
    }
}
