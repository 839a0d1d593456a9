//! Decisions that are remembered: the microflow cache over the megaflow cache (Open vSwitch, sections 4.2, 5 and 6).
//!
//! A megaflow is a decision for all packets that agree in the bits that it depends on. They are disjoint in what they decide, so there
//! are no priorities. A microflow is a hint, for one packet's key, which megaflow it meets: it is looked at before it is believed.
//!
//! A decision holds for the generation of the tables that it was made in. In a later one it is made again when a packet meets it. So
//! a change has taken place for the very next packet, and costs nothing for flows that have none.
//!
//! *Known as:* flow cache, fast path.

#[cfg(test)]
pub(crate) mod defect;
mod megaflow;

pub use megaflow::Megaflow;

use crate::pipeline::Pipeline;
use crate::step::{Decision, Frozen};
use crate::traffic::Traffic;
use crate::translate::Translation;
use fulmar_classifier::{Classifier, Masks, Rule};
use fulmar_node::Time;
use fulmar_packet::{FlowKey, FlowMask, ones};
use std::iter::Sum;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Hints: as many as fit into a cache of the second level, some ten bytes each.
const HINTS: usize = 8192;
/// A megaflow is forgotten when no packet has met it for so long…
const IDLE: Duration = Duration::from_secs(10);
/// …or for so long, when there are too many.
const IDLE_WHEN_FULL: Duration = Duration::from_millis(100);
/// The fewest megaflows that a thread may have, and the most that all threads have…
const FEWEST: usize = 1000;
const MOST: usize = 200_000;
/// …so that to look at all of them takes no longer (section 6).
const SWEEP: Duration = Duration::from_secs(1);
/// So much of what is done may be remembered by all threads: steps and what is counted for them, some 64 bytes each.
const MOST_STEPS: usize = 32 * MOST;
/// So many are looked at between two batches of packets.
const SLICE: usize = 64;

/// A megaflow, and which packets meet it.
pub type Cached = Rule<Megaflow>;
/// One that is in the cache or was.
type Shared = Arc<Cached>;

/// How often decisions were found where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// By a hint.
    pub microflow: u64,
    /// Among the megaflows.
    pub megaflow: u64,
    /// Nowhere: they were made.
    pub missed: u64,
    /// Made again, as something had changed.
    pub renewed: u64,
}

impl Sum for Hits {
    fn sum<I: Iterator<Item = Self>>(hits: I) -> Self {
        hits.fold(Self::default(), |sum, hits| Self {
            microflow: sum.microflow + hits.microflow,
            megaflow: sum.megaflow + hits.megaflow,
            missed: sum.missed + hits.missed,
            renewed: sum.renewed + hits.renewed,
        })
    }
}

/// What is remembered, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Whether there are hints.
    pub microflows: bool,
    /// Whether there are megaflows: without them, a decision is for one key alone.
    pub megaflows: bool,
}

impl Default for Caching {
    fn default() -> Self {
        Self { microflows: true, megaflows: true }
    }
}

/// The decisions that one thread remembers.
pub(crate) struct Cache {
    caching: Caching,
    micro: Box<[Option<Hint>]>,
    mega: Classifier<Megaflow>,
    masks: Masks,
    /// Those that packets came for since the last credit.
    uncredited: Vec<Shared>,
    /// The one that was found last, or a decision that is not remembered.
    current: Option<Shared>,
    unremembered: Option<Decision>,
    most: usize,
    limit: usize,
    /// How much the megaflows do together, and how much that may be.
    steps: usize,
    most_steps: usize,
    hits: Hits,
    sweep: Vec<Shared>,
    sweep_took: Duration,
    next_sweep: Time,
    /// What this is to do wrong, so that it shows that tests find that.
    #[cfg(test)]
    pub(crate) defect: Option<defect::Defect>,
}

struct Hint {
    hash: u64,
    flow: Shared,
}

impl Cache {
    pub(crate) fn new(caching: Caching, share: NonZeroUsize, seed: u64) -> Self {
        let most = MOST / share;
        Self {
            caching,
            micro: std::iter::repeat_with(|| None).take(HINTS).collect(),
            mega: Classifier::new(fulmar_classifier::Optimisations::ALL, seed),
            masks: Masks::default(),
            uncredited: Vec::new(),
            current: None,
            unremembered: None,
            most,
            limit: most,
            steps: 0,
            most_steps: MOST_STEPS / share,
            hits: Hits::default(),
            sweep: Vec::new(),
            sweep_took: Duration::ZERO,
            next_sweep: Time::ZERO,
            #[cfg(test)]
            defect: None,
        }
    }

