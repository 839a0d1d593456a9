//! The map in ARCHITECTURE.md, as the manifests have it: a crate uses those above it, never below.

use super::Source;
use super::rules::{Finding, error};
use super::source::find;

/// Every place where the map and the manifests tell different stories.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let find = |path: &str| find(sources, path);
    let (Some(map), Some(workspace)) = (find("ARCHITECTURE.md"), find("Cargo.toml")) else {
        return Vec::new();
    };
    let rows: Vec<(usize, &str)> =
        map.lines().filter_map(|(number, line)| Some((number, row(line)?))).collect();
    let place = |directory: &str| rows.iter().position(|(_, row)| *row == directory);
    let mut findings = Vec::new();
    for (number, directory) in &rows {
        if find(&format!("{directory}/Cargo.toml")).is_none() {
            findings.push(error(map, *number, format!("there is no crate in {directory}")));
        }
    }
    for manifest in sources {
        let Some(directory) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        // What belongs to a crate is in its row.
        let is_part =
            rows.iter().any(|(_, row)| directory.strip_prefix(row).is_some_and(|rest| rest.starts_with('/')));
        if is_part || !is_member(workspace, directory) {
            continue;
        }
        let Some(own) = place(directory) else {
            findings.push(error(manifest, 1, "the map in ARCHITECTURE.md lacks this crate"));
            continue;
        };
        for (number, used) in dependencies(manifest) {
            let below = path_of(workspace, used).and_then(place).filter(|place| *place >= own);
            if let Some(below) = below {
                let message =
                    format!("uses {}, which is below it on the map in ARCHITECTURE.md", rows[below].1);
                findings.push(error(manifest, number, message));
            }
        }
    }
    findings
}

/// The crate that a line of the map is about.
fn row(line: &str) -> Option<&str> {
    line.strip_prefix("| [`")?.split_once("`](").map(|(directory, _)| directory)
}

fn is_member(workspace: &Source, directory: &str) -> bool {
    let members = workspace.text.lines().find(|line| line.starts_with("members = "));
    members.is_some_and(|members| members.contains(&format!("\"{directory}\"")))
}

/// The crates of this workspace that a manifest names, whatever for.
fn dependencies(manifest: &Source) -> impl Iterator<Item = (usize, &str)> {
    let name =
        |line: &'_ str| -> Option<usize> { line.starts_with("fulmar-").then(|| line.find(['.', ' ', '=']))? };
    manifest.lines().filter_map(move |(number, line)| Some((number, &line[..name(line)?])))
}

/// Where a crate of this workspace is.
fn path_of<'a>(workspace: &'a Source, name: &str) -> Option<&'a str> {
    let line =
        workspace.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = { path = \""))?;
    line.split_once('"').map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(map: &str, above: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let workspace = "members = [\"a/one\", \"a/two\"]\n\
                         fulmar-one = { path = \"a/one\" }\nfulmar-two = { path = \"a/two\" }\n";
        let sources = [
            file("ARCHITECTURE.md", map),
            file("Cargo.toml", workspace),
            file("a/one/Cargo.toml", above),
            file("a/two/Cargo.toml", "[dependencies]\nfulmar-one.workspace = true\n"),
        ];
        check(&sources).iter().map(ToString::to_string).collect()
    }

    const MAP: &str = "| [`a/one`](a) | is | not |\n| [`a/two`](b) | is | not |\n";

    #[test]
    fn a_crate_uses_those_above_it() {
        assert_eq!(findings(MAP, "[package]\n"), [""; 0]);
        let up = findings(MAP, "[dev-dependencies]\nfulmar-two = { workspace = true }\n");
        assert_eq!(
            up,
            ["a/one/Cargo.toml:2: error: uses a/two, which is below it on the map in ARCHITECTURE.md"]
        );
    }

    #[test]
    fn the_map_has_every_crate_and_no_other() {
        let map = MAP.replace("a/two", "a/three");
        let found = findings(&map, "[package]\n");
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:2: error: there is no crate in a/three",
                "a/two/Cargo.toml:1: error: the map in ARCHITECTURE.md lacks this crate"
            ]
        );
    }
}
