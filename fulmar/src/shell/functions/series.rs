//! `generate_series(START, STOP, STEP)`: the integers from START to STOP, or down to it if STEP is negative.

use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{Context, Filters, IndexConstraintOp, IndexInfo, VTabConfig};

use super::table::{self, Rows, TableFunction};
use super::{FunctionError, value};

/// The numbers of the columns.
const VALUE: c_int = 0;
const START: c_int = 1;
const STOP: c_int = 2;
const STEP: c_int = 3;

/// Where a series without STOP ends, as SQLite has it.
const DEFAULT_STOP: i64 = 0xffff_ffff;

/// How many rows SQLite's planner is told of: with both ends known, and without.
const BOUNDED_ROWS: i64 = 1000;
const UNBOUNDED_ROWS: i64 = i32::MAX as i64;

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    table::register::<GenerateSeries>(connection, c"generate_series")
}

/// The table. A plan has a letter for each argument, and at its end one for the order that is wanted.
struct GenerateSeries;

/// The letters of a plan.
mod letter {
    pub(super) const START: char = 's';
    pub(super) const STOP: char = 'e';
    pub(super) const STEP: char = 'p';
    /// Conditions on the value.
    pub(super) const EQUAL: char = '=';
    pub(super) const AT_LEAST: char = 'g';
    pub(super) const MORE: char = '>';
    pub(super) const AT_MOST: char = 'l';
    pub(super) const LESS: char = '<';
    /// Orders.
    pub(super) const ASCENDING: char = 'A';
    pub(super) const DESCENDING: char = 'D';
}

impl TableFunction for GenerateSeries {
    const SCHEMA: &'static CStr = c"CREATE TABLE x(value, start HIDDEN, stop HIDDEN, step HIDDEN)";
    const TRUST: VTabConfig = VTabConfig::Innocuous;
    type Rows = Scan;

    fn plan(conditions: &mut IndexInfo) -> rusqlite::Result<Option<String>> {
        use IndexConstraintOp as Op;
        let mut plan = String::new();
        let mut unusable = String::new();
        for (condition, mut usage) in conditions.constraints_and_usages() {
            let letter = match (condition.column(), condition.operator()) {
                (START, Op::SQLITE_INDEX_CONSTRAINT_EQ) => letter::START,
                (STOP, Op::SQLITE_INDEX_CONSTRAINT_EQ) => letter::STOP,
                (STEP, Op::SQLITE_INDEX_CONSTRAINT_EQ) => letter::STEP,
                (VALUE, Op::SQLITE_INDEX_CONSTRAINT_EQ | Op::SQLITE_INDEX_CONSTRAINT_IS) => letter::EQUAL,
                (VALUE, Op::SQLITE_INDEX_CONSTRAINT_GE) => letter::AT_LEAST,
                (VALUE, Op::SQLITE_INDEX_CONSTRAINT_GT) => letter::MORE,
                (VALUE, Op::SQLITE_INDEX_CONSTRAINT_LE) => letter::AT_MOST,
                (VALUE, Op::SQLITE_INDEX_CONSTRAINT_LT) => letter::LESS,
                _ => continue,
            };
            let is_parameter = condition.column() != VALUE;
            if !condition.is_usable() {
                unusable.push(letter);
            } else if !(is_parameter && plan.contains(letter)) {
                plan.push(letter);
                usage.set_argv_index(c_int::try_from(plan.len()).unwrap_or(c_int::MAX));
                // SQLite checks the conditions on the value itself: they only narrow the scan.
                usage.set_omit(is_parameter);
            }
        }
        let begins = [letter::START, letter::EQUAL, letter::AT_LEAST, letter::MORE];
        let ends = [letter::STOP, letter::EQUAL, letter::AT_MOST, letter::LESS];
        if !plan.contains(begins) && !unusable.contains(begins) {
            return Err(FunctionError::NoStart.into());
        }
        let waits = |parameter| unusable.contains(parameter) && !plan.contains(parameter);
        if [letter::START, letter::STOP, letter::STEP].into_iter().any(waits) || !plan.contains(begins) {
            return Ok(None);
        }
        if plan.contains(ends) {
            conditions.set_estimated_cost(if plan.contains(letter::STEP) { 1.0 } else { 2.0 });
            conditions.set_estimated_rows(BOUNDED_ROWS);
        } else {
            conditions.set_estimated_rows(UNBOUNDED_ROWS);
        }
        // Further terms change nothing: no value comes twice.
        let order = conditions.order_bys().next().filter(|order| order.column() == VALUE);
        if let Some(is_descending) = order.map(|order| order.is_order_by_desc()) {
            plan.push(if is_descending { letter::DESCENDING } else { letter::ASCENDING });
            conditions.set_order_by_consumed(true);
        }
        Ok(Some(plan))
    }

