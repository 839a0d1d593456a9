//! What the leader of a shard has its replicas do.

use fulmar_coding::{Reader, list, put_bytes, put_varint};
use fulmar_kv::ObjectId;
use fulmar_kv::STATE;
use fulmar_kv::engine::{Batch, EngineWrite};
use fulmar_replication::View;

/// An operation of the [`Entries`](super::Entries) of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From now on the leader of this view writes.
    Lead(View),
    /// It writes.
    Write {
        /// The view.
        view: View,
        /// How many batches it has made, with these.
        upto: u64,
        /// What was in them.
        batch: Batch,
    },
    /// A part of what it writes, if that is too large for one operation: a message that takes long keeps others waiting, and
    /// with them the sign that the leader is there.
    Part {
        /// The view.
        view: View,
        /// The next bytes of an encoded write.
        bytes: Vec<u8>,
        /// Whether they are the last: then it is written.
        is_last: bool,
    },
}

impl Operation {
    /// As the replicas are asked for it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Lead(view) => {
                out.push(0);
                view.encode(&mut out);
            }
            Self::Write { view, upto, batch } => {
                out.push(1);
                view.encode(&mut out);
                put_varint(&mut out, *upto);
                // It may be large: to grow would be to copy it.
                out.reserve(usize::try_from(batch.bytes()).unwrap_or_default());
                put_writes(&mut out, &batch.writes);
            }
            Self::Part { view, bytes, is_last } => {
                out.push(2);
                view.encode(&mut out);
                out.push(u8::from(*is_last));
                put_bytes(&mut out, bytes);
            }
        }
        out
    }

    /// Whether it is a write of the leader of this view.
    pub(super) fn is_of(&self, leader: View) -> bool {
        matches!(self, Self::Write { view, .. } if *view == leader)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let operation = match input.byte()? {
            0 => Self::Lead(View::decode(&mut input)?),
            1 => {
                let (view, upto) = (View::decode(&mut input)?, input.varint()?);
                Self::Write { view, upto, batch: Batch { writes: writes(&mut input)?, ..Batch::default() } }
            }
            2 => {
                let (view, is_last) = (View::decode(&mut input)?, input.byte()? == 1);
                Self::Part { view, bytes: input.bytes()?.into(), is_last }
            }
            _ => return None,
        };
        input.is_empty().then_some(operation)
    }
}

/// Of facts there is one.
pub(crate) fn put_writes(out: &mut Vec<u8>, writes: &[EngineWrite]) {
    put_varint(out, writes.len() as u64);
    for write in writes {
        match write {
            EngineWrite::Put { object, sequence, entry } => {
                out.push(0);
                put_varint(out, object.0);
                put_varint(out, *sequence);
                put_bytes(out, entry);
            }
            EngineWrite::Remove { object, sequence } => {
                out.push(1);
                put_varint(out, object.0);
                put_varint(out, *sequence);
            }
            EngineWrite::Fact { value, .. } => {
                out.push(2);
                put_bytes(out, value);
            }
        }
    }
}

pub(crate) fn writes(input: &mut Reader<'_>) -> Option<Vec<EngineWrite>> {
    list(input, |input| {
        Some(match input.byte()? {
            0 => {
                let (object, sequence) = (ObjectId(input.varint()?), input.varint()?);
                EngineWrite::Put { object, sequence, entry: input.bytes()?.into() }
            }
            1 => EngineWrite::Remove { object: ObjectId(input.varint()?), sequence: input.varint()? },
            2 => EngineWrite::Fact { name: STATE, value: input.bytes()?.into() },
            _ => return None,
        })
    })
}
