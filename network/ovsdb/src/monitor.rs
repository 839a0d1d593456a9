//! Who is told what of changes: `monitor` (RFC 7047, sections 4.1.5 and 4.1.6), and `monitor_cond` and `monitor_cond_since`, which
//! clients of `ovsdb-server` know, with conditions and with differences instead of values.

use crate::condition::Condition;
use crate::execution::row_to_json;
use crate::fields::{Fields, wrong};
use crate::names::Names;
use crate::row::Row;
use crate::schema::UUID;
use crate::{Changes, Database, Datum, Error, Schema, Table, Tag, Uuid};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The conditions of a monitor on a table ask for so many values of each row at most (see [`Datum::weight`]): each row that changes is asked.
const MOST_ASKED: usize = 10_000;

/// How it was asked for, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// `monitor`, `update`.
    Plain,
    /// `monitor_cond`, `update2`.
    Conditional,
    /// `monitor_cond_since`, `update3`. Transactions have no names here, so nothing of the past is found again.
    Since,
}

/// What a client wants to be told.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    pub(crate) flavor: Flavor,
    tables: Vec<Watch>,
}

/// Of one table.
#[derive(Clone, Debug)]
struct Watch {
    table: usize,
    /// On which occasions anything is told.
    select: Select,
    /// Of which columns, and on which occasions each.
    columns: Vec<(usize, Select)>,
    /// Of which rows: those for which one of these holds, or all if there are none.
    conditions: Vec<Condition>,
}

/// `<monitor-select>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Select {
    initial: bool,
    insert: bool,
    delete: bool,
    modify: bool,
}

