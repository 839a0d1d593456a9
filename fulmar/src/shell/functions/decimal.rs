//! `decimal` and its kin: exact arithmetic on numbers that are texts, such as `'12.50'`.

mod number;

use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, WindowAggregate};
use rusqlite::types::ValueRef;

use self::number::Decimal;
use super::{FunctionError, PURE, value};

/// The greatest power of two, as in SQLite.
const MOST_DOUBLINGS: u32 = 20_000;

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let scalar = |name, function: fn(Decimal) -> String| {
        connection.create_scalar_function(name, 1, PURE, move |call| Ok(exact(call.get_raw(0)).map(function)))
    };
    scalar("decimal", |number| number.to_string())?;
    scalar("decimal_exp", |number| number.scientific())?;

    let binary = |name, function: fn(&Decimal, &Decimal) -> Decimal| {
        connection.create_scalar_function(name, 2, PURE, move |call| {
            Ok(operands(call).map(|(left, right)| function(&left, &right).to_string()))
        })
    };
    binary("decimal_add", |left, right| left + right)?;
    binary("decimal_sub", |left, right| left + &-right.clone())?;
    binary("decimal_mul", |left, right| left * right)?;

    connection.create_scalar_function("decimal_cmp", 2, PURE, |call| {
        Ok(operands(call).map(|(left, right)| left.cmp(&right) as i32))
    })?;
    connection.create_scalar_function("decimal_pow2", 1, PURE, power_of_two)?;
    connection.create_window_function("decimal_sum", 1, PURE, Sum)?;
    connection.create_collation("decimal", |left, right| {
        Decimal::parse(left.as_bytes()).cmp(&Decimal::parse(right.as_bytes()))
    })
}

/// An argument of `decimal` and `decimal_exp`: a real, also as the 8 bytes of a blob, to its last binary digit. `None`
/// for NULL, infinity, and blobs of another length.
fn exact(value: ValueRef<'_>) -> Option<Decimal> {
    match value {
        ValueRef::Real(real) => Decimal::exactly(real),
        ValueRef::Blob(blob) => Decimal::exactly(f64::from_be_bytes(blob.try_into().ok()?)),
        other => as_written(other),
    }
}

/// An argument of an operation: what a value looks like as text. `None` for NULL.
fn as_written(value: ValueRef<'_>) -> Option<Decimal> {
    value::text(value).map(|text| Decimal::parse(&text))
}

fn operands(call: &Context<'_>) -> Option<(Decimal, Decimal)> {
    Some((as_written(call.get_raw(0))?, as_written(call.get_raw(1))?))
}

fn power_of_two(call: &Context<'_>) -> rusqlite::Result<Option<String>> {
    let ValueRef::Integer(exponent) = call.get_raw(0) else { return Ok(None) };
    let within = i32::try_from(exponent).ok().filter(|exponent| exponent.unsigned_abs() <= MOST_DOUBLINGS);
    let within = within.ok_or(FunctionError::Exponent { exponent, most: MOST_DOUBLINGS })?;
    Ok(Some(Decimal::power_of_two(within).scientific()))
}

/// `decimal_sum`: NULLs count nothing, and no rows at all are NULL.
struct Sum;

impl Aggregate<Decimal, Option<String>> for Sum {
    fn init(&self, _call: &mut Context<'_>) -> rusqlite::Result<Decimal> {
        Ok(Decimal::default())
    }

    fn step(&self, call: &mut Context<'_>, sum: &mut Decimal) -> rusqlite::Result<()> {
        if let Some(number) = as_written(call.get_raw(0)) {
            *sum = &*sum + &number;
        }
        Ok(())
    }

    fn finalize(&self, _call: &mut Context<'_>, sum: Option<Decimal>) -> rusqlite::Result<Option<String>> {
        Ok(sum.map(|sum| sum.to_string()))
    }
}

impl WindowAggregate<Decimal, Option<String>> for Sum {
    fn value(&self, sum: Option<&mut Decimal>) -> rusqlite::Result<Option<String>> {
        Ok(sum.map(|sum| sum.to_string()))
    }

    fn inverse(&self, call: &mut Context<'_>, sum: &mut Decimal) -> rusqlite::Result<()> {
        if let Some(number) = as_written(call.get_raw(0)) {
            *sum = &*sum + &-number;
        }
        Ok(())
    }
}
