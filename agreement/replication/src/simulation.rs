//! Groups and clients in the simulator, while what can fail does.

mod busy;
mod copying;
mod deaf;
mod defects;
mod forgotten;
mod large;
mod registers;
mod role;
mod rough;
mod timeouts;

pub(crate) use registers::{Registers, decode_output, invocation};

use crate::group::Defect;
use crate::{
    Client, ClientId, Group, Invoke, Member, Options, Outcome, Protocol, Record, Replica, SequenceNumber,
    Summary, Wish,
};
use copying::Copies;
use fulmar_history::linearizability::{self, CallOf, KeyValue, KeyValueOperation, RegisterOperation};
use fulmar_node::{MulticastId, NodeId, Random, Time};
use fulmar_sim::{Delay, Faults, Seed, Sim, seeds};
use role::{Order, Role, Said};
use rough::Rough;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const CLIENTS: u32 = 4;
const OPERATIONS: usize = 25;
pub(crate) const KEYS: u64 = 3;
/// All replicas.
const ALL: MulticastId = MulticastId(0);

/// Remembers what any replica has ever committed, and where.
#[derive(Default)]
struct Agreement {
    committed: BTreeMap<SequenceNumber, Summary>,
    looked_at: BTreeMap<NodeId, SequenceNumber>,
}

impl Agreement {
    fn look(&mut self, node: NodeId, replica: &Replica<Registers>) -> Result<(), String> {
        let looked_at = self.looked_at.entry(node).or_default();
        for number in (looked_at.0 + 1..=replica.committed().0).map(SequenceNumber) {
            if let Some(summary) = replica.log().summary(number) {
                let first = self.committed.entry(number).or_insert(summary);
                if *first != summary {
                    return Err(format!("{node} has committed another operation at {}", number.0));
                }
            }
        }
        *looked_at = replica.committed();
        replica.problems().into_iter().next().map_or(Ok(()), Err)
    }
}

fn operation(random: &mut Random, unique: &mut u64) -> (KeyValueOperation, bool) {
    let key = random.below(KEYS);
    *unique += 1;
    let operation = match random.below(4) {
        0 | 1 => RegisterOperation::Read,
        2 => RegisterOperation::Write((!random.one_in(8)).then_some(*unique)),
        _ => {
            let expected = (!random.one_in(3)).then(|| random.below(*unique));
            RegisterOperation::CompareAndSwap { expected, new: Some(*unique) }
        }
    };
    let is_query = operation == RegisterOperation::Read && random.one_in(2);
    (KeyValueOperation { key, operation }, is_query)
}

/// Closed-loop clients and what they have seen.
struct Users {
    history: Vec<CallOf<KeyValue>>,
    /// The call that each waits for, and how many it has yet to make.
    underway: BTreeMap<NodeId, (usize, usize)>,
    unique: u64,
    /// Whether another group has been asked for.
    is_changing: bool,
    /// All replicas.
    nodes: Vec<NodeId>,
    incarnations: Incarnations,
    /// They wait up to so long before they ask for something new.
    thinking: Duration,
    /// A part of a state is copied in up to so long.
    copying: Duration,
    copies: Copies,
}

impl Users {
    fn invoke(&mut self, sim: &mut Sim<Role>, client: NodeId, left: usize) {
        if left == 0 {
            self.underway.remove(&client);
            return;
        }
        let (asked, is_query) = operation(sim.random(), &mut self.unique);
        let thinking = self.thinking.mul_f64(sim.random().fraction());
        let invoked = (sim.now() + thinking).as_nanos();
        let call =
            linearizability::Call { process: client.0.into(), invoked, operation: asked, response: None };
        self.underway.insert(client, (self.history.len(), left));
        self.history.push(call);
        let invoke = Order::Client(invocation(asked, is_query));
        sim.after(thinking, move |sim| sim.request(client, invoke));
    }

    fn hear(&mut self, sim: &mut Sim<Role>, node: NodeId, said: &Said) {
        match (said, self.underway.get(&node).copied()) {
            (Said::Behind, _) => self.copies.begin(sim, node, self.copying),
            (Said::Client(Outcome::Result(result)), Some((call, left))) => {
                let now = sim.now().as_nanos();
                self.history[call].response = Some((now, decode_output(result)));
                self.invoke(sim, node, left - 1);
            }
            // That of who changes the group: whom it has no more, it needs no more.
            (Said::Client(outcome), _) => {
                self.is_changing = false;
                if let Outcome::Group(group) = outcome
                    && sim.random().one_in(2)
                {
                    retire(sim, &self.incarnations, group, &self.nodes);
                }
            }
        }
    }

