//! What clients and servers say to each other, and how it is written.
//!
//! A message is a byte that says what it is, the number of the question, and its parts; integers are varints (see
//! `wire`), byte strings begin with their length.

use crate::object::{Change, Object};
use crate::wire::{Reader, put_bytes, put_varint};
use crate::{
    Basis, Commit, Durability, Error, Expected, Interval, Key, ObjectId, Part, Restructuring, Timestamp,
    Write,
};
use fulmar_transport::{Malformed, Wire};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The version of these messages.
pub const VERSION: u32 = 1;

/// A question, its answer, or something that is not answered.
#[derive(Clone, Debug)]
pub enum Message {
    /// From a client.
    Question {
        /// Counts the client's questions.
        number: u64,
        /// Whether it may have been asked before.
        again: bool,
        /// Of which database; any number, to open one.
        database: DatabaseNumber,
        /// What it asks.
        question: Question,
    },
    /// From a server.
    Answer {
        /// Of the question.
        number: u64,
        /// What it is.
        answer: Answer,
    },
    /// From a client: it has ended a snapshot of a database.
    SnapshotClosed(DatabaseNumber, Timestamp),
}

/// Names an open database, for as long as the server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseNumber(pub u32);

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// To open a database.
    Open {
        /// Its name on the server.
        name: String,
        /// Whether to make it, if there is none.
        create: bool,
    },
    /// See [`crate::Store::open_snapshot`].
    OpenSnapshot,
    /// See [`crate::Store::newest`].
    Newest,
    /// See [`crate::Store::read`].
    Read {
        /// The object.
        object: ObjectId,
        /// Where the part that is asked for begins, and in which direction it goes on.
        from: Key,
        /// In which direction.
        direction: Direction,
        /// The snapshot, or what it must hold: then it is opened.
        at: Sight,
        /// How many bytes of cells are wanted, about.
        bytes: u64,
    },
    /// See [`crate::Store::commit`].
    Commit(Commit, Durability),
    /// See [`crate::Store::commit_unread`].
    CommitUnread(Commit, Basis, Durability),
}

/// What a reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// A snapshot that is open.
    Open(Timestamp),
    /// One that is opened now; and perhaps what it must hold.
    New(Option<Expected>),
}

/// In which direction a reader goes on from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the key on.
    Up,
    /// Before the key.
    Down,
    /// From the end of all keys; the key is empty.
    DownFromEnd,
}

/// What a server may answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The database is open.
    Open(DatabaseNumber),
    /// The server does not know the number: it has begun anew.
    Closed,
    /// A snapshot or commit.
    At(Timestamp),
    /// An object or a part of it.
    Object(Arc<Object>),
    /// A snapshot was opened, and this is what it sees.
    Opened(Timestamp, Option<Arc<Object>>),
    /// It does not hold what it must, and was not opened.
    Unexpected,
    /// There is no such object, or it does not hold what was asked for.
    Nothing,
    /// The commit named an object that does not hold its cells.
    Misplaced,
    /// The commit, asked for again, conflicts: with somebody else's, or with itself, if it has taken place already.
    Unknown,
    /// See [`Error`].
    Failed(Failed),
}

/// An [`Error`] on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// [`Error::Conflict`].
    Conflict,
    /// [`Error::TooLarge`].
    TooLarge,
    /// [`Error::SnapshotGone`].
    SnapshotGone,
    /// [`Error::Corrupt`].
    Corrupt(String),
    /// [`Error::Io`] of a full disk.
    Full(String),
    /// [`Error::Io`] of a database that there is not.
    Missing(String),
    /// Any other error.
    Other(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Conflict => Self::Conflict,
            Error::TooLarge => Self::TooLarge,
            Error::SnapshotGone => Self::SnapshotGone,
            Error::Corrupt { what, .. } => Self::Corrupt(what),
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => Self::Full(source.to_string()),
                io::ErrorKind::NotFound => Self::Missing(source.to_string()),
                _ => Self::Other(source.to_string()),
            },
            error => Self::Other(error.to_string()),
        }
    }
}

impl Failed {
    /// The error, as the client of this server sees it.
    pub(crate) fn at(self, server: &std::path::Path) -> Error {
        let path = PathBuf::from(server);
        let io = |kind, what: String| Error::Io { path: server.into(), source: io::Error::new(kind, what) };
        match self {
            Self::Conflict => Error::Conflict,
            Self::TooLarge => Error::TooLarge,
            Self::SnapshotGone => Error::SnapshotGone,
            Self::Corrupt(what) => Error::Corrupt { path, what },
            Self::Full(what) => io(io::ErrorKind::StorageFull, what),
            Self::Missing(what) => io(io::ErrorKind::NotFound, what),
            Self::Other(what) => io(io::ErrorKind::Other, what),
        }
    }
}

