//! One store on many servers: the servers' process, the client's, and what they say to each other.
//!
//! *Known as:* sharding, a distributed transaction manager: two-phase commit, timestamp oracle, placement, routing, rebalancing,
//! membership.
//!
//! # The problem
//!
//! Objects and trees are to be on more machines than one, so that there is room for more of them and so that they outlive a machine; and a
//! transaction of several is to be as one of a single machine.
//!
//! # The idea
//!
//! Objects are in *shards*, each on one server, or on several by state machine replication. A transaction of one shard commits there, as
//! on one machine; one of several commits in two phases, with one of the shards as its primary (Yesquel, section 3; Percolator). A snapshot is a time
//! of the cluster's one *clock* (timestamp oracle), which one of the servers keeps, with the *map* of which server holds which shard. Leaves of
//! trees move between shards, and shards between servers, while clients go on.
//!
//! # The structure
//!
//! - [`Server`]: does for its clients what a [`Database`](fulmar_kv::Database) does for its threads, one message after the other: all commits that
//!   arrive together share one sync. [`Open`] says where it finds its shards, [`Directory`] in a directory; [`Service`] is a server that runs.
//! - [`Client`]: asks one thing at a time, asks again when the answer does not come, and coordinates commits of several shards. [`Remote`] makes a
//!   [`Store`](fulmar_kv::Store) of it, which trees stand on.
//! - [`Message`]: what is said; [`Map`]: who holds what.
//! - [`replicated`]: a shard's entries as a replicated state machine.
//!
//! All but [`Service`] and [`Connection`] are values without sockets and clocks, driven by `fulmar_transport` in earnest and by a simulator in tests.
//!
//! # The papers' names
//!
//! Two-phase commit is that of Percolator (Peng and Dabek 2010), with locks on servers instead of in cells, and a time that participants propose:
//!
//! | in the papers | here |
//! | --- | --- |
//! | timestamp oracle | the clock (`server::clock`), asked by [`Message::Clock`] |
//! | start timestamp | [`Commit::snapshot`](fulmar_kv::Commit::snapshot) |
//! | commit timestamp | no earlier than what each shard proposes ([`Answer::At`] to a prepare); told once the clock has reached it |
//! | primary lock | the primary's part: [`Prepare::primary`](fulmar_kv::Prepare::primary) |
//! | prewrite; phase one, PREPARE | [`Question::Prepare`] |
//! | commit point: the primary's write record | [`Question::Decide`], durable there |
//! | commit of the secondaries; phase two | [`PeerMessage::Ended`], [`PeerMessage::Confirmed`] |
//! | roll back or forward of who has met a lock | [`PeerMessage::Asked`], [`PeerMessage::Open`] |
//! | coordinator | the client (`client::coordinator`), and the primary when that is gone |
//! | tablet, its location | [`ShardId`](fulmar_kv::ShardId); [`Map`] |
//!
//! # What is guaranteed
//!
//! Snapshot isolation, also across shards; a snapshot that is opened after a commit was acknowledged sees it. What was acknowledged survives what its
//! [`Durability`](fulmar_kv::Durability) says on the server that holds it; of a shard with replicas, the loss of a minority of these. A commit
//! whose connection was lost may have taken place, and its client is told that it does not know. Not guaranteed: anything against servers that lie.
//!
//! # Example
//!
//! ```
//! use fulmar_cluster::{Connection, ShardOptions, Remote, Replication, Service, Transient, new_cluster};
//! use fulmar_dbt::{Database, Durability, Tree};
//! use std::{net::TcpListener, path::Path, sync::Arc, thread};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let databases = Box::new(Transient::new(ShardOptions::default()));
//! let mut service = Service::first(new_cluster()?, databases, &address.to_string(), Replication::default())?;
//! service.listen(listener)?;
//! let handle = service.handle();
//! let server = thread::spawn(move || service.run(|_| {}));
//!
//! let connection = Connection::open(address.into(), "birds", true)?;
//! let database = Database::remote(Arc::new(Remote::new(Path::new("birds"), connection)));
//! let mut writer = database.begin()?;
//! writer.put(Tree(1), b"fulmar", b"glacialis")?;
//! writer.commit(Durability::Synced)?;
//! assert_eq!(database.begin()?.get(Tree(1), b"fulmar")?.as_deref(), Some(&b"glacialis"[..]));
//! # drop(database);
//!
//! handle.stop();
//! server.join().expect("no panic")?;
//! # Ok(())
//! # }
//! ```

mod client;
mod connection;
mod directory;
mod local;
mod map;
mod message;
mod name;
mod open;
mod peer;
pub mod replicated;
mod serve;
mod server;
mod status;
mod store;

use std::time::Duration;

/// For so long at least a shard remembers what has become of a client's last transaction. A client asks again for half as long.
const OUTCOME_KEPT: Duration = Duration::from_secs(600);

pub use client::{Ask, Client, Reply};
pub use connection::{ConnectError, Connection, FIRST, PORT, report_waits, with_port};
pub use directory::{Directory, Kept, Single, Transient};
pub use fulmar_node::NodeId;
pub use fulmar_replication::Protocol;
pub use local::{Door, Doors, LOCAL_CLUSTER};
pub use map::{HandOver, Layout, Map, Placement, Replicas, Replication};
pub use message::{
    Answer, Begun, Chunk, Direction, Failed, Found, MapRequest, Message, Piece, Question, Sight, VERSION,
};
pub use name::{BadName, DatabaseName, DatabaseNumber};
pub use open::{Open, ShardOptions};
pub use peer::{PeerMessage, Ready, Step};
pub use serve::{Cluster, DrainError, Identity, Report, Service, new_cluster, new_server};
pub use server::{Event, Joining, Server, SyncLog, Synced, Timer};
pub use status::{Load, ShardStatus, Status};
pub use store::{Call, Remote, Unreachable};
