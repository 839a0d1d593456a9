//! How messages are written.
//!
//! A message is a byte that says what it is, the number of the question, and its parts; integers are varints (see
//! `wire`), byte strings begin with their length.

mod answers;
mod questions;

use super::{Chunk, MapRequest, Message};
use crate::map::{HandOver, Map, Replication};
use crate::name::{DatabaseName, DatabaseNumber};
use crate::peer::{self, PeerMessage, put_reshape};
use crate::status::{Load, Status};
use answers::{answer, answer_tag, put_answer};
use fulmar_coding::{Reader, list, number, put_bytes, put_varint, text};
use fulmar_kv::{ObjectId, ShardId, Timestamp, TransactionId};
use fulmar_node::NodeId;
use fulmar_replication::{Group, SequenceNumber, View};
use fulmar_transport::{Malformed, Wire};
use questions::{put_question, question, tag};

/// The lists of a question take at most so many times its bytes. Those of a commit of tiny rows, each in a leaf of its own, take six times.
const QUESTION_IN_MEMORY: usize = 8;
/// Those of what servers tell: a map of databases with short names on one server takes eleven times.
const NEWS_IN_MEMORY: usize = 16;

impl Wire for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Question { number, again, database, shard, question } => {
                out.push(tag(question));
                put_varint(out, *number << 1 | u64::from(*again));
                put_varint(out, database.0.into());
                put_varint(out, shard.0.into());
                put_question(out, question);
            }
            Self::Answer { number, answer } => {
                out.push(answer_tag(answer));
                put_varint(out, *number);
                put_answer(out, answer);
            }
            Self::SnapshotClosed(at) => {
                out.push(32);
                put_varint(out, at.0);
            }
            Self::GivenUp(database, shard, transaction) => {
                out.push(33);
                put_place(out, *database, *shard);
                put_transaction(out, *transaction);
            }
            Self::Transaction { database, shard, from, transaction, said } => {
                out.push(34);
                put_place(out, *database, *shard);
                put_varint(out, from.0.into());
                put_transaction(out, *transaction);
                said.encode(out);
            }
            Self::Clock { number, reached, goes_on, oldest } => {
                out.push(35);
                put_varint(out, *number);
                put_varint(out, reached.0);
                put_varint(out, *goes_on);
                put_varint(out, oldest.0);
            }
            Self::Time { number, now, reached, watermark, map } => {
                out.push(36);
                put_varint(out, *number);
                put_varint(out, now.0);
                put_varint(out, reached.0);
                put_varint(out, watermark.0);
                put_varint(out, *map);
            }
            Self::Ask(MapRequest::Newer(version)) => {
                out.push(37);
                put_varint(out, *version);
            }
            Self::Ask(MapRequest::Join(address)) => {
                out.push(41);
                put_bytes(out, address.as_bytes());
            }
            Self::Ask(MapRequest::Database { name, create }) => {
                out.push(38);
                out.push(u8::from(*create));
                put_bytes(out, name.as_bytes());
            }
            Self::Examine => out.push(42),
            Self::Ask(MapRequest::Drain(address)) => {
                out.push(47);
                put_bytes(out, address.as_bytes());
            }
            Self::Ask(MapRequest::Replicate(replication)) => {
                out.push(57);
                replication.encode(out);
            }
            Self::Ask(MapRequest::Leave(database, shard, HandOver { to, attempt })) => {
                out.push(48);
                put_place(out, *database, *shard);
                put_varint(out, to.0.into());
                put_varint(out, *attempt);
            }
            Self::Ask(MapRequest::HandOver(database, shard, attempt)) => {
                out.push(51);
                put_place(out, *database, *shard);
                put_varint(out, *attempt);
            }
            Self::Ask(MapRequest::Begin(database, shard, life)) => {
                out.push(55);
                put_place(out, *database, *shard);
                put_varint(out, *life);
            }
            Self::Ask(MapRequest::Lead(database, shard, view, members)) => {
                out.push(56);
                put_place(out, *database, *shard);
                view.encode(out);
                members.encode(out);
            }
            Self::Replication { database, shard, message } => {
                out.push(52);
                put_place(out, *database, *shard);
                message.encode(out);
            }
            Self::Copy { database, shard, from, upto, offset } => {
                out.push(53);
                put_place(out, *database, *shard);
                [from.0, upto.0, *offset].into_iter().for_each(|number| put_varint(out, number));
            }
            Self::Copied { database, shard, chunk } => {
                out.push(54);
                put_place(out, *database, *shard);
                let Chunk { from, upto, size, offset, bytes } = chunk;
                [from.0, upto.0, *size, *offset].into_iter().for_each(|number| put_varint(out, number));
                out.extend(bytes);
            }
            Self::HandOver { database, shard, attempt, number, objects, last } => {
                out.push(49);
                put_place(out, *database, *shard);
                put_varint(out, *attempt);
                put_varint(out, *number);
                put_varint(out, objects.len() as u64);
                for (object, bytes) in objects {
                    put_varint(out, object.0);
                    put_bytes(out, bytes);
                }
                if let Some((last, next_object)) = last {
                    put_varint(out, last.0);
                    put_varint(out, *next_object);
                }
            }
            Self::Arrived { database, shard, attempt, number } => {
                out.push(50);
                put_place(out, *database, *shard);
                put_varint(out, *attempt);
                put_varint(out, *number);
            }
            Self::Load(load) => {
                out.push(45);
                load.encode(out);
            }
            Self::Loads(loads) => {
                out.push(46);
                put_varint(out, loads.len() as u64);
                for (server, load) in loads {
                    put_varint(out, server.0.into());
                    load.encode(out);
                }
            }
            Self::Reshape { database, reshape } => {
                out.push(44);
                put_varint(out, database.0.into());
                put_reshape(out, reshape);
            }
            Self::Status(status) => {
                out.push(43);
                status.encode(out);
            }
            Self::Map { map, about } => {
                out.push(if about.is_some() { 40 } else { 39 });
                if let Some(about) = about {
                    put_bytes(out, about.as_bytes());
                }
                map.encode(out);
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let is_question = bytes.first().is_some_and(|tag| *tag < 16);
        let mut input = Reader::bounded(bytes, if is_question { QUESTION_IN_MEMORY } else { NEWS_IN_MEMORY });
        let message = decode(&mut input).filter(|_| input.is_empty());
        message.ok_or_else(|| Malformed::new("not a message between storage servers and their clients"))
    }
}

