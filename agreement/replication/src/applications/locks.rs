//! A lock manager: locks to read and to write, queues of those who wait, and sessions that expire with all their locks.
//!
//! A state machine has no clock. Time passes by an operation, [`LockOperation::Tick`], which whoever runs the service invokes at
//! regular intervals; sessions live for a number of ticks after they were last heard of. An invocation names its tick, so time goes
//! no faster if several invoke it; and a replica takes none that comes sooner than [`Locks::TICK`] after the one before, so nobody makes
//! it go faster.
//!
//! Whoever is given a lock is given a fencing token with it, a number that is larger than all before, of any lock. Time may have
//! passed for the session and not for its holder, which was stopped, say: then what the lock protects sees its token after the next
//! holder's, and can refuse it.

mod encoding;
#[cfg(test)]
mod tests;

use super::undo::Undoable;
use crate::{SequenceNumber, StateMachine};
use fulmar_coding::{Reader, list, put_bytes, put_varint};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// There are no more sessions, no more locks that somebody holds, and no more who hold one or wait for it.
const MOST: usize = 1 << 16;
/// No more hold one lock, or wait for it.
const MOST_OF_LOCK: usize = 1 << 10;
/// The names of all locks have no more bytes: all that there is has to fit into a message.
const MOST_BYTES: u64 = 8 << 20;
/// With this the bytes of [`LockOperation::Tick`] begin.
const TICK: u8 = 9;

/// Names a session. Whoever knows it can do all in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl SessionId {
    /// The one that this number stands for, which is drawn by chance so that nobody guesses it. No session that is numbered has it.
    #[must_use]
    pub const fn drawn(number: u64) -> Self {
        Self((number & (u64::MAX >> 2)) | (1 << 62))
    }

    const fn is_drawn(self) -> bool {
        self.0 >> 62 == 1
    }
}

/// A fencing token: says of two who were given a lock which was later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// What a lock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Many may hold it at a time.
    Read,
    /// One may, and nobody else.
    Write,
}

/// What one can ask of a lock manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOperation {
    /// Opens a session that ends if it is not heard of for so many ticks; or says that it is still there.
    Open {
        /// How many; [`Locks::MOST_TICKS`] if it is more.
        ticks: u64,
        /// Its name, which is [drawn](SessionId::drawn); or it is numbered, as clients of before have it.
        session: Option<SessionId>,
    },
    /// The session is still there, as any operation of it says.
    KeepAlive(SessionId),
    /// Ends a session, and gives up all that it holds or waits for.
    Close(SessionId),
    /// Takes a lock, or waits for it behind all who wait already.
    Acquire {
        /// For whom. A session that holds the lock holds it as before; to read, and alone, it has it to write from then on.
        session: SessionId,
        /// Which lock, in at most [`Locks::LONGEST_NAME`] bytes.
        name: Vec<u8>,
        /// What for.
        mode: LockMode,
        /// Whether to wait, if it cannot be had now.
        waits: bool,
    },
    /// Gives a lock up, or no longer waits for it.
    Release(SessionId, Vec<u8>),
    /// Asks what a session has of a lock: the only query.
    Look(SessionId, Vec<u8>),
    /// Time passes, if this tick is the next: the first is 1. If it is not, nothing happens.
    Tick(u64),
}

/// What a lock manager answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAnswer {
    /// The session is open.
    Opened(SessionId),
    /// It is done.
    Done,
    /// The session holds the lock, and was given it with this token.
    Held(Fence),
    /// It waits for it.
    Waits,
    /// There were so many ticks.
    Ticks(u64),
    /// It has nothing of it.
    Free,
    /// There is no such session: it has expired, or was closed.
    Gone,
    /// The bytes are no operation.
    Malformed,
    /// There are as many sessions, locks, or sessions that hold the lock or wait for it, as there may be.
    Full,
    /// The session holds the lock to read, as others do: it cannot have it to write before it has given it up.
    Shared,
}

