//! What clients and servers say to each other.

mod speaker;
#[cfg(test)]
mod tests;
mod weight;
mod wire;

pub(super) use speaker::Speaker;

use crate::map::{HandOver, Layout, Map, Replication};
use crate::name::{DatabaseName, DatabaseNumber};
use crate::peer::PeerMessage;
use crate::status::{Load, Status};
use fulmar_dbt::Reshape;
use fulmar_kv::Object;
use fulmar_kv::{
    Basis, Commit, Durability, Encoded, Error, Exclusion, Expected, Key, ObjectId, Part, Prepare, ShardId,
    Timestamp, TransactionId,
};
use fulmar_node::NodeId;
use fulmar_replication::{Group, SequenceNumber, View};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The version of these messages.
pub const VERSION: u32 = 17;

/// The largest message: a commit, or a row that is read.
pub(crate) const LARGEST_MESSAGE: usize = 1 << 30;
/// What a commit may write, bytes: the rest of its message is for where that belongs.
pub(crate) const LARGEST_COMMIT: u64 = (1 << 30) - (32 << 20);
/// What is longer is answered in pieces of so many bytes.
pub(crate) const LONGEST_PIECE: usize = 1 << 20;

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
        /// Of which of its shards.
        shard: ShardId,
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
    /// From a client: it has ended a snapshot that it had opened here.
    SnapshotClosed(Timestamp),
    /// From a client, to a shard that may have prepared its transaction: it will not ask for the decision.
    GivenUp(DatabaseNumber, ShardId, TransactionId),
    /// From one server to another, about a transaction of several shards.
    Transaction {
        /// Of which database.
        database: DatabaseNumber,
        /// The shard that is told.
        shard: ShardId,
        /// The shard that tells.
        from: ShardId,
        /// The transaction.
        transaction: TransactionId,
        /// What is told.
        said: PeerMessage,
    },
    /// To the shard of a tree's root: a change of the tree's shape that other shards have a part in.
    Reshape {
        /// Of which database.
        database: DatabaseNumber,
        /// The change.
        reshape: Reshape,
    },
    /// From a server to the one that keeps the cluster's clock.
    Clock {
        /// Counts what the server asks.
        number: u64,
        /// The clock is at least here.
        reached: Timestamp,
        /// How far it is to go on from there, for commits of the server's.
        goes_on: u64,
        /// No snapshot that the server's clients hold is older.
        oldest: Timestamp,
    },
    /// From the server that keeps the cluster's clock.
    Time {
        /// Of the question.
        number: u64,
        /// Where the clock was when it was asked.
        now: Timestamp,
        /// Where it is then.
        reached: Timestamp,
        /// The version of the map by now: before it is known, this says nothing.
        map: u64,
        /// No snapshot of the cluster is older.
        watermark: Timestamp,
    },
    /// From a server to the one that keeps the map: which it has.
    Ask(MapRequest),
    /// From the server of a shard that is to be another's: the next part of all that it holds.
    HandOver {
        /// Of which database.
        database: DatabaseNumber,
        /// Which shard.
        shard: ShardId,
        /// See [`HandOver::attempt`].
        attempt: u64,
        /// Counts the parts, from 0 on.
        number: u64,
        /// Objects, as the engine stores them.
        objects: Vec<(ObjectId, Arc<[u8]>)>,
        /// With the last part: the newest commit, and where the names of new objects begin.
        last: Option<(Timestamp, u64)>,
    },
    /// To the server of a shard: a part of it has arrived.
    Arrived {
        /// Of which database.
        database: DatabaseNumber,
        /// Which shard.
        shard: ShardId,
        /// In which attempt.
        attempt: u64,
        /// The part.
        number: u64,
    },
    /// From a server to the one that keeps the map: what it holds and does.
    Load(Load),
    /// From the server that keeps the map: what each server holds and does, as far as it has said so.
    Loads(BTreeMap<NodeId, Load>),
    /// Among the servers that hold replicas of a shard.
    Replication {
        /// Of which database.
        database: DatabaseNumber,
        /// Which shard.
        shard: ShardId,
        /// What is said.
        message: Box<fulmar_replication::Message>,
    },
    /// From a server whose replica of a shard has missed too much, to one that holds another: what entries has it from an object on?
    Copy {
        /// Of which database.
        database: DatabaseNumber,
        /// Which shard.
        shard: ShardId,
        /// The object.
        from: ObjectId,
        /// It is to have committed no less than this.
        upto: SequenceNumber,
        /// So many bytes of that have come.
        offset: u64,
    },
    /// From a server that was asked to let its replica be copied.
    Copied {
        /// Of which database.
        database: DatabaseNumber,
        /// Which shard.
        shard: ShardId,
        /// Some of what it holds.
        chunk: Chunk,
    },
    /// To a server: how is it?
    Examine,
    /// From a server that was asked how it is.
    Status(Status),
    /// The map of the cluster.
    Map {
        /// The map.
        map: Map,
        /// Whom the question was about that this answers.
        about: Option<DatabaseName>,
    },
}

