//! Frames that are tracked and looked at.

mod attacks;
mod errors;
mod lifecycle;
mod oracle;
mod translating;

use crate::tcp::{ACK, SYN};
use crate::{Endpoint, Limits, Request, Side, Tracked, Tracker, Translation};
use fulmar_packet::checksum::{Sum, checksum, updated};
use fulmar_packet::{Field, FlowKey, Layers, build, ethernet, extract, ip};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A frame in two zones is a frame: where they begin without VLAN tags.
const NETWORK: usize = 14;

fn at(address: &str, port: u16) -> Endpoint {
    Endpoint { address: address.parse().expect("an address"), port }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tracker() -> Tracker {
    Tracker::new(Limits::default(), 1)
}

fn commit() -> Request {
    Request { commit: true, ..Request::default() }
}

/// Translates as the connection was committed to be.
fn again() -> Request {
    Request { translation: Some(Translation::default()), ..Request::default() }
}

fn to(side: Side, addresses: (&str, &str), ports: Option<RangeInclusive<u16>>) -> Request {
    let parse = |address: &str| address.parse::<IpAddr>().expect("an address");
    let addresses = Some(parse(addresses.0)..=parse(addresses.1));
    Request { translation: Some(Translation { side: Some(side), addresses, ports }), ..commit() }
}

fn key(source: Endpoint, destination: Endpoint, protocol: u8) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    let bits = crate::tuple::bits;
    let (kind, fields) = match source.address {
        IpAddr::V4(_) => (ethernet::IPV4, [Field::IPV4_SOURCE, Field::IPV4_DESTINATION]),
        IpAddr::V6(_) => (ethernet::IPV6, [Field::IPV6_SOURCE, Field::IPV6_DESTINATION]),
    };
    key.set(Field::ETH_TYPE, kind.into());
    key.set(fields[0], bits(source.address));
    key.set(fields[1], bits(destination.address));
    key.set(Field::IP_PROTOCOL, protocol.into());
    key.set(Field::IP_TTL, 64);
    key.set(Field::L4_SOURCE, source.port.into());
    key.set(Field::L4_DESTINATION, destination.port.into());
    key
}

/// A frame of UDP or SCTP.
fn datagram(source: Endpoint, destination: Endpoint, protocol: u8) -> Vec<u8> {
    build(&key(source, destination, protocol), b"some data")
}

fn udp(source: Endpoint, destination: Endpoint) -> Vec<u8> {
    datagram(source, destination, ip::UDP)
}

/// Where what IP carries begins in a frame that has been built here.
fn transport(frame: &[u8]) -> usize {
    NETWORK + if frame[NETWORK] >> 4 == 4 { 20 } else { 40 }
}

/// Changes bytes of what IP carries, and its checksum.
fn patch(frame: &mut [u8], offset: usize, bytes: &[u8], sum: usize) {
    let start = transport(frame);
    let place = start + offset..start + offset + bytes.len();
    let before = frame[place.clone()].to_vec();
    frame[place].copy_from_slice(bytes);
    let sum = &mut frame[start + sum..start + sum + 2];
    let old = u16::from_be_bytes([sum[0], sum[1]]);
    sum.copy_from_slice(&updated(old, &before, bytes).to_be_bytes());
}

/// What of a segment is not in its key.
#[derive(Clone, Copy)]
struct Numbers {
    sequence: u32,
    acknowledgement: u32,
    window: u16,
}

fn segment(ends: (Endpoint, Endpoint), flags: u16, numbers: Numbers, data: &[u8]) -> Vec<u8> {
    let mut key = key(ends.0, ends.1, ip::TCP);
    key.set(Field::TCP_FLAGS, flags.into());
    let mut frame = build(&key, data);
    patch(&mut frame, 4, &numbers.sequence.to_be_bytes(), 16);
    patch(&mut frame, 8, &numbers.acknowledgement.to_be_bytes(), 16);
    patch(&mut frame, 14, &numbers.window.to_be_bytes(), 16);
    frame
}

fn syn(ends: (Endpoint, Endpoint)) -> Vec<u8> {
    segment(ends, SYN, Numbers { sequence: 1_000, acknowledgement: 0, window: 8_000 }, b"")
}

fn syn_ack(ends: (Endpoint, Endpoint)) -> Vec<u8> {
    segment(ends, SYN | ACK, Numbers { sequence: 5_000, acknowledgement: 1_001, window: 8_000 }, b"")
}

