//! docs/troubleshooting.md: each message that it explains is one that a program says.

use super::Source;
use super::rules::{Finding, error};
use super::source::find;

const PAGE: &str = "docs/troubleshooting.md";

/// Every message of which no source has a part.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = find(sources, PAGE) else { return Vec::new() };
    let said: Vec<String> = sources
        .iter()
        .filter(|source| source.path.ends_with(".rs"))
        .map(|source| joined(&source.text))
        .collect();
    let is_said = |part: &str| said.iter().any(|text| text.contains(part));
    let mut findings = Vec::new();
    for (number, line) in page.lines() {
        for part in parts(line).filter(|part| !is_said(part)) {
            findings.push(error(page, number, format!("no program says \"{part}\"")));
        }
    }
    findings
}

/// What stands in code in the first cell of a row.
fn parts(line: &str) -> impl Iterator<Item = &str> {
    let cell = line.strip_prefix("| ").and_then(|row| row.split_once(" | "));
    let is_message = |cell: &&str| cell.starts_with('`');
    let cell = cell.map(|(cell, _)| cell).filter(is_message).unwrap_or_default();
    cell.split('`').skip(1).step_by(2)
}

/// Strings that go on in the next line are one.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(row: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let page = format!("| message | why |\n| --- | --- |\n{row}\n");
        let sources = [file(PAGE, &page), file("a/error.rs", "\"the disk \\\n        is full: {0}\"\n")];
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_message_is_said() {
        assert_eq!(findings("| `the disk is full` | `df` |"), [""; 0]);
        assert_eq!(findings("| each `INSERT` is slow | it waits |"), [""; 0]);
        assert_eq!(
            findings("| `the disk` … `is gone` | it was taken out |"),
            ["docs/troubleshooting.md:3: error: no program says \"is gone\""]
        );
    }
}
