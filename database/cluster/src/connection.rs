//! A client on sockets, on its caller's thread.

use crate::client::{Ask, Client, LIMIT, Reply};
use crate::message::{Answer, Failed, LARGEST_MESSAGE, VERSION};
use crate::name::{BadName, DatabaseName};
use crate::store::{Call, Unreachable};
use fulmar_files::chance_u64;
use fulmar_kv::Interruption;
use fulmar_node::NodeId;
use fulmar_transport::{Address, ClientError, ClusterId, GREETING, Limits, LinkError, MeetError, Protocol};
use std::collections::VecDeque;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longer than a question takes whose answer is in memory, when nobody else asks.
const SPIN: Duration = Duration::from_micros(50);

/// A server that works on one thing for longer, or waits so long for its disk, is taken to be gone: replicas choose another leader.
const BUSY: Duration = Duration::from_secs(5);

/// How long one of several servers may take to greet, and as long to answer, before the next is tried. Who took longer is tried
/// again, with more patience, when the others were of no use: so a machine that is cut off, or has just been, costs its clients
/// little more than this.
const BRIEFLY: Duration = Duration::from_millis(150);

/// The name of the first server of every cluster.
pub const FIRST: NodeId = NodeId(0);

/// One on the same machine, which has no address.
const NEAR: &str = "the process that serves this database";

/// How servers and clients of storage limit each other.
pub(super) fn limits() -> Limits {
    Limits { message: LARGEST_MESSAGE, unsent: 64 << 20, spin: SPIN, busy: BUSY, ..Limits::default() }
}

/// What servers and clients of storage speak, in this cluster.
pub(super) fn protocol(cluster: ClusterId) -> Protocol {
    Protocol { cluster, version: VERSION }
}

/// A server could not be met.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No host of its name is known.
    #[error("{server}: {why}")]
    Resolve {
        /// `HOST:PORT`.
        server: String,
        /// What the system says.
        why: io::Error,
    },
    /// It does not answer.
    #[error("{server}: {why}")]
    Silent {
        /// `HOST:PORT`.
        server: String,
        /// What happened.
        why: String,
    },
    /// No database can be called so.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The system gives no random numbers, of which a client's name is made.
    #[error("the system gives no random numbers: {0}")]
    Chance(#[source] io::Error),
    /// It is of another cluster.
    #[error("{server}: a server of another cluster, {theirs}, and not of {ours}")]
    Stranger {
        /// `HOST:PORT`.
        server: String,
        /// Its cluster.
        theirs: ClusterId,
        /// That of those who look for it.
        ours: ClusterId,
    },
    /// A database is nowhere, and where it is to be made is not clear.
    #[error(
        "{} is a server of cluster {}, and {} of {}: no database is made before all that are named are of one",
        servers.0, clusters.0, servers.1, clusters.1
    )]
    Clusters {
        /// Two of the servers.
        servers: (String, String),
        /// Theirs.
        clusters: (ClusterId, ClusterId),
    },
    /// A database is nowhere as far as is known, and that is not far enough to make it.
    #[error(
        "there is no such database on {asked} of the {named} servers that are named, and the others cannot be asked ({why}): \
         none is made before most of them say so"
    )]
    Few {
        /// So many have said so.
        asked: usize,
        /// Of so many.
        named: usize,
        /// Why another was not asked.
        why: Box<Self>,
    },
    /// Another server of the cluster is there.
    #[error("{server}: another server of the cluster is there, {found}")]
    Other {
        /// `HOST:PORT`.
        server: String,
        /// Which.
        found: NodeId,
    },
    /// It cannot be reached, or is not one of ours.
    #[error(transparent)]
    Meet(#[from] MeetError),
}

/// A connection to a server, for one database.
pub struct Connection {
    client: fulmar_transport::Client<Client>,
    is_interrupted: Option<Interruption>,
    was_interrupted: bool,
}

impl Connection {
    /// A connection to the server `HOST:PORT`, as [`Connection::open`].
    ///
    /// # Errors
    /// [`ConnectError`]; of several addresses, the last one's reason.
    pub fn connect(server: &str, name: &str, create: bool) -> Result<Self, ConnectError> {
        Self::connect_within(server, name, create, GREETING)
    }

