//! A handle's transaction: from its beginning to its end, with SQLite's savepoints.

use super::header::meta_key;
use super::{Assumes, FACTS, Handle, Level, Meta, Open, SCHEMA_COOKIE, no_transaction};
use crate::codes::{BUSY, BUSY_SNAPSHOT, Failure, READONLY};
use crate::sequences::Raised;
use fulmar_dbt::{Error, Exclusion, Timestamp};
use std::sync::atomic::Ordering::Relaxed;

/// In `FACTS`, a cell that is never there. Whoever changes data touches it, and who changes the schema with data at hand
/// deletes it, which is a conflict if it was touched meanwhile.
const SCHEMA_GUARD: &[u8] = b"schema";

impl Handle {
    /// Begins a transaction, or makes one that reads write. `keep_base` if it may be rolled back and yet stay open.
    pub(crate) fn begin(&mut self, level: Level, keep_base: bool) -> Result<(), Failure> {
        self.make_own()?;
        if level > Level::Read && self.read_only {
            let why = self.store().read_only().map(|why| format!(": {why}")).unwrap_or_default();
            let what = format!("{} is open for reading only{why}", self.store().name());
            return Err(Failure::new(READONLY, what));
        }
        let fresh = self.open.is_none();
        if fresh {
            self.failure = None;
        }
        let held = self.open.as_ref().map_or(Level::Read, |open| open.level);
        if level > held {
            self.register(level, held, fresh)?;
        }
        if fresh {
            let store = self.store();
            let commits = store.commits.load(Relaxed);
            let transaction = self.database().begin()?;
            self.meta.begin(&transaction);
            self.open = Some(Open {
                transaction,
                level: Level::Read,
                base: None,
                savepoints: Vec::new(),
                uses_data: false,
                raised: Raised::default(),
                commits,
            });
        }
        if let Some(open) = &mut self.open
            && level > open.level
        {
            if open.level == Level::Read {
                open.transaction.require_unchanged(FACTS, &meta_key(SCHEMA_COOKIE));
                open.transaction.touch(FACTS, SCHEMA_GUARD);
                open.base = keep_base.then(|| open.transaction.mark());
            }
            open.transaction.set_exclusive(level == Level::Exclusive);
            open.level = level;
        }
        Ok(())
    }

    /// Takes part among those who write.
    fn register(&self, level: Level, held: Level, fresh: bool) -> Result<(), Failure> {
        let turns = &self.store().turns;
        // Whoever has the turn would wait for itself.
        if fresh && !self.has_turn.get() {
            turns.let_pass();
        }
        let is_exclusive = level == Level::Exclusive;
        let granted = match held {
            Level::Read => turns.begin(is_exclusive),
            Level::Write | Level::Exclusive => turns.become_exclusive(),
        };
        if granted {
            let exclusion = if is_exclusive { Exclusion::Begin } else { Exclusion::Look };
            let alone = !is_exclusive && !self.was_excluded;
            let agreed = if alone { Ok(true) } else { self.database().exclude(exclusion) };
            if matches!(agreed, Ok(true)) {
                return if is_exclusive { self.require_newest(held) } else { Ok(()) };
            }
            self.stand_back(held, is_exclusive);
            agreed?;
        }
        let why = if level == Level::Exclusive {
            "database is locked: BEGIN EXCLUSIVE waits until no other transaction writes"
        } else {
            "database is locked: another connection has begun an exclusive transaction"
        };
        Err(Failure::new(BUSY, why))
    }

    /// Who is to be alone sees all that others have committed, also in what it has read before.
    fn require_newest(&self, held: Level) -> Result<(), Failure> {
        let seen = self.open.as_ref().and_then(|open| open.transaction.known_snapshot());
        let Some(seen) = seen else { return Ok(()) };
        let newest = self.database().newest();
        if matches!(newest, Ok(newest) if newest <= seen) {
            return Ok(());
        }
        // A server that cannot be reached has ended it already.
        let _ = self.database().exclude(Exclusion::End);
        self.stand_back(held, true);
        newest?;
        let why = "database is locked: others may have committed since a statement of this connection began to read; \
                   retry when that has ended";
        Err(Failure::new(BUSY_SNAPSHOT, why))
    }

    /// Takes part among those who write as before.
    fn stand_back(&self, held: Level, is_exclusive: bool) {
        let turns = &self.store().turns;
        match held {
            Level::Read => turns.end(is_exclusive),
            Level::Write | Level::Exclusive => turns.become_shared(),
        }
    }

