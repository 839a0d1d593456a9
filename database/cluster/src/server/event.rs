//! What happens to a server, for who looks after it.
//!
//! *Known as:* structured log events.

use super::Joining;
use fulmar_node::NodeId;
use fulmar_replication::{Protocol, View};
use std::fmt;

/// Something happened to a server, or to the cluster as this server knows it. Shards are called as in `fulmar status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server wants to be on the map. It is to be called there, and handed back if it answers.
    Joining(Joining),
    /// The map has a server that it did not have, or had at another address.
    Joined {
        /// Its name.
        server: NodeId,
        /// `HOST:PORT`
        address: String,
    },
    /// The map no longer has a server.
    Left {
        /// Its name.
        server: NodeId,
    },
    /// Another server keeps the clock and the map.
    Manager {
        /// Which.
        server: NodeId,
        /// Where it is, if that is known.
        address: Option<String>,
    },
    /// The replica of a shard here takes part in another view.
    View {
        /// The shard.
        shard: String,
        /// The view.
        view: View,
        /// Who leads it.
        leader: NodeId,
    },
    /// The replicas of a shard are another group.
    Group {
        /// The shard.
        shard: String,
        /// Where they are.
        members: Vec<NodeId>,
        /// How they agree.
        protocol: Protocol,
    },
    /// This server serves a shard, whose replicas it leads.
    Serves {
        /// The shard.
        shard: String,
        /// In which view.
        view: View,
    },
    /// This server serves a shard no more: another leads its replicas, or its disk has failed.
    ServesNoMore {
        /// The shard.
        shard: String,
    },
    /// This server, which is drained, begins to hand over a shard.
    HandsOver {
        /// The shard.
        shard: String,
        /// To whom.
        to: NodeId,
    },
    /// A shard is another server's now, to which this one has handed it over.
    HandedOver {
        /// The shard.
        shard: String,
    },
    /// All of a shard has come here that another server hands over.
    TookOver {
        /// The shard.
        shard: String,
        /// From whom.
        from: NodeId,
    },
    /// Part of this server takes no part: a disk has failed or is full.
    Fails(String),
    /// That is over.
    Recovers(String),
}

impl Event {
    /// Which kind of thing happened.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Joining(_) => "joining",
            Self::Joined { .. } => "joined",
            Self::Left { .. } => "left",
            Self::Manager { .. } => "manager",
            Self::View { .. } => "view",
            Self::Group { .. } => "group",
            Self::Serves { .. } => "serves",
            Self::ServesNoMore { .. } => "serves no more",
            Self::HandsOver { .. } => "hands over",
            Self::HandedOver { .. } => "handed over",
            Self::TookOver { .. } => "took over",
            Self::Fails(_) => "fails",
            Self::Recovers(_) => "recovers",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joining(Joining { server, address }) => write!(f, "{server} wants to join, from {address}"),
            Self::Joined { server, address } => {
                write!(f, "{server} is a server of the cluster, at {address}")
            }
            Self::Left { server } => write!(f, "{server} is no server of the cluster any more"),
            Self::Manager { server, address: Some(address) } => {
                write!(f, "{server} at {address} keeps the clock and the map")
            }
            Self::Manager { server, address: None } => write!(f, "{server} keeps the clock and the map"),
            Self::View { shard, view, leader } => {
                write!(f, "{shard}: view {view} has begun, led by {leader}")
            }
            Self::Group { shard, members, protocol } => {
                let members: Vec<_> = members.iter().map(ToString::to_string).collect();
                write!(f, "{shard}: its replicas are on {} now, and agree by {protocol}", members.join(", "))
            }
            Self::Serves { shard, view } => write!(f, "{shard}: served by this server, from view {view} on"),
            Self::ServesNoMore { shard } => write!(f, "{shard}: no longer served by this server"),
            Self::HandsOver { shard, to } => write!(f, "{shard}: being handed over to {to}"),
            Self::HandedOver { shard } => write!(f, "{shard}: handed over"),
            Self::TookOver { shard, from } => write!(f, "{shard}: taken over from {from}"),
            Self::Fails(why) => f.write_str(why),
            Self::Recovers(why) => write!(f, "no longer: {why}"),
        }
    }
}
