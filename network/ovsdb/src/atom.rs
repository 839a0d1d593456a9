//! What values are made of.

use crate::names::Names;
use crate::{Error, Uuid, fields};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// An atomic type (RFC 7047, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicType {
    /// 64 bits with a sign.
    Integer,
    /// A finite number of 64 bits.
    Real,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// The name of a row.
    Uuid,
}

impl AtomicType {
    const ALL: [Self; 5] = [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid];

    /// As schemas write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a column holds if nothing is said (section 5.2.1).
    pub(crate) fn default_atom(self) -> Atom {
        match self {
            Self::Integer => Atom::Integer(0),
            Self::Real => Atom::Real(Real::default()),
            Self::Boolean => Atom::Boolean(false),
            Self::String => Atom::String("".into()),
            Self::Uuid => Atom::Uuid(Uuid::ZERO),
        }
    }
}

/// A finite number. There is one zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Real(f64);

impl Real {
    /// Nothing, if it is infinite or no number: JSON has no way to write these.
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        // This makes a positive zero of a negative one.
        number.is_finite().then_some(Self(number + 0.0))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Real {}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An atomic value (RFC 7047, section 5.1). Those of one column are of one type, and in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// Of [`AtomicType::Integer`].
    Integer(i64),
    /// Of [`AtomicType::Real`].
    Real(Real),
    /// Of [`AtomicType::Boolean`].
    Boolean(bool),
    /// Of [`AtomicType::String`].
    String(Arc<str>),
    /// Of [`AtomicType::Uuid`].
    Uuid(Uuid),
}

impl Atom {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> AtomicType {
        match self {
            Self::Integer(_) => AtomicType::Integer,
            Self::Real(_) => AtomicType::Real,
            Self::Boolean(_) => AtomicType::Boolean,
            Self::String(_) => AtomicType::String,
            Self::Uuid(_) => AtomicType::Uuid,
        }
    }

    /// As in section 5.1.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Integer(integer) => json!(integer),
            Self::Real(real) => json!(real.0),
            Self::Boolean(boolean) => json!(boolean),
            Self::String(string) => json!(**string),
            Self::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
        }
    }

    /// An atom of this type, which may be a row's name in the transaction.
    pub(crate) fn from_json(kind: AtomicType, json: &Value, names: &mut Names<'_>) -> Result<Self, Error> {
        let atom = match kind {
            AtomicType::Integer => json.as_i64().map(Self::Integer),
            AtomicType::Real => json.as_f64().and_then(Real::new).map(Self::Real),
            AtomicType::Boolean => json.as_bool().map(Self::Boolean),
            AtomicType::String => json.as_str().map(Self::from),
            AtomicType::Uuid => return uuid_from_json(json, names).map(Self::Uuid),
        };
        atom.ok_or_else(|| fields::wrong("value", kind.name(), json))
    }
}

fn uuid_from_json(json: &Value, names: &mut Names<'_>) -> Result<Uuid, Error> {
    let tagged = fields::pair(json).and_then(|(tag, text)| Some((tag.as_str()?, text.as_str()?)));
    match tagged {
        Some(("uuid", text)) => text.parse().map_err(|why| Error::syntax(format!("{why}"))),
        Some(("named-uuid", name)) => names.refer(name),
        _ => Err(fields::wrong("value", "[\"uuid\", …]", json)),
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.fmt(f),
            _ => self.to_json().fmt(f),
        }
    }
}

impl From<i64> for Atom {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<Real> for Atom {
    fn from(real: Real) -> Self {
        Self::Real(real)
    }
}

impl From<bool> for Atom {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl From<&str> for Atom {
    fn from(string: &str) -> Self {
        Self::String(string.into())
    }
}

impl From<String> for Atom {
    fn from(string: String) -> Self {
        Self::String(string.into())
    }
}

impl From<Uuid> for Atom {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}
