//! Groups and clients in the simulator, while what can fail does.

use crate::replica::Defect;
use crate::{
    Client, ClientId, Group, Invoke, Message, Options, Protocol, Record, Replica, SequenceNumber,
    StateMachine, Summary, Timer,
};
use fulmar_history::linearizability::{
    self, CallOf, KeyValue, KeyValueOperation, Model, RegisterOperation, RegisterOutput,
};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Random, Time};
use fulmar_sim::{Faults, Seed, Sim, check, seeds};
use std::collections::BTreeMap;
use std::time::Duration;

const CLIENTS: u32 = 4;
const OPERATIONS: usize = 25;
const KEYS: u64 = 3;

/// Registers, replicated.
#[derive(Default)]
struct Registers {
    state: KeyValue,
    executed: SequenceNumber,
}

fn encode_value(value: Option<u64>, out: &mut Vec<u8>) {
    out.extend(value.unwrap_or(u64::MAX).to_be_bytes());
}

fn encode(operation: KeyValueOperation) -> Vec<u8> {
    let mut out = operation.key.to_be_bytes().to_vec();
    match operation.operation {
        RegisterOperation::Read => {}
        RegisterOperation::Write(value) => encode_value(value, &mut out),
        RegisterOperation::CompareAndSwap { expected, new } => {
            encode_value(expected, &mut out);
            encode_value(new, &mut out);
        }
    }
    out
}

fn decode(bytes: &[u8]) -> KeyValueOperation {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
    let value = |word: u64| (word != u64::MAX).then_some(word);
    let operation = match words[1..] {
        [new] => RegisterOperation::Write(value(new)),
        [expected, new] => RegisterOperation::CompareAndSwap { expected: value(expected), new: value(new) },
        _ => RegisterOperation::Read,
    };
    KeyValueOperation { key: words[0], operation }
}

fn encode_output(output: RegisterOutput) -> Vec<u8> {
    match output {
        RegisterOutput::Value(value) => {
            let mut out = vec![0];
            encode_value(value, &mut out);
            out
        }
        RegisterOutput::Written => vec![1],
        RegisterOutput::Swapped(swapped) => vec![2, u8::from(swapped)],
    }
}

fn decode_output(bytes: &[u8]) -> RegisterOutput {
    match bytes {
        [1] => RegisterOutput::Written,
        [2, swapped] => RegisterOutput::Swapped(*swapped == 1),
        value => {
            let word = u64::from_be_bytes(value[1..].try_into().expect("eight bytes"));
            RegisterOutput::Value((word != u64::MAX).then_some(word))
        }
    }
}

impl StateMachine for Registers {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        assert!(number > self.executed);
        self.executed = number;
        encode_output(self.state.apply(&decode(operation)))
    }

    fn rollback(&mut self, _from: SequenceNumber) {
        unreachable!("nothing is executed before it is committed");
    }

    fn commit(&mut self, _upto: SequenceNumber) {}

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        encode_output(self.state.clone().apply(&decode(operation)))
    }

    fn snapshot(&self) -> Vec<u8> {
        let registers = self.state.0.iter();
        registers
            .flat_map(|(key, register)| {
                let mut out = key.to_be_bytes().to_vec();
                encode_value(register.0, &mut out);
                out
            })
            .collect()
    }

    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) {
        self.executed = at;
        self.state = KeyValue::default();
        for pair in snapshot.as_chunks::<16>().0 {
            if let RegisterOperation::Write(value) = decode(pair).operation {
                let key = decode(pair).key;
                self.state.apply(&KeyValueOperation { key, operation: RegisterOperation::Write(value) });
            }
        }
    }
}

/// A node of the simulation.
enum Role {
    Replica(Box<Replica<Registers>>, Outbox<Replica<Registers>>),
    Client(Client, Outbox<Client>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Replica(Timer),
    Client,
}

impl Role {
    fn step(
        &mut self,
        out: &mut Outbox<Self>,
        replica: impl FnOnce(&mut Replica<Registers>, &mut Outbox<Replica<Registers>>),
        client: impl FnOnce(&mut Client, &mut Outbox<Client>),
    ) {
        match self {
            Self::Replica(process, own) => {
                replica(process, own);
                out.sends.append(&mut own.sends);
                out.records.extend(own.records.iter().cloned());
                out.timers.extend(own.timers.iter().map(|(timer, change)| (Alarm::Replica(*timer), *change)));
                own.clear();
            }
            Self::Client(process, own) => {
                client(process, own);
                out.sends.append(&mut own.sends);
                out.events.append(&mut own.events);
                out.timers.extend(own.timers.iter().map(|((), change)| (Alarm::Client, *change)));
                own.clear();
            }
        }
    }
}

impl Process for Role {
    type Message = Message;
    type Timer = Alarm;
    type Request = Invoke;
    type Event = Vec<u8>;
    type Record = Record;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.step(out, |replica, out| replica.start(now, out), |client, out| client.start(now, out));
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let again = message.clone();
        self.step(
            out,
            |replica, out| replica.receive(now, from, message, out),
            |client, out| client.receive(now, from, again, out),
        );
    }

