//! Rounds, one after the other, and what they cost.

use crate::model::{Call, Content, Machine, Round, node, place};
use crate::{Ledger, Marks, Topology};
use fulmar_node::NodeId;

/// Up to so many machines the network checks every call against what the caller was told: n² bits.
pub const CHECKED: usize = 1 << 12;

/// What a run cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Until every machine knew all.
    pub rounds: u32,
    /// Pushes and pulls.
    pub messages: u64,
    /// Those of the machine that made the most.
    pub most_messages: u64,
    /// Addresses in messages, as often as they were said.
    pub addresses: u64,
    /// Bits in messages: ⌈log₂ n⌉ for each address, and what tells kinds of messages apart.
    pub bits: u64,
}

/// Why a run came to no good end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A machine cannot contact whom it does not know: the machines break the model.
    #[error("in round {round}, {from} calls {to}, whose address it was never told")]
    Unknown {
        /// Counted from 0.
        round: u32,
        /// Who calls.
        from: NodeId,
        /// Who is called.
        to: NodeId,
    },
    /// A machine says that it knows more, or fewer, than it was told.
    #[error("after round {round}, {who} claims to know {claimed} machines, and was told {told}")]
    Miscounted {
        /// Counted from 0.
        round: u32,
        /// The machine.
        who: NodeId,
        /// What it says.
        claimed: usize,
        /// What it was told.
        told: usize,
    },
    /// Not all machines know all.
    #[error(
        "after {rounds} rounds {lacking} machines do not know all others: is the network strongly connected?"
    )]
    Unfinished {
        /// So many were allowed.
        rounds: u32,
        /// So many machines.
        lacking: usize,
    },
}

/// A round in which all have acted, and nothing is heard yet.
pub struct Acted<'a, M: Machine> {
    /// Counted from 0.
    pub round: u32,
    /// All of them, by address.
    pub machines: &'a [M],
    /// Who called, in the order in which they did.
    pub calls: &'a [(NodeId, Call<M::Message>)],
    /// Who was told what until now, up to [`CHECKED`] machines.
    pub ledger: Option<&'a Ledger>,
}

/// Runs machines until all know all, or an error comes up; `watch` sees each round.
///
/// Up to [`CHECKED`] machines, every call and every machine's count of whom it knows is checked against what it was told.
///
/// # Errors
/// If a machine breaks the model, or after `most_rounds`.
pub fn run<M: Machine>(
    machines: &mut [M],
    topology: &Topology,
    most_rounds: u32,
    mut watch: impl FnMut(&Acted<'_, M>),
) -> Result<Counts, Error> {
    let all = machines.len();
    let mut ledger = (all <= CHECKED).then(|| Ledger::new(topology));
    let mut tally = Tally::new(all);
    let mut marks = Marks::new(all);
    let mut calls = Vec::new();
    for round in 0..most_rounds {
        calls.clear();
        let mut own = Vec::new();
        for (at, machine) in machines.iter_mut().enumerate() {
            machine.act(&mut Round::new(round, &mut marks, &mut own));
            calls.extend(own.drain(..).map(|call| (node(at), call)));
        }
        if let Some(ledger) = &ledger {
            let unknown = calls.iter().find(|(from, call)| !ledger.knows(*from, call.to()));
            if let Some((from, call)) = unknown {
                return Err(Error::Unknown { round, from: *from, to: call.to() });
            }
        }
        watch(&Acted { round, machines, calls: &calls, ledger: ledger.as_ref() });
        deliver(&mut calls, machines, &mut tally, ledger.as_mut());
        if let Some(ledger) = &ledger {
            check_counts(machines, ledger, round)?;
        }
        if machines.iter().all(|machine| machine.known() == all) {
            return Ok(tally.counts(round + 1));
        }
    }
    let lacking = machines.iter().filter(|machine| machine.known() != all).count();
    Err(Error::Unfinished { rounds: most_rounds, lacking })
}

/// Pushes in the order of the calls, then answers in that order.
fn deliver<M: Machine>(
    calls: &mut Vec<(NodeId, Call<M::Message>)>,
    machines: &mut [M],
    tally: &mut Tally,
    mut ledger: Option<&mut Ledger>,
) {
    let pulls = calls.iter().filter_map(|(from, call)| match call {
        Call::Pull(to) => Some((*from, *to)),
        Call::Push(..) => None,
    });
    let answers: Vec<_> = pulls.map(|(from, to)| (from, machines[place(to)].answer())).collect();
    let mut hear = |caller: NodeId, hearer: NodeId, message: M::Message| {
        tally.count(caller, &message);
        if let Some(ledger) = ledger.as_deref_mut() {
            ledger.hear(hearer, &message);
        }
        machines[place(hearer)].hear(message);
    };
    for (from, call) in calls.drain(..) {
        if let Call::Push(to, message) = call {
            hear(from, to, message);
        }
    }
    for (from, answer) in answers {
        hear(from, from, answer);
    }
}

fn check_counts<M: Machine>(machines: &[M], ledger: &Ledger, round: u32) -> Result<(), Error> {
    for (at, machine) in machines.iter().enumerate() {
        let (claimed, told) = (machine.known(), ledger.count(node(at)));
        // A machine may forget, but for the end: then it has to name all.
        if claimed > told {
            return Err(Error::Miscounted { round, who: node(at), claimed, told });
        }
    }
    Ok(())
}

/// What a run costs, as it goes on.
pub(crate) struct Tally {
    bits_of_address: u64,
    of_machine: Vec<u32>,
    addresses: u64,
    control_bits: u64,
}

impl Tally {
    pub(crate) fn new(machines: usize) -> Self {
        let bits_of_address = u64::from(machines.next_power_of_two().trailing_zeros());
        Self { bits_of_address, of_machine: vec![0; machines], addresses: 0, control_bits: 0 }
    }

    /// One operation of `caller`, in which this is said.
    pub(crate) fn count<C: Content>(&mut self, caller: NodeId, message: &C) {
        self.of_machine[place(caller)] += 1;
        self.addresses += message.addresses();
        self.control_bits += C::CONTROL_BITS;
    }

    pub(crate) fn counts(&self, rounds: u32) -> Counts {
        Counts {
            rounds,
            messages: self.of_machine.iter().copied().map(u64::from).sum(),
            most_messages: self.of_machine.iter().copied().max().unwrap_or_default().into(),
            addresses: self.addresses,
            bits: self.addresses * self.bits_of_address + self.control_bits,
        }
    }
}
