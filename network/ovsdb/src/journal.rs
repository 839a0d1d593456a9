//! Where what is committed is kept.

use std::io;

/// Where what is committed is kept: a file, or what a test puts in its place.
pub trait Journal: Send {
    /// Writes a record after the others, and syncs.
    ///
    /// # Errors
    /// Those of the disk. After one it is not asked again.
    fn append(&mut self, record: &[u8]) -> io::Result<()>;

    /// Whether it is several times larger than what it holds.
    fn is_long(&self) -> bool;

    /// Forgets all records but this one, which says the same as they do.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn restart(&mut self, snapshot: &[u8]) -> io::Result<()>;
}
