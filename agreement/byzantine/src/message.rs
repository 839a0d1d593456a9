//! What is sent in a round, and its bytes.

use crate::{Processes, Sequence, Value, Wire};

/// How many sequences of monitors run in a pipeline (section 4.3).
pub(crate) const SEQUENCES: usize = 4;

impl<V: Wire> Wire for Option<V> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(bytes);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match u8::decode(bytes)? {
            0 => Some(None),
            1 => V::decode(bytes).map(Some),
            _ => None,
        }
    }
}

/// What a process has heard in the round before, and now says it has: ⟨σ, z, IT(σ)⟩ for all σ it still asks about, by its own
/// number z (section 2). No value stands for ⊥.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claims<V>(Vec<(Sequence, Option<V>)>);

impl<V> Default for Claims<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Value> Claims<V> {
    /// All, in order of their sequences.
    pub fn iter(&self) -> impl Iterator<Item = &(Sequence, Option<V>)> {
        self.0.iter()
    }

    /// The values, to be changed by liars.
    pub fn values_mut(&mut self) -> impl Iterator<Item = (&Sequence, &mut Option<V>)> {
        self.0.iter_mut().map(|(sequence, value)| (&*sequence, value))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is claimed of `sequence`.
    pub fn get(&self, sequence: &Sequence) -> Option<Option<V>> {
        let at = self.0.binary_search_by_key(sequence, |claim| claim.0).ok()?;
        Some(self.0[at].1)
    }

    /// Adds a claim of a sequence that comes after all others.
    pub(crate) fn push(&mut self, sequence: Sequence, value: Option<V>) {
        self.0.push((sequence, value));
    }

    /// Reads on from claim `at`, which moves forwards only: the claim of `sequence`, if there is one.
    pub(crate) fn next(&self, at: &mut usize, sequence: &Sequence) -> Option<Option<V>> {
        while self.0.get(*at)?.0 < *sequence {
            *at += 1;
        }
        let (claimed, value) = self.0[*at];
        (claimed == *sequence).then_some(value)
    }
}

impl<V: Value> FromIterator<(Sequence, Option<V>)> for Claims<V> {
    fn from_iter<I: IntoIterator<Item = (Sequence, Option<V>)>>(claims: I) -> Self {
        let mut claims = claims.into_iter().collect::<Vec<_>>();
        claims.sort_unstable();
        claims.dedup_by_key(|claim| claim.0);
        Self(claims)
    }
}

/// The level of all sequences, how many claims there are, and of each its sequence and its value. A sequence with repetition, or one
/// that does not come after that before it, is not decoded; each claim takes a byte at least.
impl<V: Value> Wire for Claims<V> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let level = self.0.first().map_or(0, |claim| claim.0.len());
        bytes.push(u8::try_from(level).expect("a sequence is shorter than 64"));
        bytes.extend_from_slice(
            &u32::try_from(self.0.len()).expect("that many claims have no room").to_le_bytes(),
        );
        for (sequence, value) in &self.0 {
            debug_assert_eq!(sequence.len(), level, "all claims of a round are of a level");
            bytes.extend_from_slice(sequence.members());
            value.encode(bytes);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let level = usize::from(u8::decode(bytes)?);
        let count = u32::from_le_bytes(<[u8; 4]>::decode(bytes)?) as usize;
        if count > bytes.len() {
            return None;
        }
        let mut claims = Vec::with_capacity(count);
        for _ in 0..count {
            let sequence = Sequence::new(bytes.split_off(..level)?)?;
            if claims.last().is_some_and(|(last, _)| *last >= sequence) {
                return None;
            }
            claims.push((sequence, Option::decode(bytes)?));
        }
        Some(Self(claims))
    }
}

/// What a monitor agrees on, or else ⊥: that too many processes were found to be faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bad;

impl Wire for Bad {
    fn encode(&self, _bytes: &mut Vec<u8>) {}

    fn decode(_bytes: &mut &[u8]) -> Option<Self> {
        Some(Self)
    }
}

/// What a process says in one monitor sequence (section 4.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Word {
    /// What it has heard in the protocols of the sequence, each by the round in which it was invoked.
    pub claims: Vec<(u8, Claims<Bad>)>,
    /// In the third of four rounds: whether v is BAD; in the fourth: whether it is early.
    pub vote: Option<bool>,
}

impl Wire for Word {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(match self.vote {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        });
        bytes.push(u8::try_from(self.claims.len()).expect("a protocol every four rounds"));
        for (start, claims) in &self.claims {
            bytes.push(*start);
            claims.encode(bytes);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let vote = match u8::decode(bytes)? {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return None,
        };
        let count = u8::decode(bytes)?;
        let claims = (0..count).map(|_| Some((u8::decode(bytes)?, Claims::decode(bytes)?)));
        Some(Self { vote, claims: claims.collect::<Option<_>>()? })
    }
}

/// What a process sends to all others in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message<V> {
    /// F: who it has found to be faulty.
    pub faulty: Processes,
    /// What it has heard in the agreement on the value.
    pub claims: Claims<V>,
    /// What it says in each monitor sequence; `None` of one that it has halted.
    pub words: [Option<Word>; SEQUENCES],
}

impl<V: Value> Wire for Message<V> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.faulty.encode(bytes);
        self.claims.encode(bytes);
        self.words.iter().for_each(|word| word.encode(bytes));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (faulty, claims) = (Processes::decode(bytes)?, Claims::decode(bytes)?);
        let mut words = [const { None }; SEQUENCES];
        for word in &mut words {
            *word = Option::decode(bytes)?;
        }
        Some(Self { faulty, claims, words })
    }
}
