//! A place in a table or index, as SQLite's virtual machine uses one.

use crate::codes::Failure;
use crate::key::{self, Field, Format};
use crate::record::{Value, Values};
use fulmar_dbt::{Cursor as Position, Seek, Transaction, Tree};
use std::cmp::Ordering;

/// A cursor. Its first three fields are read by C (`FulmarCursor` in `c/glue.h`) without a call.
#[repr(C)]
pub(crate) struct Cursor {
    /// The record on which it stands: a table's row, or an index entry. Valid until the cursor moves.
    data: *const u8,
    length: u32,
    /// The rowid on which it stands, in a table.
    row: i64,

    position: Position,
    kind: Kind,
    /// Whether it stands at `key`, where there may be nothing (any more), instead of at `position`.
    away: bool,
    key: Vec<u8>,
    /// Encoded fields that are not part of the key.
    rest: Vec<u8>,
    /// How an index's entries become keys; kept, when the cursor is used again, for its buffer.
    format: Format,
}

/// A record's header is its own length.
const WITHOUT_COLUMNS: &[u8] = &[1];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table,
    Index,
}

impl Cursor {
    pub(crate) fn new(tree: Tree) -> Self {
        Self {
            data: std::ptr::null(),
            length: 0,
            row: 0,
            position: Position::new(tree),
            kind: Kind::Table,
            away: false,
            key: Vec::new(),
            rest: Vec::new(),
            format: Format { fields: Vec::new(), unique: 0, encoding: key::Encoding::Utf8 },
        }
    }

    /// Becomes a cursor on a table that stands nowhere.
    pub(crate) fn reopen(&mut self, tree: Tree) {
        self.position = Position::new(tree);
        self.kind = Kind::Table;
        self.away = false;
    }

    /// Makes it a cursor on an index.
    pub(crate) fn set_format(
        &mut self,
        fields: impl Iterator<Item = Field>,
        unique: usize,
        encoding: key::Encoding,
    ) {
        self.kind = Kind::Index;
        self.format.fields.clear();
        self.format.fields.extend(fields);
        self.format.unique = unique;
        self.format.encoding = encoding;
    }

    /// The record on which it stands.
    pub(crate) fn record(&self) -> &[u8] {
        self.position.value()
    }

    /// After a move: shows C what the cursor stands on.
    fn arrive(&mut self, found: Result<bool, fulmar_dbt::Error>) -> Result<bool, Failure> {
        self.away = false;
        let found = found?;
        if found {
            let value = self.position.value();
            self.data = value.as_ptr();
            // SQLite's limit for a record is 2³¹ - 1 bytes.
            self.length = u32::try_from(value.len()).unwrap_or(u32::MAX);
            if self.kind == Kind::Table {
                self.row = key::row_of(self.position.key());
            }
        }
        Ok(found)
    }

    pub(crate) fn first(&mut self, transaction: &Transaction) -> Result<bool, Failure> {
        let found = self.position.first(transaction);
        self.arrive(found)
    }

    pub(crate) fn last(&mut self, transaction: &Transaction) -> Result<bool, Failure> {
        let found = self.position.last(transaction);
        self.arrive(found)
    }

    pub(crate) fn next(&mut self, transaction: &Transaction) -> Result<bool, Failure> {
        let found = if self.away {
            self.position.seek(transaction, &self.key, Seek::After)
        } else {
            self.position.next(transaction)
        };
        self.arrive(found)
    }

    pub(crate) fn previous(&mut self, transaction: &Transaction) -> Result<bool, Failure> {
        let found = if self.away {
            self.position.seek(transaction, &self.key, Seek::Before)
        } else {
            self.position.previous(transaction)
        };
        self.arrive(found)
    }

    /// Stands on a row without having looked whether it is there.
    pub(crate) fn assume_row(&mut self, transaction: &mut Transaction, row: i64) {
        self.key.clear();
        self.key.extend_from_slice(&key::of_row(row));
        self.away = true;
        self.row = row;
        self.data = std::ptr::null();
        self.length = 0;
        transaction.assume(self.position.tree(), &self.key);
    }

    /// Reads the row that it stands on by assumption. If there is none it shows a record without columns, and the commit
    /// will fail.
    pub(crate) fn load(&mut self, transaction: &mut Transaction) -> Result<(), Failure> {
        self.data = WITHOUT_COLUMNS.as_ptr();
        self.length = 1;
        if self.restore(transaction)? {
            transaction.withdraw(self.position.tree(), &self.key);
        } else {
            self.data = WITHOUT_COLUMNS.as_ptr();
            self.length = 1;
        }
        Ok(())
    }

    /// Goes to a row or else to one beside it, and says on which side of `row` the cursor then is: `Less` if it stands
    /// on a smaller one. `None` if there is none at all.
    pub(crate) fn seek_row(
        &mut self,
        transaction: &Transaction,
        row: i64,
    ) -> Result<Option<Ordering>, Failure> {
        let found = self.position.seek(transaction, &key::of_row(row), Seek::AtOrAfter);
        if self.arrive(found)? {
            return Ok(Some(self.row.cmp(&row)));
        }
        Ok(self.last(transaction)?.then_some(Ordering::Less))
    }

