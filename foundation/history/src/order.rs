//! Total order broadcast (Défago, Schiper and Urbán, 2004): do all processes deliver the same messages in one order?
//!
//! A process is *correct* if it has not crashed by the end of the run. One that crashed and came back is correct, and its
//! log is what it delivered in all its lives. *Uniform* properties bind what crashed processes delivered, too: somebody
//! may have seen it.

#[cfg(test)]
mod tests;

use crate::graph::{Paths, tangles};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What happened at one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log<M> {
    /// Whether it has not crashed, or has come back.
    pub is_correct: bool,
    /// In the order in which it happened there.
    pub events: Vec<Event<M>>,
}

/// A step of a process. Messages that are broadcast differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// It asked for the message to be delivered by all.
    Broadcast(M),
    /// It delivered the message.
    Deliver(M),
}

/// What a broadcast may promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// What a correct process broadcast it delivers. True of a run that has come to rest.
    Validity,
    /// A process delivers a message at most once, and only if it was broadcast. Crashed ones, too.
    Integrity,
    /// What one process delivers all correct ones deliver. True of a run that has come to rest.
    Agreement,
    /// No two processes deliver two messages in different orders, nor do more of them in a circle.
    TotalOrder,
    /// Of two processes one has delivered a beginning of what the other has: total order without gaps. A replica that
    /// left a message out and went on is in a state of its own (*contamination*).
    Prefix,
    /// No process delivers a message before those that its sender had broadcast earlier.
    Fifo,
    /// No process delivers a message before those that its sender had broadcast or delivered earlier.
    Causal,
}

/// Whose deliveries are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of correct processes.
    Correct,
    /// Those of all.
    Uniform,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub property: Property,
    /// Why.
    pub explanation: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.explanation)
    }
}

/// The properties that do not hold, each with an example.
#[must_use]
pub fn check<M: Ord + fmt::Debug>(logs: &[Log<M>], properties: &[Property], scope: Scope) -> Vec<Violation> {
    let run = Run::new(logs, scope);
    let explain = |property| match property {
        Property::Validity => run.validity(),
        Property::Integrity => run.integrity(),
        Property::Agreement => run.agreement(),
        Property::TotalOrder => run.total_order(),
        Property::Prefix => run.prefix(),
        Property::Fifo => run.precedence(false),
        Property::Causal => run.precedence(true),
    };
    let violation = |&property| Some(Violation { property, explanation: explain(property)? });
    properties.iter().filter_map(violation).collect()
}

/// The process that delivered the first message before the second.
type Step<'a, M> = (usize, &'a M, &'a M);

struct Run<'a, M> {
    logs: &'a [Log<M>],
    /// By process.
    delivered: Vec<Vec<&'a M>>,
    /// The processes in scope.
    observed: Vec<usize>,
}

