//! What an ordinary switch does: learn where stations are, send to where they are, and everywhere else if that is not known
//! (IEEE 802.1D and 802.1Q).

use super::{Translation, number};
use crate::mac::Station;
use crate::port::{PortInfo, Vlans, in_use};
use crate::step::Credit;
use fulmar_openflow::PortNumber;
use fulmar_openflow::ports::PortConfig;
use fulmar_packet::{Field, ethernet};

/// Groups that no bridge forwards: 01-80-C2-00-00-00 to -0F.
pub(super) const RESERVED: u64 = 0x0180_c200_0000;
/// The bits of a tag that are its number.
pub(super) const NUMBER: u16 = 0x0fff;
/// The bit of addresses that are of groups.
const GROUP: u64 = 1 << 40;

impl Translation<'_> {
    pub(super) fn normal(&mut self) {
        let from = self.in_port().0;
        let source: u64 = number(self.consult(Field::ETH_SOURCE, u128::MAX));
        let destination: u64 = number(self.consult(Field::ETH_DESTINATION, u128::MAX));
        let tag: u16 = number(self.consult(Field::VLAN_TCI, u128::MAX));
        if destination & !0xf == RESERVED {
            self.say(|| "for bridges themselves: dropped".into());
            return;
        }
        if self.is_for_a_mirror(from) {
            return;
        }
        let is_nobodys =
            matches!(self.in_port(), PortNumber::ANY | PortNumber::CONTROLLER | PortNumber::LOCAL);
        if !is_nobodys && !self.pipeline.ports.read().contains_key(&from) {
            self.say(|| format!("there is no port {from}: dropped"));
            return;
        }
        if in_use(&self.pipeline.ports.read(), from) != Some(from) {
            self.say(|| format!("port {from} is a member of a bond that is not in use: dropped"));
            return;
        }
        let vlans = self.pipeline.ports.read().get(&from).map_or(Vlans::ALL, |port| port.vlans.clone());
        let number = tag & NUMBER;
        let Some(vlan) = vlans.of(number) else {
            self.say(|| format!("port {from} has no VLAN {number}: dropped"));
            return;
        };
        let was = Tagged { tag, vlan, priority: vlans.priority(tag) };
        if source & GROUP == 0 {
            self.hear(Station { vlan, address: source }, from);
        }
        let known = self.pipeline.macs.lock().find(Station { vlan, address: destination });
        // A port may have had the VLAN only when the station was heard there.
        let has_vlan =
            |port: &u32| self.pipeline.ports.read().get(port).is_none_or(|port| port.vlans.has(vlan));
        let known = known.filter(|port| destination & GROUP == 0 && has_vlan(port));
        let member = known.and_then(|port| in_use(&self.pipeline.ports.read(), port));
        match (known, member) {
            (Some(_), Some(port)) if port == from => self.say(|| "it is where it came from: dropped".into()),
            (Some(_), Some(port)) => self.switch_to(&[port], was, None),
            (Some(port), None) => {
                self.say(|| format!("no member of the bond of port {port} has a link: dropped"))
            }
            (None, _) => {
                let floods = |port: &PortInfo| !port.config.contains(PortConfig::NO_FLOOD);
                let others = self.ports_of(vlan, |number, port| number != from && floods(port));
                self.say(|| "not known where it is: to all".into());
                self.switch_to(&others, was, None);
            }
        }
    }

    fn hear(&mut self, station: Station, port: u32) {
        // A controller's own packets come in at no port where somebody could be.
        if self.is_real && self.pipeline.ports.read().contains_key(&port) {
            self.pipeline.hear(station, port, self.now);
            self.credits.push(Credit::Heard(station, port));
        }
    }

    /// The ports by which an ordinary switch sends what is for everybody in a VLAN.
    pub(super) fn ports_of(&self, vlan: u16, is_meant: impl Fn(u32, &PortInfo) -> bool) -> Vec<u32> {
        let (ports, mirrors) = (self.pipeline.ports.read(), self.pipeline.mirrors.read());
        let is_there = |(number, port): &(&u32, &PortInfo)| {
            is_meant(**number, port)
                && port.sends()
                && port.vlans.has(vlan)
                && !mirrors.reserve(**number)
                && in_use(&ports, **number) == Some(**number)
        };
        ports.iter().filter(is_there).map(|(number, _)| *number).collect()
    }

    /// To each port with the tag that it has there: all of the packet, or so many bytes.
    pub(super) fn switch_to(&mut self, ports: &[u32], was: Tagged, length: Option<u32>) {
        let leaves = |port: &u32| {
            let ports = self.pipeline.ports.read();
            let port = ports.get(port).filter(|port| port.sends())?;
            let tag = port.vlans.tag(was.vlan, was.priority);
            Some(if tag == 0 { 0 } else { tag | ethernet::TAGGED })
        };
        let tags: Vec<(u32, u16)> = ports.iter().filter_map(|port| Some((*port, leaves(port)?))).collect();
        for (port, tag) in tags {
            if tag == was.tag {
                self.leave(port, length);
                continue;
            }
            self.aside(|copy| {
                match (was.tag, tag) {
                    (0, _) => copy.push_vlan(ethernet::VLAN),
                    (_, 0) => copy.pop_vlan(),
                    _ => {}
                }
                if tag != 0 {
                    copy.set(Field::VLAN_TCI, tag.into(), u128::MAX);
                }
                // Nothing behind the tag is asked any more.
                copy.frozen = None;
                copy.leave(port, length);
            });
        }
    }
}

/// How a frame came in: the content of its tag, 0 for none, and what that means.
#[derive(Clone, Copy)]
pub(super) struct Tagged {
    pub(super) tag: u16,
    pub(super) vlan: u16,
    pub(super) priority: u16,
}
