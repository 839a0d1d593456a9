//! How long commits took, and how long writers paused.

use super::history::{Event, Outcome, Slot, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Acknowledged commits of each slot, in their order: when they began, and when they were acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged(BTreeMap<Slot, Vec<(Time, Time)>>);

impl Acknowledged {
    /// Heeds an event of a history.
    pub fn note(&mut self, event: &Event) {
        if let Event::Done(slot, begin, end, Outcome::Committed) = event {
            self.0.entry(*slot).or_default().push((*begin, *end));
        }
    }

    /// The slots of these that had no commit acknowledged that began after `time`.
    pub fn silent_since(&self, time: Time, slots: u32) -> Vec<Slot> {
        let last = |slot: &Slot| self.0.get(slot).and_then(|commits| commits.last());
        (0..slots).filter(|slot| last(slot).is_none_or(|(begin, _)| *begin < time)).collect()
    }

    /// The longest time within `from..to` during which one slot had no commit acknowledged.
    #[must_use]
    pub fn longest_pause(&self, from: Time, to: Time) -> Duration {
        let pause = |commits: &Vec<(Time, Time)>| {
            let first = commits.partition_point(|(_, end)| *end < from);
            let mut since = from;
            let mut longest = 0;
            for (_, end) in &commits[first..] {
                longest = longest.max((*end).min(to) - since);
                since = *end;
                if since >= to {
                    break;
                }
            }
            longest.max(to.saturating_sub(since))
        };
        Duration::from_micros(self.0.values().map(pause).max().unwrap_or(0))
    }

    /// Median, 99 of a hundred, and longest.
    #[must_use]
    pub fn distribution(&self) -> Option<[Duration; 3]> {
        let mut waits: Vec<Time> = self.0.values().flatten().map(|(begin, end)| end - begin).collect();
        waits.sort_unstable();
        let at = |part: usize| {
            Some(Duration::from_micros(*waits.get((waits.len() * part / 100).min(waits.len() - 1))?))
        };
        if waits.is_empty() { None } else { Some([at(50)?, at(99)?, at(100)?]) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// What faults of each kind have done.
#[derive(Clone, Debug, Default)]
pub struct Pauses(BTreeMap<&'static str, Done>);

#[derive(Clone, Debug, Default)]
struct Done {
    count: usize,
    longest: Duration,
    /// After how many some shard had another leader than the one that it shall have, or the clock another manager.
    others_lead: usize,
}

/// What is promised of some kinds (a leader that is gone, or about to be: one second; a majority that is started again: two).
const BOUNDS: [(&str, Duration); 5] = [
    ("ended by SIGTERM", Duration::from_secs(1)),
    ("killed", Duration::from_secs(1)),
    ("stopped", Duration::from_secs(1)),
    ("two killed", Duration::from_secs(2)),
    ("power cut", Duration::from_secs(2)),
];

/// Whoever is slow and is there goes on to lead.
const SLOW: [&str; 3] = ["busy with large commits", "disk hangs", "processors busy"];

fn bound(kind: &str) -> Option<Duration> {
    BOUNDS.iter().find(|(bounded, _)| *bounded == kind).map(|(_, bound)| *bound)
}

impl Pauses {
    /// Heeds the pause that one fault caused.
    pub fn note(&mut self, kind: &'static str, pause: Duration, others_lead: bool) {
        let done = self.0.entry(kind).or_default();
        done.count += 1;
        done.longest = pause.max(done.longest);
        done.others_lead += usize::from(others_lead);
    }

    /// Those kinds whose pauses were longer than is promised.
    pub fn too_long(&self) -> impl Iterator<Item = &'static str> {
        let too_long = move |(kind, done): (&&'static str, &Done)| {
            bound(kind).is_some_and(|bound| done.longest > bound).then_some(*kind)
        };
        self.0.iter().filter_map(too_long)
    }

    /// Those kinds after which others lead though nobody was gone: after more than one in twelve, as what is left of the fault before may
    /// be why.
    pub fn restless(&self) -> impl Iterator<Item = &'static str> {
        let is_restless = |(kind, done): &(&&'static str, &Done)| {
            SLOW.contains(kind) && 12 * done.others_lead > done.count.max(12)
        };
        self.0.iter().filter(is_restless).map(|(kind, _)| *kind)
    }

    /// A line for each kind; where something is promised of it, as of replicas, whether that holds.
    pub fn lines(&self, is_promised: bool) -> impl Iterator<Item = String> {
        self.0.iter().map(move |(kind, Done { count, longest, others_lead })| {
            let holds = bound(kind).filter(|_| is_promised).map(|bound| {
                let verdict = if *longest <= bound { "holds" } else { "DOES NOT HOLD" };
                format!("   ≤ {} s {verdict}", bound.as_secs())
            });
            let (longest, holds) = (longest.as_secs_f64(), holds.unwrap_or_default());
            format!("  {kind:<21} {count:>4} × {longest:>6.2} s, others lead after {others_lead}{holds}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(commits: &[(Slot, Time, Time)]) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        for (slot, begin, end) in commits {
            acknowledged.note(&Event::Done(*slot, *begin, *end, Outcome::Committed));
        }
        acknowledged
    }

    #[test]
    fn the_longest_pause_of_any_slot_counts() {
        let slots = acknowledged(&[(0, 0, 10), (1, 0, 20), (0, 10, 50), (1, 20, 100), (0, 50, 90)]);
        assert_eq!(slots.longest_pause(15, 100), Duration::from_micros(80));
        assert_eq!(slots.longest_pause(60, 95), Duration::from_micros(35));
        assert_eq!(slots.longest_pause(100, 130), Duration::from_micros(30));
    }

    #[test]
    fn who_has_not_committed_since_is_named() {
        let slots = acknowledged(&[(0, 0, 10), (1, 20, 30)]);
        assert_eq!(slots.silent_since(15, 3), [0, 2]);
    }

    #[test]
    fn who_waits_for_longer_than_is_promised_is_named() {
        let mut pauses = Pauses::default();
        pauses.note("killed", Duration::from_millis(1_000), true);
        pauses.note("stopped", Duration::from_millis(1_001), true);
        pauses.note("disk hangs", Duration::from_secs(9), false);
        assert!(pauses.too_long().eq(["stopped"]));
    }

    #[test]
    fn who_is_slow_and_does_not_lead_any_more_is_named() {
        let mut pauses = Pauses::default();
        for others_lead in [true, false, true, true] {
            pauses.note("killed", Duration::ZERO, true);
            pauses.note("disk hangs", Duration::ZERO, others_lead);
        }
        pauses.note("processors busy", Duration::ZERO, true);
        assert!(pauses.restless().eq(["disk hangs"]));
    }

    #[test]
    fn waits_are_ordered() {
        let slots = acknowledged(&[(0, 0, 3), (1, 5, 6), (2, 7, 9)]);
        assert_eq!(slots.distribution(), Some([2, 3, 3].map(Duration::from_micros)));
    }
}
