//! How many megaflows traffic needs: Table 1 of the paper, as counts.

use super::{Bench, tcp};
use crate::{Caching, Settings};
use fulmar_classifier::Optimisations;
use fulmar_node::Random;
use fulmar_packet::{Field, FlowKey, build, ethernet, ip};

/// The four flows of section 7.2, and an ordinary switch's work for all that is left.
const FLOWS: [&str; 4] = [
    "priority=40,arp actions=NORMAL",
    "priority=30,ip,nw_dst=11.1.1.1/16 actions=NORMAL",
    "priority=20,tcp,nw_dst=9.1.1.1,tp_src=10,tp_dst=10 actions=NORMAL",
    "priority=10,ip,nw_dst=9.1.1.1/24 actions=NORMAL",
];

/// Connections to a destination, each with an answer; how many megaflows and masks there are then.
fn count(settings: Settings, destination: u32, connections: u32) -> (usize, usize) {
    let mut bench = Bench::new(2, settings);
    FLOWS.iter().for_each(|flow| bench.add(flow).expect("it is sound"));
    let mut random = Random::new(1);
    // In the same network as what it connects to.
    let client = destination & !0xff | 3;
    let frame = |from: u32, to: u32, ports: (u16, u16), macs: (u64, u64)| {
        let mut key = FlowKey::EMPTY;
        key.set(Field::ETH_SOURCE, macs.0.into());
        key.set(Field::ETH_DESTINATION, macs.1.into());
        key.set(Field::ETH_TYPE, ethernet::IPV4.into());
        key.set(Field::IP_PROTOCOL, ip::TCP.into());
        key.set(Field::IP_TTL, 64);
        key.set(Field::IPV4_SOURCE, from.into());
        key.set(Field::IPV4_DESTINATION, to.into());
        key.set(Field::L4_SOURCE, ports.0.into());
        key.set(Field::L4_DESTINATION, ports.1.into());
        build(&key, &[])
    };
    let pair = |bench: &mut Bench, ports: (u16, u16)| {
        bench.send(1, &frame(client, destination, ports, (0x0a, 0x0b)));
        bench.send(2, &frame(destination, client, (ports.1, ports.0), (0x0b, 0x0a)));
    };
    // Until it is known where both are.
    pair(&mut bench, (40_000, 40_000));
    bench.forwarders = vec![bench.switch.forwarder()];
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < connections as usize {
        let port = u16::try_from(1024 + random.below(64_000)).expect("it fits");
        if seen.insert(port) {
            pair(&mut bench, (port, u16::try_from(5000 + random.below(50)).expect("it fits")));
        }
    }
    let (flows, masks, _) = bench.forwarders[0].sizes();
    (flows, masks)
}

const TO_FIRST: u32 = u32::from_be_bytes([9, 1, 1, 2]);
const TO_SECOND: u32 = u32::from_be_bytes([9, 1, 1, 1]);
const TO_THIRD: u32 = u32::from_be_bytes([11, 1, 1, 2]);

fn counts(optimisations: Optimisations) -> [usize; 3] {
    let settings = Settings { optimisations, ..Settings::default() };
    [TO_FIRST, TO_SECOND, TO_THIRD].map(|destination| count(settings, destination, 5_000).0)
}

#[test]
fn all_optimisations_need_few_megaflows() {
    assert_eq!(counts(Optimisations::ALL), [2, 7, 2]);
}

#[test]
fn none_need_one_for_each_connection_and_direction() {
    assert_eq!(counts(Optimisations::NONE), [10_000, 10_000, 10_000]);
}

#[test]
fn each_optimisation_alone_helps_where_open_vswitch_has_it() {
    let none = Optimisations::NONE;
    assert_eq!(counts(Optimisations { port_tracking: false, ..Optimisations::ALL }), [2, 5_001, 2]);
    assert_eq!(counts(Optimisations { priority_sorting: true, ..none }), [10_000, 10_000, 2]);
    assert_eq!(counts(Optimisations { prefix_tracking: true, ..none }), [2, 5_001, 2]);
    assert_eq!(counts(Optimisations { staged_lookup: true, ..none }), [2, 5_001, 2]);
    assert_eq!(counts(Optimisations { port_tracking: true, ..none }), [7, 7, 7]);
}

#[test]
fn without_megaflows_each_packet_of_its_own_is_decided_about() {
    let caching = Caching { megaflows: false, ..Caching::default() };
    let (flows, masks) = count(Settings { caching, ..Settings::default() }, TO_FIRST, 1_000);
    assert_eq!((flows, masks), (2_000, 1));
}

/// Memory counts, as there may be 200,000: what one takes beside its place in the table.
#[test]
fn a_megaflow_is_small() {
    assert!(size_of::<crate::Cached>() <= 272, "{} bytes", size_of::<crate::Cached>());
}

/// Each may be of thousands of steps.
#[test]
fn decisions_have_so_much_room_together() {
    let caching = Caching { megaflows: false, ..Caching::default() };
    let mut bench = Bench::new(2, Settings { caching, ..Settings::default() });
    bench.add(&format!("actions={}", ["output:2"; 4_000].join(","))).expect("it is sound");
    for port in 0..1_700 {
        assert_eq!(bench.send(1, &tcp(1, 2, port, 80)).ports().len(), 4_000, "remembered or not");
    }
    let (flows, _, may_be) = bench.forwarders[0].sizes();
    assert!(flows > 1_500 && flows < 1_600, "{flows} of {may_be}");
}
