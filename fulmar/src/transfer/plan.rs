//! What is to be done, in order, for one database to become a copy of another.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::failure::{At, Result};
use crate::shell::quoting::quoted_name;
use crate::shell::statement::Statement;

/// Where an unfinished import keeps how far it has come.
pub(super) const MARK: &str = "_fulmar_import";
/// Where a backup keeps what it must hold.
pub(super) const RECORD: &str = "_fulmar_backup";

/// One thing to do.
pub(super) enum Step {
    /// A statement of the schema.
    Create { name: String, sql: String },
    /// A virtual table, whose content is in tables of its own: written into the schema, lest its module make them.
    Virtual { name: String, sql: String },
    /// The rows of a table.
    Rows(Table),
}

/// A table with rows.
pub(super) struct Table {
    pub(super) name: String,
    /// How many rows it has.
    pub(super) rows: u64,
    /// In quotes: the rowid, if it can be had, and the columns that are stored.
    columns: Vec<String>,
    /// SQLite fills it in passing; what is there first has to go.
    pub(super) is_kept_by_sqlite: bool,
}

/// The steps, which depend on the source alone: an import that goes on finds the same ones.
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Objects of the schema by their type.
    pub(super) objects: BTreeMap<String, u64>,
    /// Rows of all tables.
    pub(super) rows: u64,
}

impl Plan {
    /// Reads the schema of `source`, and counts its rows. A table's indexes are made when all rows are there, which is
    /// quicker, unless it `is_large` by the number of its rows: then each batch of rows brings its part of them.
    /// `place` is how errors call the source.
    pub(super) fn of(source: &Connection, is_large: impl Fn(u64) -> bool, place: &str) -> Result<Self> {
        let objects = schema(source).at(place)?;
        let (mut tables, mut rows, mut kept, mut virtuals) = (vec![], vec![], vec![], vec![]);
        let (mut first, mut last, mut views, mut triggers) = (vec![], vec![], vec![], vec![]);
        let mut large = BTreeSet::new();
        let mut counts = BTreeMap::new();
        let mut total = 0;
        for Object { kind, name, table: owner, sql } in objects {
            let is_kept = name.starts_with("sqlite_");
            if !is_kept {
                *counts.entry(kind.clone()).or_default() += 1;
            }
            let create = Step::Create { name: name.clone(), sql: sql.clone() };
            match kind.as_str() {
                "table" if sql.starts_with("CREATE VIRTUAL TABLE") => {
                    virtuals.push(Step::Virtual { name, sql });
                }
                "table" => {
                    let table = Table::of(source, &name).at(&format!("{place}: table {name}"))?;
                    if is_large(table.rows) {
                        large.insert(owner);
                    }
                    // AUTOINCREMENT makes it; without, it is a leftover.
                    let is_sequence = name == "sqlite_sequence";
                    if is_sequence && table.rows == 0 {
                        continue;
                    }
                    total += table.rows;
                    if is_kept {
                        kept.extend((!is_sequence).then_some(create));
                        kept.push(Step::Rows(table));
                    } else {
                        tables.push(create);
                        rows.push(Step::Rows(table));
                    }
                }
                "index" if large.contains(&owner) => first.push(create),
                "index" => last.push(create),
                "view" => views.push(create),
                _ => triggers.push(create),
            }
        }
        let steps = [tables, first, rows, kept, virtuals, last, views, triggers];
        Ok(Self { steps: steps.into_iter().flatten().collect(), objects: counts, rows: total })
    }

    /// The tables with rows, in the order in which they are copied.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.steps.iter().filter_map(|step| match step {
            Step::Rows(table) => Some(table),
            _ => None,
        })
    }

    /// The rows of all tables that the first `steps` copy.
    pub(super) fn rows_before(&self, steps: usize) -> u64 {
        let left = self.steps.get(steps..).unwrap_or_default();
        let left = left.iter().map(|step| if let Step::Rows(table) = step { table.rows } else { 0 });
        self.rows - left.sum::<u64>()
    }
}

struct Object {
    kind: String,
    name: String,
    /// To which it belongs; a table belongs to itself.
    table: String,
    sql: String,
}

/// All that somebody has made, in the order in which it was made.
fn schema(source: &Connection) -> rusqlite::Result<Vec<Object>> {
    let mut statement = source.prepare(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema
         WHERE sql IS NOT NULL AND tbl_name NOT IN (?1, ?2) ORDER BY rowid",
    )?;
    let objects = statement.query_map([MARK, RECORD], |row| {
        Ok(Object { kind: row.get(0)?, name: row.get(1)?, table: row.get(2)?, sql: row.get(3)? })
    })?;
    objects.collect()
}

impl Table {
    fn of(source: &Connection, name: &str) -> rusqlite::Result<Self> {
        // Generated columns are not among them.
        let mut statement = source.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
        let names: Vec<String> =
            statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let is_free = |rowid: &str| !names.iter().any(|name| name.eq_ignore_ascii_case(rowid));
        let has = |rowid: &str| {
            Statement::prepare(source, &format!("SELECT {rowid} FROM {}", quoted_name(name))).is_ok()
        };
        let rowid = ["rowid", "_rowid_", "oid"].into_iter().find(|rowid| is_free(rowid) && has(rowid));
        let columns =
            rowid.map(str::to_owned).into_iter().chain(names.iter().map(|name| quoted_name(name))).collect();
        let count = format!("SELECT count(*) FROM {}", quoted_name(name));
        let rows = source.query_row(&count, [], |row| row.get(0))?;
        Ok(Self { name: name.into(), rows, columns, is_kept_by_sqlite: name.starts_with("sqlite_") })
    }

    /// Reads all rows, in the order of the table itself, which is the same each time.
    pub(super) fn select(&self, skipped: u64) -> String {
        let offset = if skipped == 0 { String::new() } else { format!(" LIMIT -1 OFFSET {skipped}") };
        format!("SELECT {} FROM {} NOT INDEXED{offset}", self.columns.join(","), quoted_name(&self.name))
    }

    /// Writes one of them.
    pub(super) fn insert(&self) -> String {
        let values = vec!["?"; self.columns.len()].join(",");
        format!("INSERT INTO {}({}) VALUES({values})", quoted_name(&self.name), self.columns.join(","))
    }
}
