//! Connection tracking and translation, read.

use super::parse_action::{actions, subfield};
use super::parse_part::{Result, malformed, narrow, parts};
use crate::action::{Action, Addresses, CtFlags, Extension, Nat, NatFlags, Track, Zone};
use std::net::{IpAddr, Ipv6Addr};

/// What is in the parentheses behind a name, or nothing if there are none.
fn inside<'a>(part: &'a str, name: &str) -> Option<&'a str> {
    let rest = part.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('(')?.strip_suffix(')') }
}

/// The arguments of `ct`.
pub(super) fn track(text: &str) -> Result<Action> {
    let mut track =
        Track { flags: CtFlags::NONE, zone: Zone::Number(0), table: None, gateway: 0, actions: Vec::new() };
    for part in parts(text) {
        if let Some(arguments) = inside(part, "nat") {
            track.actions.push(Action::Extension(Extension::Nat(nat(arguments)?)));
            continue;
        }
        if let Some(inner) = inside(part, "exec") {
            track.actions.extend(actions(inner)?);
            continue;
        }
        match part.split_once('=').unwrap_or((part, "")) {
            ("commit", "") => track.flags = track.flags | CtFlags::COMMIT,
            ("force", "") => track.flags = track.flags | CtFlags::FORCE,
            ("table", table) => track.table = Some(narrow(table, "a table")?),
            ("zone", zone) => {
                let bits = subfield(zone).filter(|bits| bits.bits() == 16).map(Zone::Bits);
                let number = || narrow(zone, "a zone, or 16 bits of a field").map(Zone::Number);
                track.zone = bits.map_or_else(number, Ok)?;
            }
            ("alg", "ftp") => track.gateway = 21,
            ("alg", "tftp") => track.gateway = 69,
            _ => return Err(malformed(part, "an argument of `ct`")),
        }
    }
    track.check().map_err(|_| malformed(text, "arguments of `ct` that go together"))?;
    Ok(Action::Extension(Extension::Track(track)))
}

/// The arguments of `nat`.
fn nat(text: &str) -> Result<Nat> {
    let mut nat = Nat { flags: NatFlags::NONE, addresses: None, ports: None };
    for part in parts(text) {
        let (name, range) = part.split_once('=').unwrap_or((part, ""));
        nat.flags = nat.flags
            | match name {
                "src" => NatFlags::SOURCE,
                "dst" => NatFlags::DESTINATION,
                "persistent" => NatFlags::PERSISTENT,
                "hash" => NatFlags::HASH,
                "random" => NatFlags::RANDOM,
                _ => return Err(malformed(part, "an argument of `nat`")),
            };
        if !range.is_empty() {
            let (addresses, ports) = split_ports(range);
            nat.addresses = addresses_of(addresses).ok_or_else(|| malformed(part, "addresses"))?;
            nat.ports = ports.map(ports_of).transpose()?;
        }
    }
    nat.check().map_err(|_| malformed(text, "arguments of `nat` that go together"))?;
    Ok(nat)
}

/// Ports come behind the only colon, or behind the last bracket: without brackets, all of it is addresses of IPv6.
fn split_ports(range: &str) -> (&str, Option<&str>) {
    match range.rsplit_once(':') {
        Some((addresses, ports)) if !addresses.contains(':') || addresses.ends_with(']') => {
            (addresses, Some(ports))
        }
        _ => (range, None),
    }
}

fn addresses_of(text: &str) -> Option<Option<Addresses>> {
    if text.is_empty() {
        return Some(None);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let address = |text: &str| match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    };
    Some(Some(Addresses { first: address(first)?, last: address(last)? }))
}

fn ports_of(text: &str) -> Result<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok((narrow(first, "a port")?, narrow(last, "a port")?))
}
