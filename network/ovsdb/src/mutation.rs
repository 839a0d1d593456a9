//! How an operation changes what a column holds (RFC 7047, section 5.1, `<mutation>`).

use crate::atom::Real;
use crate::fields::wrong;
use crate::names::Names;
use crate::row::Row;
use crate::{Atom, AtomicType, Datum, Error, Table, Tag, Type};
use serde_json::Value;

/// A change of one column.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    column: usize,
    mutator: Mutator,
    value: Datum,
}

/// `<mutator>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Insert,
    Delete,
}

impl Mutator {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "+=" => Self::Add,
            "-=" => Self::Subtract,
            "*=" => Self::Multiply,
            "/=" => Self::Divide,
            "%=" => Self::Remainder,
            "insert" => Self::Insert,
            "delete" => Self::Delete,
            _ => return None,
        })
    }

    /// The types that the operand may have, for a column of this type.
    fn operands(self, kind: &Type) -> Vec<Type> {
        let several = Type { min: 0, max: None, ..kind.clone() };
        let keys = Type::set(kind.key.clone());
        let one = Type::one(kind.key.unconstrained());
        match (self, kind.key.kind()) {
            (Self::Insert | Self::Delete, _) if kind.is_scalar() => Vec::new(),
            (Self::Delete, _) if kind.value.is_some() => vec![several, keys],
            (Self::Insert | Self::Delete, _) => vec![several],
            _ if kind.value.is_some() => Vec::new(),
            (_, AtomicType::Integer) => vec![one],
            (_, AtomicType::Real) if self != Self::Remainder => vec![one],
            _ => Vec::new(),
        }
    }
}

impl Mutation {
    pub(crate) fn from_json(table: &Table, json: &Value, names: &mut Names<'_>) -> Result<Self, Error> {
        let parts = json.as_array().and_then(|parts| match parts.as_slice() {
            [column, mutator, value] => Some((column.as_str()?, mutator.as_str()?, value)),
            _ => None,
        });
        let (name, mutator, value) =
            parts.ok_or_else(|| wrong("mutation", "[column, mutator, value]", json))?;
        let at = table.expect(name)?;
        let column = &table.columns()[at];
        if !column.is_mutable() {
            return Err(Error::constraint(format!("column {name} of table {} is immutable", table.name())));
        }
        let known = Mutator::named(mutator)
            .ok_or_else(|| Error::new(Tag::UnknownMutator, format!("there is no mutator {mutator}")))?;
        let mismatch = || Error::syntax(format!("`{mutator}` is not for what column {name} holds"));
        let mut last = mismatch();
        for kind in known.operands(column.kind()) {
            match Datum::from_json(&kind, value, names) {
                Ok(value) => return Ok(Self { column: at, mutator: known, value }),
                Err(why) => last = why.within(format_args!("mutation of column {name}")),
            }
        }
        Err(last)
    }

    /// How much it is to change that row.
    pub(crate) fn weight(&self, row: &Row) -> usize {
        1 + row.0[self.column].weight() + self.value.weight()
    }

    /// Changes the row.
    pub(crate) fn apply(&self, table: &Table, row: &mut Row) -> Result<(), Error> {
        let column = &table.columns()[self.column];
        let here = |why: Error| why.within(format_args!("table {}, column {}", table.name(), column.name()));
        let held = &row.0[self.column];
        let changed = match self.mutator {
            Mutator::Insert => held.union(&self.value),
            // Of a map go the keys that are named alone, and pairs that are named whole.
            Mutator::Delete => held.filtered(|key, value| match self.value.find(key) {
                Some(named) => named.is_some() && named != value,
                None => true,
            }),
            _ => self.calculate(held).map_err(here)?,
        };
        changed.check(column.kind()).map_err(here)?;
        row.0[self.column] = changed;
        Ok(())
    }

    fn calculate(&self, held: &Datum) -> Result<Datum, Error> {
        let Some(operand) = self.value.atoms().next() else { return Ok(held.clone()) };
        let atoms: Vec<Atom> =
            held.atoms().map(|atom| self.result(atom, operand)).collect::<Result<_, _>>()?;
        let changed = Datum::set(atoms);
        if changed.len() < held.len() {
            return Err(Error::constraint("two elements of the set would become the same"));
        }
        Ok(changed)
    }

    fn result(&self, atom: &Atom, operand: &Atom) -> Result<Atom, Error> {
        let result = match (atom, operand) {
            (_, Atom::Integer(0)) if self.divides() => return Err(division_by_zero()),
            (_, Atom::Real(zero)) if self.divides() && *zero == Real::default() => {
                return Err(division_by_zero());
            }
            (Atom::Integer(a), Atom::Integer(b)) => self.of_integers(*a, *b).map(Atom::Integer),
            (Atom::Real(a), Atom::Real(b)) => Real::new(self.of_reals(a.get(), b.get())).map(Atom::Real),
            _ => None,
        };
        let out =
            || Error::new(Tag::RangeError, format!("the result for {atom} and {operand} is out of range"));
        result.ok_or_else(out)
    }

    const fn divides(&self) -> bool {
        matches!(self.mutator, Mutator::Divide | Mutator::Remainder)
    }

    fn of_integers(&self, a: i64, b: i64) -> Option<i64> {
        match self.mutator {
            Mutator::Add => a.checked_add(b),
            Mutator::Subtract => a.checked_sub(b),
            Mutator::Multiply => a.checked_mul(b),
            Mutator::Divide => a.checked_div(b),
            Mutator::Remainder => Some(a.wrapping_rem(b)),
            Mutator::Insert | Mutator::Delete => None,
        }
    }

    fn of_reals(&self, a: f64, b: f64) -> f64 {
        match self.mutator {
            Mutator::Add => a + b,
            Mutator::Subtract => a - b,
            Mutator::Multiply => a * b,
            Mutator::Divide => a / b,
            Mutator::Remainder | Mutator::Insert | Mutator::Delete => f64::NAN,
        }
    }
}

fn division_by_zero() -> Error {
    Error::new(Tag::DomainError, "division by zero")
}
