//! What the resolved nodes below a node make of it, from RT alone (section 2.1, rules for RT tree resolve).

use crate::tree::Node;
use crate::{Defect, Processes, Put, Rule, Sequence, Shape, Value};

/// RT(σwvu) of the v-th and the u-th child of σw, and RT(σwv) where both are the same.
fn resolved<V: Value>(node: &Node<V>, v: usize, u: usize, shape: &Shape) -> Option<Option<V>> {
    let child = &node.children[v];
    let below = if v == u { None } else { child.children.get(if u < v { u } else { u - 1 }) };
    if shape.defect == Some(Defect::NoColouring) && v != u {
        return below.and_then(|node| node.resolved);
    }
    child.resolved.or_else(|| below?.resolved)
}

/// Whether the v-th child is RT-confirmed on d: t + 1 say that it says d. If it is resolved to d, all do, by their colour.
fn is_confirmed<V: Value>(node: &Node<V>, v: usize, d: Option<V>, shape: &Shape) -> bool {
    let child = &node.children[v];
    match child.resolved {
        Some(value) if shape.defect != Some(Defect::NoColouring) => value == d,
        _ => child.children.iter().filter(|below| below.resolved == Some(d)).count() > shape.t,
    }
}

/// The values for which enough children could be RT-confirmed.
fn candidates<V: Value>(node: &Node<V>, shape: &Shape) -> Vec<Option<V>> {
    let mut found = Vec::<(Option<V>, usize)>::new();
    let mut count = |value: Option<V>| match found.iter_mut().find(|(d, _)| *d == value) {
        Some((_, confirmed)) => *confirmed += 1,
        None => found.push((value, 1)),
    };
    for child in &node.children {
        match child.resolved {
            Some(value) => count(value),
            None => {
                let mut values = child.children.iter().filter_map(|below| below.resolved).collect::<Vec<_>>();
                values.sort_unstable();
                values
                    .chunk_by(PartialEq::eq)
                    .filter(|same| same.len() > shape.t)
                    .for_each(|same| count(same[0]));
            }
        }
    }
    found.retain(|(_, confirmed)| confirmed + 1 >= shape.quorum());
    found.into_iter().map(|(value, _)| value).collect()
}

/// RESOLVE RULE: t + 1 RT-voters, each with n − t RT-confirmed of which RT says that it supports them.
///
/// As among the voters of IT, w is one of the n − t if t + 1 of its children are resolved to d.
///
/// Says who is confirmed, too, as far as voters say so.
fn resolve_rule<V: Value>(node: &Node<V>, is_root: bool, shape: &Shape) -> Option<(Option<V>, Processes)> {
    let children = node.children.len();
    candidates(node, shape).into_iter().find_map(|d| {
        let confirmed = (0..children).filter(|&v| is_confirmed(node, v, d, shape)).collect::<Vec<_>>();
        let echoing = node.children.iter().filter(|child| child.resolved == Some(d)).count();
        let own = usize::from(!is_root && echoing > shape.t && shape.defect != Some(Defect::PrintedResolve));
        let is_voter = |&u: &usize| {
            let supported = confirmed.iter().filter(|&&v| resolved(node, v, u, shape) == Some(d)).count();
            supported + if node.children[u].resolved == Some(d) { own } else { 0 } >= shape.quorum()
        };
        let voters = (0..children).filter(is_voter).collect::<Vec<_>>();
        let is_used = |v: usize| voters.iter().any(|&u| resolved(node, v, u, shape) == Some(d));
        let used = || confirmed.iter().filter(|&&v| is_used(v)).map(|&v| node.children[v].process).collect();
        (voters.len() > shape.t).then(|| (d, used()))
    })
}

/// RELAXED RULE: all children are resolved, and n − t − 1 to the same.
fn relaxed_rule<V: Value>(node: &Node<V>, shape: &Shape) -> Option<Option<V>> {
    let mut values = node.children.iter().map(|child| child.resolved).collect::<Option<Vec<_>>>()?;
    values.sort_unstable();
    values.chunk_by(PartialEq::eq).find(|same| same.len() + 1 >= shape.quorum()).map(|same| same[0])
}

/// SPECIAL-BOT RULE: which child of σw is the last unresolved, when t + 1 − |σw| are resolved to ⊥.
///
/// From round |σwu| + 3 on: if another resolves σwu by IT-TO-RT, it does that in the round before, and it shows in RT by now. And not in the last
/// round, where no one could follow, and no tree grows any more. As printed the rule puts ⊥ where others put a value (docs/byzantine.md).
pub(crate) fn special_bot<V: Value>(
    node: &Node<V>,
    level: usize,
    round: usize,
    shape: &Shape,
) -> Option<usize> {
    let is_time = round >= level + 4 && round <= shape.phi || shape.defect == Some(Defect::PrintedSpecialBot);
    let mut unresolved = (0..node.children.len()).filter(|&v| node.children[v].resolved.is_none());
    let (last, None) = (unresolved.next()?, unresolved.next()) else { return None };
    let bottoms = node.children.iter().filter(|child| child.resolved == Some(None)).count();
    (is_time && level > 0 && bottoms + level > shape.t).then_some(last)
}

/// Which rules a pass over the tree applies.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) round: usize,
    /// Whether SPECIAL-BOT is applied, too.
    pub(crate) special: bool,
}

/// Applies the rules to all nodes from the leaves up, once: no rule at a node looks at what is above it.
pub(crate) fn climb<V: Value>(
    node: &mut Node<V>,
    sequence: Sequence,
    pass: Pass,
    shape: &Shape,
    puts: &mut Vec<Put<V>>,
) {
    if node.resolved.is_some() || node.children.is_empty() {
        return;
    }
    for child in &mut node.children {
        climb(child, sequence.then(child.process), pass, shape, puts);
    }
    let is_root = sequence.is_empty();
    if pass.special
        && shape.defect != Some(Defect::NoSpecialBot)
        && let Some(last) = special_bot(node, sequence.len(), pass.round, shape)
    {
        node.children[last].resolved = Some(None);
        puts.push(Put::new(sequence.then(node.children[last].process), None, Rule::SpecialBot));
    }
    let by_voters = resolve_rule(node, is_root, shape);
    let by_voters =
        by_voters.map(|(value, confirmed)| Put { sequence, value, rule: Rule::Resolve, confirmed });
    let found = by_voters.or_else(|| {
        if is_root {
            // SPECIAL-ROOT-BOT RULE.
            let bottoms = node.children.iter().filter(|child| child.resolved == Some(None)).count();
            (bottoms > shape.t).then(|| Put::new(sequence, None, Rule::SpecialRootBot))
        } else {
            relaxed_rule(node, shape).map(|value| Put::new(sequence, value, Rule::Relaxed))
        }
    });
    if let Some(put) = found {
        node.resolved = Some(put.value);
        puts.push(put);
    }
}
