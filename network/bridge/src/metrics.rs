//! What a virtual switch tells of itself in figures.

use crate::bridge::Remembered;
use crate::switches::Bridges;
use fulmar_metrics::{Events, Figures, Kind};
use fulmar_port::vxlan::Dropped;
use std::collections::BTreeMap;

/// What a figure is called, of what kind it is, and what it says.
const FIGURES: [(&str, Kind, &str); 10] = [
    ("fulmar_switch_microflow_hits_total", Kind::Counter, "Packets decided about by a hint."),
    ("fulmar_switch_megaflow_hits_total", Kind::Counter, "Packets decided about by a megaflow."),
    ("fulmar_switch_misses_total", Kind::Counter, "Packets decided about by the tables."),
    ("fulmar_switch_renewed_total", Kind::Counter, "Packets decided about anew after a change."),
    ("fulmar_switch_megaflows", Kind::Gauge, "Megaflows."),
    (
        "fulmar_switch_megaflow_masks",
        Kind::Gauge,
        "Different masks of megaflows, of the thread that has the most.",
    ),
    ("fulmar_switch_flows", Kind::Gauge, "Flows in tables."),
    ("fulmar_switch_connections", Kind::Gauge, "Tracked connections."),
    ("fulmar_switch_controllers_connected", Kind::Gauge, "Controllers that are connected."),
    (
        "fulmar_switch_station_moves_total",
        Kind::Counter,
        "How often a station was heard at another port than before: in a loop, all the time.",
    ),
];

/// The counters of ports, in their order.
const PORTS: [(&str, &str); 4] = [
    ("fulmar_switch_port_received_packets_total", "Packets that came in at a port."),
    (
        "fulmar_switch_port_refused_packets_total",
        "Packets that came in at a port and were too many (policing).",
    ),
    ("fulmar_switch_port_sent_packets_total", "Packets that went out at a port."),
    ("fulmar_switch_port_dropped_packets_total", "Packets that a port did not take."),
];
const EVENTS: &str = "fulmar_switch_events_total";
const TUNNELS: &str = "fulmar_switch_tunnel_dropped_packets_total";

/// What is told of these bridges, and of what has happened.
pub(crate) fn figures(bridges: &Bridges, events: &Events) -> Figures {
    let all: Vec<_> = bridges.lock().iter().map(|(name, bridge)| (name.clone(), bridge.clone())).collect();
    let told: Vec<(&String, [u64; 10])> = all
        .iter()
        .filter_map(|(name, bridge)| {
            let Remembered { hits, megaflows, masks, .. } = bridge.remembered()?;
            let connected = bridge.status().iter().filter(|status| status.is_connected).count();
            let connections = bridge.switch().tracker().len();
            let values = [
                hits.microflow,
                hits.megaflow,
                hits.missed,
                hits.renewed,
                megaflows as u64,
                masks as u64,
                bridge.switch().flows() as u64,
                connections as u64,
                connected as u64,
                bridge.switch().station_moves(),
            ];
            Some((name, values))
        })
        .collect();
    let mut text = Figures::default();
    events.add_to(&mut text, EVENTS);
    for (at, (figure, kind, about)) in FIGURES.into_iter().enumerate() {
        text.family(figure, kind, about);
        for (name, values) in &told {
            text.sample(figure, &[("bridge", name)], values[at]);
        }
    }
    for (at, (figure, about)) in PORTS.into_iter().enumerate() {
        text.family(figure, Kind::Counter, about);
        for (name, bridge) in &all {
            for (_, port) in bridge.switch().ports() {
                let packets = port.counters.all()[at].packets;
                text.sample(figure, &[("bridge", name), ("port", &port.name)], packets);
            }
        }
    }
    // Ports are shared by bridges.
    let dropped: BTreeMap<u16, Dropped> = all.iter().flat_map(|(_, bridge)| bridge.dropped()).collect();
    if !dropped.is_empty() {
        text.family(TUNNELS, Kind::Counter, "Packets of tunnels that were dropped.");
    }
    for (udp_port, Dropped { malformed, unclaimed, congested, late }) in dropped {
        let reasons =
            [("malformed", malformed), ("unclaimed", unclaimed), ("congested", congested), ("late", late)];
        for (reason, packets) in reasons {
            text.sample(TUNNELS, &[("udp_port", &udp_port.to_string()), ("reason", reason)], packets);
        }
    }
    text
}
