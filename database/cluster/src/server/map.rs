//! The map, as a server asks for it, and as others ask it.

use super::shard::Done;
use super::{AtOnce, Event, Held, Known, Manager, Turn};
use crate::map::Map;
use crate::message::{Failed, MapRequest, Message};
use crate::name::DatabaseName;
use crate::open::Open;
use fulmar_coding::Reader;
use fulmar_kv::{Durability, Error};
use fulmar_node::NodeId;
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;

/// A server that is to be on the map, where it says that it is. Whoever runs the manager of the map calls it there, and hands this back if
/// that server answers: so nobody is on the map who cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Its name.
    pub server: NodeId,
    /// `HOST:PORT`
    pub address: String,
}

/// Where the servers of a cluster were when a server last knew.
pub(in super::super) fn remembered(directory: &mut dyn Open) -> Result<Option<Map>, Error> {
    let Some(bytes) = directory.remembered()? else { return Ok(None) };
    let damaged = || Error::Corrupt {
        path: Path::new(".servers").into(),
        what: "what this server knew of the others is damaged; without this file it has to join them".into(),
    };
    Map::decode(&mut Reader::new(&bytes)).map(Some).ok_or_else(damaged)
}

/// What an operator is to be told of a new map.
fn events(before: &Map, now: &Map) -> Vec<Event> {
    let joined = now.servers.iter().filter(|(server, address)| !before.has(**server, address));
    let joined = joined.map(|(server, address)| Event::Joined { server: *server, address: address.clone() });
    let left = before.servers.keys().filter(|server| !now.servers.contains_key(server));
    let left = left.map(|server| Event::Left { server: *server });
    let address = now.servers.get(&now.manager).cloned();
    let manager = (now.manager != before.manager).then_some(Event::Manager { server: now.manager, address });
    joined.chain(left).chain(manager).collect()
}

impl Turn<'_> {
    /// Asks for a newer map, and that this server is on it as it is to be.
    pub(super) fn ask_map(&mut self) {
        let Map { manager, version, .. } = self.known.map;
        self.send(manager, Message::Ask(MapRequest::Newer(version)));
        let map = &self.known.map;
        if !map.has(self.known.me, &self.known.address) && !map.draining.contains(&self.known.me) {
            self.send(manager, Message::Ask(MapRequest::Join(self.known.address.clone())));
        }
        if let Some(replication) =
            self.known.replication.filter(|wanted| *wanted != self.known.map.replication)
        {
            self.send(manager, Message::Ask(MapRequest::Replicate(replication)));
        }
        // Another may keep it by now, and one server after the other is asked who.
        let servers = &self.known.map.servers;
        let next = |last| servers.range((Excluded(last), Unbounded)).next().or_else(|| servers.iter().next());
        if let Some((other, _)) = next(self.known.asked).filter(|_| self.known.map.records.is_some()) {
            self.known.asked = *other;
            self.send(self.known.asked, Message::Ask(MapRequest::Newer(version)));
        }
    }
}

impl Held {
    /// A client wants to open a database.
    pub(super) fn open(
        &mut self,
        client: NodeId,
        number: u64,
        (name, create): (DatabaseName, bool),
        turn: &mut Turn<'_>,
    ) {
        if let Some(layout) = turn.known.map.layout(&name) {
            let reached = turn.known.clock.reached();
            return turn.answer(client, number, AtOnce::Open(layout, reached));
        }
        if let Err(error) = self.directory.exists(&name) {
            return turn.answer(client, number, AtOnce::Failed(error.into()));
        }
        let unplaced = &mut self.membership.unplaced;
        let is_here = unplaced.iter().any(|(waits, asked, _)| (*waits, *asked) == (client, number));
        if !is_here && unplaced.push(name.len() as u64, (client, number, name.clone())).is_err() {
            return turn.answer(client, number, AtOnce::Elsewhere);
        }
        turn.send(turn.known.map.manager, Message::Ask(MapRequest::Database { name, create }));
    }

    /// A server wants to know the map.
    pub(super) fn tell_map(&mut self, from: NodeId, request: MapRequest, turn: &mut Turn<'_>) {
        if let MapRequest::Newer(version) = request {
            if turn.known.map.version > version {
                let map = turn.known.map.clone();
                turn.send(from, Message::Map { map, about: None });
            }
            return;
        }
        let Some(manager) = &mut self.membership.manager else { return };
        let map = manager.map();
        let holds = |database, shard| map.server(database, shard) == Some(from);
        let changed = match request {
            MapRequest::Database { name, create } => {
                return self.tell_database(from, (name, create), turn);
            }
            MapRequest::Join(address) if !map.has(from, &address) => {
                let joining = Joining { server: from, address };
                if from == turn.known.me {
                    return self.join(joining, turn);
                }
                return turn.out.event(Event::Joining(joining));
            }
            MapRequest::Replicate(replication) if map.replication != replication => {
                manager.change(|map| map.replicate(replication), turn)
            }
            MapRequest::Drain(address) => manager.change(|map| map.drain(&address), turn),
            MapRequest::Begin(database, shard, life) if map.is_to_begin((database, shard), from) => {
                manager.change(|map| map.begin((database, shard), from, life), turn)
            }
            MapRequest::Lead(database, shard, view, members) if map.is_to_lead((database, shard), view) => {
                manager.change(|map| map.lead((database, shard), from, (view, members)), turn)
            }
            MapRequest::Leave(database, shard, hand_over) if holds(database, shard) => {
                manager.change(|map| map.leave((database, shard), hand_over), turn)
            }
            MapRequest::HandOver(database, shard, attempt) if holds(database, shard) => {
                manager.change(|map| map.hand_over((database, shard), attempt), turn)
            }
            _ => return,
        };
        // Who is not told asks again.
        if changed.is_ok() {
            manager.tell_map(from, None, turn);
        }
    }

