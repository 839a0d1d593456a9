//! Names that nobody else has.

use std::fs::File;
use std::io::{self, Read};

/// A number by chance, neither the smallest nor among the largest.
pub(crate) fn by_chance() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok((u64::from_le_bytes(bytes) >> 1).max(1))
}
