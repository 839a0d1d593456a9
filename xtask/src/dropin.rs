//! The drop-in `libsqlite3.so.0`.

use crate::run::{Build, Result, command, output, root, run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Builds the drop-in and returns its path, in a folder of its own for `LD_LIBRARY_PATH`.
pub(crate) fn build(build: Build) -> Result<PathBuf> {
    let programs = build.make()?;
    let folder = programs.join("dropin");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let library = folder.join("libsqlite3.so.0");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut link = command(compiler, &["-shared", "-o"]);
    link.arg(&library).args(["-Wl,-soname,libsqlite3.so.0", "-Wl,--gc-sections", "-Wl,-u,sqlite3_open"]);
    link.arg(format!("-Wl,--version-script={}", root().join("database/sqlite3/exports.map").display()));
    run(link.arg(programs.join("libfulmar_sqlite3.a")).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]))?;
    Ok(library)
}

/// Checks that the drop-in exports every function of SQLite's interface that another build of it does. What that one
/// shows of SQLite's insides (names without an underscore) is no interface.
pub(crate) fn compare_exports(library: &Path, other: &Path) -> Result {
    let ours = exports(library)?;
    let missing: Vec<String> = exports(other)?.difference(&ours).cloned().collect();
    println!("{} functions exported", ours.len());
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{} exports, and the drop-in does not: {}", other.display(), missing.join(" ")))
}

fn exports(library: &Path) -> Result<BTreeSet<String>> {
    let symbols =
        output(command("nm", &["--dynamic", "--defined-only", "--format=just-symbols"]).arg(library))?;
    Ok(symbols.lines().filter(|symbol| is_interface(symbol)).map(str::to_owned).collect())
}

/// Whether a symbol has the form of SQLite's interface: `sqlite3_open`, `sqlite3session_create`.
fn is_interface(symbol: &str) -> bool {
    let rest = symbol.strip_prefix("sqlite3").unwrap_or_default();
    rest.trim_start_matches(|c: char| c.is_ascii_lowercase()).starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_told_from_the_insides() {
        assert!(is_interface("sqlite3_open") && is_interface("sqlite3session_create"));
        assert!(
            !is_interface("sqlite3BtreeOpen")
                && !is_interface("sqlite3VdbeExec_x")
                && !is_interface("memcpy")
        );
    }
}
