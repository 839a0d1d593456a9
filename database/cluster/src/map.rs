//! Which servers there are, and which of them holds what.
//!
//! *Known as:* placement, routing table, metadata: which server has which shard.

mod wire;

use crate::name::{DatabaseName, DatabaseNumber};
use fulmar_kv::ShardId;
use fulmar_node::NodeId;
use fulmar_replication::{Group, Protocol, View};
use std::collections::{BTreeMap, BTreeSet};

/// So many servers keep the one busy that keeps the clock: measured in docs/scaling.md.
const MANY: usize = 16;

/// No database has more shards.
const MOST_SHARDS: usize = 256;

/// The map of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Grows with every change.
    pub version: u64,
    /// The server that keeps the map, and the clock.
    pub manager: NodeId,
    /// The servers, and where they listen.
    pub servers: BTreeMap<NodeId, String>,
    /// The databases.
    pub databases: BTreeMap<DatabaseNumber, Placement>,
    /// Servers that are to hold nothing any more, also those that do not, which are no longer among the servers.
    pub draining: BTreeSet<NodeId>,
    /// Shards that their servers do not serve any more, and hand over.
    pub leaving: BTreeMap<(DatabaseNumber, ShardId), HandOver>,
    /// How the shards of new databases are replicated.
    pub replication: Replication,
    /// The replicas of the map, and of the clock, if the manager does not keep them alone.
    pub records: Option<Replicas>,
}

/// What stands for the cluster's own records where a shard of a database would: no database has this number.
pub(crate) const RECORDS: (DatabaseNumber, ShardId) = (DatabaseNumber(u32::MAX), ShardId(0));

/// In which of its lives the first server founds these, before there is a clock that could name it.
pub(crate) const FIRST_LIFE: u64 = 0;

/// How a shard is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// To this server.
    pub to: NodeId,
    /// Grows with every attempt: only what is copied in the last one counts.
    pub attempt: u64,
}

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its name.
    pub name: DatabaseName,
    /// How many shards it had when it was made.
    pub founded: u16,
    /// The server of each of its shards, in the order of their names.
    pub shards: Vec<NodeId>,
    /// Those shards that are replicated.
    pub replicated: BTreeMap<ShardId, Replicas>,
}

/// The replicas of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The servers that the shard was founded on.
    pub founders: Vec<NodeId>,
    /// Those that are to have one.
    pub members: Vec<NodeId>,
    /// How they agree, from the beginning.
    pub protocol: Protocol,
    /// They as they are known to be since.
    pub group: Option<Group>,
    /// Those that have begun, and in which of their lives: one that has lost what it held then is another replica.
    pub begun: BTreeMap<NodeId, u64>,
    /// The view whose leader serves the shard.
    pub view: Option<View>,
}

/// Why a server cannot be spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spared {
    /// It alone keeps the clock and the map.
    Manager,
    /// It has replicas, which are to be on different servers.
    Replicas {
        /// On so many…
        needed: usize,
        /// …and there are so many others.
        others: usize,
    },
}

/// How the shards of new databases are replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// On so many servers.
    pub replicas: u16,
    /// By this protocol.
    pub protocol: Protocol,
}

impl Default for Replication {
    /// On one.
    fn default() -> Self {
        Self { replicas: 1, protocol: Protocol::Viewstamped }
    }
}

impl Replication {
    /// The replicas of a shard that is founded on `first` and the servers after it; nothing if there are too few of them.
    fn founders(self, first: NodeId, servers: &[NodeId]) -> Option<Replicas> {
        let begin = servers.iter().position(|server| *server == first)?;
        let all = servers.iter().cycle().skip(begin).take(servers.len());
        let founders: Vec<_> = all.take(self.replicas.into()).copied().collect();
        (founders.len() == usize::from(self.replicas)).then(|| Replicas::new(founders, self.protocol))
    }

    /// Nothing if there is one copy only, which is not replicated.
    fn of_several(self) -> Option<Self> {
        (self.replicas > 1).then_some(self)
    }
}

impl Placement {
    /// Whether the server has a shard of it, or a replica of one.
    fn is_on(&self, server: NodeId) -> bool {
        self.shards.contains(&server) || self.replicated.values().any(|replicas| replicas.are_on(server))
    }

