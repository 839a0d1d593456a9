//! One execution, round by round.

use super::INPUTS;
use fulmar_byzantine::adversaries::{Act, Deed, Liar, Plan, Puppets, Setting};
use fulmar_byzantine::runs::{Adversary, EarlyStopping, Execution, Protocol, Scene};
use fulmar_byzantine::{Agreement, Decision, Message, Processes, Put, Sequence, Synchronous};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What each correct process heard of each that lies, in the last round.
struct Overheard<A> {
    adversary: A,
    heard: BTreeMap<(u8, u8), Message<u8>>,
}

impl<A: Adversary<Agreement<u8>>> Adversary<Agreement<u8>> for Overheard<A> {
    fn look(&mut self, scene: &Scene<'_, Agreement<u8>>) {
        self.heard.clear();
        self.adversary.look(scene);
    }

    fn message(&mut self, from: u8, to: u8) -> Option<Message<u8>> {
        let message = self.adversary.message(from, to);
        if let Some(message) = &message {
            self.heard.insert((from, to), message.clone());
        }
        message
    }
}

/// An execution among `n` processes, of which the last ⌊(n − 1)/3⌋ have two faces, as text.
pub fn explain(n: usize) -> String {
    let setting = Setting::optimal(n, INPUTS.into());
    let plan = two_faced(&setting);
    let protocol = EarlyStopping::<u8>::default();
    let make = |me, input| protocol.process(&setting, me, input);
    let processes = (0..).zip(&plan.inputs).map(|(me, &input)| make(me, input));
    let mut execution = Execution::new(processes.collect(), plan.lying());
    let mut adversary = Overheard { adversary: Puppets::new(&setting, &plan, make), heard: BTreeMap::new() };
    let mut text = opening(&setting, &plan);
    while !execution.is_over() {
        execution.step(&mut adversary);
        round(&mut text, &execution, &adversary.heard, &plan);
    }
    text
}

/// Correct processes begin with 1 and 2 in turn; the last ones seem to have begun with 1 to some and with 2 to others.
fn two_faced(setting: &Setting<Decision<u8>>) -> Plan<Decision<u8>> {
    let everybody = Processes::first(setting.n);
    let first_liar = setting.n - setting.t;
    let input = |process: u8| INPUTS[1 + usize::from(process % 2)];
    let targets = everybody.iter().filter(|process| process % 2 == 0).collect();
    let act = Act { targets, deed: Deed::Face(INPUTS[1]) };
    let liars = everybody.iter().filter(|&process| usize::from(process) >= first_liar);
    let liars = liars.map(|process| Liar { process, acts: vec![vec![act.clone()]; setting.rounds] });
    Plan {
        inputs: everybody
            .iter()
            .map(|process| if usize::from(process) < first_liar { input(process) } else { INPUTS[2] })
            .collect(),
        liars: liars.collect(),
        seed: 0,
    }
}

fn opening(setting: &Setting<Decision<u8>>, plan: &Plan<Decision<u8>>) -> String {
    let mut text = format!(
        "{} processes, of which up to {} may lie. Those that do: {}. To processes with even numbers they seem to have begun with 1, to\n\
         others with 2. The correct ones begin with:",
        setting.n,
        setting.t,
        names(plan.lying())
    );
    for (process, input) in (0_u8..).zip(&plan.inputs).filter(|&(process, _)| !plan.lying().contains(process))
    {
        let _ = write!(text, "  {process}: {}", decision(*input));
    }
    text.push_str(
        "\n\nBelow, 3·0 is what process 0 says that 3 said. A cell is what the process above it hears; · is silence, which repeats what was\n\
         heard before; ! is of who is known to lie, and counts as ⊥; = is what the node is resolved to by the end of the round.\n",
    );
    text
}

fn round(
    text: &mut String,
    execution: &Execution<Agreement<u8>>,
    heard: &BTreeMap<(u8, u8), Message<u8>>,
    plan: &Plan<Decision<u8>>,
) {
    let correct: Vec<(u8, &Agreement<u8>)> = (0..)
        .zip(execution.processes())
        .filter(|&(process, _)| !plan.lying().contains(process))
        .filter(|&(process, _)| {
            execution.halted_in(process.into()).is_none_or(|halted| halted >= execution.round())
        })
        .collect();
    let _ = write!(text, "\nRound {}\n{:>12}", execution.round(), "");
    for (process, _) in &correct {
        let _ = write!(text, "{process:>8}");
    }
    text.push('\n');
    let said =
        |from: u8, to: u8| heard.get(&(from, to)).or_else(|| execution.sent()[usize::from(from)].as_ref());
    let mut nodes: Vec<(Sequence, u8)> = Vec::new();
    for from in (0..).take(plan.inputs.len()) {
        let claims = correct.iter().filter_map(|&(to, _)| Some(&said(from, to)?.claims));
        nodes.extend(claims.flat_map(|claims| claims.iter().map(|&(node, _)| (node, from))));
    }
    nodes.sort_unstable();
    nodes.dedup();
    for (node, from) in nodes {
        let _ = write!(text, "{:>12}", path(&node.then(from)));
        for &(to, process) in &correct {
            let claim = said(from, to).and_then(|message| message.claims.get(&node));
            let mark = if process.faulty().contains(from) { "!" } else { "" };
            let resolved =
                process.resolved(&node.then(from)).map_or_else(String::new, |to| format!("={}", value(to)));
            let _ =
                write!(text, "{:>8}", format!("{}{mark}{resolved}", claim.map_or_else(|| "·".into(), value)));
        }
        text.push('\n');
    }
    let mut puts: BTreeMap<String, Processes> = BTreeMap::new();
    for &(number, process) in &correct {
        for put in process.puts() {
            puts.entry(described(put)).or_default().insert(number);
        }
    }
    for (put, by) in puts {
        let _ = writeln!(text, "  resolved: {put}, at {}", names(by));
    }
    for &(number, process) in &correct {
        if !process.faulty().is_empty() {
            let _ = writeln!(text, "  {number} knows to lie: {}", names(process.faulty()));
        }
        if execution.decided_in(number.into()) == Some(execution.round()) {
            let decided = process.decision().map_or_else(String::new, decision);
            let _ = writeln!(text, "  {number} decides {decided}");
        }
        if execution.halted_in(number.into()) == Some(execution.round()) {
            let _ = writeln!(text, "  {number} halts");
        }
    }
}

fn described(put: &Put<u8>) -> String {
    format!("{} = {} by {:?}", path(&put.sequence), value(put.value), put.rule)
}

fn path(node: &Sequence) -> String {
    let members: Vec<String> = node.members().iter().map(ToString::to_string).collect();
    if members.is_empty() { "the root".into() } else { members.join("·") }
}

fn value(value: Option<u8>) -> String {
    value.map_or_else(|| "⊥".into(), |value| value.to_string())
}

fn decision(decision: Decision<u8>) -> String {
    match decision {
        Decision::Value(value) => value.to_string(),
        Decision::Bottom => "⊥".into(),
        Decision::Bad => "BAD".into(),
    }
}

fn names(processes: Processes) -> String {
    let names: Vec<String> = processes.iter().map(|process| process.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_execution_is_shown_from_inputs_to_decisions() {
        for n in [4, 7] {
            let text = super::explain(n);
            for part in ["Round 1", "Round 2", "resolved:", "knows to lie", "decides", "halts"] {
                assert!(text.contains(part), "no {part} in\n{text}");
            }
        }
    }
}
