//! What a server tells about itself.

use crate::name::DatabaseNumber;
use fulmar_coding::{Reader, list, number, put_bytes, put_varint, text};
use fulmar_kv::{ShardId, Timestamp};

/// What all databases need, as messages call it.
pub(crate) const CLOCK: &str = "the cluster's clock";

/// What a server tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Where the cluster's clock is, as far as the server knows.
    pub now: Timestamp,
    /// No snapshot of the cluster is older, as far as the server knows.
    pub watermark: Timestamp,
    /// How many snapshots its clients hold.
    pub snapshots: u64,
    /// The shards that it has open.
    pub shards: Vec<ShardStatus>,
    /// What of it takes no part, and why.
    pub failures: Vec<String>,
}

/// What it tells about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// The database.
    pub database: DatabaseNumber,
    /// The shard.
    pub shard: ShardId,
    /// Reads that were answered since it was opened.
    pub reads: u64,
    /// Commits that were carried out since it was opened.
    pub commits: u64,
    /// Transactions of several shards that are prepared and not decided.
    pub prepared: u64,
    /// Memory for cached data, bytes.
    pub cached: u64,
    /// Nodes of trees.
    pub nodes: u64,
}

impl Status {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.now.0);
        put_varint(out, self.watermark.0);
        put_varint(out, self.snapshots);
        put_varint(out, self.shards.len() as u64);
        for ShardStatus { database, shard, reads, commits, prepared, cached, nodes } in &self.shards {
            put_varint(out, database.0.into());
            put_varint(out, shard.0.into());
            [reads, commits, prepared, cached, nodes].into_iter().for_each(|count| put_varint(out, *count));
        }
        put_varint(out, self.failures.len() as u64);
        self.failures.iter().for_each(|failure| put_bytes(out, failure.as_bytes()));
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let (now, watermark) = (Timestamp::decode(input)?, Timestamp::decode(input)?);
        let snapshots = input.varint()?;
        let one = |input: &mut Reader<'_>| {
            Some(ShardStatus {
                database: DatabaseNumber(number(input)?),
                shard: ShardId::decode(input)?,
                reads: input.varint()?,
                commits: input.varint()?,
                prepared: input.varint()?,
                cached: input.varint()?,
                nodes: input.varint()?,
            })
        };
        let shards = list(input, one)?;
        Some(Self { now, watermark, snapshots, shards, failures: list(input, text)? })
    }
}

/// No server holds or does more, and those of all servers can be added up.
const MOST: u64 = 1 << 40;

/// How much a server holds and does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many nodes of trees it holds.
    pub objects: u64,
    /// How many reads and commits it has done of late: each counts half as much a quarter of a second later.
    pub work: u64,
}

impl Load {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.objects);
        put_varint(out, self.work);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let mut count = || input.varint().filter(|count| *count <= MOST);
        Some(Self { objects: count()?, work: count()? })
    }
}
