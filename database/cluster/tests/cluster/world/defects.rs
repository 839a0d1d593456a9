//! Planted defects, which the checkers are to find.

use super::SERVERS;
use fulmar_cluster::{Answer, DatabaseNumber, Found, Message, PeerMessage, Question, Server, Sight};
use fulmar_dbt::Options;
use fulmar_kv::engine::{Batch, EngineWrite};
use fulmar_kv::{Commit, Durability, Object, ObjectId, Outcome, Restructuring, ShardId};
use fulmar_node::NodeId;
use std::sync::Arc;

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    Nothing,
    /// What a leaf does not hold is taken not to exist.
    NoFences,
    /// Crashed servers forget which transactions they have prepared and decided.
    LostRecords,
    /// After its first read a transaction reads a later snapshot.
    LateTimestamp,
    /// Servers take the clock to be further than it is.
    FastClock,
    /// Who reads nothing else, reads more.
    OnlyReads,
    /// Servers do not care whether the map has changed by the time of which they hear.
    OldMap,
    /// Who has kept the clock takes it that the replicas of that follow for ever.
    NoQuorum,
    /// Who is asked about a transaction that it has not prepared says that it will not take place, and forgets that.
    Forgetful,
    /// Who is asked for a decision again says that it is made, whatever the replicas know of it.
    Eager,
    /// Who decides tells the other shards before its disk holds the decision.
    Hasty,
    /// Who prepares says so before its disk holds that.
    Careless,
}

impl Defect {
    /// A message as a server with the defect takes it.
    pub(super) fn at_server(self, mut message: Message) -> Message {
        if self == Self::FastClock
            && let Message::Time { reached, .. } = &mut message
        {
            reached.0 += 300;
        }
        if self == Self::OldMap
            && let Message::Time { map, .. } = &mut message
        {
            *map = 0;
        }
        if self == Self::LateTimestamp
            && let Message::Question { question: Question::Read { at: Sight::Open(at), .. }, .. } =
                &mut message
        {
            at.0 += 3;
        }
        message
    }

    /// What a server with the defect says to a message, which it then forgets.
    pub(super) fn forgets(self, server: &Server, message: &Message) -> Option<Message> {
        if let Message::Question { number, again: true, question: Question::Decide(_, at, _), .. } = message {
            return (self == Self::Eager)
                .then_some(Message::Answer { number: *number, answer: Answer::At(*at) });
        }
        let Message::Transaction { database, shard, from, transaction, said: PeerMessage::Asked { .. } } =
            message
        else {
            return None;
        };
        let kv = server.databases().find(|kv| kv.shard() == *shard)?;
        let (database, shard, from, transaction) = (*database, *from, *shard, *transaction);
        let said = PeerMessage::Ended(Outcome::Aborted);
        let said = Message::Transaction { database, shard, from, transaction, said };
        (self == Self::Forgetful && kv.is_settled()).then_some(said)
    }

    /// What a server with the defect tells other shards of a decision that it is asked for.
    pub(super) fn hastens(self, message: &Message) -> Vec<(NodeId, Message)> {
        let Message::Question {
            database, shard: from, question: Question::Decide(transaction, at, _), ..
        } = message
        else {
            return Vec::new();
        };
        let (database, from, transaction) = (*database, *from, *transaction);
        let others = (0..SERVERS).filter(|other| self == Self::Hasty && *other != u32::from(from.0));
        let tell = |other| {
            let (shard, said) =
                (ShardId(u16::try_from(other).unwrap()), PeerMessage::Ended(Outcome::Committed(*at)));
            (NodeId(other), Message::Transaction { database, shard, from, transaction, said })
        };
        others.map(tell).collect()
    }

    /// Whether a server with the defect takes what it notes at this message to be on its disk at once.
    pub(super) fn takes_as_durable(self, message: &Message) -> bool {
        self == Self::Careless && matches!(message, Message::Question { question: Question::Prepare(_), .. })
    }

    /// What a server with the defect takes others to have answered to what it has sent.
    pub(super) fn answers(self, sends: &[(NodeId, Message)]) -> Vec<(NodeId, Message)> {
        let answer = |(to, message): &(NodeId, Message)| {
            let Message::Replication { database, shard, message } = message else { return None };
            let fulmar_replication::Message::Commit { view, committed, summary, round } = **message else {
                return None;
            };
            let same = fulmar_replication::Message::PrepareOk {
                view,
                ordered: committed,
                upto: committed,
                summary,
                received: committed,
                round,
            };
            let is_clocks = *database == DatabaseNumber(u32::MAX);
            let said = Message::Replication { database: *database, shard: *shard, message: Box::new(same) };
            is_clocks.then_some((*to, said))
        };
        sends.iter().filter(|_| self == Self::NoQuorum).filter_map(answer).collect()
    }

    /// A message as a client with the defect takes it.
    pub(super) fn at_client(self, message: Message) -> Message {
        match message {
            Message::Answer { number, answer: Answer::Nothing } if self == Self::NoFences => {
                Message::Answer { number, answer: Answer::Found(Found::Object(empty_leaf())) }
            }
            message => message,
        }
    }

    /// What a server with the defect finds on its disk.
    pub(super) fn on_disk(self, batch: &Batch) -> Batch {
        let mut batch = batch.clone();
        if self == Self::LostRecords {
            let is_record = |object: ObjectId| object.number() == (1 << 32) - 1;
            batch
                .writes
                .retain(|write| !matches!(write, EngineWrite::Put { object, .. } if is_record(*object)));
        }
        batch
    }
}

/// A leaf for all keys that holds none.
fn empty_leaf() -> Arc<Object> {
    let kv = fulmar_kv::Database::transient(&Options::default()).unwrap();
    let object = ObjectId(7);
    let restructurings = vec![Restructuring::Create { object }];
    kv.commit(Commit { restructurings, ..Commit::default() }, Durability::Written).unwrap();
    kv.read(object).unwrap().unwrap()
}