    /// Goes on until all are answered, and the replicas have come to their end.
    fn settle(&mut self, sim: &mut Sim<Role>, is_over: impl Fn(&Sim<Role>) -> bool) -> Result<(), String> {
        let limit = sim.now() + Duration::from_secs(120);
        while !self.underway.is_empty() || !is_over(sim) {
            let soon = sim.now() + Duration::from_millis(100);
            match sim.next_event(soon) {
                Some((node, said)) => self.hear(sim, node, &said),
                None if sim.now() >= limit && !self.underway.is_empty() => {
                    return Err(format!("{} clients wait for ever", self.underway.len()));
                }
                None if sim.now() >= limit => return Err("some never come back".into()),
                None if sim.counts.sent > 1_000_000 => return Err("they talk without end".into()),
                None => {}
            }
        }
        Ok(())
    }
}

/// Which of its lives each replica has.
type Incarnations = Rc<RefCell<BTreeMap<NodeId, u64>>>;

fn member(incarnations: &Incarnations, node: NodeId) -> Member {
    Member { node, incarnation: incarnations.borrow().get(&node).copied().unwrap_or_default() }
}

fn replicas(sim: &Sim<Role>) -> impl Iterator<Item = (NodeId, &Replica<Registers>)> {
    sim.processes().iter().filter_map(|(node, role)| match role {
        Role::Replica { process, .. } => Some((node, &**process)),
        Role::Client(..) => None,
    })
}

fn newest_group(sim: &Sim<Role>) -> Option<Group> {
    replicas(sim).map(|(_, replica)| replica.group().clone()).max_by_key(Group::epoch)
}

/// Whether a replica takes part in this group, and will not forget it.
fn is_settled(sim: &Sim<Role>, group: &Group, node: NodeId) -> bool {
    let replica = replicas(sim).find(|(name, _)| *name == node);
    replica.is_some_and(|(_, replica)| replica.group() == group && replica.is_in_view() && replica.is_sure)
}

/// A replica loses its memory for ever, if its group can do without.
fn wipe(sim: &mut Sim<Role>, incarnations: &Incarnations, victim: NodeId, lasting: Duration) {
    let Some(group) = newest_group(sim) else { return };
    let is_other = u64::from(!group.has(Defect::KeepsIncarnation));
    let unsettled = group.nodes().filter(|node| *node != victim && !is_settled(sim, &group, *node)).count();
    if unsettled < group.failures() {
        *incarnations.borrow_mut().entry(victim).or_default() += is_other;
        sim.replace_disk(victim);
        sim.after(lasting, move |sim| sim.restart(victim));
    }
}

/// A group is said to go on: then who is not in it loses its memory, and so may one of f who are.
fn retire(sim: &mut Sim<Role>, incarnations: &Incarnations, group: &Group, nodes: &[NodeId]) {
    let one = group.members()[sim.random().index(group.members().len())].node;
    let lost = group.members().iter().filter(|it| it.node != one && **it != member(incarnations, it.node));
    let may_lose = lost.count() < group.failures();
    for node in nodes.iter().filter(|node| !group.contains(**node) || (**node == one && may_lose)) {
        let is_other = u64::from(!group.has(Defect::KeepsIncarnation));
        *incarnations.borrow_mut().entry(*node).or_default() += is_other;
        sim.replace_disk(*node);
        sim.restart(*node);
    }
}

/// Whether every member of the group has come to the same end, and none waits to be let in.
fn are_together(sim: &Sim<Role>) -> bool {
    let Some(group) = newest_group(sim) else { return false };
    let mut ends = replicas(sim).filter(|(node, _)| group.contains(*node));
    let first = ends.next().map(|(_, replica)| replica.committed());
    group.nodes().all(|node| is_settled(sim, &group, node))
        && ends.all(|(_, replica)| Some(replica.committed()) == first)
}

/// A group, so many spare replicas, and so many clients.
fn world(
    seed: Seed,
    group: &Group,
    (spares, clients): (u32, u32),
    options: &Options,
    incarnations: &Incarnations,
) -> Sim<Role> {
    let (group, options, incarnations) = (group.clone(), options.clone(), incarnations.clone());
    let replicas = u32::try_from(group.members().len()).expect("a few") + spares;
    // In some worlds who has no records is told which group there is.
    let newest = Rc::new(RefCell::new(group.clone()));
    let told = seed.number.is_multiple_of(2).then(|| newest.clone());
    let mut sim = Sim::new(seed, move |node, records: &[Record]| {
        if node.0 < replicas {
            let (member, registers) = (member(&incarnations, node), Registers::default());
            let told = told.as_ref().filter(|_| records.is_empty());
            let group = told.map_or_else(|| group.clone(), |newest| newest.borrow().clone());
            let replica = Replica::new(member, group, options.clone(), registers, records);
            Role::replica(replica, records)
        } else {
            let client = Client::new(ClientId(node.0.into()), group.clone(), Duration::from_millis(150));
            // Some have a multicast.
            let client = if node.0.is_multiple_of(2) { client } else { client.by_multicast(ALL) };
            Role::Client(client, fulmar_node::Outbox::default())
        }
    });
    (0..replicas + clients).for_each(|node| sim.add(NodeId(node)));
    sim.network.set_members(ALL, (0..replicas).map(NodeId));
    sim.invariant(1, move |processes| {
        for (_, role) in processes.iter() {
            if let Role::Replica { process, .. } = role
                && process.group().epoch() > newest.borrow().epoch()
            {
                newest.replace(process.group().clone());
            }
        }
        Ok(())
    });
    sim
}