/// The name of a lock.
type Name = Arc<[u8]>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lock {
    holders: Vec<(SessionId, Fence)>,
    is_write: bool,
    queue: Vec<(SessionId, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    ticks: u64,
    heard_at: u64,
}

/// The lock manager.
#[derive(Clone, Debug)]
pub struct Locks {
    locks: Undoable<Name, Lock>,
    sessions: Undoable<SessionId, Session>,
    /// What each session holds or waits for: it follows from the locks.
    claims: Undoable<(SessionId, Name), ()>,
    /// How many ticks there were, how many sessions that were numbered, and how many fencing tokens; how many bytes names have.
    counts: Undoable<Count, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Count {
    Ticks,
    Sessions,
    Fences,
    NameBytes,
}

impl Default for Locks {
    fn default() -> Self {
        Self::of(BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), SequenceNumber(0))
    }
}

impl Locks {
    /// No session outlives its client by more ticks: a day of seconds.
    pub const MOST_TICKS: u64 = 86_400;
    /// So much time is from tick to tick, at least.
    pub const TICK: Duration = Duration::from_secs(1);
    /// No name of a lock is longer, bytes.
    pub const LONGEST_NAME: usize = 1 << 10;

    fn of(
        locks: BTreeMap<Name, Lock>,
        sessions: BTreeMap<SessionId, Session>,
        mut counts: BTreeMap<Count, u64>,
        at: SequenceNumber,
    ) -> Self {
        let claims = locks
            .iter()
            .flat_map(|(name, lock)| lock.sessions().map(move |session| ((session, Arc::clone(name)), ())));
        let claims = claims.collect();
        counts.insert(Count::NameBytes, locks.keys().map(|name| name.len() as u64).sum());
        Self {
            locks: Undoable::new(locks, at),
            sessions: Undoable::new(sessions, at),
            claims: Undoable::new(claims, at),
            counts: Undoable::new(counts, at),
        }
    }

    /// Whether there are sessions, for which time has to pass.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        !self.sessions.values().is_empty()
    }

    fn count(&self, count: Count) -> u64 {
        self.counts.get(&count).copied().unwrap_or_default()
    }

    fn apply(&mut self, operation: LockOperation) -> LockAnswer {
        use LockOperation::{Acquire, Close, KeepAlive, Look, Open, Release, Tick};
        let now = self.count(Count::Ticks);
        if let KeepAlive(session)
        | Close(session)
        | Acquire { session, .. }
        | Release(session, _)
        | Look(session, _) = &operation
            && !self.hear(*session, now)
        {
            return LockAnswer::Gone;
        }
        match operation {
            Open { session: Some(session), .. } if self.hear(session, now) => LockAnswer::Opened(session),
            Open { .. } if self.sessions.values().len() >= MOST => LockAnswer::Full,
            Open { ticks, session } => {
                let ticks = ticks.min(Self::MOST_TICKS);
                let session = session.unwrap_or_else(|| self.next_session());
                self.sessions.set(session, Some(Session { ticks, heard_at: now }));
                LockAnswer::Opened(session)
            }
            KeepAlive(_) => LockAnswer::Done,
            Close(session) => {
                self.end(session);
                LockAnswer::Done
            }
            Acquire { session, name, mode, waits } => self.acquire(session, &name, mode, waits),
            Release(session, name) => {
                self.release(session, &name);
                LockAnswer::Done
            }
            Look(session, name) => self.look(session, &name),
            Tick(tick) if now.checked_add(1) == Some(tick) => {
                self.counts.set(Count::Ticks, Some(tick));
                let is_over = |session: &Session| tick > session.heard_at.saturating_add(session.ticks);
                let over = self.sessions.values().iter().filter(|(_, session)| is_over(session));
                let over: Vec<SessionId> = over.map(|(session, _)| *session).collect();
                over.into_iter().for_each(|session| self.end(session));
                LockAnswer::Ticks(tick)
            }
            Tick(_) => LockAnswer::Ticks(now),
        }
    }

    /// Notes that a session is heard of, if there is such a one: whether there is.
    fn hear(&mut self, session: SessionId, now: u64) -> bool {
        let known = self.sessions.get(&session).cloned();
        let is_known = known.is_some();
        if let Some(known) = known {
            self.sessions.set(session, Some(Session { heard_at: now, ..known }));
        }
        is_known
    }

    fn next_session(&mut self) -> SessionId {
        let session = SessionId(self.count(Count::Sessions) + 1);
        self.counts.set(Count::Sessions, Some(session.0));
        session
    }

    fn look(&self, session: SessionId, name: &[u8]) -> LockAnswer {
        let Some(lock) = self.locks.values().get(name) else { return LockAnswer::Free };
        let waits = || lock.queue.iter().any(|(waiting, _)| *waiting == session);
        match lock.held_by(session) {
            Some(fence) => LockAnswer::Held(fence),
            None if waits() => LockAnswer::Waits,
            None => LockAnswer::Free,
        }
    }

    fn acquire(&mut self, session: SessionId, name: &[u8], mode: LockMode, waits: bool) -> LockAnswer {
        match self.look(session, name) {
            LockAnswer::Free => self.take(session, name, mode, waits),
            before if mode == LockMode::Read => before,
            before => self.have_it_written(session, name, before),
        }
    }

    /// Takes a lock of which the session has nothing, or waits for it.
    fn take(&mut self, session: SessionId, name: &[u8], mode: LockMode, waits: bool) -> LockAnswer {
        let known = self.locks.values().get_key_value(name);
        let is_full = match known {
            Some((_, lock)) => lock.sessions().count() >= MOST_OF_LOCK,
            None => {
                let bytes = self.count(Count::NameBytes) + name.len() as u64;
                self.locks.values().len() >= MOST || bytes > MOST_BYTES
            }
        };
        if is_full || self.claims.values().len() >= MOST {
            return LockAnswer::Full;
        }
        let (name, mut lock) = match known {
            Some((name, lock)) => (Arc::clone(name), lock.clone()),
            None => (name.into(), Lock::default()),
        };
        lock.queue.push((session, mode == LockMode::Write));
        let last = lock.grant(self.count(Count::Fences));
        if lock.held_by(session).is_none() && !waits {
            return LockAnswer::Free;
        }
        self.counts.set(Count::Fences, Some(last));
        self.claims.set((session, Arc::clone(&name)), Some(()));
        self.put(&name, lock);
        self.look(session, &name)
    }

    /// Has a lock, which the session holds or waits for, be its to write. To wait for that with a lock to read would be to wait for ever, for
    /// another who does the same.
    fn have_it_written(&mut self, session: SessionId, name: &[u8], before: LockAnswer) -> LockAnswer {
        let Some((name, lock)) = self.locks.values().get_key_value(name) else { return before };
        let (name, mut lock) = (Arc::clone(name), lock.clone());
        match before {
            LockAnswer::Held(_) if lock.is_write => return before,
            LockAnswer::Held(_) if lock.holders.len() > 1 => return LockAnswer::Shared,
            LockAnswer::Held(_) => {
                let fence = self.count(Count::Fences) + 1;
                self.counts.set(Count::Fences, Some(fence));
                (lock.is_write, lock.holders) = (true, vec![(session, Fence(fence))]);
            }
            _ => {
                let waiting = lock.queue.iter_mut().filter(|(waiting, _)| *waiting == session);
                waiting.for_each(|(_, is_write)| *is_write = true);
            }
        }
        self.put(&name, lock);
        self.look(session, &name)
    }

    fn release(&mut self, session: SessionId, name: &[u8]) {
        let claim = (session, Name::from(name));
        if self.claims.get(&claim).is_some()
            && let Some(mut lock) = self.locks.get(&claim.1).cloned()
        {
            lock.holders.retain(|(holder, _)| *holder != session);
            lock.queue.retain(|(waiting, _)| *waiting != session);
            let last = lock.grant(self.count(Count::Fences));
            self.counts.set(Count::Fences, Some(last));
            self.put(&claim.1, lock);
            self.claims.set(claim, None);
        }
    }

    /// Keeps a lock, unless nobody holds it.
    fn put(&mut self, name: &Name, lock: Lock) {
        let (length, bytes) = (name.len() as u64, self.count(Count::NameBytes));
        match (self.locks.get(name).is_some(), lock.holders.is_empty()) {
            (false, false) => self.counts.set(Count::NameBytes, Some(bytes + length)),
            (true, true) => self.counts.set(Count::NameBytes, Some(bytes - length)),
            _ => {}
        }
        self.locks.set(Arc::clone(name), Some(lock).filter(|lock| !lock.holders.is_empty()));
    }

    fn end(&mut self, session: SessionId) {
        let claims = self.claims.values().range((session, Name::default())..);
        let claims = claims.map(|(claim, ())| claim).take_while(|(of, _)| *of == session);
        let names: Vec<Name> = claims.map(|(_, name)| Arc::clone(name)).collect();
        names.into_iter().for_each(|name| self.release(session, &name));
        self.sessions.set(session, None);
    }
}

