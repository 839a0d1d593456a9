//! The protocol (RFC 7047, section 4), without sockets and clocks.

mod itself;
mod kept;
mod message;
mod requests;
mod transactions;

use crate::framing::Framing;
use crate::lock::Locks;
use crate::monitor::Monitor;
use crate::{Changes, Database, Draft, Error, Store, Tag, Uuid};
use fulmar_node::{Random, Time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use transactions::Waiting;

pub use message::Message;

/// What comes of transactions that wait is looked for until so many bytes are to be said: then these are to be sent first.
const BURST: usize = 1 << 20;

/// Who is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What a server wants to be done. Its owner does it, in this order, and takes it.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Messages, and to whom they go.
    pub messages: Vec<(ConnectionId, Message)>,
    /// Connections that are to be closed when they have got their messages, and why. They are forgotten already.
    pub closed: Vec<(ConnectionId, Error)>,
    /// What was committed.
    pub commits: Vec<Arc<Changes>>,
    /// How much memory the messages take, in bytes.
    bytes: usize,
}

impl Outbox {
    fn say(&mut self, to: ConnectionId, message: &Value) {
        self.push(to, Message::whole(message));
    }

    fn push(&mut self, to: ConnectionId, message: Message) {
        self.bytes += message.bytes().0;
        self.messages.push((to, message));
    }
}

/// A server of one database. What it does depends on what it is told alone.
pub struct Server {
    databases: Databases,
    chance: Random,
    /// Its own name (`get_server_id`).
    name: Uuid,
    locks: Locks,
    sessions: BTreeMap<ConnectionId, Session>,
    /// Transactions that wait, in the order in which they were asked for.
    waiting: BTreeMap<u64, Waiting>,
    /// Counts transactions.
    next: u64,
    /// Counts those that have changed anything.
    changed: u64,
    /// What that was when all that wait had last looked.
    looked: u64,
    /// What it was when they began to look again, and who is next, while they do.
    looking: Option<(u64, u64)>,
    /// How many rows those of who came by each door look at.
    looked_at: BTreeMap<usize, usize>,
}

/// What is kept of a client.
#[derive(Default)]
struct Session {
    /// By which door it came.
    door: usize,
    framing: Framing,
    /// How much has come of a message that has not ended, and since when.
    unfinished: usize,
    begun: Time,
    /// By their names, which clients choose, as text.
    monitors: BTreeMap<String, Arc<Watching>>,
    /// How many of its transactions wait.
    waits: usize,
    /// How much memory these and its monitors take, in bytes.
    bytes: usize,
    /// How many rows its transactions that wait look at together.
    looked_at: usize,
}

/// A monitor that a client has.
#[derive(Clone, Debug)]
struct Watching {
    name: Value,
    subject: Subject,
    monitor: Monitor,
}

impl Watching {
    /// About how much memory it takes, in bytes; its name is also what it is found by.
    fn bytes(&self) -> usize {
        2 * kept::bytes_of(&self.name) + self.monitor.bytes()
    }
}

/// What requests may be about.
struct Databases {
    kept: Store,
    itself: Database,
}

/// Which of the databases it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The one that is kept.
    Kept,
    /// The one in which the server tells of that, and which never changes.
    Itself,
}

impl Databases {
    const fn about(&self, subject: Subject) -> &Database {
        match subject {
            Subject::Kept => self.kept.database(),
            Subject::Itself => &self.itself,
        }
    }
}

impl Server {
    /// A server to which nobody is connected.
    #[must_use]
    pub fn new(store: Store, mut chance: Random) -> Self {
        let name = Uuid::random(&mut chance);
        let itself = itself::database(store.database().schema(), &mut chance);
        Self {
            databases: Databases { kept: store, itself },
            chance,
            name,
            locks: Locks::default(),
            sessions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
            changed: 0,
            looked: 0,
            looking: None,
            looked_at: BTreeMap::new(),
        }
    }

    /// What is committed.
    #[must_use]
    pub const fn database(&self) -> &Database {
        self.databases.about(Subject::Kept)
    }

    /// A client has connected, by this door: what all clients may keep together is for those of one door.
    pub fn connect(&mut self, connection: ConnectionId, door: usize) {
        self.sessions.insert(connection, Session { door, ..Session::default() });
    }