fn run(seed: Seed, protocol: Protocol, defect: Option<Defect>) -> Result<(), String> {
    let founders = size(&seed);
    let group = Group::new((0..founders).map(NodeId), protocol).map_err(|error| error.to_string())?;
    let group = group.with_defect(defect);
    let seed_number = seed.number;
    let mut chance = Random::new(seed_number ^ 0x5eed);
    let options = Options {
        batch: 1 + chance.index(8),
        window: 1 + chance.index(3),
        bytes: if seed_number % 4 == 3 {
            [40, 100, 400][usize::try_from(seed_number / 4 % 3).unwrap_or_default()]
        } else {
            1 << 20
        },
        checkpoint: 2 + chance.below(30),
        checkpoint_bytes: if seed_number.is_multiple_of(5) { 300 } else { 1 << 20 },
        synchronize: 1 + chance.below(20),
        heartbeat: Duration::from_millis(5 + chance.below(15)),
        patience: Duration::from_millis(50 + chance.below(100)),
        is_durable: !chance.one_in(4),
        is_copied: chance.one_in(2),
        is_fixed: false,
    };
    let is_steady = chance.one_in(3);
    let options = Options { is_fixed: is_steady, ..options };
    let spares = if is_steady { 0 } else { 2 };
    let nodes: Vec<NodeId> = (0..founders + spares).map(NodeId).collect();
    let incarnations = Incarnations::default();
    let mut sim = world(seed, &group, (spares, CLIENTS + 1), &options, &incarnations);
    let mut agreement = Agreement::default();
    sim.invariant(1, move |processes| {
        processes.iter().try_for_each(|(node, role)| match role {
            Role::Replica { process, .. } => agreement.look(node, process),
            Role::Client(..) => Ok(()),
        })
    });
    let mut faults = Faults::random(nodes.clone(), sim.random());
    // What befalls the links of replicas befalls those of clients, too.
    let everybody = (0..founders + spares + CLIENTS + 1).map(NodeId);
    let mut cuts = Faults::none(everybody);
    (cuts.cut, cuts.every) = (faults.cut, faults.every * 4);
    sim.inject(cuts);
    let rough = Rough::random(&mut Random::new(seed_number ^ 0x0807));
    rough.befall(&mut sim, &nodes);
    faults.torn_write = rough.torn_write;
    faults.stall = if seed_number % 4 >= 2 { 4 } else { 0 };
    if !options.is_durable {
        // Without disks every crash is the loss of a memory, and waits for its turn.
        (faults.crash, faults.blackout, faults.broken_disk, faults.torn_write) = (0, 0, 0, 0);
    }
    sim.inject(faults);
    // Logs that grow slowly are of different lengths for longer.
    let thinking = Duration::from_millis([0, 2, 20, 150][chance.index(4)]);
    let underway = BTreeMap::new();
    let mut users = Users {
        history: Vec::new(),
        underway,
        unique: 0,
        is_changing: false,
        nodes: nodes.clone(),
        incarnations: incarnations.clone(),
        thinking,
        copying: rough.copying,
        copies: Copies::default(),
    };
    let clients = (founders + spares..founders + spares + CLIENTS).map(NodeId);
    clients.clone().for_each(|client| users.invoke(&mut sim, client, OPERATIONS));
    let operator = NodeId(founders + spares + CLIENTS);
    let mut resigning = Random::new(seed_number ^ 0x12e5);
    while sim.now() < Time::ZERO + Duration::from_secs(3) {
        let lasting = Duration::from_millis(chance.below(400));
        sim.run(lasting, |sim, node, said| users.hear(sim, node, &said));
        if resigning.one_in(4) {
            let [leader, other] = [(); 2].map(|()| nodes[resigning.index(nodes.len())]);
            sim.request(leader, Order::Replica(Wish::Resign(other)));
        }
        rough.disturb(&mut sim, &nodes, &mut resigning);
        if is_steady || users.is_changing {
            continue;
        }
        if chance.one_in(2) {
            wipe(&mut sim, &incarnations, nodes[chance.index(nodes.len())], lasting);
        } else {
            users.is_changing = true;
            let reconfiguration = reconfiguration(&mut chance, &nodes, &incarnations);
            sim.request(operator, Order::Client(reconfiguration));
        }
    }
    rough.end(&mut sim, &nodes);
    sim.heal(nodes.clone());
    users.settle(&mut sim, are_together)?;
    if is_steady {
        // And now f of them are gone for good.
        let first = usize::try_from(seed_number / 2).unwrap_or_default();
        let gone = (first..first + group.failures()).map(|place| nodes[place % nodes.len()]);
        gone.for_each(|node| sim.crash(node));
        clients.for_each(|client| users.invoke(&mut sim, client, OPERATIONS));
        users.settle(&mut sim, |_| true)?;
    }
    linearizability::check(&KeyValue::default(), &users.history).map_err(|found| found.to_string())
}

