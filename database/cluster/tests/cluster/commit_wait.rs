//! A server whose clock another keeps, and what it tells of a commit until that has reached it.

use crate::node::{CLIENT, ME, MEMBER, Node, OBJECT, map_of_birds};
use fulmar_cluster::{Answer, Directory, Message, Question, Server, ShardOptions};
use fulmar_kv::{
    Change, Commit, Durability, Prepare, Restructuring, ShardId, Timestamp, TransactionId, Write,
};
use std::path::Path;
use std::sync::Arc;

/// A server of a shard, and whoever keeps the clock, of which it has heard that it is here.
struct Clocked {
    node: Node,
    reached: Timestamp,
}

impl Clocked {
    fn open(path: &Path) -> Self {
        let databases = Box::new(Directory::new(path.into(), ShardOptions::default()));
        let node = Node::of(Server::member((ME, "a:1"), databases, map_of_birds(vec![ME, MEMBER])));
        let mut clocked = Self { node, reached: Timestamp(0) };
        // Of what was before it heard of the clock it knows nothing.
        for reached in [100, 110] {
            clocked.answers_at(Timestamp(reached));
        }
        clocked
    }

    /// Who keeps the clock says that it is here, as often as it is asked at once; which commits the client is told of then.
    fn answers_at(&mut self, reached: Timestamp) -> Vec<Timestamp> {
        self.reached = reached;
        let mut answers = Vec::new();
        for _ in 0..3 {
            let Some(number) = self.node.clock_asked.take() else { break };
            let (now, watermark) = (reached, Timestamp(0));
            let map = self.node.server.map().version;
            let time = Message::Time { number, now, reached, watermark, map };
            let sent = self.node.hear(MEMBER, time);
            answers.extend(sent.into_iter().filter_map(|(to, message)| match message {
                Message::Answer { answer: Answer::At(at), .. } if to == CLIENT => Some(at),
                Message::Answer { answer, .. } => panic!("{to} is told {answer:?}"),
                _ => None,
            }));
        }
        answers
    }
}

fn row(snapshot: Timestamp, number: u64) -> Commit {
    let create = (number == 1).then_some(Restructuring::Create { object: OBJECT });
    let change =
        Change { key: number.to_be_bytes().as_slice().into(), value: Some(b"row".as_slice().into()) };
    Commit {
        snapshot,
        restructurings: create.into_iter().collect(),
        writes: vec![Write { object: OBJECT, cleared: Vec::new(), changes: vec![change].into() }],
        ..Commit::default()
    }
}

/// A question that was asked again was answered from memory, while the first answer still waited for the clock: a snapshot that was
/// opened then, on another server, did not see what was acknowledged.
#[test]
fn nothing_is_told_of_a_commit_before_the_clock_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut clocked = Clocked::open(directory.path());
    for durability in [Durability::Synced, Durability::Written] {
        for is_prepared in [false, true] {
            let number = clocked.node.questions + 1;
            let (transaction, snapshot) = (TransactionId { client: 1, number }, clocked.reached);
            let commit = row(snapshot, number);
            let question = if is_prepared {
                let others = vec![ShardId(1)];
                let prepare = Prepare { transaction, primary: ShardId(0), others, commit };
                let prepared = clocked.node.ask_by(CLIENT, Question::Prepare(prepare));
                let Some(Answer::At(proposal)) = prepared else { panic!("{number}: {prepared:?}") };
                // Another shard has proposed more.
                Question::Decide(transaction, Timestamp(proposal.0 + 5), durability)
            } else {
                Question::Commit(transaction, Arc::new(commit), durability)
            };
            for again in [false, true, true] {
                let told = clocked.node.ask_once_or_again(CLIENT, again, question.clone());
                assert!(told.is_none(), "{number}, {again}: {told:?} at {:?}", clocked.reached);
            }
            let snapshot_before = clocked.answers_at(snapshot);
            assert!(snapshot_before.is_empty(), "{number}: {snapshot_before:?} at {snapshot:?}");
            let told = clocked.answers_at(Timestamp(snapshot.0 + 10));
            let [at, ..] = told[..] else { panic!("{number}: {told:?}") };
            assert!(snapshot < at && at <= clocked.reached, "{number}: {at:?}");
            assert_eq!(told, [at; 3], "{number}");
        }
    }
}
