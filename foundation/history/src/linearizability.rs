//! Linearizability (Herlihy and Wing, 1990): does each operation seem to take place at once, at some moment between
//! its invocation and its response?

mod models;
#[cfg(test)]
mod tests;

pub use models::{KeyValue, KeyValueOperation, Register, RegisterOperation, RegisterOutput};

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

/// A sequential object, of which a value is a state.
pub trait Model: Clone + Ord + fmt::Debug {
    /// What one can ask of it.
    type Operation: fmt::Debug;
    /// What it answers.
    type Output: PartialEq + fmt::Debug;
    /// The name of a part that is an object of its own.
    type Part: Ord + fmt::Debug;

    /// Carries out one operation.
    fn apply(&mut self, operation: &Self::Operation) -> Self::Output;

    /// The only part that the operation reads or changes. A history is linearizable if those of its parts are
    /// (Herlihy and Wing, §3.1: locality), and many short ones are checked much faster than a long one.
    fn part(operation: &Self::Operation) -> Self::Part;
}

/// An operation that was invoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<O, R> {
    /// Who invoked it.
    pub process: u64,
    /// When, by any clock that all processes share. One call comes before another if its response is earlier than the
    /// other's invocation, not if they are at the same time.
    pub invoked: u64,
    /// What was asked.
    pub operation: O,
    /// When the response came, and what it said. Without one the operation may take place at any time after its
    /// invocation, or never.
    pub response: Option<(u64, R)>,
}

/// What [`check`] is given of a model.
pub type CallOf<M> = Call<<M as Model>::Operation, <M as Model>::Output>;

/// Why there is no linearization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The longest order that explains its outputs: indices in the history.
    pub longest: Vec<usize>,
    /// Those of which one would have to come next, and none can.
    pub stuck: Vec<usize>,
    explanation: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explanation)
    }
}

impl Error for Counterexample {}

/// Looks for a linearization of what was asked of an object whose state was `initial`.
///
/// This is Wing and Gong's search (1993) with the memory of Lowe (2017): what has been linearized, and the state that
/// gave, is not tried twice. The problem is NP-complete: time grows with the length of the history, but exponentially
/// with how many calls of one part overlap, and a call without a response overlaps all that come later.
///
/// # Errors
///
/// If there is none. The counterexample is that of the first part, by name, that has none.
///
/// # Panics
///
/// If a response is earlier than its invocation.
pub fn check<M: Model>(initial: &M, history: &[CallOf<M>]) -> Result<(), Counterexample> {
    let mut parts: BTreeMap<M::Part, Vec<usize>> = BTreeMap::new();
    for (index, call) in history.iter().enumerate() {
        let responded = call.response.as_ref().map_or(u64::MAX, |response| response.0);
        assert!(call.invoked <= responded, "call {index} has a response before its invocation");
        parts.entry(M::part(&call.operation)).or_default().push(index);
    }
    for (part, calls) in parts {
        Search::new(history, &calls).run(initial).map_err(|stuck| stuck.explain(history, &part))?;
    }
    Ok(())
}

/// The end of a list of events.
const END: usize = usize::MAX;

/// The events of a part in the order of time, without the calls that have been linearized: Wing and Gong's list, of
/// which calls are lifted and put back.
struct Search<'a, M: Model> {
    history: &'a [CallOf<M>],
    /// The call of each event, and whether the event is its response. Event 0 is the head of the list, and no event.
    events: Vec<(usize, bool)>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The events of each call: its invocation and its response, or [`END`] without one.
    places: Vec<(usize, usize)>,
    /// The calls of this part, by number: indices in the history.
    calls: &'a [usize],
}

/// The furthest that a search came.
struct Stuck<M> {
    longest: Vec<usize>,
    candidates: Vec<usize>,
    state: M,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(history: &'a [CallOf<M>], calls: &'a [usize]) -> Self {
        let mut events = Vec::new();
        for (number, &call) in calls.iter().enumerate() {
            events.push((history[call].invoked, false, number));
            if let Some((responded, _)) = history[call].response {
                events.push((responded, true, number));
            }
        }
        // At one time, invocations come first: those calls overlap.
        events.sort_unstable();
        let mut places = vec![(END, END); calls.len()];
        for (place, &(_, is_response, number)) in (1..).zip(&events) {
            if is_response { places[number].1 = place } else { places[number].0 = place }
        }
        let head = std::iter::once((0, false));
        let events: Vec<_> =
            head.chain(events.into_iter().map(|(_, is_response, number)| (number, is_response))).collect();
        let next = (1..events.len()).chain([END]).collect();
        let previous = (0..events.len()).map(|place| place.wrapping_sub(1)).collect();
        Self { history, events, next, previous, places, calls }
    }

