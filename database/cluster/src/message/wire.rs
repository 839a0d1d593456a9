//! How messages are written.
//!
//! A message is a byte that says what it is, the number of the question, and its parts; integers are varints (see
//! `wire`), byte strings begin with their length.

use super::{Answer, Chunk, DatabaseNumber, Direction, Failed, MapRequest, Message, Question, Sight};
use crate::map::{HandOver, Layout, Map, Replication};
use crate::name::DatabaseName;
use crate::peer::{self, PeerMessage, put_reshape};
use crate::server::Load;
use crate::status::Status;
use fulmar_coding::{Reader, list, number, put_bytes, put_varint, text};
use fulmar_kv::Object;
use fulmar_kv::{
    Basis, Commit, Durability, Exclusion, Expected, ObjectId, Prepare, ShardId, Timestamp, TransactionId,
};
use fulmar_kv::{cell, put_cells};
use fulmar_node::NodeId;
use fulmar_replication::{Group, SequenceNumber, View};
use fulmar_transport::{Malformed, Wire};
use std::sync::Arc;

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

fn tag(question: &Question) -> u8 {
    match question {
        Question::OpenSnapshot => 0,
        Question::Newest => 1,
        Question::Read { .. } => 2,
        Question::Commit(..) => 3,
        Question::Open { .. } => 4,
        Question::Prepare(..) => 5,
        Question::Decide(..) => 6,
        Question::CommitUnread(..) => 7,
        Question::ReopenSnapshot(_) => 8,
        Question::Pick { .. } => 9,
        Question::Exclude(_) => 10,
        Question::Size => 11,
    }
}

fn put_question(out: &mut Vec<u8>, question: &Question) {
    match question {
        Question::OpenSnapshot | Question::Newest | Question::Size => {}
        Question::ReopenSnapshot(at) => put_varint(out, at.0),
        Question::Pick { tree, next, count, at } => {
            put_varint(out, tree.0);
            put_varint(out, next.cast_unsigned());
            put_varint(out, count.cast_unsigned());
            put_varint(out, at.0);
        }
        Question::Exclude(exclusion) => out.push(*exclusion as u8),
        Question::Open { name, create } => {
            out.push(u8::from(*create));
            put_bytes(out, name.as_bytes());
        }
        Question::Read { object, from, direction, at, bytes } => {
            put_varint(out, object.0);
            out.push(*direction as u8);
            put_bytes(out, from);
            put_sight(out, at);
            put_varint(out, *bytes);
        }
        Question::Commit(transaction, commit, durability) => {
            put_transaction(out, *transaction);
            put_durability(out, *durability);
            put_commit(out, commit);
        }
        Question::CommitUnread(transaction, commit, Basis { present, expected, after }, durability) => {
            put_transaction(out, *transaction);
            put_durability(out, *durability);
            put_varint(out, after.0);
            put_cells(out, present);
            put_sight(out, &Sight::New(expected.clone()));
            put_commit(out, commit);
        }
        Question::Prepare(Prepare { transaction, primary, others, commit }) => {
            put_transaction(out, *transaction);
            put_varint(out, primary.0.into());
            put_varint(out, others.len() as u64);
            others.iter().for_each(|shard| put_varint(out, shard.0.into()));
            put_commit(out, commit);
        }
        Question::Decide(transaction, at, durability) => {
            put_durability(out, *durability);
            put_transaction(out, *transaction);
            put_varint(out, at.0);
        }
    }
}