impl Question {
    pub(crate) fn read(object: ObjectId, part: Part<'_>, at: Sight, bytes: u64) -> Self {
        let (from, direction) = match part {
            Part::From(key) => (key, Direction::Up),
            Part::Before(Some(key)) => (key, Direction::Down),
            Part::Before(None) => (&[][..], Direction::DownFromEnd),
        };
        Self::Read { object, from: from.into(), direction, at, bytes }
    }
}

impl Direction {
    pub(crate) fn part(self, from: &[u8]) -> Part<'_> {
        match self {
            Self::Up => Part::From(from),
            Self::Down => Part::Before(Some(from)),
            Self::DownFromEnd => Part::Before(None),
        }
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Question { number, again, database, question } => {
                let tag = match question {
                    Question::OpenSnapshot => 0,
                    Question::Newest => 1,
                    Question::Read { .. } => 2,
                    Question::Commit(..) => 3,
                    Question::Open { .. } => 4,
                    Question::CommitUnread(..) => 5,
                };
                out.push(tag);
                put_varint(out, *number << 1 | u64::from(*again));
                put_varint(out, database.0.into());
                match question {
                    Question::OpenSnapshot | Question::Newest => {}
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
                    Question::Commit(commit, durability) => {
                        out.push(u8::from(*durability == Durability::Synced));
                        put_commit(out, commit);
                    }
                    Question::CommitUnread(commit, Basis { present, expected }, durability) => {
                        out.push(u8::from(*durability == Durability::Synced));
                        put_cells(out, present);
                        put_sight(out, &Sight::New(expected.clone()));
                        put_commit(out, commit);
                    }
                }
            }
            Self::Answer { number, answer } => {
                let tag = match answer {
                    Answer::At(_) => 8,
                    Answer::Object(_) => 9,
                    Answer::Nothing => 10,
                    Answer::Misplaced => 11,
                    Answer::Failed(_) => 12,
                    Answer::Unknown => 13,
                    Answer::Open(_) => 14,
                    Answer::Closed => 15,
                    Answer::Opened(..) => 17,
                    Answer::Unexpected => 18,
                };
                out.push(tag);
                put_varint(out, *number);
                match answer {
                    Answer::At(at) => put_varint(out, at.0),
                    Answer::Object(object) => {
                        put_varint(out, object.id().0);
                        object.encode(out);
                    }
                    Answer::Open(database) => put_varint(out, database.0.into()),
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
                    | Answer::Closed
                    | Answer::Unexpected => {}
                    Answer::Failed(failed) => {
                        let (tag, what) = match failed {
                            Failed::Conflict => (0, ""),
                            Failed::TooLarge => (1, ""),
                            Failed::Corrupt(what) => (2, what.as_str()),
                            Failed::Full(what) => (3, what.as_str()),
                            Failed::Other(what) => (4, what.as_str()),
                            Failed::SnapshotGone => (5, ""),
                            Failed::Missing(what) => (6, what.as_str()),
                        };
                        out.push(tag);
                        put_bytes(out, what.as_bytes());
                    }
                }
            }
            Self::SnapshotClosed(database, at) => {
                out.push(16);
                put_varint(out, at.0);
                put_varint(out, database.0.into());
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let message = decode(&mut input).filter(|_| input.is_empty());
        message.ok_or_else(|| Malformed::new("not a message between storage servers and their clients"))
    }
}

fn decode(input: &mut Reader<'_>) -> Option<Message> {
    let tag = input.byte()?;
    let number = input.varint()?;
    let database = if tag < 8 || tag == 16 { database(input)? } else { DatabaseNumber::default() };
    let question = |question| {
        Some(Message::Question { number: number >> 1, again: number & 1 == 1, database, question })
    };
    let answer = |answer| Some(Message::Answer { number, answer });
    match tag {
        0 => question(Question::OpenSnapshot),
        1 => question(Question::Newest),
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
            let bytes = input.varint()?;
            question(Question::Read { object, from, direction, at, bytes })
        }
        3 => {
            let durability = durability(input)?;
            question(Question::Commit(commit(input)?, durability))
        }
        5 => {
            let durability = durability(input)?;
            let present = list(input, cell)?;
            let Sight::New(expected) = sight(input)? else { return None };
            question(Question::CommitUnread(commit(input)?, Basis { present, expected }, durability))
        }
        4 => {
            let create = input.byte()? == 1;
            let name = String::from_utf8(input.bytes()?.into()).ok()?;
            question(Question::Open { name, create })
        }
        8 => answer(Answer::At(Timestamp(input.varint()?))),
        9 => answer(Answer::Object(object(input)?)),
        17 => {
            let at = Timestamp(input.varint()?);
            let object = if input.is_empty() { None } else { Some(object(input)?) };
            answer(Answer::Opened(at, object))
        }
        18 => answer(Answer::Unexpected),
        10 => answer(Answer::Nothing),
        11 => answer(Answer::Misplaced),
        13 => answer(Answer::Unknown),
        14 => answer(Answer::Open(self::database(input)?)),
        15 => answer(Answer::Closed),
        12 => {
            let tag = input.byte()?;
            let what = String::from_utf8_lossy(input.bytes()?).into_owned();
            answer(Answer::Failed(match tag {
                0 => Failed::Conflict,
                1 => Failed::TooLarge,
                2 => Failed::Corrupt(what),
                3 => Failed::Full(what),
                4 => Failed::Other(what),
                5 => Failed::SnapshotGone,
                6 => Failed::Missing(what),
                _ => return None,
            }))
        }
        16 => Some(Message::SnapshotClosed(database, Timestamp(number))),
        _ => None,
    }
}