    pub(crate) fn hits(&self) -> Hits {
        self.hits
    }

    /// The megaflows, in no order that means anything.
    pub(crate) fn megaflows(&self) -> impl Iterator<Item = &Shared> {
        self.mega.iter()
    }

    /// In how many tables a packet is looked for when no hint is right.
    pub(crate) fn searched(&self, key: &FlowKey) -> usize {
        self.mega.searched(key)
    }

    /// How many megaflows there are, how many masks they have, and how many there may be.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        (self.mega.len(), self.mega.masks(), self.limit)
    }

    /// What is done with a packet of this key and length.
    pub(crate) fn decide(
        &mut self,
        pipeline: &Pipeline,
        key: &FlowKey,
        bytes: usize,
        rest: Option<&Frozen>,
        now: Time,
    ) -> &Decision {
        let hash = hash(key);
        let slot = if self.caching.microflows { self.hinted(hash, key) } else { None };
        if let Some(slot) = slot {
            let hinted = self.micro[slot].as_ref().map(|hint| &hint.flow);
            if let Some(flow) = hinted.filter(|flow| self.holds(flow, pipeline)) {
                self.hits.microflow += 1;
                if flow.value().count(bytes, now) {
                    self.uncredited.push(flow.clone());
                }
                // Found once more, so that what is borrowed is not what was changed in between.
                let found = self.micro[slot].as_ref().map(|hint| &hint.flow.value().decision);
                return found.unwrap_or_else(|| unreachable!("it was there"));
            }
        }
        let mut is_stale = false;
        let flow = loop {
            match self.mega.find(key).cloned() {
                Some(flow) if self.holds(&flow, pipeline) => {
                    self.hits.megaflow += 1;
                    break Some(flow);
                }
                // Megaflows of different generations are not disjoint: there may be one more.
                Some(stale) => {
                    self.remove(&stale, pipeline, now);
                    is_stale = true;
                }
                None => {
                    let why = if is_stale { &mut self.hits.renewed } else { &mut self.hits.missed };
                    *why += 1;
                    break self.remember(Translation::of(pipeline, key, rest, now), key, now);
                }
            }
        };
        let Some(flow) = flow else {
            let decision = self.unremembered.get_or_insert_with(|| unreachable!("it was not remembered"));
            pipeline.credit(&decision.credits, Traffic { packets: 1, bytes: bytes as u64 }, now);
            return decision;
        };
        if flow.value().count(bytes, now) {
            self.uncredited.push(flow.clone());
        }
        if self.caching.microflows {
            self.hint(hash, &flow);
        }
        &self.current.insert(flow).value().decision
    }

    /// Where there is a hint for a key that is right.
    fn hinted(&self, hash: u64, key: &FlowKey) -> Option<usize> {
        slots(hash).into_iter().find(|slot| {
            self.micro[*slot].as_ref().is_some_and(|hint| {
                hint.hash == hash && !hint.flow.value().is_gone.load(Relaxed) && hint.flow.is_met_by(key)
            })
        })
    }

    /// Remembers which megaflow a key meets, in the place of a hint that is no longer right, or of any.
    fn hint(&mut self, hash: u64, flow: &Shared) {
        let is_free = |slot: &usize| {
            self.micro[*slot]
                .as_ref()
                .is_none_or(|hint| hint.hash == hash || hint.flow.value().is_gone.load(Relaxed))
        };
        let both = slots(hash);
        let any = both[usize::from(self.hits.megaflow & 1 != 0)];
        let slot = both.iter().copied().find(is_free).unwrap_or(any);
        self.micro[slot] = Some(Hint { hash, flow: flow.clone() });
    }

    fn remember(
        &mut self,
        (decision, consulted): (Decision, FlowMask),
        key: &FlowKey,
        now: Time,
    ) -> Option<Shared> {
        let steps = self.steps + decision.length();
        if self.mega.len() >= self.limit || steps > self.most_steps {
            self.unremembered = Some(decision);
            return None;
        }
        let mask = if self.caching.megaflows {
            #[cfg(test)]
            let consulted = self.spoilt(consulted);
            self.masks.get(&consulted)
        } else {
            let mut all = FlowMask::EMPTY;
            (0..fulmar_packet::WORDS).for_each(|word| all.add_word(word, u64::MAX));
            self.masks.get(&all)
        };
        let flow = Arc::new(Rule::new(mask, key, 0, Megaflow::new(decision, now)));
        // The packet has met none.
        let replaced = self.mega.insert(flow.clone());
        assert!(replaced.is_none(), "two megaflows decide about the same packets");
        self.steps = steps;
        Some(flow)
    }

    /// Whether what was decided is what would be decided now.
    fn holds(&self, flow: &Shared, pipeline: &Pipeline) -> bool {
        #[cfg(test)]
        if self.defect == Some(defect::Defect::IgnoresGeneration) {
            return true;
        }
        flow.value().decision.generation == pipeline.generation()
    }

    fn remove(&mut self, flow: &Shared, pipeline: &Pipeline, now: Time) {
        #[cfg(test)]
        self.forget_credit(flow);
        flow.value().credit(pipeline, now);
        flow.value().is_gone.store(true, Relaxed);
        let removed = self.mega.remove(flow);
        let is_that = removed.is_some_and(|removed| Arc::ptr_eq(&removed, flow));
        assert!(is_that, "a megaflow is forgotten that is not remembered");
        let steps = flow.value().decision.length();
        assert!(steps <= self.steps, "{steps} steps were counted as no more than {}", self.steps);
        self.steps -= steps;
        assert!(
            self.steps == 0 || !self.mega.is_empty(),
            "{} steps are counted, and are of nothing",
            self.steps
        );
    }

    /// Credits what came to the flows, groups and stations that it came for.
    pub(crate) fn credit(&mut self, pipeline: &Pipeline, now: Time) {
        for flow in self.uncredited.drain(..) {
            flow.value().credit(pipeline, now);
        }
    }

    /// Looks at some of the megaflows, at all of them about once a second: those that are idle, and those whose decision may be wrong
    /// by now, are forgotten. `clock` is asked when there was something to do, as it is measured how long that takes.
    pub(crate) fn sweep(&mut self, pipeline: &Pipeline, began: Time, clock: impl Fn() -> Time) {
        if self.sweep.is_empty() {
            if began < self.next_sweep {
                return;
            }
            self.adapt();
            self.sweep.extend(self.mega.iter().cloned());
            self.next_sweep = began + SWEEP;
        }
        // One alone may need much of the room for steps.
        let is_full = self.mega.len() >= self.limit || self.steps >= self.most_steps / 2;
        let idle = if is_full { IDLE_WHEN_FULL } else { IDLE };
        let generation = pipeline.generation();
        for _ in 0..SLICE {
            let Some(flow) = self.sweep.pop() else { break };
            let megaflow = flow.value();
            let is_stale = megaflow.decision.generation != generation && megaflow.idle(began) > SWEEP;
            if !megaflow.is_gone.load(Relaxed) && (is_stale || megaflow.idle(began) >= idle) {
                self.remove(&flow, pipeline, began);
            }
        }
        if self.sweep.is_empty() {
            self.masks.forget_unused();
        }
        self.sweep_took += clock().since(began);
    }

    /// So many megaflows as a sweep can look at in time (section 6).
    fn adapt(&mut self) {
        let (took, count) = (self.sweep_took, self.mega.len());
        self.sweep_took = Duration::ZERO;
        if took > SWEEP {
            self.limit = (self.limit * 3 / 4).max(FEWEST.min(self.most));
        } else if count > self.limit / 2 {
            self.limit = (self.limit + 1000).min(self.most);
        }
    }
}

/// The two places where a hint for a key can be.
fn slots(hash: u64) -> [usize; 2] {
    let slot = |part: u64| usize::try_from(part % HINTS as u64).unwrap_or_default();
    [slot(hash), slot(hash >> 32)]
}

/// Of the words that are there, two at a time: a hint is looked at before it is believed, so this need not withstand anybody. Both halves of
/// each product count, as ports are in the upper bits of their word, and slots are told apart by lower ones.
fn hash(key: &FlowKey) -> u64 {
    let mut words = ones(key.present()).map(|word| key.word(word));
    let mut hash = key.present();
    while let Some(word) = words.next() {
        let other = words.next().unwrap_or_default();
        let product = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * u128::from(other ^ hash);
        let [low, high] = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        hash = u64::try_from(low ^ high).unwrap_or_default();
    }
    hash
}
