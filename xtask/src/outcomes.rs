//! What became of each test of a foreign suite, against what we expect.
//!
//! A suite's runner writes a file of outcomes, one test a line: `pass`, `fail` or `skip`, the test's name and, if it is known, the reason, with a tab
//! between; the last line is `done`, so that a runner that died is noticed. A list of expected failures has one
//! line for each failing test, or for a group of them with a `*` at the end, and always the reason:
//!
//! ```text
//! test_backup.BackupTests.*  # a copy of pages between files has no meaning on a tree
//! ```
//!
//! A failure that is not on the list is an error, and so is a test on the list that passes.

use crate::run::Result;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    Pass,
    Skip,
    /// And why, if that is known.
    Fail(String),
}

/// Tests by name. A test that is reported twice has its worst outcome.
pub(crate) type Outcomes = BTreeMap<String, Outcome>;

/// Reads a runner's file; an error if the runner did not reach its end.
pub(crate) fn parse(text: &str) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for line in text.lines() {
        if line == "done" {
            return Ok(outcomes);
        }
        let (word, test) = line.split_once('\t').ok_or_else(|| format!("not an outcome: {line:?}"))?;
        let (test, reason) = test.split_once('\t').unwrap_or((test, ""));
        let outcome = match word {
            "pass" => Outcome::Pass,
            "skip" => Outcome::Skip,
            "fail" => Outcome::Fail(reason.to_owned()),
            _ => return Err(format!("not an outcome: {line:?}")),
        };
        let worst = outcomes.entry(test.to_owned()).or_insert(Outcome::Pass);
        if *worst < outcome {
            *worst = outcome;
        }
    }
    Err(format!("the runner died after {} tests", outcomes.len()))
}

/// A line of a list of expected failures.
struct Expectation<'a> {
    /// A test's name, or its beginning and a `*`.
    tests: &'a str,
}

impl Expectation<'_> {
    fn covers(&self, test: &str) -> bool {
        self.tests.strip_suffix('*').map_or(self.tests == test, |beginning| test.starts_with(beginning))
    }
}

fn parse_expectations(list: &str) -> Result<Vec<Expectation<'_>>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.rsplit_once(" # ") {
            Some((tests, reason)) if !reason.trim().is_empty() => Ok(Expectation { tests: tests.trim() }),
            _ => Err(format!("an expected failure without a reason: {line}")),
        })
        .collect()
}

/// Whether a run took a whole suite or a part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Part,
}

/// Compares a run with the list of expected failures; returns a summary, or everything that differs.
pub(crate) fn compare(outcomes: &Outcomes, list: &str, extent: Extent) -> Result<String> {
    let expected = parse_expectations(list)?;
    let mut wrong = Vec::new();
    for (test, outcome) in outcomes {
        let covered = expected.iter().any(|expectation| expectation.covers(test));
        match outcome {
            Outcome::Fail(reason) if !covered => wrong.push(format!("failed: {test}: {reason}")),
            Outcome::Pass if covered => wrong.push(format!("passed, but is listed as a failure: {test}")),
            _ => {}
        }
    }
    for expectation in &expected {
        if extent == Extent::Whole && !outcomes.keys().any(|test| expectation.covers(test)) {
            wrong.push(format!("listed, but there is no such test: {}", expectation.tests));
        }
    }
    let count = |is: fn(&Outcome) -> bool| outcomes.values().filter(|outcome| is(outcome)).count();
    let (passed, failed, skipped) = (
        count(|outcome| matches!(outcome, Outcome::Pass)),
        count(|outcome| matches!(outcome, Outcome::Fail(_))),
        count(|outcome| matches!(outcome, Outcome::Skip)),
    );
    if passed == 0 {
        wrong.push("no test passed".into());
    }
    let summary = format!("{passed} passed, {failed} failed as listed, {skipped} skipped by the suite");
    if wrong.is_empty() {
        return Ok(summary);
    }
    let unlisted = wrong.len();
    Err(format!(
        "{}\n{passed} passed, {failed} failed, {skipped} skipped; {unlisted} not as listed",
        wrong.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(outcomes: &str, list: &str) -> Result<String> {
        compare(&parse(outcomes)?, list, Extent::Whole)
    }

    #[test]
    fn failures_as_listed_are_fine() {
        let summary =
            compared("pass\ta\nfail\tb.x\nfail\tb.y\nskip\tc\ndone\n", "# why\n\nb.*  # the reason\n");
        assert_eq!(summary, Ok("1 passed, 2 failed as listed, 1 skipped by the suite".into()));
    }

    #[test]
    fn an_unlisted_failure_is_an_error() {
        let wrong = compared("pass\ta\nfail\tb\tlocked\ndone\n", "").expect_err("b failed");
        assert!(wrong.starts_with("failed: b: locked\n"), "{wrong}");
    }

    #[test]
    fn a_listed_test_that_passes_is_an_error() {
        let wrong = compared("pass\ta\npass\tb\ndone\n", "b # reason\n").expect_err("b passed");
        assert!(wrong.starts_with("passed, but is listed as a failure: b\n"), "{wrong}");
    }

    #[test]
    fn a_listed_test_must_exist_in_a_whole_run() {
        let outcomes = parse("pass\ta\ndone\n").expect("a run");
        assert!(compare(&outcomes, "b # reason\n", Extent::Whole).is_err());
        assert!(compare(&outcomes, "b # reason\n", Extent::Part).is_ok());
    }

    #[test]
    fn a_reason_is_required() {
        assert!(compared("pass\ta\nfail\tb\ndone\n", "b\n").is_err());
    }

    #[test]
    fn a_dead_runner_and_an_empty_run_are_errors() {
        assert_eq!(compared("pass\ta\n", ""), Err("the runner died after 1 tests".into()));
        assert!(compared("done\n", "").is_err());
    }

    #[test]
    fn the_worst_outcome_counts() {
        let outcomes = parse("fail\ta\twrong\npass\ta\ndone\n").expect("a run");
        assert_eq!(outcomes["a"], Outcome::Fail("wrong".into()));
    }
}
