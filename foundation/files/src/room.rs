//! What files take.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the files in a directory and in those within it take on the disk, bytes. What cannot be looked at, or is just being removed, takes
/// nothing. Room that a file has reserved and is not as long as yet does not count, nor does what it leaves out.
#[must_use]
pub fn bytes_in(directory: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let found = entry.metadata().ok()?;
        Some(if found.is_dir() { bytes_in(&entry.path()) } else { found.len().min(found.blocks() * BLOCK) })
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_all_directories_count_and_holes_do_not() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(bytes_in(directory.path()), 0);
        std::fs::create_dir(directory.path().join("within")).expect("a directory");
        std::fs::write(directory.path().join("a"), [1; 10_000]).expect("a file");
        std::fs::write(directory.path().join("within/b"), [1; 20_000]).expect("a file");
        let hole = std::fs::File::create(directory.path().join("hole")).expect("a file");
        hole.set_len(1 << 30).expect("room");
        assert_eq!(bytes_in(directory.path()), 30_000);
        assert_eq!(bytes_in(&directory.path().join("nowhere")), 0);
    }
}
