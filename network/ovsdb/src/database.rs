//! The rows of a database, and what follows from them: who refers to whom, and what is in which index.

use crate::row::{Row, RowKey, table_named};
use crate::schema::Strength;
use crate::{Changes, Datum, RowRef, Schema, Table, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is committed. It is changed by [`Changes`] alone, which a [`Draft`](crate::Draft) that keeps all rules has become.
#[derive(Clone, Debug)]
pub struct Database {
    schema: Arc<Schema>,
    /// For each table of the schema its rows.
    tables: Vec<BTreeMap<Uuid, Arc<Row>>>,
    /// For each row to which others refer, which do so: what all rows' references come to.
    pub(crate) links: Links,
    /// What the rows hold in the columns of indexes, and which row holds it: what all rows come to.
    pub(crate) indexed: BTreeMap<IndexKey, Uuid>,
    #[cfg(test)]
    pub(crate) defect: Option<Defect>,
}

/// What the model must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Strong references are not checked.
    LetsReferencesDangle,
    /// What nothing refers to stays.
    KeepsGarbage,
}

/// An index of a table, and what a row holds in its columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexKey {
    pub(crate) table: usize,
    pub(crate) index: usize,
    pub(crate) values: Vec<Datum>,
}

/// Who refers to a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    strong: BTreeSet<(RowKey, RowKey)>,
    weak: BTreeSet<(RowKey, RowKey)>,
}

impl Links {
    /// The rows that refer to this one, itself aside.
    pub(crate) fn to(&self, target: RowKey, strength: Strength) -> impl Iterator<Item = RowKey> {
        let first = RowKey { table: 0, uuid: Uuid::ZERO };
        let from = self.of(strength).range((target, first)..);
        from.take_while(move |(to, _)| *to == target)
            .map(|(_, from)| *from)
            .filter(move |from| *from != target)
    }

    const fn of(&self, strength: Strength) -> &BTreeSet<(RowKey, RowKey)> {
        match strength {
            Strength::Strong => &self.strong,
            Strength::Weak => &self.weak,
        }
    }

    fn insert(&mut self, to: RowKey, from: RowKey, strength: Strength) {
        match strength {
            Strength::Strong => self.strong.insert((to, from)),
            Strength::Weak => self.weak.insert((to, from)),
        };
    }

    fn remove(&mut self, to: RowKey, from: RowKey, strength: Strength) {
        match strength {
            Strength::Strong => self.strong.remove(&(to, from)),
            Strength::Weak => self.weak.remove(&(to, from)),
        };
    }
}

impl Database {
    /// One without rows.
    #[must_use]
    pub fn new(schema: Arc<Schema>) -> Self {
        let tables = vec![BTreeMap::new(); schema.tables().len()];
        Self {
            schema,
            tables,
            links: Links::default(),
            indexed: BTreeMap::new(),
            #[cfg(test)]
            defect: None,
        }
    }

    /// What it holds.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// A table's rows, in the order of their names.
    ///
    /// # Panics
    /// If there is no such table: who asks knows the schema.
    pub fn rows<'d>(&'d self, table: &str) -> impl Iterator<Item = RowRef<'d>> + use<'d> {
        let at = table_named(&self.schema, table);
        let table = &self.schema.tables()[at];
        self.tables[at].values().map(move |row| RowRef { table, row })
    }

    /// One row of a table.
    ///
    /// # Panics
    /// If there is no such table: who asks knows the schema.
    #[must_use]
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<RowRef<'_>> {
        let at = table_named(&self.schema, table);
        self.tables[at].get(&uuid).map(|row| RowRef { table: &self.schema.tables()[at], row })
    }

    pub(crate) fn table(&self, at: usize) -> &Table {
        &self.schema.tables()[at]
    }

    pub(crate) fn rows_at(&self, table: usize) -> &BTreeMap<Uuid, Arc<Row>> {
        &self.tables[table]
    }

    pub(crate) fn get(&self, key: RowKey) -> Option<&Arc<Row>> {
        self.tables[key.table].get(&key.uuid)
    }

    /// Makes the changes, which were worked out from what it holds.
    pub(crate) fn apply(&mut self, changes: &Changes) {
        // What is freed in an index is freed before others take it.
        for (key, change) in &changes.rows {
            if let Some(old) = &change.old {
                references(&self.schema, *key, old)
                    .for_each(|(to, strength)| self.links.remove(to, *key, strength));
                for entry in index_keys(&self.schema, *key, old) {
                    self.indexed.remove(&entry);
                }
            }
        }
        for (key, change) in &changes.rows {
            let rows = &mut self.tables[key.table];
            let Some(new) = &change.new else {
                rows.remove(&key.uuid);
                continue;
            };
            rows.insert(key.uuid, new.clone());
            references(&self.schema, *key, new)
                .for_each(|(to, strength)| self.links.insert(to, *key, strength));
            self.indexed.extend(index_keys(&self.schema, *key, new).map(|entry| (entry, key.uuid)));
        }
    }

    /// What always holds, worked out from the rows alone.
    ///
    /// # Panics
    /// If it does not.
    pub fn invariants(&self) {
        let mut links = Links::default();
        let mut indexed = BTreeMap::new();
        for (at, rows) in self.tables.iter().enumerate() {
            let table = self.table(at);
            assert!(
                table.max_rows().is_none_or(|max| rows.len() <= max),
                "too many rows in {}",
                table.name()
            );
            for (uuid, row) in rows {
                let key = RowKey { table: at, uuid: *uuid };
                let kept = table.columns().iter().zip(&row.0).filter(|(column, _)| !column.is_ephemeral());
                for (column, datum) in kept {
                    assert_eq!(datum.check(column.kind()), Ok(()), "{}: {row:?}", column.name());
                }
                for (to, strength) in references(&self.schema, key, row) {
                    assert!(self.get(to).is_some(), "{key:?} refers to {to:?}, which is not there");
                    links.insert(to, key, strength);
                }
                for entry in index_keys(&self.schema, key, row) {
                    assert_eq!(indexed.insert(entry, *uuid), None, "twice in an index: {row:?}");
                }
            }
        }
        assert!(links == self.links && indexed == self.indexed, "what follows from the rows is another");
        for (at, rows) in self.tables.iter().enumerate().filter(|(at, _)| !self.table(*at).is_root()) {
            for uuid in rows.keys() {
                let key = RowKey { table: at, uuid: *uuid };
                assert!(links.to(key, Strength::Strong).next().is_some(), "nothing refers to {key:?}");
            }
        }
    }
}

/// Where a row's references lead.
pub(crate) fn references<'r>(
    schema: &'r Schema,
    key: RowKey,
    row: &'r Row,
) -> impl Iterator<Item = (RowKey, Strength)> + 'r {
    let columns = schema.tables()[key.table].columns().iter().zip(&row.0);
    columns.flat_map(|(column, datum)| datum.references(column.kind())).map(|(table, strength, uuid)| {
        let table = table_named(schema, table);
        (RowKey { table, uuid }, strength)
    })
}

/// What a row puts into the indexes of its table.
pub(crate) fn index_keys<'r>(
    schema: &'r Schema,
    key: RowKey,
    row: &'r Row,
) -> impl Iterator<Item = IndexKey> + 'r {
    let table = &schema.tables()[key.table];
    table.indexes().iter().enumerate().map(move |(index, columns)| {
        let values = columns.iter().filter_map(|column| table.find(column)).map(|at| row.0[at].clone());
        IndexKey { table: key.table, index, values: values.collect() }
    })
}
