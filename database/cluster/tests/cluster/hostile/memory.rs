//! How much a client can have a server keep for it.

use crate::hostile::{cell, changes};
use crate::node::{CLIENT, HOSTILE, ME, MEMBER, Node, OBJECT, PLACE};
use fulmar_cluster::{Answer, Begun, Direction, Found, Message, NodeId, PeerMessage, Question, Sight};
use fulmar_kv::{
    Basis, Change, Commit, Durability, Object, ObjectId, Outcome, Part, Prepare, ShardId, Timestamp,
    TransactionId,
};
use std::sync::Arc;
/// Each took some hundreds of bytes until the client had gone.
#[test]
fn a_client_opens_no_more_snapshots_than_a_program_has() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let newest = node.newest();
    let mut opened = 0;
    while let Some(Answer::At(_)) =
        node.ask_by(HOSTILE, Question::ReopenSnapshot(Timestamp(newest.0 + opened)))
    {
        opened += 1;
        assert!(opened <= 10_000);
    }
    assert!(matches!(node.ask_by(CLIENT, Question::ReopenSnapshot(newest)), Some(Answer::At(_))));
    node.commit();
}

/// Only those that were opened elsewhere were counted.
#[test]
fn a_client_opens_no_more_snapshots_here_than_a_program_has() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.open("birds", true);
    let mut opened = 0;
    loop {
        // Each is another one, as the clock goes on.
        let transaction = TransactionId { client: 2, number: opened + 1 };
        let (nothing, basis) = (Arc::new(Commit::default()), Basis::default());
        node.ask_by(HOSTILE, Question::CommitUnread(transaction, nothing, basis, Durability::Written));
        match node.ask_by(HOSTILE, Question::OpenSnapshot) {
            Some(Answer::At(_)) => opened += 1,
            other => break assert!(matches!(other, Some(Answer::Failed(_))), "{other:?}"),
        }
    }
    assert_eq!(opened, 10_000);
    assert!(matches!(node.ask_by(CLIENT, Question::OpenSnapshot), Some(Answer::At(_))));
}

/// Whatever met a lock was kept, as large as it was and however much there was of it, until the transaction ended.
#[test]
fn what_waits_takes_no_more_memory_than_there_is_for_it() {
    const LARGE: usize = 8 << 20;
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.join(MEMBER, "b:1");
    let layout = node.open("birds", true);
    assert_eq!(layout.shards, [ME, MEMBER]);
    node.commit();
    let snapshot = node.newest();
    // Of another server's shard, which says nothing of it.
    let (transaction, primary) = (TransactionId { client: 1, number: 1 }, ShardId(1));
    let prepare =
        Prepare { transaction, primary, others: vec![PLACE.1], commit: cell(snapshot, b"prepared") };
    let prepared = node.ask_by(HOSTILE, Question::Prepare(prepare));
    assert!(matches!(prepared, Some(Answer::At(_))), "{prepared:?}");
    let large = vec![0; LARGE];
    let mut ask = |client: u32| {
        let transaction = TransactionId { client: client.into(), number: 1 };
        let commit = Arc::new(cell(snapshot, &large));
        let question = Question::Commit(transaction, commit, Durability::Synced);
        node.ask_by(NodeId(HOSTILE.0 + client), question)
    };
    let waiting = (1..100).take_while(|client| ask(*client).is_none()).count();
    assert!((16..=32).contains(&waiting), "{waiting} of them wait");
    // Who was sent away comes back.
    let sent_away = ask(99);
    assert!(matches!(sent_away, Some(Answer::Elsewhere)), "{sent_away:?}");
    let (database, shard) = PLACE;
    let said = PeerMessage::Ended(Outcome::Aborted);
    node.hear(MEMBER, Message::Transaction { database, shard, from: primary, transaction, said });
    let snapshot = node.newest();
    let commit = Arc::new(cell(snapshot, b"again"));
    let transaction = TransactionId { client: 99, number: 1 };
    let again = Question::Commit(transaction, commit, Durability::Synced);
    let answer = node.ask_once_or_again(NodeId(HOSTILE.0 + 99), true, again);
    assert!(matches!(answer, Some(Answer::At(_))), "{answer:?}");
}

/// The leaf that has a key, found as a client finds it.
fn leaf_of(node: &mut Node, key: &[u8]) -> ObjectId {
    let mut object = OBJECT;
    loop {
        let (from, direction, at) = (key.into(), Direction::Up, Sight::New(None));
        let question = Question::Read { object, from, direction, at, bytes: 1, begun: None };
        let Some(Answer::Opened(at, Some(found))) = node.ask_by(CLIENT, question) else {
            panic!("it is not there")
        };
        node.hear(CLIENT, Message::SnapshotClosed(at));
        match found {
            Found::Object(inner) if inner.level() > 0 => {
                object = inner.link_towards(Part::From(key)).expect("a link");
            }
            Found::Object(_) | Found::Piece(_) => return object,
        }
    }
}

