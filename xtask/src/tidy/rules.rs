//! The rules.

use super::Source;
use std::fmt;

/// Past this many lines a file holds two ideas.
const LONG: usize = 600;
/// A library's front page says what it is for, how it is built and what it guarantees: not in fewer lines.
const FRONT_PAGE_LINES: usize = 5;

/// A place that breaks a rule.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: error: {}", self.path, self.line, self.message)
    }
}

/// Everything wrong with one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let rules = [file_length, unfinished_work, unwraps, front_page, workspace_lints, machine_paths];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

pub(super) fn error(source: &Source, line: usize, message: impl Into<String>) -> Finding {
    Finding { path: source.path.clone(), line, message: message.into() }
}

/// A file fits in the head.
fn file_length(source: &Source) -> Vec<Finding> {
    let lines = source.lines().count();
    if !source.is_rust() || lines <= LONG {
        return Vec::new();
    }
    vec![error(source, lines, format!("{lines} lines; past {LONG} a file holds two ideas: split it"))]
}

/// What is left to do is an issue, and the marker names it: `TODO(#12)`.
fn unfinished_work(source: &Source) -> Vec<Finding> {
    let markers = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let macros = [concat!("to", "do!("), concat!("unimple", "mented!(")];
    let unnamed = |line: &str, marker: &str| {
        line.match_indices(marker).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = &line[at + marker.len()..];
            let whole = !before.is_some_and(is_word) && !after.chars().next().is_some_and(is_word);
            whole && !after.starts_with("(#")
        })
    };
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        if markers.iter().any(|marker| unnamed(line, marker)) {
            findings.push(error(source, number, "unfinished work without an issue: name it, as in (#12)"));
        }
        if source.is_rust() && macros.iter().any(|marker| line.contains(marker)) {
            findings.push(error(source, number, "unfinished code"));
        }
    }
    findings
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What comes from outside gets a typed error; what cannot happen gets an `expect` that says why.
fn unwraps(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let unwrap = concat!(".unwr", "ap()");
    let code = |line: &str| line.split("//").next().is_some_and(|code| code.contains(unwrap));
    let lines = source.product_lines().filter(|(_, line)| code(line));
    lines.map(|(number, _)| error(source, number, "unwrap outside of tests")).collect()
}

/// A crate opens with its front page.
fn front_page(source: &Source) -> Vec<Finding> {
    let needed = match source.path.rsplit_once("src/") {
        Some((_, "lib.rs")) => FRONT_PAGE_LINES,
        Some((_, "main.rs")) => 1,
        _ => return Vec::new(),
    };
    let lines = source.text.lines().take_while(|line| line.starts_with("//!")).count();
    if lines >= needed {
        return Vec::new();
    }
    vec![error(
        source,
        1,
        format!("a front page of {lines} lines; at least {needed} `//!` lines open this crate"),
    )]
}

/// Every crate takes the workspace's lints, but for one that is a workspace of its own.
fn workspace_lints(source: &Source) -> Vec<Finding> {
    let is_package = source.path.ends_with("Cargo.toml") && source.text.contains("[package]");
    let is_apart = source.text.contains("\n[workspace]");
    if !is_package || is_apart || source.text.contains("[lints]\nworkspace = true") {
        return Vec::new();
    }
    vec![error(source, 1, "a crate without `[lints] workspace = true`")]
}

/// A path that exists on one machine only has no place here.
fn machine_paths(source: &Source) -> Vec<Finding> {
    let folders =
        [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
    let absolute = |line: &str, folder: &str| {
        line.match_indices(folder)
            .any(|(at, _)| !line[..at].ends_with(|c| is_word(c) || "./$}~-".contains(c)))
    };
    let lines = source.lines().filter(|(_, line)| folders.iter().any(|folder| absolute(line, folder)));
    lines.map(|(number, _)| error(source, number, "a path of somebody's machine")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    /// The numbers of the lines at which `rule` finds errors.
    const NONE: [usize; 0] = [];

    fn errors(rule: fn(&Source) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        rule(&source(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn long_files_fail() {
        let lines = |lines: usize| "x\n".repeat(lines);
        assert_eq!(errors(file_length, "a.rs", &lines(LONG)), NONE);
        assert_eq!(errors(file_length, "a.rs", &lines(LONG + 1)), [LONG + 1]);
        assert_eq!(errors(file_length, "a.txt", &lines(LONG + 1)), NONE);
    }

    #[test]
    fn unfinished_work_names_an_issue() {
        let marker = concat!("TO", "DO");
        assert_eq!(errors(unfinished_work, "a.md", &format!("a\n{marker}: b")), [2]);
        assert_eq!(errors(unfinished_work, "a.md", &format!("{marker}(#12): b")), NONE);
        assert_eq!(errors(unfinished_work, "a.md", &format!("A{marker}S")), NONE);
        let call = concat!("to", "do!()");
        assert_eq!(errors(unfinished_work, "a.rs", &format!("fn f() {{ {call} }}")), [1]);
    }

    #[test]
    fn unwraps_belong_to_tests() {
        let unwrap = concat!("x.unwr", "ap();\n");
        assert_eq!(errors(unwraps, "a/src/b.rs", unwrap), [1]);
        assert_eq!(errors(unwraps, "a/src/b.rs", &format!("// {unwrap}")), NONE);
        assert_eq!(errors(unwraps, "a/src/b.rs", &format!("x\n#[cfg(test)]\nmod tests {{\n{unwrap}")), NONE);
        assert_eq!(errors(unwraps, "a/tests/b.rs", unwrap), NONE);
        assert_eq!(errors(unwraps, "a/src/tests.rs", unwrap), NONE);
    }

    #[test]
    fn crates_open_with_a_front_page() {
        assert_eq!(errors(front_page, "a/src/lib.rs", "//! One\n//! line\n"), [1]);
        assert_eq!(errors(front_page, "a/src/lib.rs", &"//! An essay\n".repeat(FRONT_PAGE_LINES)), NONE);
        assert_eq!(errors(front_page, "a/src/main.rs", "fn main() {}\n"), [1]);
        assert_eq!(errors(front_page, "a/src/main.rs", "//! A program\n"), NONE);
        assert_eq!(errors(front_page, "a/src/b.rs", ""), NONE);
    }

    #[test]
    fn crates_take_the_workspace_lints() {
        assert_eq!(errors(workspace_lints, "a/Cargo.toml", "[package]\nname = \"a\"\n"), [1]);
        assert_eq!(errors(workspace_lints, "a/Cargo.toml", "[package]\n[lints]\nworkspace = true\n"), NONE);
        assert_eq!(errors(workspace_lints, "Cargo.toml", "[workspace]\n"), NONE);
        assert_eq!(errors(workspace_lints, "a/Cargo.toml", "[package]\n\n[workspace]\n"), NONE);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let folder = concat!("/ro", "ot/");
        assert_eq!(errors(machine_paths, "a.md", &format!("see {folder}notes")), [1]);
        assert_eq!(errors(machine_paths, "a.rs", &format!("\"{folder}x\"")), [1]);
        assert_eq!(errors(machine_paths, "a.rs", &format!("tree{folder}leaf")), NONE);
    }

    #[test]
    fn a_finding_names_the_place() {
        let finding = error(&source("a/src/b.rs", ""), 7, "wrong");
        assert_eq!(finding.to_string(), "a/src/b.rs:7: error: wrong");
    }
}
