//! Rules, and the masks that many of them share.

use fulmar_packet::{FlowKey, FlowMask, Match, Stage, ones};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Rules that ask for no more words hold them themselves: most do.
pub(crate) const INLINE: usize = 6;

/// What rules of one form ask for: word by word, of those that they ask anything of.
pub struct Mask {
    whole: FlowMask,
    /// In ascending order.
    pub(crate) words: Box<[(u8, u64)]>,
    /// How many of these come before the end of each stage.
    pub(crate) ends: [usize; 4],
    /// Where each of them is in a line, if all fit.
    places: Option<Box<[Place]>>,
}

/// Words of one line of the cache that are not needed for anything else.
pub(crate) const LINE: usize = 6;

/// Where a word is in a line: few masks ask for all bits of their words, so that words can share one.
#[derive(Clone, Copy)]
struct Place {
    at: u8,
    /// It is turned to the left by so many bits.
    turn: u8,
}

/// A place for each of these bits, in which no two meet: each has its own, in their order, if they are few. Nothing, if that is not found.
fn places(words: &[(u8, u64)]) -> Option<Box<[Place]>> {
    if words.len() <= LINE {
        return (0..words.len()).map(|at| Some(Place { at: u8::try_from(at).ok()?, turn: 0 })).collect();
    }
    let mut taken = [0u64; LINE];
    let mut place = |(_, bits): &(u8, u64)| {
        let all = (0..64).step_by(8).flat_map(|turn| (0..LINE).map(move |at| (at, turn)));
        let mut free = all.filter(|(at, turn)| taken[*at] & bits.rotate_left(*turn) == 0);
        let (at, turn) = free.next()?;
        taken[at] |= bits.rotate_left(turn);
        Some(Place { at: u8::try_from(at).ok()?, turn: u8::try_from(turn).ok()? })
    };
    words.iter().map(&mut place).collect()
}

impl Mask {
    fn new(whole: FlowMask) -> Self {
        let some = ones(whole.present()).map(|word| (word, whole.word(word))).filter(|(_, bits)| *bits != 0);
        let number = |word: usize| u8::try_from(word).unwrap_or_else(|_| unreachable!("there are fewer"));
        let words: Box<[_]> = some.map(|(word, bits)| (number(word), bits)).collect();
        let ends =
            Stage::ALL.map(|stage| words.partition_point(|(word, _)| usize::from(*word) < stage.end()));
        let places = places(&words);
        Self { whole, words, ends, places }
    }

    /// All its bits.
    pub fn whole(&self) -> &FlowMask {
        &self.whole
    }

    /// What a key has of it, in one line; nothing, if that has no room for it.
    #[inline]
    pub(crate) fn line(&self, words: impl Iterator<Item = u64>) -> Option<[u64; LINE]> {
        let mut line = [0; LINE];
        for (place, word) in self.places.as_ref()?.iter().zip(words) {
            line[usize::from(place.at)] |= word.rotate_left(place.turn.into());
        }
        Some(line)
    }

    /// What a key has of it, word by word.
    pub(crate) fn masked(&self, key: &FlowKey) -> impl Iterator<Item = u64> {
        self.words.iter().map(|(word, bits)| key.word(usize::from(*word)) & bits)
    }
}

/// Masks, each of them once.
#[derive(Default)]
pub struct Masks(HashMap<FlowMask, Arc<Mask>, foldhash::fast::FixedState>);

impl Masks {
    /// The mask of these bits.
    pub fn get(&mut self, whole: &FlowMask) -> Arc<Mask> {
        if let Some(mask) = self.0.get(whole) {
            return mask.clone();
        }
        let mask = Arc::new(Mask::new(whole.clone()));
        self.0.insert(whole.clone(), mask.clone());
        mask
    }

    /// Forgets those that no rule has any more.
    pub fn forget_unused(&mut self) {
        self.0.retain(|_, mask| Arc::strong_count(mask) > 1);
    }
}

/// What a packet may meet: bits that it is to have, and what follows from that. Of those that it meets the one of the highest
/// priority counts.
pub struct Rule<T> {
    pub(crate) mask: Arc<Mask>,
    /// What the words of the mask are to be.
    pub(crate) words: SmallVec<[u64; INLINE]>,
    priority: u16,
    value: T,
}

impl<T> Rule<T> {
    /// A rule for the packets that agree with `key` in all bits of the mask.
    pub fn new(mask: Arc<Mask>, key: &FlowKey, priority: u16, value: T) -> Self {
        let words = mask.masked(key).collect();
        Self { mask, words, priority, value }
    }

    /// What it asks for.
    pub fn condition(&self) -> Match {
        Match::new(&self.key(), self.mask.whole.clone())
    }

    /// What the bits are to be that it asks for; the others are 0.
    pub fn key(&self) -> FlowKey {
        let mut key = FlowKey::EMPTY;
        for ((word, _), value) in self.mask.words.iter().zip(&self.words) {
            key.put(usize::from(*word), *value);
        }
        key
    }

    /// The bits that it asks for.
    pub fn mask(&self) -> &Arc<Mask> {
        &self.mask
    }

    /// Larger ones go before smaller ones.
    pub fn priority(&self) -> u16 {
        self.priority
    }

    /// What follows.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Whether a packet has all that it asks for.
    pub fn is_met_by(&self, key: &FlowKey) -> bool {
        self.mask.masked(key).eq(self.words.iter().copied())
    }
}

impl<T: fmt::Debug> fmt::Debug for Rule<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("priority", &self.priority)
            .field("key", &self.key())
            .field("mask", self.mask.whole())
            .field("value", &self.value)
            .finish()
    }
}