impl<'a, M: Ord + fmt::Debug> Run<'a, M> {
    fn new(logs: &'a [Log<M>], scope: Scope) -> Self {
        let delivery = |event: &'a Event<M>| match event {
            Event::Deliver(message) => Some(message),
            Event::Broadcast(_) => None,
        };
        let delivered = logs.iter().map(|log| log.events.iter().filter_map(delivery).collect()).collect();
        let is_observed = |&process: &usize| scope == Scope::Uniform || logs[process].is_correct;
        Self { logs, delivered, observed: (0..logs.len()).filter(is_observed).collect() }
    }

    fn correct(&self) -> impl Iterator<Item = usize> {
        (0..self.logs.len()).filter(|&process| self.logs[process].is_correct)
    }

    fn broadcasts(&self, process: usize) -> impl Iterator<Item = &'a M> {
        self.logs[process].events.iter().filter_map(|event| match event {
            Event::Broadcast(message) => Some(message),
            Event::Deliver(_) => None,
        })
    }

    fn validity(&self) -> Option<String> {
        self.correct().find_map(|process| {
            let delivered: BTreeSet<_> = self.delivered[process].iter().copied().collect();
            let lost = self.broadcasts(process).find(|message| !delivered.contains(message))?;
            Some(format!("process {process} broadcast {lost:?} and never delivered it"))
        })
    }

    fn integrity(&self) -> Option<String> {
        let broadcast: BTreeSet<_> =
            (0..self.logs.len()).flat_map(|process| self.broadcasts(process)).collect();
        self.delivered.iter().enumerate().find_map(|(process, messages)| {
            let mut seen = BTreeSet::new();
            messages.iter().find_map(|&message| {
                if !broadcast.contains(message) {
                    return Some(format!("process {process} delivered {message:?}, which nobody broadcast"));
                }
                let is_new = seen.insert(message);
                (!is_new).then(|| format!("process {process} delivered {message:?} twice"))
            })
        })
    }

    fn agreement(&self) -> Option<String> {
        let mut deliverers = BTreeMap::new();
        for &process in &self.observed {
            for &message in &self.delivered[process] {
                deliverers.entry(message).or_insert(process);
            }
        }
        self.correct().find_map(|process| {
            let delivered: BTreeSet<_> = self.delivered[process].iter().copied().collect();
            let (message, other) = deliverers.iter().find(|(message, _)| !delivered.contains(*message))?;
            Some(format!("process {other} delivered {message:?}, and process {process} did not"))
        })
    }

    /// The orders of all processes together have no cycle.
    fn total_order(&self) -> Option<String> {
        let mut numbers = BTreeMap::new();
        let mut edges: Vec<Vec<(usize, Step<'_, M>)>> = Vec::new();
        for &process in &self.observed {
            let mut last = None;
            for &message in &self.delivered[process] {
                let number = *numbers.entry(message).or_insert(edges.len());
                if number == edges.len() {
                    edges.push(Vec::new());
                }
                if let Some((before, first)) = last.replace((number, message)) {
                    let before: usize = before;
                    edges[before].push((number, (process, first, message)));
                }
            }
        }
        let tangles = tangles(edges.len(), |node| edges[node].iter().map(|&(next, _)| next));
        let tangled = (0..edges.len()).filter(|&node| tangles[node].is_some());
        let steps = |node: usize| edges[node].iter().copied();
        let mut paths = Paths::new(edges.len());
        let mut best: Option<Vec<_>> = None;
        for start in tangled.take(TRIES) {
            for (next, step) in steps(start).filter(|(next, _)| tangles[*next] == tangles[start]) {
                let limit = best.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
                if next != start
                    && let Some(mut cycle) = paths.shortest(next, start, limit, steps)
                {
                    cycle.insert(0, step);
                    best = Some(cycle);
                }
            }
        }
        let mut cycle = best?;
        // Several steps of one process are one.
        cycle.dedup_by(|next, step| {
            step.0 == next.0 && {
                step.2 = next.2;
                true
            }
        });
        let step =
            |(process, first, second)| format!("process {process} delivered {first:?} before {second:?}");
        Some(cycle.into_iter().map(step).collect::<Vec<_>>().join("; "))
    }

    fn prefix(&self) -> Option<String> {
        let longest = *self.observed.iter().max_by_key(|&&process| self.delivered[process].len())?;
        self.observed.iter().find_map(|&process| {
            let pairs = self.delivered[process].iter().zip(&self.delivered[longest]);
            let (place, (left, right)) = pairs.enumerate().find(|(_, (left, right))| left != right)?;
            Some(format!(
                "after {place} messages process {process} delivered {left:?}, and process {longest} {right:?}"
            ))
        })
    }

    /// Each delivered message comes after those that its sender knew of. It is enough to look at what the sender learnt
    /// since its last broadcast: what it knew before precedes that one.
    fn precedence(&self, is_causal: bool) -> Option<String> {
        let mut direct: BTreeMap<&M, (usize, Vec<&M>)> = BTreeMap::new();
        for (process, log) in self.logs.iter().enumerate() {
            let mut learnt = Vec::new();
            for event in &log.events {
                match event {
                    Event::Broadcast(message) => {
                        direct.insert(message, (process, std::mem::replace(&mut learnt, vec![message])));
                    }
                    Event::Deliver(message) if is_causal => learnt.push(message),
                    Event::Deliver(_) => {}
                }
            }
        }
        self.observed.iter().find_map(|&process| {
            let mut delivered = BTreeSet::new();
            self.delivered[process].iter().find_map(|&message| {
                delivered.insert(message);
                let (sender, before) = direct.get(message)?;
                let missing = before.iter().find(|before| !delivered.contains(*before))?;
                Some(format!(
                    "process {process} delivered {message:?} without {missing:?}, which process {sender} \
                     had broadcast or delivered before it broadcast {message:?}"
                ))
            })
        })
    }
}

/// How many messages are tried for the shortest cycle.
const TRIES: usize = 32;
