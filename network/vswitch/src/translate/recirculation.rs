//! Ways that are interrupted: what a packet has inside is not known until it has been looked at again.
//!
//! *Known as:* recirculation.

use super::Translation;
use crate::step::{Pending, Rest, Step};
use fulmar_packet::{Field, FlowKey, Stage};

impl Translation<'_> {
    /// What is left is decided when the packet has been looked at again.
    pub(super) fn recirculate(&mut self) {
        self.frozen.get_or_insert_with(Vec::<Pending>::new);
    }

    /// If the packet is to be looked at again, so that what is left can be done, that is the next step.
    pub(super) fn freeze(&mut self) {
        let Some(next) = self.frozen.take() else { return };
        if next.is_empty() && self.written.is_empty() {
            return;
        }
        let rest = Rest {
            metadata: self.kept_metadata(),
            stack: std::mem::take(&mut self.stack),
            queue: self.queue,
            written: std::mem::take(&mut self.written),
            mirrored: self.mirrored.clone(),
            next,
        };
        let frozen = self.pipeline.freeze(rest);
        self.say(|| format!("looked at again, as {:#x}", frozen.number));
        self.steps.push(Step::Recirculate(frozen));
    }

    /// What is known of the packet besides itself, as it is found again later: so the decision depends on what packets come with, which is where
    /// their tunnel leads. What connection tracking knows is each packet's own, and stays with it.
    pub(super) fn kept_metadata(&mut self) -> FlowKey {
        for field in [Field::TUNNEL_ID, Field::TUNNEL_SOURCE, Field::TUNNEL_DESTINATION] {
            self.consult(field, u128::MAX);
        }
        let mut metadata = self.key.clone();
        metadata.clear_from(Stage::L2);
        for field in [Field::CT_STATE, Field::CT_ZONE, Field::CT_MARK, Field::CT_LABEL] {
            metadata.set(field, 0);
        }
        metadata
    }

    /// Goes on where a way was interrupted.
    pub(super) fn resume(&mut self, rest: &Rest) {
        self.stack.clone_from(&rest.stack);
        self.queue = rest.queue;
        self.written.clone_from(&rest.written);
        self.mirrored.clone_from(&rest.mirrored);
        for pending in &rest.next {
            if let Some(left) = &mut self.frozen {
                left.push(pending.clone());
                continue;
            }
            match pending {
                Pending::Actions(actions, table, cookie) => {
                    (self.table, self.cookie) = (*table, *cookie);
                    self.actions(actions);
                }
                Pending::Instructions(instructions, table, cookie) => {
                    (self.table, self.cookie) = (*table, *cookie);
                    if let Some(table) = self.instructions(instructions) {
                        self.table_at(table);
                    }
                }
                Pending::Table(table) => self.table_at(*table),
                Pending::Written => self.carry_out_written(),
            }
        }
    }
}
