//! Cycles of dependencies, by the kinds of their edges.

use super::observe::text;
use super::{Edge, Isolation, Object, Order, Outcome, Phenomenon, Reason, Transaction, Violation};
use crate::graph::{Paths, tangles};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The kinds of dependencies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Ww,
    Wr,
    Rw,
}

impl Reason {
    const fn kind(self) -> Option<Kind> {
        match self {
            Self::Ww { .. } => Some(Kind::Ww),
            Self::Wr { .. } => Some(Kind::Wr),
            Self::Rw { .. } => Some(Kind::Rw),
            Self::Session | Self::RealTime => None,
        }
    }

    const fn object(self) -> Option<Object> {
        match self {
            Self::Ww { object, .. } | Self::Wr { object, .. } | Self::Rw { object, .. } => Some(object),
            Self::Session | Self::RealTime => None,
        }
    }

    /// The weakest order that has this edge.
    const fn order(self) -> Order {
        match self {
            Self::Session => Order::Session,
            Self::RealTime => Order::RealTime,
            Self::Ww { .. } | Self::Wr { .. } | Self::Rw { .. } => Order::Any,
        }
    }
}

/// What cycles to look for: an edge of one kind, and a way back of edges of some kinds.
#[derive(Clone, Copy)]
struct Search {
    pivot: Kind,
    /// The way back has dependencies up to this kind.
    back: Kind,
    /// It may have two rw in a row.
    adjacent: bool,
    /// And the edges of this order.
    order: Order,
}

/// How many edges of a tangle are tried for the shortest cycle.
const TRIES: usize = 32;

/// From the worst: G0, G1c, G-single, G-nonadjacent, G2-item.
const SEARCHES: [(Kind, Kind, bool); 5] = [
    (Kind::Ww, Kind::Ww, false),
    (Kind::Wr, Kind::Wr, false),
    (Kind::Rw, Kind::Wr, false),
    (Kind::Rw, Kind::Rw, false),
    (Kind::Rw, Kind::Rw, true),
];

/// The nodes of this graph are transactions and, behind them, moments in which one ends.
struct Graph {
    edges: Vec<Vec<Edge>>,
}

/// An edge and where it begins.
type Step<'a> = (usize, &'a Edge);

/// For each tangle of transactions one of its worst and shortest cycles.
pub(super) fn find(
    history: &[Transaction],
    dependencies: Vec<Vec<Edge>>,
    isolation: Isolation,
    order: Order,
) -> Vec<Violation> {
    let mut graph = Graph { edges: dependencies };
    if order >= Order::Session {
        graph.add_sessions(history);
    }
    if order == Order::RealTime {
        graph.add_real_time(history);
    }
    let has_cycles = |adjacent| {
        let search = Search { pivot: Kind::Rw, back: Kind::Rw, adjacent, order };
        graph.tangles(search).iter().any(Option::is_some)
    };
    let searches = match isolation {
        _ if has_cycles(false) => &SEARCHES[..],
        Isolation::Serializable if has_cycles(true) => &SEARCHES[4..],
        _ => &[],
    };
    let mut violations = Vec::new();
    let mut told = vec![false; graph.edges.len()];
    for order in [Order::Any, Order::Session, Order::RealTime].into_iter().filter(|&each| each <= order) {
        for &(pivot, back, adjacent) in searches {
            if adjacent && isolation == Isolation::Snapshot {
                continue;
            }
            for cycle in graph.cycles(&told, Search { pivot, back, adjacent, order }) {
                let cycle = without_moments(&cycle, history.len());
                cycle.iter().for_each(|(from, _)| told[*from] = true);
                violations.push(Violation {
                    phenomenon: name(&cycle),
                    order,
                    transactions: cycle.iter().map(|(from, _)| *from).collect(),
                    explanation: cycle.iter().map(|(from, edge)| explain(history, *from, edge)).collect(),
                });
            }
        }
    }
    violations
}

impl Graph {
    /// Each transaction comes after the one that its process ran before. One whose end is unknown comes before none.
    fn add_sessions(&mut self, history: &[Transaction]) {
        let mut last = BTreeMap::new();
        for (index, transaction) in history.iter().enumerate() {
            if let Some(&before) = last.get(&transaction.process) {
                let before: usize = before;
                self.edges[before].push(Edge { to: index, reason: Reason::Session });
            }
            if transaction.outcome != Outcome::Unknown {
                last.insert(transaction.process, index);
            }
        }
    }

    /// Each transaction comes after all that ended before it began. The moments of ends make a chain, so that the edges
    /// are as many as transactions, not as pairs of them.
    fn add_real_time(&mut self, history: &[Transaction]) {
        let known = |&(_, transaction): &(_, &Transaction)| transaction.outcome != Outcome::Unknown;
        let end = |(index, transaction): (usize, &Transaction)| Some((transaction.interval?.1, index));
        let mut ends: Vec<_> = history.iter().enumerate().filter(known).filter_map(end).collect();
        ends.sort_unstable();
        let moment = |place: usize| history.len() + place;
        let reason = Reason::RealTime;
        for (place, &(_, transaction)) in ends.iter().enumerate() {
            self.edges[transaction].push(Edge { to: moment(place), reason });
            let next = (place + 1 < ends.len()).then(|| Edge { to: moment(place + 1), reason });
            self.edges.push(next.into_iter().collect());
        }
        for (index, transaction) in history.iter().enumerate() {
            let Some((begin, _)) = transaction.interval else { continue };
            if let Some(place) = ends.partition_point(|&(end, _)| end < begin).checked_sub(1) {
                self.edges[moment(place)].push(Edge { to: index, reason });
            }
        }
    }

