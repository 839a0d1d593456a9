//! How answers to clients are written.

use crate::map::Layout;
use crate::message::{Answer, Failed, Found, Piece};
use fulmar_coding::{Reader, put_bytes, put_varint};
use fulmar_kv::{Object, ObjectId, Timestamp};
use std::sync::Arc;

pub(super) fn answer_tag(answer: &Answer) -> u8 {
    match answer {
        Answer::At(_) => 16,
        Answer::Found(Found::Object(_)) => 17,
        Answer::Nothing => 18,
        Answer::Misplaced => 19,
        Answer::Failed(_) => 20,
        Answer::Unknown => 21,
        Answer::Open(..) => 22,
        Answer::Elsewhere => 23,
        Answer::Opened(_, None | Some(Found::Object(_))) => 24,
        Answer::Unexpected => 25,
        Answer::Picked(_) => 26,
        Answer::Granted => 27,
        Answer::Size(_) => 28,
        Answer::Found(Found::Piece(_)) => 29,
        Answer::Opened(_, Some(Found::Piece(_))) => 30,
    }
}

pub(super) fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::At(at) => put_varint(out, at.0),
        Answer::Picked(first) => put_varint(out, first.cast_unsigned()),
        Answer::Size(bytes) => put_varint(out, *bytes),
        Answer::Found(found) => put_found(out, found),
        Answer::Open(layout, reached) => {
            put_varint(out, reached.0);
            layout.encode(out);
        }
        Answer::Opened(at, found) => {
            put_varint(out, at.0);
            found.iter().for_each(|found| put_found(out, found));
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

pub(super) fn answer(tag: u8, input: &mut Reader<'_>) -> Option<Answer> {
    Some(match tag {
        16 => Answer::At(Timestamp::decode(input)?),
        17 => Answer::Found(object(input)?),
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
        29 => Answer::Found(piece(input)?),
        30 => Answer::Opened(Timestamp::decode(input)?, Some(piece(input)?)),
        _ => return None,
    })
}

fn put_found(out: &mut Vec<u8>, found: &Found) {
    match found {
        Found::Object(object) => {
            put_varint(out, object.id().0);
            object.encode(out);
        }
        Found::Piece(Piece { object, size, fingerprint, offset, bytes }) => {
            for number in [object.0, *size, *fingerprint, *offset] {
                put_varint(out, number);
            }
            put_bytes(out, bytes);
        }
    }
}

/// All that is left.
fn object(input: &mut Reader<'_>) -> Option<Found> {
    let id = ObjectId(input.varint()?);
    Object::decode(id, input.take_rest()).map(|object| Found::Object(Arc::new(object)))
}

fn piece(input: &mut Reader<'_>) -> Option<Found> {
    Some(Found::Piece(Piece {
        object: ObjectId(input.varint()?),
        size: input.varint()?,
        fingerprint: input.varint()?,
        offset: input.varint()?,
        bytes: input.bytes()?.into(),
    }))
}