    /// A server has been reached where it says that it is.
    pub(super) fn join(&mut self, Joining { server, address }: Joining, turn: &mut Turn<'_>) {
        if let Some(manager) = &mut self.membership.manager
            && !manager.map().has(server, &address)
            && manager.change(|map| map.join(server, &address), turn).is_ok()
        {
            manager.tell_map(server, None, turn);
        }
    }

    /// Whether the cluster is this server alone, and has no databases.
    pub(super) fn is_unused(&self, known: &Known) -> bool {
        let map = self.membership.manager.as_ref().map_or(&known.map, Manager::map);
        map.databases.is_empty() && map.servers.len() <= 1
    }

    /// Another wants to know where a database is.
    fn tell_database(&mut self, from: NodeId, (name, create): (DatabaseName, bool), turn: &mut Turn<'_>) {
        if create && turn.known.hesitates.is_some_and(|until| turn.now < until) && self.is_unused(turn.known)
        {
            // It is asked for again.
            return;
        }
        let Some(manager) = &mut self.membership.manager else { return };
        let is_known = manager.map().layout(&name).is_some();
        let exists = self.directory.exists(&name);
        let me = turn.known.me;
        let changed = match (is_known, exists, create) {
            (false, Err(error), _) => Err(error),
            (false, Ok(true), _) => manager.change(|map| map.adopt(&name, me), turn),
            (false, Ok(false), true) if !manager.map().has_room() => {
                Err(Error::io(Path::new(&*name), io::Error::other(manager.map().missing())))
            }
            (false, Ok(false), true) => manager.change(|map| map.create(&name), turn),
            _ => Ok(()),
        };
        match changed {
            Ok(()) => manager.tell_map(from, Some(name), turn),
            // Other servers hear nothing, and their clients that this one does not answer.
            Err(error) if from == me => {
                let failed = AtOnce::Failed(turn.failed(error));
                for (client, number, _) in self.membership.unplaced.extract(|(.., asked)| *asked == name) {
                    turn.answer(client, number, failed.clone());
                }
            }
            Err(_) => {}
        }
    }

    /// The map as the manager knows it.
    pub(super) fn learn(&mut self, map: Map, about: Option<&DatabaseName>, turn: &mut Turn<'_>) {
        if map.version >= turn.known.map.version {
            self.know_map(map, turn);
        }
        if let Some(early) = self.membership.early.take() {
            self.handle(turn.known.map.manager, early, turn);
        }
        let Some(about) = about else { return };
        let layout = turn.known.map.layout(about).map(|layout| (layout, turn.known.clock.reached()));
        for (client, number, _) in self.membership.unplaced.extract(|(.., name)| *name == *about) {
            let missing = || AtOnce::Failed(Failed::Missing("no such database".into()));
            let answer =
                layout.clone().map_or_else(missing, |(layout, reached)| AtOnce::Open(layout, reached));
            turn.answer(client, number, answer);
        }
    }

    /// There is another map than was known.
    fn know_map(&mut self, map: Map, turn: &mut Turn<'_>) {
        let kept = |map: &Map| (map.manager, map.records.as_ref().and_then(|records| records.view));
        let is_kept_anew = kept(&map) != kept(&turn.known.map);
        let before = std::mem::replace(&mut turn.known.map, map);
        for event in events(&before, &turn.known.map) {
            turn.out.event(event);
        }
        let (was, is) = (before.servers_of_shards(), turn.known.map.servers_of_shards());
        let is_moved = |place| was.get(&place) != is.get(&place);
        for ((database, _), shard) in &mut self.shards.open {
            shard.follow(|other| is_moved((*database, other)), turn);
            if turn.known.map.is_spread(*database) && !before.is_spread(*database) {
                // What it has acknowledged without a sync.
                shard.tell_when(Durability::Synced, Done::default(), turn);
            }
        }
        // It has told since where it is.
        let servers = &turn.known.map.servers;
        turn.known.met.retain(|server, _| before.servers.get(server) == servers.get(server));
        let mut servers = Vec::new();
        turn.known.map.whereabouts().encode(&mut servers);
        // Until it is tried again, with the next map, what was known before has to do.
        if servers != self.membership.remembered {
            let remembered = self.directory.remember(&servers);
            if turn.report(|_| "write down where the other servers are".into(), remembered).is_some() {
                self.membership.remembered = servers;
            }
        }
        self.look_at_map(turn);
        if is_kept_anew {
            turn.ask_time_again();
            self.register_all(turn);
        }
    }
}
