//! Which rows an operation is about (RFC 7047, section 5.1, `<condition>`).

use crate::fields::wrong;
use crate::names::Names;
use crate::row::Row;
use crate::schema::UUID;
use crate::{AtomicType, Datum, Error, Table, Tag, Type, Uuid};
use serde_json::Value;
use std::cmp::Ordering;

/// A test of a row.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// Of one column.
    Clause { column: usize, function: Function, value: Datum },
    /// Of nothing: all rows, or none. `ovsdb-server` knows these besides those of the RFC, and clients' monitors use them.
    Constant(bool),
}

/// `<function>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Less,
    AtMost,
    Equal,
    Unequal,
    AtLeast,
    More,
    Includes,
    Excludes,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "<" => Self::Less,
            "<=" => Self::AtMost,
            "==" => Self::Equal,
            "!=" => Self::Unequal,
            ">=" => Self::AtLeast,
            ">" => Self::More,
            "includes" => Self::Includes,
            "excludes" => Self::Excludes,
            _ => return None,
        })
    }

    const fn compares_sizes(self) -> bool {
        matches!(self, Self::Less | Self::AtMost | Self::AtLeast | Self::More)
    }

    /// The type of what a column of this type is compared with.
    fn operand(self, kind: &Type) -> Option<Type> {
        let is_number = matches!(kind.key.kind(), AtomicType::Integer | AtomicType::Real);
        match self {
            _ if self.compares_sizes() => {
                (is_number && kind.is_at_most_one()).then(|| Type::one(kind.key.clone()))
            }
            Self::Includes | Self::Excludes if !kind.is_scalar() => {
                Some(Type { min: 0, max: None, ..kind.clone() })
            }
            _ => Some(kind.clone()),
        }
    }
}

impl Condition {
    pub(crate) fn from_json(table: &Table, json: &Value, names: &mut Names<'_>) -> Result<Self, Error> {
        if let Some(constant) = json.as_bool() {
            return Ok(Self::Constant(constant));
        }
        let parts = json.as_array().and_then(|parts| match parts.as_slice() {
            [column, function, value] => Some((column.as_str()?, function.as_str()?, value)),
            _ => None,
        });
        let (column, function, value) =
            parts.ok_or_else(|| wrong("condition", "[column, function, value]", json))?;
        let at = table.expect(column)?;
        let known = Function::named(function)
            .ok_or_else(|| Error::new(Tag::UnknownFunction, format!("there is no function {function}")))?;
        let kind = known.operand(table.columns()[at].kind()).ok_or_else(|| {
            Error::syntax(format!(
                "`{function}` compares numbers, and column {column} holds none, or several"
            ))
        })?;
        let value = Datum::from_json(&kind, value, names)
            .map_err(|why| why.within(format_args!("condition on column {column}")))?;
        Ok(Self::Clause { column: at, function: known, value })
    }

    /// All those of a `where`.
    pub(crate) fn all_from_json(
        table: &Table,
        json: &[Value],
        names: &mut Names<'_>,
    ) -> Result<Vec<Self>, Error> {
        json.iter().map(|condition| Self::from_json(table, condition, names)).collect()
    }

    /// How much it is to ask it of a row: 1, if it asks for a value.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Clause { value, .. } => value.weight().max(1),
            Self::Constant(_) => 1,
        }
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let value = if let Self::Clause { value, .. } = self { value.bytes() } else { 0 };
        size_of::<Self>() + value
    }

    pub(crate) fn holds(&self, row: &Row) -> bool {
        let Self::Clause { column, function, value } = self else {
            return matches!(self, Self::Constant(true));
        };
        let held = &row.0[*column];
        // Of an optional number that is not there, nothing holds.
        let order = if held.is_empty() { None } else { Some(held.cmp(value)) };
        match function {
            Function::Less => order == Some(Ordering::Less),
            Function::AtMost => order.is_some_and(Ordering::is_le),
            Function::Equal => held == value,
            Function::Unequal => held != value,
            Function::AtLeast => order.is_some_and(Ordering::is_ge),
            Function::More => order == Some(Ordering::Greater),
            Function::Includes => value.pairs().all(|(key, value)| held.find(key) == Some(value)),
            Function::Excludes => value.pairs().all(|(key, value)| held.find(key) != Some(value)),
        }
    }

    /// The only row for which it may hold, where that is plain: most operations of most clients name a row.
    pub(crate) fn names_row(&self) -> Option<Uuid> {
        match self {
            Self::Clause { column: UUID, function: Function::Equal | Function::Includes, value } => {
                value.uuids().next()
            }
            _ => None,
        }
    }
}