    /// How its shards are replicated, if they are: for all of its life, whatever the setting for new databases says by now.
    fn replication(&self) -> Option<Replication> {
        let replicas = self.replicated.values().next()?;
        let count = u16::try_from(replicas.members.len()).unwrap_or(u16::MAX);
        Some(Replication { replicas: count, protocol: replicas.protocol })
    }

    /// One more shard, which `server` is to serve. Nothing changes if it is to have replicas and there are not enough
    /// servers for them.
    fn extend(&mut self, server: NodeId, servers: &[NodeId], replication: Option<Replication>) {
        let Ok(shard) = u16::try_from(self.shards.len()).map(ShardId) else { return };
        if let Some(replication) = replication {
            let Some(replicas) = replication.founders(server, servers) else { return };
            self.replicated.insert(shard, replicas);
        }
        self.shards.push(server);
    }
}

impl Replicas {
    fn new(founders: Vec<NodeId>, protocol: Protocol) -> Self {
        let members = founders.clone();
        Self { founders, members, protocol, group: None, begun: BTreeMap::new(), view: None }
    }

    /// Those of a cluster's own records, which begin on its first server.
    pub(crate) fn of_records(first: NodeId) -> Self {
        Self { begun: BTreeMap::from([(first, FIRST_LIFE)]), ..Self::new(vec![first], Protocol::Viewstamped) }
    }

    /// Whether there is one on this server, or is to be.
    pub(crate) fn are_on(&self, server: NodeId) -> bool {
        self.members.contains(&server) || self.group.as_ref().is_some_and(|group| group.contains(server))
    }

    /// Another server is to have the replica that is to be on this one, if that is so.
    fn replace(&mut self, server: NodeId, staying: &[NodeId]) {
        let free = staying.iter().find(|free| !self.are_on(**free)).copied();
        let place = self.members.iter().position(|member| *member == server);
        if let (Some(place), Some(free)) = (place, free) {
            self.members.remove(place);
            self.members.push(free);
            // Before it is known that its replica counts no more, it is of the shard.
            self.group = self.group.take().or_else(|| Group::new(self.founders.clone(), self.protocol).ok());
        }
    }
}

/// All that a client has to know of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The database.
    pub database: DatabaseNumber,
    /// How many shards it had when it was made.
    pub founded: u16,
    /// The server of each of its shards, in the order of their names.
    pub shards: Vec<NodeId>,
    /// Where these servers listen, and others that may come to serve a shard.
    pub servers: BTreeMap<NodeId, String>,
}

impl Map {
    /// What a client has to know of the database of this name.
    pub fn layout(&self, name: &DatabaseName) -> Option<Layout> {
        let (database, placement) = self.databases.iter().find(|(_, placement)| placement.name == *name)?;
        let shards = placement.shards.clone();
        let servers = self.servers.iter().filter(|(server, _)| placement.is_on(**server));
        Some(Layout {
            database: *database,
            founded: placement.founded,
            servers: servers.map(|(server, address)| (*server, address.clone())).collect(),
            shards,
        })
    }

    /// The server that holds a shard.
    pub fn server(&self, database: DatabaseNumber, shard: ShardId) -> Option<NodeId> {
        self.databases.get(&database)?.shards.get(usize::from(shard.0)).copied()
    }

    /// The shards that databases have on this server since it joined.
    pub(crate) fn late(&self, server: NodeId) -> impl Iterator<Item = (DatabaseNumber, ShardId)> {
        let is_late = |(database, shard): &(DatabaseNumber, ShardId)| {
            self.databases.get(database).is_some_and(|placement| shard.0 >= placement.founded)
        };
        self.held(server).filter(is_late)
    }

    /// A map on which only the server that keeps the clock and the map is: what the others begin with.
    pub fn of(manager: NodeId, address: &str) -> Self {
        let servers = BTreeMap::from([(manager, address.into())]);
        Self { manager, servers, ..Self::default() }
    }

