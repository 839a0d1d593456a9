//! docs/reference.md says of every file of settings what it may hold.

use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../docs/reference.md");

/// The first cells of the table in a section of the page.
fn documented(section: &str) -> BTreeSet<String> {
    let text =
        PAGE.split("\n## ").find_map(|part| part.strip_prefix(section)).expect("a section of this name");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.into()).collect()
}

/// What settings of this type may be, as whoever misspells one is told.
fn known<T: DeserializeOwned>() -> BTreeSet<String> {
    let error = toml::from_str::<T>("misspelt = 1").err().expect("there is no such setting").to_string();
    let (_, known) = error.split_once("expected ").expect("a list of those that there are");
    known.split('`').skip(1).step_by(2).map(Into::into).collect()
}

/// Requires that a section says of each setting of this type what it is, and of no other.
pub(crate) fn require<T: DeserializeOwned>(section: &str) {
    assert_eq!(documented(section), known::<T>(), "docs/reference.md, {section}");
}

#[test]
fn settings_of_switches_are_documented() {
    require::<fulmar_bridge::Config>("Settings of `fulmar switch`");
}
