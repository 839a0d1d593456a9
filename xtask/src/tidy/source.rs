//! The files that the rules look at.

use crate::run::Result;
use std::path::Path;

/// A text file of the work tree.
pub(super) struct Source {
    /// Path from the root of the work tree, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether this Rust file is compiled for tests, benches and examples only.
    pub(super) fn is_test(&self) -> bool {
        let stem = self.path.rsplit('/').next().unwrap_or_default();
        stem == "tests.rs"
            || ["tests", "benches", "examples"]
                .iter()
                .any(|folder| self.path.split('/').any(|part| part == *folder))
    }

    /// The lines before the module of unit tests, which by custom ends a file.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.lines().find(|(_, line)| line.trim() == "#[cfg(test)]").map(|(number, _)| number);
        let end = if self.is_test() { 0 } else { tests.unwrap_or(usize::MAX) };
        self.lines().take_while(move |(number, _)| *number < end)
    }
}

/// The file of this path.
pub(super) fn find<'a>(sources: &'a [Source], path: &str) -> Option<&'a Source> {
    sources.iter().find(|source| source.path == path)
}

/// Reads every text file below `root`, but for what is built, hidden or generated.
pub(super) fn read_tree(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
            if hidden || name == "target" || name == "Cargo.lock" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let relative = path.strip_prefix(root).unwrap_or(&path);
                sources.push(Source { path: relative.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}
