//! The switch's classifier alone: lookups a second among many random rules, beside what Open vSwitch's reaches.
//!
//! As in Open vSwitch's own measurement, rules ask for random bits out of a handful of fields, in as many ways as there are to be
//! subtables, and have random priorities, so that hardly a lookup can stop early. Packets are random as well, and half of
//! them are then given what one of the rules asks for.

use crate::Figure;
use crate::figure::is_wanted;
use fulmar_classifier::{Classifier, Masks, Optimisations, Rule};
use fulmar_node::Random;
use fulmar_packet::{Field, FlowKey, FlowMask, Match, ethernet, ip};
use std::collections::HashSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many rules, all different.
    pub rules: usize,
    /// How many masks they have: each of these numbers is measured by itself.
    pub subtables: Vec<usize>,
    /// How many packets of each kind are looked up in a run.
    pub packets: usize,
    /// How often each figure is measured, all of them in turn.
    pub runs: usize,
    /// The same rules and packets come of the same seed.
    pub seed: u64,
    /// Only figures whose name contains this.
    pub only: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rules: 500_000, subtables: vec![10, 20, 30], packets: 1 << 17, runs: 5, seed: 1, only: None }
    }
}

/// Rules, and packets to be looked up among them.
pub struct Workload {
    /// In no order.
    pub rules: Vec<Arc<Rule<u32>>>,
    /// Each meets at least one rule.
    pub hits: Vec<FlowKey>,
    /// They meet a rule by chance, hardly ever.
    pub misses: Vec<FlowKey>,
}

/// The fields that rules ask for.
const FIELDS: [Field; 9] = [
    Field::METADATA,
    Field::register(0),
    Field::VLAN_TCI,
    Field::ETH_SOURCE,
    Field::ETH_DESTINATION,
    Field::IPV4_SOURCE,
    Field::IPV4_DESTINATION,
    Field::L4_SOURCE,
    Field::L4_DESTINATION,
];

/// A mask asks for no fewer bits: there are more than enough rules of each then, and packets meet few by chance.
const FEWEST_BITS: u32 = 40;

/// Rules and packets as described at the front of this module.
pub fn workload(options: &Options, subtables: usize) -> Workload {
    let mut random = Random::new(options.seed ^ subtables as u64);
    let mut wholes = Vec::new();
    while wholes.len() < subtables {
        let mask = any_mask(&mut random);
        if bits(&mask) >= FEWEST_BITS && !wholes.contains(&mask) {
            wholes.push(mask);
        }
    }
    let (mut masks, mut known) = (Masks::default(), HashSet::new());
    let mut rules = Vec::with_capacity(options.rules);
    while rules.len() < options.rules {
        let whole = &wholes[rules.len() % subtables];
        let asked = Match::new(&any_packet(&mut random), whole.clone());
        let priority = u16::try_from(random.below(1 << 16)).unwrap_or(u16::MAX);
        let rule = Rule::new(masks.get(whole), asked.key(), priority, 0);
        if known.insert(asked) {
            rules.push(Arc::new(rule));
        }
    }
    let misses: Vec<_> = (0..options.packets).map(|_| any_packet(&mut random)).collect();
    let mut hit = || {
        let mut packet = any_packet(&mut random);
        let asked = rules[random.index(rules.len())].condition();
        asked
            .mask()
            .fields()
            .for_each(|(field, bits)| packet.set_masked(field, asked.key().get(field), bits));
        packet
    };
    let hits = (0..options.packets).map(|_| hit()).collect();
    Workload { rules, hits, misses }
}

fn bits(mask: &FlowMask) -> u32 {
    mask.fields().map(|(_, bits)| bits.count_ones()).sum()
}

/// Each field or not; of addresses a prefix, and with these, or ports, what the packet has to be.
fn any_mask(random: &mut Random) -> FlowMask {
    let mut mask = FlowMask::EMPTY;
    for field in FIELDS.into_iter().filter(|_| random.one_in(2)).collect::<Vec<_>>() {
        match field {
            Field::IPV4_SOURCE | Field::IPV4_DESTINATION => {
                mask.add_prefix(field, u8::try_from(8 + random.below(25)).unwrap_or(32));
                mask.add_all(Field::ETH_TYPE);
            }
            Field::L4_SOURCE | Field::L4_DESTINATION => {
                mask.add_all(field);
                mask.add_all(Field::ETH_TYPE);
                mask.add_all(Field::IP_PROTOCOL);
            }
            _ => mask.add_all(field),
        }
    }
    mask
}

fn any_packet(random: &mut Random) -> FlowKey {
    let mut packet = FlowKey::EMPTY;
    FIELDS.iter().for_each(|field| packet.set(*field, random.next().into()));
    packet.set(Field::ETH_TYPE, ethernet::IPV4.into());
    packet.set(Field::IP_PROTOCOL, if random.one_in(2) { ip::TCP } else { ip::UDP }.into());
    packet
}

/// Finds one packet's rule.
type Lookup = fn(&Classifier<u32>, &FlowKey) -> bool;

fn find(classifier: &Classifier<u32>, packet: &FlowKey) -> bool {
    classifier.find(packet).is_some()
}

fn find_consulting(classifier: &Classifier<u32>, packet: &FlowKey) -> bool {
    let mut consulted = FlowMask::EMPTY;
    let is_found = classifier.find_consulting(packet, &mut consulted).is_some();
    black_box(&consulted);
    is_found
}

