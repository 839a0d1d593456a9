//! A replica as a server.

use crate::directory::{DirectoryError, ReplicaDirectory};
use crate::report::Reporter;
use crate::{Application, Charter, ticker};
use fulmar_node::{Lsn, NodeId};
use fulmar_replication::applications::{Locks, Timestamps};
use fulmar_replication::{
    Event, Group, GroupError, LeaderTimeout, Options, Replica, SequenceNumber, StateMachine, View, Wish,
};
use fulmar_transport::{Counters, Handle, Limits, Notice, Protocol, ServeError, User};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What replicas and clients of services speak.
const VERSION: u32 = 6;

pub(crate) fn protocol(charter: &Charter) -> Protocol {
    Protocol { cluster: charter.cluster(), version: VERSION }
}

/// A replica that works on one thing for longer, or waits so long for its disk, is taken to be gone.
const BUSY: Duration = Duration::from_secs(5);

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
    Directory(#[from] DirectoryError),
    /// The system does not let it begin.
    #[error("cannot begin to serve: {0}")]
    Begin(#[source] io::Error),
    /// Its disk has failed, or the system.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Ends a server, from any thread: as soon as another leads its group, after a second, or when it is called again.
pub type Stop = Box<dyn FnMut() + Send>;

/// How a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// In which view it takes part; none while it changes views, or is not let in yet.
    pub view: Option<View>,
    /// Whether it leads that.
    pub leads: bool,
    /// Operations that it knows to be committed.
    pub committed: SequenceNumber,
    /// What its connections have carried.
    pub traffic: Counters,
}

/// A server that is about to serve.
pub struct Begun {
    /// Ends it.
    pub stop: Stop,
    /// Says how its replica is, from any thread; nothing, if it has ended.
    pub status: Box<dyn Fn() -> Option<ReplicaStatus> + Send>,
}

/// So long a server that is to end waits for another to lead.
const RETIRING: Duration = Duration::from_secs(1);

/// A replica of a service. [`Server::run`] is one thread's work.
pub struct Server {
    charter: Charter,
    group: Group,
    me: NodeId,
    directory: ReplicaDirectory,
    leader_timeout: LeaderTimeout,
    reporter: Arc<Reporter>,
}

impl Server {
    /// The replica at `address`, which keeps its records in `directory`. If that is new the replica founds its group, or joins it as
    /// one that was never there. It goes by this time-out for leaders. `tell` is told what happens, and before that of which kind it is, such as
    /// `view` or `unreachable`.
    ///
    /// # Errors
    /// [`ServerError`]
    pub fn open(
        charter: Charter,
        address: &str,
        directory: &Path,
        founds: bool,
        leader_timeout: LeaderTimeout,
        tell: impl Fn(&'static str, &str) + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let group = charter.group()?;
        let me = charter.members.node(address).ok_or_else(|| ServerError::NoMember {
            address: address.into(),
            members: charter.members.to_string(),
        })?;
        let opened = ReplicaDirectory::open(directory, &charter, me, founds)?;
        let reporter = Reporter::new(charter.members.clone(), tell).map_err(ServerError::Begin)?;
        if opened.is_strange() {
            let directory = directory.display();
            let waits = format!(
                "{directory} is empty: waiting for a majority of the group to let this replica in; a group that is \
                 new is founded with `--found`, on an empty directory"
            );
            reporter.tell("joining", &waits);
        }
        Ok(Self { charter, group, me, directory: opened, leader_timeout, reporter: Arc::new(reporter) })
    }

    /// Serves until it is stopped in the way that `begun` is told of.
    ///
    /// # Errors
    /// [`ServerError`]
    pub fn run(
        self,
        listener: TcpListener,
        begun: impl FnOnce(Begun) -> io::Result<()>,
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
        begun: impl FnOnce(Begun) -> io::Result<()>,
        assist: impl FnOnce(Handle<Replica<S>>),
    ) -> Result<(), ServerError> {
        let ReplicaDirectory { member, journal, records, .. } = &mut self.directory;
        let options = Options { is_fixed: true, ..self.leader_timeout.options() };
        let group = self.group.clone();
        let replica = Replica::new(*member, self.group, options, S::default(), records);
        let (logged, protocol) = (Lsn(records.len() as u64), protocol(&self.charter));
        *records = Vec::new();
        let limits = Limits { busy: BUSY, ..Limits::default() };
        let server = fulmar_transport::Server::new(self.me, protocol, limits, replica, logged);
        let mut server = server.map_err(ServerError::Begin)?;
        let reporter = self.reporter.clone();
        server.directory(move |_, node| reporter.resolve(node));
        server.listen(listener).map_err(ServerError::Begin)?;
        let handle = server.handle();
        let stop = Box::new(server.handle().retiring(RETIRING, Replica::retire));
        begun(Begun { stop, status: Box::new(move || status(&handle)) }).map_err(ServerError::Begin)?;
        assist(server.handle());
        server.run(journal, &mut Ear(&self.reporter, group))?;
        Ok(())
    }
}

fn status<S: StateMachine + Send + 'static>(replica: &Handle<Replica<S>>) -> Option<ReplicaStatus> {
    let traffic = replica.counters()?;
    replica.ask(move |replica, _| {
        let (view, leads, committed) = (replica.view(), replica.leads(), replica.committed());
        ReplicaStatus { view, leads, committed, traffic }
    })
}

/// Hears what happens to connections, and who leads. The group of a service never changes.
struct Ear<'r>(&'r Reporter, Group);

