//! The ports of a bridge: their numbers, and the interfaces that they are.

use super::state::address;
use super::{Running, RunningPort, identity_of};
use crate::configuration::{BridgeWanted, InterfaceWanted};
use crate::event::{EventKind, Report};
use crate::interface::{Opened, Vteps, is_made, open, open_all};
use fulmar_openflow::PortNumber;
use fulmar_port::tap;
use fulmar_rstp::State;
use fulmar_vswitch::{Flapping, PortInfo};
use std::collections::BTreeMap;

impl Running {
    /// Which of the numbers that are asked for is whose: that of who asks for it and has it, or else of the first who asks.
    fn requests(&self, bridge: &str, wanted: &BridgeWanted) -> BTreeMap<u32, String> {
        let has = |name: &str, number: u32| {
            self.ports.get(name).is_some_and(|port| port.error.is_none() && port.number == number)
        };
        let mut requests = BTreeMap::new();
        for interface in wanted.interfaces.iter().filter(|interface| interface.name != bridge) {
            let Some(number) = interface.number else { continue };
            if has(&interface.name, number) || !requests.contains_key(&number) {
                requests.insert(number, interface.name.clone());
            }
        }
        requests
    }

    /// Whether a port has a number that another asks for, or asks for one that it does not have and can have now.
    fn is_renumbered(&self, port: &RunningPort) -> bool {
        let own = Some(&port.wanted.name);
        let owner = |number: u32| self.requests.get(&number);
        let gives_way = owner(port.number).is_some_and(|name| Some(name) != own);
        let gets = port.wanted.number.is_some_and(|asked| asked != port.number && owner(asked) == own);
        port.error.is_none() && port.number != PortNumber::LOCAL.0 && (gives_way || gets)
    }

    pub(super) fn detach_unwanted(&mut self, bridge: &str, wanted: &BridgeWanted) {
        self.requests = self.requests(bridge, wanted);
        let by_name: BTreeMap<&str, &InterfaceWanted> =
            wanted.interfaces.iter().map(|interface| (interface.name.as_str(), interface)).collect();
        let stays = |port: &RunningPort| {
            by_name.get(port.wanted.name.as_str()).is_some_and(|interface| {
                // These can change while it runs.
                let same = InterfaceWanted {
                    vlans: port.wanted.vlans.clone(),
                    shaping: port.wanted.shaping.clone(),
                    policing: port.wanted.policing,
                    spanning: port.wanted.spanning,
                    last: port.wanted.last,
                    address: port.wanted.address,
                    ..(*interface).clone()
                };
                same == port.wanted
            })
        };
        let goes = |(_, port): &(&String, &RunningPort)| !stays(port) || self.is_renumbered(port);
        let gone: Vec<String> = self.ports.iter().filter(goes).map(|(name, _)| name.clone()).collect();
        let mut numbers = Vec::new();
        for name in gone {
            if let Some(port) = self.ports.remove(&name) {
                numbers.push(port.number);
                if port.number > 0 && by_name.contains_key(name.as_str()) {
                    self.kept.insert(name, port.number);
                }
            }
        }
        if !numbers.is_empty() {
            self.left.extend(self.bridge.detach(&numbers));
        }
    }

    pub(super) fn attach_wanted(
        &mut self,
        bridge: &str,
        wanted: &BridgeWanted,
        vteps: &mut Vteps,
        report: &Report,
    ) {
        let numbers = |interface: &InterfaceWanted| [interface.number, interface.last];
        self.claimed = wanted.interfaces.iter().flat_map(numbers).flatten().collect();
        let new = wanted.interfaces.iter().filter(|interface| !self.ports.contains_key(&interface.name));
        let new: Vec<_> = new.map(|interface| (interface, self.address(bridge, interface))).collect();
        let opened = open_all(&new, self.bridge.threads(), vteps);
        for ((interface, _), opened) in new.into_iter().zip(opened) {
            if let Some(error) = self.attach(bridge, interface, opened) {
                report(&EventKind::Port.event(error));
            }
        }
        for interface in &wanted.interfaces {
            let address = self.address(bridge, interface);
            if let Some(port) = self.ports.get_mut(&interface.name) {
                if port.wanted.address != interface.address && port.error.is_none() && is_made(interface) {
                    port.wanted.address = interface.address;
                    if let Err(why) = tap::set_address(&interface.name, address) {
                        report(&EventKind::Port.event(why.to_string()));
                    }
                }
                if port.wanted.vlans != interface.vlans {
                    port.wanted.vlans = interface.vlans.clone();
                    self.bridge.set_vlans(port.number, interface.vlans.clone());
                }
                if port.wanted.shaping != interface.shaping {
                    port.wanted.shaping = interface.shaping.clone();
                    self.bridge.shape(port.number, interface.shaping.as_deref());
                }
                if port.wanted.policing != interface.policing {
                    port.wanted.policing = interface.policing;
                    self.bridge.police(port.number, interface.policing);
                }
                port.wanted.spanning = interface.spanning;
            }
        }
        self.kept.clear();
    }

