//! The key-value store in table 2: the entries of a shard, as each of its replicas holds them.

use fulmar_cluster::replicated::{Entries, Operation};
use fulmar_kv::engine::{Batch, EngineWrite, Memory};
use fulmar_kv::{Error, ObjectId};
use fulmar_node::Random;
use fulmar_replication::{SequenceNumber, StateMachine, View};
use std::path::Path;
use std::sync::Arc;

macro_rules! sources {
    ($($file:literal),*) => {
        [$(($file, include_str!(concat!("../../../../../database/", $file, ".rs")))),*]
    };
}

/// All of the store but its network, with what each file is called.
pub(super) const SOURCES: [(&str, &str); 39] = sources!(
    "cluster/src/replicated",
    "cluster/src/replicated/journal",
    "cluster/src/replicated/left",
    "cluster/src/replicated/operation",
    "cluster/src/replicated/proposals",
    "kv/src/cache",
    "kv/src/commit",
    "kv/src/core",
    "kv/src/core/outcomes",
    "kv/src/core/prepared",
    "kv/src/database",
    "kv/src/directory",
    "kv/src/directory_lock",
    "kv/src/engine",
    "kv/src/engine/catalogue",
    "kv/src/engine/fjall",
    "kv/src/engine/fjall/limit",
    "kv/src/engine/fjall/log",
    "kv/src/engine/fjall/reader",
    "kv/src/engine/in_directory",
    "kv/src/engine/memory",
    "kv/src/error",
    "kv/src/frozen",
    "kv/src/interval",
    "kv/src/key",
    "kv/src/lib",
    "kv/src/numbers",
    "kv/src/object",
    "kv/src/object/changes",
    "kv/src/object/next",
    "kv/src/object/part",
    "kv/src/object/stored",
    "kv/src/ownership",
    "kv/src/storage",
    "kv/src/storage/failure",
    "kv/src/storage/participant",
    "kv/src/storage/snapshots",
    "kv/src/storage/stale",
    "kv/src/store"
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
            let path = format!("{within}/{name}");
            match path.strip_suffix(".rs") {
                Some(module) if name != "tests.rs" => {
                    found.insert(module.into());
                }
                None => modules(root, &path, found),
                _ => {}
            }
        }
    }

    #[test]
    fn all_of_the_store_is_counted() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../database");
        let mut found = BTreeSet::from(["cluster/src/replicated".into()]);
        modules(&root, "kv/src", &mut found);
        modules(&root, "cluster/src/replicated", &mut found);
        let counted: BTreeSet<String> = SOURCES.iter().map(|(file, _)| (*file).into()).collect();
        assert_eq!(counted, found);
    }
}
