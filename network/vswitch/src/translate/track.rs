//! Connection tracking as an action (Open vSwitch, section 8.1).

use super::{Translation, is_ip, number, shared};
use crate::step::{Pending, Rest, Step};
use fulmar_conntrack::{Request, Side};
use fulmar_openflow::Action;
use fulmar_openflow::action::{CtFlags, Extension, Nat, NatFlags, Track, Zone};
use fulmar_packet::Field;
use smallvec::SmallVec;
use std::sync::Arc;

impl Translation<'_> {
    /// A copy of the packet goes on where it is told, and its connection is known there; the packet itself goes on here.
    pub(super) fn track(&mut self, track: &Track) {
        if !is_ip(&self.key) {
            return;
        }
        let tracking = Step::Track(Arc::new(self.request(track)));
        let Some(table) = track.table else {
            self.steps.push(tracking);
            return;
        };
        let next = vec![Pending::Table(table), Pending::Written];
        let rest = Rest {
            metadata: self.kept_metadata(),
            stack: self.stack.clone(),
            queue: self.queue,
            written: self.written.clone(),
            mirrored: self.mirrored.clone(),
            next,
        };
        let frozen = self.pipeline.freeze(rest);
        self.say(|| format!("its copy goes on in table {table}, as {:#x}", frozen.number));
        let mut steps: SmallVec<[Step; 2]> = SmallVec::new();
        steps.extend([tracking, Step::Recirculate(frozen)]);
        self.steps.push(Step::Clone(shared(steps)));
    }

    fn request(&mut self, track: &Track) -> Request {
        let zone = match track.zone {
            Zone::Number(zone) => zone,
            Zone::Bits(bits) => u16::try_from(self.read(bits)).unwrap_or_default(),
        };
        // What is set in there is set in what is kept of the connection.
        let mut changed = [(0u128, 0u128); 2];
        for action in &track.actions {
            for (field, (value, mask)) in [Field::CT_MARK, Field::CT_LABEL].into_iter().zip(&mut changed) {
                if let Some((new, bits)) = self.change_of(action, field) {
                    *value = *value & !bits | new & bits;
                    *mask |= bits;
                }
            }
        }
        let translation = track.actions.iter().find_map(|action| match action {
            Action::Extension(Extension::Nat(nat)) => Some(translation(nat)),
            _ => None,
        });
        let [mark, label] = changed;
        Request {
            zone,
            commit: track.flags.contains(CtFlags::COMMIT),
            force: track.flags.contains(CtFlags::FORCE),
            mark: (mark.1 != 0).then_some((number(mark.0), number(mark.1))),
            label: (label.1 != 0).then_some(label),
            translation,
        }
    }

    /// What an action makes of a field of the connection, and in which bits.
    fn change_of(&mut self, action: &Action, field: Field) -> Option<(u128, u128)> {
        let all = field.ones();
        match action {
            Action::SetField(set) if set.field.place() == field => Some((set.value, all)),
            Action::Extension(Extension::SetMasked(set)) if set.field.place() == field => {
                Some((set.value, set.mask))
            }
            Action::Extension(Extension::LoadBits(load)) if load.destination.field().place() == field => {
                let mask = super::fields::low_bits(load.destination.bits());
                let start = load.destination.start();
                Some((u128::from(load.value) << start, mask << start))
            }
            Action::Extension(Extension::CopyBits(copy)) if copy.destination.field().place() == field => {
                let mask = super::fields::low_bits(copy.destination.bits());
                let start = copy.destination.start();
                Some((self.read(copy.source) << start, mask << start))
            }
            _ => None,
        }
    }
}

fn translation(nat: &Nat) -> fulmar_conntrack::Translation {
    let side = if nat.flags.contains(NatFlags::SOURCE) {
        Some(Side::Source)
    } else {
        nat.flags.contains(NatFlags::DESTINATION).then_some(Side::Destination)
    };
    fulmar_conntrack::Translation {
        side,
        addresses: nat.addresses.map(|range| range.first..=range.last),
        ports: nat.ports.map(|(first, last)| first..=last),
    }
}
