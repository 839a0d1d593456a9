//! A server with a disk, and clients that run programs.

use fulmar_dbt::{Database, Options, Timestamp};
use fulmar_kv::engine::{Batch, Engine, EngineWrite, Memory};
use fulmar_kv::remote::{
    Ask, Call, Client, Keep, Message, Open, Question, Remote, Reply, Server, Synced, Unreachable,
};
use fulmar_kv::{Error, ObjectId};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_sim::{Port, Seed, Sim};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

pub(crate) const SERVER: NodeId = NodeId(0);

/// What a node is.
pub(crate) enum Role {
    Server(Box<Server>),
    Client(Client),
}

impl Process for Role {
    type Message = Message;
    type Timer = ();
    type Request = Ask;
    type Event = Reply;
    type Record = Synced;

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match self {
            Self::Server(server) => as_server(out, |out| server.receive(now, from, message, out)),
            Self::Client(client) => as_client(out, |out| client.receive(now, from, message, out)),
        }
    }

    fn expire(&mut self, now: Time, timer: (), out: &mut Outbox<Self>) {
        if let Self::Client(client) = self {
            as_client(out, |out| client.expire(now, timer, out));
        }
    }

    fn request(&mut self, now: Time, ask: Ask, out: &mut Outbox<Self>) {
        if let Self::Client(client) = self {
            as_client(out, |out| client.request(now, ask, out));
        }
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        if let Self::Server(server) = self {
            as_server(out, |out| server.durable(now, upto, out));
        }
    }
}

fn as_server(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Server>)) {
    let mut own = Outbox::after(out.logged());
    step(&mut own);
    out.sends.append(&mut own.sends);
    out.records.append(&mut own.records);
}

fn as_client(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Client>)) {
    let mut own = Outbox::default();
    step(&mut own);
    out.sends.append(&mut own.sends);
    out.timers.append(&mut own.timers);
    out.events.append(&mut own.events);
}

/// What was handed to a disk, batch by batch, each with the newest commit that it leaves.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Vec<(Timestamp, Batch)>>>);

impl Disk {
    /// Keeps what a crash leaves when commits up to `synced` are durable, and gives it.
    fn recover(&self, synced: Timestamp) -> Memory {
        let mut batches = self.0.lock();
        // What was made when the database was empty was synced then and there.
        batches.retain(|(at, _)| *at <= synced);
        let memory = Memory::default();
        for (_, batch) in batches.iter() {
            memory.write(batch.clone()).unwrap();
        }
        memory
    }
}

/// An engine on a [`Disk`].
struct Recorded {
    memory: Memory,
    disk: Disk,
}

impl Engine for Recorded {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let state = batch.writes.iter().rev().find_map(|write| match write {
            EngineWrite::Fact { value, .. } => Some(value),
            _ => None,
        });
        let at = Timestamp(varint(state.expect("a state in each batch")));
        self.disk.0.lock().push((at, batch.clone()));
        self.memory.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.memory.load(object, visit)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.memory.fact(name)
    }
}

fn varint(bytes: &[u8]) -> u64 {
    let mut n = 0;
    for (place, byte) in bytes.iter().enumerate() {
        n |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    n
}

/// Opens one database, once.
struct OneDatabase(Option<Recorded>);

impl Open for OneDatabase {
    fn open(&mut self, _name: &str, _create: bool) -> Result<(fulmar_kv::Database, Box<dyn Keep>), Error> {
        let options = Options { cache_bytes: 1 << 20, ..Options::default() };
        let engine = Box::new(self.0.take().expect("an engine"));
        let kv = fulmar_kv::Database::with_engine(engine, &options)?;
        let keep = Database::on(kv.clone())?;
        Ok((kv, Box::new(keep)))
    }
}

/// A server, whose disk is `disk`, and so many clients.
pub(crate) fn world(seed: Seed, disk: &Disk, clients: u32) -> Sim<Role> {
    let disk = disk.clone();
    let mut sim = Sim::new(seed, move |id, records: &[Synced]| {
        if id != SERVER {
            return Role::Client(Client::new("bank", true));
        }
        let synced = records.last().map_or(Timestamp(0), |synced| synced.at);
        let engine = Recorded { memory: disk.recover(synced), disk: disk.clone() };
        Role::Server(Box::new(Server::new(Box::new(OneDatabase(Some(engine))))))
    });
    sim.add(SERVER);
    for client in 1..=clients {
        sim.add(NodeId(client));
    }
    sim
}

/// A database on the server, for a program.
pub(crate) fn connect(port: Port<Role>) -> Database {
    // A client that has crashed finds that out when it asks for something.
    let _ = port.request(Ask::Server(SERVER));
    Database::remote(Arc::new(Remote::new(Path::new("server"), Caller(port))))
}

struct Caller(Port<Role>);

impl Call for Caller {
    fn call(&mut self, question: Question) -> Result<Reply, Unreachable> {
        self.0.call(Ask::Question(question)).map_err(|error| Unreachable(error.to_string()))
    }

    fn tell(&mut self, ask: Ask) {
        // A client that has crashed holds no snapshots.
        let _ = self.0.request(ask);
    }
}
