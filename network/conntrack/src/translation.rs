//! To what a new connection is translated.
//!
//! Replies must be told apart: each connection's have a tuple that no other packet has that is known. The port stays if it can; if not,
//! others are tried from a place that depends on the connection.

use crate::request::{Side, Translation};
use crate::tuple::{Endpoint, Tuple, bits};
use fulmar_packet::ip;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// So many pairs of an address and a port are tried at most: a packet must not take long because all are taken.
const ATTEMPTS: usize = 1024;
/// So many ports are tried, at least, before it is another address' turn.
const PORTS: usize = 128;

/// The tuple of replies to a connection whose first packet has `tuple`. Nothing, if none is found that is free.
pub(crate) fn choose(
    tuple: &Tuple,
    translation: Option<&Translation>,
    spread: u64,
    is_free: impl FnMut(&Tuple) -> bool,
) -> Option<Tuple> {
    let with_side = translation.and_then(|translation| Some((translation, translation.side?)));
    let Some((translation, side)) = with_side else {
        return Some(tuple.reversed()).filter(is_free);
    };
    let end = match side {
        Side::Source => tuple.source,
        Side::Destination => tuple.destination,
    };
    let addresses = match &translation.addresses {
        Some(addresses) => Span::of_addresses(addresses, end.address)?,
        None => Span { first: bits(end.address), count: 1 },
    };
    let ports = ports(tuple, side, end.port, translation.ports.as_ref())?;
    let at_each = PORTS.max(ATTEMPTS / usize::try_from(addresses.count).unwrap_or(ATTEMPTS).min(ATTEMPTS));
    addresses
        .from(spread)
        .flat_map(|address| {
            let original = u128::from(end.port);
            let kept = ports.contains(original).then_some(original);
            let others = ports.from(spread >> 32).filter(move |port| *port != original);
            kept.into_iter().chain(others).take(at_each).map(move |port| (address, port))
        })
        .take(ATTEMPTS)
        .filter_map(|(address, port)| {
            let end = Endpoint { address: like(end.address, address)?, port: u16::try_from(port).ok()? };
            let translated = match side {
                Side::Source => Tuple { source: end, ..*tuple },
                Side::Destination => Tuple { destination: end, ..*tuple },
            };
            Some(translated.reversed())
        })
        .find(is_free)
}

/// Numbers that follow each other.
#[derive(Clone, Copy)]
struct Span {
    first: u128,
    count: u128,
}

impl Span {
    fn new(first: u128, last: u128) -> Option<Self> {
        (first <= last).then(|| Self { first, count: (last - first).saturating_add(1) })
    }

    fn of_addresses(range: &RangeInclusive<IpAddr>, like: IpAddr) -> Option<Self> {
        let is_alike = |address: &IpAddr| address.is_ipv4() == like.is_ipv4();
        let (first, last) = (range.start(), range.end());
        if is_alike(first) && is_alike(last) { Self::new(bits(*first), bits(*last)) } else { None }
    }

    fn contains(&self, number: u128) -> bool {
        number.checked_sub(self.first).is_some_and(|offset| offset < self.count)
    }

    /// All, from some place on and around.
    fn from(self, place: u64) -> impl Iterator<Item = u128> {
        let start = u128::from(place) % self.count;
        let (first, count) = (self.first, self.count);
        (start..count).chain(0..start).map(move |offset| first + offset)
    }
}

fn like(other: IpAddr, bits: u128) -> Option<IpAddr> {
    match other {
        IpAddr::V4(_) => u32::try_from(bits).ok().map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        IpAddr::V6(_) => Some(IpAddr::V6(Ipv6Addr::from_bits(bits))),
    }
}

/// The ports that may be chosen; of a query of ICMP, the identifiers, which its destination does not have.
fn ports(tuple: &Tuple, side: Side, original: u16, asked: Option<&RangeInclusive<u16>>) -> Option<Span> {
    let is_query = matches!(tuple.protocol, ip::ICMP | ip::ICMPV6);
    let (first, last) = match (side, asked, original) {
        (Side::Destination, _, _) if is_query => (original, original),
        (_, Some(asked), _) => (*asked.start(), *asked.end()),
        (Side::Destination, None, _) => (original, original),
        (Side::Source, None, _) if is_query => (0, u16::MAX),
        (Side::Source, None, 0..512) => (1, 511),
        (Side::Source, None, 512..1024) => (600, 1023),
        (Side::Source, None, _) => (1024, u16::MAX),
    };
    // Nothing can be sent to port 0.
    Span::new(if is_query { first } else { first.max(1) }.into(), last.into())
}