/// Some bytes of a part of what a replica holds, as a single object may be longer than others are to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where the part begins.
    pub from: ObjectId,
    /// Up to here that replica had committed: the log tells what has come since.
    pub upto: SequenceNumber,
    /// So many bytes it has in all…
    pub size: u64,
    /// …and so many before these.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What a server wants of the one that keeps the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapRequest {
    /// To be told the map, if it is newer than this version.
    Newer(u64),
    /// To be on it, at this address.
    Join(String),
    /// That shards of new databases are replicated so.
    Replicate(Replication),
    /// That the server at this address holds nothing any more.
    Drain(String),
    /// To be known to have a replica of a shard from this life of the server on.
    Begin(DatabaseNumber, ShardId, u64),
    /// To serve a shard, as the leader of its replicas in this view, which are these now.
    Lead(DatabaseNumber, ShardId, View, Group),
    /// To serve a shard no more, and hand it over to another server.
    Leave(DatabaseNumber, ShardId, HandOver),
    /// That it has done so, in this attempt.
    HandOver(DatabaseNumber, ShardId, u64),
    /// To find the database of this name, or make it.
    Database {
        /// Its name.
        name: DatabaseName,
        /// Whether to make it if there is none.
        create: bool,
    },
}

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// To open a database.
    Open {
        /// Its name on the server.
        name: DatabaseName,
        /// Whether to make it, if there is none.
        create: bool,
    },
    /// See [`fulmar_kv::Store::open_snapshot`].
    OpenSnapshot,
    /// To go on with a snapshot that the client has opened elsewhere.
    ReopenSnapshot(Timestamp),
    /// See [`fulmar_kv::Store::newest`].
    Newest,
    /// See [`fulmar_kv::Store::read`].
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
        /// What of the answer has come, if it comes in pieces.
        begun: Option<Begun>,
    },
    /// See [`fulmar_kv::Store::commit`]: of a transaction of this shard alone.
    Commit(TransactionId, Arc<Commit>, Durability),
    /// See [`fulmar_kv::Store::pick`].
    Pick {
        /// The root of the tree.
        tree: ObjectId,
        /// The smallest number that will do.
        next: i64,
        /// How many are wanted, one after the other.
        count: i64,
        /// The snapshot.
        at: Timestamp,
    },
    /// See [`fulmar_kv::Store::exclude`].
    Exclude(Exclusion),
    /// See [`fulmar_kv::Store::bytes`]: of this shard.
    Size,
    /// See [`fulmar_kv::Store::commit_unread`].
    CommitUnread(TransactionId, Arc<Commit>, Basis, Durability),
    /// To check and lock this shard's part of a transaction. The answer waits until that is durable, as the other shards rely
    /// on it.
    Prepare(Prepare),
    /// To decide that a transaction, which all its shards have prepared, takes place, not before this time.
    Decide(TransactionId, Timestamp, Durability),
}

/// How much has come of what is read in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// So many bytes…
    pub bytes: u64,
    /// …of what has this [fingerprint](fulmar_kv::Encoded::fingerprint). If that is something else by now, its beginning is answered.
    pub fingerprint: u64,
}

/// Some bytes of an object, or a part of one, that is longer than one answer is to be: who does not read what he has asked for leaves no more
/// than that unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The object.
    pub object: ObjectId,
    /// So many bytes it has in all…
    pub size: u64,
    /// …which are known by this…
    pub fingerprint: u64,
    /// …and so many before these.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// What comes next.
    pub(crate) fn of(object: ObjectId, encoded: &Encoded<'_>, begun: Option<Begun>) -> Self {
        let fingerprint = encoded.fingerprint();
        let begun = begun.filter(|begun| begun.fingerprint == fingerprint);
        let offset = begun.map_or(0, |begun| begun.bytes);
        let bytes = encoded.bytes(offset, LONGEST_PIECE);
        Self { object, size: encoded.size(), fingerprint, offset, bytes }
    }
}

