//! A server on sockets.

use crate::connection::{ConnectError, FIRST, limits, protocol, resolve};
use crate::map::{Map, Replication, Spared};
use crate::message::{MapRequest, Message};
use crate::open::Open;
use crate::server::{Event, Joining, Server, SyncLog, remembered};
use crate::status::Status;
use fulmar_files::chance;
use fulmar_kv::Error;
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_transport::{Address, ClusterId, GREETING, Handle, Listener, Notice, Resolver, ServeError, User};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// So long a server that is to end waits for others to lead what it leads.
const RETIRING: Duration = Duration::from_secs(1);
/// So long a server that is to join may take to answer where it says that it is.
const CALL: Duration = Duration::from_secs(1);
/// So many of these are called at a time; the others ask again.
const MOST_CALLS: usize = 16;

/// A server with its sockets: [`Service::run`] is one thread's work.
pub struct Service {
    service: fulmar_transport::Server<Server>,
    log: SyncLog,
    cluster: ClusterId,
}

impl Service {
    /// The first server of a cluster, for the databases that `directory` opens; others find it at `address`. Databases that
    /// are made from now on are replicated as `replication` says.
    ///
    /// # Errors
    /// What opening the cluster's records says, or the system if it gives no more descriptors.
    pub fn first(
        cluster: u128,
        directory: Box<dyn Open>,
        address: &str,
        replication: Replication,
    ) -> Result<Self, Error> {
        Self::new(cluster, FIRST, Server::first((FIRST, address), directory, replication)?)
    }

    /// As [`Service::first`], but nobody has said that there is no other cluster at this address: as long as it has nothing, it
    /// makes no database before servers of another had time to look for theirs here. [`Notice::Refused`] tells of these.
    ///
    /// # Errors
    /// As for [`Service::first`].
    pub fn unsure_first(
        cluster: u128,
        directory: Box<dyn Open>,
        address: &str,
        replication: Replication,
    ) -> Result<Self, Error> {
        let mut server = Server::first((FIRST, address), directory, replication)?;
        server.hesitate();
        Self::new(cluster, FIRST, server)
    }

    /// Another server of a cluster that was [met](Cluster::meet), called `name`; others find it at `address`.
    ///
    /// # Errors
    /// What the system says if it gives no more descriptors.
    pub fn other(
        cluster: Cluster,
        name: NodeId,
        directory: Box<dyn Open>,
        address: &str,
    ) -> Result<Self, Error> {
        // What it holds, and no longer holds, it is to hear from the manager itself.
        let map = cluster.map.whereabouts();
        Self::new(cluster.name, name, Server::member((name, address), directory, map))
    }

    fn new(cluster: u128, me: NodeId, server: Server) -> Result<Self, Error> {
        let cluster = ClusterId(cluster);
        let protocol = protocol(cluster);
        let log = SyncLog::of(&server);
        let mut service = fulmar_transport::Server::new(me, protocol, limits(), server, Lsn(0))
            .map_err(|source| Error::io(Path::new("server"), source))?;
        let resolver = Resolver::new().map_err(|source| Error::io(Path::new("server"), source))?;
        // That a name leads nowhere is told as that its server cannot be reached.
        service.directory(move |server: &Server, other| resolver.find(server.address(other)?).ok()?);
        Ok(Self { service, log, cluster })
    }

    /// Accepts connections from this socket as well.
    ///
    /// # Errors
    /// What the system says if the socket cannot be waited for.
    pub fn listen(&mut self, listener: impl Into<Listener>) -> io::Result<()> {
        self.service.listen(listener)
    }

    /// What ends it, from any thread: as soon as others lead what it leads, after a second, or when it is called again.
    pub fn stop(&self) -> impl FnMut() + Send + 'static {
        self.service.handle().retiring(RETIRING, Server::retire)
    }

    /// A way to it from other threads.
    pub fn handle(&self) -> Handle<Server> {
        self.service.handle()
    }

    /// Serves until it is stopped. `report` is told what happens.
    ///
    /// # Errors
    /// [`ServeError`]: a disk has failed, or the system.
    pub fn run(mut self, report: impl FnMut(Report<'_>)) -> Result<(), ServeError> {
        let (handle, calls) = (self.service.handle(), Arc::new(()));
        let mut watcher = Watcher { report, handle, cluster: self.cluster, calls };
        self.service.run(&mut self.log, &mut watcher).map(|_| ())
    }
}

/// A cluster, as one of its servers knows it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its name.
    pub name: u128,
    /// Its servers and databases.
    pub map: Map,
}

impl Cluster {
    /// The cluster of this name, as a server knew it that kept its databases in `directory`, if it did.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`]
    pub fn remembered(name: u128, directory: &mut dyn Open) -> Result<Option<Self>, Error> {
        Ok(remembered(directory)?.map(|map| Self { name, map }))
    }

