//! The set of actions that is carried out at the end of the way (section 5.10 of the OpenFlow specification).

use super::Translation;
use crate::step::Pending;
use fulmar_openflow::Action;
use fulmar_openflow::action::Extension;

impl Translation<'_> {
    /// Adds an action to the set, in the place of one of its kind.
    pub(super) fn write_action(&mut self, action: &Action) {
        self.written.retain(|other| !is_same_kind(other, action));
        self.written.push(action.clone());
    }

    /// Carries the set out: each kind at its time, and of a group and a port only the group.
    pub(super) fn carry_out_written(&mut self) {
        if let Some(left) = &mut self.frozen {
            left.push(Pending::Written);
            return;
        }
        if self.is_over {
            return;
        }
        self.is_expired = false;
        let mut actions = std::mem::take(&mut self.written);
        if actions.iter().any(|action| matches!(action, Action::Group(_))) {
            actions.retain(|action| !is_output(action));
        }
        actions.sort_by_key(rank);
        // A set that sends nowhere is as good as none.
        if actions.iter().any(|action| is_output(action) || matches!(action, Action::Group(_))) {
            self.actions(&actions);
        }
    }
}

fn is_output(action: &Action) -> bool {
    matches!(
        action,
        Action::Output(_)
            | Action::Extension(
                Extension::Controller(_)
                    | Extension::PausableController(_)
                    | Extension::OutputBits(_)
                    | Extension::OutputBitsLong(_)
                    | Extension::Truncate(_)
                    | Extension::Bundle(_)
                    | Extension::Resubmit(_)
                    | Extension::ResubmitPort(_)
                    | Extension::Track(_)
            )
    )
}

fn rank(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan | Action::PopMpls(_) => 1,
        Action::PushMpls(_) => 2,
        Action::PushVlan(_) => 3,
        Action::CopyTtlOut => 4,
        Action::DecrementTtl | Action::DecrementMplsTtl | Action::Extension(Extension::DecrementTtl(_)) => 5,
        Action::SetQueue(_) => 7,
        Action::Group(_) => 8,
        action if is_output(action) => 9,
        _ => 6,
    }
}

/// Whether one takes the other's place: fields are told apart.
fn is_same_kind(one: &Action, other: &Action) -> bool {
    match (one, other) {
        (Action::SetField(a), Action::SetField(b)) => a.field == b.field,
        (Action::Extension(a), Action::Extension(b)) => match (a, b) {
            (Extension::SetMasked(a), Extension::SetMasked(b)) => a.field == b.field && a.mask == b.mask,
            (Extension::LoadBits(a), Extension::LoadBits(b)) => a.destination == b.destination,
            (Extension::CopyBits(a), Extension::CopyBits(b)) => a.destination == b.destination,
            (a, b) if is_output(one) && is_output(other) => {
                std::mem::discriminant(a) == std::mem::discriminant(b) || is_output(one)
            }
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        },
        _ if is_output(one) && is_output(other) => true,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}
