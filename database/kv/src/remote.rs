//! Storage behind a network: the servers' process, the client's, and what they say to each other.
//!
//! A [`Server`] does for its clients what a [`Database`](crate::Database) does for its threads, one message after the
//! other: all commits that arrive together share one sync. It may hold several groups of several databases, and be one of many
//! servers: then a snapshot is a time of the cluster's one clock, and a transaction of several groups commits in two phases.
//! A [`Client`] asks one thing at a time and asks again when the answer does not come; [`Remote`] makes a
//! [`Store`](crate::Store) of it.

mod client;
mod connection;
mod local;
mod map;
mod message;
mod name;
mod news;
mod serve;
mod server;
mod status;
mod store;

use std::time::Duration;

/// For so long at least a group remembers what has become of a client's last transaction. A client asks again for half as long.
const OUTCOME_KEPT: Duration = Duration::from_secs(600);

pub use client::{Ask, Client, Reply};
pub use connection::{ConnectError, Connection, FIRST, is_address, report_waits};
pub use fulmar_node::NodeId;
pub use fulmar_replication::Protocol;
pub use local::{Door, Doors, LOCAL_CLUSTER};
pub use map::{HandOver, Layout, Map, Placement, Replicas, Replication};
pub use message::{
    Answer, Chunk, DatabaseNumber, Direction, Failed, MapRequest, Message, Question, Sight, VERSION,
};
pub use name::{BadName, DatabaseName};
pub use news::{News, Ready, Reshape, Shape, Step};
pub use serve::{Cluster, DrainError, Identity, Service, new_cluster, new_server};
pub use server::{Joining, Keep, Linked, Load, Open, Server, SyncLog, Synced, Timer, Walked};
pub use status::{GroupStatus, Status};
pub use store::{Call, Remote, Unreachable};
