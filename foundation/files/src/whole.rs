//! Files that are there as a whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Makes or replaces a file, which holds all of `bytes` and is on the disk when this returns; or nothing has changed. Answers the file, open to
/// be written on.
///
/// # Errors
/// What the system says.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // Where a name has no folder before it, that is this one.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    Ok(file)
}