    /// A client is gone, and what it has asked for; others get its locks.
    pub fn disconnect(&mut self, connection: ConnectionId, out: &mut Outbox) {
        self.set_looked_at(connection, |_| 0);
        self.sessions.remove(&connection);
        self.waiting.retain(|_, waiting| waiting.by != connection);
        for name in self.locks.claimed(connection) {
            self.unlock(&name, connection, out).expect("it has claimed it");
        }
    }

    /// A client has sent something: the next bytes of its stream. All that it asks for is done.
    pub fn receive(&mut self, now: Time, connection: ConnectionId, bytes: &[u8], out: &mut Outbox) {
        self.take(now, connection, bytes);
        while self.answer(now, connection, out) {}
    }

    /// The same, with nothing done yet: [`Server::answer`] does it.
    pub fn take(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        if session.framing.len() == 0 {
            session.begun = now;
        }
        session.framing.push(bytes);
    }

    /// Does the next thing that a client has asked for. Answers whether there may be another.
    pub fn answer(&mut self, now: Time, connection: ConnectionId, out: &mut Outbox) -> bool {
        let Some(session) = self.sessions.get_mut(&connection) else { return false };
        session.unfinished = 0;
        let heard = match session.framing.next() {
            Ok(None) => {
                session.unfinished = session.framing.len();
                while let Some(first) = self.next_to_give_up(connection) {
                    let details = "its message has not ended, and all that have not are too much together";
                    self.close(first, Error::new(Tag::ResourcesExhausted, details), out);
                }
                return false;
            }
            Ok(Some(message)) => {
                session.begun = now;
                self.hear(now, connection, message, out)
            }
            Err(why) => Err(why),
        };
        if let Err(why) = heard {
            self.close(connection, why, out);
        }
        true
    }

    /// A client is told why nothing more is heard from it.
    fn close(&mut self, connection: ConnectionId, why: Error, out: &mut Outbox) {
        out.say(connection, &json!({"id": null, "result": null, "error": why.to_json()}));
        out.closed.push((connection, why));
        self.disconnect(connection, out);
    }

    /// Time has passed. To be called at [`Server::deadline`]; any other time is harmless.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        let is_due = |waiting: &Waiting| waiting.deadline.is_some_and(|deadline| deadline <= now);
        let due = self.waiting.iter().filter(|(_, waiting)| is_due(waiting)).map(|(number, _)| *number);
        for number in due.collect::<Vec<_>>() {
            self.attempt(now, number, out);
        }
    }

    /// When the next transaction has waited for long enough.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.waiting.values().filter_map(|waiting| waiting.deadline).min()
    }

    /// A transaction of this process: what `make` does, or nothing if it fails.
    ///
    /// # Errors
    /// What `make` says, or [`Error`] of what it comes to.
    pub fn transact<T>(
        &mut self,
        now: Time,
        make: impl FnOnce(&mut Draft<'_>, &mut Random) -> Result<T, Error>,
        out: &mut Outbox,
    ) -> Result<T, Error> {
        let mut draft = Draft::new(self.databases.about(Subject::Kept));
        let made = make(&mut draft, &mut self.chance)?;
        let changes = draft.finish(&mut self.chance)?;
        self.commit(changes, out)?;
        self.retry(now, out);
        Ok(made)
    }

    /// Keeps what was changed, and tells of it.
    fn commit(&mut self, changes: Changes, out: &mut Outbox) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        self.databases.kept.commit(&changes)?;
        let bytes = changes.bytes();
        let tables: BTreeSet<usize> = changes.rows.keys().map(|key| key.table).collect();
        let changes = Arc::new(changes);
        for (connection, session) in &self.sessions {
            let is_told = |watching: &&Arc<Watching>| {
                watching.subject == Subject::Kept && watching.monitor.is_of(&tables)
            };
            for watching in session.monitors.values().filter(is_told) {
                out.push(*connection, Message::update(watching.clone(), changes.clone(), bytes));
            }
        }
        self.changed += 1;
        out.commits.push(changes);
        Ok(())
    }

    fn unlock(&mut self, name: &str, by: ConnectionId, out: &mut Outbox) -> Result<(), Error> {
        let next = self.locks.unlock(name, by)?;
        if let Some(session) = self.sessions.get_mut(&by) {
            session.bytes -= name.len();
        }
        if let Some(next) = next {
            out.say(next, &json!({"id": null, "method": "locked", "params": [name]}));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
