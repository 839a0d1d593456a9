//! The prefixes that the rules of a classifier ask for, of addresses (section 5.4).

use crate::rule::Mask;
use crate::trie::{Found, Trie};
use fulmar_packet::{Field, FlowKey, FlowMask, ethernet, prefix};

/// The fields whose prefixes are tracked, and what a packet that has them is.
const FIELDS: [(Field, u16); 4] = [
    (Field::IPV4_SOURCE, ethernet::IPV4),
    (Field::IPV4_DESTINATION, ethernet::IPV4),
    (Field::IPV6_SOURCE, ethernet::IPV6),
    (Field::IPV6_DESTINATION, ethernet::IPV6),
];

/// How many bits of each of them a mask has, if they are a prefix; else 0.
pub(crate) type Lengths = [u8; FIELDS.len()];

pub(crate) fn lengths(mask: &Mask) -> Lengths {
    FIELDS.map(|(field, _)| {
        let bits = mask.whole().get(field);
        let length = u8::try_from(bits.count_ones()).unwrap_or_else(|_| unreachable!("no more than 128"));
        if bits == prefix(field, length) { length } else { 0 }
    })
}

/// A value of a field, aligned to the left.
fn aligned(key: &FlowKey, field: Field) -> u128 {
    key.get(field) << (128 - field.bits())
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tries([Trie; FIELDS.len()]);

impl Tries {
    /// There is one more rule, or one less, that asks for such prefixes of what `key` has.
    pub(crate) fn change(&mut self, lengths: &Lengths, key: &FlowKey, is_more: bool) {
        for ((trie, (field, _)), length) in self.0.iter_mut().zip(FIELDS).zip(lengths) {
            let value = aligned(key, field);
            match (*length, is_more) {
                (0, _) => {}
                (length, true) => trie.insert(value, length),
                (length, false) => trie.remove(value, length),
            }
        }
    }
}

/// What is known of one packet's prefixes, found when it is first asked for.
pub(crate) struct Prefixes<'a> {
    tries: Option<&'a Tries>,
    found: [Option<Option<Found>>; FIELDS.len()],
}

impl<'a> Prefixes<'a> {
    pub(crate) fn of(tries: Option<&'a Tries>) -> Self {
        Self { tries, found: [None; FIELDS.len()] }
    }

    /// Whether, by the fields in these words, no rule with prefixes of these lengths can be for the packet, and that can be said
    /// with no more bits than the rules ask for; these then count as consulted.
    pub(crate) fn exclude(
        &mut self,
        words: &[(u8, u64)],
        lengths: &Lengths,
        key: &FlowKey,
        consulted: &mut FlowMask,
    ) -> bool {
        let Some(tries) = self.tries else { return false };
        for (number, (field, kind)) in FIELDS.into_iter().enumerate() {
            let length = lengths[number];
            if length == 0 || !words.iter().any(|(word, _)| usize::from(*word) == field.first_word()) {
                continue;
            }
            let find = || {
                // In other packets the place is another field's, or nothing's.
                let is_there = key.get(Field::ETH_TYPE) == kind.into();
                is_there.then(|| tries.0[number].find(aligned(key, field), field.bits()))
            };
            let Some(found) = *self.found[number].get_or_insert_with(find) else { continue };
            let bits = prefix(field, found.bits);
            let is_consulted = consulted.get(field) & bits == bits;
            if !found.has(length) && (found.bits <= length || is_consulted) {
                consulted.add(field, bits);
                consulted.add_all(Field::ETH_TYPE);
                return true;
            }
        }
        false
    }
}
