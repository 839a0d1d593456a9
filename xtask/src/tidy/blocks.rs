//! Blocks of pages: each says what it is. What is to be typed on a `console` is typed by a test, with what it prints; on a `console e2e`
//! by `cargo xtask e2e`. Commands that take hours, other machines or packages are `sh`, and `text` is no command.

use super::Source;
use super::rules::{Finding, error};

/// Who types the blocks of each kind: where files are that name the pages.
const TYPED: [(&str, &str); 2] = [("console", "fulmar/tests/all/"), ("console e2e", "e2e/")];

/// Every block that does not say what it is, and every one that nobody types.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let is_page = |source: &&Source| source.path == "README.md" || source.path.starts_with("docs/");
    sources.iter().filter(is_page).flat_map(|page| check_page(page, sources)).collect()
}

fn check_page(page: &Source, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut open: Option<&str> = None;
    for (number, line) in page.lines() {
        match (line.strip_prefix("```"), open) {
            (Some(_), Some(_)) => open = None,
            (Some(kind), None) => {
                open = Some(kind);
                let typed = TYPED.iter().find(|(typed, _)| *typed == kind);
                let by = |folder: &str| {
                    let mut files = sources.iter().filter(|source| source.path.starts_with(folder));
                    files.any(|source| source.text.contains(&format!("\"{}\"", page.path)))
                };
                if kind.is_empty() {
                    findings.push(error(page, number, "a block that does not say what it is"));
                } else if let Some((_, folder)) = typed.filter(|(_, folder)| !by(folder)) {
                    findings.push(error(page, number, format!("nothing in {folder} types this")));
                }
            }
            (None, Some(kind)) if line.starts_with("$ ") && !kind.starts_with("console") => {
                findings.push(error(page, number, "a command with a prompt, and not on a console"));
            }
            (None, _) => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_says_what_it_is_and_is_typed() {
        let findings = |text: &str, test: &str| -> Vec<String> {
            let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
            let sources = [file("docs/a.md", text), file("fulmar/tests/all/a.rs", test)];
            check(&sources).iter().map(ToString::to_string).collect()
        };
        let page = "```console\n$ fulmar\n```\n```text\nx\n```\n";
        assert_eq!(findings(page, "follow(\"docs/a.md\")"), [""; 0]);
        assert_eq!(findings(page, ""), ["docs/a.md:1: error: nothing in fulmar/tests/all/ types this"]);
        assert_eq!(findings("```\n```\n", ""), ["docs/a.md:1: error: a block that does not say what it is"]);
        assert_eq!(
            findings("```sh\n$ fulmar\n```\n", ""),
            ["docs/a.md:2: error: a command with a prompt, and not on a console"]
        );
    }
}
