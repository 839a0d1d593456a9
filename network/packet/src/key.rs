//! A packet as a row of fields, and what can be asked of it.

use crate::field::{Field, Stage, WORDS};
use std::fmt;
use std::hash::{Hash, Hasher};

/// All that a switch decides by, of one packet: its fields, as numbers in host order. What a packet does not have is 0.
#[derive(Clone)]
pub struct FlowKey {
    words: [u64; WORDS],
    /// Of the words that are not in it, all are 0.
    present: u64,
}

impl FlowKey {
    /// All fields 0.
    pub const EMPTY: Self = Self { words: [0; WORDS], present: 0 };

    /// A field's value.
    pub fn get(&self, field: Field) -> u128 {
        let word = usize::from(field.word);
        if field.bits() > 64 {
            return u128::from(self.words[word]) << 64 | u128::from(self.words[word + 1]);
        }
        u128::from(self.words[word] >> field.shift) & field.ones()
    }

    /// Replaces a field's value; bits that the field does not have are left out.
    #[inline]
    pub fn set(&mut self, field: Field, value: u128) {
        self.set_masked(field, value, u128::MAX);
    }

    /// Replaces those bits of a field that `mask` has.
    #[inline]
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        let mask = mask & field.ones();
        let word = usize::from(field.word);
        if field.bits() > 64 {
            self.replace(word, high(mask), high(value));
            self.replace(word + 1, low(mask), low(value));
        } else {
            self.replace(word, low(mask) << field.shift, low(value) << field.shift);
        }
    }

    fn replace(&mut self, word: usize, mask: u64, value: u64) {
        self.put(word, self.words[word] & !mask | value & mask);
    }

    /// One of its words, as [`Field`]s are laid out in them.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn word(&self, word: usize) -> u64 {
        self.words[word]
    }

    /// Replaces one of its words.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn put(&mut self, word: usize, value: u64) {
        self.words[word] = value;
        self.present |= 1 << word;
    }

    /// The numbers of the words that may be other than 0, as bits.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Sets all fields from this layer on to 0.
    pub fn clear_from(&mut self, stage: Stage) {
        let first = stage.start();
        for word in ones(self.present >> first << first) {
            self.words[word] = 0;
        }
        self.present &= (1 << first) - 1;
    }

    /// The part of it that a mask has.
    #[must_use]
    pub fn masked(&self, mask: &FlowMask) -> Self {
        let mut masked = Self::EMPTY;
        for word in ones(mask.0.present & self.present) {
            masked.put(word, self.words[word] & mask.0.words[word]);
        }
        masked
    }

    /// Whether both agree in all bits that a mask has.
    pub fn agrees(&self, other: &Self, mask: &FlowMask) -> bool {
        ones(mask.0.present).all(|word| (self.words[word] ^ other.words[word]) & mask.0.words[word] == 0)
    }

    /// The fields that are not 0, each by its widest name.
    pub fn fields(&self) -> impl Iterator<Item = (Field, u128)> {
        WHOLE.iter().map(|field| (*field, self.get(*field))).filter(|(_, value)| *value != 0)
    }
}

/// The bits that are set, from the lowest.
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        next
    })
}

fn high(value: u128) -> u64 {
    u64::try_from(value >> 64).unwrap_or_else(|_| unreachable!("64 bits are left"))
}

fn low(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or_else(|_| unreachable!("64 bits are left"))
}

impl Default for FlowKey {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for FlowKey {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for FlowKey {}

impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.fields().map(|(field, value)| (field, Hex(value)))).finish()
    }
}

struct Hex(u128);

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Which bits of a [`FlowKey`] are meant: those that are set.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct FlowMask(FlowKey);

impl FlowMask {
    /// No bits.
    pub const EMPTY: Self = Self(FlowKey::EMPTY);

    /// Those of a field that are meant.
    pub fn get(&self, field: Field) -> u128 {
        self.0.get(field)
    }

    /// Adds bits of a field.
    pub fn add(&mut self, field: Field, bits: u128) {
        self.0.set_masked(field, u128::MAX, bits);
    }