    fn expire(&mut self, now: Time, timer: Alarm, out: &mut Outbox<Self>) {
        let replica = |replica: &mut Replica<Registers>, out: &mut Outbox<_>| {
            if let Alarm::Replica(timer) = timer {
                replica.expire(now, timer, out);
            }
        };
        self.step(out, replica, |client, out| client.expire(now, (), out));
    }

    fn request(&mut self, now: Time, invoke: Invoke, out: &mut Outbox<Self>) {
        self.step(out, |_, _| {}, |client, out| Process::request(client, now, invoke, out));
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        self.step(out, |replica, out| replica.durable(now, upto, out), |_, _| {});
    }
}

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
}

impl Users {
    fn invoke(&mut self, sim: &mut Sim<Role>, client: NodeId, left: usize) {
        if left == 0 {
            self.underway.remove(&client);
            return;
        }
        let (asked, is_query) = operation(sim.random(), &mut self.unique);
        let invoked = sim.now().as_nanos();
        let call =
            linearizability::Call { process: client.0.into(), invoked, operation: asked, response: None };
        self.underway.insert(client, (self.history.len(), left));
        self.history.push(call);
        sim.request(client, Invoke { operation: encode(asked).into(), is_query });
    }

    fn hear(&mut self, sim: &mut Sim<Role>, client: NodeId, result: &[u8]) {
        if let Some((call, left)) = self.underway.get(&client).copied() {
            let now = sim.now().as_nanos();
            self.history[call].response = Some((now, decode_output(result)));
            self.invoke(sim, client, left - 1);
        }
    }
}

fn run(seed: Seed, replicas: u32, defect: Option<Defect>) -> Result<(), String> {
    let members: Vec<NodeId> = (0..replicas).map(NodeId).collect();
    let group = Group::new(members.clone(), Protocol::Viewstamped).map_err(|error| error.to_string())?;
    let mut chance = Random::new(seed.number ^ 0x5eed);
    let options = Options {
        batch: 1 + chance.index(8),
        window: 1 + chance.index(3),
        checkpoint: 2 + chance.below(30),
        defect,
        ..Options::default()
    };
    let mut sim = Sim::new(seed, move |node, records: &[Record]| {
        if node.0 < replicas {
            let replica = Replica::new(node, group.clone(), options.clone(), Registers::default(), records);
            Role::Replica(Box::new(replica), Outbox::after(Lsn(records.len() as u64)))
        } else {
            let client = Client::new(ClientId(node.0.into()), group.clone(), Duration::from_millis(150));
            Role::Client(client, Outbox::default())
        }
    });
    (0..replicas + CLIENTS).for_each(|node| sim.add(NodeId(node)));
    let mut agreement = Agreement::default();
    sim.invariant(1, move |processes| {
        processes.iter().try_for_each(|(node, role)| match role {
            Role::Replica(replica, _) => agreement.look(node, replica),
            Role::Client(..) => Ok(()),
        })
    });
    let faults = Faults::random(members.clone(), sim.random());
    sim.inject(faults);
    let mut users = Users { history: Vec::new(), underway: BTreeMap::new(), unique: 0 };
    for client in (replicas..replicas + CLIENTS).map(NodeId) {
        users.invoke(&mut sim, client, OPERATIONS);
    }
    sim.run(Duration::from_secs(3), |sim, client, result| users.hear(sim, client, &result));
    sim.heal(members);
    let limit = sim.now() + Duration::from_secs(120);
    while !users.underway.is_empty() {
        let Some((client, result)) = sim.next_event(limit) else {
            return Err(format!("{} clients wait for ever", users.underway.len()));
        };
        users.hear(&mut sim, client, &result);
    }
    linearizability::check(&KeyValue::default(), &users.history).map_err(|found| found.to_string())
}

#[test]
fn three_replicas_are_linearizable() {
    seeds("three_replicas_are_linearizable", 0..300, |seed| run(seed, 3, None));
}

#[test]
fn five_replicas_are_linearizable() {
    seeds("five_replicas_are_linearizable", 0..200, |seed| run(seed, 5, None));
}

#[test]
fn one_replica_is_linearizable() {
    seeds("one_replica_is_linearizable", 0..50, |seed| run(seed, 1, None));
}

#[test]
fn defects_are_found() {
    let found = (0..2_000).any(|seed| {
        check("defect", seed..seed + 1, |seed| run(seed, 3, Some(Defect::CommitsTooEarly))).is_err()
    });
    assert!(found, "an operation that f replicas hold was committed, and nobody noticed");
}