    /// A server is at this address. It gets a shard of each database that has none there, unless it is drained: once it has
    /// been, it does not come back.
    pub(crate) fn join(&mut self, server: NodeId, address: &str) {
        let is_drained = self.draining.contains(&server);
        if is_drained && !self.servers.contains_key(&server) {
            return;
        }
        self.servers.insert(server, address.into());
        let servers = self.staying();
        for placement in self.databases.values_mut() {
            let has_none = server != self.manager && !is_drained && !placement.is_on(server);
            if has_none && placement.shards.len() < MOST_SHARDS {
                placement.extend(server, &servers, placement.replication());
            }
        }
        self.version += 1;
    }

    /// The server at this address is to hold nothing any more. Nothing, if there is none, or it cannot be spared.
    pub(crate) fn drain(&mut self, address: &str) {
        let server = self.servers.iter().find(|(_, known)| *known == address).map(|(server, _)| *server);
        if let Some(server) = server.filter(|server| self.is_spared(*server).is_ok()) {
            self.draining.insert(server);
            let staying = self.staying();
            let shards = self.databases.values_mut().flat_map(|placement| placement.replicated.values_mut());
            for replicas in shards.chain(&mut self.records) {
                replicas.replace(server, &staying);
            }
            self.version += 1;
            self.dismiss();
        }
    }

    /// Whether others can take what a server holds.
    ///
    /// # Errors
    /// What keeps them from it.
    pub(crate) fn is_spared(&self, server: NodeId) -> Result<(), Spared> {
        if self.records.is_none() && server == self.manager {
            return Err(Spared::Manager);
        }
        let others = self.staying().into_iter().filter(|other| *other != server).count();
        let on_it = self.replicated().filter(|(_, replicas)| replicas.are_on(server));
        match on_it.map(|(_, replicas)| replicas.members.len()).max().filter(|needed| *needed > others) {
            Some(needed) => Err(Spared::Replicas { needed, others }),
            None => Ok(()),
        }
    }

    /// The shard's server is to hand it over, and serves it no more. An attempt that is not newer than another changes
    /// nothing.
    pub(crate) fn leave(&mut self, place: (DatabaseNumber, ShardId), hand_over: HandOver) {
        if self.leaving.get(&place).is_none_or(|before| before.attempt < hand_over.attempt) {
            self.leaving.insert(place, hand_over);
            self.version += 1;
        }
    }

    /// A shard that was to be handed over has been, in this attempt.
    pub(crate) fn hand_over(&mut self, place: (DatabaseNumber, ShardId), attempt: u64) {
        let (database, shard) = place;
        let last = self.leaving.get(&place).copied().filter(|last| last.attempt == attempt);
        let placement = self.databases.get_mut(&database);
        let holder = placement.and_then(|placement| placement.shards.get_mut(usize::from(shard.0)));
        if let (Some(holder), Some(HandOver { to, .. })) = (holder, last) {
            self.leaving.remove(&place);
            *holder = to;
            self.version += 1;
            self.dismiss();
        }
    }

    /// Forgets servers that were drained.
    fn dismiss(&mut self) {
        let holds = |server: &NodeId| {
            self.databases.values().any(|placement| placement.is_on(*server))
                || self.records.as_ref().is_some_and(|records| records.are_on(*server))
        };
        self.servers.retain(|server, _| !self.draining.contains(server) || holds(server));
    }

    /// Whether a database has several shards: then others rest on what one of them has acknowledged.
    pub(crate) fn is_spread(&self, database: DatabaseNumber) -> bool {
        self.databases.get(&database).is_some_and(|placement| placement.shards.len() > 1)
    }

    /// The shards on this server.
    pub(crate) fn held(&self, server: NodeId) -> impl Iterator<Item = (DatabaseNumber, ShardId)> {
        self.databases.iter().flat_map(move |(database, placement)| {
            let shards = (0..).map(ShardId).zip(&placement.shards);
            shards.filter(move |(_, holder)| **holder == server).map(|(shard, _)| (*database, shard))
        })
    }

    /// The server of each shard.
    pub(crate) fn servers_of_shards(&self) -> BTreeMap<(DatabaseNumber, ShardId), NodeId> {
        let shards = |(database, placement): (&DatabaseNumber, &Placement)| {
            let database = *database;
            (0..).map(move |shard| (database, ShardId(shard))).zip(placement.shards.clone())
        };
        self.databases.iter().flat_map(shards).collect()
    }