    /// Goes to a row, if it is there; answers as `seek_row` does.
    pub(crate) fn seek_exact_row(
        &mut self,
        transaction: &Transaction,
        row: i64,
    ) -> Result<Option<Ordering>, Failure> {
        let found = self.position.seek_exactly(transaction, &key::of_row(row));
        Ok(self.arrive(found)?.then_some(Ordering::Equal))
    }

    /// Goes to a row, if it is there, in a transaction that reads nothing else; answers as `seek_row` does.
    pub(crate) fn seek_only_row(
        &mut self,
        transaction: &Transaction,
        row: i64,
    ) -> Result<Option<Ordering>, Failure> {
        let found = self.position.seek_only(transaction, &key::of_row(row));
        Ok(self.arrive(found)?.then_some(Ordering::Equal))
    }

    /// Goes to where index entries that begin with `values` are. `when_equal` says how such an entry counts: `Less` to
    /// go to the last of them, `Greater` or `Equal` to the first. Answers as `seek_row` does, and whether the cursor
    /// stands on such an entry.
    pub(crate) fn seek_entry<'v>(
        &mut self,
        transaction: &Transaction,
        values: impl Iterator<Item = Value<'v>>,
        when_equal: Ordering,
    ) -> Result<(Option<Ordering>, bool), Failure> {
        let mut prefix = std::mem::take(&mut self.key);
        let mut rest = std::mem::take(&mut self.rest);
        self.format.encode(values, &mut prefix, &mut rest);
        let sought = self.seek_prefix(transaction, &mut prefix, when_equal).map(|(side, equal)| {
            if equal && !rest.is_empty() { self.compare_rest(&rest, when_equal) } else { (side, equal) }
        });
        self.key = prefix;
        self.rest = rest;
        sought
    }

    /// The cursor stands on an entry whose unique fields are those sought; fields after them were sought too.
    fn compare_rest(&self, rest: &[u8], when_equal: Ordering) -> (Option<Ordering>, bool) {
        let (mut key, mut found) = (Vec::new(), Vec::new());
        self.format.encode(Values::of(self.position.value()), &mut key, &mut found);
        let equal = found.starts_with(rest);
        (Some(if equal { when_equal } else { found.as_slice().cmp(rest) }), equal)
    }

    fn seek_prefix(
        &mut self,
        transaction: &Transaction,
        prefix: &mut Vec<u8>,
        when_equal: Ordering,
    ) -> Result<(Option<Ordering>, bool), Failure> {
        if when_equal == Ordering::Less {
            prefix.push(0xff);
            let found = self.position.seek(transaction, prefix, Seek::Before);
            prefix.pop();
            if self.arrive(found)? {
                return Ok((Some(Ordering::Less), self.position.key().starts_with(prefix)));
            }
            return Ok((self.first(transaction)?.then_some(Ordering::Greater), false));
        }
        let found = self.position.seek(transaction, prefix, Seek::AtOrAfter);
        if self.arrive(found)? {
            let equal = self.position.key().starts_with(prefix);
            return Ok((Some(if equal { when_equal } else { Ordering::Greater }), equal));
        }
        Ok((self.last(transaction)?.then_some(Ordering::Less), false))
    }

    /// Goes back to where it stood before something in the tree changed; `false` if that is gone, and then it stays at
    /// the place where it was.
    pub(crate) fn restore(&mut self, transaction: &Transaction) -> Result<bool, Failure> {
        if !self.away {
            self.key.clear();
            self.key.extend_from_slice(self.position.key());
        }
        let found = self.position.seek(transaction, &self.key, Seek::AtOrAfter);
        let same = self.arrive(found)? && self.position.key() == self.key;
        self.away = !same;
        Ok(same)
    }

    /// Sets a row, and stands at its place.
    pub(crate) fn insert_row(
        &mut self,
        transaction: &mut Transaction,
        row: i64,
        record: &[u8],
    ) -> Result<(), Failure> {
        self.key.clear();
        self.key.extend_from_slice(&key::of_row(row));
        self.away = true;
        Ok(transaction.put(self.position.tree(), &self.key, record)?)
    }

    /// Sets an index entry, and stands at its place.
    pub(crate) fn insert_entry(
        &mut self,
        transaction: &mut Transaction,
        record: &[u8],
    ) -> Result<(), Failure> {
        self.format.encode(Values::of(record), &mut self.key, &mut self.rest);
        self.away = true;
        Ok(transaction.put(self.position.tree(), &self.key, record)?)
    }

    /// Removes what it stands on, and stands at its place.
    pub(crate) fn delete(&mut self, transaction: &mut Transaction) -> Result<(), Failure> {
        if !self.away {
            self.key.clear();
            self.key.extend_from_slice(self.position.key());
            self.away = true;
        }
        Ok(transaction.delete(self.position.tree(), &self.key)?)
    }

    /// Replaces the row it stands on.
    pub(crate) fn replace(&mut self, transaction: &mut Transaction, record: &[u8]) -> Result<(), Failure> {
        let row = self.row;
        self.insert_row(transaction, row, record)
    }

    /// Makes the transaction and one that removes what the cursor stands on conflict.
    pub(crate) fn keep(&self, transaction: &mut Transaction) {
        transaction.touch(self.position.tree(), self.position.key());
    }
}
