//! Beside a list of rules: the same answers, whatever is optimised; and what was not consulted does not matter.

use crate::{Classifier, GROUP, MANY, Masks, Optimisations, Rule};
use fulmar_node::Random;
use fulmar_packet::{Field, FlowKey, FlowMask, Match, ethernet, ip};
use std::sync::Arc;

fn all_optimisations() -> impl Iterator<Item = Optimisations> {
    (0..32).map(|bits| Optimisations {
        priority_sorting: bits & 1 != 0,
        staged_lookup: bits & 2 != 0,
        prefix_tracking: bits & 4 != 0,
        port_tracking: bits & 8 != 0,
        partitioning: bits & 16 != 0,
    })
}

fn one_of(random: &mut Random, values: &[u128]) -> u128 {
    values[usize::try_from(random.below(values.len() as u64)).expect("few")]
}

/// Of few values, so that packets meet rules.
fn any_value(random: &mut Random, field: Field) -> u128 {
    match field {
        Field::ETH_TYPE => one_of(random, &[ethernet::IPV4, ethernet::IPV6, ethernet::ARP].map(u128::from)),
        Field::IP_PROTOCOL => one_of(random, &[ip::TCP, ip::UDP].map(u128::from)),
        Field::IPV4_SOURCE | Field::IPV4_DESTINATION => {
            one_of(random, &[0x0a01_0101, 0x0a01_0102, 0x0a01_0201, 0x0a02_0101, 0x1401_0101, 0x8000_0000])
        }
        Field::IPV6_DESTINATION => one_of(random, &[1, 2, 1 << 127, (1 << 127) + 1, 1 << 64]),
        Field::L4_SOURCE | Field::L4_DESTINATION => one_of(random, &[10, 11, 80, 81, 0x8000, 0xffff]),
        _ => random.below(3).into(),
    }
}

const FIELDS: [Field; 11] = [
    Field::METADATA,
    Field::IN_PORT,
    Field::register(1),
    Field::ETH_SOURCE,
    Field::ETH_TYPE,
    Field::IPV4_SOURCE,
    Field::IPV4_DESTINATION,
    Field::IPV6_DESTINATION,
    Field::IP_PROTOCOL,
    Field::L4_SOURCE,
    Field::L4_DESTINATION,
];

fn any_packet(random: &mut Random) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    FIELDS.iter().for_each(|field| key.set(*field, any_value(random, *field)));
    if key.get(Field::ETH_TYPE) != ethernet::IPV4.into() {
        key.set(Field::IPV4_SOURCE, 0);
        key.set(Field::IPV4_DESTINATION, 0);
    }
    if key.get(Field::ETH_TYPE) != ethernet::IPV6.into() {
        key.set(Field::IPV6_DESTINATION, 0);
    }
    key
}

fn any_match(random: &mut Random) -> Match {
    let mut asked = Match::ANY;
    for field in FIELDS {
        if random.one_in(3) {
            let value = any_value(random, field);
            let length = u8::try_from(random.below(u64::from(field.bits()) + 1)).expect("few");
            asked = match random.below(4) {
                0 => asked.with_prefix(field, value, length),
                1 => asked.with_masked(field, value, u128::from(random.next())),
                _ => asked.with(field, value),
            };
        }
    }
    asked
}

/// The rules one after the other.
#[derive(Default)]
struct Oracle(Vec<(Match, u16, u32)>);

impl Oracle {
    fn insert(&mut self, asked: &Match, priority: u16, value: u32) -> Option<u32> {
        let same = self.0.iter_mut().find(|(other, p, _)| other == asked && *p == priority);
        if let Some((.., old)) = same {
            return Some(std::mem::replace(old, value));
        }
        self.0.push((asked.clone(), priority, value));
        None
    }

    fn remove(&mut self, at: usize) -> (Match, u16, u32) {
        self.0.swap_remove(at)
    }

    /// The highest priority that the packet meets, and the values there.
    fn find(&self, packet: &FlowKey) -> Option<(u16, Vec<u32>)> {
        let met = || self.0.iter().filter(|(asked, ..)| asked.matches(packet));
        let priority = met().map(|(_, priority, _)| *priority).max()?;
        Some((priority, met().filter(|(_, p, _)| *p == priority).map(|(.., value)| *value).collect()))
    }
}

/// A packet that agrees in the consulted bits, and is anything else.
fn other_packet(random: &mut Random, packet: &FlowKey, consulted: &FlowMask) -> FlowKey {
    let mut other = any_packet(random);
    if random.one_in(2) {
        FIELDS
            .iter()
            .for_each(|field| other.set(*field, u128::from(random.next()) << 64 | u128::from(random.next())));
    }
    for (field, bits) in consulted.fields() {
        other.set_masked(field, packet.get(field), bits);
    }
    other
}

