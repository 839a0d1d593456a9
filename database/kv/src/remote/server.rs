//! The server: databases for clients elsewhere.

use super::message::{Answer, DatabaseNumber, Message, Question, Sight};
use crate::{
    Basis, Commit, Database, Durability, Error, Expected, Object, ObjectId, Part, Refusal, Restructuring,
    Timestamp,
};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

/// Answers of level 0 hold at most so many bytes of cells, if a single cell is not larger.
const LARGEST_PART: usize = 256 << 10;

/// Who keeps the structure that commits leave behind, which the server itself knows nothing of.
pub trait Keep: Send {
    /// These objects were written by a commit that has taken place.
    ///
    /// # Errors
    /// What the database says. It is the next commit's to report.
    fn after(&mut self, written: &[ObjectId]) -> Result<(), Error>;
}

/// What the server's user tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A client's connection has ended, and its snapshots with it.
    Gone(NodeId),
}

/// Where a server finds its databases.
pub trait Open: Send {
    /// Opens the database of this name, and says who keeps its structure. It is not open yet.
    ///
    /// # Errors
    /// [`Error::Io`] of kind [`io::ErrorKind::NotFound`] if there is none and `create` is not set; what opening it says.
    fn open(&mut self, name: &str, create: bool) -> Result<(Database, Box<dyn Keep>), Error>;
}

/// A process that does for clients what [`Database`]s do for threads.
///
/// A record stands for a batch that a database has handed to its engine; who drives the process makes it durable by
/// [`Database::sync`].
pub struct Server {
    directory: Box<dyn Open>,
    open: BTreeMap<DatabaseNumber, Served>,
    /// Of the next database that is opened.
    next: DatabaseNumber,
}

/// A database that is open for as long as it has clients.
struct Served {
    name: String,
    database: Database,
    keep: Box<dyn Keep>,
    clients: BTreeSet<NodeId>,
    /// Snapshots that clients hold, and how many of each.
    snapshots: BTreeMap<(NodeId, Timestamp), usize>,
    /// The last question by which each client opened a snapshot.
    opened: BTreeMap<NodeId, (u64, Timestamp)>,
    /// The last commit that each client asked for, and the answer if it was given.
    last: BTreeMap<NodeId, (u64, Option<Answer>)>,
    /// Commits that are carried out but not yet durable, oldest first.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    until: Lsn,
    client: NodeId,
    number: u64,
    at: Timestamp,
    written: Vec<ObjectId>,
}

/// Commits of a database up to one were written to its engine, and are to be synced.
#[derive(Clone, Debug)]
pub struct Synced {
    /// The database.
    pub database: Database,
    /// The newest commit.
    pub at: Timestamp,
}

impl Server {
    /// A server of the databases that `directory` opens.
    pub fn new(directory: Box<dyn Open>) -> Self {
        Self { directory, open: BTreeMap::new(), next: DatabaseNumber(0) }
    }

    /// The open databases.
    pub fn databases(&self) -> impl Iterator<Item = &Database> {
        self.open.values().map(|served| &served.database)
    }

    fn open(&mut self, client: NodeId, name: &str, create: bool) -> Result<Answer, Error> {
        if let Some((number, served)) = self.open.iter_mut().find(|(_, served)| served.name == name) {
            served.clients.insert(client);
            return Ok(Answer::Open(*number));
        }
        let (database, keep) = self.directory.open(name, create)?;
        let served = Served {
            name: name.into(),
            database,
            keep,
            clients: BTreeSet::from([client]),
            snapshots: BTreeMap::new(),
            opened: BTreeMap::new(),
            last: BTreeMap::new(),
            waiting: VecDeque::new(),
        };
        let number = self.next;
        self.next.0 += 1;
        self.open.insert(number, served);
        Ok(Answer::Open(number))
    }

    /// The database, for a client that has it open.
    fn served(&mut self, number: DatabaseNumber, client: NodeId) -> Option<&mut Served> {
        self.open.get_mut(&number).filter(|served| served.clients.contains(&client))
    }
}

impl Served {
    /// Opens a snapshot for a client's question; nothing if the client has asked for another since. Asked again, the one
    /// that was opened before is given up.
    fn open_snapshot(&mut self, client: NodeId, number: u64) -> Option<Timestamp> {
        if let Some((last, before)) = self.opened.get(&client).copied() {
            if last > number {
                return None;
            }
            if last == number {
                self.close(client, before);
            }
        }
        let at = self.database.open_snapshot();
        self.opened.insert(client, (number, at));
        *self.snapshots.entry((client, at)).or_default() += 1;
        Some(at)
    }

    /// An inner node, or a part of a leaf.
    fn read(
        &self,
        id: ObjectId,
        part: Part<'_>,
        at: Timestamp,
        bytes: u64,
    ) -> Result<Option<Arc<Object>>, Error> {
        let Some(object) = self.database.read(id)? else { return Ok(None) };
        if object.level() > 0 {
            return Ok(Some(object));
        }
        let bytes = usize::try_from(bytes).unwrap_or(LARGEST_PART).min(LARGEST_PART);
        Ok(object.part(part, at, bytes).map(Arc::new))
    }

