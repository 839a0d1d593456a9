//! What SQLite keeps in a database's header, as cells of the tree of facts: the schema's cookie, for example.

use super::{FACTS, Handle, Level, SCHEMA, SCHEMA_COOKIE};
use crate::codes::Failure;
use crate::cursor::Cursor;
use crate::record::{Value, Values};
use fulmar_dbt::{Timestamp, Transaction, Tree};
use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;

/// Which column of `sqlite_schema` names the root of a table or index.
const SCHEMA_ROOT: usize = 3;
/// How many meta values SQLite's header has.
const META_VALUES: usize = 16;

/// Meta values read before, as of a snapshot.
#[derive(Default)]
pub(super) struct Meta {
    pub(super) at: Option<Timestamp>,
    pub(super) values: [Option<u32>; META_VALUES],
    /// Whether the open transaction has changed one.
    pub(super) changed: bool,
}

impl Meta {
    /// Forgets what the transaction's snapshot may not hold. If that is yet to be taken, the cookie is kept, and the read
    /// that takes it makes sure of it.
    pub(super) fn begin(&mut self, transaction: &Transaction) {
        let at = transaction.known_snapshot();
        if at.is_none() || self.at != at {
            // Zero is also what a database has that has no cookie yet.
            let cookie = self.values[SCHEMA_COOKIE].filter(|cookie| at.is_none() && *cookie != 0);
            if let Some(cookie) = cookie {
                transaction.expect(FACTS, &meta_key(SCHEMA_COOKIE), Some(&cookie.to_be_bytes()));
            }
            *self = Self { at, ..Self::default() };
            self.values[SCHEMA_COOKIE] = cookie;
        }
    }
}

pub(super) fn meta_key(index: usize) -> [u8; 2] {
    [b'm', u8::try_from(index).unwrap_or(u8::MAX)]
}

impl Handle {
    /// A value of the header that SQLite keeps for a database, as the open transaction sees it. It fails with
    /// `SCHEMA_CHANGED` if this takes the snapshot, and another schema cookie was remembered.
    pub(crate) fn meta(&mut self, index: usize) -> Result<u32, Failure> {
        let transaction = self.transaction()?;
        // A cookie that is remembered before there is a snapshot is no more than expected of it.
        if transaction.known_snapshot().is_some()
            && let Some(value) = self.meta.values.get(index).copied().flatten()
        {
            return Ok(value);
        }
        let cell = transaction.get(FACTS, &meta_key(index))?;
        let value = cell.and_then(|cell| (*cell).try_into().ok()).map_or(0, u32::from_be_bytes);
        if let Some(cached) = self.meta.values.get_mut(index) {
            *cached = Some(value);
        }
        Ok(value)
    }

    /// The schema cookie for a statement that begins. It may be remembered, which saves a round trip: the read that takes
    /// the snapshot makes sure of it, and so does a commit.
    pub(crate) fn schema_cookie(&mut self) -> Result<u32, Failure> {
        self.meta.values[SCHEMA_COOKIE].map_or_else(|| self.meta(SCHEMA_COOKIE), Ok)
    }

    pub(crate) fn set_meta(&mut self, index: usize, value: u32) -> Result<(), Failure> {
        self.transaction_mut()?.put(FACTS, &meta_key(index), &value.to_be_bytes())?;
        self.meta.changed = true;
        if let Some(cached) = self.meta.values.get_mut(index) {
            *cached = Some(value);
        }
        Ok(())
    }

    /// A number that changes when another connection has committed.
    pub(crate) fn data_version(&self) -> u32 {
        let seen = self.open.as_ref().map_or_else(|| self.store().commits.load(Relaxed), |open| open.commits);
        let far = self.open.as_ref().filter(|_| self.is_far());
        let far = far
            .and_then(|open| open.transaction.snapshot().ok())
            .map_or_else(|| self.version.heard(), |at| self.version.look(at));
        seen.wrapping_sub(self.own_commits).wrapping_add(far).wrapping_add(1)
    }

    /// Whether anything was ever made in the database.
    pub(crate) fn has_content(&mut self) -> Result<bool, Failure> {
        let fresh = self.open.is_none();
        if fresh {
            self.begin(Level::Read, false)?;
        }
        let cookie = self.schema_cookie();
        if fresh {
            self.end(false)?;
        }
        Ok(cookie? != 0)
    }

    /// Removes all that the database holds. The commit sees to it that its schema then counts as changed.
    pub(crate) fn empty(&mut self) -> Result<(), Failure> {
        let cookie = self.schema_cookie()?;
        let transaction = self.transaction_mut()?;
        let mut row = Cursor::new(SCHEMA);
        let mut found = row.first(transaction)?;
        while found {
            if let Some(Value::Integer(root)) = Values::of(row.record()).nth(SCHEMA_ROOT)
                && let Ok(root @ 2..) = u32::try_from(root)
            {
                transaction.drop_tree(Tree(root))?;
            }
            found = row.next(transaction)?;
        }
        transaction.delete_range(SCHEMA, Bound::Unbounded, Bound::Unbounded)?;
        for index in 0..META_VALUES {
            self.set_meta(index, 0)?;
        }
        self.emptied = Some(cookie);
        Ok(())
    }
}
