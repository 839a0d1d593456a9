//! Rows, and what became of them.

use crate::schema::{UUID, VERSION};
use crate::{Datum, Schema, Table, Uuid};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where a row is: the table's place in the schema, and the row's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) table: usize,
    pub(crate) uuid: Uuid,
}

/// What a row holds, column by column as the table's schema has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<Datum>);

impl Row {
    /// One in which nothing is said but its name.
    pub(crate) fn new(table: &Table, uuid: Uuid) -> Self {
        let mut row = Self(table.columns().iter().map(|column| Datum::default_of(column.kind())).collect());
        row.0[UUID] = uuid.into();
        row
    }

    /// What it holds beyond a value in each column: see [`Datum::weight`].
    pub(crate) fn excess(&self) -> usize {
        self.0.iter().map(|datum| datum.weight().saturating_sub(1)).sum()
    }

    /// Whether the other is the same but for its version.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.0[UUID] == other.0[UUID] && self.0[VERSION + 1..] == other.0[VERSION + 1..]
    }
}

/// A row of a table, to be read.
#[derive(Clone, Copy)]
pub struct RowRef<'d> {
    pub(crate) table: &'d Table,
    pub(crate) row: &'d Row,
}

impl<'d> RowRef<'d> {
    /// Its name.
    ///
    /// # Panics
    /// Never: the first column is the name.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.row.0[UUID].uuids().next().expect("the first column is the name")
    }

    /// What it holds in a column.
    ///
    /// # Panics
    /// If the table has no such column: who asks knows the schema.
    #[must_use]
    pub fn get(&self, column: &str) -> &'d Datum {
        match self.table.find(column) {
            Some(at) => &self.row.0[at],
            None => panic!("table {} has no column {column}", self.table.name()),
        }
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.table.columns().iter().zip(&self.row.0);
        f.debug_map().entries(columns.map(|(column, datum)| (column.name(), datum.to_string()))).finish()
    }
}

/// What became of one row. At least one of the two is there.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) old: Option<Arc<Row>>,
    pub(crate) new: Option<Arc<Row>>,
}

/// What a transaction has changed.
#[derive(Clone)]
pub struct Changes {
    pub(crate) schema: Arc<Schema>,
    pub(crate) rows: BTreeMap<RowKey, Change>,
}

/// A row before and after a transaction: nothing where it was not there.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRef<'c> {
    /// Its name.
    pub uuid: Uuid,
    /// What it held.
    pub old: Option<RowRef<'c>>,
    /// What it holds now.
    pub new: Option<RowRef<'c>>,
}

impl ChangeRef<'_> {
    /// Whether what it holds in a column is another.
    ///
    /// # Panics
    /// As [`RowRef::get`].
    #[must_use]
    pub fn touches(&self, column: &str) -> bool {
        self.old.map(|row| row.get(column)) != self.new.map(|row| row.get(column))
    }
}

impl Changes {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// About how much memory they take that rows do not share, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of_row = |row: &Row| row.0.iter().map(Datum::bytes).sum::<usize>();
        let of_change = |change: &Change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                let columns = old.0.iter().zip(&new.0).filter(|(old, new)| old != new);
                columns.map(|(old, new)| old.bytes() + new.bytes()).sum()
            }
            (old, new) => old.iter().chain(new).map(|row| of_row(row)).sum::<usize>(),
        };
        self.rows.values().map(of_change).sum()
    }

    /// Those of a table's rows.
    ///
    /// # Panics
    /// If there is no such table: who asks knows the schema.
    pub fn of<'c>(&'c self, table: &str) -> impl Iterator<Item = ChangeRef<'c>> + use<'c> {
        let at = table_named(&self.schema, table);
        let table = &self.schema.tables()[at];
        self.in_table(at).map(move |(uuid, change)| {
            let view = |row: &'c Option<Arc<Row>>| row.as_ref().map(|row| RowRef { table, row });
            ChangeRef { uuid, old: view(&change.old), new: view(&change.new) }
        })
    }

    pub(crate) fn in_table(&self, table: usize) -> impl Iterator<Item = (Uuid, &Change)> {
        self.rows.iter().filter(move |(key, _)| key.table == table).map(|(key, change)| (key.uuid, change))
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.schema.tables().iter();
        let changed =
            tables.flat_map(|table| self.of(table.name()).map(move |change| (table.name(), change)));
        f.debug_list().entries(changed).finish()
    }
}

/// Where a table is of which the program says that it is there.
pub(crate) fn table_named(schema: &Schema, table: &str) -> usize {
    match schema.find(table) {
        Some(at) => at,
        None => panic!("database {} has no table {table}", schema.name()),
    }
}
