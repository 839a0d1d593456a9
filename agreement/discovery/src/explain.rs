//! A worked example, round by round, as text.

use crate::algorithm::Setting;
use crate::model::Call;
use crate::network::{self, Acted};
use crate::sublogarithmic::{Constants, Message, Step, Sublogarithmic};
use crate::{Error, Shape};
use fulmar_node::NodeId;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Draws a run of [`Sublogarithmic`]: who calls whom in each round, the clusters, and how many addresses machines know.
///
/// # Errors
/// As those of [`network::run`], which this algorithm does not come to.
///
/// # Panics
/// If there are more machines than [`network::CHECKED`].
pub fn explain(shape: Shape, machines: usize, seed: u64) -> Result<String, Error> {
    let setting = Setting::new(shape, machines, seed);
    let (constants, topology) = (Constants::default(), &setting.topology);
    let plan = setting.plan(&constants);
    // Writing to a string does not fail.
    let mut text = format!("{machines} machines, {}. Whom each knows at the beginning:\n", shape.name());
    for node in topology.nodes() {
        let _ = writeln!(text, "  {node:<4} {}", listed(topology.neighbours(node)));
    }
    let mut all = setting.sublogarithmic(&constants);
    let counts = network::run(&mut all, topology, u32::MAX, |acted| {
        let _ = writeln!(text, "\nRound {}: {}", acted.round, title(plan.step(acted.round)));
        draw(&mut text, acted);
    })?;
    let per_machine = counts.messages as f64 / machines as f64;
    let (rounds, messages) = (counts.rounds, counts.messages);
    let _ = writeln!(
        text,
        "\nEveryone knows all, after {rounds} rounds and {messages} messages, {per_machine:.1} a machine."
    );
    Ok(text)
}

const fn title(step: Step) -> &'static str {
    match step {
        Step::Request => "clusters ask a neighbour to merge",
        Step::Forward => "members hand on what their leader is asked",
        Step::Offer => "joinees make offers",
        Step::Accept => "joiners accept them",
        Step::Explore(_) => "who knows no centre explores",
        Step::Merge(_) => "who knows a centre joins it",
        Step::Split(_) => "large clusters split",
        Step::Survey => "leaders explore until they know all, and tell their members",
    }
}

fn draw(text: &mut String, acted: &Acted<'_, Sublogarithmic>) {
    let mut said: BTreeMap<(NodeId, String), Vec<NodeId>> = BTreeMap::new();
    for (from, call) in acted.calls {
        said.entry((*from, phrase(call))).or_default().push(call.to());
    }
    for ((from, phrase), to) in said {
        let _ = writeln!(text, "  {from:<4} {phrase} {}", listed(&to));
    }
    let clusters = acted.machines.iter().map(Sublogarithmic::members).filter(|members| members.len() > 1);
    let clusters: Vec<String> = clusters.map(|members| format!("[{}]", listed(members))).collect();
    if !clusters.is_empty() {
        let _ = writeln!(text, "  clusters: {}", clusters.join(" "));
    }
    let ledger = acted.ledger.expect("the network is small");
    let known = (0..).map(NodeId).take(acted.machines.len()).map(|node| ledger.count(node).to_string());
    let _ = writeln!(text, "  known: {}", known.collect::<Vec<_>>().join(" "));
}

fn phrase(call: &Call<Message>) -> String {
    let said = match call {
        Call::Pull(_) => return "pulls from".into(),
        Call::Push(_, said) => said,
    };
    match said {
        Message::Requests(leaders) => format!("says that {} would merge, to", listed(leaders)),
        Message::Offer(..) => "offers to take in".into(),
        Message::Join(cluster) => format!("joins, with {}, to", listed(&cluster.members)),
        Message::Follow(leader) => format!("says to follow {leader}, to"),
        Message::Lead(cluster) => format!("says to lead {}, to", listed(&cluster.members)),
        Message::Leader(leader) => format!("says that it follows {leader}, to"),
        Message::Survey(_) => "says all, to".into(),
    }
}

fn listed(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
