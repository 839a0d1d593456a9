//! The same in the simulator: each replica has a processor of its own, the network orders multicasts, and a message takes as long
//! to send as to receive, and always the same time. So it tells what the busiest replica allows, as in the paper (section 6).

use super::cluster::{Values, operation};
use fulmar_node::{Either, MulticastId, NodeId, Random, Time};
use fulmar_replication::{ClientId, Clients, Group, GroupError, Invoke, Message, Options, Protocol, Replica};
use fulmar_sim::{Delay, Sim};
use std::collections::BTreeMap;
use std::time::Duration;

type Node = Either<Replica<Values>, Clients>;

/// All replicas.
const ALL: MulticastId = MulticastId(0);
const REPLICAS: u32 = 3;
/// How long a message is on its way.
const LATENCY: Duration = Duration::from_micros(10);
/// How long a replica has to do with a message that it sends or receives: half of what one replica alone takes for an
/// operation (`docs/replication.md`, 16 clients).
const MESSAGE: Duration = Duration::from_nanos(3_400);
/// Of virtual time.
const WARMING: Duration = Duration::from_millis(5);
const LENGTH: Duration = Duration::from_millis(50);

/// What came of a simulated run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simulated {
    pub(super) operations_per_second: f64,
    /// On average.
    pub(super) latency: Duration,
}

/// How many messages a replica has to do with because it has received this one: that, and what it sends then.
fn messages(protocol: Protocol, replicas: f64, synchronize: f64, message: &Message) -> f64 {
    match (protocol, message) {
        (Protocol::Viewstamped, Message::Request { .. }) => replicas,
        // Of the answers to a leader one makes it reply.
        (Protocol::Viewstamped, Message::PrepareOk { .. }) => 1.0 + 1.0 / (replicas - 1.0),
        // The reply, and now and then the leader's question.
        (Protocol::Speculative, Message::Request { .. }) => 2.0 + (replicas - 1.0) / synchronize,
        (Protocol::Speculative, Message::PrepareOk { .. }) => 1.0,
        _ => 2.0,
    }
}

/// So many closed-loop clients of three replicas, without batching.
pub(super) fn run(protocol: Protocol, clients: u32) -> Result<Simulated, GroupError> {
    let group = Group::new((0..REPLICAS).map(NodeId), protocol)?;
    let options = Options {
        is_durable: false,
        batch: 1,
        window: usize::MAX,
        checkpoint: u64::MAX,
        patience: Duration::from_secs(10),
        ..Options::default()
    };
    let synchronize = options.synchronize as f64;
    let names = move || (0..u64::from(clients)).map(ClientId);
    let mut sim: Sim<Node> =
        Sim::new(1, move |node, _: &[_]| match group.members().iter().find(|member| member.node == node) {
            Some(member) => {
                let (group, options) = (group.clone(), options.clone());
                Either::First(Replica::new(*member, group, options, Values::default(), &[]))
            }
            None => Either::Second(Clients::new(names(), &group, Duration::from_secs(1)).by_multicast(ALL)),
        });
    sim.network.link.latency = Delay::Fixed(LATENCY);
    sim.network.set_members(ALL, (0..REPLICAS).map(NodeId));
    (0..=REPLICAS).for_each(|node| sim.add(NodeId(node)));
    for replica in (0..REPLICAS).map(NodeId) {
        sim.set_service_by(replica, move |message| {
            let messages = messages(protocol, f64::from(REPLICAS), synchronize, message);
            Delay::Fixed(MESSAGE.mul_f64(messages))
        });
    }
    let mut users =
        Users { asked: BTreeMap::new(), random: Random::new(1), answered: 0, waited: Duration::ZERO };
    sim.run(Duration::from_millis(1), |_, _, _| {});
    names().for_each(|client| users.ask(&mut sim, client));
    sim.run(WARMING, |sim, _, event| users.hear(sim, event));
    (users.answered, users.waited) = (0, Duration::ZERO);
    sim.run(LENGTH, |sim, _, event| users.hear(sim, event));
    Ok(Simulated {
        operations_per_second: f64::from(users.answered) / LENGTH.as_secs_f64(),
        latency: users.waited.checked_div(users.answered).unwrap_or_default(),
    })
}

/// Closed-loop clients.
struct Users {
    asked: BTreeMap<ClientId, Time>,
    random: Random,
    answered: u32,
    waited: Duration,
}

impl Users {
    fn ask(&mut self, sim: &mut Sim<Node>, client: ClientId) {
        self.asked.insert(client, sim.now());
        let invoke = Invoke::Execute(operation(&mut self.random));
        sim.request(NodeId(REPLICAS), Either::Second((client, invoke)));
    }

    fn hear(&mut self, sim: &mut Sim<Node>, event: <Node as fulmar_node::Process>::Event) {
        let Either::Second((client, _)) = event else { unreachable!("no replica misses anything") };
        let asked = self.asked.get(&client).copied().unwrap_or_default();
        self.waited += sim.now().since(asked);
        self.answered += 1;
        self.ask(sim, client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speculative Paxos, section 6.1: the busiest replica has a third of the work, and a client half of the way.
    #[test]
    fn speculation_is_faster_and_spares_the_leader() {
        let run = |protocol, clients| run(protocol, clients).expect("three");
        let ratio = |clients| {
            let (ours, theirs) = (run(Protocol::Speculative, clients), run(Protocol::Viewstamped, clients));
            let rates = ours.operations_per_second / theirs.operations_per_second;
            (rates, ours.latency.as_secs_f64() / theirs.latency.as_secs_f64())
        };
        let ((_, latency), (throughput, _)) = (ratio(1), ratio(64));
        assert!(latency < 0.6, "{latency}");
        assert!((2.6..3.0).contains(&throughput), "{throughput}");
    }
}
