//! Sets and sequences of processes.

use crate::Wire;
use std::fmt;

/// How many processes there can be.
pub const MOST_PROCESSES: usize = 64;
/// How long a sequence can be: t + 1, with n > 3t.
const LONGEST: usize = (MOST_PROCESSES - 1) / 3 + 1;

/// A set of processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Processes(u64);

impl Processes {
    /// Processes 0 to n − 1.
    ///
    /// # Panics
    ///
    /// If they are more than [`MOST_PROCESSES`].
    pub fn first(n: usize) -> Self {
        assert!(n <= MOST_PROCESSES, "{n} processes of at most {MOST_PROCESSES}");
        if n == 0 { Self(0) } else { Self(u64::MAX >> (MOST_PROCESSES - n)) }
    }

    /// Adds one, and says whether it is new.
    pub fn insert(&mut self, process: u8) -> bool {
        let before = self.0;
        self.0 |= 1 << process;
        self.0 != before
    }

    /// Whether it is one of them.
    pub const fn contains(self, process: u8) -> bool {
        self.0 >> process & 1 == 1
    }

    /// How many they are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// All of them, from the first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |&process| self.contains(process))
    }
}

impl FromIterator<u8> for Processes {
    fn from_iter<I: IntoIterator<Item = u8>>(processes: I) -> Self {
        let mut set = Self::default();
        processes.into_iter().for_each(|process| {
            set.insert(process);
        });
        set
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

impl Wire for Processes {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        <[u8; 8]>::decode(bytes).map(|bytes| Self(u64::from_le_bytes(bytes)))
    }
}

/// A node of the tree: who said that who said … (section 2: an element of Σ). No process is in it twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence {
    length: u8,
    members: [u8; LONGEST],
}

impl Sequence {
    /// The root, ε.
    pub const EMPTY: Self = Self { length: 0, members: [0; LONGEST] };

    /// This one, and `process` after it.
    ///
    /// # Panics
    ///
    /// If it is in it already.
    #[must_use]
    pub fn then(mut self, process: u8) -> Self {
        assert!(!self.contains(process), "{process} comes twice after {self:?}");
        self.members[usize::from(self.length)] = process;
        self.length += 1;
        self
    }

    /// `processes` in this order; `None` if one is there twice, or they are too many, or their numbers too high.
    pub fn new(processes: &[u8]) -> Option<Self> {
        let distinct =
            processes.iter().filter(|&&p| usize::from(p) < MOST_PROCESSES).copied().collect::<Processes>();
        let length = u8::try_from(processes.len()).ok()?;
        if processes.len() > LONGEST || distinct.len() != processes.len() {
            return None;
        }
        let mut members = [0; LONGEST];
        members[..processes.len()].copy_from_slice(processes);
        Some(Self { length, members })
    }

    /// Who is in it, in order.
    pub fn members(&self) -> &[u8] {
        &self.members[..self.len()]
    }

    /// How many are in it: the level of the node.
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Whether it is the root.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether `process` is in it.
    pub fn contains(&self, process: u8) -> bool {
        self.members().contains(&process)
    }

    /// This one without its last.
    pub fn parent(&self) -> Option<Self> {
        let mut parent = *self;
        parent.length = self.length.checked_sub(1)?;
        parent.members[usize::from(parent.length)] = 0;
        Some(parent)
    }

    /// Who came last.
    pub fn last(&self) -> Option<u8> {
        self.members().last().copied()
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.members()).finish()
    }
}
