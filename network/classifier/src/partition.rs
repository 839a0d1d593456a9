//! Which subtables can have a rule for a packet, by its metadata alone (section 5.5).

use crate::rule::Mask;
use fulmar_packet::{Field, FlowKey};
use std::collections::HashMap;

/// Some subtables, or more: each value of the metadata has one bit, and may share it.
pub(crate) type Tags = u64;

/// The values of a subtable's rules, and of how many of them each is. Nothing, if they do not ask for one.
type Values = HashMap<u64, usize, foldhash::fast::FixedState>;

fn tag(value: u64) -> Tags {
    // By the upper bits of a product with an odd number (Knuth, volume 3, section 6.4).
    1 << (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// Those of a packet.
pub(crate) fn of_packet(key: &FlowKey) -> Tags {
    tag(metadata(key))
}

fn metadata(key: &FlowKey) -> u64 {
    key.word(Field::METADATA.first_word())
}

/// The subtables that a classifier's packets need not be looked for in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    values: Values,
    tags: Tags,
}

impl Partition {
    /// For the rules of this mask; nothing, if they do not ask for all of the metadata.
    pub(crate) fn of(mask: &Mask) -> Option<Self> {
        (mask.whole().get(Field::METADATA) == Field::METADATA.ones()).then(Self::default)
    }

    /// There is one more rule with this key.
    pub(crate) fn insert(&mut self, key: &FlowKey) {
        let value = metadata(key);
        *self.values.entry(value).or_default() += 1;
        self.tags |= tag(value);
    }

    /// There is one less.
    pub(crate) fn remove(&mut self, key: &FlowKey) {
        let value = metadata(key);
        let Some(count) = self.values.get_mut(&value) else { return };
        *count -= 1;
        if *count == 0 {
            self.values.remove(&value);
            self.tags = self.values.keys().fold(0, |tags, value| tags | tag(*value));
        }
    }

    /// Whether a packet of these tags may be one of them.
    pub(crate) fn may_have(&self, tags: Tags) -> bool {
        self.tags & tags != 0
    }
}