    /// Whether a server is known to be at this address.
    pub(crate) fn has(&self, server: NodeId, address: &str) -> bool {
        self.servers.get(&server).is_some_and(|known| known == address)
    }

    /// A database that is on a server already, and only there.
    pub(crate) fn adopt(&mut self, name: &DatabaseName, server: NodeId) {
        self.add(name, None, |_| vec![server]);
    }

    /// A new database, with a shard on each server. Where there are many, keeping the clock is enough for one to do.
    pub(crate) fn create(&mut self, name: &DatabaseName) {
        let mut shards = self.staying();
        if shards.len() >= MANY {
            shards.retain(|server| *server != self.manager);
        }
        self.add(name, self.replication.of_several(), |number| {
            // The first shard holds the schema: let another server have that of each database.
            let first = number as usize % shards.len().max(1);
            shards.rotate_left(first);
            shards.truncate(MOST_SHARDS);
            shards
        });
    }

    /// The servers that are not to be empty.
    fn staying(&self) -> Vec<NodeId> {
        self.servers.keys().copied().filter(|server| !self.draining.contains(server)).collect()
    }

    /// The replicas of a shard, if it is replicated.
    pub(crate) fn replicas(&self, place: (DatabaseNumber, ShardId)) -> Option<&Replicas> {
        match place {
            RECORDS => self.records.as_ref(),
            (database, shard) => self.databases.get(&database)?.replicated.get(&shard),
        }
    }

    fn replicas_mut(&mut self, place: (DatabaseNumber, ShardId)) -> Option<&mut Replicas> {
        match place {
            RECORDS => self.records.as_mut(),
            (database, shard) => self.databases.get_mut(&database)?.replicated.get_mut(&shard),
        }
    }

    /// All that is replicated.
    fn replicated(&self) -> impl Iterator<Item = ((DatabaseNumber, ShardId), &Replicas)> {
        let shards = self.databases.iter().flat_map(|(database, placement)| {
            placement.replicated.iter().map(|(shard, replicas)| ((*database, *shard), replicas))
        });
        shards.chain(self.records.iter().map(|records| (RECORDS, records)))
    }

    /// The replicas that are to be on this server.
    pub(crate) fn replicas_on(&self, server: NodeId) -> impl Iterator<Item = (DatabaseNumber, ShardId)> {
        self.replicated().filter(move |(_, replicas)| replicas.are_on(server)).map(|(place, _)| place)
    }

    /// What a server calls what it holds of this.
    pub(crate) fn name(&self, (database, shard): (DatabaseNumber, ShardId)) -> Option<DatabaseName> {
        match (database, shard) {
            RECORDS => Some(DatabaseName::of_records()),
            _ => Some(self.databases.get(&database)?.name.clone()),
        }
    }

    /// Shards of new databases are to be replicated so.
    pub(crate) fn replicate(&mut self, replication: Replication) {
        self.replication = replication;
        self.version += 1;
    }

    /// Whether a shard is replicated.
    pub fn is_replicated(&self, database: DatabaseNumber, shard: ShardId) -> bool {
        self.replicas((database, shard)).is_some()
    }

    /// The names of databases that have shards on this server alone.
    pub fn without_replicas(&self, server: NodeId) -> impl Iterator<Item = &str> {
        let is_on = move |placement: &&Placement| {
            let mut shards = (0..).map(ShardId).zip(&placement.shards);
            shards.any(|(shard, on)| *on == server && !placement.replicated.contains_key(&shard))
        };
        self.databases.values().filter(is_on).map(|placement| &*placement.name)
    }

    /// How many replicas a server has, or is to have.
    pub fn replicas_left(&self, server: NodeId) -> usize {
        self.replicas_on(server).count()
    }

    /// The servers that hold the clock and the map, of which any minority may be gone.
    pub fn managers(&self) -> Vec<NodeId> {
        let group = self.records.as_ref().and_then(|records| records.group.as_ref());
        group.map_or_else(|| vec![self.manager], |group| group.nodes().collect())
    }

