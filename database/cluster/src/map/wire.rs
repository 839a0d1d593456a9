//! How the map is written, in messages and on disk.

use super::{HandOver, Layout, Map, Placement, RECORDS, Replicas, Replication};
use crate::name::{DatabaseName, DatabaseNumber};
use fulmar_coding::{Reader, list, number, put_bytes, put_varint, text};
use fulmar_kv::ShardId;
use fulmar_node::NodeId;
use fulmar_replication::{Group, Protocol, View};
use std::collections::BTreeMap;

impl Map {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.version);
        put_varint(out, self.manager.0.into());
        put_servers(out, &self.servers);
        put_varint(out, self.databases.len() as u64);
        for (database, Placement { name, founded, shards, .. }) in &self.databases {
            put_varint(out, database.0.into());
            put_bytes(out, name.as_bytes());
            put_varint(out, (*founded).into());
            put_nodes(out, shards);
        }
        put_nodes(out, &self.draining.iter().copied().collect::<Vec<_>>());
        put_varint(out, self.leaving.len() as u64);
        for ((database, shard), HandOver { to, attempt }) in &self.leaving {
            [database.0, shard.0.into(), to.0].into_iter().for_each(|number| put_varint(out, number.into()));
            put_varint(out, *attempt);
        }
        self.replication.encode(out);
        for ((database, shard), replicas) in self.replicated() {
            put_varint(out, database.0.into());
            put_varint(out, shard.0.into());
            replicas.encode(out);
        }
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let version = input.varint()?;
        let manager = NodeId(number(input)?);
        let servers = servers(input)?;
        let database = |input: &mut Reader<'_>| {
            let database = DatabaseNumber(number(input)?);
            let (name, founded, shards) = (DatabaseName::decode(input)?, founded(input)?, nodes(input)?);
            Some((database, Placement { name, founded, shards, replicated: BTreeMap::new() }))
        };
        let mut databases: BTreeMap<_, _> = list(input, database)?.into_iter().collect();
        let draining = nodes(input)?.into_iter().collect();
        let leaving = |input: &mut Reader<'_>| {
            let place = (DatabaseNumber(number(input)?), ShardId::decode(input)?);
            Some((place, HandOver { to: NodeId(number(input)?), attempt: input.varint()? }))
        };
        let leaving = list(input, leaving)?.into_iter().collect();
        let mut replication = Replication::default();
        // It ends here if it was written before shards could be replicated.
        if !input.is_empty() {
            replication = Replication::decode(input)?;
        }
        let mut records = None;
        while !input.is_empty() {
            let place = (DatabaseNumber(number(input)?), ShardId::decode(input)?);
            let replicas = Replicas::decode(input)?;
            match place {
                RECORDS => records = Some(replicas),
                (database, shard) => drop(databases.get_mut(&database)?.replicated.insert(shard, replicas)),
            }
        }
        Some(Self { version, manager, servers, databases, draining, leaving, replication, records })
    }
}

impl Replication {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.replicas.into());
        self.protocol.encode(out);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(Self { replicas: founded(input)?, protocol: Protocol::decode(input)? })
    }
}

impl Replicas {
    fn encode(&self, out: &mut Vec<u8>) {
        put_nodes(out, &self.founders);
        put_nodes(out, &self.members);
        self.protocol.encode(out);
        out.push(u8::from(self.group.is_some()));
        if let Some(group) = &self.group {
            group.encode(out);
        }
        put_varint(out, self.begun.len() as u64);
        for (server, life) in &self.begun {
            put_varint(out, server.0.into());
            put_varint(out, *life);
        }
        out.push(u8::from(self.view.is_some()));
        if let Some(known) = self.view {
            known.encode(out);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let (founders, members, protocol) = (nodes(input)?, nodes(input)?, Protocol::decode(input)?);
        let group = if input.byte()? == 1 { Some(Group::decode(input)?) } else { None };
        let begun = |input: &mut Reader<'_>| Some((NodeId(number(input)?), input.varint()?));
        let begun = list(input, begun)?.into_iter().collect();
        let view = if input.byte()? == 1 { Some(View::decode(input)?) } else { None };
        Some(Self { founders, members, protocol, group, begun, view })
    }
}

impl Layout {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.database.0.into());
        put_varint(out, self.founded.into());
        put_nodes(out, &self.shards);
        put_servers(out, &self.servers);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let database = DatabaseNumber(number(input)?);
        let founded = founded(input)?;
        Some(Self { database, founded, shards: nodes(input)?, servers: servers(input)? })
    }
}

fn founded(input: &mut Reader<'_>) -> Option<u16> {
    u16::try_from(input.varint()?).ok()
}

fn put_nodes(out: &mut Vec<u8>, nodes: &[NodeId]) {
    put_varint(out, nodes.len() as u64);
    nodes.iter().for_each(|node| put_varint(out, node.0.into()));
}

fn nodes(input: &mut Reader<'_>) -> Option<Vec<NodeId>> {
    list(input, |input| Some(NodeId(number(input)?)))
}

fn put_servers(out: &mut Vec<u8>, servers: &BTreeMap<NodeId, String>) {
    put_varint(out, servers.len() as u64);
    for (server, address) in servers {
        put_varint(out, server.0.into());
        put_bytes(out, address.as_bytes());
    }
}

fn servers(input: &mut Reader<'_>) -> Option<BTreeMap<NodeId, String>> {
    let server = |input: &mut Reader<'_>| Some((NodeId(number(input)?), text(input)?));
    Some(list(input, server)?.into_iter().collect())
}
