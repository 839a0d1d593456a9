//! What is kept of the database, as JSON: of each transaction what it has changed, and now and then all rows at once.
//!
//! ```text
//! snapshot  {"database": name, "rows": rows}
//! change    {"rows": rows}
//! rows      {table: {uuid: null, where the row is deleted,
//!                          {column: value} of columns that have changed, or are not as by default}}
//! ```
//!
//! Versions of rows and ephemeral columns are not kept.

use crate::fields::{Fields, wrong};
use crate::names::Names;
use crate::row::{Change, Row, RowKey};
use crate::schema::VERSION;
use crate::{Changes, Database, Datum, Draft, Error, Schema, Table};
use fulmar_node::Random;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is to be kept of the changes, if they are not all ephemeral.
pub(crate) fn of_changes(changes: &Changes) -> Option<Value> {
    let rows = changes.rows.iter().filter_map(|(key, change)| {
        let table = &changes.schema.tables()[key.table];
        Some((*key, change_to_json(table, change)?))
    });
    let rows = by_table(&changes.schema, rows);
    (!rows.is_empty()).then(|| json!({"rows": rows}))
}

/// All of a database that is to be kept.
pub(crate) fn of_database(database: &Database) -> Value {
    let schema = database.schema();
    let rows = schema.tables().iter().enumerate().flat_map(|(at, table)| {
        let rows = database.rows_at(at).iter();
        rows.map(move |(uuid, row)| (RowKey { table: at, uuid: *uuid }, row_to_json(table, None, row)))
    });
    json!({"database": schema.name(), "rows": by_table(schema, rows)})
}

fn by_table(schema: &Schema, rows: impl Iterator<Item = (RowKey, Value)>) -> Map<String, Value> {
    let mut tables = Map::new();
    for (key, row) in rows {
        let table = tables.entry(schema.tables()[key.table].name()).or_insert_with(|| json!({}));
        table[key.uuid.to_string()] = row;
    }
    tables
}

fn change_to_json(table: &Table, change: &Change) -> Option<Value> {
    let Some(new) = &change.new else { return Some(Value::Null) };
    let json = row_to_json(table, change.old.as_deref(), new);
    let is_nothing = change.old.is_some() && json.as_object().is_some_and(Map::is_empty);
    (!is_nothing).then_some(json)
}

/// The columns that are kept and are not as they were, or, of a new row, not as by default.
fn row_to_json(table: &Table, old: Option<&Row>, new: &Row) -> Value {
    let mut json = Map::new();
    for (at, column) in table.columns().iter().enumerate() {
        let is_same = || match old {
            Some(old) => old.0[at] == new.0[at],
            None => Datum::default_of(column.kind()) == new.0[at],
        };
        if !column.is_ephemeral() && !is_same() {
            json.insert(column.name().into(), new.0[at].to_json());
        }
    }
    json.into()
}

/// The database of which these are the records: a snapshot, and changes.
pub(crate) fn replay<'r>(
    schema: &Arc<Schema>,
    records: impl Iterator<Item = &'r [u8]>,
    chance: &mut Random,
) -> Result<Database, Error> {
    let mut database = Database::new(schema.clone());
    let mut rows = BTreeMap::new();
    for (number, record) in records.enumerate() {
        let read = serde_json::from_slice(record).map_err(|why| Error::syntax(why.to_string()));
        let read = read.and_then(|record| note(schema, &record, number == 0, &mut rows));
        read.map_err(|why| why.within(format_args!("record {}", number + 1)))?;
    }
    // As one large transaction; so another schema than what it was written with is noticed where rows break its rules.
    let draft = Draft { database: &database, touched: rows };
    let changes = draft.finish(chance)?;
    database.apply(&changes);
    Ok(database)
}

fn note(
    schema: &Schema,
    record: &Value,
    is_first: bool,
    rows: &mut BTreeMap<RowKey, Option<Arc<Row>>>,
) -> Result<(), Error> {
    let fields = Fields::of(record, "record", if is_first { &["database", "rows"] } else { &["rows"] })?;
    if is_first && fields.string("database")? != schema.name() {
        let found = fields.string("database")?;
        return Err(Error::syntax(format!("this is the database {found}: expected {}", schema.name())));
    }
    for (name, changed) in fields.object("rows")? {
        let at = schema.expect(name)?;
        let table = &schema.tables()[at];
        for (uuid, change) in object(changed)? {
            let place = format!("table {name}, row {uuid}");
            let uuid = uuid.parse().map_err(|why| Error::syntax(format!("table {name}: {why}")))?;
            let key = RowKey { table: at, uuid };
            if change.is_null() {
                rows.remove(&key);
                continue;
            }
            let row = rows.entry(key).or_insert_with(|| Some(Arc::new(Row::new(table, uuid))));
            let row = row.as_mut().map(Arc::make_mut);
            row.map_or(Ok(()), |row| overwrite(table, row, change)).map_err(|why| why.within(place))?;
        }
    }
    Ok(())
}

fn object(json: &Value) -> Result<&Map<String, Value>, Error> {
    json.as_object().ok_or_else(|| wrong("record", "an object", json))
}

fn overwrite(table: &Table, row: &mut Row, columns: &Value) -> Result<(), Error> {
    for (name, value) in object(columns)? {
        let at = table.expect(name)?;
        if at > VERSION {
            let datum = Datum::from_json(table.columns()[at].kind(), value, &mut Names::none());
            row.0[at] = datum.map_err(|why| why.within(format_args!("column {name}")))?;
        }
    }
    Ok(())
}
