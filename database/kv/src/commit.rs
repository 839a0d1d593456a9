//! What a transaction asks for at its end.
//!
//! *Known as:* a write set; restructurings are structure modification operations.

use crate::{Changes, FIRST_RESERVED, Interval, Key, ObjectId, ShardId, Timestamp};
use fulmar_coding::{Reader, list, put_bytes, put_varint};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction's effects, all or none of which take place.
///
/// Restructurings come first, in order; writes and requirements are placed in the objects as they are then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// What the transaction read: a write loses against any change of its cell after this.
    pub snapshot: Timestamp,
    /// Changes of structure, which no snapshot sees.
    pub restructurings: Vec<Restructuring>,
    /// Changes of cells, at most one `Write` an object.
    pub writes: Vec<Write>,
    /// Cells that must not have changed since the snapshot.
    pub required: Vec<(ObjectId, Key)>,
    /// Cells that must not have been deleted since the snapshot, and that nobody may delete whose snapshot does not see
    /// this commit: so it keeps them for what it writes elsewhere. They may be changed and touched by others.
    pub touched: Vec<(ObjectId, Key)>,
    /// Whether nobody else may have committed since the snapshot: the store has [excluded](crate::Store::exclude) all others
    /// from before that on. If it has not, throughout, this fails with [`Error::SnapshotGone`](crate::Error::SnapshotGone).
    pub is_exclusive: bool,
}

/// Changes of one object's cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The object.
    pub object: ObjectId,
    /// Every cell in these intervals that the snapshot sees is deleted, before `changes`.
    pub cleared: Vec<Interval>,
    /// What they hold from then on.
    pub changes: Changes,
}

/// A change of structure: it moves cells with all their versions, so it neither conflicts with transactions nor shows
/// in a snapshot. Links are cells of the objects that hold them, but without versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restructuring {
    /// Makes an object without cells, for all keys.
    Create {
        /// Its name. If it is in use, another commit has taken it first: a conflict.
        object: ObjectId,
    },
    /// Removes an object with all its cells.
    Remove {
        /// The object.
        object: ObjectId,
    },
    /// Moves the cells from the first cut on to new right neighbours.
    Split {
        /// The object to split.
        object: ObjectId,
        /// The first key of each new object and its name, not in use yet; in ascending order, inside the object's
        /// interval.
        cuts: Vec<(Key, ObjectId)>,
    },
    /// Moves all cells of the right neighbour to `left`, and removes `right`.
    Join {
        /// Takes over the interval of its neighbour.
        left: ObjectId,
        /// Ends to exist.
        right: ObjectId,
    },
    /// Sets and removes links.
    Relink {
        /// The object that holds the links.
        object: ObjectId,
        /// Its level, above 0: a root that has grown or shrunk since is no longer the one to hold them.
        level: u8,
        /// Keys and what they lead to from now on, in ascending order.
        links: Vec<(Key, Option<ObjectId>)>,
    },
    /// Moves all of `root` to the new object `into` and makes `root` one level higher, with a link to it.
    Grow {
        /// Keeps its name and interval.
        root: ObjectId,
        /// The new object's name, not in use yet.
        into: ObjectId,
    },
    /// The opposite of `Grow`: moves everything of the only object that `root` links to into `root`.
    Shrink {
        /// Keeps its name and interval.
        root: ObjectId,
    },
    /// Forgets what no snapshot reads any more.
    Collect {
        /// The object.
        object: ObjectId,
    },
    /// Puts an object here that is removed from another shard.
    Place {
        /// Its name here, not in use yet.
        object: ObjectId,
        /// What it holds.
        moved: Moved,
    },
}

/// An object on its way from one shard to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The object, as the engine stores it.
    pub object: Arc<[u8]>,
    /// Its cells that were [touched](Commit::touched), and when.
    pub touched: Vec<(Key, Timestamp)>,
}

/// The bytes of a link to an object.
pub fn link(to: ObjectId) -> [u8; 8] {
    to.0.to_be_bytes()
}