fn durability(input: &mut Reader<'_>) -> Option<Durability> {
    match input.byte()? {
        0 => Some(Durability::Written),
        1 => Some(Durability::Synced),
        _ => None,
    }
}

fn database(input: &mut Reader<'_>) -> Option<DatabaseNumber> {
    u32::try_from(input.varint()?).ok().map(DatabaseNumber)
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
        Sight::New(None) => out.push(1),
        Sight::New(Some(Expected { object, key, value })) => {
            out.push(if value.is_some() { 3 } else { 2 });
            put_varint(out, object.0);
            put_bytes(out, key);
            if let Some(value) = value {
                put_bytes(out, value);
            }
        }
    }
}

fn sight(input: &mut Reader<'_>) -> Option<Sight> {
    let tag = input.byte()?;
    Some(match tag {
        0 => Sight::Open(Timestamp(input.varint()?)),
        1 => Sight::New(None),
        2 | 3 => {
            let (object, key) = cell(input)?;
            let value = if tag == 3 { Some(input.bytes()?.into()) } else { None };
            Sight::New(Some(Expected { object, key, value }))
        }
        _ => return None,
    })
}

fn put_commit(out: &mut Vec<u8>, commit: &Commit) {
    let Commit { snapshot, restructurings, writes, required, touched } = commit;
    put_varint(out, snapshot.0);
    put_varint(out, restructurings.len() as u64);
    for restructuring in restructurings {
        // A client makes trees; all else is for who keeps them.
        let Restructuring::Create { object } = restructuring else { continue };
        put_varint(out, object.0);
    }
    put_varint(out, writes.len() as u64);
    for Write { object, cleared, changes } in writes {
        put_varint(out, object.0);
        put_varint(out, cleared.len() as u64);
        for interval in cleared {
            interval.encode(out);
        }
        put_varint(out, changes.len() as u64);
        for Change { key, value } in changes {
            put_bytes(out, key);
            match value {
                None => out.push(0),
                Some(value) => {
                    out.push(1);
                    put_bytes(out, value);
                }
            }
        }
    }
    put_cells(out, required);
    put_cells(out, touched);
}

fn put_cells(out: &mut Vec<u8>, cells: &[(ObjectId, Key)]) {
    put_varint(out, cells.len() as u64);
    for (object, key) in cells {
        put_varint(out, object.0);
        put_bytes(out, key);
    }
}

fn commit(input: &mut Reader<'_>) -> Option<Commit> {
    let snapshot = Timestamp(input.varint()?);
    let restructurings =
        list(input, |input| Some(Restructuring::Create { object: ObjectId(input.varint()?) }))?;
    let writes = list(input, |input| {
        let object = ObjectId(input.varint()?);
        let cleared = list(input, Interval::decode)?;
        let changes: Vec<Change> = list(input, |input| {
            let key = input.bytes()?.into();
            let value = match input.byte()? {
                0 => None,
                1 => Some(input.bytes()?.into()),
                _ => return None,
            };
            Some(Change { key, value })
        })?;
        changes.is_sorted_by(|a, b| a.key < b.key).then_some(Write { object, cleared, changes })
    })?;
    let required = list(input, cell)?;
    let touched = list(input, cell)?;
    Some(Commit { snapshot, restructurings, writes, required, touched })
}

fn cell(input: &mut Reader<'_>) -> Option<(ObjectId, Key)> {
    Some((ObjectId(input.varint()?), input.bytes()?.into()))
}

fn list<T>(input: &mut Reader<'_>, mut item: impl FnMut(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = input.varint()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(input)?);
    }
    Some(items)
}
