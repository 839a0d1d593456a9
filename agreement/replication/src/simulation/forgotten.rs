//! More clients than a group remembers.

use super::role::{Order, Role, Said};
use super::{Agreement, CLIENTS, Incarnations, decode_output, invocation, operation, size, world};
use crate::execution::MOST_CLIENTS;
use crate::group::Defect;
use crate::{Group, Options, Outcome, Protocol};
use fulmar_history::linearizability::{
    self, Call, CallOf, KeyValue, KeyValueOperation, RegisterOperation, RegisterOutput,
};
use fulmar_node::NodeId;
use fulmar_sim::{Faults, Seed, Sim, seeds};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const MANY: u32 = CLIENTS + 3;
const OPERATIONS: usize = 10;

/// Closed-loop clients. One that was forgotten does not know what came of its last operation, and goes on as another process.
struct Users {
    history: Vec<CallOf<KeyValue>>,
    /// The call that each waits for, and how many it has yet to make.
    underway: BTreeMap<NodeId, (usize, usize)>,
    unique: u64,
    forgotten: usize,
}

impl Users {
    fn invoke(&mut self, sim: &mut Sim<Role>, client: NodeId, left: usize) {
        if left == 0 {
            self.underway.remove(&client);
            return;
        }
        let (asked, is_query) = operation(sim.random(), &mut self.unique);
        let (process, invoked) = (self.history.len() as u64, sim.now().as_nanos());
        self.underway.insert(client, (self.history.len(), left));
        self.history.push(Call { process, invoked, operation: asked, response: None });
        sim.request(client, Order::Client(invocation(asked, is_query)));
    }

    fn hear(&mut self, sim: &mut Sim<Role>, client: NodeId, said: &Said) {
        let Some((call, left)) = self.underway.get(&client).copied() else { return };
        match said {
            Said::Client(Outcome::Result(result)) => {
                self.history[call].response = Some((sim.now().as_nanos(), decode_output(result)));
            }
            Said::Client(Outcome::Forgotten) => self.forgotten += 1,
            _ => return,
        }
        self.invoke(sim, client, left - 1);
    }
}

fn run(seed: Seed, protocol: Protocol, forgotten: &AtomicUsize) -> Result<(), String> {
    let replicas = size(&seed);
    let nodes: Vec<NodeId> = (0..replicas).map(NodeId).collect();
    let group = Group::new(nodes.clone(), protocol).map_err(|error| error.to_string())?;
    let options = Options { checkpoint: 10, ..Options::default() };
    let mut sim = world(seed, &group, (0, MANY), &options, &Incarnations::default());
    let mut agreement = Agreement::default();
    sim.invariant(1, move |processes| {
        processes.iter().try_for_each(|(node, role)| match role {
            Role::Replica { process, .. } if process.checkpoint().answered.len() > MOST_CLIENTS => {
                Err(format!("{node} remembers too many clients"))
            }
            Role::Replica { process, .. } => agreement.look(node, process),
            Role::Client(..) => Ok(()),
        })
    });
    let faults = Faults::random(nodes.clone(), sim.random());
    sim.inject(faults);
    let clients = || (replicas..replicas + MANY).map(NodeId);
    // An answer that is lost has an operation asked for again, after others were let in.
    let mut cuts = Faults::none(nodes.iter().copied().chain(clients()));
    cuts.cut = 1;
    cuts.every = Duration::from_millis(20);
    sim.inject(cuts);
    let mut users = Users { history: Vec::new(), underway: BTreeMap::new(), unique: 0, forgotten: 0 };
    clients().for_each(|client| users.invoke(&mut sim, client, OPERATIONS));
    sim.run(Duration::from_secs(2), |sim, node, said| users.hear(sim, node, &said));
    sim.heal(nodes);
    let limit = sim.now() + Duration::from_secs(120);
    while !users.underway.is_empty() && sim.now() < limit {
        let soon = sim.now() + Duration::from_millis(100);
        if let Some((node, said)) = sim.next_event(soon) {
            users.hear(&mut sim, node, &said);
        }
    }
    if !users.underway.is_empty() {
        return Err(format!("{} clients wait for ever", users.underway.len()));
    }
    forgotten.fetch_add(users.forgotten, Relaxed);
    linearizability::check(&KeyValue::default(), &users.history).map_err(|found| found.to_string())
}

/// What a client hears, and what there is then, if the answer to its second write is lost, others write, and it asks again.
fn after_a_lost_answer(protocol: Protocol, defect: Option<Defect>) -> (Outcome, RegisterOutput) {
    let replicas = || (0..3).map(NodeId);
    let group = Group::new(replicas(), protocol).expect("three").with_defect(defect);
    let others = u32::try_from(MOST_CLIENTS).expect("a few");
    let mut sim =
        world(Seed::from(1), &group, (0, 1 + others), &Options::default(), &Incarnations::default());
    let client = NodeId(3);
    let hear = |sim: &mut Sim<Role>| {
        let mut heard = None;
        sim.run(Duration::from_secs(1), |_, _, said| {
            if let Said::Client(outcome) = said {
                heard = Some(outcome);
            }
        });
        heard
    };
    let ask = |sim: &mut Sim<Role>, client: NodeId, operation| {
        let operation = KeyValueOperation { key: 1, operation };
        sim.request(client, Order::Client(invocation(operation, false)));
        hear(sim)
    };
    ask(&mut sim, client, RegisterOperation::Write(Some(1)));
    let cut = sim.cut(replicas(), [client]);
    assert_eq!(ask(&mut sim, client, RegisterOperation::Write(Some(2))), None);
    for other in (4..4 + others).map(NodeId) {
        ask(&mut sim, other, RegisterOperation::Write(Some(3)));
    }
    sim.mend(cut);
    let heard = hear(&mut sim);
    let Some(Outcome::Result(result)) = ask(&mut sim, NodeId(4), RegisterOperation::Read) else {
        panic!("{protocol:?}: nobody is answered")
    };
    (heard.expect("it is answered"), decode_output(&result))
}

#[test]
fn whoever_is_forgotten_does_nothing_twice() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let (heard, found) = after_a_lost_answer(protocol, None);
        assert_eq!((heard, found), (Outcome::Forgotten, RegisterOutput::Value(Some(3))), "{protocol:?}");
        let (_, found) = after_a_lost_answer(protocol, Some(Defect::ForgetsSessions));
        assert_eq!(found, RegisterOutput::Value(Some(2)), "{protocol:?}");
        let forgotten = AtomicUsize::new(0);
        seeds("whoever_is_forgotten_does_nothing_twice", 0..200, |seed| run(seed, protocol, &forgotten));
        assert!(forgotten.into_inner() > 0, "{protocol:?}");
    }
}
