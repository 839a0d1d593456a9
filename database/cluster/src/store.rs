//! A store behind a client.

use crate::client::{Ask, Reply, bytes};
use crate::message::{Answer, Begun, Failed, Found, LARGEST_COMMIT, Question, Sight};
use fulmar_kv::Cache;
use fulmar_kv::{
    Basis, Commit, Durability, Error, Exclusion, Expected, Interruption, Key, Object, ObjectId, Part,
    Refusal, ShardCounts, ShardId, Snapshot, Store, Timestamp,
};
use fulmar_locks::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of cells that a reader asks for at a place where it has not read before: some rows, if the reader before it went
/// on from its place…
const FIRST_BYTES: u64 = 1 << 10;
/// …and otherwise one row, since most readers of the kind want no more.
const ONE_ROW: u64 = 1;
/// A reader that goes on where it has ended asks for so many times as much, up to all that the server gives.
const GROWTH: u64 = 8;
/// A transaction that numbers many entries asks for up to so many numbers at once.
const MOST_NUMBERS: i64 = 1 << 10;
/// An inner node that is so often not up to date is read again: seldom enough where many clients make a tree grow, and often
/// enough that the way is known when a leaf moves to where no server can lead.
const EXCUSES: u32 = 8;
/// Bytes of inner nodes that a client remembers.
const INNER_BYTES: usize = 32 << 20;

/// Drives a [`Client`](super::Client): in the caller's thread on sockets, or in a simulation.
pub trait Call: Send {
    /// Hands the client something that it replies to, and waits for that.
    ///
    /// # Errors
    /// [`Unreachable`], when there is nobody to ask.
    fn call(&mut self, ask: Ask) -> Result<Reply, Unreachable>;

    /// Hands the client something that is not answered.
    fn tell(&mut self, ask: Ask);

    /// Why there was no answer, as far as that is known.
    fn silence(&self) -> String {
        "the server does not answer".into()
    }

    /// Whether anything of what it was handed last has been sent.
    fn was_sent(&self) -> bool {
        true
    }

    /// How many times the client has waited for servers, if they are counted.
    fn round_trips(&self) -> u64 {
        0
    }

    /// From now on a call that takes its time is given up as soon as this says so.
    fn heed(&mut self, _is_interrupted: Interruption) {}

    /// Whether the last call was given up for that.
    fn was_interrupted(&self) -> bool {
        false
    }
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
    /// How often inner nodes have led to a leaf that was no longer right, and a server from there to the right one.
    excused: Mutex<BTreeMap<ObjectId, u32>>,
    /// Numbers picked in trees.
    blocks: Mutex<BTreeMap<ObjectId, Block>>,
    /// In how many shards others were last excluded.
    excluding: AtomicU16,
    line: Mutex<Line<C>>,
}

