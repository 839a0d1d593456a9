//! A replica as a server.

use crate::home::{Home, HomeError};
use crate::report::Reporter;
use crate::{Application, Charter, ticker};
use fulmar_node::{Lsn, NodeId};
use fulmar_replication::applications::{Locks, Timestamps};
use fulmar_replication::{Behind, Group, GroupError, LeaderTimeout, Replica, StateMachine, Wish};
use fulmar_transport::{Handle, Limits, Notice, Protocol, ServeError, User};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What replicas and clients of services speak.
const VERSION: u32 = 3;

pub(crate) fn protocol(charter: &Charter) -> Protocol {
    Protocol { cluster: charter.cluster(), version: VERSION }
}

/// A replica that cannot be, or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It is none of the group's.
    #[error("{address} is not among the members: {members}")]
    NoMember {
        /// Where it would be.
        address: String,
        /// Those who are.
        members: String,
    },
    /// There is no such group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Its directory is not fit for it.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The system does not let it begin.
    #[error("cannot begin to serve: {0}")]
    Begin(#[source] io::Error),
    /// Its disk has failed, or the system.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Ends a server, from any thread: as soon as another leads its group, after a second, or when it is called again.
pub type Stop = Box<dyn FnMut() + Send>;

/// So long a server that is to end waits for another to lead.
const RETIRING: Duration = Duration::from_secs(1);

/// A replica of a service. [`Server::run`] is one thread's work.
pub struct Server {
    charter: Charter,
    group: Group,
    me: NodeId,
    home: Home,
    leader_timeout: LeaderTimeout,
    reporter: Arc<Reporter>,
}

impl Server {
    /// The replica at `address`, which keeps its records in `directory`. If that is new the replica founds its group, or joins it as
    /// one that was never there. It goes by this time-out for leaders. `tell` is told what happens to others.
    ///
    /// # Errors
    /// [`ServerError`]
    pub fn open(
        charter: Charter,
        address: &str,
        directory: &Path,
        founds: bool,
        leader_timeout: LeaderTimeout,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let group = charter.group()?;
        let me = charter.members.node(address).ok_or_else(|| ServerError::NoMember {
            address: address.into(),
            members: charter.members.to_string(),
        })?;
        let home = Home::open(directory, &charter, me, founds)?;
        let reporter = Reporter::new(charter.members.clone(), tell);
        if home.is_strange() {
            let directory = directory.display();
            reporter.tell(&format!(
                "{directory} is empty: waiting for a majority of the group to let this replica in; a group that is \
                 new is founded with `--found`, on an empty directory"
            ));
        }
        Ok(Self { charter, group, me, home, leader_timeout, reporter: Arc::new(reporter) })
    }

    /// Serves until it is stopped in the way that `begun` is told.
    ///
    /// # Errors
    /// [`ServerError`]
    pub fn run(
        self,
        listener: TcpListener,
        begun: impl FnOnce(Stop) -> io::Result<()>,
    ) -> Result<(), ServerError> {
        match self.charter.application {
            Application::Timestamps => self.replicate::<Timestamps>(listener, begun, |_| ()),
            Application::Locks => {
                let (charter, reporter) = (self.charter.clone(), self.reporter.clone());
                self.replicate::<Locks>(listener, begun, |replica| {
                    thread::spawn(move || ticker::run(&replica, &charter, &reporter));
                })
            }
        }
    }

    fn replicate<S: StateMachine + Default + Send + 'static>(
        mut self,
        listener: TcpListener,
        begun: impl FnOnce(Stop) -> io::Result<()>,
        assist: impl FnOnce(Handle<Replica<S>>),
    ) -> Result<(), ServerError> {
        let Home { member, journal, records, .. } = &mut self.home;
        let options = self.leader_timeout.options();
        let replica = Replica::new(*member, self.group, options, S::default(), records);
        let (logged, protocol) = (Lsn(records.len() as u64), protocol(&self.charter));
        *records = Vec::new();
        let server = fulmar_transport::Server::new(self.me, protocol, Limits::default(), replica, logged);
        let mut server = server.map_err(ServerError::Begin)?;
        let reporter = self.reporter.clone();
        server.directory(move |_, node| reporter.resolve(node));
        server.listen(listener).map_err(ServerError::Begin)?;
        begun(Box::new(server.handle().retiring(RETIRING, Replica::retire))).map_err(ServerError::Begin)?;
        assist(server.handle());
        server.run(journal, &mut Ear(&self.reporter))?;
        Ok(())
    }
}

/// Hears what happens to connections.
struct Ear<'r>(&'r Reporter);

impl<S: StateMachine> User<Replica<S>> for Ear<'_> {
    fn event(&mut self, _behind: Behind, _wishes: &mut Vec<Wish>) {}

    fn notice(&mut self, notice: Notice, _wishes: &mut Vec<Wish>) {
        self.0.notice(&notice);
    }
}
