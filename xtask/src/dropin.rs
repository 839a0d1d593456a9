//! The drop-in `libsqlite3.so.0`.

use crate::run::{Result, cargo, run, target};
use std::path::PathBuf;

/// Builds the drop-in and returns its path, in a folder of its own for `LD_LIBRARY_PATH`.
pub(crate) fn build() -> Result<PathBuf> {
    run(&mut cargo(&["build", "--release", "--locked", "--package", "fulmar-sqlite3"]))?;
    let folder = target().join("release/dropin");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let library = folder.join("libsqlite3.so.0");
    let built = target().join("release/libfulmar_sqlite3.so");
    std::fs::copy(&built, &library).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(library)
}