/// What there is to be told of a row.
#[derive(Clone, Copy, Debug)]
enum Occasion<'r> {
    Initial(&'r Row),
    Insert(&'r Row),
    Delete(&'r Row),
    Modify(&'r Row, &'r Row),
}

impl Select {
    const fn covers(self, occasion: Occasion<'_>) -> bool {
        match occasion {
            Occasion::Initial(_) => self.initial,
            Occasion::Insert(_) => self.insert,
            Occasion::Delete(_) => self.delete,
            Occasion::Modify(..) => self.modify,
        }
    }

    fn from_json(fields: &Fields<'_>) -> Result<Self, Error> {
        let all = json!({});
        let json = fields.optional("select").unwrap_or(&all);
        let select = Fields::of(json, "`select`", &["initial", "insert", "delete", "modify"])?;
        Ok(Self {
            initial: select.boolean("initial", true)?,
            insert: select.boolean("insert", true)?,
            delete: select.boolean("delete", true)?,
            modify: select.boolean("modify", true)?,
        })
    }

    const fn or(self, other: Self) -> Self {
        Self {
            initial: self.initial || other.initial,
            insert: self.insert || other.insert,
            delete: self.delete || other.delete,
            modify: self.modify || other.modify,
        }
    }
}

impl Flavor {
    /// What a request is answered: the rows that are there.
    pub(crate) fn reply(self, rows: Value) -> Value {
        match self {
            Self::Plain | Self::Conditional => rows,
            Self::Since => json!([false, Uuid::ZERO.to_string(), rows]),
        }
    }

    /// How a monitor's client is told.
    pub(crate) fn notification(self, monitor: &Value, rows: Value) -> Value {
        let (method, params) = match self {
            Self::Plain => ("update", json!([monitor, rows])),
            Self::Conditional => ("update2", json!([monitor, rows])),
            Self::Since => ("update3", json!([monitor, Uuid::ZERO.to_string(), rows])),
        };
        json!({"id": null, "method": method, "params": params})
    }
}

impl Monitor {
    /// `<monitor-requests>`.
    pub(crate) fn from_json(flavor: Flavor, schema: &Schema, requests: &Value) -> Result<Self, Error> {
        let tables = requests.as_object().ok_or_else(|| wrong("monitor", "an object of tables", requests))?;
        let tables = tables.iter().map(|(name, requests)| {
            let watch = Watch::from_json(flavor, schema, name, requests);
            watch.map_err(|why| why.within(format_args!("monitor of table {name}")))
        });
        Ok(Self { flavor, tables: tables.collect::<Result<_, _>>()? })
    }

    /// Whether it is of one of these tables.
    pub(crate) fn is_of(&self, tables: &BTreeSet<usize>) -> bool {
        self.tables.iter().any(|watch| tables.contains(&watch.table))
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let watches = self.tables.iter().map(|watch| {
            let conditions: usize = watch.conditions.iter().map(Condition::bytes).sum();
            size_of::<Watch>() + size_of_val(watch.columns.as_slice()) + conditions
        });
        watches.sum()
    }

    /// All rows that are to be told at the beginning.
    pub(crate) fn initial(&self, database: &Database) -> Value {
        self.tell(database.schema(), |watch| {
            let rows = database.rows_at(watch.table).iter();
            let rows = rows.filter(|(_, row)| watch.covers(row));
            rows.map(|(uuid, row)| (*uuid, Occasion::Initial(row))).collect()
        })
        .unwrap_or_else(|| json!({}))
    }

    /// What is to be told of the changes, if anything is.
    pub(crate) fn update(&self, changes: &Changes) -> Option<Value> {
        self.tell(&changes.schema, |watch| {
            let changed = changes.in_table(watch.table).filter_map(|(uuid, change)| {
                let seen = |row: Option<&'_ Row>| row.is_some_and(|row| watch.covers(row));
                let (old, new) = (change.old.as_deref(), change.new.as_deref());
                let occasion = match (old.filter(|_| seen(old)), new.filter(|_| seen(new))) {
                    (None, None) => return None,
                    (None, Some(new)) => Occasion::Insert(new),
                    (Some(old), None) => Occasion::Delete(old),
                    (Some(old), Some(new)) => Occasion::Modify(old, new),
                };
                Some((uuid, occasion))
            });
            changed.collect()
        })
    }

    /// `monitor_cond_change`: other conditions for some of the tables. Answers which rows come and go by that.
    pub(crate) fn change(&mut self, database: &Database, requests: &Value) -> Result<Option<Value>, Error> {
        let tables = requests.as_object().ok_or_else(|| wrong("monitor", "an object of tables", requests))?;
        let before = self.clone();
        let mut changed = self.clone();
        for (name, requests) in tables {
            let at = database.schema().expect(name)?;
            let watch = changed.tables.iter_mut().find(|watch| watch.table == at);
            let watch = watch.ok_or_else(|| Error::syntax(format!("table {name} is not monitored")))?;
            watch.conditions = conditions(database.table(at), one_or_more(requests))?;
        }
        *self = changed;
        let mut earlier = before.tables.iter();
        Ok(self.tell(database.schema(), |watch| {
            let before = earlier.next();
            let rows = database.rows_at(watch.table).iter().filter_map(|(uuid, row)| {
                match (before.is_some_and(|watch| watch.covers(row)), watch.covers(row)) {
                    (false, true) => Some((*uuid, Occasion::Insert(row))),
                    (true, false) => Some((*uuid, Occasion::Delete(row))),
                    _ => None,
                }
            });
            rows.collect()
        }))
    }

    /// `<table-updates>`, or `<table-updates2>`.
    fn tell<'r>(
        &self,
        schema: &Schema,
        mut occasions: impl FnMut(&Watch) -> Vec<(Uuid, Occasion<'r>)>,
    ) -> Option<Value> {
        let mut told = Map::new();
        for watch in &self.tables {
            let table = &schema.tables()[watch.table];
            let rows = occasions(watch).into_iter().filter_map(|(uuid, occasion)| {
                Some((uuid.to_string(), watch.row_update(self.flavor, table, occasion)?))
            });
            let rows: Map<String, Value> = rows.collect();
            if !rows.is_empty() {
                told.insert(table.name().into(), rows.into());
            }
        }
        (!told.is_empty()).then(|| told.into())
    }
}

impl Watch {
    fn from_json(flavor: Flavor, schema: &Schema, name: &str, requests: &Value) -> Result<Self, Error> {
        let at = schema.expect(name)?;
        let table = &schema.tables()[at];
        let nothing = Select { initial: false, insert: false, delete: false, modify: false };
        let mut watch = Self { table: at, select: nothing, columns: Vec::new(), conditions: Vec::new() };
        let known: &[&str] =
            if flavor == Flavor::Plain { &["columns", "select"] } else { &["columns", "select", "where"] };
        for request in one_or_more(requests) {
            let fields = Fields::of(request, "monitor", known)?;
            let select = Select::from_json(&fields)?;
            watch.select = watch.select.or(select);
            let Some(names) = fields.optional_array("columns")? else {
                let all = (0..table.columns().len()).filter(|at| *at != UUID);
                watch.columns.extend(all.map(|at| (at, select)));
                continue;
            };
            for name in names {
                let name = name.as_str().ok_or_else(|| wrong("`columns`", "names of columns", name))?;
                watch.columns.push((table.expect(name)?, select));
            }
        }
        watch.columns.sort_by_key(|(at, _)| *at);
        if let Some(pair) = watch.columns.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let name = table.columns()[pair[0].0].name();
            return Err(Error::syntax(format!("column {name} is named more than once")));
        }
        if flavor != Flavor::Plain {
            watch.conditions = conditions(table, one_or_more(requests))?;
        }
        Ok(watch)
    }

    fn covers(&self, row: &Row) -> bool {
        self.conditions.is_empty() || self.conditions.iter().any(|condition| condition.holds(row))
    }

    /// `<row-update>`, or `<row-update2>`; nothing, if the client does not want to know.
    fn row_update(&self, flavor: Flavor, table: &Table, occasion: Occasion<'_>) -> Option<Value> {
        if !self.select.covers(occasion) {
            return None;
        }
        let columns = self.columns.iter().filter(|(_, select)| select.covers(occasion));
        let columns: Vec<usize> = columns.map(|(at, _)| *at).collect();
        let all = |row: &Row| row_to_json(table, row, columns.iter().copied());
        let unusual = |row: &Row| {
            let is_unusual = |at: &usize| row.0[*at] != Datum::default_of(table.columns()[*at].kind());
            row_to_json(table, row, columns.iter().copied().filter(is_unusual))
        };
        let differ = |old: &Row, new: &Row| -> Vec<usize> {
            columns.iter().copied().filter(|at| old.0[*at] != new.0[*at]).collect()
        };
        Some(match (occasion, flavor) {
            (Occasion::Modify(old, new), _) if differ(old, new).is_empty() => return None,
            (Occasion::Initial(new) | Occasion::Insert(new), Flavor::Plain) => json!({"new": all(new)}),
            (Occasion::Delete(old), Flavor::Plain) => json!({"old": all(old)}),
            (Occasion::Modify(old, new), Flavor::Plain) => {
                json!({"old": row_to_json(table, old, differ(old, new).into_iter()), "new": all(new)})
            }
            (Occasion::Initial(new), _) => json!({"initial": unusual(new)}),
            (Occasion::Insert(new), _) => json!({"insert": unusual(new)}),
            (Occasion::Delete(_), _) => json!({"delete": null}),
            (Occasion::Modify(old, new), _) => {
                let differences = differ(old, new).into_iter().map(|at| {
                    let column = &table.columns()[at];
                    // What holds one value at most is told whole.
                    let single = column.kind().max == Some(1);
                    let told = if single { new.0[at].clone() } else { new.0[at].difference(&old.0[at]) };
                    (column.name().to_owned(), told.to_json())
                });
                json!({"modify": differences.collect::<Map<_, _>>()})
            }
        })
    }
}

/// A table's requests: an array, or, as older clients have it, one alone.
fn one_or_more(requests: &Value) -> &[Value] {
    requests.as_array().map_or_else(|| std::slice::from_ref(requests), Vec::as_slice)
}

/// The conditions of a table's requests together.
fn conditions(table: &Table, requests: &[Value]) -> Result<Vec<Condition>, Error> {
    let mut conditions = Vec::new();
    for request in requests {
        let fields = Fields::of(request, "monitor", &["columns", "select", "where"])?;
        let asked = fields.optional_array("where")?.unwrap_or_default();
        conditions.extend(Condition::all_from_json(table, asked, &mut Names::none())?);
    }
    let weight: usize = conditions.iter().map(Condition::weight).sum();
    if weight > MOST_ASKED {
        let details = format!(
            "conditions on table {} ask for {weight} values: expected {MOST_ASKED} at most of one monitor",
            table.name()
        );
        return Err(Error::new(Tag::ResourcesExhausted, details));
    }
    Ok(conditions)
}
