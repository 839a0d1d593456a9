//! Copies for mirrors. They are made of packets as those come in and as they leave, whatever flows say.

use super::normal::{NUMBER, RESERVED, Tagged};
use super::{MAX_DEPTH, Translation, number};
use crate::mirror::{Mirror, MirrorOutput};
use crate::port::Vlans;
use crate::step::Credit;
use fulmar_packet::Field;

/// So many copies are made of copies, behind all tables that a packet goes through.
const MAX_MIRRORED: u8 = 32;

impl Translation<'_> {
    /// Of a packet that has come in.
    pub(super) fn mirror_arriving(&mut self) {
        let port = self.in_port().0;
        self.mirror(port, |mirror| mirror.arriving.contains(&port));
    }

    /// Of a packet that is about to leave.
    pub(super) fn mirror_leaving(&mut self, port: u32) {
        self.mirror(port, |mirror| mirror.leaving.contains(&port));
    }

    /// Whether a port is there for copies alone: what comes in there is dropped.
    pub(super) fn is_for_a_mirror(&mut self, port: u32) -> bool {
        let is_reserved = self.pipeline.mirrors.read().reserve(port);
        if is_reserved {
            self.say(|| format!("port {port} is for a mirror alone: dropped"));
        }
        is_reserved
    }

    fn mirror(&mut self, port: u32, is_there: impl Fn(&Mirror) -> bool) {
        let mirrors = self.pipeline.mirrors.read().clone();
        for (index, mirroring) in mirrors.iter().enumerate() {
            let mirror = &mirroring.mirror;
            if self.mirrored.contains(&index) || !is_there(mirror) {
                continue;
            }
            let tag: u16 = number(self.consult(Field::VLAN_TCI, u128::MAX));
            let vlans = self.pipeline.ports.read().get(&port).map_or(Vlans::ALL, |port| port.vlans.clone());
            // What has no business there is of no VLAN.
            let Some(vlan) = vlans.of(tag & NUMBER) else { continue };
            self.consulted.add_mask_but(mirror.filter.mask(), &self.settled);
            if !mirror.selects(vlan, &self.key) {
                continue;
            }
            // Before it is sent: a mirror that looks at where copies go does not get its own. Nor do several that send to one place.
            let same = mirrors.iter().enumerate().filter(|(_, other)| other.mirror.output == mirror.output);
            self.mirrored.extend(same.map(|(index, _)| index));
            self.credits.push(Credit::Mirrored(mirroring.clone()));
            self.say(|| format!("mirror {}", mirror.name));
            let was = Tagged { tag, vlan, priority: vlans.priority(tag) };
            // Copies are mirrored in their turn, each within another.
            if self.depth >= MAX_DEPTH + MAX_MIRRORED {
                return self.fail("too many mirrors of copies");
            }
            self.depth += 1;
            match mirror.output {
                MirrorOutput::Port(port) => self.switch_to(&[port], was, mirror.length),
                MirrorOutput::Vlan(other) => {
                    let destination: u64 = number(self.consult(Field::ETH_DESTINATION, u128::MAX));
                    // What is there is not doubled, and what is for a bridge is not taken for another's.
                    if vlan != other && destination & !0xf != RESERVED {
                        let ports = self.ports_of(other, |_, _| true);
                        self.switch_to(&ports, Tagged { vlan: other, ..was }, mirror.length);
                    }
                }
            }
            self.depth -= 1;
        }
    }
}
