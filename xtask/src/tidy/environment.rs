//! docs/reference.md: each variable of the environment that programs read is there, and no other.

use super::Source;
use super::rules::{Finding, error};
use super::source::find;
use std::collections::BTreeSet;

const PAGE: &str = "docs/reference.md";
/// What users' programs are made of.
const READERS: [&str; 3] = ["fulmar/src/", "database/sql/src/", "network/net/src/"];
/// What a program tells itself.
const INTERNAL: [&str; 1] = ["FULMAR_SERVE_DETACHED"];
const PREFIXES: [&str; 2] = ["FULMAR_", "XDG_"];

/// Every variable that is read and not explained, or explained and not read.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = find(sources, PAGE) else { return Vec::new() };
    let readers =
        sources.iter().filter(|source| READERS.iter().any(|reader| source.path.starts_with(reader)));
    let read: BTreeSet<&str> = readers.flat_map(|source| quoted(&source.text)).collect();
    let mut findings = Vec::new();
    let mut explained = BTreeSet::new();
    for (number, line) in page.lines() {
        let named = line.strip_prefix("| `").and_then(|row| row.split_once('`')).map(|(name, _)| name);
        if let Some(variable) = named.filter(|name| is_variable(name)) {
            explained.insert(variable);
            if !read.contains(variable) {
                findings.push(error(page, number, format!("nobody reads {variable}")));
            }
        }
    }
    let missing = read.difference(&explained).filter(|variable| !INTERNAL.contains(variable));
    findings.extend(missing.map(|variable| error(page, 1, format!("{variable} is read, and not explained"))));
    findings
}

/// The variables that stand alone between quotation marks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').filter(|name| is_variable(name))
}

fn is_variable(name: &str) -> bool {
    let is_ours = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_ours && name.chars().all(|c| c == '_' || c.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(row: &str, program: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let page = format!("# Reference\n\n{row}\n");
        let sources = [file(PAGE, &page), file("fulmar/src/main.rs", program)];
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_variable_is_read_and_explained() {
        let row = "| `FULMAR_BIRDS` | all | how many |";
        assert_eq!(findings(row, "env::var(\"FULMAR_BIRDS\")"), [""; 0]);
        assert_eq!(findings(row, ""), ["docs/reference.md:3: error: nobody reads FULMAR_BIRDS"]);
        assert_eq!(
            findings("", "env::var(\"FULMAR_BIRDS\")"),
            ["docs/reference.md:1: error: FULMAR_BIRDS is read, and not explained"]
        );
    }
}