    /// Adds the first so many bits of a field, from the most significant.
    pub fn add_prefix(&mut self, field: Field, bits: u8) {
        self.add(field, prefix(field, bits));
    }

    /// Adds the whole of a field.
    pub fn add_all(&mut self, field: Field) {
        self.add(field, u128::MAX);
    }

    /// Adds bits of a word.
    ///
    /// # Panics
    /// If there is no word of this number.
    pub fn add_word(&mut self, word: usize, bits: u64) {
        self.0.put(word, self.0.words[word] | bits);
    }

    /// Adds all bits of another.
    pub fn add_mask(&mut self, other: &Self) {
        for word in ones(other.0.present) {
            self.add_word(word, other.0.words[word]);
        }
    }

    /// Adds the bits of another that `but` does not have.
    pub fn add_mask_but(&mut self, other: &Self, but: &Self) {
        for word in ones(other.0.present) {
            self.add_word(word, other.0.words[word] & !but.0.words[word]);
        }
    }

    /// Leaves out all of a field.
    pub fn remove(&mut self, field: Field) {
        self.0.set(field, 0);
    }

    /// One of its words.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn word(&self, word: usize) -> u64 {
        self.0.words[word]
    }

    /// Which words may have some, as bits.
    pub fn present(&self) -> u64 {
        self.0.present
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        ones(self.0.present).all(|word| self.0.words[word] == 0)
    }

    /// The fields that have some, each by its widest name.
    pub fn fields(&self) -> impl Iterator<Item = (Field, u128)> {
        self.0.fields()
    }
}

impl fmt::Debug for FlowMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first so many bits of a field, from the most significant; all, if it has no more.
pub fn prefix(field: Field, bits: u8) -> u128 {
    let rest = field.bits().saturating_sub(bits);
    field.ones().checked_shr(rest.into()).unwrap_or(0) << (rest % 128)
}

/// What a flow asks of a packet: certain bits.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Match {
    key: FlowKey,
    mask: FlowMask,
}

impl Match {
    /// Asks nothing.
    pub const ANY: Self = Self { key: FlowKey::EMPTY, mask: FlowMask::EMPTY };

    /// The bits of `key` that `mask` has.
    pub fn new(key: &FlowKey, mask: FlowMask) -> Self {
        Self { key: key.masked(&mask), mask }
    }

    /// Asks for a field's value, too.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Self {
        self.with_masked(field, value, u128::MAX)
    }

    /// Asks for some bits of a field, too.
    #[must_use]
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Self {
        self.mask.add(field, mask);
        self.key.set_masked(field, value, mask);
        self
    }

    /// Asks for the first so many bits of a field, too.
    #[must_use]
    pub fn with_prefix(self, field: Field, value: u128, bits: u8) -> Self {
        self.with_masked(field, value, prefix(field, bits))
    }

    /// What the bits are to be; the others are 0.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Which bits it asks for.
    pub fn mask(&self) -> &FlowMask {
        &self.mask
    }

    /// Whether a packet has them.
    pub fn matches(&self, packet: &FlowKey) -> bool {
        self.key.agrees(packet, &self.mask)
    }

    /// Whether some packet has what both ask for.
    pub fn overlaps(&self, other: &Self) -> bool {
        ones(self.mask.0.present & other.mask.0.present).all(|word| {
            let both = self.mask.0.words[word] & other.mask.0.words[word];
            (self.key.words[word] ^ other.key.words[word]) & both == 0
        })
    }

    /// Whether whatever has what this asks for has what `other` asks for.
    pub fn is_within(&self, other: &Self) -> bool {
        ones(other.mask.0.present).all(|word| other.mask.0.words[word] & !self.mask.0.words[word] == 0)
            && self.key.agrees(&other.key, &other.mask)
    }
}

