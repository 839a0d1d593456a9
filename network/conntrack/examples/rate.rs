//! How many packets of established connections are tracked a second:
//! `cargo run --release -p fulmar-conntrack --example rate`.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures and tells")]

use fulmar_conntrack::{Limits, Request, Side, Tracker, Translation, state};
use fulmar_packet::{Field, FlowKey, Layers, build, ethernet, extract, ip};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// A frame, and its key, which become those of other connections.
struct Frame {
    bytes: Vec<u8>,
    key: FlowKey,
    layers: Layers,
}

impl Frame {
    fn new(protocol: u8) -> Self {
        let mut key = FlowKey::EMPTY;
        key.set(Field::ETH_TYPE, ethernet::IPV4.into());
        key.set(Field::IPV4_DESTINATION, 0xc000_0201);
        key.set(Field::IP_PROTOCOL, protocol.into());
        key.set(Field::L4_DESTINATION, 80);
        // An acknowledgement.
        key.set(Field::TCP_FLAGS, 0x10);
        let bytes = build(&key, b"");
        let layers = extract(&bytes, &mut key);
        Self { bytes, key, layers }
    }

    /// Checksums are not looked at.
    fn turn_to(&mut self, connection: u32) {
        let (source, port) = (0x0a00_0000 | connection >> 8, 0x4000 | connection & 0xff);
        self.key.set(Field::IPV4_SOURCE, source.into());
        self.key.set(Field::L4_SOURCE, port.into());
        self.bytes[26..30].copy_from_slice(&source.to_be_bytes());
        self.bytes[34..36].copy_from_slice(&port.to_be_bytes()[2..]);
        self.bytes[30..34].copy_from_slice(&[192, 0, 2, 1]);
    }
}

/// Of one thread: how many packets were valid.
fn packets(
    tracker: &Tracker,
    protocol: u8,
    (first, connections): (u32, u32),
    count: u32,
    request: &Request,
) -> u32 {
    let (mut frame, mut valid) = (Frame::new(protocol), 0);
    for number in 0..count {
        let now = Duration::from_micros(number.into());
        // In no order that a processor could foresee.
        frame.turn_to(first + (number.wrapping_mul(0x9e37_79b1) & (connections - 1)));
        let Frame { bytes, key, layers } = &mut frame;
        let tracked = tracker.track(now, key, bytes, *layers, request);
        valid += u32::from(tracked.state & state::INVALID == 0);
    }
    valid
}

/// Each thread has connections of its own; all together so many.
fn measure(protocol: u8, connections: u32, threads: u32, translation: Option<Translation>) {
    let tracker = &Tracker::new(Limits::default(), 1);
    let each = connections / threads;
    let commit = Request { commit: true, translation: translation.clone(), ..Request::default() };
    (0..threads).for_each(|thread| {
        packets(tracker, protocol, (thread * each, each), each, &commit);
    });
    let request = &Request { commit: false, ..commit };
    let start = Instant::now();
    let valid = std::thread::scope(|scope| {
        let run =
            |thread| move || packets(tracker, protocol, (thread * each, each), 4_000_000 / threads, request);
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<u32>()
    });
    let rate = f64::from(valid) / start.elapsed().as_secs_f64() / 1e6;
    let name = if protocol == ip::TCP { "tcp" } else { "udp" };
    let kind = if translation.is_some() { "translated" } else { "plain" };
    println!("{name} {kind:10} {connections:8} connections {threads} threads {rate:6.2} million packets/s");
}

fn main() {
    let outside = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))..=IpAddr::V4(Ipv4Addr::new(192, 0, 2, 255));
    let source = Translation { side: Some(Side::Source), addresses: Some(outside), ports: None };
    for protocol in [ip::UDP, ip::TCP] {
        for translation in [None, Some(source.clone())] {
            for connections in [1 << 10, 1 << 17, 1 << 20] {
                for threads in [1, 2] {
                    measure(protocol, connections, threads, translation.clone());
                }
            }
        }
    }
}
