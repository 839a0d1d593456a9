//! docs/words.md: each word is in the file that is named beside it.

use super::Source;
use super::rules::{Finding, error};
use super::source::find;

const PAGE: &str = "docs/words.md";

/// Every row that leads nowhere.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = find(sources, PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    for (number, line) in page.lines() {
        let Some((words, path)) = row(line) else { continue };
        let Some(file) = find(sources, path) else {
            findings.push(error(page, number, format!("there is no file {path}")));
            continue;
        };
        let text = file.text.to_lowercase();
        for word in words.split(", ").filter(|word| !text.contains(&word.to_lowercase())) {
            findings.push(error(page, number, format!("{path} does not say \"{word}\"")));
        }
    }
    findings
}

/// The first and the last cell of a row that ends in a file's name.
fn row(line: &str) -> Option<(&str, &str)> {
    let (words, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
    let (_, path) = rest.strip_suffix("` |")?.rsplit_once("| `")?;
    Some((words, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(row: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let page = format!("| here | elsewhere | file |\n| --- | --- | --- |\n{row}\n");
        let sources = [file(PAGE, &page), file("a/log.rs", "//! The journal.\n")];
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_word_is_in_its_file() {
        assert_eq!(findings("| journal | write-ahead log | `a/log.rs` |"), [""; 0]);
        assert_eq!(
            findings("| journal, ledger | write-ahead log | `a/log.rs` |"),
            ["docs/words.md:3: error: a/log.rs does not say \"ledger\""]
        );
        assert_eq!(
            findings("| journal | write-ahead log | `b.rs` |"),
            ["docs/words.md:3: error: there is no file b.rs"]
        );
    }
}