    /// Whether the map and the clock should have replicas on more servers, and there are such servers.
    pub(crate) fn is_to_spread(&self) -> bool {
        let replicas = usize::from(self.replication.replicas);
        self.records.as_ref().is_some_and(|records| records.members.len() < replicas) && self.has_room()
    }

    /// Has them on as many servers as the shards of a new database.
    pub(crate) fn spread(&mut self) {
        let (staying, most) = (self.staying(), usize::from(self.replication.replicas));
        if let Some(records) = &mut self.records {
            let new: Vec<_> = staying.into_iter().filter(|server| !records.are_on(*server)).collect();
            let missing = most.saturating_sub(records.members.len());
            records.members.extend(new.into_iter().take(missing));
            self.version += 1;
        }
    }

    /// The part that tells where the servers are, and who keeps it.
    pub(crate) fn whereabouts(&self) -> Self {
        let records = self.records.clone();
        let (servers, draining) = (self.servers.clone(), self.draining.clone());
        Self { manager: self.manager, servers, draining, records, ..Self::default() }
    }

    /// Whether a server is to have a replica, and not known to have one.
    pub(crate) fn is_to_begin(&self, place: (DatabaseNumber, ShardId), server: NodeId) -> bool {
        self.replicas(place)
            .is_some_and(|replicas| replicas.are_on(server) && !replicas.begun.contains_key(&server))
    }

    /// A server has a replica from now on.
    pub(crate) fn begin(&mut self, place: (DatabaseNumber, ShardId), server: NodeId, life: u64) {
        if let Some(replicas) = self.replicas_mut(place) {
            replicas.begun.insert(server, life);
            self.version += 1;
        }
    }

    /// Whether nobody is known to serve a shard as the leader of this view of its replicas, or of a later one.
    pub(crate) fn is_to_lead(&self, place: (DatabaseNumber, ShardId), view: View) -> bool {
        self.replicas(place).is_some_and(|replicas| replicas.view < Some(view))
    }

    /// A server serves a shard, or keeps the map, as the leader of its replicas.
    pub(crate) fn lead(
        &mut self,
        place: (DatabaseNumber, ShardId),
        server: NodeId,
        (view, members): (View, Group),
    ) {
        let Some(replicas) = self.replicas_mut(place) else { return };
        (replicas.view, replicas.group) = (Some(view), Some(members));
        let (database, shard) = place;
        let placement = self.databases.get_mut(&database);
        if let Some(holder) = placement.and_then(|placement| placement.shards.get_mut(usize::from(shard.0))) {
            *holder = server;
        }
        if place == RECORDS {
            self.manager = server;
        }
        self.version += 1;
        self.dismiss();
    }

    /// Whether there are enough servers for the replicas of a new database.
    pub(crate) fn has_room(&self) -> bool {
        self.staying().len() >= usize::from(self.replication.replicas)
    }

    /// What there is if there is no room.
    pub(crate) fn missing(&self) -> String {
        let (replicas, servers) = (self.replication.replicas, self.staying().len());
        format!(
            "a new database has {replicas} replicas, on as many servers: so far there are {servers} in the cluster"
        )
    }

    fn add(
        &mut self,
        name: &DatabaseName,
        replication: Option<Replication>,
        holders: impl FnOnce(u32) -> Vec<NodeId>,
    ) {
        let number = self.databases.keys().next_back().map_or(0, |last| last.0 + 1);
        let (shards, replicated) = (Vec::new(), BTreeMap::new());
        let mut placement = Placement { name: name.clone(), founded: 0, shards, replicated };
        let servers = self.staying();
        for server in holders(number) {
            placement.extend(server, &servers, replication);
        }
        placement.founded = u16::try_from(placement.shards.len()).unwrap_or(u16::MAX);
        self.databases.insert(DatabaseNumber(number), placement);
        self.version += 1;
    }
}

impl Layout {
    /// The server of a shard.
    pub fn server(&self, shard: ShardId) -> Option<NodeId> {
        self.shards.get(usize::from(shard.0)).copied()
    }
}

#[cfg(test)]
mod tests;