    fn holds(&self, expected: &Expected, at: Timestamp) -> Result<bool, Error> {
        let Some(object) = self.database.read(expected.object)? else { return Ok(false) };
        // If it has become an inner node, the client has to look for itself.
        Ok(object.level() == 0
            && object.covers(&expected.key)
            && object.get(&expected.key, at) == expected.value.as_deref())
    }

    fn answer(&mut self, client: NodeId, number: u64, question: &Question) -> Result<Answer, Error> {
        match question {
            Question::OpenSnapshot => {
                Ok(self.open_snapshot(client, number).map_or(Answer::Nothing, Answer::At))
            }
            Question::Newest => Ok(Answer::At(self.database.newest())),
            Question::Read { object, from, direction, at, bytes } => {
                let part = direction.part(from);
                match at {
                    Sight::Open(at) => {
                        self.require_readable(*at)?;
                        Ok(self.read(*object, part, *at, *bytes)?.map_or(Answer::Nothing, Answer::Object))
                    }
                    Sight::New(expected) => {
                        let Some(at) = self.open_snapshot(client, number) else { return Ok(Answer::Nothing) };
                        let is_as_expected = match expected {
                            Some(expected) => self.holds(expected, at),
                            None => Ok(true),
                        };
                        match is_as_expected.and_then(|is| Ok((is, self.read(*object, part, at, *bytes)?))) {
                            Ok((true, object)) => Ok(Answer::Opened(at, object)),
                            Ok((false, _)) => {
                                self.close(client, at);
                                Ok(Answer::Unexpected)
                            }
                            Err(error) => {
                                self.close(client, at);
                                Err(error)
                            }
                        }
                    }
                }
            }
            // Answered elsewhere.
            Question::Open { .. } | Question::Commit(..) | Question::CommitUnread(..) => Ok(Answer::Closed),
        }
    }

    /// What a snapshot saw may be forgotten if the server has begun anew since, or has lost its holder.
    fn require_readable(&self, at: Timestamp) -> Result<(), Error> {
        if at < self.database.oldest_snapshot() { Err(Error::SnapshotGone) } else { Ok(()) }
    }

    /// Whether a commit is the client's next. One that was carried out before would conflict with itself, so it is never
    /// done twice, but the client would be told the wrong thing.
    fn is_next(&mut self, client: NodeId, number: u64, out: &mut Outbox<Server>) -> bool {
        match self.last.get(&client) {
            Some((last, answer)) if *last >= number => {
                if let Some(answer) = answer.clone().filter(|_| *last == number) {
                    out.send(client, Message::Answer { number, answer });
                }
                false
            }
            _ => {
                self.last.insert(client, (number, None));
                true
            }
        }
    }

    fn reply(&mut self, client: NodeId, number: u64, answer: Answer, out: &mut Outbox<Server>) {
        if let Some((last, given)) = self.last.get_mut(&client)
            && *last == number
        {
            *given = Some(answer.clone());
        }
        out.send(client, Message::Answer { number, answer });
    }

    fn commit(
        &mut self,
        client: NodeId,
        (number, again): (u64, bool),
        commit: Commit,
        durability: Durability,
        out: &mut Outbox<Server>,
    ) {
        if !self.is_next(client, number, out) {
            return;
        }
        if let Err(error) = self.require_readable(commit.snapshot) {
            return self.reply(client, number, Answer::Failed(error.into()), out);
        }
        let mut written: Vec<ObjectId> = commit.writes.iter().map(|write| write.object).collect();
        written.extend(commit.restructurings.iter().filter_map(|restructuring| match restructuring {
            Restructuring::Create { object } => Some(*object),
            _ => None,
        }));
        match self.database.execute(commit) {
            Ok(at) => {
                let until = match durability {
                    Durability::Synced => out.record(Synced { database: self.database.clone(), at }),
                    // With what is already waiting, if something is: a snapshot sees all or none of them.
                    Durability::Written => out.logged(),
                };
                let nobody_waits = self.waiting.is_empty() && durability == Durability::Written;
                self.waiting.push_back(Waiting { until, client, number, at, written });
                if nobody_waits {
                    self.acknowledge(until, out);
                }
            }
            Err(Refusal::Misplaced(_)) => self.reply(client, number, Answer::Misplaced, out),
            Err(Refusal::Failed(Error::Conflict)) if again => {
                self.reply(client, number, Answer::Unknown, out)
            }
            Err(Refusal::Failed(error)) => self.reply(client, number, Answer::Failed(error.into()), out),
        }
    }

