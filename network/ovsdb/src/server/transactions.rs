//! Transactions: done at once, or retried whenever the database changes until they need not wait any more (RFC 7047, section 5.2.6).

use super::{ConnectionId, Outbox, Server, Subject};
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
    /// Bytes of the request.
    pub(super) said: usize,
    pub(super) since: Time,
    /// When it is over at the latest, if it has said so.
    pub(super) deadline: Option<Time>,
    /// Whether it was tried before, and how many rows it looked at then.
    pub(super) has_waited: bool,
    pub(super) looked_at: usize,
}

/// So many rows are looked at again for a client, in all its transactions that wait, whenever something changes.
const MOST_WAITING: usize = 20_000;

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
            if let Some(session) = self.sessions.get_mut(&by) {
                session.looked_at -= waiting.looked_at;
            }
            let why = Error::new(Tag::Canceled, "as was asked for").to_json();
            out.say(by, json!({"id": id, "result": null, "error": why}));
        }
    }

    /// Has those that wait look again, for as long as anything has changed since they looked.
    pub(super) fn retry(&mut self, now: Time, out: &mut Outbox) {
        let mut seen = self.looked;
        while seen != self.changed {
            seen = self.changed;
            for number in self.waiting.keys().copied().collect::<Vec<_>>() {
                self.attempt(now, number, out);
            }
        }
        self.looked = seen;
    }

    /// Does a transaction, if it need not wait.
    pub(super) fn attempt(&mut self, now: Time, number: u64, out: &mut Outbox) {
        let Some(mut waiting) = self.waiting.remove(&number) else { return };
        let owns = |lock: &str| self.locks.owns(lock, waiting.by);
        let others = self.sessions.get_mut(&waiting.by).map_or(0, |session| {
            session.looked_at -= waiting.looked_at;
            session.looked_at
        });
        let most_waiting = MOST_WAITING.saturating_sub(others);
        let most_told = if waiting.has_waited { MOST_TOLD_LATE } else { MOST_TOLD };
        let elapsed = now.since(waiting.since);
        let circumstances = Circumstances { elapsed, owns: &owns, most_waiting, most_told };
        let done = execute(
            self.databases.about(waiting.subject),
            &waiting.operations,
            &circumstances,
            &mut self.chance,
        );
        let results = match done {
            Execution::Failed(results) => results,
            Execution::Waits(timeout, looked_at) => {
                waiting.has_waited = true;
                waiting.looked_at = looked_at;
                if let Some(session) = self.sessions.get_mut(&waiting.by) {
                    session.looked_at += looked_at;
                }
                waiting.deadline = timeout.map(|timeout| waiting.since + timeout);
                self.waiting.insert(number, waiting);
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
        out.say(waiting.by, json!({"id": waiting.id, "result": results, "error": null}));
    }
}

fn reserved() -> Error {
    Error::new(Tag::NotAllowed, "what the server tells of itself is not for clients to change")
}