    /// Writes down where its servers are, for [`Cluster::remembered`].
    ///
    /// # Errors
    /// [`Error::Io`]
    pub fn remember(&self, directory: &mut dyn Open) -> Result<(), Error> {
        let mut servers = Vec::new();
        self.map.whereabouts().encode(&mut servers);
        directory.remember(&servers)
    }

    /// Asks the server `HOST:PORT`.
    ///
    /// # Errors
    /// [`ConnectError`]; a server that does not know its own cluster yet is one that cannot be reached, and says what it waits for.
    pub fn meet(server: &str) -> Result<Self, ConnectError> {
        let met = ask(server, Message::Ask(MapRequest::Newer(0)));
        if let Err(ConnectError::Silent { .. }) = met
            && let Ok((_, Message::Status(status))) = ask(server, Message::Examine)
            && !status.failures.is_empty()
        {
            return Err(ConnectError::Silent { server: server.into(), why: status.failures.join("; ") });
        }
        let ((name, _), maps) = met?;
        match maps {
            Message::Map { map, .. } => Ok(Self { name, map }),
            _ => Err(ConnectError::Silent { server: server.into(), why: "another answer".into() }),
        }
    }

    /// Asks the server `HOST:PORT` which it is, and of which cluster. It may take so long to greet, and no longer.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub fn identify(server: &str, patience: Duration) -> Result<Identity, ConnectError> {
        let (client, server, address) = greet(server, patience)?;
        Ok(Identity { cluster: client.cluster().0, server, address })
    }

    /// The same cluster, as the server `HOST:PORT` knows it now.
    ///
    /// # Errors
    /// [`ConnectError`], also if what is there is of another cluster.
    pub fn now(&self, server: &str) -> Result<Self, ConnectError> {
        let found = Self::meet(server)?;
        self.require(server, found.name)?;
        Ok(found)
    }

    /// Requires that the cluster of the server is this one.
    fn require(&self, server: &str, cluster: u128) -> Result<(), ConnectError> {
        if cluster == self.name {
            return Ok(());
        }
        let (theirs, ours) = (ClusterId(cluster), ClusterId(self.name));
        Err(ConnectError::Stranger { server: server.into(), theirs, ours })
    }

    /// Has the server at `address`, as it stands on the map, hand over all that it holds to the others. That goes on after
    /// this has returned: it is done when the server is no longer on the map.
    ///
    /// # Errors
    /// [`ConnectError`]; [`DrainError`] if there is no such server, or it cannot be drained.
    pub fn drain(&self, address: &str) -> Result<(), DrainError> {
        let Some((server, _)) = self.map.servers.iter().find(|(_, known)| *known == address) else {
            let known: Vec<_> = self.map.servers.values().map(String::as_str).collect();
            return Err(DrainError::Unknown { address: address.into(), known: known.join(", ") });
        };
        self.map.is_spared(*server).map_err(|spared| match spared {
            Spared::Manager => DrainError::Manager(address.into()),
            Spared::Replicas { needed, others } => {
                DrainError::Replicas { address: address.into(), needed, others }
            }
        })?;
        let manager = self.map.servers.get(&self.map.manager).map_or("", String::as_str);
        ask(manager, Message::Ask(MapRequest::Drain(address.into())))?;
        Ok(())
    }

    /// Asks a server of it how it is.
    ///
    /// # Errors
    /// [`ConnectError`], also if what is at its address is another server.
    pub fn examine(&self, server: NodeId) -> Result<Status, ConnectError> {
        let address = self.map.servers.get(&server).map_or("", String::as_str);
        let ((cluster, found), answer) = ask(address, Message::Examine)?;
        self.require(address, cluster)?;
        if found != server {
            return Err(ConnectError::Other { server: address.into(), found });
        }
        match answer {
            Message::Status(status) => Ok(status),
            _ => Err(ConnectError::Silent { server: address.into(), why: "another answer".into() }),
        }
    }
}

/// Which server is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of its cluster.
    pub cluster: u128,
    /// Its own name there.
    pub server: NodeId,
    /// The address, as the system resolved it.
    pub address: Address,
}

/// Why a server is not drained.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// There is none at this address.
    #[error("no server of the cluster is known as {address}; there are {known}")]
    Unknown {
        /// The address.
        address: String,
        /// Those that there are.
        known: String,
    },
    /// It keeps the clock and the map.
    #[error("{0} is the cluster's first server, which keeps its clock and its map: it cannot be drained")]
    Manager(String),
    /// It holds replicas, and there are too few others.
    #[error(
        "{address} holds replicas, each on another of {needed} servers, and without it there are {others}: it can be drained \
         when another has joined"
    )]
    Replicas {
        /// The address.
        address: String,
        /// So many servers hold each row, or the clock and the map.
        needed: usize,
        /// So many there would be.
        others: usize,
    },
    /// The first server cannot be asked.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// A client of the server, which has told its name and that of its cluster, and its address.