/// A query or an answer of ICMP, with the identifier that is the larger of both ports.
fn echo(source: Endpoint, destination: Endpoint, is_request: bool) -> Vec<u8> {
    let (protocol, kinds) =
        if source.address.is_ipv4() { (ip::ICMP, [0, 8]) } else { (ip::ICMPV6, [129, 128]) };
    let identifier = source.port.max(destination.port);
    let kind = Endpoint { port: kinds[usize::from(is_request)], ..source };
    let code = Endpoint { port: 0, ..destination };
    let mut frame = build(&key(kind, code, protocol), b"ping");
    patch(&mut frame, 4, &identifier.to_be_bytes(), 2);
    frame
}

/// An error of ICMP about a frame, of which it has so many bytes, from `reporter`.
fn error(reporter: &str, about: &[u8], bytes: usize) -> Vec<u8> {
    let is_ipv4 = about[NETWORK] >> 4 == 4;
    let (protocol, kind) = if is_ipv4 { (ip::ICMP, 3) } else { (ip::ICMPV6, 1) };
    let (sender, _) = addresses(about);
    let packet = &about[NETWORK..];
    build(
        &key(at(reporter, kind), Endpoint { address: sender, port: 1 }, protocol),
        &packet[..bytes.min(packet.len())],
    )
}

fn addresses(frame: &[u8]) -> (IpAddr, IpAddr) {
    let packet = &frame[NETWORK..];
    let ipv4 = |at: usize| IpAddr::from(*packet[at..].first_chunk::<4>().expect("an address"));
    let ipv6 = |at: usize| IpAddr::from(*packet[at..].first_chunk::<16>().expect("an address"));
    if packet[0] >> 4 == 4 { (ipv4(12), ipv4(16)) } else { (ipv6(8), ipv6(24)) }
}

/// The addresses of a frame, and its ports, if it has some.
fn ends(frame: &[u8]) -> (Endpoint, Endpoint) {
    let (source, destination) = addresses(frame);
    let [a, b, c, d] = *frame[transport(frame)..].first_chunk().expect("ports");
    let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    (Endpoint { address: source, port: from }, Endpoint { address: destination, port: to })
}

fn identifier(frame: &[u8]) -> u16 {
    let at = transport(frame) + 4;
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// What an error of ICMP is about, as if it was a frame.
fn about(frame: &[u8]) -> Vec<u8> {
    let mut about = vec![0; NETWORK];
    about.extend(&frame[transport(frame) + 8..]);
    about
}

fn read(frame: &[u8]) -> (FlowKey, Layers) {
    let mut key = FlowKey::EMPTY;
    let layers = extract(frame, &mut key);
    (key, layers)
}

fn track(tracker: &Tracker, now: Duration, frame: &mut [u8], request: &Request) -> Tracked {
    let (key, layers) = read(frame);
    tracker.track(now, &key, frame, layers, request)
}

fn state(tracker: &Tracker, now: Duration, frame: &[u8], request: &Request) -> u32 {
    track(tracker, now, &mut frame.to_vec(), request).state
}

/// Whether all checksums of a frame are right, those of what an error of ICMP is about, too, as far as it has all of it; but for SCTP
/// there.
fn is_sound(frame: &[u8]) -> bool {
    let (packet, start) = (&frame[NETWORK..], transport(frame) - NETWORK);
    let is_ipv4 = packet[0] >> 4 == 4;
    if is_ipv4 && checksum(&packet[..start]) != 0 {
        return false;
    }
    let (length, protocol) = if is_ipv4 {
        (usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet[9])
    } else {
        (40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])), packet[6])
    };
    let Some(body) = packet.get(start..length) else { return true };
    let addresses = if is_ipv4 { &packet[12..20] } else { &packet[8..40] };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let sum = match protocol {
        ip::ICMP => Sum::default(),
        ip::SCTP => {
            let mut whole = body.to_vec();
            whole[8..12].fill(0);
            return crc32c::crc32c(&whole).to_le_bytes() == body[8..12];
        }
        _ => Sum::default().pseudo_header(source, destination, protocol, body.len()),
    };
    let is_error = matches!((protocol, body[0]), (ip::ICMP, 3) | (ip::ICMPV6, 1));
    let is_left_alone = || {
        let about = about(frame);
        let at = NETWORK + if about[NETWORK] >> 4 == 4 { 9 } else { 6 };
        about[at] == ip::SCTP
    };
    sum.bytes(body).finish() == 0 && (!is_error || is_left_alone() || is_sound(&about(frame)))
}
