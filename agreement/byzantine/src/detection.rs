//! Who is found to be faulty by what it says (section 2.1, rules for fault detection and masking).

use crate::tree::Node;
use crate::votes::{elected, leaning};
use crate::{Defect, Processes, Sequence, Shape, Value};

/// What u owes since σw was heard of three rounds ago: it must have found w to be faulty, and say ⊥ of all that w says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Duty {
    /// σw.
    pub(crate) sequence: Sequence,
    /// u.
    pub(crate) process: u8,
}

/// *Not Voter* and *Not IT-to-RT*, of all σw that were heard of one and two rounds ago: who is faulty by them, this process excepted.
///
/// A correct w after a correct p, in σ = βp, has n − t − 2 correct children, one less than *Not Voter* asks for: p is none of them. As
/// printed, the rule relies on βp being resolved, which it is only later in the same round. So p is counted if βp is about to be
/// resolved (docs/byzantine.md).
pub(crate) fn suspects<V: Value>(root: &mut Node<V>, round: usize, shape: &Shape) -> Processes {
    let mut found = Processes::default();
    let Some(depth) = round.checked_sub(2) else { return found };
    root.unresolved(Sequence::EMPTY, depth, &mut |sequence, node| {
        let is_elected = elected(node, sequence.is_empty(), shape).is_some();
        if let Some(process) = sequence.last()
            && process != shape.me
            && !is_elected
        {
            found.insert(process);
        }
        let counted =
            usize::from(is_elected && !sequence.is_empty() && shape.defect != Some(Defect::PrintedNotVoter));
        for child in &node.children {
            let echoing = child.children.iter().filter(|echo| echo.value == child.value).count();
            if child.process != shape.me && echoing + counted + 1 < shape.n - shape.t {
                found.insert(child.process);
            }
        }
    });
    found
}

/// Who owes what in the next round by *Not Masking*: σw, heard of two rounds ago, is leaning towards d, and t + 1 say that u said otherwise.
pub(crate) fn duties<V: Value>(root: &mut Node<V>, round: usize, shape: &Shape) -> Vec<Duty> {
    let mut duties = Vec::new();
    let Some(depth) = round.checked_sub(2).filter(|&depth| depth > 0) else { return duties };
    root.unresolved(Sequence::EMPTY, depth, &mut |sequence, node| {
        let Some(d) = leaning(node, shape) else { return };
        for child in &node.children {
            let mut others =
                child.children.iter().map(|echo| echo.value).filter(|&value| value != d).collect::<Vec<_>>();
            others.sort_unstable();
            let is_otherwise = others.chunk_by(PartialEq::eq).any(|same| same.len() > shape.t);
            if child.process != shape.me && is_otherwise {
                duties.push(Duty { sequence, process: child.process });
            }
        }
    });
    duties
}

/// *Not Masking*, in two steps. (a): what u says of w in this round counts as ⊥; returns what u is guilty of, unless it turns out to
/// be resolved by the end of the round, when u may be correct and silent.
pub(crate) fn mask_neglected<V: Value>(
    root: &mut Node<V>,
    round: usize,
    duties: &[Duty],
) -> Vec<(Sequence, Duty)> {
    let mut neglected = Vec::new();
    let due = duties
        .iter()
        .filter(|duty| root.resolved(duty.sequence.members()).is_none())
        .cloned()
        .collect::<Vec<_>>();
    let Some(depth) = round.checked_sub(1).filter(|_| !due.is_empty()) else { return neglected };
    root.unresolved(Sequence::EMPTY, depth, &mut |sequence, node| {
        for duty in due.iter().filter(|duty| duty.sequence.last() == sequence.last()) {
            let said = node.children.iter_mut().find(|child| child.process == duty.process);
            if let Some(child) = said.filter(|child| child.value.is_some()) {
                child.value = None;
                neglected.push((sequence, duty.clone()));
            }
        }
    });
    neglected
}

/// (b): who of the neglectful is faulty, now that the round's nodes are resolved.
pub(crate) fn neglectful<V: Value>(root: &Node<V>, neglected: &[(Sequence, Duty)]) -> Processes {
    let is_open = |sequence: &Sequence| root.resolved(sequence.members()).is_none();
    let guilty = neglected.iter().filter(|(sequence, duty)| is_open(sequence) && is_open(&duty.sequence));
    guilty.map(|(_, duty)| duty.process).collect()
}
