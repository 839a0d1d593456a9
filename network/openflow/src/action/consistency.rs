//! Whether actions can be carried out on what a flow matches.

use crate::action::{Action, Extension, LearnSource, LearnSpec, Zone};
use crate::error::BadAction;
use crate::wire::Result;
use crate::{Instruction, OxmField, PortNumber};
use fulmar_packet::ethernet::{self, TAGGED};
use fulmar_packet::{Field, Match, Stage};

/// What is known of a packet, action after action: what a flow matches, and what changed since.
#[derive(Clone)]
struct Known {
    asked: Match,
    /// VLAN tags that are there for certain.
    tags: u32,
    /// These are actions of connection tracking.
    is_tracking: bool,
}

impl Known {
    fn of(asked: Match) -> Self {
        let is_tagged = asked.key().get(Field::VLAN_TCI) & u128::from(TAGGED) != 0;
        Self { asked, tags: is_tagged.into(), is_tracking: false }
    }

    fn needs(&self, field: OxmField) -> Result<()> {
        if field.is_in(&self.asked) { Ok(()) } else { Err(BadAction::MatchInconsistent.into()) }
    }

    /// That there is a field of this name, and so the header that it is in.
    fn needs_header_of(&self, name: &str) -> Result<()> {
        self.needs(OxmField::named(name).unwrap_or_else(|| unreachable!("there is such a field")))
    }

    /// The packet has another type, and nothing is known of what comes after it.
    fn becomes(&mut self, kind: u16) {
        let mut mask = self.asked.mask().clone();
        for (field, _) in self.asked.mask().fields().filter(|(field, _)| field.stage() >= Stage::L3) {
            mask.remove(field);
        }
        self.asked = Match::new(self.asked.key(), mask).with(Field::ETH_TYPE, kind.into());
    }

    /// It has so many tags, the content of which is not known.
    fn has_tags(&mut self, tags: u32) {
        self.tags = tags;
        let mut mask = self.asked.mask().clone();
        mask.remove(Field::VLAN_TCI);
        let tag = if tags > 0 { TAGGED } else { 0 };
        self.asked =
            Match::new(self.asked.key(), mask).with_masked(Field::VLAN_TCI, tag.into(), TAGGED.into());
    }

    /// A field is set, which needs to be there.
    fn sets(&mut self, field: OxmField) -> Result<()> {
        if !field.is_settable() {
            return Err(BadAction::BadSetType.into());
        }
        let is_connection = matches!(field.place(), Field::CT_MARK | Field::CT_LABEL);
        if is_connection && !self.is_tracking {
            return Err(BadAction::BadSetArgument.into());
        }
        self.needs(field)
    }

    /// A field is set to a value that is known: a number of a VLAN only in a tag, as in Open vSwitch.
    fn sets_to_value(&mut self, field: OxmField) -> Result<()> {
        if field.place() == Field::VLAN_VID {
            self.needs_header_of("vlan_pcp")?;
        }
        self.sets(field)
    }

    fn takes(&mut self, action: &Action) -> Result<()> {
        const MPLS: &[u16] = &[ethernet::MPLS, ethernet::MPLS_MULTICAST];
        match action {
            Action::SetField(set) => self.sets_to_value(set.field),
            Action::SetTtl(_) | Action::DecrementTtl => self.needs_header_of("nw_ttl"),
            Action::SetMplsTtl(_) | Action::DecrementMplsTtl => self.needs_header_of("mpls_ttl"),
            Action::PushVlan(kind) if !matches!(*kind, ethernet::VLAN | ethernet::SERVICE_VLAN) => {
                Err(BadAction::BadArgument.into())
            }
            Action::PushVlan(_) => {
                self.has_tags(self.tags.saturating_add(1));
                Ok(())
            }
            Action::PopVlan => {
                self.has_tags(self.tags.checked_sub(1).ok_or(BadAction::MatchInconsistent)?);
                Ok(())
            }
            Action::PushMpls(kind) if !MPLS.contains(kind) => Err(BadAction::BadArgument.into()),
            Action::PushMpls(kind) => {
                self.becomes(*kind);
                Ok(())
            }
            Action::PopMpls(kind) => {
                self.needs_header_of("mpls_ttl")?;
                self.becomes(*kind);
                Ok(())
            }
            Action::Extension(extension) => self.takes_extension(extension),
            Action::Output(output) if output.port == PortNumber::ANY => Err(BadAction::BadOutPort.into()),
            Action::Output(_)
            | Action::CopyTtlOut
            | Action::CopyTtlIn
            | Action::SetQueue(_)
            | Action::Group(_) => Ok(()),
        }
    }

    fn takes_extension(&mut self, extension: &Extension) -> Result<()> {
        match extension {
            Extension::DecrementTtl(_) => self.needs_header_of("nw_ttl"),
            Extension::SetMasked(set) => self.sets_to_value(set.field),
            Extension::LoadBits(load) => {
                let to = load.destination;
                self.sets_to_value(to.field())?;
                // Who sets that there is a tag has one.
                let tag = u128::from(load.value) << to.start() & u128::from(TAGGED);
                if to.field().place() == Field::VLAN_TCI && tag != 0 && self.tags == 0 {
                    self.has_tags(1);
                }
                Ok(())
            }
            Extension::CopyBits(copy) | Extension::CopyField(super::CopyField(copy)) => {
                self.needs(copy.source.field())?;
                self.sets(copy.destination.field())
            }
            Extension::Push(bits) => self.needs(bits.0.field()),
            Extension::Pop(bits) => self.sets(bits.0.field()),
            Extension::OutputBits(output) => self.needs(output.port.field()),
            Extension::OutputBitsLong(output) => self.needs(output.port.field()),
            Extension::Multipath(multipath) => self.sets(multipath.destination.field()),
            Extension::BundleLoad(load) => self.sets(load.destination.field()),
            Extension::FinTimeout(_) => self.needs_header_of("tcp_src"),
            Extension::Learn(learn) => self.learns(&learn.specs),
            Extension::LimitedLearn(learn) => {
                learn.result.map_or(Ok(()), |result| self.sets(result.0.field()))?;
                self.learns(&learn.specs)
            }
            Extension::Track(track) => {
                self.needs_header_of("nw_ttl")?;
                if let Zone::Bits(bits) = track.zone {
                    self.needs(bits.field())?;
                }
                Self { is_tracking: true, ..self.clone() }.take_all(&track.actions)
            }
            Extension::Nat(_) if !self.is_tracking => Err(BadAction::BadSetArgument.into()),
            Extension::Clone(actions) => self.clone().take_all(&actions.0),
            _ => Ok(()),
        }
    }

