//! Who is heard, in whatever state a server is.

use crate::node::{CLIENT, HOSTILE, ME, MEMBER, Node, PLACE, STRANGER, map_of_birds};
use fulmar_cluster::{Answer, Directory, HandOver, Message, NodeId, Question, Server, ShardOptions};
use fulmar_kv::Timestamp;
use fulmar_node::Random;
use fulmar_transport::Wire;
use std::collections::BTreeMap;
/// Of each kind of message, by its first byte, whether it is heard from a client, a stranger, a member, and the manager.
fn speakers() -> Vec<(u8, [bool; 4])> {
    let table = include_str!("../../../src/message/speakers.txt").lines().skip(1);
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (kind, may) =
            (words[0].parse().unwrap(), words[words.len() - 4..].iter().map(|word| *word == "yes"));
        (kind, may.collect::<Vec<_>>().try_into().unwrap())
    };
    table.map(row).collect()
}

/// The table holds in whatever state a server is: what it does not hear from somebody changes nothing, and nobody is told anything.
#[test]
fn what_is_not_heard_changes_nothing() {
    const OTHER: NodeId = NodeId(8);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let member = |name, shards| {
        let mut map = map_of_birds(shards);
        map.servers.insert(OTHER, "c:1".into());
        let databases = Box::new(Directory::new(path(name), ShardOptions::default()));
        Node::of(Server::member((ME, "a:1"), databases, map))
    };
    let mut serving = member("serving", vec![ME]);
    // The clock goes on, as it asks for that.
    for at in (9..).map(Timestamp) {
        let Some(number) = serving.clock_asked.take() else { break };
        serving.hear(MEMBER, Message::Time { number, now: at, reached: at, watermark: Timestamp(0), map: 0 });
    }
    let size = serving.ask_by(CLIENT, Question::Size);
    assert!(matches!(size, Some(Answer::Size(_))), "{size:?}");
    assert_eq!(serving.server.status().shards.len(), 1);
    let mut arriving = member("arriving", vec![MEMBER]);
    let mut map = arriving.server.map().clone();
    map.version += 1;
    map.leaving = BTreeMap::from([(PLACE, HandOver { to: ME, attempt: 1 })]);
    arriving.hear(MEMBER, Message::Map { map, about: None });
    assert_eq!(arriving.server.map().leaving.len(), 1);
    let mut first = Node::with_member(&path("manager"));
    first.commit();
    let nodes = [
        ("has heard nothing", member("new", vec![ME]), MEMBER),
        ("serves", serving, MEMBER),
        ("is to get a shard", arriving, MEMBER),
        ("is the manager", first, ME),
    ];
    let mut random = Random::new(7);
    let said = speakers().into_iter().map(|(kind, may)| (some(kind, &mut random), may)).collect::<Vec<_>>();
    for (state, mut node, manager) in nodes {
        let speakers = [HOSTILE, STRANGER, if manager == ME { MEMBER } else { OTHER }, manager];
        for (messages, may) in &said {
            let unheard = speakers.into_iter().zip(may).filter(|(speaker, may)| !**may && *speaker != ME);
            for (message, (speaker, _)) in
                messages.iter().flat_map(|message| unheard.clone().map(move |by| (message, by)))
            {
                let shown = |node: &Node| format!("{:?} {:?}", node.server.map(), node.server.status());
                let before = shown(&node);
                let told = node.hear(speaker, message.clone());
                let case = format!("one that {state}, after {message:?} of {speaker}");
                assert!(told.is_empty(), "{case} tells {told:?}");
                assert_eq!(shown(&node), before, "{case}");
                assert_eq!(node.joining, [], "{case}");
            }
        }
    }
}

/// Some messages of a kind.
fn some(kind: u8, random: &mut Random) -> Vec<Message> {
    let message = |_| {
        let length = random.index(30);
        let byte = |random: &mut Random| {
            let byte = if random.one_in(10) { random.next() } else { random.below(4) };
            byte.to_le_bytes()[0]
        };
        let bytes: Vec<_> = std::iter::once(kind).chain((0..length).map(|_| byte(random))).collect();
        Message::decode(&bytes).ok()
    };
    let messages: Vec<_> = (0..400_000).filter_map(message).take(20).collect();
    assert!(!messages.is_empty(), "no message of kind {kind}");
    messages
}