/// What was read.
#[derive(Clone, Debug)]
pub enum Found {
    /// An object, or a part of it.
    Object(Arc<Object>),
    /// The beginning of that, or what comes next.
    Piece(Piece),
}

/// What a reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// A snapshot that is open.
    Open(Timestamp),
    /// One that is opened now; and perhaps what it must hold.
    New(Option<Expected>),
    /// The same, but if the server can answer at once with what everybody sees from now on, none is opened: for somebody
    /// who reads nothing else.
    Once(Option<Expected>),
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
    /// The database is open; and a time that the clock has reached.
    Open(Layout, Timestamp),
    /// The server does not hold this shard: ask for the layout.
    Elsewhere,
    /// A snapshot or commit.
    At(Timestamp),
    /// An object or a part of it.
    Found(Found),
    /// A snapshot was opened, and this is what it sees.
    Opened(Timestamp, Option<Found>),
    /// It does not hold what it must, and was not opened.
    Unexpected,
    /// The first of the numbers.
    Picked(i64),
    /// Nobody else excludes the client.
    Granted,
    /// About how many bytes.
    Size(u64),
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
    /// [`Error::Excluded`].
    Excluded,
    /// [`Error::Corrupt`].
    Corrupt(String),
    /// [`Error::Io`] of a full disk.
    Full(String),
    /// [`Error::Io`] of a commit that is more than is taken at once.
    TooMuch(String),
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
            Error::Excluded => Self::Excluded,
            Error::Corrupt { what, .. } => Self::Corrupt(what),
            Error::Io { path, source } => match source.kind() {
                io::ErrorKind::StorageFull => Self::Full(format!("{}: {source}", path.display())),
                io::ErrorKind::NotFound => Self::Missing(source.to_string()),
                io::ErrorKind::FileTooLarge => Self::TooMuch(source.to_string()),
                io::ErrorKind::InvalidInput => Self::Other(source.to_string()),
                _ => Self::Other(format!("{}: {source}", path.display())),
            },
            error => Self::Other(error.to_string()),
        }
    }
}

impl Failed {
    /// As a server at this address says it, whose disk it may be about.
    pub(crate) fn on(error: Error, address: &str) -> Self {
        let on = |what: String| match address {
            "" => what,
            address => format!("on the server at {address}: {what}"),
        };
        match Self::from(error) {
            Self::Corrupt(what) => Self::Corrupt(on(what)),
            Self::Full(what) => Self::Full(on(what)),
            Self::Other(what) => Self::Other(on(what)),
            failed => failed,
        }
    }

    /// The error, as the client of this server sees it.
    pub(crate) fn at(self, server: &std::path::Path) -> Error {
        let path = PathBuf::from(server);
        let io = |kind, what: String| Error::Io { path: server.into(), source: io::Error::new(kind, what) };
        match self {
            Self::Conflict => Error::Conflict,
            Self::TooLarge => Error::TooLarge,
            Self::SnapshotGone => Error::SnapshotGone,
            Self::Excluded => Error::Excluded,
            Self::Corrupt(what) => Error::Corrupt { path, what },
            Self::Full(what) => io(io::ErrorKind::StorageFull, what),
            Self::Missing(what) => io(io::ErrorKind::NotFound, what),
            Self::TooMuch(what) => io(io::ErrorKind::FileTooLarge, what),
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
        Self::Read { object, from: from.into(), direction, at, bytes, begun: None }
    }

    /// The shards that have a part in it besides the one that is asked.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> {
        let prepare = if let Self::Prepare(prepare) = self { Some(prepare) } else { None };
        prepare.into_iter().flat_map(|prepare| prepare.others.iter().copied().chain([prepare.primary]))
    }

    /// Whether it begins a change.
    pub(crate) const fn changes(&self) -> bool {
        matches!(
            self,
            Self::Commit(..) | Self::CommitUnread(..) | Self::Prepare(_) | Self::Exclude(Exclusion::Begin)
        )
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
