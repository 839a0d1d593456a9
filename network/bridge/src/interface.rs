//! Interfaces, opened as what they are asked to be.

use crate::at_once;
use crate::configuration::{BondWanted, InterfaceWanted};
use crate::options::{self, TunnelWanted};
use fulmar_port::vxlan::Vtep;
use fulmar_port::{Port, packet, tap, xdp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

/// Tunnels end at so many UDP ports at most: each takes some thirty file descriptors.
const MOST_UDP_PORTS: usize = 16;

/// Where tunnels end, by their UDP ports, for as long as there are such.
#[derive(Default)]
pub(crate) struct Vteps(BTreeMap<u16, Weak<Vtep>>);

impl Vteps {
    fn at(&mut self, udp_port: u16) -> Result<Arc<Vtep>, String> {
        if let Some(vtep) = self.0.get(&udp_port).and_then(Weak::upgrade) {
            return Ok(vtep);
        }
        self.0.retain(|_, vtep| vtep.strong_count() > 0);
        if self.0.len() >= MOST_UDP_PORTS {
            return Err(format!(
                "tunnels end at {MOST_UDP_PORTS} UDP ports already, and at no more: give options:dst_port one of theirs"
            ));
        }
        let vtep = Vtep::open(udp_port).map_err(|why| why.to_string())?;
        self.0.insert(udp_port, Arc::downgrade(&vtep));
        Ok(vtep)
    }
}

/// What an interface turned out to be.
pub(crate) enum Opened {
    /// For one thread, or for each one.
    Port(Vec<Port>),
    Tunnel(Arc<Vtep>, TunnelWanted),
}

/// The port that a patch port is joined with.
pub(crate) fn peer(interface: &InterfaceWanted) -> Option<&String> {
    interface.options.get("peer")
}

/// Whether an interface can be what its port asks for, and a member of its bond, if it is to be one.
pub(crate) fn check(interface: &InterfaceWanted) -> Result<(), String> {
    let name = &interface.name;
    if let Some(unmet) = interface.unmet {
        return Err(format!(
            "{name}: its port has {unmet}, which is not done here: clear it to use the port"
        ));
    }
    let Some(BondWanted { port, mode, lacp, .. }) = &interface.bond else { return Ok(()) };
    if let Some(mode) = mode.as_deref().filter(|mode| *mode != "active-backup") {
        return Err(format!(
            "{name}: {port}: there are no bonds of mode {mode:?} here; active-backup is known"
        ));
    }
    match lacp.as_deref() {
        None | Some("off") => Ok(()),
        Some(_) => Err(format!("{name}: {port}: LACP is not spoken here; lacp=off is known")),
    }
}

/// What an interface can be.
pub(crate) const KINDS: [&str; 6] = ["afxdp", "internal", "patch", "system", "tap", TUNNEL];
/// Of these, several share a UDP port.
const TUNNEL: &str = "vxlan";

/// Whether an interface is made here.
pub(crate) fn is_made(interface: &InterfaceWanted) -> bool {
    matches!(interface.kind.as_str(), "internal" | "tap")
}

/// Opens interfaces, with these Ethernet addresses, as [`open`] does, many of them at once.
pub(crate) fn open_all(
    interfaces: &[(&InterfaceWanted, [u8; 6])],
    threads: NonZeroUsize,
    vteps: &mut Vteps,
) -> Vec<Result<Opened, String>> {
    let opened = Mutex::new(BTreeMap::new());
    let alone = interfaces.iter().enumerate().filter(|(_, (interface, _))| interface.kind != TUNNEL);
    at_once::for_each(alone.collect(), |(at, (interface, address))| {
        let port = open_alone(interface, *address, threads);
        opened.lock().insert(at, port);
    });
    let mut opened = opened.into_inner();
    let all = interfaces.iter().enumerate().map(|(at, (interface, address))| {
        opened.remove(&at).unwrap_or_else(|| open(interface, *address, threads, vteps))
    });
    all.collect()
}

/// Opens what an interface is, for so many threads if it can be; one that is made here has this Ethernet address. A patch port is opened with
/// its peer only.
pub(crate) fn open(
    interface: &InterfaceWanted,
    address: [u8; 6],
    threads: NonZeroUsize,
    vteps: &mut Vteps,
) -> Result<Opened, String> {
    if interface.kind != TUNNEL {
        return open_alone(interface, address, threads);
    }
    let name = &interface.name;
    check(interface)?;
    let wanted = options::tunnel(name, &interface.options)?;
    let vtep = vteps.at(wanted.udp_port).map_err(|why| format!("{name}: {why}"))?;
    Ok(Opened::Tunnel(vtep, wanted))
}

/// The same of what has nothing in common with others.
fn open_alone(
    interface: &InterfaceWanted,
    address: [u8; 6],
    threads: NonZeroUsize,
) -> Result<Opened, String> {
    let name = &interface.name;
    check(interface)?;
    let opened = match interface.kind.as_str() {
        "" | "system" => {
            let lanes = packet::open_lanes(name, threads);
            return lanes.map(Opened::Port).map_err(|why| why.to_string());
        }
        "afxdp" => xdp::open(name),
        "internal" | "tap" => {
            tap::create(name).and_then(|port| tap::set_address(name, address).map(|()| port))
        }
        "patch" if peer(interface).is_none() => {
            return Err(format!("{name}: a patch port needs options:peer=PORT"));
        }
        "patch" => return Err(format!("{name}: no patch port has this one as its peer")),
        kind => {
            let known = KINDS.join(", ");
            return Err(format!("{name}: there are no interfaces of type {kind:?} here; known are {known}"));
        }
    };
    opened.map(|port| Opened::Port(vec![port])).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_end_at_few_udp_ports() {
        let mut vteps = Vteps::default();
        // Those that somebody else has are passed over.
        let mut opened: Vec<Arc<Vtep>> =
            (20_000..30_000).filter_map(|udp_port| vteps.at(udp_port).ok()).take(MOST_UDP_PORTS).collect();
        assert_eq!(opened.len(), MOST_UDP_PORTS);
        let why = vteps.at(30_001).expect_err("these are all");
        assert!(why.contains("16 UDP ports already"), "{why}");
        // Where others end there is room, and room again where none ends any more.
        let port = *vteps.0.keys().next_back().expect("there are some");
        assert!(vteps.at(port).is_ok());
        opened.remove(0);
        assert!((30_001..31_000).any(|udp_port| vteps.at(udp_port).is_ok()));
    }
}