fn decode(input: &mut Reader<'_>) -> Option<Message> {
    let tag = input.byte()?;
    Some(match tag {
        0..16 => {
            let number = input.varint()?;
            let (database, shard) = place(input)?;
            let question = question(tag, shard, input)?;
            Message::Question { number: number >> 1, again: number & 1 == 1, database, shard, question }
        }
        16..32 => Message::Answer { number: input.varint()?, answer: answer(tag, input)? },
        32 => Message::SnapshotClosed(Timestamp::decode(input)?),
        33 => {
            let (database, shard) = place(input)?;
            Message::GivenUp(database, shard, transaction(input)?)
        }
        34 => {
            let (database, shard) = place(input)?;
            let from = ShardId::decode(input)?;
            Message::Transaction {
                database,
                shard,
                from,
                transaction: transaction(input)?,
                said: PeerMessage::decode(input)?,
            }
        }
        35 => {
            let number = input.varint()?;
            let reached = Timestamp::decode(input)?;
            let goes_on = input.varint()?;
            Message::Clock { number, reached, goes_on, oldest: Timestamp::decode(input)? }
        }
        36 => {
            let number = input.varint()?;
            let now = Timestamp::decode(input)?;
            let reached = Timestamp::decode(input)?;
            let watermark = Timestamp::decode(input)?;
            Message::Time { number, now, reached, watermark, map: input.varint()? }
        }
        37 => Message::Ask(MapRequest::Newer(input.varint()?)),
        38 => Message::Ask(MapRequest::Database {
            create: input.byte()? == 1,
            name: DatabaseName::decode(input)?,
        }),
        39 => Message::Map { about: None, map: Map::decode(input)? },
        40 => Message::Map { about: Some(DatabaseName::decode(input)?), map: Map::decode(input)? },
        42 => Message::Examine,
        43 => Message::Status(Status::decode(input)?),
        47 => Message::Ask(MapRequest::Drain(text(input)?)),
        48 => {
            let (database, shard) = place(input)?;
            let hand_over = HandOver { to: NodeId(number(input)?), attempt: input.varint()? };
            Message::Ask(MapRequest::Leave(database, shard, hand_over))
        }
        51 => {
            let (database, shard) = place(input)?;
            Message::Ask(MapRequest::HandOver(database, shard, input.varint()?))
        }
        49 => {
            let (database, shard) = place(input)?;
            let (attempt, number) = (input.varint()?, input.varint()?);
            let object = |input: &mut Reader<'_>| Some((ObjectId(input.varint()?), input.bytes()?.into()));
            let objects = list(input, object)?;
            let last = match input.is_empty() {
                true => None,
                false => Some((Timestamp::decode(input)?, input.varint()?)),
            };
            Message::HandOver { database, shard, attempt, number, objects, last }
        }
        50 => {
            let (database, shard) = place(input)?;
            Message::Arrived { database, shard, attempt: input.varint()?, number: input.varint()? }
        }
        45 => Message::Load(Load::decode(input)?),
        46 => {
            let load = |input: &mut Reader<'_>| Some((NodeId(number(input)?), Load::decode(input)?));
            Message::Loads(list(input, load)?.into_iter().collect())
        }
        44 => {
            let database = number(input).map(DatabaseNumber)?;
            Message::Reshape { database, reshape: peer::reshape(input)? }
        }
        41 => Message::Ask(MapRequest::Join(text(input)?)),
        52 => {
            let (database, shard) = place(input)?;
            let message = fulmar_replication::Message::decode(input.take_rest()).ok()?;
            Message::Replication { database, shard, message: Box::new(message) }
        }
        53 => {
            let (database, shard) = place(input)?;
            let (from, upto) = (ObjectId(input.varint()?), SequenceNumber(input.varint()?));
            Message::Copy { database, shard, from, upto, offset: input.varint()? }
        }
        54 => {
            let (database, shard) = place(input)?;
            let (from, upto) = (ObjectId(input.varint()?), SequenceNumber(input.varint()?));
            let (size, offset) = (input.varint()?, input.varint()?);
            let chunk = Chunk { from, upto, size, offset, bytes: input.take_rest().to_vec() };
            Message::Copied { database, shard, chunk }
        }
        55 => {
            let (database, shard) = place(input)?;
            Message::Ask(MapRequest::Begin(database, shard, input.varint()?))
        }
        56 => {
            let (database, shard) = place(input)?;
            Message::Ask(MapRequest::Lead(database, shard, View::decode(input)?, Group::decode(input)?))
        }
        57 => Message::Ask(MapRequest::Replicate(Replication::decode(input)?)),
        _ => return None,
    })
}

fn put_place(out: &mut Vec<u8>, database: DatabaseNumber, shard: ShardId) {
    put_varint(out, database.0.into());
    put_varint(out, shard.0.into());
}

fn place(input: &mut Reader<'_>) -> Option<(DatabaseNumber, ShardId)> {
    Some((number(input).map(DatabaseNumber)?, ShardId::decode(input)?))
}

fn put_transaction(out: &mut Vec<u8>, transaction: TransactionId) {
    put_varint(out, transaction.client);
    put_varint(out, transaction.number);
}

fn transaction(input: &mut Reader<'_>) -> Option<TransactionId> {
    Some(TransactionId { client: input.varint()?, number: input.varint()? })
}