/// Other members, as many as there may be, and any protocol.
fn reconfiguration(chance: &mut Random, nodes: &[NodeId], incarnations: &Incarnations) -> Invoke {
    let mut nodes = nodes.to_vec();
    let least = nodes.len().min(3);
    while nodes.len() > least && (nodes.len().is_multiple_of(2) || chance.one_in(2)) {
        nodes.swap_remove(chance.index(nodes.len()));
    }
    let protocol = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative][chance.index(3)];
    Invoke::Reconfigure(nodes.into_iter().map(|node| member(incarnations, node)).collect(), protocol)
}

#[test]
fn viewstamped_is_linearizable() {
    seeds("viewstamped_is_linearizable", 0..400, |seed| run(seed, Protocol::Viewstamped, None));
}

#[test]
fn fast_paxos_is_linearizable() {
    seeds("fast_paxos_is_linearizable", 0..400, |seed| run(seed, Protocol::Fast, None));
}

#[test]
fn speculative_paxos_is_linearizable() {
    seeds("speculative_paxos_is_linearizable", 0..400, |seed| run(seed, Protocol::Speculative, None));
}

/// Groups of three and of five by turns, and now and then one replica alone.
fn size(seed: &Seed) -> u32 {
    if seed.number % 16 == 15 { 1 } else { 3 + 2 * u32::from(seed.number % 2 == 1) }
}

/// How long a request takes from its client and back, in message delays, and how many messages the busiest replica has to do with
/// for each, where nothing fails and nobody is slow (Speculative Paxos, Table 1).
fn cost(protocol: Protocol, replicas: u32, synchronize: u64) -> (u64, u64) {
    const REQUESTS: u64 = 100;
    let group = Group::new((0..replicas).map(NodeId), protocol).expect("an odd number");
    let options = Options {
        heartbeat: Duration::from_secs(100),
        patience: Duration::from_secs(1_000),
        is_durable: false,
        synchronize,
        ..Options::default()
    };
    let mut sim = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    let delay = Duration::from_micros(10);
    sim.network.link.latency = Delay::Fixed(delay);
    let busiest = |sim: &Sim<Role>| {
        (0..replicas).map(|replica| sim.messages(NodeId(replica))).max().unwrap_or_default()
    };
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    // It is let in.
    sim.request(NodeId(replicas), Order::Client(invocation(write, false)));
    sim.run(Duration::from_millis(1), |_, _, _| {});
    let (began, before) = (sim.now(), busiest(&sim));
    for _ in 0..REQUESTS {
        sim.request(NodeId(replicas), Order::Client(invocation(write, false)));
    }
    let mut ended = began;
    sim.run(Duration::from_millis(100), |sim, _, _| ended = sim.now());
    let delays = ended.since(began).as_nanos() / (u128::from(REQUESTS) * delay.as_nanos());
    (u64::try_from(delays).unwrap_or(u64::MAX), busiest(&sim) - before)
}

#[test]
fn costs_are_those_of_the_paper() {
    for n in [3, 5] {
        let replicas = u32::try_from(n).expect("a few");
        assert_eq!(cost(Protocol::Viewstamped, replicas, 1), (4, 100 * 2 * n));
        // The leader tells nobody else what it has committed but now and then: less than 2n.
        assert_eq!(cost(Protocol::Fast, replicas, 1), (3, 100 * (n + 1)));
        // SYNC and its replies, every tenth time, with what the one before has committed.
        assert_eq!(cost(Protocol::Speculative, replicas, 10), (2, 100 * 2 + 10 * 2 * (n - 1)));
    }
    assert_eq!(cost(Protocol::Viewstamped, 1, 1), (2, 100 * 2));
}
