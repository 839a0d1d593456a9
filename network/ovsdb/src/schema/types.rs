//! Types of columns (RFC 7047, section 3.2, `<type>` and `<base-type>`).

use crate::{Atom, AtomicType, Error, Schema};

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub(crate) key: Base,
    /// In a map only.
    pub(crate) value: Option<Base>,
    /// How many elements or pairs there are at least: 0 or 1.
    pub(crate) min: usize,
    /// And at most, if that is limited.
    pub(crate) max: Option<usize>,
}

/// A type of atoms, and which of them it allows.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// Integers from one to another.
    Integer(i64, i64),
    /// Reals from one to another.
    Real(f64, f64),
    /// True and false.
    Boolean,
    /// Strings of at least and at most so many characters.
    String(usize, usize),
    /// Names of rows, and which.
    Uuid(Option<Reference>),
    /// These values, of one type, and no others.
    Enum(Vec<Atom>),
}

/// What a column of UUIDs refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// A table of the same database.
    pub table: String,
    /// What becomes of it if the row is deleted.
    pub strength: Strength,
}

/// What a reference does to the row that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Keeps it from being deleted, and, in a table that is no root, alive.
    Strong,
    /// Goes when it goes.
    Weak,
}

impl Base {
    /// Any integer.
    #[must_use]
    pub const fn integer() -> Self {
        Self::Integer(i64::MIN, i64::MAX)
    }

    /// Any real.
    #[must_use]
    pub const fn real() -> Self {
        Self::Real(f64::NEG_INFINITY, f64::INFINITY)
    }

    /// Any string.
    #[must_use]
    pub const fn string() -> Self {
        Self::String(0, usize::MAX)
    }

    /// Any UUID.
    #[must_use]
    pub const fn uuid() -> Self {
        Self::Uuid(None)
    }

    /// Rows of a table, which it keeps alive.
    #[must_use]
    pub fn strong(table: &str) -> Self {
        Self::Uuid(Some(Reference { table: table.into(), strength: Strength::Strong }))
    }

    /// Rows of a table, for as long as they are there.
    #[must_use]
    pub fn weak(table: &str) -> Self {
        Self::Uuid(Some(Reference { table: table.into(), strength: Strength::Weak }))
    }

    /// One of these.
    #[must_use]
    pub fn one_of<A: Into<Atom>>(values: impl IntoIterator<Item = A>) -> Self {
        let mut atoms: Vec<Atom> = values.into_iter().map(Into::into).collect();
        atoms.sort();
        atoms.dedup();
        Self::Enum(atoms)
    }

    /// What its atoms are.
    #[must_use]
    pub fn kind(&self) -> AtomicType {
        match self {
            Self::Integer(..) => AtomicType::Integer,
            Self::Real(..) => AtomicType::Real,
            Self::Boolean => AtomicType::Boolean,
            Self::String(..) => AtomicType::String,
            Self::Uuid(_) => AtomicType::Uuid,
            Self::Enum(values) => values.first().map_or(AtomicType::String, Atom::kind),
        }
    }

    /// Where its UUIDs lead.
    #[must_use]
    pub const fn reference(&self) -> Option<&Reference> {
        match self {
            Self::Uuid(reference) => reference.as_ref(),
            _ => None,
        }
    }

    /// The same, and all of them are allowed.
    pub(crate) fn unconstrained(&self) -> Self {
        match self.kind() {
            AtomicType::Integer => Self::integer(),
            AtomicType::Real => Self::real(),
            AtomicType::Boolean => Self::Boolean,
            AtomicType::String => Self::string(),
            AtomicType::Uuid => self.clone(),
        }
    }

    /// Whether an atom, which is of this type, is allowed.
    pub(crate) fn allow(&self, atom: &Atom) -> Result<(), Error> {
        match (self, atom) {
            (Self::Enum(values), _) if !values.contains(atom) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                Err(Error::constraint(format!("{atom} is none of {}", values.join(", "))))
            }
            (Self::Integer(min, max), Atom::Integer(integer)) => within(min, integer, max),
            (Self::Real(min, max), Atom::Real(real)) => within(min, &real.get(), max),
            (Self::String(min, max), Atom::String(string)) => {
                let length = string.chars().count();
                within(min, &length, max).map_err(|why| why.within(format_args!("the length of {atom}")))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, schema: &Schema) -> Result<(), Error> {
        let is_right = match self {
            Self::Integer(min, max) => min <= max,
            Self::Real(min, max) => min <= max,
            Self::String(min, max) => min <= max,
            Self::Enum(values) => {
                !values.is_empty() && values.iter().all(|value| value.kind() == self.kind())
            }
            Self::Uuid(Some(Reference { table, .. })) => {
                schema.expect(table)?;
                true
            }
            Self::Boolean | Self::Uuid(None) => true,
        };
        if is_right { Ok(()) } else { Err(Error::syntax("its type allows no value")) }
    }
}

fn within<N: PartialOrd + std::fmt::Display>(min: &N, number: &N, max: &N) -> Result<(), Error> {
    if number < min {
        return Err(Error::constraint(format!("{number} is less than {min}, the least that is allowed")));
    }
    if number > max {
        return Err(Error::constraint(format!("{number} is more than {max}, the most that is allowed")));
    }
    Ok(())
}

impl Type {
    /// Exactly one.
    #[must_use]
    pub const fn one(key: Base) -> Self {
        Self { key, value: None, min: 1, max: Some(1) }
    }

    /// One or none.
    #[must_use]
    pub const fn optional(key: Base) -> Self {
        Self { key, value: None, min: 0, max: Some(1) }
    }

    /// Any number.
    #[must_use]
    pub const fn set(key: Base) -> Self {
        Self { key, value: None, min: 0, max: None }
    }

    /// Any number of pairs.
    #[must_use]
    pub const fn map(key: Base, value: Base) -> Self {
        Self { key, value: Some(value), min: 0, max: None }
    }

    /// One at least.
    #[must_use]
    pub fn nonempty(self) -> Self {
        Self { min: 1, ..self }
    }

    /// So many at most.
    #[must_use]
    pub fn at_most(self, max: usize) -> Self {
        Self { max: Some(max), ..self }
    }

    /// Whether it holds one atom, always.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && self.min == 1 && self.max == Some(1)
    }

    /// Whether it holds one atom, or none.
    pub(crate) fn is_at_most_one(&self) -> bool {
        self.value.is_none() && self.max == Some(1)
    }

    /// Where what it holds leads.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        [Some(&self.key), self.value.as_ref()].into_iter().flatten().filter_map(Base::reference)
    }

    /// Whether so many elements or pairs are allowed.
    pub(crate) fn allows(&self, count: usize) -> bool {
        count >= self.min && self.max.is_none_or(|max| count <= max)
    }

    /// How many are allowed, in words.
    pub(crate) fn counts(&self) -> String {
        match self.max {
            Some(max) => format!("{} to {max} elements", self.min),
            None => format!("{} elements or more", self.min),
        }
    }

    pub(super) fn check(&self, schema: &Schema) -> Result<(), Error> {
        let what = |name: &'static str| move |why: Error| why.within(name);
        self.key.check(schema).map_err(what("key"))?;
        self.value.as_ref().map_or(Ok(()), |value| value.check(schema)).map_err(what("value"))?;
        if self.min > 1 || self.max.is_some_and(|max| max < self.min.max(1)) {
            return Err(Error::syntax("expected a `min` of 0 or 1, and a `max` of 1 or more"));
        }
        Ok(())
    }
}