/// What is done wrong, so that it shows that the check finds that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// A bit that was looked at is not said to have been.
    LeavesOutABit,
    /// Only the first group of subtables is looked in.
    EndsAfterAGroup,
}

fn run(seed: u64, optimisations: Optimisations, defect: Option<Defect>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut classifier = Classifier::new(optimisations, seed);
    let (mut masks, mut oracle) = (Masks::default(), Oracle::default());
    // From few kinds of rules, or many.
    let kinds: Vec<_> = (0..=random.below(12)).map(|_| any_match(&mut random)).collect();
    for value in 0..u32::try_from(1 + random.below(60)).expect("few") {
        if random.one_in(4) && !oracle.0.is_empty() {
            let at = usize::try_from(random.below(oracle.0.len() as u64)).expect("few");
            let (asked, priority, value) = oracle.remove(at);
            let like = Rule::new(masks.get(asked.mask()), asked.key(), priority, 0);
            let removed = classifier.remove(&like).map(|rule| *rule.value());
            if removed != Some(value) {
                return Err(format!("{removed:?} was removed, not {value}"));
            }
        } else {
            let kind = &kinds[usize::try_from(random.below(kinds.len() as u64)).expect("few")];
            let asked = Match::new(&any_packet(&mut random), kind.mask().clone());
            let priority = u16::try_from(random.below(4)).expect("few");
            let rule = Arc::new(Rule::new(masks.get(asked.mask()), asked.key(), priority, value));
            let replaced = classifier.insert(rule.clone()).map(|rule| *rule.value());
            if replaced != oracle.insert(&asked, priority, value) || rule.condition() != asked {
                return Err(format!("{replaced:?} was replaced"));
            }
            if classifier.get(&rule).map(|rule| *rule.value()) != Some(value) {
                return Err("what was inserted is not there".into());
            }
        }
        if classifier.len() != oracle.0.len() || classifier.iter().count() != oracle.0.len() {
            return Err(format!("{} rules, not {}", classifier.len(), oracle.0.len()));
        }
        for _ in 0..4 {
            let packet = any_packet(&mut random);
            let is_right =
                |found: Option<&Arc<Rule<u32>>>, packet: &FlowKey| match (found, oracle.find(packet)) {
                    (None, None) => true,
                    (Some(rule), Some((priority, values))) => {
                        rule.priority() == priority && values.contains(rule.value())
                    }
                    _ => false,
                };
            let mut consulted = FlowMask::EMPTY;
            if !is_right(classifier.find(&packet), &packet) {
                return Err(format!("{packet:?} finds {:?}", classifier.find(&packet)));
            }
            let mut grouped = classifier.clone();
            if defect == Some(Defect::EndsAfterAGroup) {
                grouped.subtables.truncate(GROUP);
            }
            let found = grouped.search_in_groups(&packet).map(|found| &found.rule);
            if !is_right(found, &packet) {
                return Err(format!("{packet:?} finds {found:?} in groups"));
            }
            let found = classifier.find_consulting(&packet, &mut consulted);
            if !is_right(found, &packet) {
                return Err(format!("{packet:?} finds {found:?} if it is looked at closely"));
            }
            let first = consulted.fields().next().filter(|_| defect == Some(Defect::LeavesOutABit));
            if let Some((field, bits)) = first {
                consulted.remove(field);
                consulted.add(field, bits & (bits << 1));
            }
            for _ in 0..4 {
                let other = other_packet(&mut random, &packet, &consulted);
                if !is_right(found, &other) {
                    return Err(format!(
                        "{other:?} agrees with {packet:?} in {consulted:?}, and is not answered so"
                    ));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn it_answers_as_a_list_would_whatever_is_optimised() {
    for optimisations in all_optimisations() {
        for seed in 0..150 {
            if let Err(what) = run(seed, optimisations, None) {
                panic!("seed {seed}, {optimisations:?}: {what}");
            }
        }
    }
}

#[test]
fn a_bit_that_is_left_out_is_missed() {
    assert!((0..150).any(|seed| run(seed, Optimisations::ALL, Some(Defect::LeavesOutABit)).is_err()));
}

#[test]
fn a_group_that_is_left_out_is_missed() {
    assert!((0..150).any(|seed| run(seed, Optimisations::ALL, Some(Defect::EndsAfterAGroup)).is_err()));
}

/// In a classifier of many rules, lookups are in groups: each rule is found, and what is none's is not.
#[test]
fn many_rules_are_found_in_groups() {
    let (mut classifier, mut masks) = (Classifier::default(), Masks::default());
    let packet = |kind: u32, number: u128| {
        let mut packet = FlowKey::EMPTY;
        packet.set(Field::register(0), u128::from(kind) + 1);
        packet.set(Field::METADATA, number);
        packet
    };
    // Each kind asks for another bit more of a register.
    let (kinds, each) = (2 * GROUP + 1, MANY / GROUP);
    for kind in 0..u32::try_from(kinds).expect("few") {
        let mut mask = FlowMask::EMPTY;
        mask.add_all(Field::METADATA);
        mask.add(Field::register(0), 0xff | 1 << (8 + kind));
        for number in 0..each {
            let key = packet(kind, number as u128);
            classifier.insert(Arc::new(Rule::new(masks.get(&mask), &key, 1, (kind, number))));
        }
    }
    assert!(classifier.len() >= MANY && classifier.masks() == kinds);
    for (kind, number) in [(0, 0), (7, 1), (8, each - 1), (16, 5)] {
        let found = classifier.find(&packet(kind, number as u128));
        assert_eq!(found.map(|rule| *rule.value()), Some((kind, number)));
    }
    assert!(classifier.find(&packet(3, each as u128)).is_none());
}

/// Section 7.2's flows, from the most important one.
fn paper(optimisations: Optimisations) -> Classifier<usize> {
    let (mut classifier, mut masks) = (Classifier::new(optimisations, 0), Masks::default());
    let ip = Match::ANY.with(Field::ETH_TYPE, ethernet::IPV4.into());
    let flows = [
        Match::ANY.with(Field::ETH_TYPE, ethernet::ARP.into()),
        ip.clone().with_prefix(Field::IPV4_DESTINATION, 0x0b01_0101, 16),
        ip.clone()
            .with(Field::IPV4_DESTINATION, 0x0901_0101)
            .with(Field::IP_PROTOCOL, ip::TCP.into())
            .with(Field::L4_SOURCE, 10)
            .with(Field::L4_DESTINATION, 10),
        ip.with_prefix(Field::IPV4_DESTINATION, 0x0901_0101, 24),
    ];
    for (number, flow) in flows.iter().enumerate() {
        let priority = u16::try_from(flows.len() - number).expect("few");
        classifier.insert(Arc::new(Rule::new(masks.get(flow.mask()), flow.key(), priority, number)));
    }
    classifier
}

/// How many megaflows connections from any port to 50 ports of an address need.
fn megaflows(optimisations: Optimisations, address: u128) -> usize {
    let classifier = paper(optimisations);
    let mut random = Random::new(7);
    let mut known: Vec<Match> = Vec::new();
    for _ in 0..5_000 {
        let mut packet = FlowKey::EMPTY;
        packet.set(Field::ETH_TYPE, ethernet::IPV4.into());
        packet.set(Field::IPV4_SOURCE, 0x0901_0103);
        packet.set(Field::IPV4_DESTINATION, address);
        packet.set(Field::IP_PROTOCOL, ip::TCP.into());
        packet.set(Field::L4_SOURCE, u128::from(32_768 + random.below(28_000)));
        packet.set(Field::L4_DESTINATION, u128::from(8_000 + random.below(50)));
        let mut consulted = FlowMask::EMPTY;
        classifier.find_consulting(&packet, &mut consulted);
        if !known.iter().any(|flow| flow.matches(&packet)) {
            known.push(Match::new(&packet, consulted));
        }
    }
    known.len()
}

/// Table 1's point, one direction of it: a switch that consults nothing else needs so many.
#[test]
fn megaflows_are_few() {
    let to = |optimisations| {
        [0x0901_0102, 0x0901_0101, 0x0b01_0102].map(|address| megaflows(optimisations, address))
    };
    let none = Optimisations::NONE;
    assert_eq!(to(Optimisations::ALL), [1, 1, 1]);
    let many = to(none);
    assert!(many.iter().all(|count| *count > 4_000), "{many:?}");
    let [a, b, c] = to(Optimisations { priority_sorting: true, ..none });
    assert!(a > 4_000 && b > 4_000 && c == 1, "{a} {b} {c}");
    let [a, b, c] = to(Optimisations { prefix_tracking: true, ..none });
    assert!(a == 1 && b > 4_000 && c == 1, "{a} {b} {c}");
    let [a, b, c] = to(Optimisations { staged_lookup: true, ..none });
    assert!(a == 1 && b > 4_000 && c == 1, "{a} {b} {c}");
    assert_eq!(to(Optimisations { port_tracking: true, ..none }), [1, 1, 1]);
}