/// The object that a link leads to, if these bytes are one.
pub fn linked(value: &[u8]) -> Option<ObjectId> {
    value.try_into().ok().map(|v| ObjectId(u64::from_be_bytes(v)))
}

struct Parts {
    /// What each begins as.
    empty: Commit,
    parts: BTreeMap<ShardId, Commit>,
}

impl Parts {
    fn of(&mut self, shard: ShardId) -> &mut Commit {
        self.parts.entry(shard).or_insert_with(|| self.empty.clone())
    }
}

impl Restructuring {
    /// An object that it changes.
    fn object(&self) -> ObjectId {
        match self {
            Self::Create { object }
            | Self::Remove { object }
            | Self::Split { object, .. }
            | Self::Join { left: object, .. }
            | Self::Relink { object, .. }
            | Self::Grow { root: object, .. }
            | Self::Shrink { root: object }
            | Self::Collect { object }
            | Self::Place { object, .. } => *object,
        }
    }
}

impl Restructuring {
    /// Whether it may be one shard's part of a change of several.
    pub(crate) fn is_prepared(&self) -> bool {
        match self {
            Self::Create { .. }
            | Self::Remove { .. }
            | Self::Split { .. }
            | Self::Join { .. }
            | Self::Place { .. } => true,
            Self::Relink { .. } | Self::Grow { .. } | Self::Shrink { .. } | Self::Collect { .. } => false,
        }
    }

    /// The objects that nobody may change while it is prepared, and those that it makes.
    pub(crate) fn locked(&self) -> Vec<ObjectId> {
        match self {
            Self::Create { object } | Self::Remove { object } | Self::Place { object, .. } => vec![*object],
            Self::Split { object, cuts } => cuts.iter().map(|(_, into)| *into).chain([*object]).collect(),
            Self::Join { left, right } => vec![*left, *right],
            _ => Vec::new(),
        }
    }

    /// Whether cells come from another shard by it, or go there.
    pub(crate) fn moves(&self) -> bool {
        matches!(self, Self::Remove { .. } | Self::Place { .. })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create { object } => put_tagged(out, 0, *object),
            Self::Remove { object } => put_tagged(out, 1, *object),
            Self::Split { object, cuts } => {
                put_tagged(out, 2, *object);
                put_varint(out, cuts.len() as u64);
                for (key, into) in cuts {
                    put_bytes(out, key);
                    put_varint(out, into.0);
                }
            }
            Self::Join { left, right } => {
                put_tagged(out, 3, *left);
                put_varint(out, right.0);
            }
            Self::Place { object, moved } => {
                put_tagged(out, 4, *object);
                moved.encode(out);
            }
            Self::Relink { .. } | Self::Grow { .. } | Self::Shrink { .. } | Self::Collect { .. } => {
                unreachable!("never prepared")
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let tag = input.byte()?;
        let object = ObjectId(input.varint()?);
        Some(match tag {
            0 => Self::Create { object },
            1 => Self::Remove { object },
            2 => {
                let cut = |input: &mut Reader<'_>| Some((input.bytes()?.into(), ObjectId(input.varint()?)));
                Self::Split { object, cuts: list(input, cut)? }
            }
            3 => Self::Join { left: object, right: ObjectId(input.varint()?) },
            4 => Self::Place { object, moved: Moved::decode(input)? },
            _ => return None,
        })
    }
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, object: ObjectId) {
    out.push(tag);
    put_varint(out, object.0);
}

impl Moved {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.object);
        put_varint(out, self.touched.len() as u64);
        for (key, at) in &self.touched {
            put_bytes(out, key);
            put_varint(out, at.0);
        }
    }

    /// The next of a message or record.
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let object = input.bytes()?.into();
        let touched = list(input, |input| Some((input.bytes()?.into(), Timestamp::decode(input)?)))?;
        Some(Self { object, touched })
    }
}

impl Commit {
    /// Whether it is about objects of this shard alone.
    pub fn is_of(&self, shard: ShardId) -> bool {
        self.shards().all(|of| of == shard)
    }

