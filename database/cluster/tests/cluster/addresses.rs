//! Where a server looks for others.

use fulmar_cluster::{Map, Message, NodeId, Server, ShardOptions, Transient};
use fulmar_node::{Outbox, Process, Time};
use std::collections::BTreeMap;

const FIRST: NodeId = NodeId(0);
const OWN: NodeId = NodeId(7);

fn map(version: u64, first: &str) -> Map {
    let servers = BTreeMap::from([(FIRST, first.to_owned()), (OWN, "own:1".to_owned())]);
    Map { version, servers, ..Map::default() }
}

#[test]
fn where_a_server_was_met_counts_until_the_map_says_where_it_is() {
    let mut out = Outbox::default();
    let mut server =
        Server::member((OWN, "own:1"), Box::new(Transient::new(ShardOptions::default())), map(1, "old:1"));
    assert_eq!(server.address(FIRST), Some("old:1"));
    server.met(FIRST, "new:1");
    assert_eq!(server.address(FIRST), Some("new:1"));
    // A map that tells nothing new of it, and one that does.
    for (version, told, expected) in [(2, "old:1", "new:1"), (3, "newer:1", "newer:1")] {
        let said = Message::Map { map: map(version, told), about: None };
        server.receive(Time::ZERO, FIRST, said, &mut out);
        assert_eq!(server.address(FIRST), Some(expected));
    }
    // Where it is anyway.
    server.met(FIRST, "newer:1");
    server.receive(Time::ZERO, FIRST, Message::Map { map: map(4, "last:1"), about: None }, &mut out);
    assert_eq!(server.address(FIRST), Some("last:1"));
    assert_eq!(server.address(NodeId(9)), None);
}
