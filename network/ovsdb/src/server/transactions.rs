//! Transactions: done at once, or retried whenever the database changes until they need not wait any more (RFC 7047, section 5.2.6).

use super::kept::bytes_of;
use super::{BURST, ConnectionId, Outbox, Server, Subject};
use crate::execution::{Circumstances, Execution, MOST_TOLD, MOST_TOLD_LATE, execute};
use crate::{Error, Tag};
use fulmar_node::Time;
use serde_json::{Value, json};

/// A transaction that is not done yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) by: ConnectionId,
    /// That of the request.
    pub(super) id: Value,
    pub(super) subject: Subject,
    pub(super) operations: Vec<Value>,
    pub(super) since: Time,
    /// When it is over at the latest, if it has said so.
    pub(super) deadline: Option<Time>,
    /// What is kept for it, once it has waited.
    pub(super) kept: Option<Kept>,
}

/// What it takes to let a transaction wait: bytes of memory, and rows that it has looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    bytes: usize,
    rows: usize,
}

impl Server {
    /// Section 4.1.3.
    pub(super) fn begin(&mut self, now: Time, waiting: Waiting, out: &mut Outbox) {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, waiting);
        self.attempt(now, number, out);
        self.retry(now, out);
    }

    /// Section 4.1.4: the reply is that of the transaction.
    pub(super) fn cancel(&mut self, by: ConnectionId, id: &Value, out: &mut Outbox) {
        let is_it = |waiting: &Waiting| waiting.by == by && waiting.id == *id;
        let number = self.waiting.iter().find(|(_, waiting)| is_it(waiting)).map(|(number, _)| *number);
        if let Some(waiting) = number.and_then(|number| self.waiting.remove(&number)) {
            self.forget(&waiting);
            let why = Error::new(Tag::Canceled, "as was asked for").to_json();
            out.say(by, &json!({"id": id, "result": null, "error": why}));
        }
    }

    /// Has those that wait look again, for as long as anything has changed since they looked, and not too much is to be said.
    pub fn retry(&mut self, now: Time, out: &mut Outbox) {
        while self.is_behind() {
            let (changed, next) = self.looking.unwrap_or((self.changed, 0));
            let Some(number) = self.waiting.range(next..).next().map(|(number, _)| *number) else {
                (self.looked, self.looking) = (changed, None);
                continue;
            };
            self.looking = Some((changed, number));
            if out.bytes >= BURST {
                return;
            }
            self.attempt(now, number, out);
            self.looking = Some((changed, number + 1));
        }
    }

    /// Whether transactions that wait are to look again: [`Server::retry`] has them do so.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.looking.is_some() || self.looked != self.changed
    }

    /// Does a transaction, if it need not wait.
    pub(super) fn attempt(&mut self, now: Time, number: u64, out: &mut Outbox) {
        let Some(mut waiting) = self.waiting.remove(&number) else { return };
        self.forget(&waiting);
        let owns = |lock: &str| self.locks.owns(lock, waiting.by);
        let circumstances = Circumstances {
            elapsed: now.since(waiting.since),
            owns: &owns,
            most_waiting: self.most_looked_at(waiting.by),
            most_told: if waiting.kept.is_some() { MOST_TOLD_LATE } else { MOST_TOLD },
        };
        let done = execute(
            self.databases.about(waiting.subject),
            &waiting.operations,
            &circumstances,
            &mut self.chance,
        );
        let results = match done {
            Execution::Failed(results) => results,
            Execution::Waits(timeout, rows) => {
                waiting.deadline = timeout.map(|timeout| waiting.since + timeout);
                match self.remember(&mut waiting, rows) {
                    Ok(()) => drop(self.waiting.insert(number, waiting)),
                    Err(why) => {
                        let why = why.to_json();
                        out.say(waiting.by, &json!({"id": waiting.id, "result": null, "error": why}));
                    }
                }
                return;
            }
            Execution::Done { draft, mut results } => {
                let committed = match (draft.finish(&mut self.chance), waiting.subject) {
                    (Ok(changes), Subject::Itself) if !changes.is_empty() => Err(reserved()),
                    (Ok(changes), _) => self.commit(changes, out),
                    (Err(why), _) => Err(why),
                };
                // What fails as a whole says so behind all operations (section 4.1.3).
                results.extend(committed.err().map(|why| why.to_json()));
                results
            }
        };
        out.say(waiting.by, &json!({"id": waiting.id, "result": results, "error": null}));
    }

    /// A transaction waits, and has looked at so many rows.
    fn remember(&mut self, waiting: &mut Waiting, rows: usize) -> Result<(), Error> {
        let bytes = match waiting.kept {
            Some(kept) => kept.bytes,
            None => {
                let bytes = waiting.operations.iter().chain([&waiting.id]).map(bytes_of).sum();
                self.may_keep(waiting.by, bytes, 0)?;
                bytes
            }
        };
        waiting.kept = Some(Kept { bytes, rows });
        if let Some(session) = self.sessions.get_mut(&waiting.by) {
            session.waits += 1;
            session.bytes += bytes;
        }
        self.set_looked_at(waiting.by, |looked_at| looked_at + rows);
        Ok(())
    }

    /// A transaction does not wait any more.
    fn forget(&mut self, waiting: &Waiting) {
        let Some(Kept { bytes, rows }) = waiting.kept else { return };
        if let Some(session) = self.sessions.get_mut(&waiting.by) {
            session.waits -= 1;
            session.bytes -= bytes;
        }
        self.set_looked_at(waiting.by, |looked_at| looked_at - rows);
    }
}

fn reserved() -> Error {
    Error::new(Tag::NotAllowed, "what the server tells of itself is not for clients to change")
}