/// Numbers that a transaction may use.
struct Block {
    /// The transaction's snapshot.
    at: Timestamp,
    numbers: Range<i64>,
    /// How many it has asked for.
    count: i64,
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
        Self {
            name: name.into(),
            nodes: Cache::new(INNER_BYTES),
            leaves: Mutex::default(),
            excused: Mutex::default(),
            blocks: Mutex::default(),
            excluding: AtomicU16::new(0),
            line,
        }
    }

    fn ask(&self, shard: ShardId, question: Question) -> Result<Answer, Error> {
        self.call(Ask::Question(shard, question))
    }

    fn call(&self, ask: Ask) -> Result<Answer, Error> {
        let reply = self.line.lock().client.call(ask);
        self.answer(reply)
    }

    fn answer(&self, reply: Result<Reply, Unreachable>) -> Result<Answer, Error> {
        match reply {
            Ok(Reply::Answer(answer)) => Ok(answer),
            Ok(Reply::ShardCounts(_)) => unreachable!("not asked for"),
            Ok(Reply::Silence | Reply::Waiting) => Err(self.silent()),
            Err(unreachable) => Err(self.io(io::ErrorKind::NotConnected, unreachable.to_string())),
        }
    }

    /// A commit that was sent and is not answered may have taken place, or may yet.
    fn call_to_commit(&self, ask: Ask) -> Result<Answer, Error> {
        let (reply, was_sent) = {
            let client = &mut self.line.lock().client;
            (client.call(ask), client.was_sent())
        };
        self.answer(reply).map_err(|error| match error {
            Error::Io { path, source } if was_sent => {
                let what = format!("it is unknown whether COMMIT has taken place, or will: {source}");
                // What is interrupted is taken to be undone.
                let kind = Some(source.kind()).filter(|kind| *kind != io::ErrorKind::Interrupted);
                Error::Io { path, source: io::Error::new(kind.unwrap_or(io::ErrorKind::TimedOut), what) }
            }
            other => other,
        })
    }

    /// Asks where the database's shards are.
    fn layout(&self, ask: Ask) -> Result<ShardCounts, Error> {
        let reply = self.line.lock().client.call(ask);
        match reply {
            Ok(Reply::ShardCounts(shards)) => Ok(shards),
            Ok(Reply::Answer(answer)) => Err(self.failed(answer)),
            Ok(Reply::Silence | Reply::Waiting) => Err(self.silent()),
            Err(unreachable) => Err(self.io(io::ErrorKind::NotConnected, unreachable.to_string())),
        }
    }

    fn silent(&self) -> Error {
        let client = &self.line.lock().client;
        let kind =
            if client.was_interrupted() { io::ErrorKind::Interrupted } else { io::ErrorKind::TimedOut };
        self.io(kind, client.silence())
    }

    fn io(&self, kind: io::ErrorKind, what: String) -> Error {
        Error::Io { path: self.name.clone(), source: io::Error::new(kind, what) }
    }

    /// What an answer that does not answer the question means.
    fn failed(&self, answer: Answer) -> Error {
        match answer {
            Answer::Failed(failed) => failed.at(&self.name),
            _ => self.misfit(),
        }
    }

    fn misfit(&self) -> Error {
        self.io(io::ErrorKind::InvalidData, "the server answers something else".into())
    }

    fn timestamp(&self, question: Question) -> Result<Timestamp, Error> {
        match self.ask(ShardId(0), question)? {
            Answer::At(at) => Ok(at),
            other => Err(self.failed(other)),
        }
    }

    /// What the answer to a commit means.
    fn committed(&self, answer: Answer, commit: Arc<Commit>) -> Result<Timestamp, Refusal<Commit>> {
        match answer {
            Answer::At(at) => Ok(at),
            Answer::Misplaced => Err(Refusal::Misplaced(Arc::unwrap_or_clone(commit))),
            Answer::Unknown => {
                let what = "the connection was lost: it is unknown whether COMMIT has taken place";
                Err(self.io(io::ErrorKind::ConnectionReset, what.into()).into())
            }
            other => Err(self.failed(other).into()),
        }
    }

    /// What does not fit into a message would be dropped on the way.
    fn require_sendable(&self, commit: &Commit) -> Result<(), Error> {
        let bytes = bytes(commit);
        if bytes <= LARGEST_COMMIT {
            return Ok(());
        }
        let what = format!(
            "a commit of {bytes} bytes is more than a server takes, {LARGEST_COMMIT}; write less at once"
        );
        Err(self.io(io::ErrorKind::FileTooLarge, what))
    }

    /// How much to ask for: more, if the reader goes on where it has ended; and whether it does.
    fn appetite(&self, part: Part<'_>) -> (u64, bool) {
        let mut line = self.line.lock();
        let goes_on = match (part, &line.last) {
            (Part::From(key) | Part::Before(Some(key)), Some((end, bytes))) if **end == *key => Some(*bytes),
            _ => None,
        };
        match goes_on {
            Some(bytes) => {
                line.first = FIRST_BYTES;
                (bytes.saturating_mul(GROWTH).max(FIRST_BYTES), true)
            }
            None => (std::mem::replace(&mut line.first, ONE_ROW), false),
        }
    }

    /// What was found; if that is the first piece of it, the others are asked for.
    fn whole(&self, found: Found, question: impl Fn() -> Question) -> Result<Option<Arc<Object>>, Error> {
        let mut piece = match found {
            Found::Object(object) => return Ok(Some(object)),
            Found::Piece(piece) => piece,
        };
        let (shard, mut whole) = (piece.object.shard(), Vec::new());
        loop {
            if piece.offset == 0 {
                // It is something else than it was.
                whole.clear();
            }
            if piece.offset != whole.len() as u64 || piece.bytes.is_empty() {
                return Err(self.misfit());
            }
            // At once, as to grow is to copy; if there is no room for all of it, it fails when it is needed.
            let left = usize::try_from(piece.size).unwrap_or(usize::MAX).saturating_sub(whole.len());
            let _ = whole.try_reserve_exact(left.min(Object::LARGEST));
            whole.append(&mut piece.bytes);
            if whole.len() as u64 >= piece.size {
                let object = Object::decode(piece.object, &whole).ok_or_else(|| self.misfit())?;
                return Ok(Some(Arc::new(object)));
            }
            let mut question = question();
            if let Question::Read { begun, .. } = &mut question {
                *begun = Some(Begun { bytes: whole.len() as u64, fingerprint: piece.fingerprint });
            }
            piece = match self.ask(shard, question)? {
                Answer::Found(Found::Piece(next)) => next,
                Answer::Found(Found::Object(object)) => return Ok(Some(object)),
                Answer::Nothing => return Ok(None),
                other => return Err(self.failed(other)),
            };
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

impl<C: Call> Remote<C> {
    /// Goes on with a snapshot that this client has opened elsewhere, and that somebody keeps for it.
    ///
    /// # Errors
    /// [`Error::SnapshotGone`] if nobody does; [`Error::Io`] if the server cannot be reached.
    pub fn reopen_snapshot(&self, at: Timestamp) -> Result<(), Error> {
        self.timestamp(Question::ReopenSnapshot(at)).map(|_| ())
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
        // They are no longer the transaction's.
        self.blocks.lock().retain(|_, block| block.at != at);
        self.line.lock().client.tell(Ask::CloseSnapshot(at));
    }

    fn newest(&self) -> Result<Timestamp, Error> {
        self.timestamp(Question::Newest)
    }

    fn bytes(&self) -> Result<u64, Error> {
        let size = |shard| match self.ask(ShardId(shard), Question::Size)? {
            Answer::Size(bytes) => Ok(bytes),
            other => Err(self.failed(other)),
        };
        (0..self.shards()?.all).try_fold(0, |sum: u64, shard| Ok(sum.saturating_add(size(shard)?)))
    }

    fn is_far(&self) -> bool {
        true
    }

    fn round_trips(&self) -> u64 {
        self.line.lock().client.round_trips()
    }

    fn set_limit(&self, limit: Option<Duration>) {
        self.line.lock().client.tell(Ask::Limit(limit));
    }

    fn heed(&self, is_interrupted: Interruption) {
        self.line.lock().client.heed(is_interrupted);
    }

    fn read(&self, object: ObjectId, part: Part<'_>, at: &Snapshot) -> Result<Option<Arc<Object>>, Error> {
        if let Some(node) = self.nodes.known(object) {
            return Ok(Some(node));
        }
        let is_once = at.is_once();
        let (bytes, goes_on) = if is_once { (ONE_ROW, false) } else { self.appetite(part) };
        let shard = object.shard();
        // Each shard knows it.
        let in_shard = |expected: Option<Expected>| expected.map(|expected| expected.in_shard(shard));
        let sight = match at.known() {
            Some(at) => Sight::Open(at),
            None if is_once => Sight::Once(in_shard(at.expected())),
            None => Sight::New(in_shard(at.expected())),
        };
        let scans = goes_on && at.known().is_some();
        let question = Question::read(object, part, sight.clone(), bytes);
        let ask = if scans {
            Ask::Scan(shard, question, bytes.saturating_mul(GROWTH))
        } else {
            Ask::Question(shard, question)
        };
        let found = match self.call(ask)? {
            Answer::Found(found) => {
                self.whole(found, || Question::read(object, part, sight.clone(), bytes))?
            }
            Answer::Nothing => None,
            Answer::Opened(opened, found) => {
                if !is_once {
                    at.opened(opened);
                }
                let question = || Question::read(object, part, Sight::Open(opened), bytes);
                let whole = found.map_or(Ok(None), |found| self.whole(found, question));
                if is_once {
                    self.line.lock().client.tell(Ask::CloseSnapshot(opened));
                }
                whole?
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
                if !is_once {
                    self.remember(part, leaf, bytes);
                }
            }
            None => {}
        }
        Ok(found)
    }

    fn shards(&self) -> Result<ShardCounts, Error> {
        self.layout(Ask::ShardCounts)
    }

    fn reconsider(&self) -> Result<(), Error> {
        self.layout(Ask::Reconsider).map(|_| ())
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

    fn excuse(&self, node: ObjectId) {
        let mut excused = self.excused.lock();
        let times = excused.entry(node).or_default();
        *times += 1;
        if *times >= EXCUSES {
            excused.remove(&node);
            self.nodes.store(node, None);
        }
    }

    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        self.require_sendable(&commit)?;
        let commit = Arc::new(commit);
        let shard = commit.shards().next().unwrap_or_default();
        // Others must not have come in between in any shard. A server that knows more of them refuses it.
        let excluding = if commit.is_exclusive { self.excluding.load(Relaxed) } else { 0 };
        let ask = if excluding <= 1 && commit.is_of(shard) {
            Ask::Commit(shard, commit.clone(), None, durability)
        } else {
            let excluding = (0..excluding).map(ShardId);
            Ask::CommitParts(Commit::clone(&commit).by_shard(excluding), durability)
        };
        let answer = self.call_to_commit(ask)?;
        self.committed(answer, commit)
    }

    fn commit_unread(
        &self,
        commit: Commit,
        mut basis: Basis,
        durability: Durability,
    ) -> Result<Timestamp, Refusal<Commit>> {
        self.require_sendable(&commit)?;
        let commit = Arc::new(commit);
        let shard = commit.shards().next().unwrap_or_default();
        basis.expected = basis.expected.map(|expected| expected.in_shard(shard));
        match self.call_to_commit(Ask::Commit(shard, commit.clone(), Some(basis), durability))? {
            Answer::Unexpected => Err(Error::Conflict.into()),
            other => self.committed(other, commit),
        }
    }

    /// The first time for one number, and then for twice as many each time.
    fn pick(&self, tree: ObjectId, next: i64, at: Timestamp) -> Result<Option<i64>, Error> {
        let mut blocks = self.blocks.lock();
        blocks.retain(|_, block| block.at == at);
        let mut count = 1;
        if let Some(block) = blocks.get_mut(&tree) {
            if block.numbers.contains(&next) {
                block.numbers.start = next + 1;
                return Ok(Some(next));
            }
            count = block.count.saturating_mul(2).min(MOST_NUMBERS);
        }
        match self.ask(tree.shard(), Question::Pick { tree, next, count, at })? {
            Answer::Picked(first) => {
                let numbers = first.saturating_add(1)..first.saturating_add(count);
                blocks.insert(tree, Block { at, numbers, count });
                Ok(Some(first))
            }
            other => Err(self.failed(other)),
        }
    }

    /// In each shard, so that no commit anywhere goes unasked.
    fn exclude(&self, exclusion: Exclusion) -> Result<bool, Error> {
        let ask = |shard, exclusion| match self.ask(ShardId(shard), Question::Exclude(exclusion))? {
            Answer::Granted => Ok(true),
            Answer::Failed(Failed::Excluded) => Ok(false),
            other => Err(self.failed(other)),
        };
        let all = self.shards()?.all;
        if exclusion == Exclusion::Begin {
            self.excluding.store(all, Relaxed);
        }
        if exclusion == Exclusion::End {
            // Each, whatever another says: others wait for all of them.
            let ended: Vec<Result<bool, Error>> = (0..all).map(|shard| ask(shard, exclusion)).collect();
            return ended.into_iter().collect::<Result<Vec<_>, _>>().map(|_| true);
        }
        for shard in 0..all {
            let granted = ask(shard, exclusion);
            if matches!(granted, Ok(true)) {
                continue;
            }
            if exclusion == Exclusion::Begin {
                // Who has not answered may have heard.
                let last = if granted.is_err() { shard + 1 } else { shard };
                for begun in 0..last {
                    // What is told is why it could not begin.
                    let _ = ask(begun, Exclusion::End);
                }
            }
            return granted;
        }
        Ok(true)
    }

    fn cached_bytes(&self) -> usize {
        self.nodes.bytes()
    }
}
