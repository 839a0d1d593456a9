//! Who votes for what, from IT alone (section 2.1, rules for IT-to-RT resolve).
//!
//! All is said of one node σw, with the levels σwv and σwvu below it. Of the root there is no w: what w would add is left out there.

use crate::tree::Node;
use crate::{Defect, Shape, Value};

/// What is in more than half of `values`, if anything is (Boyer and Moore).
fn majority<V: PartialEq + Copy>(values: impl Iterator<Item = V> + Clone) -> Option<V> {
    let mut lead = 0_usize;
    let mut leader = None;
    for value in values.clone() {
        if lead == 0 {
            leader = Some(value);
        }
        if leader == Some(value) { lead += 1 } else { lead -= 1 }
    }
    let (all, for_it) =
        values.fold((0, 0), |(all, for_it), value| (all + 1, for_it + usize::from(leader == Some(value))));
    leader.filter(|_| 2 * for_it > all)
}

/// The IT-TO-RT RULE: the value for which σw has n − t voters.
///
/// A process v is *confirmed* if n − t support it: w, if it says d itself; v, if it says that w says d; and each u that says that v says so.
/// A process u is a *voter* if it supports n − t confirmed ones. That u supports w when it says that w said d is not among the
/// paper's definitions, but in its notes: else a correct w with n − t − 1 correct children had no voters (docs/byzantine.md).
pub(crate) fn elected<V: Value>(node: &Node<V>, is_root: bool, shape: &Shape) -> Option<Option<V>> {
    let quorum = shape.quorum();
    let children = node.children.len();
    // With n − t of at most n for it, a confirmed value is that of more than half.
    let rows =
        (0..children).map(|v| majority((0..children).map(move |u| node.heard(v, u)))).collect::<Vec<_>>();
    let d = majority(rows.iter().flatten().copied())?;
    let own = usize::from(!is_root && node.value == d);
    let confirmed = (0..children)
        .map(|v| own + (0..children).filter(|&u| node.heard(v, u) == d).count() >= quorum)
        .collect::<Vec<_>>();
    let supported_own = if shape.defect == Some(Defect::PrintedVoter) { 0 } else { own };
    let is_voter = |&u: &usize| {
        let supported = (0..children).filter(|&v| confirmed[v] && node.heard(v, u) == d).count();
        supported + if node.heard(u, u) == d { supported_own } else { 0 } >= quorum
    };
    (own + (0..children).filter(is_voter).count() >= quorum).then_some(d)
}

/// What σw is leaning towards: the value of t + 1 *unconfirmed voters*, each of which supports n − t, confirmed or not.
pub(crate) fn leaning<V: Value>(node: &Node<V>, shape: &Shape) -> Option<Option<V>> {
    let children = node.children.len();
    let mut found = Vec::<(Option<V>, usize)>::new();
    for u in 0..children {
        let Some(d) = majority((0..children).map(|v| node.heard(v, u))) else { continue };
        let supported = (0..children).filter(|&v| node.heard(v, u) == d).count();
        if supported + usize::from(node.heard(u, u) == d) >= shape.n - shape.t {
            match found.iter_mut().find(|(value, _)| *value == d) {
                Some((_, voters)) => *voters += 1,
                None => found.push((d, 1)),
            }
        }
    }
    found.into_iter().find(|(_, voters)| *voters > shape.t).map(|(d, _)| d)
}
