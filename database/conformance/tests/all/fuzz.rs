//! The fuzz in short, and proof that it can fail.

use fulmar_conformance::fuzz::{self, Error, Step};
use std::borrow::Cow;

#[test]
fn random_statements_do_the_same_on_both_sides() {
    let tally = fuzz::run(3_000, 0, |sql| Cow::Borrowed(sql)).unwrap_or_else(|error| panic!("{error}"));
    assert!(tally.succeeded * 2 > tally.statements, "{tally:?}: too few succeeded to say anything");
    assert!(tally.by_chance * 10 < tally.episodes, "{tally:?}: too many ended early");
}

/// A storage that forgets to delete.
#[test]
fn a_lost_deletion_is_found_and_reduced() {
    let forget = |sql: &str| {
        if sql.starts_with("DELETE") { Cow::Borrowed("SELECT 1 WHERE 0") } else { Cow::Owned(sql.to_owned()) }
    };
    let Err(Error::Difference(difference)) = fuzz::run(3_000, 0, forget) else { panic!("not found") };
    let Some(Step::Sql(last)) = difference.script.last() else { panic!("{difference}") };
    assert!(last.starts_with("DELETE") && difference.script.len() <= 4, "{difference}");
}