    /// Gives a commit the newest snapshot, if that is what the commit is based on.
    fn commit_unread(
        &mut self,
        client: NodeId,
        (number, again): (u64, bool),
        (mut commit, basis): (Commit, &Basis),
        durability: Durability,
        out: &mut Outbox<Server>,
    ) {
        commit.snapshot = self.database.newest();
        let refusal = match self.refute(basis, commit.snapshot) {
            // On a newer snapshot it would not conflict with itself, but undo what others have done since.
            _ if again => Answer::Unknown,
            Ok(None) => return self.commit(client, (number, again), commit, durability, out),
            Ok(Some(answer)) => answer,
            Err(error) => Answer::Failed(error.into()),
        };
        if self.is_next(client, number, out) {
            self.reply(client, number, refusal, out);
        }
    }

    /// What to answer if a snapshot is not what a commit is based on.
    fn refute(&self, basis: &Basis, at: Timestamp) -> Result<Option<Answer>, Error> {
        for (object, key) in &basis.present {
            match self.database.read(*object)? {
                Some(object) if object.level() == 0 && object.covers(key) => {
                    if object.get(key, at).is_none() {
                        return Ok(Some(Answer::Unexpected));
                    }
                }
                _ => return Ok(Some(Answer::Misplaced)),
            }
        }
        let holds = basis.expected.as_ref().map_or(Ok(true), |expected| self.holds(expected, at))?;
        Ok((!holds).then_some(Answer::Unexpected))
    }

    /// Publishes the commits that are durable, and tells their clients.
    fn acknowledge(&mut self, upto: Lsn, out: &mut Outbox<Server>) {
        let mut written = Vec::new();
        while let Some(first) = self.waiting.front()
            && first.until <= upto
            && let Some(done) = self.waiting.pop_front()
        {
            self.database.publish(done.at);
            self.reply(done.client, done.number, Answer::At(done.at), out);
            written.extend(done.written);
        }
        if self.waiting.is_empty() && !written.is_empty() {
            written.sort_unstable();
            written.dedup();
            // A disk that fails here fails the next commit too, which says so.
            let _ = self.keep.after(&written);
        }
    }

    fn close(&mut self, client: NodeId, at: Timestamp) {
        if let Some(count) = self.snapshots.get_mut(&(client, at)) {
            *count -= 1;
            if *count == 0 {
                self.snapshots.remove(&(client, at));
            }
            self.database.close_snapshot(at);
        }
    }

    fn forget(&mut self, client: NodeId) {
        self.clients.remove(&client);
        self.last.remove(&client);
        self.opened.remove(&client);
        let all = (client, Timestamp(0))..=(client, Timestamp(u64::MAX));
        let held: Vec<_> = self.snapshots.range(all).map(|(&(_, at), &count)| (at, count)).collect();
        for (at, count) in held {
            for _ in 0..count {
                self.close(client, at);
            }
        }
    }
}

impl Process for Server {
    type Message = Message;
    type Timer = ();
    type Request = Note;
    type Event = ();
    type Record = Synced;

    fn receive(&mut self, _now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Question { number, question: Question::Open { name, create }, .. } => {
                let answer = self.open(from, &name, create);
                let answer = answer.unwrap_or_else(|error| Answer::Failed(error.into()));
                out.send(from, Message::Answer { number, answer });
            }
            Message::Question { number, again, database, question } => {
                let Some(served) = self.served(database, from) else {
                    return out.send(from, Message::Answer { number, answer: Answer::Closed });
                };
                if let Question::Commit(commit, durability) = question {
                    return served.commit(from, (number, again), commit, durability, out);
                }
                if let Question::CommitUnread(commit, basis, durability) = question {
                    return served.commit_unread(from, (number, again), (commit, &basis), durability, out);
                }
                let answer = served.answer(from, number, &question);
                let answer = answer.unwrap_or_else(|error| Answer::Failed(error.into()));
                out.send(from, Message::Answer { number, answer });
            }
            Message::SnapshotClosed(database, at) => {
                if let Some(served) = self.served(database, from) {
                    served.close(from, at);
                }
            }
            // Not for a server.
            Message::Answer { .. } => {}
        }
    }

    fn request(&mut self, _now: Time, note: Note, _out: &mut Outbox<Self>) {
        let Note::Gone(client) = note;
        for served in self.open.values_mut() {
            served.forget(client);
        }
        self.open.retain(|_, served| !(served.clients.is_empty() && served.waiting.is_empty()));
    }

    fn durable(&mut self, _now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        for served in self.open.values_mut() {
            served.acknowledge(upto, out);
        }
    }
}

/// Makes a server's records durable.
#[derive(Default)]
pub struct SyncLog {
    /// The databases that were written to since the last sync.
    written: Vec<Database>,
}

impl fulmar_transport::Log<Synced> for SyncLog {
    fn append(&mut self, records: &[Synced]) -> io::Result<()> {
        for Synced { database, .. } in records {
            if !self.written.iter().any(|other| other.is_same(database)) {
                self.written.push(database.clone());
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.written.drain(..).try_for_each(|database| database.sync()).map_err(io::Error::other)
    }
}
