//! Rows that statements go to, make or take for present, and the cursors that they use for it.

use super::{Assumes, Handle, Level, SCHEMA, no_transaction};
use crate::codes::{BUSY_SNAPSHOT, Failure};
use crate::cursor::Cursor;
use fulmar_dbt::Tree;
use std::cmp::Ordering;
use std::ffi::c_int;
use std::ops::Bound;

/// Cursors kept for reuse, with their buffers.
const SPARE_CURSORS: usize = 8;

impl Handle {
    /// A statement begins, or ends, that is a transaction of its own and seeks one row by its rowid, once.
    pub(crate) fn let_read_one_row(&mut self, ready: bool) {
        self.reads_one_row = ready;
    }

    /// Goes to a row; see [`Cursor::seek_row`].
    pub(crate) fn seek_row(
        &self,
        cursor: &mut Cursor,
        row: i64,
        exact: bool,
    ) -> Result<Option<Ordering>, Failure> {
        let transaction = self.transaction()?;
        match (self.reads_one_row, exact) {
            (true, _) => cursor.seek_only_row(transaction, row),
            (false, true) => cursor.seek_exact_row(transaction, row),
            (false, false) => cursor.seek_row(transaction, row),
        }
    }

    /// A statement begins, or ends, that is a transaction of its own and can be run again.
    pub(crate) fn let_assume(&mut self, ready: bool) {
        self.assumes = if ready { Assumes::Ready } else { Assumes::Nothing };
    }

    /// Whether the statement has failed with this code, perhaps, because of what it has assumed; then nothing of it has taken place.
    pub(crate) fn was_misled(&self, code: c_int) -> bool {
        let has_assumed = matches!(self.assumes, Assumes::Rows | Assumes::Unread(..));
        // Of what the database itself has failed at, only a conflict may be due to that. Otherwise its commit may have taken place.
        has_assumed && (code == BUSY_SNAPSHOT || self.failure(code).is_none())
    }

    /// Takes a row for present, if the statement may and has read nothing yet.
    pub(crate) fn assume_row(&mut self, cursor: &mut Cursor, row: i64) -> Result<bool, Failure> {
        let may = matches!(self.assumes, Assumes::Ready | Assumes::Rows);
        let transaction = self.transaction_mut()?;
        if !may || transaction.known_snapshot().is_some() {
            return Ok(false);
        }
        cursor.assume_row(transaction, row);
        self.assumes = Assumes::Rows;
        Ok(true)
    }

    /// Reads a row that was taken for present.
    pub(crate) fn load_row(&mut self, cursor: &mut Cursor) -> Result<(), Failure> {
        let loaded = cursor.load(self.transaction_mut()?);
        if let Err(Failure { code, message }) = &loaded {
            self.assumes = Assumes::Unread(*code, message.clone());
        }
        loaded
    }

    /// A rowid for a new row: `next`, or larger if other transactions have picked that.
    pub(crate) fn pick_rowid(&mut self, tree: Tree, next: i64) -> Result<i64, Failure> {
        let transaction = self.transaction()?;
        if let Some(row) = transaction.pick(tree, next)? {
            return Ok(row);
        }
        let row = self.store().rowids.pick(self.owner(), transaction.snapshot()?, tree.root(), next, 1);
        transaction.note_picked(tree, row)?;
        self.has_picked = true;
        Ok(row)
    }

    /// An INSERT into a table with AUTOINCREMENT is about to write a record of `sqlite_sequence`.
    pub(crate) fn raise_sequence(&mut self, tree: Tree, row: i64, record: &[u8]) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        open.raised.note(&open.transaction, tree, row, record);
        Ok(())
    }

    /// Names this handle among those of the process, as long as it lives.
    pub(super) fn owner(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Empties a table or index and says how many entries it had.
    pub(crate) fn clear(&mut self, tree: Tree, count: bool) -> Result<u64, Failure> {
        let transaction = self.transaction_mut()?;
        let entries = if count { transaction.count(tree)? } else { 0 };
        transaction.delete_range(tree, Bound::Unbounded, Bound::Unbounded)?;
        Ok(entries)
    }

    /// A cursor, with used buffers if there are any.
    pub(crate) fn take_cursor(&mut self, tree: Tree) -> Box<Cursor> {
        if let Some(open) = &mut self.open
            && open.level > Level::Read
            && tree != SCHEMA
            && !open.transaction.is_new(tree)
        {
            open.uses_data = true;
        }
        match self.spare.pop() {
            Some(mut cursor) => {
                cursor.reopen(tree);
                cursor
            }
            None => Box::new(Cursor::new(tree)),
        }
    }

    pub(crate) fn return_cursor(&mut self, cursor: Box<Cursor>) {
        if self.spare.len() < SPARE_CURSORS {
            self.spare.push(cursor);
        }
    }
}
