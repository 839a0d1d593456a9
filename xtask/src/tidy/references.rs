//! Files of the work tree that comments and pages name by their paths, in backticks: each is there.

use super::Source;
use super::rules::{Finding, error};
use std::collections::BTreeSet;

/// What the names of files end in that are looked for.
const ENDINGS: [&str; 7] = [".rs", ".md", ".toml", ".py", ".c", ".h", ".sql"];

/// Every path that leads nowhere.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = sources.iter().map(|source| &*source.path).collect();
    let folders: BTreeSet<&str> = paths.iter().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let is_path = |text: &&str| {
        let is_ours = text.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
        is_ours
            && ENDINGS.iter().any(|ending| text.ends_with(ending))
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust() || source.path.ends_with(".md")) {
        for (number, line) in source.lines() {
            let named = line.split('`').skip(1).step_by(2);
            for path in named.filter(is_path).filter(|path| !paths.contains(path)) {
                findings.push(error(source, number, format!("there is no file {path}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        check(&[file("docs/a.md", text), file("a/log.rs", "")]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_is_named_is_there() {
        assert_eq!(findings("Its log: `a/log.rs`, `a/*.rs`, `tmp/none.rs`, `none.rs`.\n"), [""; 0]);
        assert_eq!(findings("\nSee `a/none.rs`.\n"), ["docs/a.md:2: error: there is no file a/none.rs"]);
    }
}
