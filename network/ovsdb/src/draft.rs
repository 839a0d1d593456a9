//! A transaction that is being made: what it has done so far is seen by itself alone.

use crate::row::{Change, Row, RowKey, table_named};
use crate::schema::VERSION;
use crate::{Changes, Database, Datum, Error, RowRef, Uuid, integrity};
use fulmar_node::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transaction on a database. It becomes [`Changes`], if what it comes to keeps the rules of the schema; or nothing.
#[derive(Debug)]
pub struct Draft<'d> {
    pub(crate) database: &'d Database,
    /// Rows that it has touched, and what they hold; nothing where they are deleted.
    pub(crate) touched: BTreeMap<RowKey, Option<Arc<Row>>>,
}

impl<'d> Draft<'d> {
    /// A transaction that has done nothing yet.
    #[must_use]
    pub const fn new(database: &'d Database) -> Self {
        Self { database, touched: BTreeMap::new() }
    }

    /// The rows of a table as this transaction sees them.
    ///
    /// # Panics
    /// If there is no such table: who asks knows the schema.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = RowRef<'_>> {
        let at = table_named(self.database.schema(), table);
        let table = self.database.table(at);
        self.rows_at(at).map(move |(_, row)| RowRef { table, row })
    }

    /// A new row, in which nothing is said yet.
    ///
    /// # Panics
    /// If there is no such table: who inserts knows the schema.
    pub fn insert(&mut self, table: &str, chance: &mut Random) -> Uuid {
        let table = table_named(self.database.schema(), table);
        let key = RowKey { table, uuid: Uuid::random(chance) };
        self.put(key, Row::new(self.database.table(table), key.uuid));
        key.uuid
    }

    /// Says what a row holds in a column. That nobody else may change it does not matter here.
    ///
    /// # Errors
    /// [`Error`], if a column of this type does not hold this, or there is no such row.
    ///
    /// # Panics
    /// If there is no such table or column: who says it knows the schema.
    pub fn set(
        &mut self,
        table: &str,
        uuid: Uuid,
        column: &str,
        value: impl Into<Datum>,
    ) -> Result<(), Error> {
        let (at, value) = (table_named(self.database.schema(), table), value.into());
        let schema = self.database.table(at);
        let Some(place) = schema.find(column) else { panic!("table {table} has no column {column}") };
        assert!(place > VERSION, "{column} is the database's own");
        let kind = schema.columns()[place].kind();
        let here = |why: Error| why.within(format_args!("table {table}, row {uuid}, column {column}"));
        if !value.is_of(kind) {
            return Err(here(Error::syntax(format!("{value} is of another type"))));
        }
        value.check(kind).map_err(here)?;
        let key = RowKey { table: at, uuid };
        let Some(row) = self.get(key) else { return Err(here(Error::constraint("there is no such row"))) };
        let mut row = Row::clone(row);
        row.0[place] = value;
        self.put(key, row);
        Ok(())
    }

    /// Deletes a row, if it is there.
    ///
    /// # Panics
    /// If there is no such table: who deletes knows the schema.
    pub fn delete(&mut self, table: &str, uuid: Uuid) {
        self.remove(RowKey { table: table_named(self.database.schema(), table), uuid });
    }

    /// What it comes to.
    ///
    /// # Errors
    /// [`Error`], if that breaks a rule of the schema: "constraint violation", or "referential integrity violation".
    pub fn finish(mut self, chance: &mut Random) -> Result<Changes, Error> {
        integrity::settle(&mut self)?;
        let schema = self.database.schema().clone();
        let mut rows = BTreeMap::new();
        for (key, new) in self.touched {
            let old = self.database.get(key).cloned();
            let is_same = match (&old, &new) {
                (Some(old), Some(new)) => old.says_the_same(new),
                (old, new) => old.is_none() && new.is_none(),
            };
            if !is_same {
                let new = new.map(|mut row| {
                    Arc::make_mut(&mut row).0[VERSION] = Uuid::random(chance).into();
                    row
                });
                rows.insert(key, Change { old, new });
            }
        }
        Ok(Changes { schema, rows })
    }

    pub(crate) fn get(&self, key: RowKey) -> Option<&Arc<Row>> {
        self.touched.get(&key).map_or_else(|| self.database.get(key), Option::as_ref)
    }

    pub(crate) fn rows_at(&self, table: usize) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        let key = move |uuid| RowKey { table, uuid };
        let kept = self.database.rows_at(table).iter().map(|(uuid, row)| (*uuid, row));
        let kept = kept.filter(move |(uuid, _)| !self.touched.contains_key(&key(*uuid)));
        let touched = self.touched.iter().filter(move |(key, _)| key.table == table);
        kept.chain(touched.filter_map(|(key, row)| Some((key.uuid, row.as_ref()?))))
    }

    pub(crate) fn put(&mut self, key: RowKey, row: Row) {
        self.touched.insert(key, Some(Arc::new(row)));
    }

    pub(crate) fn remove(&mut self, key: RowKey) {
        if self.get(key).is_some() {
            self.touched.insert(key, None);
        }
    }
}