    /// The shards of the objects that it names.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.objects().map(ObjectId::shard)
    }

    /// The objects that it names.
    fn objects(&self) -> impl Iterator<Item = ObjectId> {
        let written = self.writes.iter().map(|write| write.object);
        let named = self.required.iter().chain(&self.touched).map(|(object, _)| *object);
        let restructured = self.restructurings.iter().map(Restructuring::object);
        written.chain(named).chain(restructured)
    }

    /// Whether a client may ask this of a shard: it makes trees, and leaves to who keeps them how they grow, and to the shard what that
    /// keeps for itself.
    pub fn is_of_client(&self, shard: ShardId) -> bool {
        let makes = |restructuring: &Restructuring| match restructuring {
            Restructuring::Create { object } => object.number() < FIRST_RESERVED,
            _ => false,
        };
        self.restructurings.iter().all(makes)
            && self.objects().all(|object| object.shard() == shard && !object.is_reserved())
    }

    /// The parts of it by the shards of the objects that they name, and one for each of `all`.
    pub fn by_shard(self, all: impl IntoIterator<Item = ShardId>) -> BTreeMap<ShardId, Self> {
        let Self { snapshot, restructurings, writes, required, touched, is_exclusive } = self;
        let empty = Self { snapshot, is_exclusive, ..Self::default() };
        let mut parts = Parts { empty, parts: BTreeMap::new() };
        for shard in all {
            parts.of(shard);
        }
        for restructuring in restructurings {
            parts.of(restructuring.object().shard()).restructurings.push(restructuring);
        }
        for write in writes {
            parts.of(write.object.shard()).writes.push(write);
        }
        for cell in required {
            parts.of(cell.0.shard()).required.push(cell);
        }
        for cell in touched {
            parts.of(cell.0.shard()).touched.push(cell);
        }
        parts.parts
    }

    /// Appends it, but for restructurings that are never prepared, and for whether it is exclusive.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Self { snapshot, restructurings, writes, required, touched, is_exclusive: _ } = self;
        put_varint(out, snapshot.0);
        let prepared = restructurings.iter().filter(|restructuring| restructuring.is_prepared());
        put_varint(out, prepared.clone().count() as u64);
        prepared.for_each(|restructuring| restructuring.encode(out));
        put_varint(out, writes.len() as u64);
        for Write { object, cleared, changes } in writes {
            put_varint(out, object.0);
            put_varint(out, cleared.len() as u64);
            for interval in cleared {
                interval.encode(out);
            }
            changes.encode(out);
        }
        put_cells(out, required);
        put_cells(out, touched);
    }

    /// The next of a message or record; one that could be carried out.
    pub fn decode(is_exclusive: bool, input: &mut Reader<'_>) -> Option<Self> {
        let snapshot = Timestamp::decode(input)?;
        let restructurings = list(input, Restructuring::decode)?;
        let writes = list(input, |input| {
            let object = ObjectId(input.varint()?);
            let cleared = list(input, Interval::decode)?;
            Some(Write { object, cleared, changes: Changes::decode(input)? })
        })?;
        let required = list(input, cell)?;
        let touched = list(input, cell)?;
        // Two versions of a cell of one time could not be read back.
        let mut written = BTreeSet::new();
        let is_sound = writes.len() < 2 || writes.iter().all(|write| written.insert(write.object));
        is_sound.then_some(Self { snapshot, restructurings, writes, required, touched, is_exclusive })
    }
}

/// Appends which cells they are.
pub fn put_cells(out: &mut Vec<u8>, cells: &[(ObjectId, Key)]) {
    put_varint(out, cells.len() as u64);
    for (object, key) in cells {
        put_varint(out, object.0);
        put_bytes(out, key);
    }
}

/// Which cell is the next of a message or record.
pub fn cell(input: &mut Reader<'_>) -> Option<(ObjectId, Key)> {
    Some((ObjectId(input.varint()?), input.bytes()?.into()))
}
