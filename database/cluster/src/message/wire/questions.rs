//! How questions of clients are written.

use super::{put_transaction, transaction};
use crate::message::{Begun, Direction, Question, Sight};
use crate::name::DatabaseName;
use fulmar_coding::{Reader, list, put_bytes, put_varint};
use fulmar_kv::{
    Basis, Commit, Durability, Exclusion, Expected, ObjectId, Prepare, ShardId, Timestamp, TransactionId,
    cell, put_cells,
};
use std::sync::Arc;

pub(super) fn tag(question: &Question) -> u8 {
    match question {
        Question::OpenSnapshot => 0,
        Question::Newest => 1,
        Question::Read { begun: None, .. } => 2,
        Question::Read { begun: Some(_), .. } => 12,
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

pub(super) fn put_question(out: &mut Vec<u8>, question: &Question) {
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
        Question::Read { object, from, direction, at, bytes, begun } => {
            put_varint(out, object.0);
            out.push(*direction as u8);
            put_bytes(out, from);
            put_sight(out, at);
            put_varint(out, *bytes);
            if let Some(Begun { bytes, fingerprint }) = begun {
                put_varint(out, *bytes);
                put_varint(out, *fingerprint);
            }
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

pub(super) fn question(tag: u8, of: ShardId, input: &mut Reader<'_>) -> Option<Question> {
    Some(match tag {
        0 => Question::OpenSnapshot,
        1 => Question::Newest,
        2 | 12 => {
            let object = ObjectId(input.varint()?);
            let direction = match input.byte()? {
                0 => Direction::Up,
                1 => Direction::Down,
                2 => Direction::DownFromEnd,
                _ => return None,
            };
            let from = input.bytes()?.into();
            let at = sight(input)?;
            let bytes = input.varint()?;
            let begun = match tag {
                2 => None,
                _ => Some(Begun { bytes: input.varint()?, fingerprint: input.varint()? }),
            };
            Question::Read { object, from, direction, at, bytes, begun }
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
