//! The protocol (RFC 7047, section 4), without sockets and clocks.

mod itself;
mod message;
mod requests;
mod transactions;

use crate::framing::{Framing, LARGEST};
use crate::lock::Locks;
use crate::monitor::Monitor;
use crate::{Changes, Database, Draft, Error, Store, Tag, Uuid};
use fulmar_node::{Random, Time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use transactions::Waiting;

pub use message::Message;

/// So many monitors, locks and transactions that wait are remembered for one client …
const REMEMBERED: usize = 1_000;
/// … of which so many are monitors, as each may be told of each change …
const MONITORS: usize = 64;
/// … and so many bytes of what it has said of them …
const SAID: usize = 2 * LARGEST;
/// … of which those beyond so many come out of what all clients have together.
const SAID_FREELY: usize = 64 << 10;
const SAID_BY_ALL: usize = 4 * LARGEST;
/// The messages that have begun and not ended yet have so many bytes together. If they have more, that which began first is not waited for.
const UNFINISHED: usize = 4 * LARGEST;

/// Who is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What a server wants to be done. Its owner does it, in this order, and clears it.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Messages, and to whom they go.
    pub messages: Vec<(ConnectionId, Message)>,
    /// Connections that are to be closed when they have got their messages, and why. They are forgotten already.
    pub closed: Vec<(ConnectionId, Error)>,
    /// What was committed.
    pub commits: Vec<Arc<Changes>>,
}

impl Outbox {
    fn say(&mut self, to: ConnectionId, message: Value) {
        self.messages.push((to, message.into()));
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
    /// What that was when those that wait last looked.
    looked: u64,
}

/// What is remembered of a client.
#[derive(Default)]
struct Session {
    framing: Framing,
    /// When what has come of a message began to come.
    begun: Time,
    /// By their names, which clients choose, as text.
    monitors: BTreeMap<String, Arc<Watching>>,
    /// How many rows its transactions that wait look at together.
    looked_at: usize,
}

/// A monitor that a client has.
#[derive(Clone, Debug)]
struct Watching {
    name: Value,
    subject: Subject,
    monitor: Monitor,
    /// Bytes of the request.
    said: usize,
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
        }
    }

    /// What is committed.
    #[must_use]
    pub const fn database(&self) -> &Database {
        self.databases.about(Subject::Kept)
    }

    /// A client has connected.
    pub fn connect(&mut self, connection: ConnectionId) {
        self.sessions.insert(connection, Session::default());
    }

    /// A client is gone, and what it has asked for; others get its locks.
    pub fn disconnect(&mut self, connection: ConnectionId, out: &mut Outbox) {
        self.sessions.remove(&connection);
        self.waiting.retain(|_, waiting| waiting.by != connection);
        for name in self.locks.claimed(connection) {
            self.unlock(&name, connection, out).expect("it has claimed it");
        }
    }

    /// A client has sent something: the next bytes of its stream. All that it asks for is done.
    pub fn receive(&mut self, now: Time, connection: ConnectionId, bytes: &[u8], out: &mut Outbox) {
        self.take(now, connection, bytes, out);
        while self.answer(now, connection, out) {}
    }

    /// The same, with nothing done yet: [`Server::answer`] does it.
    pub fn take(&mut self, now: Time, connection: ConnectionId, bytes: &[u8], out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        if session.framing.len() == 0 {
            session.begun = now;
        }
        session.framing.push(bytes);
        while self.sessions.values().map(|session| session.framing.len()).sum::<usize>() > UNFINISHED {
            let unfinished = self.sessions.iter().filter(|(_, session)| session.framing.len() > 0);
            let Some((first, session)) = unfinished.min_by_key(|(_, session)| session.begun) else { return };
            let details = format!(
                "its message has not ended after {} bytes, and all that have not have more than {UNFINISHED}",
                session.framing.len()
            );
            self.close(*first, Error::new(Tag::ResourcesExhausted, details), out);
        }
    }

    /// Does the next thing that a client has asked for. Answers whether there may be another.
    pub fn answer(&mut self, now: Time, connection: ConnectionId, out: &mut Outbox) -> bool {
        let Some(session) = self.sessions.get_mut(&connection) else { return false };
        let heard = match session.framing.next() {
            Ok(None) => return false,
            Ok(Some(message)) => {
                session.begun = now;
                self.hear(now, connection, &message, out)
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
        out.say(connection, json!({"id": null, "result": null, "error": why.to_json()}));
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
        self.retry(now, out);
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
        let changes = Arc::new(changes);
        for (connection, session) in &self.sessions {
            let watching = session.monitors.values().filter(|watching| watching.subject == Subject::Kept);
            let told = watching.map(|watching| Message::update(watching.clone(), changes.clone(), bytes));
            out.messages.extend(told.map(|message| (*connection, message)));
        }
        self.changed += 1;
        out.commits.push(changes);
        Ok(())
    }

    /// How much is remembered for a client: how many things, and how many bytes it has said of them.
    fn remembered(&self, connection: ConnectionId) -> (usize, usize) {
        let monitors =
            self.sessions.get(&connection).into_iter().flat_map(|session| session.monitors.values());
        let waiting = self.waiting.values().filter(|waiting| waiting.by == connection);
        let locks = self.locks.claimed(connection).into_iter().map(|name| name.len());
        let said =
            monitors.map(|watching| watching.said).chain(waiting.map(|waiting| waiting.said)).chain(locks);
        said.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }

    /// How many bytes all clients have said of that.
    fn remembered_of_all(&self) -> usize {
        let monitors = self.sessions.values().flat_map(|session| session.monitors.values());
        let monitors = monitors.map(|watching| watching.said);
        monitors.chain(self.waiting.values().map(|waiting| waiting.said)).chain(self.locks.lengths()).sum()
    }

    fn unlock(&mut self, name: &str, by: ConnectionId, out: &mut Outbox) -> Result<(), Error> {
        if let Some(next) = self.locks.unlock(name, by)? {
            out.say(next, json!({"id": null, "method": "locked", "params": [name]}));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
