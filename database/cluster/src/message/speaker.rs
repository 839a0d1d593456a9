//! Who may say what to a server: everything that comes from outside is judged here, before anything else looks at it.
//!
//! Until servers can prove who they are, a speaker is who it says it is. What a name alone must not do is limited all the same: whoever is
//! no server of the cluster has a client's questions and may ask to join, no number leads further than work could have led, and
//! what could not be read back is never written.

use super::{MapRequest, Message, Question, Sight};
use crate::map::Map;
use crate::name::DatabaseNumber;
use crate::peer::PeerMessage;
use fulmar_kv::{Outcome, ShardId, Timestamp};
use fulmar_node::NodeId;
use fulmar_transport::FIRST_CLIENT;

/// As what somebody speaks to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Speaker {
    /// A client by its name.
    Client,
    /// A server by its name, that is not known to be of the cluster: it may be about to join, or have joined while this one was away. Until the map
    /// says so, it has no replica to speak for: whoever has invented a name could otherwise give this one another state.
    Stranger,
    /// A server on the map; one that was drained, whose clients may still hold snapshots; or one that has a replica of what has one here.
    Member,
    /// The one that keeps the map and the clock.
    Manager,
}

/// No work takes the clock so far at once, as a commit moves it by one: but a database may come to a cluster that has had as many.
const LEAP: u64 = 1 << 40;
/// What clients of a shard have seen, its server hears of at once, once it has it open.
const LEAP_OF_CLIENTS: u64 = 1 << 32;
/// No leap leads further, however many there are: names of attempts are made of times, and 16 bits more.
const LAST: u64 = 1 << 47;
/// Nobody misses so many changes of the map.
const CHANGES: u64 = 1 << 32;

impl Speaker {
    /// What somebody is to a server that knows this map, and may know others that are not on it.
    pub(in super::super) fn of(from: NodeId, map: &Map, is_known: impl FnOnce() -> bool) -> Self {
        match from {
            client if client >= FIRST_CLIENT => Self::Client,
            manager if manager == map.manager => Self::Manager,
            member if map.servers.contains_key(&member) || map.draining.contains(&member) || is_known() => {
                Self::Member
            }
            _ => Self::Stranger,
        }
    }
}

impl Message {
    /// Whether a server hears this from such a speaker.
    pub(in super::super) fn may_come_from(&self, speaker: Speaker) -> bool {
        use Speaker::{Client, Manager, Member, Stranger};
        match self {
            Self::Question { .. } | Self::SnapshotClosed(_) => matches!(speaker, Client | Stranger),
            Self::GivenUp(..) | Self::Examine | Self::Ask(MapRequest::Newer(_) | MapRequest::Drain(_)) => {
                true
            }
            // Who joins knows the clock before anybody can hold a snapshot of what comes to it then.
            Self::Ask(MapRequest::Join(_)) | Self::Clock { .. } => speaker >= Stranger,
            Self::Ask(_)
            | Self::Replication { .. }
            | Self::Copy { .. }
            | Self::Copied { .. }
            | Self::Transaction { .. }
            | Self::Reshape { .. }
            | Self::Load(_)
            | Self::HandOver { .. }
            | Self::Arrived { .. }
            | Self::Map { .. } => speaker >= Member,
            Self::Time { .. } | Self::Loads(_) => speaker == Manager,
            // For clients.
            Self::Answer { .. } | Self::Status(_) => false,
        }
    }

    /// Whether what it says of the clock and the map can follow from what is known: that the clock is here, and the map has had so many
    /// versions. If it is about a shard, that may be open.
    pub(in super::super) fn can_follow(
        &self,
        speaker: Speaker,
        (clock, version): (Timestamp, u64),
        is_open: impl FnOnce(DatabaseNumber, ShardId) -> bool,
    ) -> bool {
        let told = if let Self::Map { map, .. } = self { map.version } else { 0 };
        let latest = self.latest().0;
        let leap = match self {
            Self::Question { database, shard, .. } if latest > clock.0 && is_open(*database, *shard) => {
                LEAP_OF_CLIENTS
            }
            // It has committed nothing, and only wants to begin after all snapshots.
            Self::Clock { .. } if speaker == Speaker::Stranger => 1,
            _ => LEAP,
        };
        latest <= clock.0.saturating_add(leap).min(clock.0.max(LAST))
            && told <= version.saturating_add(CHANGES)
    }

    /// The latest time in it that a shard or the clock goes on from: also a snapshot's, as what is prepared takes place after whoever has
    /// read before it.
    fn latest(&self) -> Timestamp {
        match self {
            Self::Question { question, .. } => question.latest(),
            Self::Clock { reached, .. } => *reached,
            Self::Transaction { said, .. } => said.latest(),
            Self::HandOver { last: Some((last, _)), .. } => *last,
            _ => Timestamp(0),
        }
    }
}

impl Question {
    fn latest(&self) -> Timestamp {
        match self {
            Self::ReopenSnapshot(at)
            | Self::Read { at: Sight::Open(at), .. }
            | Self::Pick { at, .. }
            | Self::Decide(_, at, _) => *at,
            Self::Commit(_, commit, _) => commit.snapshot,
            Self::CommitUnread(_, commit, basis, _) => commit.snapshot.max(basis.after),
            Self::Prepare(prepare) => prepare.commit.snapshot,
            Self::Open { .. }
            | Self::OpenSnapshot
            | Self::Newest
            | Self::Read { .. }
            | Self::Exclude(_)
            | Self::Size => Timestamp(0),
        }
    }
}

impl PeerMessage {
    fn latest(&self) -> Timestamp {
        match self {
            Self::Asked { snapshot, reader } => reader.map_or(*snapshot, |reader| reader.max(*snapshot)),
            Self::Open(at) | Self::Ended(Outcome::Committed(at)) | Self::Prepared(at, _) => *at,
            Self::Prepare { snapshot, .. } => *snapshot,
            Self::Ended(Outcome::Aborted) | Self::Confirmed | Self::Refused => Timestamp(0),
        }
    }
}
