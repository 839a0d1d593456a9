//! What shards tell each other.
//!
//! *Known as:* peer messages.

use fulmar_coding::{Reader, list, put_bytes, put_varint};
use fulmar_dbt::{Reshape, Shape};
use fulmar_kv::{Key, Moved, ObjectId, Outcome, ShardId, Timestamp};

/// What shards tell each other about a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// To its primary: what has become of it? Somebody has met its locks.
    Asked {
        /// The transaction's snapshot.
        snapshot: Timestamp,
        /// The snapshot of who wants to read; nothing, if he wants to write.
        reader: Option<Timestamp>,
    },
    /// By its primary: it is not decided, and will not take place at or before this time.
    Open(Timestamp),
    /// By its primary: it is decided.
    Ended(Outcome),
    /// To its primary: the shard has carried out the decision.
    Confirmed,
    /// By its primary: a part of a change of a tree's shape, to be prepared.
    Prepare {
        /// The change's snapshot.
        snapshot: Timestamp,
        /// The part.
        step: Step,
    },
    /// To its primary: the part is prepared, and can be carried out from this time on.
    Prepared(Timestamp, Ready),
    /// To its primary: the part cannot be prepared.
    Refused,
}

/// One shard's part of a change of a tree's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To cut a leaf at these keys.
    Split(ObjectId, Vec<Key>),
    /// To join two leaves, neighbours, if one of them is empty or they come to no more than so many bytes.
    Join(ObjectId, ObjectId, u64),
    /// To let a leaf go.
    Leave(ObjectId),
    /// To take it. Older snapshots than this do not see it as it was: where it has been, a server has forgotten them.
    Arrive(Moved, Timestamp),
}

/// What a shard has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Objects of these names will be here.
    Made(Vec<ObjectId>),
    /// This will go, and no older snapshot sees it as it was.
    Left(Moved, Timestamp),
}

pub(crate) fn put_reshape(out: &mut Vec<u8>, reshape: &Reshape) {
    let Reshape { root, leaf, low, shape } = reshape;
    put_varint(out, root.0);
    put_varint(out, leaf.0);
    put_bytes(out, low);
    match shape {
        Shape::Split(cuts) => {
            out.push(0);
            put_keys(out, cuts);
        }
        Shape::Join(bytes) => {
            out.push(1);
            put_varint(out, *bytes);
        }
        Shape::Move(to) => {
            out.push(2);
            put_varint(out, to.0.into());
        }
        Shape::Remove => out.push(3),
    }
}

pub(crate) fn reshape(input: &mut Reader<'_>) -> Option<Reshape> {
    let (root, leaf) = (object(input)?, object(input)?);
    let low = key(input)?;
    let shape = match input.byte()? {
        0 => Shape::Split(list(input, key)?),
        1 => Shape::Join(input.varint()?),
        2 => Shape::Move(ShardId::decode(input)?),
        3 => Shape::Remove,
        _ => return None,
    };
    Some(Reshape { root, leaf, low, shape })
}

impl PeerMessage {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (tag, times): (u8, &[Timestamp]) = match self {
            Self::Asked { snapshot, reader: None } => (0, &[*snapshot]),
            Self::Asked { snapshot, reader: Some(reader) } => (1, &[*snapshot, *reader]),
            Self::Open(seen) => (2, &[*seen]),
            Self::Ended(Outcome::Committed(at)) => (3, &[*at]),
            Self::Ended(Outcome::Aborted) => (4, &[]),
            Self::Confirmed => (5, &[]),
            Self::Prepare { snapshot, .. } => (6, &[*snapshot]),
            Self::Prepared(at, _) => (7, &[*at]),
            Self::Refused => (8, &[]),
        };
        out.push(tag);
        times.iter().for_each(|at| put_varint(out, at.0));
        match self {
            Self::Prepare { step, .. } => step.encode(out),
            Self::Prepared(_, ready) => ready.encode(out),
            _ => {}
        }
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let tag = input.byte()?;
        let mut time = || Timestamp::decode(input);
        Some(match tag {
            0 => Self::Asked { snapshot: time()?, reader: None },
            1 => Self::Asked { snapshot: time()?, reader: Some(time()?) },
            2 => Self::Open(time()?),
            3 => Self::Ended(Outcome::Committed(time()?)),
            4 => Self::Ended(Outcome::Aborted),
            5 => Self::Confirmed,
            6 => Self::Prepare { snapshot: time()?, step: Step::decode(input)? },
            7 => Self::Prepared(time()?, Ready::decode(input)?),
            8 => Self::Refused,
            _ => return None,
        })
    }
}

impl Step {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Split(leaf, cuts) => {
                out.push(0);
                put_varint(out, leaf.0);
                put_keys(out, cuts);
            }
            Self::Join(left, right, bytes) => {
                out.push(1);
                [left.0, right.0, *bytes].into_iter().for_each(|number| put_varint(out, number));
            }
            Self::Leave(leaf) => {
                out.push(2);
                put_varint(out, leaf.0);
            }
            Self::Arrive(moved, oldest) => {
                out.push(3);
                put_varint(out, oldest.0);
                moved.encode(out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(match input.byte()? {
            0 => Self::Split(object(input)?, list(input, key)?),
            1 => Self::Join(object(input)?, object(input)?, input.varint()?),
            2 => Self::Leave(object(input)?),
            3 => {
                let oldest = Timestamp::decode(input)?;
                Self::Arrive(Moved::decode(input)?, oldest)
            }
            _ => return None,
        })
    }
}

impl Ready {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Made(objects) => {
                out.push(0);
                put_varint(out, objects.len() as u64);
                objects.iter().for_each(|object| put_varint(out, object.0));
            }
            Self::Left(moved, oldest) => {
                out.push(1);
                put_varint(out, oldest.0);
                moved.encode(out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(match input.byte()? {
            0 => Self::Made(list(input, object)?),
            1 => {
                let oldest = Timestamp::decode(input)?;
                Self::Left(Moved::decode(input)?, oldest)
            }
            _ => return None,
        })
    }
}

fn put_keys(out: &mut Vec<u8>, keys: &[Key]) {
    put_varint(out, keys.len() as u64);
    keys.iter().for_each(|key| put_bytes(out, key));
}

fn key(input: &mut Reader<'_>) -> Option<Key> {
    input.bytes().map(Key::from)
}

fn object(input: &mut Reader<'_>) -> Option<ObjectId> {
    input.varint().map(ObjectId)
}
