//! The house rules that no compiler knows. Each is one function from a file, or from all, to its findings, with a test that
//! shows it failing.

mod blocks;
mod environment;
mod map;
mod messages;
mod references;
mod rules;
mod source;
mod words;

use crate::run::{Result, root};
use source::Source;

/// Checks every file of the work tree.
pub(crate) fn tidy() -> Result {
    let sources = source::read_tree(&root())?;
    let mut errors = 0;
    let of_all =
        [map::check, words::check, references::check, messages::check, environment::check, blocks::check];
    let of_all = of_all.into_iter().flat_map(|check| check(&sources));
    for finding in sources.iter().flat_map(rules::check).chain(of_all) {
        errors += 1;
        eprintln!("{finding}");
    }
    println!("{} files", sources.len());
    if errors == 0 { Ok(()) } else { Err(format!("{errors} findings")) }
}
