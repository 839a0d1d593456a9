//! Schemas as JSON (RFC 7047, section 3.2).

use super::{Base, Column, Reference, Schema, Strength, Table, Type, VERSION};
use crate::datum::Datum;
use crate::fields::{Fields, wrong};
use crate::names::Names;
use crate::{Atom, AtomicType, Error};
use serde_json::{Map, Value, json};

impl Schema {
    /// A `<database-schema>`.
    ///
    /// # Errors
    /// [`Error`] says what is wrong where.
    pub fn from_json(json: &Value) -> Result<Self, Error> {
        let fields = Fields::of(json, "schema", &["name", "version", "cksum", "tables"])?;
        let tables = fields.object("tables")?.iter().map(|(name, table)| {
            Table::from_json(name, table).map_err(|why| why.within(format_args!("table {name}")))
        });
        let tables: Vec<Table> = tables.collect::<Result<_, _>>()?;
        Self::new(fields.string("name")?, fields.string("version")?, tables)
    }

    /// The same as a `<database-schema>`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tables: Map<String, Value> =
            self.tables.iter().map(|table| (table.name.clone(), table.to_json())).collect();
        json!({"name": self.name, "version": self.version, "tables": tables})
    }
}

impl Table {
    fn from_json(name: &str, json: &Value) -> Result<Self, Error> {
        let fields = Fields::of(json, "table", &["columns", "maxRows", "isRoot", "indexes"])?;
        let columns = fields.object("columns")?.iter().map(|(name, column)| {
            Column::from_json(name, column).map_err(|why| why.within(format_args!("column {name}")))
        });
        let columns: Vec<Column> = columns.collect::<Result<_, _>>()?;
        let mut table = Self::new(name, columns);
        table.is_root = fields.boolean("isRoot", false)?;
        table.max_rows = count(&fields, "maxRows")?;
        for index in fields.optional_array("indexes")?.unwrap_or_default() {
            let names = index.as_array().map(|names| names.iter().map(Value::as_str).collect());
            let names: Option<Vec<&str>> = names.unwrap_or_default();
            let names = names.ok_or_else(|| wrong("`indexes`", "an array of names of columns", index))?;
            table = table.indexed_by(&names);
        }
        Ok(table)
    }

    fn to_json(&self) -> Value {
        let columns = self.columns[VERSION + 1..].iter();
        let columns: Map<String, Value> =
            columns.map(|column| (column.name.clone(), column.to_json())).collect();
        let mut json = json!({"columns": columns});
        if let Some(max_rows) = self.max_rows {
            json["maxRows"] = json!(max_rows);
        }
        if self.is_root {
            json["isRoot"] = json!(true);
        }
        if !self.indexes.is_empty() {
            json["indexes"] = json!(self.indexes);
        }
        json
    }
}

impl Column {
    fn from_json(name: &str, json: &Value) -> Result<Self, Error> {
        let fields = Fields::of(json, "column", &["type", "ephemeral", "mutable"])?;
        Ok(Self {
            name: name.into(),
            kind: Type::from_json(fields.required("type")?)?,
            ephemeral: fields.boolean("ephemeral", false)?,
            mutable: fields.boolean("mutable", true)?,
        })
    }

    fn to_json(&self) -> Value {
        let mut json = json!({"type": self.kind.to_json()});
        if self.ephemeral {
            json["ephemeral"] = json!(true);
        }
        if !self.mutable {
            json["mutable"] = json!(false);
        }
        json
    }
}

impl Type {
    pub(super) fn from_json(json: &Value) -> Result<Self, Error> {
        if json.is_string() {
            return Base::from_json(json).map(Self::one);
        }
        let fields = Fields::of(json, "type", &["key", "value", "min", "max"])?;
        let value = fields.optional("value").map(Base::from_json).transpose()?;
        let max = match fields.optional("max") {
            Some(Value::String(word)) if word == "unlimited" => None,
            _ => Some(count(&fields, "max")?.unwrap_or(1)),
        };
        let min = count(&fields, "min")?.unwrap_or(1);
        Ok(Self { key: Base::from_json(fields.required("key")?)?, value, min, max })
    }

    pub(super) fn to_json(&self) -> Value {
        if self.is_scalar() && self.key == self.key.unconstrained() && self.key.reference().is_none() {
            return self.key.to_json();
        }
        let mut json = json!({"key": self.key.to_json()});
        if let Some(value) = &self.value {
            json["value"] = value.to_json();
        }
        if self.min != 1 {
            json["min"] = json!(self.min);
        }
        if self.max != Some(1) {
            json["max"] = self.max.map_or_else(|| json!("unlimited"), |max| json!(max));
        }
        json
    }
}

