//! How much a server keeps of what its clients have said, and what is too much. What clients may keep beyond a little comes out of what all who
//! came by the same door have together: so who comes by another is in nobody's way.

use super::{ConnectionId, Server};
use crate::framing::{LARGEST, OBJECT};
use crate::{Error, Tag};
use serde_json::Value;

/// So many monitors, locks and transactions that wait are kept for one client …
pub(super) const THINGS: usize = 1_000;
/// … of which so many are monitors, as each may be told of each change …
pub(super) const MONITORS: usize = 64;
/// … of so many bytes of memory …
pub(super) const BYTES: usize = 2 * LARGEST;
/// … of which those beyond so many come out of what all have together.
pub(super) const BYTES_FREELY: usize = 64 << 10;
pub(super) const BYTES_OF_ALL: usize = 4 * LARGEST;

/// So many rows are looked at again for a client, in all its transactions that wait, whenever something changes …
const ROWS: usize = 20_000;
/// … and so many for all, but for so many of each.
const ROWS_OF_ALL: usize = 200_000;
const ROWS_FREELY: usize = 200;

/// The messages that have begun and not ended yet have so many bytes together. If they have more, that which began first is not waited for.
pub(super) const UNFINISHED: usize = 2 * LARGEST;

/// An object has room for so many members at least, and for as many more each time.
const MEMBERS: usize = 5;

/// About how much memory a value takes, in bytes.
pub(super) fn bytes_of(value: &Value) -> usize {
    let within = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(bytes_of).sum(),
        Value::Object(members) => {
            let members_bytes = members.iter().map(|(name, value)| name.len() + bytes_of(value));
            (members.len() / MEMBERS + 1) * OBJECT + members_bytes.sum::<usize>()
        }
    };
    size_of::<Value>() + within
}

impl Server {
    /// Whether something of so many bytes more may be kept for a client, in the place of something of so many.
    pub(super) fn may_keep(&self, client: ConnectionId, more: usize, less: usize) -> Result<(), Error> {
        let Some(session) = self.sessions.get(&client) else { return Ok(()) };
        let count = session.monitors.len() + session.waits + self.locks.count(client);
        let bytes = (session.bytes + more).saturating_sub(less);
        let exhausted = |details| Err(Error::new(Tag::ResourcesExhausted, details));
        if (count >= THINGS && less == 0) || bytes > BYTES {
            return exhausted(format!(
                "{count} monitors, locks and transactions that wait, of {} bytes: expected no more than {THINGS} and {BYTES} \
                 of one client",
                session.bytes
            ));
        }
        let beyond = |bytes: usize| bytes.saturating_sub(BYTES_FREELY);
        let others = self.sessions.iter().filter(|(id, other)| **id != client && other.door == session.door);
        let others: usize = others.map(|(_, other)| beyond(other.bytes)).sum();
        if beyond(bytes) > 0 && others + beyond(bytes) > BYTES_OF_ALL {
            return exhausted(format!(
                "{bytes} bytes of monitors and transactions that wait: expected no more than {BYTES_FREELY} of one client while \
                 those of others have {others}"
            ));
        }
        Ok(())
    }

    /// How many rows a transaction of a client may look at if it waits.
    pub(super) fn most_looked_at(&self, client: ConnectionId) -> usize {
        let Some(session) = self.sessions.get(&client) else { return ROWS };
        let all = self.looked_at.get(&session.door).copied().unwrap_or_default();
        let free = ROWS_FREELY.saturating_sub(session.looked_at);
        ROWS.saturating_sub(session.looked_at).min(free.max(ROWS_OF_ALL.saturating_sub(all)))
    }

    /// What a client's transactions that wait look at is so much now.
    pub(super) fn set_looked_at(&mut self, client: ConnectionId, change: impl FnOnce(usize) -> usize) {
        let Some(session) = self.sessions.get_mut(&client) else { return };
        let before = session.looked_at;
        session.looked_at = change(before);
        let all = self.looked_at.entry(session.door).or_default();
        *all = *all + session.looked_at - before;
    }

    /// Whose message began first of those that have not ended, of all who came by this client's door, if these have too many bytes.
    pub(super) fn next_to_give_up(&self, client: ConnectionId) -> Option<ConnectionId> {
        let door = self.sessions.get(&client)?.door;
        let unfinished =
            self.sessions.iter().filter(|(_, session)| session.door == door && session.unfinished > 0);
        let bytes: usize = unfinished.clone().map(|(_, session)| session.unfinished).sum();
        let first = unfinished.min_by_key(|(_, session)| session.begun);
        first.filter(|_| bytes > UNFINISHED).map(|(id, _)| *id)
    }
}
