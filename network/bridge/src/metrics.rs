//! Figures for Prometheus, in its text format, over HTTP.

use crate::bridge::Remembered;
use crate::switches::Bridges;
use fulmar_port::vxlan::Dropped;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// How long who asks is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is seen whether somebody asks.
const LOOK: Duration = Duration::from_millis(100);

/// Answers whoever asks, one after the other, until it is to stop.
pub(crate) fn serve(listener: &TcpListener, bridges: &Bridges, stops: &AtomicBool) {
    while !stops.load(SeqCst) {
        match listener.accept() {
            Ok((stream, _)) => answer(stream, bridges),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn answer(mut stream: TcpStream, bridges: &Bridges) {
    let set = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
    if set.and_then(|()| stream.set_write_timeout(Some(PATIENCE))).is_err() {
        return;
    }
    // All that is told is told to every question: only where it ends matters.
    let (mut question, mut buffer) = (Vec::new(), [0; 1024]);
    while !question.windows(4).any(|end| end == b"\r\n\r\n") && question.len() < 8192 {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => question.extend_from_slice(&buffer[..read]),
        }
    }
    let text = figures(bridges);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    // Who has gone needs no answer.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
}

/// What a figure is called, of what kind it is, and what it says.
const FIGURES: [(&str, &str, &str); 9] = [
    ("fulmar_switch_microflow_hits_total", "counter", "Packets decided about by a hint."),
    ("fulmar_switch_megaflow_hits_total", "counter", "Packets decided about by a megaflow."),
    ("fulmar_switch_misses_total", "counter", "Packets decided about by the tables."),
    ("fulmar_switch_renewed_total", "counter", "Packets decided about anew after a change."),
    ("fulmar_switch_megaflows", "gauge", "Megaflows."),
    (
        "fulmar_switch_megaflow_masks",
        "gauge",
        "Different masks of megaflows, of the thread that has the most.",
    ),
    ("fulmar_switch_flows", "gauge", "Flows in tables."),
    ("fulmar_switch_connections", "gauge", "Tracked connections."),
    ("fulmar_switch_controllers_connected", "gauge", "Controllers that are connected."),
];

fn figures(bridges: &Bridges) -> String {
    let all: Vec<_> = bridges.lock().iter().map(|(name, bridge)| (name.clone(), bridge.clone())).collect();
    let told: Vec<(&String, [u64; 9])> = all
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
            ];
            Some((name, values))
        })
        .collect();
    let mut text = String::new();
    for (at, (figure, kind, about)) in FIGURES.iter().enumerate() {
        // Text in memory takes what is written.
        let _ = write!(text, "# HELP {figure} {about}\n# TYPE {figure} {kind}\n");
        for (name, values) in &told {
            let _ = writeln!(text, "{figure}{{bridge=\"{name}\"}} {}", values[at]);
        }
    }
    let ports = [("received", 0), ("refused", 1), ("sent", 2), ("dropped", 3)];
    for (what, at) in ports {
        let _ = writeln!(text, "# TYPE fulmar_switch_port_{what}_packets_total counter");
        for (name, bridge) in &all {
            for (_, port) in bridge.switch().ports() {
                let packets = port.counters.all()[at].packets;
                let _ = writeln!(
                    text,
                    "fulmar_switch_port_{what}_packets_total{{bridge=\"{name}\",port=\"{}\"}} {packets}",
                    port.name
                );
            }
        }
    }
    // Ports are shared by bridges.
    let dropped: BTreeMap<u16, Dropped> = all.iter().flat_map(|(_, bridge)| bridge.dropped()).collect();
    if !dropped.is_empty() {
        let _ = writeln!(text, "# TYPE fulmar_switch_tunnel_dropped_packets_total counter");
    }
    for (udp_port, Dropped { malformed, unclaimed, congested, late }) in dropped {
        let reasons =
            [("malformed", malformed), ("unclaimed", unclaimed), ("congested", congested), ("late", late)];
        for (reason, packets) in reasons {
            let _ = writeln!(
                text,
                "fulmar_switch_tunnel_dropped_packets_total{{udp_port=\"{udp_port}\",reason=\"{reason}\"}} {packets}"
            );
        }
    }
    text
}