/// Who asked for large rows on many connections, and read none, was sent all of one on each.
#[test]
fn no_answer_is_as_large_as_rows_may_be() {
    const LONGEST: usize = (1 << 20) + 100;
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.open("birds", true);
    node.commit();
    let large = |byte: u8| vec![byte; 5 << 20];
    // As a table has it, and as an index does.
    let row = Change { key: [9].into(), value: Some(large(1).into()) };
    let entry = Change { key: large(10).into(), value: Some([].as_slice().into()) };
    let mut number = 0;
    let mut write = |node: &mut Node, rows: Vec<Change>| {
        number += 1;
        let commit = Arc::new(changes(node.newest(), rows));
        let transaction = TransactionId { client: 1, number };
        let answer = node.ask_by(CLIENT, Question::Commit(transaction, commit, Durability::Synced));
        assert!(matches!(answer, Some(Answer::At(_))), "{answer:?}");
    };
    write(&mut node, vec![row, entry]);
    for at in [Sight::New(None), Sight::Once(None)] {
        for (from, key, value) in [(vec![9], vec![9], large(1)), (vec![10], large(10), vec![])] {
            let mut question = Question::Read {
                object: leaf_of(&mut node, &from),
                from: from.clone().into(),
                direction: Direction::Up,
                at: at.clone(),
                bytes: 1,
                begun: None,
            };
            let (mut whole, mut pieces) = (Vec::new(), 0);
            let (opened, object) = loop {
                let answer = node.ask_by(HOSTILE, question.clone());
                let (opened, piece) = match answer {
                    Some(Answer::Opened(opened, Some(Found::Piece(piece)))) => (Some(opened), piece),
                    Some(Answer::Found(Found::Piece(piece))) => (None, piece),
                    answer => panic!("{answer:?}"),
                };
                assert_eq!((piece.offset, opened.is_some()), (whole.len() as u64, pieces == 0));
                assert!(piece.bytes.len() <= LONGEST);
                whole.extend(piece.bytes);
                pieces += 1;
                let Question::Read { at, begun, .. } = &mut question else { unreachable!() };
                if let Some(opened) = opened {
                    *at = Sight::Open(opened);
                }
                if whole.len() as u64 == piece.size {
                    let Sight::Open(opened) = *at else { panic!("no snapshot") };
                    break (opened, Object::decode(piece.object, &whole).expect("an object"));
                }
                *begun = Some(Begun { bytes: whole.len() as u64, fingerprint: piece.fingerprint });
                // What is changed meanwhile a snapshot does not see.
                write(&mut node, vec![Change { key: [9].into(), value: Some(large(1).into()) }]);
            };
            assert_eq!((object.slots(), object.get(&key, opened)), (1, Some(&*value)));
            assert_eq!(object.interval().low(), from);
            assert!(pieces >= 5, "{pieces}");
            node.hear(HOSTILE, Message::SnapshotClosed(opened));
        }
    }
    // Of something else nothing has begun.
    let begun = Some(Begun { bytes: 1 << 20, fingerprint: 0 });
    let (object, at) = (leaf_of(&mut node, &[9]), Sight::New(None));
    let again = Question::Read { object, from: [9].into(), direction: Direction::Up, at, bytes: 1, begun };
    match node.ask_by(HOSTILE, again) {
        Some(Answer::Opened(_, Some(Found::Piece(piece)))) => assert_eq!(piece.offset, 0),
        answer => panic!("{answer:?}"),
    }
}

/// What a reader is shown waits until it is durable, and took as much memory as somebody asked for meanwhile.
#[test]
fn what_waits_to_be_shown_takes_no_more_memory_than_there_is_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.open("birds", true);
    node.commit();
    let commit = |snapshot, key: u8| {
        let row = Change { key: [key].into(), value: Some(vec![key; 2 << 20].into()) };
        let commit = Arc::new(changes(snapshot, vec![row]));
        let transaction = TransactionId { client: 1, number: key.into() };
        Question::Commit(transaction, commit, Durability::Synced)
    };
    let snapshot = node.newest();
    assert!(matches!(node.ask_by(CLIENT, commit(snapshot, 9)), Some(Answer::At(_))));
    let (object, snapshot) = (leaf_of(&mut node, &[9]), node.newest());
    // Nothing is synced before all of them were asked.
    node.say(CLIENT, commit(snapshot, 10));
    let at = Sight::Open(Timestamp(snapshot.0 + 100));
    for _ in 0..200 {
        let (from, at) = ([9].into(), at.clone());
        let read = Question::Read { object, from, direction: Direction::Up, at, bytes: 1, begun: None };
        node.say(HOSTILE, read);
    }
    let told = |sent: Vec<(NodeId, Message)>| {
        let (mut shown, mut sent_away) = (0, 0);
        for (to, message) in sent {
            match message {
                Message::Answer { answer: Answer::Found(Found::Piece(_)), .. } => shown += 1,
                Message::Answer { answer: Answer::Elsewhere, .. } if to == HOSTILE => sent_away += 1,
                _ => {}
            }
        }
        (shown, sent_away)
    };
    let (shown, sent_away) = told(node.settle());
    assert!(
        (50..=64).contains(&shown) && shown + sent_away == 200,
        "{shown} are shown, {sent_away} sent away"
    );
}

/// Each takes memory, and is on the disk, until its client has gone or decides.
#[test]
fn a_client_prepares_no_more_transactions_than_it_can_have() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let prepare = |number: u64, snapshot| {
        let required = vec![(OBJECT, number.to_be_bytes().into())];
        let commit = Commit { snapshot, required, ..Commit::default() };
        let transaction = TransactionId { client: 1, number };
        Question::Prepare(Prepare { transaction, primary: ShardId(0), others: Vec::new(), commit })
    };
    let snapshot = node.newest();
    let is_prepared = |answer: Option<Answer>| matches!(answer, Some(Answer::At(_)));
    let prepared =
        (100..200).take_while(|number| is_prepared(node.ask_by(HOSTILE, prepare(*number, snapshot))));
    assert_eq!(prepared.count(), 16);
    assert!(is_prepared(node.ask_by(CLIENT, prepare(300, snapshot))));
    node.hear(CLIENT, Message::GivenUp(PLACE.0, PLACE.1, TransactionId { client: 1, number: 300 }));
    node.commit();
}
