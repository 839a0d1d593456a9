//! The operations of a transaction (RFC 7047, section 5.2), each a function.

use crate::condition::Condition;
use crate::fields::{Fields, is_id, wrong};
use crate::mutation::Mutation;
use crate::names::Names;
use crate::row::{Row, RowKey};
use crate::schema::UUID;
use crate::{Database, Datum, Draft, Error, Table, Tag, Uuid};
use fulmar_node::Random;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A transaction looks at so many rows at most, as everybody else waits meanwhile; changing one counts as looking at ten. A row of which much is asked, or
/// that holds or gets much, counts for as many as that is values: see [`Datum::weight`].
const MOST_LOOKED_AT: usize = 4_000_000;
const CHANGING: usize = 10;
/// It tells so many values at most: each takes some hundred bytes of memory in an answer …
pub(crate) const MOST_TOLD: usize = 500_000;
/// … and so many if it has waited: one change may end the waiting of many.
pub(crate) const MOST_TOLD_LATE: usize = 1_000;

/// What operations depend on besides the database.
pub(crate) struct Circumstances<'c> {
    /// How long ago the transaction was asked for.
    pub(crate) elapsed: Duration,
    /// Whether the client holds a lock.
    pub(crate) owns: &'c dyn Fn(&str) -> bool,
    /// How many rows it may have looked at if it waits: it is done again whenever something changes.
    pub(crate) most_waiting: usize,
    /// How many values it may tell.
    pub(crate) most_told: usize,
}

/// What comes of a transaction's operations.
pub(crate) enum Execution<'d> {
    /// All are done, and the draft may be committed.
    Done { draft: Draft<'d>, results: Vec<Value> },
    /// One has failed, and said so in its place (section 4.1.3).
    Failed(Vec<Value>),
    /// One waits for the database to change, from when the transaction was asked for, or for ever; so many rows were looked at.
    Waits(Option<Duration>, usize),
}

/// Why an operation is not done.
enum Stop {
    Failed(Error),
    Waits(Option<Duration>),
}

impl From<Error> for Stop {
    fn from(why: Error) -> Self {
        Self::Failed(why)
    }
}

/// Does one operation after the other.
pub(crate) fn execute<'d>(
    database: &'d Database,
    operations: &[Value],
    circumstances: &Circumstances<'_>,
    chance: &mut Random,
) -> Execution<'d> {
    let mut run =
        Run { draft: Draft::new(database), names: Names::new(chance), circumstances, looked_at: 0, told: 0 };
    let mut results = Vec::with_capacity(operations.len());
    for (number, operation) in operations.iter().enumerate() {
        match run.operation(operation) {
            Ok(result) => results.push(result),
            Err(Stop::Waits(timeout)) if run.looked_at <= circumstances.most_waiting => {
                return Execution::Waits(timeout, run.looked_at);
            }
            Err(stop) => {
                let why = match stop {
                    Stop::Failed(why) => why,
                    Stop::Waits(_) => too_many(circumstances.most_waiting, "rows would be looked at to wait"),
                };
                let place = format!("operation {} of {}", number + 1, operations.len());
                results.push(why.within(place).to_json());
                results.resize(operations.len(), Value::Null);
                return Execution::Failed(results);
            }
        }
    }
    Execution::Done { draft: run.draft, results }
}

struct Run<'r, 'd> {
    draft: Draft<'d>,
    names: Names<'r>,
    circumstances: &'r Circumstances<'r>,
    /// How many rows have been looked at, and how many values are told.
    looked_at: usize,
    told: usize,
}