    /// The edges of a way back. Its states are nodes, each twice: reached by an rw, after which no rw may follow, or not.
    fn steps(&self, state: usize, search: Search) -> impl Iterator<Item = (usize, Step<'_>)> {
        let (node, after_rw) = (state / 2, state % 2 == 1);
        self.edges[node].iter().filter_map(move |edge| {
            let kind = edge.reason.kind();
            let admitted =
                kind.map_or_else(|| edge.reason.order() <= search.order, |kind| kind <= search.back);
            let barred = after_rw && kind == Some(Kind::Rw);
            (admitted && !barred).then(|| (search.state_after(edge), (node, edge)))
        })
    }

    /// For each state the tangle that it is part of.
    fn tangles(&self, search: Search) -> Vec<Option<usize>> {
        let search = Search { back: search.back.max(search.pivot), ..search };
        tangles(2 * self.edges.len(), |state| self.steps(state, search).map(|(next, _)| next))
    }

    /// A short cycle for each tangle in which nothing has been told of yet.
    fn cycles(&self, told: &[bool], search: Search) -> Vec<Vec<Step<'_>>> {
        let states = 2 * self.edges.len();
        let tangles = self.tangles(search);
        let is_told = |state: &usize| told[state / 2];
        let done: BTreeSet<usize> = (0..states).filter(is_told).filter_map(|state| tangles[state]).collect();
        let mut pivots: BTreeMap<usize, Vec<Step<'_>>> = BTreeMap::new();
        for node in 0..self.edges.len() {
            let Some(tangle) = tangles[2 * node].filter(|tangle| !done.contains(tangle)) else { continue };
            for edge in &self.edges[node] {
                let is_pivot = edge.reason.kind() == Some(search.pivot);
                if is_pivot && tangles[search.state_after(edge)] == Some(tangle) {
                    pivots.entry(tangle).or_default().push((node, edge));
                }
            }
        }
        let mut paths = Paths::new(if pivots.is_empty() { 0 } else { states });
        let mut cycles = Vec::new();
        for mut pivots in pivots.into_values() {
            let stride = pivots.len().div_ceil(TRIES);
            let mut best: Option<Vec<Step<'_>>> = None;
            for (node, edge) in pivots.drain(..).step_by(stride) {
                let limit = best.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
                let back = paths
                    .shortest(search.state_after(edge), 2 * node, limit, |state| self.steps(state, search));
                if let Some(mut back) = back {
                    back.insert(0, (node, edge));
                    best = Some(back);
                }
            }
            cycles.extend(best);
        }
        cycles
    }
}

impl Search {
    fn state_after(self, edge: &Edge) -> usize {
        let after_rw = edge.reason.kind() == Some(Kind::Rw) && !self.adjacent;
        2 * edge.to + usize::from(after_rw)
    }
}

/// The same cycle, which begins with a dependency, with one edge from transaction to transaction for each way in time.
fn without_moments(cycle: &[Step<'_>], transactions: usize) -> Vec<(usize, Edge)> {
    let mut merged: Vec<(usize, Edge)> = Vec::new();
    for &(from, &edge) in cycle {
        match merged.last_mut() {
            Some((start, last)) if last.reason.kind().is_none() && edge.reason.kind().is_none() => {
                debug_assert!(*start < transactions, "a way in time starts where a transaction ends");
                last.to = edge.to;
                if edge.reason.order() > last.reason.order() {
                    last.reason = edge.reason;
                }
            }
            _ => merged.push((from, edge)),
        }
    }
    merged
}

fn name(cycle: &[(usize, Edge)]) -> Phenomenon {
    let kinds: Vec<_> = cycle.iter().map(|(_, edge)| edge.reason.kind()).collect();
    let object = cycle[0].1.reason.object();
    let one_object = cycle.iter().all(|(_, edge)| edge.reason.object() == object);
    let is_rw = |at: usize| kinds[at % kinds.len()] == Some(Kind::Rw);
    match (0..kinds.len()).filter(|&at| is_rw(at)).count() {
        0 if kinds.contains(&Some(Kind::Wr)) => Phenomenon::G1c,
        0 => Phenomenon::G0,
        1 if one_object && !kinds.contains(&Some(Kind::Wr)) => Phenomenon::LostUpdate,
        1 => Phenomenon::GSingle,
        _ if (0..kinds.len()).any(|at| is_rw(at) && is_rw(at + 1)) => Phenomenon::G2Item,
        _ => Phenomenon::GNonadjacent,
    }
}

/// An edge in words, as a line.
pub(super) fn explain(history: &[Transaction], from: usize, edge: &Edge) -> String {
    let to = edge.to;
    let mut line = format!("  T{from} ");
    let written = match edge.reason {
        Reason::Ww { object, before, after } => {
            write!(line, "wrote {before} to {object}, and T{to} wrote {after} after it")
        }
        Reason::Wr { object, value } => write!(line, "wrote {value} to {object}, which T{to} read"),
        Reason::Rw { object, seen, after } => {
            write!(line, "read {} in {object}, and T{to} wrote {after} after it", text(seen))
        }
        Reason::Session => write!(line, "came before T{to} in process {}", history[to].process),
        Reason::RealTime => {
            let end = history[from].interval.map(|(_, end)| end);
            let begin = history[to].interval.map(|(begin, _)| begin);
            write!(line, "ended at {}, before T{to} began at {}", text(end), text(begin))
        }
    };
    written.expect("a string takes all that is written to it");
    line + "\n"
}