impl<S: StateMachine> User<Replica<S>> for Ear<'_> {
    fn event(&mut self, event: Event, _wishes: &mut Vec<Wish>) {
        if let Event::View(view) = event {
            self.0.view(view, self.1.leader(view));
        }
    }

    fn notice(&mut self, notice: Notice, _wishes: &mut Vec<Wish>) {
        self.0.notice(&notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Members, TimestampClient};
    use std::num::NonZeroU64;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Longer than a replica waits for a leader of which it hears nothing.
    const HANGING: Duration = Duration::from_millis(2_500);

    struct Running {
        replica: Handle<Replica<Timestamps>>,
        thread: thread::JoinHandle<()>,
    }

    impl Running {
        fn start(server: Server, listener: TcpListener) -> Self {
            let (tell, told) = channel();
            let run = move || {
                server.replicate(listener, |_| Ok(()), |replica| tell.send(replica).expect("it waits"))
            };
            let thread = thread::spawn(|| run().expect("its disk works"));
            Self { replica: told.recv().expect("it begins"), thread }
        }

        fn look<T: Send + 'static>(&self, look: fn(&Replica<Timestamps>) -> T) -> T {
            self.replica.ask(move |replica, _| look(replica)).expect("it runs")
        }

        fn view(&self) -> Option<View> {
            self.look(Replica::view)
        }
    }

    #[test]
    fn a_leader_whose_disk_hangs_leads_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let addresses =
            listeners.each_ref().map(|listener| listener.local_addr().expect("bound").to_string());
        let members = Members::new(addresses.iter().map(String::as_str)).expect("three");
        let (application, protocol) = (Application::Timestamps, fulmar_replication::Protocol::Viewstamped);
        let charter = Charter { application, members, protocol };
        let leader_timeout = LeaderTimeout::new(Duration::from_secs(1)).expect("in range");
        let running: Vec<_> = addresses
            .iter()
            .zip(listeners)
            .map(|(address, listener)| {
                let data = directory.path().join(address);
                let server = Server::open(charter.clone(), address, &data, true, leader_timeout, |_, _| ());
                Running::start(server.expect("a directory"), listener)
            })
            .collect();
        let mut client = TimestampClient::new(&charter).expect("they answer");
        let one = NonZeroU64::MIN;
        client.draw(one).expect("they answer");
        let leader = running.iter().find(|replica| replica.look(Replica::leads)).expect("one has answered");
        let view = leader.view();
        // As long as a turn lasts the process can say nothing, whatever it waits for.
        let (_let_go, hangs): (Sender<()>, Receiver<()>) = channel();
        leader.replica.run(move |_, _, _| _ = hangs.recv_timeout(HANGING));
        client.draw(one).expect("they answer");
        assert!(running.iter().all(|replica| replica.view() == view));
        for Running { replica, thread } in running {
            replica.stop();
            thread.join().expect("it ends well");
        }
    }
}