    fn scan(plan: &str, arguments: &Filters<'_>) -> rusqlite::Result<Scan> {
        let (mut start, mut stop, mut step) = (None, None, None);
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        let mut is_empty = false;
        for (letter, argument) in plan.chars().zip(arguments.iter()) {
            // Neither a parameter nor a comparison with NULL gives any row.
            is_empty |= argument == ValueRef::Null;
            match letter {
                letter::START => start = Some(value::integer(argument)),
                letter::STOP => stop = Some(value::integer(argument)),
                letter::STEP => step = Some(value::integer(argument)),
                condition => {
                    let (least, greatest) = range(condition, argument);
                    low = low.max(least);
                    high = high.min(greatest);
                }
            }
        }
        // A condition on the value takes the place of an end that is not given.
        let is_free = |ends: [char; 3]| step.is_none() && plan.contains(ends);
        let begins = [letter::EQUAL, letter::AT_LEAST, letter::MORE];
        let ends = [letter::EQUAL, letter::AT_MOST, letter::LESS];
        let default_start = if is_free(begins) { i64::MIN } else { 0 };
        let default_stop = if is_free(ends) { i64::MAX } else { DEFAULT_STOP };
        let series = Series {
            start: start.unwrap_or(default_start),
            stop: stop.unwrap_or(default_stop),
            step: step.filter(|&step| step != 0).unwrap_or(1),
        };
        let ahead = if is_empty { None } else { series.between(low, high) };
        let is_reversed = match plan.chars().last() {
            Some(letter::ASCENDING) => series.step < 0,
            Some(letter::DESCENDING) => series.step > 0,
            _ => false,
        };
        Ok(Scan { series, ahead, is_reversed, number: 0 })
    }
}

/// The integers that a condition leaves, or more: SQLite looks again.
fn range(condition: char, argument: ValueRef<'_>) -> (i64, i64) {
    const ALL: (i64, i64) = (i64::MIN, i64::MAX);
    const NONE: (i64, i64) = (i64::MAX, i64::MIN);
    let (floor, ceiling) = match argument {
        ValueRef::Integer(integer) => {
            return match condition {
                letter::EQUAL => (integer, integer),
                letter::AT_LEAST => (integer, i64::MAX),
                letter::MORE => integer.checked_add(1).map_or(NONE, |least| (least, i64::MAX)),
                letter::AT_MOST => (i64::MIN, integer),
                letter::LESS => integer.checked_sub(1).map_or(NONE, |greatest| (i64::MIN, greatest)),
                _ => ALL,
            };
        }
        ValueRef::Real(real) => {
            (value::integer(ValueRef::Real(real.floor())), value::integer(ValueRef::Real(real.ceil())))
        }
        // A text may be equal to the integer that it shows (a column's affinity decides), but its order is not ours.
        ValueRef::Text(_) if condition == letter::EQUAL => {
            let integer = value::integer(argument);
            (integer, integer)
        }
        _ => return ALL,
    };
    match condition {
        letter::EQUAL => (floor, ceiling),
        letter::AT_LEAST | letter::MORE => (floor, i64::MAX),
        letter::AT_MOST | letter::LESS => (i64::MIN, ceiling),
        _ => ALL,
    }
}

