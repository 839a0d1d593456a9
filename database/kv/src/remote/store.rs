//! A store behind a client.

use super::client::{Ask, Reply};
use super::connection::Connection;
use super::message::{Answer, Question, Sight};
use crate::cache::Cache;
use crate::{
    Basis, Commit, Durability, Error, Key, Object, ObjectId, Part, Refusal, Snapshot, Store, Timestamp,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of cells that a reader asks for at a place where it has not read before: some rows, if the reader before it went
/// on from its place…
const FIRST_BYTES: u64 = 1 << 10;
/// …and otherwise one row, since most readers of the kind want no more.
const ONE_ROW: u64 = 1;
/// A reader that goes on where it has ended asks for so many times as much, up to all that the server gives.
const GROWTH: u64 = 8;
/// Bytes of inner nodes that a client remembers.
const INNER_BYTES: usize = 32 << 20;

/// Drives a [`Client`](super::Client): in the caller's thread on sockets, or in a simulation.
pub trait Call: Send {
    /// Hands the client a question and waits for its reply.
    ///
    /// # Errors
    /// [`Unreachable`], when there is nobody to ask.
    fn call(&mut self, question: Question) -> Result<Reply, Unreachable>;

    /// Hands the client something that is not answered.
    fn tell(&mut self, ask: Ask);
}

/// Nobody can be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// A [`Store`] on a server: inner nodes are remembered and may be old, parts of leaves are fetched.
pub struct Remote<C> {
    name: PathBuf,
    nodes: Cache,
    /// Roots that were leaves when last heard of.
    leaves: Mutex<BTreeSet<ObjectId>>,
    line: Mutex<Line<C>>,
}

struct Line<C> {
    client: C,
    /// Where the last part read ended, upwards or downwards, and how many bytes were asked for.
    last: Option<(Key, u64)>,
    /// How much the next reader at another place asks for.
    first: u64,
}

impl<C: Call> Remote<C> {
    /// What the client behind `client` reaches; `name` is what messages call it.
    pub fn new(name: &Path, client: C) -> Self {
        let line = Mutex::new(Line { client, last: None, first: FIRST_BYTES });
        Self { name: name.into(), nodes: Cache::new(INNER_BYTES), leaves: Mutex::default(), line }
    }

    fn ask(&self, question: Question) -> Result<Answer, Error> {
        let reply = self.line.lock().client.call(question);
        match reply {
            Ok(Reply::Answer(answer)) => Ok(answer),
            Ok(Reply::Silence) => Err(self.io(io::ErrorKind::TimedOut, "the server does not answer".into())),
            Err(unreachable) => Err(self.io(io::ErrorKind::NotConnected, unreachable.to_string())),
        }
    }

    fn io(&self, kind: io::ErrorKind, what: String) -> Error {
        Error::Io { path: self.name.clone(), source: io::Error::new(kind, what) }
    }

    /// What an answer that does not answer the question means.
    fn failed(&self, answer: Answer) -> Error {
        match answer {
            Answer::Failed(failed) => failed.at(&self.name),
            _ => self.io(io::ErrorKind::InvalidData, "the server answers something else".into()),
        }
    }

    fn timestamp(&self, question: Question) -> Result<Timestamp, Error> {
        match self.ask(question)? {
            Answer::At(at) => Ok(at),
            other => Err(self.failed(other)),
        }
    }

    /// What the answer to a commit means.
    fn committed(&self, answer: Answer, commit: Commit) -> Result<Timestamp, Refusal<Commit>> {
        match answer {
            Answer::At(at) => Ok(at),
            Answer::Misplaced => Err(Refusal::Misplaced(commit)),
            Answer::Unknown => {
                let what = "the connection was lost during COMMIT: whether it has taken place is unknown";
                Err(self.io(io::ErrorKind::ConnectionReset, what.into()).into())
            }
            other => Err(self.failed(other).into()),
        }
    }

    /// How much to ask for: more, if the reader goes on where it has ended.
    fn appetite(&self, part: Part<'_>) -> u64 {
        let mut line = self.line.lock();
        let goes_on = match (part, &line.last) {
            (Part::From(key) | Part::Before(Some(key)), Some((end, bytes))) if **end == *key => Some(*bytes),
            _ => None,
        };
        match goes_on {
            Some(bytes) => {
                line.first = FIRST_BYTES;
                bytes.saturating_mul(GROWTH).max(FIRST_BYTES)
            }
            None => std::mem::replace(&mut line.first, ONE_ROW),
        }
    }

    fn remember(&self, part: Part<'_>, found: &Object, bytes: u64) {
        let end = match part {
            Part::From(_) => found.interval().high(),
            Part::Before(_) => Some(found.interval().low()),
        };
        self.line.lock().last = end.map(|end| (end.into(), bytes));
    }
}

impl Remote<Connection> {
    /// How many times it has waited for the server.
    pub fn round_trips(&self) -> u64 {
        self.line.lock().client.round_trips()
    }
}

impl<C: Call> Store for Remote<C> {
    fn path(&self) -> &Path {
        &self.name
    }

    fn open_snapshot(&self) -> Result<Timestamp, Error> {
        self.timestamp(Question::OpenSnapshot)
    }

    fn close_snapshot(&self, at: Timestamp) {
        self.line.lock().client.tell(Ask::CloseSnapshot(at));
    }

    fn newest(&self) -> Result<Timestamp, Error> {
        self.timestamp(Question::Newest)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn read(&self, object: ObjectId, part: Part<'_>, at: &Snapshot) -> Result<Option<Arc<Object>>, Error> {
        if let Some(node) = self.nodes.known(object) {
            return Ok(Some(node));
        }
        let bytes = self.appetite(part);
        let sight = at.known().map_or_else(|| Sight::New(at.take_expected()), Sight::Open);
        let found = match self.ask(Question::read(object, part, sight, bytes))? {
            Answer::Object(found) => Some(found),
            Answer::Nothing => None,
            Answer::Opened(opened, found) => {
                at.opened(opened);
                found
            }
            Answer::Unexpected => return Err(Error::Unexpected),
            other => return Err(self.failed(other)),
        };
        match &found {
            Some(node) if node.level() > 0 => self.nodes.store(object, found.clone()),
            Some(leaf) => {
                if leaf.id() == leaf.root() {
                    self.leaves.lock().insert(object);
                }
                self.remember(part, leaf, bytes);
            }
            None => {}
        }
        Ok(found)
    }

    fn is_leaf(&self, object: ObjectId) -> bool {
        self.leaves.lock().contains(&object)
    }

    fn mistrust(&self, path: &[ObjectId]) {
        self.leaves.lock().retain(|leaf| !path.contains(leaf));
        for node in path {
            self.nodes.store(*node, None);
        }
    }

    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        let answer = self.ask(Question::Commit(commit.clone(), durability))?;
        self.committed(answer, commit)
    }

    fn commit_unread(
        &self,
        commit: Commit,
        basis: Basis,
        durability: Durability,
    ) -> Result<Timestamp, Refusal<Commit>> {
        match self.ask(Question::CommitUnread(commit.clone(), basis, durability))? {
            Answer::Unexpected => Err(Error::Conflict.into()),
            other => self.committed(other, commit),
        }
    }

    fn cached_bytes(&self) -> usize {
        self.nodes.bytes()
    }
}
