//! What exists in a database just now, as the generator needs to know it.
//!
//! The catalog is read from the reference database after each statement that may have changed it, so
//! the generator needs no model of its own of transactions, cascades and failed statements.

use rusqlite::Connection;

use crate::outcome::{self, Failure, Row, Value};

/// A column of a table or view.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// Whether a statement may give it a value (generated and hidden columns take none).
    pub(crate) writable: bool,
    /// Whether it alone is the primary key or has a unique index, so that keys and upserts can refer to it.
    pub(crate) unique: bool,
}

/// What kind of relation a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table with rowids.
    Rowid,
    /// A WITHOUT ROWID table.
    WithoutRowid,
    /// A view.
    View,
    /// An FTS5 table.
    FullText,
    /// An R-Tree.
    RTree,
}

/// A table, view or virtual table.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    /// `main`, `temp` or the name of an attached database.
    pub(crate) schema: String,
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// Its columns.
    pub(crate) columns: Vec<Column>,
}

impl Relation {
    /// The name qualified by the schema, quoted where needed.
    pub(crate) fn path(&self) -> String {
        if self.schema == "main" { self.name.clone() } else { format!("{}.{}", self.schema, self.name) }
    }

    /// Names of the columns that no two rows share.
    pub(crate) fn unique(&self) -> Vec<&str> {
        self.columns.iter().filter(|c| c.unique).map(|c| c.name.as_str()).collect()
    }

    /// Names of the columns that take values.
    pub(crate) fn writable(&self) -> Vec<&str> {
        self.columns.iter().filter(|c| c.writable).map(|c| c.name.as_str()).collect()
    }
}

/// An index or trigger.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    /// The schema it is in.
    pub(crate) schema: String,
    /// Its name.
    pub(crate) name: String,
    /// The table it belongs to.
    pub(crate) table: String,
}

/// Everything that a statement can name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// Tables, views and virtual tables.
    pub(crate) relations: Vec<Relation>,
    /// Indexes that have SQL text, so that they can be dropped.
    pub(crate) indexes: Vec<Attachment>,
    /// Triggers.
    pub(crate) triggers: Vec<Attachment>,
    /// The databases that are attached, by name.
    pub(crate) attached: Vec<String>,
}

impl Catalog {
    /// Reads the catalog of all databases of `connection`.
    ///
    /// # Errors
    /// When the schema cannot be read.
    pub(crate) fn read(connection: &Connection) -> Result<Self, Failure> {
        let mut catalog = Self::default();
        let list = "SELECT schema, name, type, wr FROM pragma_table_list \
                    WHERE type <> 'shadow' AND name NOT LIKE 'sqlite_%' ORDER BY schema, name";
        for row in outcome::rows(connection, list)? {
            let [schema, name, kind] = texts(&row);
            let kind = match (kind.as_str(), row.get(3)) {
                ("view", _) => Kind::View,
                ("virtual", _) if name.starts_with("fts") => Kind::FullText,
                ("virtual", _) => Kind::RTree,
                (_, Some(Value::Integer(1))) => Kind::WithoutRowid,
                _ => Kind::Rowid,
            };
            // A view whose tables are gone has no columns to ask for.
            if let Ok(columns) = columns(connection, &schema, &name) {
                catalog.relations.push(Relation { schema, name, kind, columns });
            }
        }
        for schema in schemas(connection)? {
            let list = format!(
                "SELECT type, name, tbl_name FROM {schema}.sqlite_schema \
                 WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY name"
            );
            for row in outcome::rows(connection, &list)? {
                let [kind, name, table] = texts(&row);
                let into = if kind == "index" { &mut catalog.indexes } else { &mut catalog.triggers };
                into.push(Attachment { schema: schema.clone(), name, table });
            }
            if schema != "main" && schema != "temp" {
                catalog.attached.push(schema);
            }
        }
        Ok(catalog)
    }
}

impl Catalog {
    /// The tables with rowids.
    pub(crate) fn rowid_tables(&self) -> impl Iterator<Item = String> {
        self.relations.iter().filter(|relation| relation.kind == Kind::Rowid).map(Relation::path)
    }
}

/// Queries for the whole contents of all tables: those that SQLite and its modules keep for themselves, too.
///
/// # Errors
/// When the schema cannot be read.
pub(crate) fn contents(connection: &Connection) -> Result<Vec<String>, Failure> {
    let list = "SELECT schema, name, type = 'virtual' OR wr FROM pragma_table_list \
                WHERE type IN ('table', 'shadow', 'virtual') AND name NOT LIKE 'sqlite%schema' ORDER BY schema, name";
    let rows = outcome::rows(connection, list)?;
    let queries = rows.iter().map(|row| {
        let [schema, name] = texts(row);
        let columns = if row.get(2) == Some(&Value::Integer(0)) { "rowid, *" } else { "*" };
        format!("SELECT {columns} FROM {schema}.\"{name}\"")
    });
    Ok(queries.collect())
}

/// The names of the databases of a connection; temp among them only once something is in it.
///
/// # Errors
/// When the list cannot be read.
pub(crate) fn schemas(connection: &Connection) -> Result<Vec<String>, Failure> {
    let rows = outcome::rows(connection, "SELECT name FROM pragma_database_list ORDER BY seq")?;
    Ok(rows.iter().map(texts::<1>).map(|[name]| name).collect())
}

fn columns(connection: &Connection, schema: &str, name: &str) -> Result<Vec<Column>, Failure> {
    let sql = format!(
        "WITH info AS MATERIALIZED (SELECT * FROM pragma_table_xinfo('{name}', '{schema}')), \
         key AS (SELECT max(pk) AS width FROM info), \
         alone AS MATERIALIZED (SELECT min(part.name) AS name \
           FROM pragma_index_list('{name}', '{schema}') AS list, pragma_index_info(list.name, '{schema}') AS part \
           WHERE list.\"unique\" AND NOT list.partial GROUP BY list.name HAVING count(*) = 1) \
         SELECT info.name, hidden, (pk = 1 AND width = 1) OR info.name IN (SELECT name FROM alone) \
         FROM info, key WHERE hidden <> 1 ORDER BY cid"
    );
    let rows = outcome::rows(connection, &sql)?;
    let columns = rows.iter().map(|row| {
        let [name] = texts(row);
        Column {
            name,
            writable: row.get(1) == Some(&Value::Integer(0)),
            unique: row.get(2) == Some(&Value::Integer(1)),
        }
    });
    Ok(columns.collect())
}

/// The first columns of a row, which are text in all the queries above.
fn texts<const N: usize>(row: &Row) -> [String; N] {
    std::array::from_fn(|i| match row.get(i) {
        Some(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    })
}
