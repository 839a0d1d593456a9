use super::{DatabaseName, DatabaseNumber, HandOver, Map, NodeId, Protocol, Replication, ShardId};

/// A map of so many servers.
fn servers(count: u32, replication: Replication) -> Map {
    let mut map = Map { replication, ..Map::of(NodeId(0), "a:0") };
    for server in 1..count {
        map.join(NodeId(server), &format!("a:{server}"));
    }
    map
}

fn name(name: &str) -> DatabaseName {
    name.try_into().expect("a good name")
}

#[test]
fn a_server_that_joins_gets_a_shard_replicated_as_its_database_is() {
    let first = Replication { replicas: 3, protocol: Protocol::Fast };
    for now in [
        Replication::default(),
        Replication { replicas: 5, protocol: Protocol::Viewstamped },
        Replication { replicas: 3, protocol: Protocol::Speculative },
    ] {
        let mut map = servers(3, first);
        map.create(&name("birds"));
        map.replicate(now);
        map.join(NodeId(3), "a:3");
        let shard = (DatabaseNumber(0), ShardId(3));
        assert_eq!(map.server(shard.0, shard.1), Some(NodeId(3)));
        let replicas = map.replicas(shard).expect("it is replicated");
        assert_eq!((replicas.members.len(), replicas.protocol), (3, Protocol::Fast), "{now:?}");
    }
}

#[test]
fn a_database_without_replicas_gets_none_when_the_setting_changes() {
    let mut map = servers(3, Replication::default());
    map.create(&name("birds"));
    map.replicate(Replication { replicas: 3, protocol: Protocol::Viewstamped });
    map.join(NodeId(3), "a:3");
    assert_eq!(map.server(DatabaseNumber(0), ShardId(3)), Some(NodeId(3)));
    assert!(!map.is_replicated(DatabaseNumber(0), ShardId(3)));
}

#[test]
fn a_database_that_was_there_before_its_cluster_is_not_looked_for_on_replicas() {
    let mut map = servers(3, Replication { replicas: 3, protocol: Protocol::Viewstamped });
    map.adopt(&name("birds"), NodeId(0));
    assert_eq!(map.server(DatabaseNumber(0), ShardId(0)), Some(NodeId(0)));
    assert!(!map.is_replicated(DatabaseNumber(0), ShardId(0)));
}

#[test]
fn a_server_that_was_drained_does_not_come_back() {
    let (manager, drained) = (NodeId(0), NodeId(1));
    let mut map = Map::of(manager, "a:1");
    map.join(drained, "b:1");
    map.create(&name("birds"));
    map.drain("b:1");
    map.adopt(&name("fish"), manager);
    // It has begun anew at another address, and is to be found there for what it still holds.
    map.join(drained, "b:2");
    let held: Vec<_> = map.held(drained).collect();
    let [place] = held[..] else { panic!("{held:?}") };
    assert!(map.has(drained, "b:2") && place.1 == ShardId(1));
    map.leave(place, HandOver { to: manager, attempt: 1 });
    map.hand_over(place, 1);
    map.join(drained, "b:2");
    assert!(!map.has(drained, "b:2") && map.held(drained).next().is_none());
}
