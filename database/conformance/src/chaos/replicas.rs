//! Whether the replicas of each shard hold the same: what one of them lacks is seen only where that leads, and by who reads it.

use super::Failure;
use fulmar_cluster::replicated::{self, Left};
use fulmar_kv::Options;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Directories of replicas end with this, and begin with their shard's name.
const REPLICA: &str = ".replica";

/// What differs among what servers have left in these directories. They have ended.
pub(super) fn differences(servers: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut shards = BTreeMap::<String, Vec<Left>>::new();
    for server in servers {
        for entry in std::fs::read_dir(server)? {
            let path = entry?.path();
            if let Some(name) = path.file_name().and_then(|name| name.to_str())
                && let Some(shard) = name.strip_suffix(REPLICA)
                && let Some(left) = Left::open(&path, replicated::open_replica(&path, &Options::default())?)?
            {
                shards.entry(shard.into()).or_default().push(left);
            }
        }
    }
    let compared: usize = shards.values().map(Vec::len).sum();
    println!("  {compared} replicas of {} shards compared, entry by entry", shards.len());
    let mut found = Vec::new();
    for (shard, replicas) in shards {
        let differences = replicated::differences(replicas)?;
        found.extend(differences.into_iter().map(|difference| format!("replicas of {shard}: {difference}")));
    }
    Ok(found)
}
