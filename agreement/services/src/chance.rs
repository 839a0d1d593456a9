//! Names that nobody else has.

use std::io;

/// A number by chance, neither the smallest nor among the largest.
pub(crate) fn by_chance() -> io::Result<u64> {
    Ok((fulmar_files::chance_u64()? >> 1).max(1))
}
