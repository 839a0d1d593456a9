//! A frame whose tuple becomes another.

use crate::embedded::{Embedded, START};
use crate::packet::{Content, Packet};
use crate::request::Rewritten;
use crate::tuple::{Endpoint, Query, Tuple, bits};
use fulmar_packet::checksum::updated;
use fulmar_packet::{Field, FlowKey, Layers, ip, rewrite};
use std::net::IpAddr;

/// Where ICMP has its checksum…
const ICMP_SUM: usize = 2;
/// …and a query its identifier.
const IDENTIFIER: usize = 4;

/// Rewrites a frame so that its tuple, which is `from`, is `to`. Of an error of ICMP, what it is about becomes what it is about for
/// whom it reaches.
pub(crate) fn translate(
    frame: &mut [u8],
    (key, layers): (&FlowKey, Layers),
    packet: &Packet,
    (from, to): (&Tuple, &Tuple),
) -> Rewritten {
    let is_ipv4 = from.source.address.is_ipv4();
    let [source, destination] = if is_ipv4 {
        [Field::IPV4_SOURCE, Field::IPV4_DESTINATION]
    } else {
        [Field::IPV6_SOURCE, Field::IPV6_DESTINATION]
    };
    let mut change = |field, before: u128, after: u128| {
        if before != after {
            rewrite(frame, key, layers, field, (after, u128::MAX));
        }
        before != after
    };
    let mut rewritten = Rewritten {
        source: change(source, bits(from.source.address), bits(to.source.address)),
        destination: change(destination, bits(from.destination.address), bits(to.destination.address)),
        ..Rewritten::default()
    };
    match &packet.content {
        Content::Segment(_) | Content::Datagram => {
            let ports = |tuple: &Tuple| (tuple.source.port.into(), tuple.destination.port.into());
            let ((source, destination), (new_source, new_destination)) = (ports(from), ports(to));
            rewritten.source_port = change(Field::L4_SOURCE, source, new_source);
            rewritten.destination_port = change(Field::L4_DESTINATION, destination, new_destination);
        }
        Content::Query(query) => {
            let after = identifier(*query, to);
            let is_changed = identifier(*query, from) != after;
            if let (true, Some(message)) = (is_changed, frame.get_mut(packet.body.clone())) {
                replace(message, IDENTIFIER, &after.to_be_bytes(), &[Some(ICMP_SUM)]);
            }
            rewritten.source_port = is_changed && *query == Query::Request;
            rewritten.destination_port = is_changed && *query == Query::Reply;
        }
        Content::Error(embedded) => {
            if let Some(message) = frame.get_mut(packet.body.clone()) {
                about(message, *embedded, &to.reversed());
            }
        }
    }
    rewritten
}

fn identifier(query: Query, tuple: &Tuple) -> u16 {
    match query {
        Query::Request => tuple.source.port,
        Query::Reply => tuple.destination.port,
    }
}

/// Makes an error be about a packet with this tuple.
fn about(message: &mut [u8], embedded: Embedded, tuple: &Tuple) {
    let before = message.to_vec();
    let at = embedded.transport;
    let transport_sum = match embedded.protocol {
        ip::TCP => Some(at + 16),
        ip::UDP => Some(at + 6).filter(|sum| message.get(*sum..sum + 2) != Some(&[0, 0])),
        ip::ICMP | ip::ICMPV6 => Some(at + ICMP_SUM),
        // SCTP's is over what is not there.
        _ => None,
    };
    let is_ipv4 = tuple.source.address.is_ipv4();
    let [source, destination] = if is_ipv4 { [START + 12, START + 16] } else { [START + 8, START + 24] };
    for (place, address) in [(source, tuple.source.address), (destination, tuple.destination.address)] {
        // ICMP's does not know the addresses, ICMPv6's does.
        let sums = [is_ipv4.then_some(START + 10), transport_sum.filter(|_| embedded.protocol != ip::ICMP)];
        match address {
            IpAddr::V4(address) => replace(message, place, &address.octets(), &sums),
            IpAddr::V6(address) => replace(message, place, &address.octets(), &sums),
        }
    }
    let (Endpoint { port: source, .. }, Endpoint { port: destination, .. }) =
        (tuple.source, tuple.destination);
    if matches!(embedded.protocol, ip::ICMP | ip::ICMPV6) {
        // One of both is 0, as the end that is asked has none.
        replace(message, at + IDENTIFIER, &source.max(destination).to_be_bytes(), &[transport_sum]);
    } else {
        replace(message, at, &source.to_be_bytes(), &[transport_sum]);
        replace(message, at + 2, &destination.to_be_bytes(), &[transport_sum]);
    }
    if embedded.protocol == ip::UDP
        && let Some(sum) = transport_sum.and_then(|sum| message.get_mut(sum..sum + 2))
        && *sum == [0, 0]
    {
        sum.fill(0xff);
    }
    let after = message.to_vec();
    update(message, ICMP_SUM, &before[START..], &after[START..]);
}

/// Writes bytes, an even number of them at an even place, and brings the checksums at these places, if they are there, up to date.
fn replace(message: &mut [u8], at: usize, bytes: &[u8], sums: &[Option<usize>]) {
    let Some(place) = message.get_mut(at..at + bytes.len()) else { return };
    let mut before = [0; 16];
    let before = &mut before[..bytes.len()];
    before.copy_from_slice(place);
    place.copy_from_slice(bytes);
    for sum in sums.iter().flatten() {
        update(message, *sum, before, bytes);
    }
}

fn update(message: &mut [u8], at: usize, before: &[u8], after: &[u8]) {
    if let Some(sum) = message.get_mut(at..at + 2) {
        let old = u16::from_be_bytes([sum[0], sum[1]]);
        sum.copy_from_slice(&updated(old, before, after).to_be_bytes());
    }
}