impl<'d> Run<'_, 'd> {
    fn operation(&mut self, operation: &Value) -> Result<Value, Stop> {
        let name = operation.get("op").and_then(Value::as_str);
        let name = name.ok_or_else(|| wrong("operation", "an object with an `op`", operation))?;
        let fields = |known: &[&str]| Fields::of(operation, name, &[&["op"], known].concat());
        self.look_at(1)?;
        match name {
            "insert" => self.insert(&fields(&["table", "row", "uuid", "uuid-name"])?),
            "select" => self.select(&fields(&["table", "where", "columns"])?),
            "update" => self.update(&fields(&["table", "where", "row"])?),
            "mutate" => self.mutate(&fields(&["table", "where", "mutations"])?),
            "delete" => self.delete(&fields(&["table", "where"])?),
            "wait" => self.wait(&fields(&["timeout", "table", "where", "columns", "until", "rows"])?),
            "commit" => commit(&fields(&["durable"])?),
            "abort" => abort(&fields(&[])?),
            "comment" => comment(&fields(&["comment"])?),
            "assert" => self.assert(&fields(&["lock"])?),
            _ => Err(Error::syntax(format!("there is no operation `{name}`")).into()),
        }
    }

    /// Section 5.2.1. `uuid` is an extension of `ovsdb-server`, by which a client chooses the row's name.
    fn insert(&mut self, fields: &Fields<'_>) -> Result<Value, Stop> {
        self.look_at(CHANGING)?;
        let (at, table) = self.table(fields)?;
        let chosen = fields.optional("uuid").map(|_| fields.string("uuid")).transpose()?;
        let chosen: Option<Uuid> =
            chosen.map(str::parse).transpose().map_err(|why| Error::syntax(format!("{why}")))?;
        let named = fields.optional("uuid-name").map(|_| fields.string("uuid-name")).transpose()?;
        let uuid = match named {
            Some(name) => self.names.give(name, chosen)?,
            None => chosen.unwrap_or_else(|| self.names.fresh()),
        };
        let key = RowKey { table: at, uuid };
        // One that was deleted in this transaction would seem to be the same row.
        if self.draft.get(key).is_some() || self.draft.touched.contains_key(&key) {
            let details = format!("table {} has, or had, a row {uuid}", table.name());
            return Err(Error::new(Tag::DuplicateUuid, details).into());
        }
        let mut row = Row::new(table, uuid);
        for (place, datum) in self.columns_of(table, fields.object("row")?)? {
            row.0[place] = datum;
        }
        row.0[UUID] = uuid.into();
        for (column, datum) in table.columns().iter().zip(&row.0) {
            let here =
                |why: Error| why.within(format_args!("table {}, column {}", table.name(), column.name()));
            // What nobody has said need not be allowed.
            datum.check(column.kind()).map_err(here)?;
        }
        self.draft.put(key, row);
        Ok(json!({"uuid": ["uuid", uuid.to_string()]}))
    }

    /// Section 5.2.2. Of rows that look the same in the columns that were asked for, one is told.
    fn select(&mut self, fields: &Fields<'_>) -> Result<Value, Stop> {
        let (at, table) = self.table(fields)?;
        let condition = self.condition(fields, table)?;
        let columns = columns(table, fields)?;
        let mut told = BTreeSet::new();
        let mut rows = Vec::new();
        for (_, row) in self.matching(at, &condition)? {
            let values = project(&row, &columns);
            self.told += values.iter().map(|value| 1 + value.weight()).sum::<usize>();
            require_at_most(self.told, self.circumstances.most_told, "values would be told")?;
            if told.insert(values) {
                rows.push(row_to_json(table, &row, columns.iter().copied()));
            }
        }
        Ok(json!({"rows": rows}))
    }

    /// Section 5.2.3.
    fn update(&mut self, fields: &Fields<'_>) -> Result<Value, Stop> {
        let (at, table) = self.table(fields)?;
        let said = self.columns_of(table, fields.object("row")?)?;
        if let Some((place, _)) = said.iter().find(|(place, _)| !table.columns()[*place].is_mutable()) {
            let column = table.columns()[*place].name();
            let details = format!("column {column} of table {} is immutable", table.name());
            return Err(Error::constraint(details).into());
        }
        let condition = self.condition(fields, table)?;
        let matching = self.matching(at, &condition)?;
        let weight: usize = said.iter().map(|(_, datum)| datum.weight()).sum();
        for (key, row) in &matching {
            self.look_at(CHANGING + row.excess() + weight)?;
            let mut row = Row::clone(row);
            for (place, datum) in &said {
                row.0[*place] = datum.clone();
            }
            self.draft.put(*key, row);
        }
        Ok(json!({"count": matching.len()}))
    }

    /// Section 5.2.4.
    fn mutate(&mut self, fields: &Fields<'_>) -> Result<Value, Stop> {
        let (at, table) = self.table(fields)?;
        let mutations = fields.array("mutations")?.iter();
        let mutations = mutations.map(|mutation| Mutation::from_json(table, mutation, &mut self.names));
        let mutations: Vec<Mutation> = mutations.collect::<Result<_, _>>()?;
        let condition = self.condition(fields, table)?;
        let matching = self.matching(at, &condition)?;
        for (key, row) in &matching {
            self.look_at(CHANGING + row.excess())?;
            let mut row = Row::clone(row);
            for mutation in &mutations {
                self.look_at(mutation.weight(&row))?;
                mutation.apply(table, &mut row)?;
            }
            self.draft.put(*key, row);
        }
        Ok(json!({"count": matching.len()}))
    }

    /// Section 5.2.5.
    fn delete(&mut self, fields: &Fields<'_>) -> Result<Value, Stop> {
        let (at, table) = self.table(fields)?;
        let condition = self.condition(fields, table)?;
        let matching = self.matching(at, &condition)?;
        self.look_at(CHANGING * matching.len())?;
        matching.iter().for_each(|(key, _)| self.draft.remove(*key));
        Ok(json!({"count": matching.len()}))
    }

    /// Section 5.2.6.
    fn wait(&mut self, fields: &Fields<'_>) -> Result<Value, Stop> {
        let (at, table) = self.table(fields)?;
        let timeout = fields.optional("timeout").map(|json| {
            json.as_u64().map(Duration::from_millis).ok_or_else(|| wrong("`timeout`", "milliseconds", json))
        });
        let timeout = timeout.transpose()?;
        let condition = self.condition(fields, table)?;
        let columns = columns(table, fields)?;
        let equal = match fields.string("until")? {
            "==" => true,
            "!=" => false,
            _ => return Err(wrong("`until`", "\"==\" or \"!=\"", fields.required("until")?).into()),
        };
        let mut expected = BTreeSet::new();
        for row in fields.array("rows")? {
            let said = row.as_object().ok_or_else(|| wrong("`rows`", "an object", row))?;
            let mut row = Row::new(table, Uuid::ZERO);
            for (place, datum) in self.columns_of(table, said)? {
                row.0[place] = datum;
            }
            expected.insert(project(&row, &columns));
        }
        let matching = self.matching(at, &condition)?;
        let mut found: BTreeSet<Vec<Datum>> = BTreeSet::new();
        for (_, row) in &matching {
            let values = project(row, &columns);
            self.look_at(values.iter().map(|value| value.weight().saturating_sub(1)).sum())?;
            found.insert(values);
        }
        if (found == expected) == equal {
            return Ok(json!({}));
        }
        match timeout {
            Some(timeout) if self.circumstances.elapsed >= timeout => {
                let details = format!("what was awaited did not come within {} ms", timeout.as_millis());
                Err(Error::new(Tag::TimedOut, details).into())
            }
            _ => Err(Stop::Waits(timeout)),
        }
    }

    /// Section 5.2.10.
    fn assert(&self, fields: &Fields<'_>) -> Result<Value, Stop> {
        let lock = fields.string("lock")?;
        if !is_id(lock) {
            return Err(Error::syntax(format!("`{lock}` is no name of a lock")).into());
        }
        if (self.circumstances.owns)(lock) {
            return Ok(json!({}));
        }
        Err(Error::new(Tag::NotOwner, format!("the lock {lock} is not held")).into())
    }

    fn table(&self, fields: &Fields<'_>) -> Result<(usize, &'d Table), Error> {
        let database = self.draft.database;
        let at = database.schema().expect(fields.string("table")?)?;
        Ok((at, database.table(at)))
    }

    fn condition(&mut self, fields: &Fields<'_>, table: &Table) -> Result<Vec<Condition>, Error> {
        Condition::all_from_json(table, fields.array("where")?, &mut self.names)
    }

    /// What a `<row>` says of which columns.
    fn columns_of(&mut self, table: &Table, row: &Map<String, Value>) -> Result<Vec<(usize, Datum)>, Error> {
        let column = |(name, value): (&String, &Value)| {
            let place = table.expect(name)?;
            let datum = Datum::from_json(table.columns()[place].kind(), value, &mut self.names);
            let here = |why: Error| why.within(format_args!("table {}, column {name}", table.name()));
            Ok((place, datum.map_err(here)?))
        };
        row.iter().map(column).collect()
    }

    /// The rows for which all conditions hold.
    fn matching(&mut self, table: usize, conditions: &[Condition]) -> Result<Vec<(RowKey, Arc<Row>)>, Error> {
        let mut looked_at = self.looked_at;
        let mut holds = |row: &Row| {
            looked_at += 1;
            for (at, condition) in conditions.iter().enumerate() {
                // One that asks for a value is part of looking at the row.
                looked_at += condition.weight() - usize::from(at == 0);
                require_at_most(looked_at, MOST_LOOKED_AT, "rows would be looked at")?;
                if !condition.holds(row) {
                    return Ok::<_, Error>(false);
                }
            }
            require_at_most(looked_at, MOST_LOOKED_AT, "rows would be looked at")?;
            Ok(true)
        };
        let mut matching = Vec::new();
        if let Some(uuid) = conditions.iter().find_map(Condition::names_row) {
            let key = RowKey { table, uuid };
            if let Some(row) = self.draft.get(key)
                && holds(row)?
            {
                matching.push((key, row.clone()));
            }
        } else {
            for (uuid, row) in self.draft.rows_at(table) {
                if holds(row)? {
                    matching.push((RowKey { table, uuid }, row.clone()));
                }
            }
        }
        self.looked_at = looked_at;
        Ok(matching)
    }

    fn look_at(&mut self, rows: usize) -> Result<(), Error> {
        self.looked_at += rows;
        require_at_most(self.looked_at, MOST_LOOKED_AT, "rows would be looked at")
    }
}

