//! What a row holds in a column.

use crate::atom::Real;
use crate::fields::{pair, wrong};
use crate::names::Names;
use crate::schema::{Strength, Type};
use crate::{Atom, Error, Uuid};
use serde_json::{Value, json};
use std::fmt;

/// So many bytes of text count for one value more.
const TEXT: usize = 64;

/// A `<value>` (RFC 7047, section 5.1). A scalar is a set of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// In order, and none twice.
    Set(Vec<Atom>),
    /// In the order of their keys, and none of these twice.
    Map(Vec<(Atom, Atom)>),
}

impl Datum {
    /// The set of these.
    #[must_use]
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Self {
        let mut atoms: Vec<Atom> = atoms.into_iter().map(Into::into).collect();
        atoms.sort();
        atoms.dedup();
        Self::Set(atoms)
    }

    /// The map of these; of two pairs with one key it has the first.
    #[must_use]
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut pairs: Vec<(Atom, Atom)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        Self::Map(pairs)
    }

    /// What a column holds if nothing is said (section 5.2.1).
    #[must_use]
    pub fn default_of(kind: &Type) -> Self {
        let (key, value) = (&kind.key, &kind.value);
        match value {
            _ if kind.min == 0 && value.is_none() => Self::Set(Vec::new()),
            _ if kind.min == 0 => Self::Map(Vec::new()),
            None => Self::Set(vec![key.kind().default_atom()]),
            Some(value) => Self::Map(vec![(key.kind().default_atom(), value.kind().default_atom())]),
        }
    }

    /// How many elements or pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Set(atoms) => atoms.len(),
            Self::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a set, or the keys of a map.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        self.pairs().map(|(key, _)| key)
    }

    /// Elements or keys, and the values of these.
    pub fn pairs(&self) -> impl Iterator<Item = (&Atom, Option<&Atom>)> {
        let (atoms, pairs) = match self {
            Self::Set(atoms) => (atoms.as_slice(), [].as_slice()),
            Self::Map(pairs) => ([].as_slice(), pairs.as_slice()),
        };
        let pairs = pairs.iter().map(|(key, value)| (key, Some(value)));
        atoms.iter().map(|atom| (atom, None)).chain(pairs)
    }

    /// How much it is to look at or to keep, where a value is 1 and a long text as much as so many values.
    pub(crate) fn weight(&self) -> usize {
        let text = |atom: &Atom| if let Atom::String(text) = atom { text.len() / TEXT } else { 0 };
        self.pairs().map(|(key, value)| 1 + text(key) + value.map_or(0, text)).sum()
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.weight() * TEXT
    }

    /// The one integer there is.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self.only()? {
            Atom::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    /// The one truth there is.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match self.only()? {
            Atom::Boolean(boolean) => Some(*boolean),
            _ => None,
        }
    }

    /// The one string there is.
    #[must_use]
    pub fn string(&self) -> Option<&str> {
        match self.only()? {
            Atom::String(string) => Some(string),
            _ => None,
        }
    }

    /// All rows that it names.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.pairs().flat_map(|(key, value)| [Some(key), value]).flatten().filter_map(|atom| match atom {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        })
    }

    /// What a map says of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Atom> {
        let is_it = |atom: &Atom| matches!(atom, Atom::String(string) if **string == *key);
        self.pairs().find(|(atom, _)| is_it(atom)).and_then(|(_, value)| value)
    }

    fn only(&self) -> Option<&Atom> {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms.first(),
            _ => None,
        }
    }

    /// The value of a set's element or of a map's key; nothing, if it has it not.
    pub(crate) fn find(&self, atom: &Atom) -> Option<Option<&Atom>> {
        match self {
            Self::Set(atoms) => atoms.binary_search(atom).ok().map(|_| None),
            Self::Map(pairs) => {
                let at = pairs.binary_search_by(|(key, _)| key.cmp(atom)).ok()?;
                Some(Some(&pairs[at].1))
            }
        }
    }

    /// The elements, or pairs, for which this holds.
    pub(crate) fn filtered(&self, mut holds: impl FnMut(&Atom, Option<&Atom>) -> bool) -> Self {
        match self {
            Self::Set(atoms) => Self::Set(atoms.iter().filter(|atom| holds(atom, None)).cloned().collect()),
            Self::Map(pairs) => {
                Self::Map(pairs.iter().filter(|(key, value)| holds(key, Some(value))).cloned().collect())
            }
        }
    }

    /// These and the others; where both have a key, what this says of it.
    pub(crate) fn union(&self, others: &Self) -> Self {
        match (self, others) {
            (Self::Map(own), Self::Map(others)) => Self::map(own.iter().chain(others).cloned()),
            _ => Self::set(self.atoms().chain(others.atoms()).cloned()),
        }
    }

    /// What has changed since `old`, as `update2` tells it: elements and keys that one of them has, and keys of which they say
    /// different things, with what this one says. It is its own inverse but for values of keys.
    pub(crate) fn difference(&self, old: &Self) -> Self {
        let is_new = |key: &Atom, value: Option<&Atom>| old.find(key) != Some(value);
        self.filtered(is_new).union(&old.filtered(|key, _| self.find(key).is_none()))
    }

    /// The rows to which it refers, and how.
    pub(crate) fn references<'d>(
        &'d self,
        kind: &'d Type,
    ) -> impl Iterator<Item = (&'d str, Strength, Uuid)> {
        let of = |base: &'d crate::Base, atom: &Atom| match (base.reference(), atom) {
            (Some(reference), Atom::Uuid(uuid)) => {
                Some((reference.table.as_str(), reference.strength, *uuid))
            }
            _ => None,
        };
        self.pairs().flat_map(move |(key, value)| {
            let value = kind.value.as_ref().zip(value).and_then(|(base, atom)| of(base, atom));
            [of(&kind.key, key), value].into_iter().flatten()
        })
    }

    /// Whether a column of this type may hold it.
    pub(crate) fn check(&self, kind: &Type) -> Result<(), Error> {
        if !kind.allows(self.len()) {
            return Err(Error::constraint(format!(
                "there would be {}: expected {}",
                self.len(),
                kind.counts()
            )));
        }
        for (key, value) in self.pairs() {
            kind.key.allow(key)?;
            kind.value.as_ref().zip(value).map_or(Ok(()), |(base, value)| base.allow(value))?;
        }
        Ok(())
    }

    /// Whether it is made of what a column of this type is made of.
    pub(crate) fn is_of(&self, kind: &Type) -> bool {
        self.pairs().all(|(key, value)| {
            key.kind() == kind.key.kind()
                && value.map(Atom::kind) == kind.value.as_ref().map(crate::Base::kind)
        })
    }

    /// As section 5.1 has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms[0].to_json(),
            Self::Set(atoms) => json!(["set", atoms.iter().map(Atom::to_json).collect::<Vec<_>>()]),
            Self::Map(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| json!([key.to_json(), value.to_json()]));
                json!(["map", pairs.collect::<Vec<_>>()])
            }
        }
    }

    /// A value that a column of this type may hold.
    pub(crate) fn from_json(kind: &Type, json: &Value, names: &mut Names<'_>) -> Result<Self, Error> {
        let tagged = pair(json).and_then(|(tag, elements)| Some((tag.as_str()?, elements.as_array()?)));
        let (datum, count) = match (&kind.value, tagged) {
            (None, Some(("set", elements))) => {
                let atoms = elements.iter().map(|json| Atom::from_json(kind.key.kind(), json, names));
                (Self::set(atoms.collect::<Result<Vec<_>, _>>()?), elements.len())
            }
            (None, _) => (Self::Set(vec![Atom::from_json(kind.key.kind(), json, names)?]), 1),
            (Some(base), Some(("map", elements))) => {
                let mut pairs = Vec::with_capacity(elements.len());
                for element in elements {
                    let (key, value) = pair(element).ok_or_else(|| wrong("map", "a pair", element))?;
                    let key = Atom::from_json(kind.key.kind(), key, names)?;
                    pairs.push((key, Atom::from_json(base.kind(), value, names)?));
                }
                (Self::map(pairs), elements.len())
            }
            (Some(_), _) => return Err(wrong("value", "[\"map\", …]", json)),
        };
        if datum.len() != count {
            return Err(wrong("value", "no element twice", json));
        }
        if !kind.allows(count) {
            return Err(wrong("value", &kind.counts(), json));
        }
        datum.check(kind)?;
        Ok(datum)
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

macro_rules! scalar {
    ($($atom:ty),*) => {$(
        impl From<$atom> for Datum {
            fn from(atom: $atom) -> Self {
                Self::Set(vec![atom.into()])
            }
        }

        impl From<Option<$atom>> for Datum {
            fn from(atom: Option<$atom>) -> Self {
                Self::set(atom)
            }
        }
    )*};
}

scalar!(i64, Real, bool, &str, String, Uuid);

#[cfg(test)]
mod tests;
