//! Speculative Paxos on a real network: replicas and clients on hosts of their own, requests by IP multicast.

mod network;

use fulmar_node::{Lsn, MulticastId, NodeId, Process};
use fulmar_replication::applications::Timestamps;
use fulmar_replication::{
    ClientId, Clients, Group, Invoke, Message, Options, Outcome, Protocol, Replica, SequenceNumber,
    StateMachine as _, Summary,
};
use fulmar_transport::{ClusterId, Datagrams, Handle, Limits, Server, User};
use network::{Host, Network};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;
use std::time::Duration;

const REPLICAS: u8 = 3;
const CLIENTS: u64 = 4;
/// Of all clients.
const OPERATIONS: u64 = 2_000;
const PROTOCOL: fulmar_transport::Protocol = fulmar_transport::Protocol { cluster: ClusterId(8), version: 1 };
const PORT: u16 = 7_000;
/// All replicas, and their address.
const ALL: MulticastId = MulticastId(0);
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 8), PORT + 1);
/// Longer than a busy machine keeps a thread waiting.
const PATIENCE: Duration = Duration::from_millis(500);
/// So long all operations may take.
const STUCK: Duration = Duration::from_secs(60);

/// Takes a timestamp for a client whenever it has got one.
struct Taker {
    asked: u64,
    taken: BTreeMap<ClientId, Vec<u64>>,
    done: Sender<BTreeMap<ClientId, Vec<u64>>>,
}

fn take() -> Invoke {
    Invoke::Execute(Timestamps::take(1).as_slice().into())
}

impl User<Clients> for Taker {
    fn event(&mut self, (client, outcome): (ClientId, Outcome), requests: &mut Vec<(ClientId, Invoke)>) {
        let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
        self.taken.entry(client).or_default().push(Timestamps::first(&result).expect("a timestamp"));
        if self.asked < OPERATIONS {
            self.asked += 1;
            requests.push((client, take()));
        } else if self.taken.values().map(Vec::len).sum::<usize>() as u64 == OPERATIONS {
            self.done.send(std::mem::take(&mut self.taken)).expect("the test waits");
        }
    }
}

/// A process on a thread, which ends with this value, also when the test fails.
struct Running<P: Process>(Handle<P>);

impl<P: Process> Drop for Running<P> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs a process on a host.
fn serve<'s, P>(
    scope: &'s Scope<'s, '_>,
    (hosts, node): (&'s [Host], NodeId),
    process: P,
    mut user: impl User<P> + Send + 's,
) -> Running<P>
where
    P: Process<Message = Message, Timer: Send, Request: Send, Event: Send, Record: Send> + Send + 's,
{
    let (tell, told) = channel();
    scope.spawn(move || {
        let host = &hosts[node.0 as usize];
        host.namespace.enter();
        let socket = UdpSocket::bind((host.address, PORT)).expect("a host of our own");
        let mut datagrams = Datagrams::new(socket).expect("a socket");
        if node.0 < REPLICAS.into() {
            datagrams.join(ADDRESS, host.address).expect("it joins");
        } else {
            datagrams.group(ALL, ADDRESS, host.address, 1).expect("a group");
        }
        let listener = TcpListener::bind((host.address, PORT)).expect("a host of our own");
        let mut server = Server::new(node, PROTOCOL, Limits::default(), process, Lsn(0)).expect("a server");
        for (other, host) in (0..).map(NodeId).zip(hosts).filter(|(other, _)| *other != node) {
            let address = SocketAddrV4::new(host.address, PORT).into();
            datagrams.address(other, address);
            server.address(other, address.into());
        }
        server.datagrams(datagrams).expect("sockets");
        server.group(ALL, (0..REPLICAS.into()).map(NodeId));
        server.listen(listener).expect("it listens");
        tell.send(server.handle()).expect("who has started it waits");
        server.run(&mut (), &mut user).map(drop).expect("nothing fails");
    });
    Running(told.recv().expect("it starts"))
}

/// What a replica has committed: how far, what its log is up to there, and its state.
type State = (SequenceNumber, Option<Summary>, Vec<u8>);

fn state(Running(replica): &Running<Replica<Timestamps>>) -> State {
    let look = |replica: &Replica<Timestamps>, _| {
        let (at, log) = (replica.committed(), replica.log());
        (at, log.summary(at), replica.state_machine().snapshot())
    };
    replica.ask(look).expect("it runs")
}

#[test]
fn requests_reach_replicas_on_other_hosts_by_multicast() {
    let network = match Network::new() {
        Ok(network) => network,
        Err(why) if std::env::var_os("CI").is_none() => {
            return eprintln!("skipped, as there can be no network namespaces here: {why}");
        }
        Err(why) => panic!("{why}"),
    };
    let hosts: Vec<Host> = (0..=REPLICAS).map(|n| network.host(n + 1).expect("a host")).collect();
    let group = Group::new((0..REPLICAS.into()).map(NodeId), Protocol::Speculative).expect("three");
    let options =
        Options { is_durable: false, patience: PATIENCE, heartbeat: PATIENCE / 5, ..Options::default() };
    let (taken, states, client) = std::thread::scope(|scope| {
        let replicas: Vec<_> = group
            .members()
            .iter()
            .map(|member| {
                let replica =
                    Replica::new(*member, group.clone(), options.clone(), Timestamps::default(), &[]);
                serve(scope, (&hosts, member.node), replica, ())
            })
            .collect();
        let names = || (0..CLIENTS).map(ClientId);
        let (done, all_taken) = channel();
        let clients = serve(
            scope,
            (&hosts, NodeId(REPLICAS.into())),
            Clients::new(names(), &group, PATIENCE).by_multicast(ALL),
            Taker { asked: CLIENTS, taken: BTreeMap::new(), done },
        );
        names().for_each(|name| assert!(clients.0.request((name, take()))));
        let taken = all_taken.recv_timeout(STUCK).expect("all are answered");
        // The leader tells the others with its next sign what is committed; what was asked for twice may stand in the log after all else.
        let mut states: Vec<State> = replicas.iter().map(state).collect();
        while states.iter().any(|(at, ..)| at.0 < OPERATIONS || *at != states[0].0) {
            states = replicas.iter().map(state).collect();
        }
        (taken, states, clients.0.counters().expect("it runs"))
    });

    for of_client in taken.values() {
        assert!(of_client.is_sorted(), "a client's timestamps grow: {of_client:?}");
    }
    let mut all: Vec<u64> = taken.into_values().flatten().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=OPERATIONS), "each timestamp is given once");
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    assert_eq!(Timestamps::first(&states[0].2), Some(OPERATIONS));

    // One message for all replicas, but for what was lost and had to be asked for again.
    assert!(client.messages_sent < OPERATIONS * 3 / 2, "{client:?}");
    let counts: Vec<(u64, u64)> = hosts.iter().map(Host::multicasts).collect();
    let (at_replicas, at_clients) = counts.split_at(REPLICAS.into());
    let sent: u64 = at_clients.iter().map(|(_, sent)| sent).sum();
    // A datagram has at most a request of each client.
    assert!(sent >= OPERATIONS / CLIENTS, "{counts:?}");
    assert!(at_replicas.iter().all(|(received, _)| *received >= sent * 9 / 10), "{counts:?}");
}