impl Base {
    fn from_json(json: &Value) -> Result<Self, Error> {
        const KNOWN: [&str; 10] = [
            "type",
            "enum",
            "minInteger",
            "maxInteger",
            "minReal",
            "maxReal",
            "minLength",
            "maxLength",
            "refTable",
            "refType",
        ];
        let object = json!({"type": json});
        let fields = Fields::of(if json.is_string() { &object } else { json }, "base type", &KNOWN)?;
        let name = fields.string("type")?;
        let kind = AtomicType::named(name).ok_or_else(|| {
            Error::syntax(format!("`{name}` is no type: expected integer, real, boolean, string or uuid"))
        })?;
        let (base, limits) = if fields.optional("enum").is_some() {
            (Self::enum_from_json(kind, fields.required("enum")?)?, ["enum", "enum"])
        } else {
            Self::limited(kind, &fields)?
        };
        let is_strange =
            |name: &&&str| **name != "type" && !limits.contains(name) && fields.optional(name).is_some();
        match KNOWN.iter().find(is_strange) {
            Some(strange) => {
                Err(Error::syntax(format!("`{strange}` does not go with the rest of this type")))
            }
            None => Ok(base),
        }
    }

    fn enum_from_json(kind: AtomicType, json: &Value) -> Result<Self, Error> {
        let plain = Type { min: 1, ..Type::set(Self::one_of([kind.default_atom()]).unconstrained()) };
        Ok(Self::one_of(Datum::from_json(&plain, json, &mut Names::none())?.atoms().cloned()))
    }

    /// A type without an enumeration, and the members by which it is limited.
    fn limited(kind: AtomicType, fields: &Fields<'_>) -> Result<(Self, [&'static str; 2]), Error> {
        let limit = |name: &str| -> Result<Option<Atom>, Error> {
            let read = |json| Atom::from_json(kind, json, &mut Names::none());
            fields.optional(name).map(read).transpose()
        };
        let integer = |name, default| {
            limit(name).map(|atom| match atom {
                Some(Atom::Integer(integer)) => integer,
                _ => default,
            })
        };
        let real = |name, default| {
            limit(name).map(|atom| match atom {
                Some(Atom::Real(real)) => real.get(),
                _ => default,
            })
        };
        Ok(match kind {
            AtomicType::Integer => {
                let limits = ["minInteger", "maxInteger"];
                (Self::Integer(integer(limits[0], i64::MIN)?, integer(limits[1], i64::MAX)?), limits)
            }
            AtomicType::Real => {
                let limits = ["minReal", "maxReal"];
                (Self::Real(real(limits[0], f64::NEG_INFINITY)?, real(limits[1], f64::INFINITY)?), limits)
            }
            AtomicType::Boolean => (Self::Boolean, ["type", "type"]),
            AtomicType::String => {
                let limits = ["minLength", "maxLength"];
                let (min, max) = (count(fields, limits[0])?, count(fields, limits[1])?);
                (Self::String(min.unwrap_or(0), max.unwrap_or(usize::MAX)), limits)
            }
            AtomicType::Uuid => (Self::Uuid(Reference::from_json(fields)?), ["refTable", "refType"]),
        })
    }

    fn to_json(&self) -> Value {
        let mut json = json!({"type": self.kind().name()});
        match self {
            Self::Integer(min, max) => {
                put(&mut json, "minInteger", *min, i64::MIN);
                put(&mut json, "maxInteger", *max, i64::MAX);
            }
            Self::Real(min, max) => {
                put(&mut json, "minReal", *min, f64::NEG_INFINITY);
                put(&mut json, "maxReal", *max, f64::INFINITY);
            }
            Self::String(min, max) => {
                put(&mut json, "minLength", *min, 0);
                put(&mut json, "maxLength", *max, usize::MAX);
            }
            Self::Uuid(Some(reference)) => {
                json["refTable"] = json!(reference.table);
                if reference.strength == Strength::Weak {
                    json["refType"] = json!("weak");
                }
            }
            Self::Enum(values) => json["enum"] = Datum::set(values.iter().cloned()).to_json(),
            Self::Boolean | Self::Uuid(None) => {}
        }
        // A type without limits is its name.
        if json.as_object().is_some_and(|members| members.len() == 1) { json["type"].take() } else { json }
    }
}

impl Reference {
    fn from_json(fields: &Fields<'_>) -> Result<Option<Self>, Error> {
        let strength = match fields.optional("refType").map(|json| (json, json.as_str())) {
            None | Some((_, Some("strong"))) => Strength::Strong,
            Some((_, Some("weak"))) => Strength::Weak,
            Some((json, _)) => return Err(wrong("`refType`", "\"strong\" or \"weak\"", json)),
        };
        let table = fields.optional("refTable").map(|_| fields.string("refTable")).transpose()?;
        Ok(table.map(|table| Self { table: table.into(), strength }))
    }
}

fn count(fields: &Fields<'_>, name: &str) -> Result<Option<usize>, Error> {
    let count = |json: &Value| {
        let number = json.as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| wrong(&format!("`{name}`"), "a number", json))
    };
    fields.optional(name).map(count).transpose()
}

/// Says a limit where there is one.
fn put<N: PartialEq>(json: &mut Value, name: &str, limit: N, none: N)
where
    Value: From<N>,
{
    if limit != none {
        json[name] = limit.into();
    }
}