impl Lock {
    /// Who holds it, and who waits for it.
    fn sessions(&self) -> impl Iterator<Item = SessionId> {
        let holders = self.holders.iter().map(|(session, _)| *session);
        holders.chain(self.queue.iter().map(|(session, _)| *session))
    }

    fn held_by(&self, session: SessionId) -> Option<Fence> {
        self.holders.iter().find(|(holder, _)| *holder == session).map(|(_, fence)| *fence)
    }

    /// Gives the lock to the first who wait, as many as can hold it together. Returns the last fencing token then, which was
    /// `last` before.
    fn grant(&mut self, mut last: u64) -> u64 {
        while let Some((session, is_write)) = self.queue.first().copied()
            && (self.holders.is_empty() || (!is_write && !self.is_write))
        {
            self.queue.remove(0);
            last += 1;
            self.holders.push((session, Fence(last)));
            self.is_write = is_write;
        }
        last
    }
}

impl StateMachine for Locks {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        self.locks.begin(number);
        self.sessions.begin(number);
        self.claims.begin(number);
        self.counts.begin(number);
        LockOperation::decode(operation)
            .map_or(LockAnswer::Malformed, |operation| self.apply(operation))
            .encode()
    }

    fn rollback(&mut self, from: SequenceNumber) {
        self.locks.rollback(from);
        self.sessions.rollback(from);
        self.claims.rollback(from);
        self.counts.rollback(from);
    }

    fn commit(&mut self, upto: SequenceNumber) {
        self.locks.commit(upto);
        self.sessions.commit(upto);
        self.claims.commit(upto);
        self.counts.commit(upto);
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let answer = match LockOperation::decode(operation) {
            Some(LockOperation::Look(session, _)) if self.sessions.get(&session).is_none() => {
                LockAnswer::Gone
            }
            Some(LockOperation::Look(session, name)) => self.look(session, &name),
            _ => LockAnswer::Malformed,
        };
        answer.encode()
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.count(Count::Ticks));
        put_varint(&mut out, self.count(Count::Sessions));
        put_varint(&mut out, self.sessions.values().len() as u64);
        for (session, Session { ticks, heard_at }) in self.sessions.values() {
            [session.0, *ticks, *heard_at].into_iter().for_each(|n| put_varint(&mut out, n));
        }
        put_varint(&mut out, self.locks.values().len() as u64);
        for (name, lock) in self.locks.values() {
            put_bytes(&mut out, name);
            out.push(lock.is_write.into());
            put_varint(&mut out, lock.holders.len() as u64);
            lock.holders.iter().for_each(|(holder, _)| put_varint(&mut out, holder.0));
            put_varint(&mut out, lock.queue.len() as u64);
            lock.queue.iter().for_each(|(waiting, is_write)| {
                put_varint(&mut out, waiting.0 << 1 | u64::from(*is_write));
            });
        }
        put_varint(&mut out, self.count(Count::Fences));
        let holders = self.locks.values().values().flat_map(|lock| &lock.holders);
        holders.for_each(|(_, fence)| put_varint(&mut out, fence.0));
        out
    }

    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) -> bool {
        let mut input = Reader::new(snapshot);
        let Some(read) = Self::read(at, &mut input).filter(|read| input.is_empty() && read.is_sound()) else {
            return false;
        };
        *self = read;
        true
    }

    fn interval(&self, operation: &[u8]) -> Duration {
        if operation.first() != Some(&TICK) {
            return Duration::ZERO;
        }
        let now = self.count(Count::Ticks);
        match LockOperation::decode(operation) {
            // It will do nothing.
            Some(LockOperation::Tick(tick)) if tick <= now => Duration::ZERO,
            Some(LockOperation::Tick(tick)) if tick == now + 1 => Self::TICK,
            // It could, when its time has come.
            Some(LockOperation::Tick(_)) => Duration::MAX,
            _ => Duration::ZERO,
        }
    }
}