fn greet(
    server: &str,
    patience: Duration,
) -> Result<(fulmar_transport::Client<Stranger>, NodeId, Address), ConnectError> {
    let nobody = || io::Error::new(io::ErrorKind::NotFound, "no host of this name is known");
    let unresolved = |why| ConnectError::Resolve { server: server.into(), why };
    let address = resolve(server).ok_or_else(nobody).map_err(unresolved)?;
    let mut client = fulmar_transport::Client::new(protocol(ClusterId::ANY), limits(), Stranger::default());
    let met = client.meet_within(address.clone(), patience)?;
    Ok((client, met, address))
}

/// Asks a server something that it answers strangers too; with the names of its cluster and itself.
fn ask(server: &str, question: Message) -> Result<((u128, NodeId), Message), ConnectError> {
    let (mut client, met, _) = greet(server, GREETING)?;
    let silent = |why| ConnectError::Silent { server: server.into(), why };
    let mut answers = client.request((met, question)).map_err(|why| silent(why.to_string()))?;
    let answer = answers.pop().flatten().ok_or_else(|| silent("no answer".into()))?;
    Ok(((client.cluster().0, met), answer))
}

/// Asks one question, and says what the answer is, if one comes. A server that has just begun may not know one yet: it is asked
/// again.
#[derive(Default)]
struct Stranger(Option<Unanswered>);

struct Unanswered {
    server: NodeId,
    question: Message,
    until: Time,
}

/// How long a server that was met may think about a simple question, and when it is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(100);

impl Process for Stranger {
    type Message = Message;
    type Timer = ();
    type Request = (NodeId, Message);
    type Event = Option<Message>;
    type Record = ();

    fn request(&mut self, now: Time, (server, question): (NodeId, Message), out: &mut Outbox<Self>) {
        self.0 = Some(Unanswered { server, question, until: now + PATIENCE });
        self.expire(now, (), out);
    }

    fn receive(&mut self, _now: Time, _from: NodeId, message: Message, out: &mut Outbox<Self>) {
        if self.0.take().is_some() {
            out.cancel_timer(());
            out.event(Some(message));
        }
    }

    fn expire(&mut self, now: Time, _timer: (), out: &mut Outbox<Self>) {
        match &self.0 {
            Some(Unanswered { server, question, until }) if now < *until => {
                let is_order = matches!(question, Message::Ask(MapRequest::Drain(_)));
                out.send(*server, question.clone());
                out.set_timer((), if is_order { *until } else { now + AGAIN });
            }
            _ => out.event(None),
        }
    }
}

/// A name for a new server, from 1 on; it is improbable that another has it.
///
/// # Errors
/// If the system gives no random numbers.
pub fn new_server() -> io::Result<NodeId> {
    // Names from 2³¹ on are clients'.
    let name = u32::from_le_bytes(chance()?) >> 2;
    Ok(NodeId(name.max(1)))
}

/// A name for a new cluster, which no other has.
///
/// # Errors
/// If the system gives no random numbers.
pub fn new_cluster() -> io::Result<u128> {
    Ok(u128::from_be_bytes(chance()?).max(1))
}

/// What happens to a server that runs.
#[derive(Clone, Copy, Debug)]
pub enum Report<'a> {
    /// To its connections.
    Connection(&'a Notice),
    /// To what it serves, or to its cluster.
    Server(&'a Event),
}

impl Report<'_> {
    /// Which kind of thing happened.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Connection(notice) => notice.kind(),
            Self::Server(event) => event.kind(),
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(notice) => notice.fmt(f),
            Self::Server(event) => event.fmt(f),
        }
    }
}

/// Passes on what happens, and calls servers that are to join.
struct Watcher<R> {
    report: R,
    handle: Handle<Server>,
    cluster: ClusterId,
    /// One more for each call.
    calls: Arc<()>,
}

impl<R: FnMut(Report<'_>)> Watcher<R> {
    fn call(&self, joining: Joining) {
        if Arc::strong_count(&self.calls) > MOST_CALLS {
            return;
        }
        let (handle, cluster, call) = (self.handle.clone(), self.cluster, Arc::clone(&self.calls));
        let call = move || {
            let _under_way = call;
            if is_reached(&joining, cluster) {
                handle.request(joining);
            }
        };
        // Whoever is not called asks again.
        let _ = thread::Builder::new().name("join".into()).spawn(call);
    }
}

impl<R: FnMut(Report<'_>)> User<Server> for Watcher<R> {
    fn event(&mut self, event: Event, _requests: &mut Vec<Joining>) {
        match event {
            Event::Joining(joining) => self.call(joining),
            event => (self.report)(Report::Server(&event)),
        }
    }

    fn notice(&mut self, notice: Notice, _requests: &mut Vec<Joining>) {
        (self.report)(Report::Connection(&notice));
    }
}

/// Whether a server of the cluster answers where it says that it is.
fn is_reached(Joining { server, address }: &Joining, cluster: ClusterId) -> bool {
    let greeted = greet(address, CALL);
    greeted.is_ok_and(|(client, met, _)| met == *server && client.cluster() == cluster)
}