    /// As [`Self::connect`], but a server may take so long to greet, and no longer.
    fn connect_within(
        server: &str,
        name: &str,
        create: bool,
        patience: Duration,
    ) -> Result<Self, ConnectError> {
        let resolve = |why| ConnectError::Resolve { server: server.into(), why };
        let mut failure = resolve(io::Error::new(io::ErrorKind::NotFound, "no host of this name is known"));
        for address in server.to_socket_addrs().map_err(resolve)? {
            match Self::open_within(address.into(), name, create, patience) {
                Ok(connection) => return Ok(connection),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    /// A connection to the first of the servers `HOST:PORT` that can be reached and knows the database; if none does and
    /// `create` is set, to the first that can be reached: there it is made.
    ///
    /// A server may stand where one of another cluster was, which has the database. So one that does not know it is not
    /// enough to say that there is none: most of those that are named have to, and be of one cluster.
    ///
    /// An answer may take as long as `limit` says, or a minute; so may all of this, but one of several servers is asked briefly at
    /// least.
    ///
    /// # Errors
    /// [`ConnectError`]; of several, the last one's reason. If the database would be made, [`ConnectError::Clusters`] or
    /// [`ConnectError::Few`].
    pub fn to_any(
        servers: &[String],
        name: &str,
        create: bool,
        limit: Option<Duration>,
    ) -> Result<Self, ConnectError> {
        let limited = |server: &str, create, patience: Duration| {
            let mut connection = Self::connect_within(server, name, create, GREETING.min(patience))?;
            connection.tell(Ask::Limit(limit));
            Ok(connection)
        };
        let all = limit.unwrap_or(LIMIT);
        if let [server] = servers {
            return limited(server, create, all);
        }
        let nobody = io::Error::new(io::ErrorKind::NotFound, "names no server");
        let mut failure = ConnectError::Resolve { server: servers.join(","), why: nobody };
        let mut without: Option<(&String, Self)> = None;
        let mut asked = 0;
        let mut left = all;
        let mut untried: VecDeque<_> = servers.iter().map(|server| (server, BRIEFLY)).collect();
        while let Some((server, patience)) = untried.pop_front() {
            // Enough have said that they do not know it, or all that there is time for was tried.
            if patience > BRIEFLY && (left.is_zero() || 2 * asked > servers.len()) {
                break;
            }
            let patience = patience.min(left.max(BRIEFLY));
            let answer = limited(server, false, patience).and_then(|mut connection| {
                connection.tell(Ask::Limit(Some(patience)));
                let answer = connection.call(Ask::ShardCounts).map_err(|why| silent(server, &why.0))?;
                let silence = matches!(answer, Reply::Silence | Reply::Waiting).then(|| connection.silence());
                connection.tell(Ask::Limit(limit));
                silence.map_or(Ok((connection, answer)), |why| Err(silent(server, &why)))
            });
            match answer {
                Err(why) => {
                    if let Some(most) = may_be_slow(&why) {
                        left = left.saturating_sub(patience.min(most));
                        untried.push_back((server, if patience < GREETING { GREETING } else { all }));
                    }
                    failure = why;
                }
                Ok((connection, Reply::Answer(Answer::Failed(Failed::Missing(_))))) => {
                    asked += 1;
                    match &without {
                        None => without = Some((server, connection)),
                        Some((other, known))
                            if create && known.client.cluster() != connection.client.cluster() =>
                        {
                            return Err(ConnectError::Clusters {
                                servers: (other.to_string(), server.clone()),
                                clusters: (known.client.cluster(), connection.client.cluster()),
                            });
                        }
                        Some(_) => {}
                    }
                }
                // What it fails at, it says when it is used.
                Ok((connection, _)) => return Ok(connection),
            }
        }
        match without {
            Some(_) if create && 2 * asked <= servers.len() => {
                Err(ConnectError::Few { asked, named: servers.len(), why: Box::new(failure) })
            }
            Some((server, _)) if create => limited(server, true, all),
            Some((_, connection)) => Ok(connection),
            None => Err(failure),
        }
    }

    /// A connection to the server at `address`, for the database `name`, which is made if there is none and `create` is
    /// set.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no server, or not one of ours.
    pub fn open(address: Address, name: &str, create: bool) -> Result<Self, ConnectError> {
        Self::open_within(address, name, create, GREETING)
    }

    fn open_within(
        address: Address,
        name: &str,
        create: bool,
        patience: Duration,
    ) -> Result<Self, ConnectError> {
        let process = process(name.try_into()?, create).map_err(ConnectError::Chance)?;
        let mut client = fulmar_transport::Client::new(protocol(ClusterId::ANY), limits(), process);
        client.directory(|process, server| resolve(process.address(server)?));
        let server: NodeId = client.meet_within(address, patience)?;
        client.tell(Ask::Server(server));
        Ok(Self { client, is_interrupted: None, was_interrupted: false })
    }

    /// A connection to a server that may be another each time: whenever there is none, `find` says where it is now, if
    /// anywhere. It is first asked when there is something to ask the server.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn found_by(find: impl Fn() -> Option<Address> + Send + 'static) -> io::Result<Self> {
        let process = process(DatabaseName::of_shared(), false)?;
        let mut client = fulmar_transport::Client::new(protocol(ClusterId::ANY), limits(), process);
        client.directory(move |_, _| find());
        client.tell(Ask::Server(FIRST));
        client.tell(Ask::Limit(None));
        Ok(Self { client, is_interrupted: None, was_interrupted: false })
    }

    /// Connects to the server at `address` now.
    ///
    /// # Errors
    /// [`MeetError`] if there is no server, or not one of ours.
    pub fn meet(&mut self, address: Address) -> Result<(), MeetError> {
        self.client.meet(address).map(|_| ())
    }
}

/// How long a server that may only be slow was waited for at most.
fn may_be_slow(error: &ConnectError) -> Option<Duration> {
    match error {
        ConnectError::Meet(MeetError { why: LinkError::Mute(_), .. }) => Some(GREETING),
        ConnectError::Silent { .. } => Some(Duration::MAX),
        _ => None,
    }
}

fn silent(server: &str, why: &str) -> ConnectError {
    ConnectError::Silent { server: server.into(), why: why.into() }
}

impl Call for Connection {
    #[expect(clippy::disallowed_methods, reason = "people are told how long they have waited")]
    fn call(&mut self, ask: Ask) -> Result<Reply, Unreachable> {
        let unreachable = |error: ClientError| Unreachable(error.to_string());
        let begun = Instant::now();
        self.was_interrupted = false;
        let mut events = self.client.request(ask).map_err(unreachable)?;
        loop {
            match events.pop() {
                Some(Reply::Waiting) => {
                    if let Some(hear) = WAITS.get() {
                        hear(&self.waits(), begun.elapsed());
                    }
                    self.was_interrupted = self.is_interrupted.as_ref().is_some_and(|it| it());
                    events = if self.was_interrupted {
                        self.client.request(Ask::GiveUp)
                    } else {
                        self.client.wait()
                    }
                    .map_err(unreachable)?;
                }
                Some(reply) => return Ok(reply),
                None => return Err(Unreachable("no answer".into())),
            }
        }
    }

    fn silence(&self) -> String {
        if self.was_interrupted {
            return format!("interrupted: {}", self.waits());
        }
        let limit = self.client.process().limit();
        format!("no answer for {limit:?}: {}", self.waits())
    }

    fn heed(&mut self, is_interrupted: Interruption) {
        self.is_interrupted = Some(is_interrupted);
    }

    fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    fn was_sent(&self) -> bool {
        self.client.process().was_sent()
    }

    fn tell(&mut self, ask: Ask) {
        self.client.tell(ask);
    }

    fn round_trips(&self) -> u64 {
        self.client.round_trips()
    }
}

/// A client that no other is called like: not even one in a process that this one forks.
fn process(name: DatabaseName, create: bool) -> io::Result<Client> {
    Ok(Client::new(chance_u64()?, name, create))
}

/// Who hears what connections wait for.
static WAITS: OnceLock<fn(&str, Duration)> = OnceLock::new();

/// From now on `hear` is told whenever an answer takes its time: whose, and why as far as that is known, and for how long. Only the first who
/// asks for that is heard.
pub fn report_waits(hear: fn(&str, Duration)) {
    // Who comes second is not heard.
    let _ = WAITS.set(hear);
}

impl Connection {
    /// What it waits for.
    fn waits(&self) -> String {
        let client = self.client.process();
        let Some(server) = client.waits_for() else { return "no server is known".into() };
        let address = self.address(server);
        let waits = match self.client.fault(server) {
            Some(why) => format!("cannot reach {address}: {why}"),
            None if address == NEAR => format!("{NEAR} does not answer: it is stopped, or busy"),
            None => format!(
                "{address} does not answer: it is stopped, or waits itself for the servers that hold the data with it or keep the \
                 cluster's clock; `fulmar status {address}` tells which are away"
            ),
        };
        match client.told() {
            Some((server, why)) => format!("{waits}; {} says: {why}", self.address(*server)),
            None => waits,
        }
    }

    /// Where a server is, as people write it.
    fn address(&self, server: NodeId) -> String {
        let listens = self.client.process().address(server).map(str::to_owned);
        let address = listens.or_else(|| self.client.known(server).map(ToString::to_string));
        match address {
            Some(address) if address.is_empty() => NEAR.into(),
            Some(address) => address,
            None => format!("server {server}"),
        }
    }
}

/// Where databases are served if no port is said.
pub const PORT: u16 = 7400;

/// The `HOST:PORT` that is meant by this, with [`PORT`] for `HOST` alone, whatever that stands for; nothing, if it is neither.
///
/// ```
/// use fulmar_cluster::with_port;
///
/// assert_eq!(with_port("db1.example").as_deref(), Some("db1.example:7400"));
/// assert_eq!(with_port("[::1]:7401").as_deref(), Some("[::1]:7401"));
/// assert_eq!(with_port("db1.example:eggs"), None);
/// ```
#[must_use]
pub fn with_port(text: &str) -> Option<String> {
    let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    if text.rsplit_once(':').is_some_and(has_port) {
        return Some(text.into());
    }
    // Brackets tell the colons of IPv6 from the one before a port.
    let is_host = !text.contains([':', '/']) || text.starts_with('[') && text.ends_with(']');
    (is_host && !text.is_empty()).then(|| format!("{text}:{PORT}"))
}

/// Where a name leads, the first place of several.
pub(super) fn resolve(address: &str) -> Option<Address> {
    address.to_socket_addrs().ok()?.next().map(Into::into)
}