impl Locks {
    fn read(at: SequenceNumber, input: &mut Reader<'_>) -> Option<Self> {
        let mut counts =
            BTreeMap::from([(Count::Ticks, input.varint()?), (Count::Sessions, input.varint()?)]);
        let session = |input: &mut Reader<'_>| {
            let id = SessionId(input.varint()?);
            Some((id, Session { ticks: input.varint()?, heard_at: input.varint()? }))
        };
        let sessions = list(input, session)?.into_iter().collect();
        let lock = |input: &mut Reader<'_>| {
            let (name, is_write) = (input.bytes()?.into(), input.byte()? == 1);
            let holders = list(input, |input| Some((SessionId(input.varint()?), Fence(0))))?;
            let waiting = |input: &mut Reader<'_>| {
                let bits = input.varint()?;
                Some((SessionId(bits >> 1), bits & 1 == 1))
            };
            Some((name, Lock { holders, is_write, queue: list(input, waiting)? }))
        };
        let mut locks: BTreeMap<_, Lock> = list(input, lock)?.into_iter().collect();
        // A snapshot of before there were tokens ends here.
        if let Some(last) = input.varint() {
            counts.insert(Count::Fences, last);
            for (_, fence) in locks.values_mut().flat_map(|lock| &mut lock.holders) {
                *fence = Fence(input.varint()?);
            }
        }
        Some(Self::of(locks, sessions, counts, at))
    }

    /// Whether operations could have led to it.
    fn is_sound(&self) -> bool {
        let last = [Count::Ticks, Count::Sessions, Count::Fences].map(|count| self.count(count));
        let [ticks, sessions, fences] = last;
        let lives = |session: &SessionId| self.sessions.get(session).is_some();
        let is_held = |lock: &Lock| {
            !lock.holders.is_empty()
                && (!lock.is_write || lock.holders.len() == 1)
                && lock.holders.iter().all(|(holder, fence)| lives(holder) && fence.0 <= fences)
                && lock.queue.iter().all(|(waiting, _)| lives(waiting))
        };
        last.iter().all(|count| *count < 1 << 62)
            && self
                .sessions
                .values()
                .iter()
                .all(|(id, known)| (id.0 <= sessions || id.is_drawn()) && known.heard_at <= ticks)
            && self.locks.values().values().all(is_held)
    }
}
