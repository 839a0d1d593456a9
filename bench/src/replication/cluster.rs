//! Replicas on loopback UDP, each on a thread of its own, and one more thread for all clients.

use super::{Mode, Run, latencies};
use fulmar_node::{Lsn, MulticastId, NodeId, Process, Random};
use fulmar_replication::{
    ClientId, Clients, Group, Invoke, Message, Operation, Options, Outcome, Protocol, Replica,
    SequenceNumber, StateMachine,
};
use fulmar_transport::{ClusterId, Datagrams, Disturbance, Handle, Limits, Server, User};
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const PROTOCOL: fulmar_transport::Protocol = fulmar_transport::Protocol { cluster: ClusterId(4), version: 1 };
/// As many as there are of different keys.
const KEYS: u64 = 10_000;
const VALUE: usize = 64;
/// Operations before the clock starts.
const WARMING: u32 = 200;
/// All replicas.
const ALL: MulticastId = MulticastId(0);
/// Longer than a thread that can run is kept waiting.
const PATIENCE: Duration = Duration::from_millis(200);
/// So long an answer may take before it is taken for one that will never come.
const STUCK: Duration = Duration::from_secs(30);

type Key = [u8; 8];

/// Values by key.
#[derive(Default)]
pub(super) struct Values {
    values: HashMap<Key, Box<[u8]>>,
    replaced: VecDeque<Replaced>,
}

/// What an operation that may be rolled back has replaced.
struct Replaced {
    by: SequenceNumber,
    key: Key,
    value: Option<Box<[u8]>>,
}

impl StateMachine for Values {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        if let Some((key, value)) = operation.split_first_chunk() {
            let before = self.values.insert(*key, value.into());
            self.replaced.push_back(Replaced { by: number, key: *key, value: before });
        }
        Vec::new()
    }

    fn rollback(&mut self, from: SequenceNumber) {
        while let Some(Replaced { key, value, .. }) = self.replaced.pop_back_if(|last| last.by >= from) {
            match value {
                Some(value) => self.values.insert(key, value),
                None => self.values.remove(&key),
            };
        }
    }

    fn commit(&mut self, upto: SequenceNumber) {
        while self.replaced.pop_front_if(|first| first.by <= upto).is_some() {}
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let key: Option<Key> = operation.try_into().ok();
        key.and_then(|key| self.values.get(&key)).map_or_else(Vec::new, |value| value.to_vec())
    }

    fn snapshot(&self) -> Vec<u8> {
        self.values.iter().flat_map(|(key, value)| key.iter().chain(value).copied()).collect()
    }

    fn restore(&mut self, _at: SequenceNumber, snapshot: &[u8]) {
        let pairs =
            snapshot.as_chunks::<{ 8 + VALUE }>().0.iter().filter_map(|pair| pair.split_first_chunk());
        self.values = pairs.map(|(key, value)| (*key, value.into())).collect();
        self.replaced.clear();
    }
}

/// Puts a value under any of the keys.
pub(super) fn operation(random: &mut Random) -> Operation {
    let mut operation = [0; 8 + VALUE];
    operation[..8].copy_from_slice(&random.below(KEYS).to_be_bytes());
    operation.as_slice().into()
}

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
pub(super) struct Cluster {
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
    /// So many clients ask for one operation after the other for so long.
    pub(super) fn run(mode: Mode, clients: u32, measured: &super::Options) -> io::Result<Run> {
        let (replicas, protocol) = match mode {
            Mode::Unreplicated => (1, Protocol::Viewstamped),
            Mode::Viewstamped | Mode::Batching => (3, Protocol::Viewstamped),
            Mode::Fast => (3, Protocol::Fast),
            Mode::Speculative => (3, Protocol::Speculative),
        };
        let (batch, window) = if mode == Mode::Batching { (64, 2) } else { (1, usize::MAX) };
        let options = Options {
            is_durable: false,
            patience: PATIENCE,
            heartbeat: PATIENCE / 5,
            batch,
            window,
            ..Options::default()
        };
        let group = Group::new((0..replicas).map(NodeId), protocol).map_err(io::Error::other)?;
        // A port that nobody else has, so that another run's multicasts do not come here.
        let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        let all = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 4), port);
        let disturbance =
            Disturbance { drop: measured.drop, reorder: measured.reorder, random: Random::new(2) };
        let mut cluster =
            Self { group, options, disturbance, all, datagrams: BTreeMap::new(), streams: BTreeMap::new() };
        let mut sockets = BTreeMap::new();
        for node in (0..=replicas).map(NodeId) {
            let (socket, listener) = (UdpSocket::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
            cluster.datagrams.insert(node, socket.local_addr()?);
            cluster.streams.insert(node, listener.local_addr()?);
            sockets.insert(node, (socket, listener));
        }
        cluster.measure(sockets, clients, measured.length)
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
                user.request((name, Invoke::Execute([0; 8 + VALUE].as_slice().into())));
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