    /// Joins what an interface is, or remembers why it does not: that is answered, too.
    pub(super) fn attach(
        &mut self,
        bridge: &str,
        interface: &InterfaceWanted,
        opened: Result<Opened, String>,
    ) -> Option<String> {
        let number = self.number(bridge, interface);
        let error = opened.and_then(|opened| self.put(interface, number, opened)).err();
        if error.is_none() {
            self.bridge.shape(number, interface.shaping.as_deref());
            self.bridge.police(number, interface.policing);
        }
        // One that has never run has no number that would be kept for it.
        let has_run = self.ports.get(&interface.name).is_some_and(|port| port.number > 0);
        let ran = error.is_none() || has_run || self.kept.contains_key(&interface.name);
        let port = RunningPort {
            number: if ran { number } else { 0 },
            wanted: interface.clone(),
            error: error.clone(),
        };
        self.ports.insert(interface.name.clone(), port);
        error
    }

    /// The Ethernet address of an interface that is made here.
    fn address(&self, bridge: &str, interface: &InterfaceWanted) -> [u8; 6] {
        let own = if interface.name == bridge {
            self.identity
        } else {
            identity_of((self.identity, &interface.name))
        };
        let [_, _, address @ ..] = own.to_be_bytes();
        interface.address.unwrap_or(address)
    }

    /// The number of a port.
    fn number(&self, bridge: &str, interface: &InterfaceWanted) -> u32 {
        if interface.name == bridge {
            return PortNumber::LOCAL.0;
        }
        let before = self.ports.get(&interface.name).map(|port| port.number).filter(|number| *number > 0);
        let others = || self.ports.iter().filter(|(name, _)| **name != interface.name);
        let is_free = |number: &u32| {
            let is_asked_for = self.requests.get(number).is_some_and(|name| *name != interface.name);
            !is_asked_for && others().all(|(_, port)| port.number != *number)
        };
        let is_kept = |number: &u32| self.kept.values().any(|kept| kept == number);
        // It keeps its number, which flows know.
        let number = before.or_else(|| interface.number.filter(is_free));
        let number = number.or_else(|| interface.last.filter(is_free));
        let number = number.or_else(|| self.kept.get(&interface.name).copied().filter(is_free));
        let is_new = |number: &u32| is_free(number) && !is_kept(number) && !self.claimed.contains(number);
        number.or_else(|| (1..PortNumber::FIRST_RESERVED).find(is_new)).unwrap_or(PortNumber::FIRST_RESERVED)
    }

    fn put(&self, interface: &InterfaceWanted, number: u32, opened: Opened) -> Result<(), String> {
        let name = &interface.name;
        if number == PortNumber::FIRST_RESERVED {
            return Err(format!("{name}: the bridge has no number left for a port"));
        }
        let mut info = PortInfo::new(name, [0; 6]);
        info.vlans = interface.vlans.clone();
        // Until the tree says more, nothing passes.
        info.tree = interface.spanning.map(|_| State::default());
        info.bond = interface.bond.as_ref().map(|bond| bond.port.clone());
        match opened {
            Opened::Port(lanes) => {
                self.bridge.attach_lanes(number, info, lanes);
                Ok(())
            }
            Opened::Tunnel(vtep, wanted) => {
                info.tunnel = Some(wanted.tunnel);
                let attached = self.bridge.attach_tunnel(number, info, &vtep, wanted.claim);
                attached.map_err(|why| format!("{name}: {why}"))
            }
        }
    }

    /// Says of which stations frames come back by another way.
    pub(super) fn tell_loops(&self, bridge: &str, report: &Report) {
        for Flapping { station, ports } in self.bridge.switch().take_flapping() {
            let name =
                |number: u32| self.bridge.switch().port(number).map_or_else(String::new, |port| port.name);
            let [_, _, bytes @ ..] = station.address.to_be_bytes();
            report(&EventKind::Loop.event(format!(
                "bridge {bridge}: station {} in VLAN {} moves back and forth between ports {} and {}, ten times a second: is there a loop?",
                address(bytes),
                station.vlan,
                name(ports[0]),
                name(ports[1]),
            )));
        }
    }

    /// Removes the ports whose interfaces are gone. Whether there are such.
    pub(super) fn close_gone(&mut self, report: &Report) -> bool {
        let mut has_closed = false;
        for port in self.ports.values_mut() {
            if port.error.is_none() && self.bridge.is_gone(port.number) {
                self.left.extend(self.bridge.detach(&[port.number]));
                let error = format!("{}: the interface is gone", port.wanted.name);
                report(&EventKind::Port.event(error.clone()));
                port.error = Some(error);
                has_closed = true;
            }
        }
        has_closed
    }

    /// Opens what could not be opened, if it can be now. Whether there is such.
    pub(super) fn reopen(&mut self, bridge: &str, vteps: &mut Vteps) -> bool {
        let wants = |port: &&RunningPort| port.wanted.kind != "patch" && port.error.is_some();
        let closed: Vec<InterfaceWanted> =
            self.ports.values().filter(wants).map(|port| port.wanted.clone()).collect();
        closed.iter().fold(false, |has_opened, interface| {
            let address = self.address(bridge, interface);
            let Ok(opened) = open(interface, address, self.bridge.threads(), vteps) else {
                return has_opened;
            };
            self.attach(bridge, interface, Ok(opened)).is_none() | has_opened
        })
    }
}