/// What is measured.
struct Case {
    figure: &'static str,
    lookup: Lookup,
    is_tracking: bool,
    is_hit: bool,
    /// Open vSwitch 3.1's million lookups a second with 10, 20 and 30 subtables, on the machine that the targets are from.
    reference: &'static [(usize, f64)],
    note: &'static str,
}

impl Case {
    fn name(&self, subtables: usize) -> String {
        format!("{}_{subtables}", self.figure)
    }
}

const CASES: [Case; 6] = [
    Case {
        figure: "switch.classifier_hits",
        lookup: find,
        is_tracking: false,
        is_hit: true,
        reference: &[(10, 1.80), (20, 1.25), (30, 0.95)],
        note: "packets that meet a rule",
    },
    Case {
        figure: "switch.classifier_misses",
        lookup: find,
        is_tracking: false,
        is_hit: false,
        reference: &[(10, 1.48), (20, 0.94), (30, 0.76)],
        note: "packets that meet none",
    },
    Case {
        figure: "switch.classifier_wildcard_hits",
        lookup: find_consulting,
        is_tracking: false,
        is_hit: true,
        reference: &[(10, 0.56), (20, 0.49), (30, 0.66)],
        note: "packets that meet a rule; which bits that depends on, without tries",
    },
    Case {
        figure: "switch.classifier_wildcard_misses",
        lookup: find_consulting,
        is_tracking: false,
        is_hit: false,
        reference: &[(10, 1.17), (20, 0.88), (30, 0.61)],
        note: "packets that meet none; which bits that depends on, without tries",
    },
    Case {
        figure: "switch.classifier_trie_hits",
        lookup: find_consulting,
        is_tracking: true,
        is_hit: true,
        reference: &[],
        note: "packets that meet a rule; which bits that depends on, with tries of addresses and ports",
    },
    Case {
        figure: "switch.classifier_trie_misses",
        lookup: find_consulting,
        is_tracking: true,
        is_hit: false,
        reference: &[(10, 0.25), (20, 0.18), (30, 0.11)],
        note: "packets that meet none; which bits that depends on, with tries of addresses and ports",
    },
];

/// Runs the benchmark; tells what it is at.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Vec<Figure> {
    options.subtables.iter().flat_map(|subtables| measure(options, *subtables, &mut progress)).collect()
}

fn measure(options: &Options, subtables: usize, progress: &mut impl FnMut(&str)) -> Vec<Figure> {
    let is_wanted = |case: &&Case| is_wanted(options.only.as_deref(), &case.name(subtables));
    let cases: Vec<_> = CASES.iter().filter(is_wanted).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    progress(&format!("{} rules in {subtables} subtables", options.rules));
    let workload = workload(options, subtables);
    let untracked = Optimisations { prefix_tracking: false, port_tracking: false, ..Optimisations::ALL };
    let plain = filled(&workload, untracked, options.seed);
    let tracking = filled(&workload, Optimisations::ALL, options.seed);
    let mut runs = vec![Vec::new(); cases.len()];
    for run in 0..options.runs {
        progress(&format!("run {} of {}", run + 1, options.runs));
        for (case, rates) in cases.iter().zip(&mut runs) {
            let classifier = if case.is_tracking { &tracking } else { &plain };
            let packets = if case.is_hit { &workload.hits } else { &workload.misses };
            rates.push(rate(classifier, packets, case.lookup));
        }
    }
    cases.iter().zip(&runs).map(|(case, runs)| figure(case, subtables, runs)).collect()
}

fn filled(workload: &Workload, optimisations: Optimisations, seed: u64) -> Classifier<u32> {
    let mut classifier = Classifier::new(optimisations, seed);
    for rule in &workload.rules {
        classifier.insert(rule.clone());
    }
    classifier
}

/// Million lookups a second.
fn rate(classifier: &Classifier<u32>, packets: &[FlowKey], lookup: Lookup) -> f64 {
    let start = Instant::now();
    let found = packets.iter().filter(|packet| lookup(classifier, packet)).count();
    let elapsed = start.elapsed();
    black_box(found);
    packets.len() as f64 / elapsed.as_secs_f64() / 1e6
}

fn figure(case: &Case, subtables: usize, runs: &[f64]) -> Figure {
    let reference = case.reference.iter().find(|(count, _)| *count == subtables);
    Figure {
        peer: reference
            .map_or_else(String::new, |(_, rate)| format!("Open vSwitch 3.1.0, {rate} measured once")),
        target: reference.map(|(_, rate)| 1.5 * rate),
        note: case.note.into(),
        ..Figure::of(case.name(subtables), "million lookups a second", "higher", runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_as_many_as_asked_for_and_hits_meet_one() {
        let options = Options { rules: 1_000, packets: 100, ..Options::default() };
        let workload = workload(&options, 7);
        let classifier = filled(&workload, Optimisations::ALL, 0);
        assert_eq!((classifier.len(), classifier.masks()), (1_000, 7));
        assert!(workload.hits.iter().all(|packet| find(&classifier, packet)));
        assert!(workload.misses.iter().all(|packet| !find_consulting(&classifier, packet)));
    }

    #[test]
    fn every_case_has_a_figure() {
        let options = Options { rules: 100, subtables: vec![2], packets: 10, runs: 1, seed: 1, only: None };
        assert_eq!(run(&options, |_| {}).len(), CASES.len());
    }
}