fn require_at_most(count: usize, most: usize, what: &str) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    Err(too_many(most, what))
}

fn too_many(most: usize, what: &str) -> Error {
    Error::new(Tag::ResourcesExhausted, format!("more than {most} {what} for one transaction: ask in parts"))
}

/// Section 5.2.7: whatever is committed here is durable.
fn commit(fields: &Fields<'_>) -> Result<Value, Stop> {
    fields.required("durable")?;
    fields.boolean("durable", false)?;
    Ok(json!({}))
}

/// Section 5.2.8.
fn abort(_: &Fields<'_>) -> Result<Value, Stop> {
    Err(Error::new(Tag::Aborted, "as was asked for").into())
}

/// Section 5.2.9.
fn comment(fields: &Fields<'_>) -> Result<Value, Stop> {
    fields.string("comment")?;
    Ok(json!({}))
}

/// The columns that are asked for: all, if none are named.
fn columns(table: &Table, fields: &Fields<'_>) -> Result<Vec<usize>, Error> {
    let Some(names) = fields.optional_array("columns")? else {
        return Ok((0..table.columns().len()).collect());
    };
    let place = |name: &Value| {
        table.expect(name.as_str().ok_or_else(|| wrong("`columns`", "names of columns", name))?)
    };
    names.iter().map(place).collect()
}

fn project(row: &Row, columns: &[usize]) -> Vec<Datum> {
    columns.iter().map(|place| row.0[*place].clone()).collect()
}

/// A `<row>` with these columns.
pub(crate) fn row_to_json(table: &Table, row: &Row, columns: impl Iterator<Item = usize>) -> Value {
    columns
        .map(|place| (table.columns()[place].name().into(), row.0[place].to_json()))
        .collect::<Map<_, _>>()
        .into()
}
