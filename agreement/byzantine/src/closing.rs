//! Which branches need not be asked about any longer (section 2.1, branch closing and early resolve rules).
//!
//! The DECAY RULE is in [`decay`]; the two others find that all correct processes will resolve σ in the next round.

use crate::tree::Node;
use crate::{Defect, Processes, Shape, Value};

/// DECAY RULE: what was resolved in an earlier round, is closed now.
pub(crate) fn decay<V>(node: &mut Node<V>) {
    if node.resolved.is_some() {
        node.closed = true;
        node.children = Box::default();
    }
    node.children.iter_mut().for_each(decay);
}

/// EARLY-IT-TO-RT RULE, of a σ that was heard of in the round before: all of its children that are not known to be faulty echo it.
///
/// The rule as printed lets one child differ and does not say that the others echo what is put; see docs/byzantine.md.
pub(crate) fn is_echoed<V: Value>(node: &Node<V>, faulty: Processes, shape: &Shape) -> bool {
    let differs = |child: &&Node<V>| !faulty.contains(child.process) && child.value != node.value;
    node.children.iter().filter(differs).count() <= usize::from(shape.defect == Some(Defect::PrintedEarly))
}

/// STRONG-IT-TO-RT RULE, of a σ that was heard of two rounds ago: all of its children but the known faulty and at most one other
/// say so, and say of each other that they do; and they are as many as the others need to resolve σ.
pub(crate) fn is_strongly_echoed<V: Value>(
    node: &Node<V>,
    faulty: Processes,
    is_root: bool,
    shape: &Shape,
) -> bool {
    let children =
        (0..node.children.len()).filter(|&v| !faulty.contains(node.children[v].process)).collect::<Vec<_>>();
    let mut exceptions: Option<[usize; 2]> = None;
    for &v in &children {
        for &u in &children {
            if node.heard(v, u) == node.value {
                continue;
            }
            // The one that may differ is either of the first two that do.
            let before = exceptions.unwrap_or([v, u]);
            let [first, second] = before.map(|exception| exception == v || exception == u);
            exceptions = match (first, second) {
                (true, true) => Some(before),
                (true, false) => Some([before[0]; 2]),
                (false, true) => Some([before[1]; 2]),
                (false, false) => return false,
            };
        }
    }
    let agreeing = children.len() - usize::from(exceptions.is_some());
    agreeing >= shape.n - shape.t - usize::from(!is_root) || shape.defect == Some(Defect::PrintedStrong)
}