    /// Commits what was written. Afterwards no transaction is open, whatever the outcome.
    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        self.require_own()?;
        if let Some(cookie) = self.emptied.take() {
            self.set_meta(SCHEMA_COOKIE, cookie.wrapping_add(1))?;
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if let Assumes::Unread(code, message) = &self.assumes {
            let failure = Failure::new(*code, message.clone());
            self.leave(open.level, None);
            return Err(failure);
        }
        if !open.transaction.is_changed() {
            self.leave(open.level, None);
            drop(open);
            self.database().clean_up();
            return Ok(());
        }
        let cookie = meta_key(SCHEMA_COOKIE);
        if open.uses_data && open.transaction.written(FACTS, &cookie).is_some() {
            // What others have changed meanwhile would be missing from a new index.
            open.transaction.delete(FACTS, SCHEMA_GUARD)?;
        }
        let store = self.store();
        let snapshot = open.transaction.known_snapshot();
        let outcome = store
            .sequences
            .raise(self.database(), &mut open.transaction, open.raised, (FACTS, &cookie))
            .and_then(|()| open.transaction.commit(self.durability));
        if outcome.is_ok() {
            store.commits.fetch_add(1, Relaxed);
            self.own_commits = self.own_commits.wrapping_add(1);
        }
        if let Ok(at) = outcome {
            self.version.committed(snapshot, at);
        }
        self.was_excluded = matches!(outcome, Err(Error::Excluded));
        self.leave(open.level, outcome.as_ref().ok().copied());
        match outcome {
            // What was assumed was so. Nobody else has changed the cookie: that was required. The other values may be newer.
            Ok(at) => {
                self.assumes = Assumes::Nothing;
                let cookie = self.meta.values[SCHEMA_COOKIE];
                self.meta = Meta { at: Some(at), ..Meta::default() };
                self.meta.values[SCHEMA_COOKIE] = cookie;
                Ok(())
            }
            Err(error) => {
                self.meta = Meta::default();
                Err(error.into())
            }
        }
    }

    /// Ends the transaction, without what it wrote. With `keep_reading` its snapshot stays, or else a new one is taken.
    pub(crate) fn end(&mut self, keep_reading: bool) -> Result<(), Failure> {
        self.emptied = None;
        if self.store().is_inherited() {
            // Its snapshot is the parent's to end.
            std::mem::forget(self.open.take());
        }
        let Some(level) = self.open.as_ref().map(|open| open.level) else {
            return if keep_reading { self.begin(Level::Read, false) } else { Ok(()) };
        };
        self.leave(level, None);
        if std::mem::take(&mut self.meta.changed) {
            self.meta = Meta::default();
        }
        if !keep_reading {
            self.open = None;
            self.database().clean_up();
            return Ok(());
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.transaction.is_changed() {
            let Some(base) = open.base else {
                self.open = None;
                return self.begin(Level::Read, false);
            };
            open.transaction.undo_to(base);
        }
        self.meta.at = open.transaction.known_snapshot();
        open.level = Level::Read;
        open.savepoints.clear();
        open.raised = Raised::default();
        Ok(())
    }

    /// No longer takes part among those who write.
    pub(super) fn leave(&mut self, level: Level, committed: Option<Timestamp>) {
        if level == Level::Read {
            return;
        }
        if std::mem::take(&mut self.has_picked) {
            self.store().rowids.end(self.owner(), committed);
        }
        if level == Level::Exclusive {
            // A server that cannot be reached has ended it already.
            let _ = self.database().exclude(Exclusion::End);
        }
        self.store().turns.end(level == Level::Exclusive);
    }

    /// Opens savepoints until there are `count`.
    pub(crate) fn open_savepoints(&mut self, count: usize) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        while open.savepoints.len() < count {
            open.savepoints.push(open.transaction.mark());
        }
        Ok(())
    }

    /// Forgets the savepoint `index` and those inside it; what they changed stays.
    pub(crate) fn release_savepoint(&mut self, index: usize) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        if let Some(mark) = open.savepoints.get(index) {
            open.transaction.release(*mark);
            open.savepoints.truncate(index);
        }
        Ok(())
    }

    /// Undoes what was changed since the savepoint `index`, which stays; without an index, everything.
    pub(crate) fn undo_savepoint(&mut self, index: Option<usize>) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        let mark = index.map_or(open.base, |index| open.savepoints.get(index).copied());
        if let Some(mark) = mark {
            open.transaction.undo_to(mark);
            open.savepoints.truncate(index.map_or(0, |index| index + 1));
            if self.meta.changed {
                self.meta.values = Default::default();
            }
        }
        Ok(())
    }
}