    fn run(mut self, initial: &M) -> Result<(), Stuck<M>> {
        let mut state = initial.clone();
        let mut linearized = Linearized::new(self.calls.len());
        let mut tried = BTreeSet::new();
        let mut order: Vec<(usize, M)> = Vec::new();
        let has_response = |&&call: &&usize| self.history[call].response.is_some();
        let mut unexplained = self.calls.iter().filter(has_response).count();
        let mut stuck: Option<Stuck<M>> = None;
        let mut place = self.next[0];
        // Calls without a response are tried when no other can come next: most of them need not take place.
        let mut is_turn_of_lost = false;
        while unexplained > 0 {
            // The first response that is left bars all invocations behind it: its call must come before them.
            if let Some(&(number, false)) = self.events.get(place) {
                if self.is_lost(number) == is_turn_of_lost
                    && let Some(after) = self.apply(number, &state)
                {
                    linearized.insert(number);
                    if tried.insert((linearized.key(), after.clone())) {
                        self.lift(number);
                        unexplained -= usize::from(!self.is_lost(number));
                        order.push((number, std::mem::replace(&mut state, after)));
                        place = self.next[0];
                        is_turn_of_lost = false;
                        continue;
                    }
                    linearized.remove(number);
                }
                place = self.next[place];
                continue;
            }
            if !is_turn_of_lost {
                is_turn_of_lost = true;
                place = self.next[0];
                continue;
            }
            if stuck.as_ref().is_none_or(|stuck| stuck.longest.len() < order.len()) {
                stuck = Some(self.stuck(&order, &state));
            }
            let Some((number, before)) = order.pop() else {
                return Err(stuck.unwrap_or_else(|| self.stuck(&order, &state)));
            };
            state = before;
            linearized.remove(number);
            self.put_back(number);
            unexplained += usize::from(!self.is_lost(number));
            is_turn_of_lost = self.is_lost(number);
            place = self.next[self.places[number].0];
        }
        Ok(())
    }

    /// No response came.
    fn is_lost(&self, number: usize) -> bool {
        self.places[number].1 == END
    }

    /// The state after a call, if it can come next and says what was observed. Without a response it must at least
    /// change something: otherwise it may as well never take place.
    fn apply(&self, number: usize, state: &M) -> Option<M> {
        let call = &self.history[self.calls[number]];
        let mut after = state.clone();
        let output = after.apply(&call.operation);
        let fits =
            call.response.as_ref().map_or_else(|| after != *state, |(_, observed)| output == *observed);
        fits.then_some(after)
    }

    fn lift(&mut self, number: usize) {
        let (invocation, response) = self.places[number];
        for place in [invocation, response].into_iter().filter(|&place| place != END) {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = next;
            if next != END {
                self.previous[next] = previous;
            }
        }
    }

    /// Undoes the last lift.
    fn put_back(&mut self, number: usize) {
        let (invocation, response) = self.places[number];
        for place in [response, invocation].into_iter().filter(|&place| place != END) {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = place;
            if next != END {
                self.previous[next] = place;
            }
        }
    }

    fn stuck(&self, order: &[(usize, M)], state: &M) -> Stuck<M> {
        let first = Some(self.next[0]).filter(|&place| place != END);
        let left = std::iter::successors(first, |&place| Some(self.next[place]).filter(|&next| next != END));
        let open = left.map(|place| self.events[place]).take_while(|(_, is_response)| !is_response);
        Stuck {
            longest: order.iter().map(|(number, _)| self.calls[*number]).collect(),
            candidates: open.map(|(number, _)| self.calls[number]).collect(),
            state: state.clone(),
        }
    }
}

/// A set of calls as bits.
struct Linearized(Vec<u64>);

impl Linearized {
    fn new(calls: usize) -> Self {
        Self(vec![0; calls.div_ceil(64)])
    }

    fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    /// The words between those that are full and those that are empty, and where they begin: short, as calls are
    /// linearized about in the order of the history.
    fn key(&self) -> (usize, Vec<u64>) {
        let start = self.0.iter().take_while(|&&word| word == u64::MAX).count();
        let end = self.0.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        (start, self.0[start..end.max(start)].to_vec())
    }
}

/// How many calls of the order so far are told: the last ones matter.
const TOLD: usize = 5;

impl<M: Model> Stuck<M> {
    fn explain(self, history: &[CallOf<M>], part: &M::Part) -> Counterexample {
        let count = self.longest.len();
        let mut text = format!("no order explains {part:?}; the longest has {count} calls");
        text += if count > TOLD { ", at last\n" } else { "\n" };
        for &index in &self.longest[count.saturating_sub(TOLD)..] {
            text += &format!("  {}\n", describe(&history[index]));
        }
        text += &format!("then the state is {:?}, and none of these can come next:\n", self.state);
        for &index in &self.candidates {
            let output = self.state.clone().apply(&history[index].operation);
            text += &format!("  {}; now it would say {output:?}\n", describe(&history[index]));
        }
        Counterexample { longest: self.longest, stuck: self.candidates, explanation: text }
    }
}

fn describe<O: fmt::Debug, R: fmt::Debug>(call: &Call<O, R>) -> String {
    let Call { process, invoked, operation, response } = call;
    match response {
        Some((at, output)) => format!("process {process}, {invoked} to {at}: {operation:?} said {output:?}"),
        None => format!("process {process}, from {invoked}: {operation:?} said nothing"),
    }
}
