//! The same in the simulator: each replica has a processor of its own, the network orders multicasts, and a message takes as long
//! to send as to receive, and always the same time. So it tells what the busiest replica allows, as in the paper (section 4.5).

use super::values::{Values, operation};
use super::{Mode, PATIENCE, Run, latencies};
use fulmar_node::{Either, MulticastId, NodeId, Process, Random, Time};
use fulmar_replication::{ClientId, Clients, GroupError, Invoke, Options, Replica};
use fulmar_sim::{Counts, Delay, Link, Sim};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

type Node = Either<Replica<Values>, Clients>;

/// All replicas.
const ALL: MulticastId = MulticastId(0);
/// How long a message is on its way.
pub(crate) const LATENCY: Duration = Duration::from_micros(10);
/// How long a replica has to do with a message that it sends or receives: half of what one replica alone took for an
/// operation of 16 clients when each message was a datagram (`docs/replication.md`).
const MESSAGE: Duration = Duration::from_nanos(3_400);
/// What a message that is overtaken takes longer: some others come in that time if there are some twenty clients.
const LATENESS: Duration = Duration::from_micros(20);
/// In virtual time, until all replicas are in their first view.
const FOUNDING: Duration = Duration::from_millis(1);

/// What is simulated.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) mode: Mode,
    /// An odd number.
    pub(crate) replicas: u32,
    /// Each with one operation at a time, all on nodes that take no time.
    pub(crate) clients: u32,
    /// How the replicas work.
    pub(crate) options: Options,
    /// How long a replica has to do with a message that it sends or receives.
    pub(crate) message: Duration,
    /// How likely others overtake a message to a replica, from 0 to 1.
    pub(crate) reorder: f64,
    /// Virtual time before the measurement…
    pub(crate) warming: Duration,
    /// …and of it.
    pub(crate) length: Duration,
    /// From which all chance comes.
    pub(crate) seed: u64,
}

impl Setting {
    /// Three replicas, and a network that keeps all in order.
    pub(crate) fn of(mode: Mode, clients: u32) -> Self {
        Self {
            mode,
            replicas: 3,
            clients,
            options: mode.options(),
            message: MESSAGE,
            reorder: 0.0,
            warming: Duration::from_millis(20),
            length: Duration::from_millis(50),
            seed: 1,
        }
    }
}

/// Replicas, and clients that are at work.
pub(crate) struct World {
    sim: Sim<Node>,
    users: Users,
    replicas: Vec<NodeId>,
    warming: Duration,
    length: Duration,
}

impl World {
    /// All clients have asked for something.
    pub(crate) fn new(setting: &Setting) -> Result<Self, GroupError> {
        let Setting { clients, message, reorder, warming, length, .. } = *setting;
        let group = setting.mode.group(setting.replicas)?;
        let replicas: Vec<NodeId> = group.nodes().collect();
        let node = NodeId(setting.replicas);
        let names = move || (0..u64::from(clients)).map(ClientId);
        // A checkpoint would take time here that it does not take in the simulator.
        let options = Options { checkpoint: u64::MAX, ..setting.options.clone() };
        let mut sim: Sim<Node> = Sim::new(setting.seed, move |node, _: &[_]| {
            match group.members().iter().find(|member| member.node == node) {
                Some(member) => {
                    let (group, options) = (group.clone(), options.clone());
                    Either::First(Replica::new(*member, group, options, Values::default(), &[]))
                }
                None => Either::Second(Clients::new(names(), &group, PATIENCE).by_multicast(ALL)),
            }
        });
        sim.network.set_members(ALL, replicas.iter().copied());
        sim.network.link.latency = Delay::Fixed(LATENCY);
        let link = Link { reorder, lateness: Delay::Fixed(LATENESS), ..sim.network.link };
        for to in &replicas {
            sim.add(*to);
            sim.set_service(*to, Delay::Fixed(message));
            sim.set_departure(*to, Delay::Fixed(message));
            replicas.iter().chain([&node]).for_each(|from| sim.network.set_link(*from, *to, link));
        }
        sim.add(node);
        sim.run(FOUNDING, |_, _, _| {});
        let random = Random::new(setting.seed);
        let mut users = Users { node, asked: BTreeMap::new(), random, taken: latencies() };
        names().for_each(|client| users.ask(&mut sim, client));
        Ok(Self { sim, users, replicas, warming, length })
    }

    /// What clients see after they have warmed up.
    pub(crate) fn measure(mut self) -> Run {
        self.go_on(self.warming);
        self.users.taken.reset();
        self.go_on(self.length);
        Run::of(self.users.taken, self.length)
    }

    fn go_on(&mut self, span: Duration) {
        let users = &mut self.users;
        self.sim.run(span, |sim, _, event| users.hear(sim, event));
    }

    /// Goes on until so many more operations are answered, or for some seconds in vain.
    pub(crate) fn answer(&mut self, operations: u64) {
        let users = &mut self.users;
        let wanted = users.taken.len() + operations;
        let limit = self.sim.now() + Duration::from_secs(10);
        while users.taken.len() < wanted
            && let Some((_, event)) = self.sim.next_event(limit)
        {
            users.hear(&mut self.sim, event);
        }
    }

    pub(crate) const fn now(&self) -> Time {
        self.sim.now()
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.sim.counts
    }

    /// How many messages each replica has received or sent.
    pub(crate) fn messages(&self) -> impl Iterator<Item = u64> {
        self.replicas.iter().map(|replica| self.sim.messages(*replica))
    }
}

/// Closed-loop clients.
struct Users {
    node: NodeId,
    /// When each has asked last.
    asked: BTreeMap<ClientId, Time>,
    random: Random,
    taken: Histogram<u64>,
}

impl Users {
    fn ask(&mut self, sim: &mut Sim<Node>, client: ClientId) {
        self.asked.insert(client, sim.now());
        let invoke = Invoke::Execute(operation(&mut self.random));
        sim.request(self.node, Either::Second((client, invoke)));
    }

    fn hear(&mut self, sim: &mut Sim<Node>, event: <Node as Process>::Event) {
        let Either::Second((client, _)) = event else { unreachable!("no replica misses anything") };
        let asked = self.asked.get(&client).copied().unwrap_or_default();
        let latency = u64::try_from(sim.now().since(asked).as_nanos()).unwrap_or(u64::MAX);
        self.taken.record(latency).expect("it grows");
        self.ask(sim, client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speculative Paxos, section 4.5.1: the busiest replica has a third of the work, and a client half of the way.
    #[test]
    fn speculation_is_faster_and_spares_the_leader() {
        let run = |mode, clients| World::new(&Setting::of(mode, clients)).expect("three").measure();
        let ratio = |clients| {
            let (ours, theirs) = (run(Mode::Speculative, clients), run(Mode::Viewstamped, clients));
            (ours.rate / theirs.rate, ours.microseconds(50.0) / theirs.microseconds(50.0))
        };
        let ((_, latency), (throughput, _)) = (ratio(1), ratio(64));
        assert!(latency < 0.6, "{latency}");
        assert!((2.6..3.0).contains(&throughput), "{throughput}");
    }
}
