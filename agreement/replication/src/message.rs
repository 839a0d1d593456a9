//! What replicas and clients exchange.

use crate::{Checkpoint, Entry, Group, Log, Summary};
use std::fmt;
use std::sync::Arc;

/// What a client asks of the state machine, which alone knows what it means.
pub type Operation = Arc<[u8]>;

/// The name of a client: of one life of it, if it does not remember what it has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl ClientId {
    /// The group itself, whose requests are for the groups that are to follow it, numbered by their epochs.
    pub const GROUP: Self = Self(u64::MAX);
}

/// The place of an operation in the log, from 1 on; 0 is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The place after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A span in which one replica leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// The epoch of its group.
    pub epoch: u64,
    /// How many views of that epoch were before.
    pub number: u64,
}

impl View {
    /// The first of an epoch.
    #[must_use]
    pub const fn first_of(epoch: u64) -> Self {
        Self { epoch, number: 0 }
    }

    /// The view so many after it, in the same epoch.
    #[must_use]
    pub const fn after(self, views: u64) -> Self {
        Self { epoch: self.epoch, number: self.number + views }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.epoch, self.number)
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A client invokes an operation.
    Request {
        /// Who asks.
        client: ClientId,
        /// The epoch of the group that it knows.
        epoch: u64,
        /// Where it was let in; see [`Entry::session`].
        session: SequenceNumber,
        /// Which of its requests it is: one more than the last, which is answered; or 0, if it asks to be let in.
        number: u64,
        /// What is asked.
        operation: Operation,
        /// Whether it changes nothing, and needs no place in the log.
        is_query: bool,
    },
    /// What came of a request: its operation is committed.
    Reply {
        /// In which view.
        view: View,
        /// Whose request.
        client: ClientId,
        /// Which of them.
        number: u64,
        /// What the state machine has answered.
        result: Vec<u8>,
    },
    /// The group has forgotten who asked: nothing has come of the request, but for what may have come of it before.
    Forgotten {
        /// In which view.
        view: View,
        /// Whose request.
        client: ClientId,
        /// Which of them.
        number: u64,
    },
    /// What comes of a request if a superquorum says the same.
    SpeculativeReply {
        /// In which view.
        view: View,
        /// Whose request.
        client: ClientId,
        /// Which of them.
        number: u64,
        /// Where the replica has it in its log.
        at: SequenceNumber,
        /// The summary of that log up to there.
        summary: Summary,
        /// What the state machine has answered.
        result: Vec<u8>,
    },
    /// A client has found that the replicas of a view are not in the same state (Speculative Paxos, section 4.2.2).
    Doubt {
        /// Which view.
        view: View,
    },
    /// The leader gives operations their places.
    Prepare {
        /// The leader's view.
        view: View,
        /// The place of the first.
        from: SequenceNumber,
        /// The summary of the log before that.
        before: Summary,
        /// The operations.
        entries: Vec<Entry>,
        /// Up to where the leader has committed.
        committed: SequenceNumber,
    },
    /// The leader is there, and wants to know how far the others are: `COMMIT`, and `SYNC` of Speculative Paxos.
    Commit {
        /// Its view.
        view: View,
        /// Up to where it has committed.
        committed: SequenceNumber,
        /// The summary of the log up to there.
        summary: Summary,
        /// How often it has given a sign, or asked whether it still leads.
        round: u64,
    },
    /// What a backup holds and will not forget: `PREPARE-OK`, `IN-VIEW`, and `SYNC-REPLY` of Speculative Paxos.
    PrepareOk {
        /// The view of both.
        view: View,
        /// Up to here it has its places from the leader.
        ordered: SequenceNumber,
        /// Up to here it has a log…
        upto: SequenceNumber,
        /// …with this summary.
        summary: Summary,
        /// Up to here it has operations in their places from the leader, though its disk may not hold them yet.
        received: SequenceNumber,
        /// The last of the leader's signs and questions that it has heard.
        round: u64,
    },
    /// A backup has heard the leader, and cannot promise anything yet.
    Alive {
        /// The view of both.
        view: View,
    },
    /// A replica hears of no leader. It stays where it is: f others have to say so, too, before it wants a later view.
    Suspect {
        /// The view that it is in, or wants to be.
        view: View,
    },
    /// A replica wants a later view to begin, and has left those before it.
    StartViewChange {
        /// Which.
        view: View,
    },
    /// To the leader of a view that is to begin: what its log may not lack.
    DoViewChange {
        /// Which.
        view: View,
        /// The last view whose log this is.
        last_normal: View,
        /// The log, as far as there is room in a message.
        log: Log,
        /// Where all of it ends, and the summary there.
        end: (SequenceNumber, Summary),
        /// Up to where a leader has given it its places.
        ordered: SequenceNumber,
        /// Up to where it is committed.
        committed: SequenceNumber,
    },
    /// A view begins, or has begun, with this log.
    StartView {
        /// Which.
        view: View,
        /// The state, if the log does not reach back to what the receiver has committed.
        checkpoint: Option<Arc<Checkpoint>>,
        /// The log, as far as there is room in a message.
        log: Log,
        /// Nobody is in the view who does not have it up to here, where it has this summary.
        end: (SequenceNumber, Summary),
        /// Up to where it is committed.
        committed: SequenceNumber,
    },
    /// A replica has missed something, and asks for it.
    GetState {
        /// The view that it has heard of.
        view: View,
        /// Up to where it has committed, and needs nothing.
        committed: SequenceNumber,
        /// Up to where it has what it has asked for.
        after: SequenceNumber,
    },
    /// A state, from one who is in no view and has no log to give.
    State(Arc<Checkpoint>),
    /// To one who knows an earlier group only.
    Group(Group),
}

impl Message {
    /// How long the operation of a request is.
    pub(crate) fn operation_bytes(&self) -> usize {
        if let Self::Request { operation, .. } = self { operation.len() } else { 0 }
    }

    /// The view that a message is of, by which only members of its group may act.
    pub(crate) const fn view(&self) -> Option<View> {
        match self {
            Self::Prepare { view, .. }
            | Self::Commit { view, .. }
            | Self::PrepareOk { view, .. }
            | Self::Alive { view }
            | Self::Suspect { view }
            | Self::StartViewChange { view }
            | Self::DoViewChange { view, .. }
            | Self::StartView { view, .. } => Some(*view),
            Self::Request { .. }
            | Self::Reply { .. }
            | Self::Forgotten { .. }
            | Self::SpeculativeReply { .. }
            | Self::Doubt { .. }
            | Self::GetState { .. }
            | Self::State(_)
            | Self::Group(_) => None,
        }
    }
}

/// What a replica waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A sign of the leader, or the beginning of a view.
    Patience,
    /// The moment to give one.
    Heartbeat,
    /// All that has come at this moment is there.
    Batch,
}