fn question(tag: u8, of: ShardId, input: &mut Reader<'_>) -> Option<Question> {
    Some(match tag {
        0 => Question::OpenSnapshot,
        1 => Question::Newest,
        2 => {
            let object = ObjectId(input.varint()?);
            let direction = match input.byte()? {
                0 => Direction::Up,
                1 => Direction::Down,
                2 => Direction::DownFromEnd,
                _ => return None,
            };
            let from = input.bytes()?.into();
            let at = sight(input)?;
            Question::Read { object, from, direction, at, bytes: input.varint()? }
        }
        3 => {
            let (transaction, durability) = (transaction_of_client(input)?, durability(input)?);
            Question::Commit(transaction, Arc::new(commit(of, input)?), durability)
        }
        4 => Question::Open { create: input.byte()? == 1, name: DatabaseName::decode(input)? },
        5 => {
            let transaction = transaction_of_client(input)?;
            let primary = ShardId::decode(input)?;
            let others = list(input, ShardId::decode)?;
            if !others.is_sorted_by(|a, b| a < b) || others.contains(&primary) {
                return None;
            }
            let commit = commit(of, input)?;
            Question::Prepare(Prepare { transaction, primary, others, commit })
        }
        6 => {
            let durability = durability(input)?;
            Question::Decide(transaction_of_client(input)?, Timestamp::decode(input)?, durability)
        }
        7 => {
            let (transaction, durability) = (transaction_of_client(input)?, durability(input)?);
            let after = Timestamp::decode(input)?;
            let present = list(input, cell)?;
            let Sight::New(expected) = sight(input)? else { return None };
            let basis = Basis { present, expected, after };
            Question::CommitUnread(transaction, Arc::new(commit(of, input)?), basis, durability)
        }
        8 => Question::ReopenSnapshot(Timestamp::decode(input)?),
        9 => {
            let tree = ObjectId(input.varint()?);
            let next = input.varint()?.cast_signed();
            let count = input.varint()?.cast_signed();
            Question::Pick { tree, next, count, at: Timestamp::decode(input)? }
        }
        10 => Question::Exclude(match input.byte()? {
            0 => Exclusion::Begin,
            1 => Exclusion::End,
            2 => Exclusion::Look,
            _ => return None,
        }),
        11 => Question::Size,
        _ => return None,
    })
}

fn put_commit(out: &mut Vec<u8>, commit: &Commit) {
    out.push(u8::from(commit.is_exclusive));
    commit.encode(out);
}

fn commit(of: ShardId, input: &mut Reader<'_>) -> Option<Commit> {
    let is_exclusive = match input.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Commit::decode(is_exclusive, input).filter(|commit| commit.is_of_client(of))
}

fn answer_tag(answer: &Answer) -> u8 {
    match answer {
        Answer::At(_) => 16,
        Answer::Object(_) => 17,
        Answer::Nothing => 18,
        Answer::Misplaced => 19,
        Answer::Failed(_) => 20,
        Answer::Unknown => 21,
        Answer::Open(..) => 22,
        Answer::Elsewhere => 23,
        Answer::Opened(..) => 24,
        Answer::Unexpected => 25,
        Answer::Picked(_) => 26,
        Answer::Granted => 27,
        Answer::Size(_) => 28,
    }
}

fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::At(at) => put_varint(out, at.0),
        Answer::Picked(first) => put_varint(out, first.cast_unsigned()),
        Answer::Size(bytes) => put_varint(out, *bytes),
        Answer::Object(object) => {
            put_varint(out, object.id().0);
            object.encode(out);
        }
        Answer::Open(layout, reached) => {
            put_varint(out, reached.0);
            layout.encode(out);
        }
        Answer::Opened(at, object) => {
            put_varint(out, at.0);
            if let Some(object) = object {
                put_varint(out, object.id().0);
                object.encode(out);
            }
        }
        Answer::Nothing
        | Answer::Misplaced
        | Answer::Unknown
        | Answer::Elsewhere
        | Answer::Unexpected
        | Answer::Granted => {}
        Answer::Failed(failed) => {
            let (tag, what) = match failed {
                Failed::Conflict => (0, ""),
                Failed::TooLarge => (1, ""),
                Failed::Corrupt(what) => (2, what.as_str()),
                Failed::Full(what) => (3, what.as_str()),
                Failed::Other(what) => (4, what.as_str()),
                Failed::SnapshotGone => (5, ""),
                Failed::Missing(what) => (6, what.as_str()),
                Failed::Excluded => (7, ""),
                Failed::TooMuch(what) => (8, what.as_str()),
            };
            out.push(tag);
            put_bytes(out, what.as_bytes());
        }
    }
}

