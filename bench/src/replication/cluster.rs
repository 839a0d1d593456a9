//! Replicas on loopback UDP, each on a thread of its own, and one more thread for all clients.

use super::values::{Values, operation};
use super::{Mode, PATIENCE, Run, latencies};
use fulmar_node::{Lsn, MulticastId, NodeId, Process, Random};
use fulmar_replication::{ClientId, Clients, Group, Invoke, Message, Options, Outcome, Replica};
use fulmar_transport::{ClusterId, Datagrams, Disturbance, Handle, Limits, Server, User};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const PROTOCOL: fulmar_transport::Protocol = fulmar_transport::Protocol { cluster: ClusterId(4), version: 1 };
/// Operations before the clock starts.
const WARMING: u32 = 200;
/// All replicas.
const ALL: MulticastId = MulticastId(0);
/// So long an answer may take before it is taken for one that will never come.
const STUCK: Duration = Duration::from_secs(30);

/// Asks for a client's next operation when one is answered, and looks at the clock.
struct Asker {
    random: Random,
    length: Duration,
    warming: u32,
    begun: Instant,
    /// When each client has asked last.
    asked: BTreeMap<ClientId, Instant>,
    taken: Histogram<u64>,
    done: Sender<Run>,
}

impl Asker {
    fn next(&mut self) -> Invoke {
        Invoke::Execute(operation(&mut self.random))
    }
}

impl User<Clients> for Asker {
    fn event(&mut self, (client, _): (ClientId, Outcome), requests: &mut Vec<(ClientId, Invoke)>) {
        let now = Instant::now();
        let asked = self.asked.insert(client, now);
        if self.warming > 0 {
            self.warming -= 1;
            self.begun = now;
        } else if let Some(asked) = asked {
            self.taken.record(u64::try_from((now - asked).as_nanos()).unwrap_or(u64::MAX)).expect("it grows");
        }
        let time = now - self.begun;
        if time < self.length {
            requests.push((client, self.next()));
        } else {
            // Who is told first has all of them.
            let _ = self.done.send(Run::of(self.taken.clone(), time));
        }
    }
}

/// Where everybody is reached: by datagrams, and by streams for what does not fit.
pub(crate) struct Cluster {
    group: Group,
    options: Options,
    /// What is done to datagrams for replicas.
    disturbance: Disturbance,
    /// The address of all replicas.
    all: SocketAddrV4,
    datagrams: BTreeMap<NodeId, SocketAddr>,
    streams: BTreeMap<NodeId, SocketAddr>,
}

type Sockets = (UdpSocket, TcpListener);

type Running<'s, P> = (Handle<P>, ScopedJoinHandle<'s, io::Result<()>>);

impl Cluster {
    /// So many clients ask for one operation after the other for so long, while this is done to datagrams for replicas.
    pub(crate) fn run(
        mode: Mode,
        clients: u32,
        length: Duration,
        disturbance: Disturbance,
    ) -> io::Result<Run> {
        let (group, options) = (mode.group(3).map_err(io::Error::other)?, mode.options());
        let replicas = u32::try_from(group.members().len()).map_err(io::Error::other)?;
        // A port that nobody else has, so that another run's multicasts do not come here.
        let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        let all = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 4), port);
        let mut cluster =
            Self { group, options, disturbance, all, datagrams: BTreeMap::new(), streams: BTreeMap::new() };
        let mut sockets = BTreeMap::new();
        for node in (0..=replicas).map(NodeId) {
            let (socket, listener) = (UdpSocket::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
            cluster.datagrams.insert(node, socket.local_addr()?);
            cluster.streams.insert(node, listener.local_addr()?);
            sockets.insert(node, (socket, listener));
        }
        cluster.measure(sockets, clients, length)
    }

    fn measure(&self, sockets: BTreeMap<NodeId, Sockets>, clients: u32, length: Duration) -> io::Result<Run> {
        std::thread::scope(|scope| {
            let (done, runs) = channel();
            let names = || (0..u64::from(clients)).map(ClientId);
            let (mut replicas, mut users) = (Vec::new(), Vec::new());
            for (node, sockets) in sockets {
                if let Some(member) = self.group.members().iter().find(|member| member.node == node) {
                    let (group, options) = (self.group.clone(), self.options.clone());
                    let replica = Replica::new(*member, group, options, Values::default(), &[]);
                    replicas.push(self.serve(scope, node, sockets, replica, ())?);
                } else {
                    let asker = Asker {
                        random: Random::new(1),
                        length,
                        warming: WARMING,
                        begun: Instant::now(),
                        asked: BTreeMap::new(),
                        taken: latencies(),
                        done: done.clone(),
                    };
                    let process = Clients::new(names(), &self.group, PATIENCE).by_multicast(ALL);
                    users.push(self.serve(scope, node, sockets, process, asker)?);
                }
            }
            for ((user, _), name) in users.iter().flat_map(|user| names().map(move |name| (user, name))) {
                user.request((name, Invoke::Execute(operation(&mut Random::new(0)))));
            }
            let run = runs.recv_timeout(length + STUCK);
            replicas.iter().for_each(|(handle, _)| handle.stop());
            users.iter().for_each(|(handle, _)| handle.stop());
            let threads = replicas.into_iter().map(|running| running.1);
            for thread in threads.chain(users.into_iter().map(|running| running.1)) {
                thread.join().map_err(|_| io::Error::other("a process panicked"))??;
            }
            run.map_err(|_| io::Error::other("no client was answered for a long time"))
        })
    }

    /// A process on a thread.
    fn serve<'s, P>(
        &self,
        scope: &'s Scope<'s, '_>,
        node: NodeId,
        (socket, listener): Sockets,
        process: P,
        mut user: impl User<P> + Send + 's,
    ) -> io::Result<Running<'s, P>>
    where
        P: Process<Message = Message, Timer: Send, Request: Send, Event: Send, Record: Send> + Send + 's,
    {
        let mut datagrams = Datagrams::new(socket)?;
        if self.group.contains(node) {
            datagrams.join(self.all, Ipv4Addr::LOCALHOST)?;
            let random = Random::new(node.0.into());
            datagrams.disturb(Disturbance { random, ..self.disturbance.clone() });
        } else {
            datagrams.group(ALL, self.all, Ipv4Addr::LOCALHOST, 0)?;
        }
        for (other, address) in self.datagrams.iter().filter(|(other, _)| **other != node) {
            datagrams.address(*other, *address);
        }
        let mut server = Server::new(node, PROTOCOL, Limits::default(), process, Lsn(0))?;
        server.datagrams(datagrams)?;
        server.group(ALL, self.group.nodes());
        server.listen(listener)?;
        for (other, address) in &self.streams {
            server.address(*other, (*address).into());
        }
        let handle = server.handle();
        let run = move || server.run(&mut (), &mut user).map(drop).map_err(io::Error::other);
        Ok((handle, scope.spawn(run)))
    }
}
