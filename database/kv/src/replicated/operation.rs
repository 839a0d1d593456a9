//! What the leader of a group has its replicas do.

use crate::ObjectId;
use crate::core::Core;
use crate::engine::{Batch, EngineWrite};
use fulmar_replication::View;
use fulmar_transport::coding::{Reader, list, put_bytes, put_varint};

/// An operation of the [`Entries`](super::Entries) of a group.
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
                put_writes(&mut out, &batch.writes);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let operation = match input.byte()? {
            0 => Self::Lead(View::decode(&mut input)?),
            1 => {
                let (view, upto) = (View::decode(&mut input)?, input.varint()?);
                Self::Write { view, upto, batch: Batch { writes: writes(&mut input)? } }
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
            2 => EngineWrite::Fact { name: Core::STATE, value: input.bytes()?.into() },
            _ => return None,
        })
    })
}