fn answer(tag: u8, input: &mut Reader<'_>) -> Option<Answer> {
    Some(match tag {
        16 => Answer::At(Timestamp::decode(input)?),
        17 => Answer::Object(object(input)?),
        18 => Answer::Nothing,
        19 => Answer::Misplaced,
        20 => {
            let tag = input.byte()?;
            let what = String::from_utf8_lossy(input.bytes()?).into_owned();
            Answer::Failed(match tag {
                0 => Failed::Conflict,
                1 => Failed::TooLarge,
                2 => Failed::Corrupt(what),
                3 => Failed::Full(what),
                4 => Failed::Other(what),
                5 => Failed::SnapshotGone,
                6 => Failed::Missing(what),
                7 => Failed::Excluded,
                8 => Failed::TooMuch(what),
                _ => return None,
            })
        }
        21 => Answer::Unknown,
        22 => {
            let reached = Timestamp::decode(input)?;
            Answer::Open(Layout::decode(input)?, reached)
        }
        23 => Answer::Elsewhere,
        24 => {
            let at = Timestamp::decode(input)?;
            let object = if input.is_empty() { None } else { Some(object(input)?) };
            Answer::Opened(at, object)
        }
        25 => Answer::Unexpected,
        26 => Answer::Picked(input.varint()?.cast_signed()),
        27 => Answer::Granted,
        28 => Answer::Size(input.varint()?),
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

fn transaction_of_client(input: &mut Reader<'_>) -> Option<TransactionId> {
    transaction(input).filter(|transaction| transaction.is_of_client())
}

fn put_durability(out: &mut Vec<u8>, durability: Durability) {
    out.push(u8::from(durability == Durability::Synced));
}

fn durability(input: &mut Reader<'_>) -> Option<Durability> {
    match input.byte()? {
        0 => Some(Durability::Written),
        1 => Some(Durability::Synced),
        _ => None,
    }
}

/// All that is left.
fn object(input: &mut Reader<'_>) -> Option<Arc<Object>> {
    let id = ObjectId(input.varint()?);
    Object::decode(id, input.take_rest()).map(Arc::new)
}

fn put_sight(out: &mut Vec<u8>, sight: &Sight) {
    match sight {
        Sight::Open(at) => {
            out.push(0);
            put_varint(out, at.0);
        }
        Sight::New(expected) => put_expected(out, 1, expected.as_ref()),
        Sight::Once(expected) => put_expected(out, 4, expected.as_ref()),
    }
}

/// After a tag, which is one of three from `tag` on.
fn put_expected(out: &mut Vec<u8>, tag: u8, expected: Option<&Expected>) {
    let Some(Expected { object, key, value }) = expected else { return out.push(tag) };
    out.push(if value.is_some() { tag + 2 } else { tag + 1 });
    put_varint(out, object.0);
    put_bytes(out, key);
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

fn sight(input: &mut Reader<'_>) -> Option<Sight> {
    let tag = input.byte()?;
    Some(match tag {
        0 => Sight::Open(Timestamp::decode(input)?),
        1..=3 => Sight::New(expected(tag - 1, input)?),
        4..=6 => Sight::Once(expected(tag - 4, input)?),
        _ => return None,
    })
}

fn expected(kind: u8, input: &mut Reader<'_>) -> Option<Option<Expected>> {
    if kind == 0 {
        return Some(None);
    }
    let (object, key) = cell(input)?;
    let value = if kind == 2 { Some(input.bytes()?.into()) } else { None };
    Some(Some(Expected { object, key, value }))
}