/// START + n × STEP for each n from 0 on, up to STOP. Computed in 128 bits, where nothing can overflow.
#[derive(Debug, Clone, Copy)]
struct Series {
    start: i64,
    stop: i64,
    /// Not 0.
    step: i64,
}

impl Series {
    /// The n whose members lie from `low` to `high`, `None` if there are none.
    fn between(&self, low: i64, high: i64) -> Option<RangeInclusive<i128>> {
        let [start, stop, step, low, high] = [self.start, self.stop, self.step, low, high].map(i128::from);
        // How far it is to the nearer bound and to the farther one, in the direction of the steps.
        let (near, far) = if step > 0 {
            (low - start, high.min(stop) - start)
        } else {
            (start - high, start - low.max(stop))
        };
        let size = step.abs();
        let first = if near <= 0 { 0 } else { (near + size - 1) / size };
        let last = far.div_euclid(size);
        (first <= last).then_some(first..=last)
    }

    fn member(&self, n: i128) -> i64 {
        let member = i128::from(self.start) + n * i128::from(self.step);
        i64::try_from(member).expect("members lie between bounds of 64 bits")
    }
}

/// A scan of a series.
struct Scan {
    series: Series,
    /// The n that are still to come.
    ahead: Option<RangeInclusive<i128>>,
    is_reversed: bool,
    /// The n of this row.
    number: i128,
}

impl Rows for Scan {
    fn advance(&mut self) -> rusqlite::Result<bool> {
        let next = self
            .ahead
            .as_mut()
            .and_then(|ahead| if self.is_reversed { ahead.next_back() } else { ahead.next() });
        self.number = next.unwrap_or(self.number);
        Ok(next.is_some())
    }

    fn column(&self, answer: &mut Context, column: c_int) -> rusqlite::Result<()> {
        answer.set_result(match column {
            START => self.series.start,
            STOP => self.series.stop,
            STEP => self.series.step,
            _ => self.series.member(self.number),
        })
    }

    #[allow(clippy::cast_possible_truncation, reason = "2⁶⁴ rows have as many rowids when they wrap")]
    fn rowid(&self) -> i64 {
        (self.number + 1) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a loop that takes each step.
    #[test]
    fn members_between_bounds_are_those_that_a_loop_finds() {
        for start in -6..=6_i64 {
            for stop in -6..=6 {
                for step in [-4, -3, -1, 1, 2, 5] {
                    for (low, high) in [(i64::MIN, i64::MAX), (-2, 3), (1, 1), (3, -3)] {
                        let series = Series { start, stop, step };
                        let direct: Vec<i64> = series
                            .between(low, high)
                            .map(|numbers| numbers.map(|n| series.member(n)).collect())
                            .unwrap_or_default();
                        let inside = |&member: &i64| if step > 0 { member <= stop } else { member >= stop };
                        let slow: Vec<i64> = (0..)
                            .map(|n| start + n * step)
                            .take_while(inside)
                            .filter(|member| (low..=high).contains(member))
                            .collect();
                        assert_eq!(direct, slow, "{series:?} from {low} to {high}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_ends_of_64_bits_do_not_overflow() {
        let whole = Series { start: i64::MIN, stop: i64::MAX, step: i64::MAX };
        let numbers = whole.between(i64::MIN, i64::MAX).expect("members");
        let members: Vec<i64> = numbers.map(|n| whole.member(n)).collect();
        assert_eq!(members, [i64::MIN, -1, i64::MAX - 1]);
        let down = Series { start: i64::MAX, stop: i64::MIN, step: i64::MIN };
        let numbers = down.between(i64::MIN, i64::MAX).expect("members");
        assert_eq!(numbers.map(|n| down.member(n)).collect::<Vec<_>>(), [i64::MAX, -1]);
        let each = Series { start: i64::MIN, stop: i64::MAX, step: 1 };
        assert_eq!(each.between(i64::MIN, i64::MAX), Some(0..=i128::from(u64::MAX)));
    }
}
