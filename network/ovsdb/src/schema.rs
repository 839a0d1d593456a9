//! What a database holds: tables, their columns and the types of these (RFC 7047, section 3.2).
//!
//! A schema is a value. It is declared in Rust, as [`open_vswitch`](crate::open_vswitch) does, or read from JSON, and written as JSON
//! for clients.

mod json;
mod types;

use crate::Error;
use crate::fields::is_id;
pub use types::{Base, Reference, Strength, Type};

/// Where each row has its name, in every table.
pub(crate) const UUID: usize = 0;
/// Where each row has what changes whenever it does, in every table.
pub(crate) const VERSION: usize = 1;

/// A database's schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    name: String,
    version: String,
    /// In the order of their names.
    tables: Vec<Table>,
}

/// A table's schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    name: String,
    /// Begins with `_uuid` and `_version`; the others are in the order of their names.
    columns: Vec<Column>,
    max_rows: Option<usize>,
    is_root: bool,
    /// Columns that no two rows have alike.
    indexes: Vec<Vec<String>>,
}

/// A column's schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    name: String,
    kind: Type,
    ephemeral: bool,
    mutable: bool,
}

impl Schema {
    /// The schema with these tables.
    ///
    /// # Errors
    /// [`Error`] names what breaks which of the rules of section 3.2.
    pub fn new(name: &str, version: &str, tables: impl IntoIterator<Item = Table>) -> Result<Self, Error> {
        let mut tables: Vec<Table> = tables.into_iter().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        // Where no table is a root, all are: so says the section, for schemas older than roots.
        if tables.iter().all(|table| !table.is_root) {
            tables.iter_mut().for_each(|table| table.is_root = true);
        }
        let schema = Self { name: name.into(), version: version.into(), tables };
        schema.check().map_err(|why| why.within(format_args!("schema {name}")))?;
        Ok(schema)
    }

    fn check(&self) -> Result<(), Error> {
        if !is_id(&self.name) {
            return Err(no_name(&self.name));
        }
        let numbers = self.version.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
        if numbers != 3 || self.version.split('.').count() != 3 {
            return Err(Error::syntax(format!("`{}` is no version: expected x.y.z", self.version)));
        }
        if let Some(pair) = self.tables.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Error::syntax(format!("two tables are called {}", pair[0].name)));
        }
        self.tables.iter().try_for_each(|table| {
            table.check(self).map_err(|why| why.within(format_args!("table {}", table.name)))
        })
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema's version: x.y.z.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its tables, in the order of their names.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Where a table is among the others.
    pub(crate) fn find(&self, table: &str) -> Option<usize> {
        self.tables.binary_search_by(|other| other.name.as_str().cmp(table)).ok()
    }

    /// Where a table that a client has named is.
    pub(crate) fn expect(&self, table: &str) -> Result<usize, Error> {
        self.find(table).ok_or_else(|| Error::syntax(format!("there is no table {table} in {}", self.name)))
    }
}

impl Table {
    /// A table with these columns, besides `_uuid` and `_version`.
    #[must_use]
    pub fn new(name: &str, columns: impl IntoIterator<Item = Column>) -> Self {
        let own = |name| Column::new(name, Type::one(Base::uuid())).ephemeral().immutable();
        let mut columns: Vec<Column> = columns.into_iter().collect();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        columns.splice(0..0, [own("_uuid"), own("_version")]);
        Self { name: name.into(), columns, max_rows: None, is_root: false, indexes: Vec::new() }
    }

    /// Its rows are there without being referred to.
    #[must_use]
    pub fn root(self) -> Self {
        Self { is_root: true, ..self }
    }

    /// It has so many rows at most.
    #[must_use]
    pub fn at_most(self, rows: usize) -> Self {
        Self { max_rows: Some(rows), ..self }
    }

    /// No two of its rows have the same values in all of these columns.
    #[must_use]
    pub fn indexed_by(mut self, columns: &[&str]) -> Self {
        self.indexes.push(columns.iter().map(|column| (*column).into()).collect());
        self
    }

    fn check(&self, schema: &Schema) -> Result<(), Error> {
        named(&self.name)?;
        if self.columns.len() == 2 {
            return Err(Error::syntax("it has no columns"));
        }
        if self.max_rows == Some(0) {
            return Err(Error::syntax("`maxRows` is 0: expected 1 at least"));
        }
        if let Some(pair) = self.columns.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Error::syntax(format!("two columns are called {}", pair[0].name)));
        }
        for column in &self.columns[VERSION + 1..] {
            column.check(schema).map_err(|why| why.within(format_args!("column {}", column.name)))?;
        }
        for index in &self.indexes {
            let is_right = |name: &String| self.find(name).is_some_and(|at| !self.columns[at].ephemeral);
            let is_distinct = |(at, name)| !index[..at].contains(name);
            if index.is_empty() || !index.iter().all(is_right) || !index.iter().enumerate().all(is_distinct) {
                let details =
                    format!("index ({}): expected distinct columns that are kept", index.join(", "));
                return Err(Error::syntax(details));
            }
        }
        Ok(())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `_uuid`, `_version`, and the others in the order of their names.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows it has at most.
    #[must_use]
    pub const fn max_rows(&self) -> Option<usize> {
        self.max_rows
    }

    /// Whether its rows are there without being referred to.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.is_root
    }

    /// Columns whose values no two rows have alike.
    #[must_use]
    pub fn indexes(&self) -> &[Vec<String>] {
        &self.indexes
    }

    /// Where a column is among the others.
    pub(crate) fn find(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|other| other.name == column)
    }

    /// Where a column that a client has named is.
    pub(crate) fn expect(&self, column: &str) -> Result<usize, Error> {
        self.find(column).ok_or_else(|| {
            let details = format!("there is no column {column} in table {}", self.name);
            Error::new(crate::Tag::UnknownColumn, details)
        })
    }
}

impl Column {
    /// A column that is kept and may be changed.
    #[must_use]
    pub fn new(name: &str, kind: Type) -> Self {
        Self { name: name.into(), kind, ephemeral: false, mutable: true }
    }

    /// What it holds need not outlive the server.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        Self { ephemeral: true, ..self }
    }

    /// What it holds is set when a row is inserted, and never again.
    #[must_use]
    pub fn immutable(self) -> Self {
        Self { mutable: false, ..self }
    }

    fn check(&self, schema: &Schema) -> Result<(), Error> {
        named(&self.name)?;
        self.kind.check(schema)?;
        // A row that is deleted is taken out of it.
        if !self.mutable && self.kind.references().any(|reference| reference.strength == Strength::Weak) {
            return Err(Error::syntax("a column of weak references must be mutable"));
        }
        Ok(())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    #[must_use]
    pub const fn kind(&self) -> &Type {
        &self.kind
    }

    /// Whether what it holds may be lost when the server ends.
    #[must_use]
    pub const fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// Whether it may be changed.
    #[must_use]
    pub const fn is_mutable(&self) -> bool {
        self.mutable
    }
}

/// A name that is an `<id>`, and not one of the database's own.
fn named(name: &str) -> Result<(), Error> {
    if is_id(name) && !name.starts_with('_') {
        return Ok(());
    }
    Err(no_name(name))
}

fn no_name(name: &str) -> Error {
    Error::syntax(format!("`{name}` is no name: expected letters, digits and `_`, a letter first"))
}

#[cfg(test)]
mod tests;
