//! The key-value store in table 2: the entries of a group, as each of its replicas holds them.

use fulmar_kv::engine::{Batch, EngineWrite, Memory};
use fulmar_kv::replicated::{Entries, Operation};
use fulmar_kv::{Error, ObjectId};
use fulmar_node::Random;
use fulmar_replication::{SequenceNumber, StateMachine, View};
use std::path::Path;
use std::sync::Arc;

macro_rules! sources {
    ($($file:literal),*) => {
        [$(($file, include_str!(concat!("../../../../../database/kv/src/", $file, ".rs")))),*]
    };
}

/// All of the store but its network, with what each file is called.
pub(super) const SOURCES: [(&str, &str); 35] = sources!(
    "cache",
    "commit",
    "core",
    "core/outcomes",
    "core/prepared",
    "database",
    "engine",
    "engine/catalogue",
    "engine/fjall",
    "engine/fjall/limit",
    "engine/fjall/log",
    "engine/fjall/reader",
    "engine/memory",
    "error",
    "frozen",
    "hold",
    "home",
    "interval",
    "key",
    "lib",
    "numbers",
    "object",
    "object/changes",
    "object/next",
    "object/part",
    "object/stored",
    "ownership",
    "replicated",
    "replicated/ahead",
    "replicated/housed",
    "replicated/journal",
    "replicated/left",
    "replicated/operation",
    "storage",
    "store"
);

/// Of a transaction that posts a tweet.
const WRITES: u64 = 5;
const OBJECTS: u64 = 1_000;
const ENTRY_BYTES: usize = 64;

/// Whose leader's batches are executed.
const VIEW: View = View { epoch: 0, number: 1 };

/// Entries of a leader that has announced itself, and where it has.
pub(super) fn led() -> Result<(Entries, SequenceNumber), Error> {
    let (mut entries, _) = Entries::open(Path::new("(memory)"), Arc::new(Memory::default()))?;
    let announced = SequenceNumber(1);
    entries.execute(announced, &Operation::Lead(VIEW).encode());
    entries.commit(announced);
    Ok((entries, announced))
}

/// A batch of a leader's.
pub(super) fn operation(random: &mut Random) -> Operation {
    let mut write = || {
        let (object, sequence) = (ObjectId(random.below(OBJECTS)), random.below(OBJECTS));
        EngineWrite::Put { object, sequence, entry: vec![0; ENTRY_BYTES] }
    };
    let writes = (0..WRITES).map(|_| write()).collect();
    Operation::Write { view: VIEW, upto: 0, batch: Batch { writes, ..Batch::default() } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    /// The modules in a folder, but for those of tests.
    fn modules(root: &Path, within: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(root.join(within)).expect("sources") {
            let name = entry.expect("sources").file_name().into_string().expect("ASCII");
            let path = if within.is_empty() { name.clone() } else { format!("{within}/{name}") };
            match path.strip_suffix(".rs") {
                Some(module) if !["tests", "random"].contains(&name.trim_end_matches(".rs")) => {
                    found.insert(module.into());
                }
                None if name != "remote" => modules(root, &path, found),
                _ => {}
            }
        }
    }

    #[test]
    fn all_of_the_store_is_counted() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../database/kv/src");
        let mut found = BTreeSet::new();
        modules(&root, "", &mut found);
        found.remove("remote");
        let counted: BTreeSet<String> = SOURCES.iter().map(|(file, _)| (*file).into()).collect();
        assert_eq!(counted, found);
    }
}