/// The fields that are no parts of others.
const WHOLE: &[Field] = &[
    Field::IN_PORT,
    Field::RECIRCULATION,
    Field::METADATA,
    Field::register(0),
    Field::register(1),
    Field::register(2),
    Field::register(3),
    Field::register(4),
    Field::register(5),
    Field::register(6),
    Field::register(7),
    Field::register(8),
    Field::register(9),
    Field::register(10),
    Field::register(11),
    Field::register(12),
    Field::register(13),
    Field::register(14),
    Field::register(15),
    Field::TUNNEL_ID,
    Field::TUNNEL_SOURCE,
    Field::TUNNEL_DESTINATION,
    Field::TUNNEL_IPV6_SOURCE,
    Field::TUNNEL_IPV6_DESTINATION,
    Field::TUNNEL_FLAGS,
    Field::TUNNEL_TOS,
    Field::TUNNEL_TTL,
    Field::MARK,
    Field::CT_STATE,
    Field::CT_MARK,
    Field::CT_ZONE,
    Field::CONJUNCTION,
    Field::CT_LABEL,
    Field::ETH_DESTINATION,
    Field::ETH_TYPE,
    Field::ETH_SOURCE,
    Field::VLAN_TPID,
    Field::VLAN_TCI,
    Field::INNER_VLAN_TPID,
    Field::INNER_VLAN_TCI,
    Field::MPLS_LABEL,
    Field::MPLS_CLASS,
    Field::MPLS_BOTTOM,
    Field::MPLS_TTL,
    Field::IPV4_SOURCE,
    Field::IPV4_DESTINATION,
    Field::IPV6_SOURCE,
    Field::IPV6_DESTINATION,
    Field::IPV6_LABEL,
    Field::IP_PROTOCOL,
    Field::IP_TOS,
    Field::IP_TTL,
    Field::IP_FRAGMENT,
    Field::ARP_SENDER,
    Field::ARP_TARGET,
    Field::ND_TARGET,
    Field::L4_SOURCE,
    Field::L4_DESTINATION,
    Field::TCP_FLAGS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_places_of_their_own() {
        let mut taken = FlowMask::EMPTY;
        for field in WHOLE {
            assert_eq!(taken.get(*field), 0, "{field:?}");
            taken.add_all(*field);
            let last = usize::from(field.word) + usize::from(field.bits() > 64);
            let stage = field.stage();
            assert!((stage.start()..stage.end()).contains(&last), "{field:?} is in {stage:?}");
        }
    }

    #[test]
    fn what_is_set_is_found_and_nothing_else_changes() {
        for field in WHOLE {
            let mut key = FlowKey::EMPTY;
            key.set(*field, u128::MAX);
            assert_eq!(key.fields().collect::<Vec<_>>(), [(*field, field.ones())]);
            key.set_masked(*field, 0, 1);
            assert_eq!(key.get(*field), field.ones() & !1);
            key.set(*field, 0);
            assert_eq!(key, FlowKey::EMPTY);
        }
    }

    #[test]
    fn a_prefix_is_its_first_bits() {
        assert_eq!(prefix(Field::IPV4_SOURCE, 0), 0);
        assert_eq!(prefix(Field::IPV4_SOURCE, 8), 0xff00_0000);
        assert_eq!(prefix(Field::IPV4_SOURCE, 32), 0xffff_ffff);
        assert_eq!(prefix(Field::IPV6_SOURCE, 0), 0);
        assert_eq!(prefix(Field::IPV6_SOURCE, 1), 1 << 127);
        assert_eq!(prefix(Field::IPV6_SOURCE, 128), u128::MAX);
    }

    #[test]
    fn a_narrower_match_is_within_a_wider_one() {
        let net = Match::ANY.with_prefix(Field::IPV4_DESTINATION, 0x0a01_0000, 16);
        let host = Match::ANY.with(Field::IPV4_DESTINATION, 0x0a01_0203);
        let other = Match::ANY.with(Field::IPV4_DESTINATION, 0x0a02_0203);
        assert!(host.is_within(&net) && !net.is_within(&host) && host.is_within(&Match::ANY));
        assert!(host.overlaps(&net) && !other.overlaps(&net));
        assert!(net.matches(host.key()) && !net.matches(other.key()));
        assert!(other.overlaps(&Match::ANY.with(Field::ETH_TYPE, 0x800)));
    }
}