    /// What a flow is to match later depends on what it is to match before.
    fn learns(&self, specs: &[LearnSpec]) -> Result<()> {
        let mut learned = Self::of(Match::ANY);
        for spec in specs {
            let (LearnSpec::Match(source, _) | LearnSpec::Load(source, _)) = spec else {
                continue;
            };
            if let LearnSource::Bits(bits) = source {
                self.needs(bits.field())?;
            }
            match (spec, source) {
                (LearnSpec::Match(_, to), LearnSource::Value(value)) => {
                    learned.needs(to.field())?;
                    let value = to.field().to_place(*value << to.start()).unwrap_or_default();
                    let mask = (u128::MAX >> (128 - to.bits())) << to.start();
                    learned.asked = learned.asked.with_masked(to.field().place(), value, mask);
                }
                (LearnSpec::Match(_, to), LearnSource::Bits(_)) => learned.needs(to.field())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_all(&mut self, actions: &[Action]) -> Result<()> {
        actions.iter().try_for_each(|action| self.takes(action))
    }
}

/// Whether actions can be carried out in this order on whatever a flow matches, as far as that does not depend on the switch
/// (section 7.2.5; a flow that sets a field of TCP must match TCP).
///
/// # Errors
/// [`BadAction::MatchInconsistent`] if not; or what else is wrong with one of them.
pub fn check(actions: &[Action], asked: &Match) -> Result<()> {
    Known::of(asked.clone()).take_all(actions)
}

/// The same for the actions of instructions: those that are carried out at once, and then those that are written for the end.
pub(crate) fn check_instructions(instructions: &[Instruction], asked: &Match) -> Result<()> {
    let mut known = Known::of(asked.clone());
    for instruction in instructions {
        if let Instruction::ApplyActions(list) = instruction {
            known.take_all(&list.actions)?;
        }
    }
    for instruction in instructions {
        if let Instruction::WriteActions(list) = instruction {
            known.take_all(&list.actions)?;
        }
    }
    Ok(())
}

/// Whether it is one of OpenFlow 1.0 that does nothing with a packet that has not what it would change.
const fn is_lenient(action: &Action) -> bool {
    matches!(action, Action::SetField(_) | Action::PopVlan)
}

/// The same for flows of OpenFlow 1.0, of which no action of its own needs anything to be there.
pub(crate) fn check_actions_of_v10(instructions: &[Instruction], asked: &Match) -> Result<()> {
    let mut known = Known::of(asked.clone());
    for instruction in instructions {
        let Instruction::ApplyActions(list) = instruction else { continue };
        for action in &list.actions {
            match known.takes(action) {
                Err(error) if is_lenient(action) && error == BadAction::MatchInconsistent.into() => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// The actions of a packet-out of OpenFlow 1.0 without those that would do nothing with this packet.
pub(crate) fn without_inapplicable(mut actions: Vec<Action>, packet: &Match) -> Vec<Action> {
    let mut known = Known::of(packet.clone());
    actions.retain(|action| {
        let taken = known.takes(action);
        !is_lenient(action) || taken != Err(BadAction::MatchInconsistent.into())
    });
    actions
}

#[cfg(test)]
mod tests {
    use crate::flow::FlowMod;

    #[test]
    fn what_is_pushed_can_be_changed_and_what_is_popped_cannot() {
        let possible = [
            "actions=push_vlan:0x8100,set_field:3->vlan_pcp,pop_vlan",
            "dl_vlan=5 actions=push_vlan:0x88a8,pop_vlan,set_field:3->vlan_pcp,pop_vlan",
            "ip actions=push_mpls:0x8847,set_field:5->mpls_label,pop_mpls:0x0800,dec_ttl",
            "tcp actions=clone(push_mpls:0x8847),set_field:80->tcp_dst",
            "mpls actions=pop_mpls:0x86dd,write_actions(dec_ttl)",
            "ip actions=ct(commit,exec(set_field:1->ct_mark))",
        ];
        for flow in possible {
            assert!(flow.parse::<FlowMod>().is_ok(), "{flow}");
        }
        let impossible = [
            "dl_vlan=5 actions=pop_vlan,pop_vlan",
            "dl_vlan=5 actions=pop_vlan,set_field:3->vlan_pcp",
            "tcp actions=push_mpls:0x8847,set_field:80->tcp_dst",
            "tcp actions=push_mpls:0x8847,pop_mpls:0x0800,set_field:80->tcp_dst",
            "ip actions=write_actions(dec_mpls_ttl)",
            "actions=ct(commit)",
            "ip actions=set_field:1->ct_mark",
        ];
        for flow in impossible {
            let error = flow.parse::<FlowMod>().expect_err(flow).to_string();
            assert!(error.contains("An action that cannot be carried out"), "{flow}: {error}");
        }
    }
}
