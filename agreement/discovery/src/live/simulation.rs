//! Finders in the simulator: worlds in which everything goes wrong, and what must hold in them all the same.

use super::{Digest, Event, Finder, Member, Name, Request, Stable};
use fulmar_node::{NodeId, Random, Time};
use fulmar_sim::{Faults, Seed, Sim, check, seeds};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// What may be wrong with a finder on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// Lets itself be called dead.
    NeverRefutes,
    /// Never hands up again what some centre has acknowledged.
    TrustsAcknowledgements,
    /// Takes a confirmation of any view for one of its own.
    ConfirmsAnything,
    /// Takes a confirmation for one of just now, however old it is.
    ConfirmsForever,
    /// Declares a view stable as soon as it is confirmed.
    NeverWaits,
}

/// From then on no stable view lacks a steady node.
const SETTLED: Duration = Duration::from_secs(2);

fn address(id: NodeId) -> SocketAddr {
    let [_, _, high, low] = id.0.to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 7000))
}

fn id(address: SocketAddr) -> NodeId {
    let SocketAddr::V4(address) = address else { panic!("{address} is in no simulation") };
    let [_, _, high, low] = address.ip().octets();
    NodeId(u32::from(high) << 8 | u32::from(low))
}

/// Who knows whom at the start, by node: all that there are.
type Known = BTreeMap<NodeId, Vec<NodeId>>;

/// Each of `nodes` knows one of those before it, and up to two of `others`.
fn knowing(nodes: &[NodeId], others: &[NodeId], random: &mut Random) -> Known {
    let mut known = Known::new();
    for (at, node) in nodes.iter().enumerate() {
        let first = random.choose(&nodes[..at]).copied();
        let more: Vec<NodeId> = (0..random.below(3)).filter_map(|_| random.choose(others).copied()).collect();
        // That one knows the other is enough, whoever it is.
        match first {
            Some(first) if random.one_in(2) => known.entry(first).or_default().push(*node),
            first => known.entry(*node).or_default().extend(first),
        }
        known.entry(*node).or_default().extend(more);
    }
    known
}

fn world(seed: Seed, known: Known, every: u64, defect: Option<Defect>) -> Sim<Finder> {
    let mut sim = Sim::new(seed, move |node, _: &[()]| {
        let name: Name = format!("host {}", node.0).parse().expect("a name");
        let contacts = known.get(&node).into_iter().flatten().copied().map(address);
        let mut finder = Finder::new(address(node), name, contacts);
        finder.defect = defect;
        finder.number_as(known.keys().copied().map(address));
        finder
    });
    sim.invariant(every, |hosts| hosts.iter().try_for_each(|(_, finder)| finder.invariants()));
    sim
}

/// What was seen of a run.
#[derive(Default)]
struct Watch {
    /// Who held which view in which life, and when last.
    held: BTreeMap<(NodeId, u64, Digest), Time>,
    /// Whom no stable view of one of them may lack from then on.
    steady: (BTreeSet<SocketAddr>, Time),
    wrong: Option<String>,
}

impl Watch {
    fn look(&mut self, sim: &Sim<Finder>) {
        for (node, finder) in sim.processes().iter() {
            self.held.insert((node, finder.me().incarnation.life, finder.digest()), sim.now());
        }
    }

    /// Each member of a stable view has held it within the time that is claimed. Clocks may be slow by a tenth each.
    fn hear(&mut self, now: Time, node: NodeId, stable: &Stable) {
        let within = stable.within + stable.within / 4;
        for member in stable.members.iter().filter(|member| id(member.address) != node) {
            let key = (id(member.address), member.incarnation.life, stable.digest);
            let held = self.held.get(&key).copied();
            if held.is_none_or(|held| held + within < now) {
                self.wrong.get_or_insert_with(|| {
                    format!(
                        "at {now} {node} calls a view stable that {} held last at {held:?}, and says {:?}",
                        member.address, stable.within
                    )
                });
            }
        }
        let members = addresses(&stable.members);
        let (steady, from) = &self.steady;
        let is_settled = now >= *from && steady.contains(&address(node));
        if let Some(lacks) = steady.difference(&members).next().filter(|_| is_settled) {
            self.wrong
                .get_or_insert_with(|| format!("at {now} {node} calls a view stable that lacks {lacks}"));
        }
    }
}

/// Runs until `done`, and for `span` at most; says whether it came to that.
fn go(
    sim: &mut Sim<Finder>,
    watch: &RefCell<Watch>,
    span: Duration,
    mut done: impl FnMut(&Sim<Finder>, &Watch) -> bool,
) -> Result<bool, String> {
    let hear = |sim: &mut Sim<Finder>, node, event| match event {
        Event::Stable(stable) => watch.borrow_mut().hear(sim.now(), node, &stable),
        Event::Departed => sim.crash(node),
        Event::News(_) => {}
    };
    let came = sim.run_until(span, hear, |sim| {
        let mut watch = watch.borrow_mut();
        watch.look(sim);
        watch.wrong.is_some() || done(sim, &watch)
    });
    watch.borrow_mut().wrong.take().map_or(Ok(came), Err)
}

fn addresses<'a>(members: impl IntoIterator<Item = &'a Member>) -> BTreeSet<SocketAddr> {
    members.into_iter().map(|member| member.address).collect()
}

/// Whether all of these have just these as their view, and it is stable.
fn sees(sim: &Sim<Finder>, nodes: &[NodeId]) -> bool {
    let all: BTreeSet<SocketAddr> = nodes.iter().copied().map(address).collect();
    nodes.iter().all(|node| {
        sim.process(*node).is_some_and(|finder| finder.is_stable() && addresses(finder.view()) == all)
    })
}

fn describe(sim: &Sim<Finder>, nodes: &[NodeId]) -> String {
    let describe = |node: &NodeId| {
        let Some(finder) = sim.process(*node) else { return format!("{node} is down") };
        let view: Vec<String> =
            finder.view().map(|member| format!("{}{}", id(member.address), member.standing)).collect();
        format!("{node} follows {} and sees {}", id(finder.centre()), view.join(" "))
    };
    nodes.iter().map(describe).collect::<Vec<_>>().join("\n")
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Nodes join late, leave, crash for good and come back, and the network does its worst; then it is whole again.
fn storm(seed: Seed, defect: Option<Defect>) -> Result<(), String> {
    let mut random = Random::new(seed.number ^ 0x5707);
    let count = 2 + u32::try_from(random.below(8)).expect("a small number");
    let all: Vec<NodeId> = (1..=count).map(NodeId).collect();
    let (mut stay, mut doomed, mut leave) = (Vec::new(), Vec::new(), Vec::new());
    for node in &all {
        match random.below(8) {
            0 => doomed.push(*node),
            1 => leave.push(*node),
            _ => stay.insert(random.index(stay.len() + 1), *node),
        }
    }
    let mut known = knowing(&stay, &all, &mut random);
    for node in doomed.iter().chain(&leave) {
        known.insert(*node, random.choose(&all).copied().into_iter().collect());
    }
    let unanswered = known.values().flatten().filter(|known| !stay.contains(known)).count() as u64;
    let mut sim = world(seed, known, 7, defect);
    let mut moment = |from: Duration| Time::ZERO + from + Duration::from_nanos(random.below(2_000_000_000));
    for node in all {
        if node.0 % 3 == 0 {
            sim.at(moment(Duration::ZERO), move |sim| sim.add(node));
        } else {
            sim.add(node);
        }
    }
    for node in doomed {
        sim.at(moment(seconds(2)), move |sim| sim.crash(node));
    }
    for node in leave {
        sim.at(moment(seconds(2)), move |sim| sim.request(node, Request::Leave));
    }
    let mut faults = Faults::random(stay.clone(), &mut random);
    (faults.slow_disk, faults.broken_disk) = (0, 0);
    sim.at(Time::ZERO + seconds(2), move |sim| sim.inject(faults));
    let watch = RefCell::default();
    go(&mut sim, &watch, seconds(8), |_, _| false)?;
    sim.heal(stay.clone());
    if !go(&mut sim, &watch, seconds(20), |sim, _| sees(sim, &stay))? {
        return Err(format!("20 s after all faults:\n{}", describe(&sim, &stay)));
    }
    go(&mut sim, &watch, seconds(10), |_, _| false)?;
    let before = sim.counts.sent;
    go(&mut sim, &watch, seconds(5), |_, _| false)?;
    if !sees(&sim, &stay) {
        return Err(format!("it did not last:\n{}", describe(&sim, &stay)));
    }
    let (sent, most) = (sim.counts.sent - before, 5 * (2 * u64::from(count) + 4) + 2 * unanswered);
    if sent > most {
        Err(format!("{sent} messages in 5 s in which nothing happens, not {most}"))
    } else {
        Ok(())
    }
}

/// Some nodes are steady: they run all the time, each message between them arrives within a millisecond, and each but the first
/// knew an earlier one or was known to it. The others do as they like.
fn steady(seed: Seed, defect: Option<Defect>) -> Result<(), String> {
    let mut random = Random::new(seed.number ^ 0x57ead);
    let count = 3 + u32::try_from(random.below(8)).expect("a small number");
    let mut all: Vec<NodeId> = (1..=count).map(NodeId).collect();
    for at in (1..all.len()).rev() {
        all.swap(at, random.index(at + 1));
    }
    let (core, others) = all.split_at(1 + random.index(all.len() - 1));
    let mut known = knowing(core, &all, &mut random);
    for node in others {
        known.insert(*node, (0..2).filter_map(|_| random.choose(&all).copied()).collect());
    }
    let mut sim = world(seed, known, 7, defect);
    all.iter().for_each(|node| sim.add(*node));
    let mut faults = Faults::random(others.to_vec(), &mut random);
    (faults.slow_disk, faults.broken_disk, faults.weather) = (0, 0, 0);
    faults.down = others.len();
    sim.inject(faults);
    let steady = core.iter().copied().map(address).collect();
    let watch = RefCell::new(Watch { steady: (steady, Time::ZERO + SETTLED), ..Watch::default() });
    go(&mut sim, &watch, seconds(10), |_, _| false).map(drop)
}

/// All are steady and start together: the first view that is called stable is complete.
fn calm(seed: Seed, defect: Option<Defect>) -> Result<(), String> {
    let mut random = Random::new(seed.number ^ 0xca13);
    let count = 1 + u32::try_from(random.below(40)).expect("a small number");
    let all: Vec<NodeId> = (1..=count).map(NodeId).collect();
    let mut order = all.clone();
    for at in (1..order.len()).rev() {
        order.swap(at, random.index(at + 1));
    }
    let mut sim = world(seed, knowing(&order, &all, &mut random), 97, defect);
    all.iter().for_each(|node| sim.add(*node));
    let steady = all.iter().copied().map(address).collect();
    let watch = RefCell::new(Watch { steady: (steady, Time::ZERO), ..Watch::default() });
    let came = go(&mut sim, &watch, seconds(2), |sim, _| sees(sim, &all))?;
    if came { Ok(()) } else { Err(format!("after 2 s:\n{}", describe(&sim, &all))) }
}

/// As many as this were started, each with the addresses of three others, and a tenth is killed in the first half of a second.
fn crowd(seed: Seed, count: u32) -> Result<(Duration, u64), String> {
    let mut random = Random::new(seed.number ^ 0xc80d);
    let all: Vec<NodeId> = (1..=count).map(NodeId).collect();
    let some = |random: &mut Random| (0..3).filter_map(|_| random.choose(&all).copied()).collect();
    let known: Known = all.iter().map(|node| (*node, some(&mut random))).collect();
    let mut sim = world(seed, known, 997, None);
    all.iter().for_each(|node| sim.add(*node));
    let mut live = all.clone();
    for _ in 0..count / 10 {
        let node = live.remove(random.index(live.len()));
        sim.at(Time::from_nanos(random.below(500_000_000)), move |sim| sim.crash(node));
    }
    let mut next = Time::ZERO;
    let came = sim.run_until(
        seconds(10),
        |_, _, _| {},
        |sim| {
            // A look at all takes long.
            let is_time = sim.now() >= next;
            next = if is_time { sim.now() + Duration::from_millis(10) } else { next };
            is_time && sees(sim, &live)
        },
    );
    let taken = sim.now().since(Time::ZERO);
    if came { Ok((taken, sim.counts.sent)) } else { Err(format!("{taken:?}:\n{}", describe(&sim, &live))) }
}

#[test]
fn whoever_is_alive_in_the_end_is_found_by_all() {
    seeds("whoever_is_alive_in_the_end_is_found_by_all", 0..300, |seed| storm(seed, None));
}

/// A follower took an old death for news after its centre had found their digests equal, which do not tell refutations; the
/// centre took it to know all.
#[test]
fn a_digest_says_less_than_a_roster() {
    let outcome = check("a_digest_says_less_than_a_roster", 1306..1307, |seed| storm(seed, None));
    outcome.expect("the seed that found it");
}

#[test]
fn no_stable_view_lacks_a_steady_node() {
    seeds("no_stable_view_lacks_a_steady_node", 0..300, |seed| steady(seed, None));
}

#[test]
fn the_first_stable_view_of_a_calm_network_is_complete() {
    seeds("the_first_stable_view_of_a_calm_network_is_complete", 0..60, |seed| calm(seed, None));
}

/// The bounds are counts, and virtual time.
#[test]
fn two_hundred_find_each_other_although_twenty_die() {
    seeds("two_hundred_find_each_other_although_twenty_die", 0..1, |seed| {
        let (taken, sent) = crowd(seed.clone(), 200)?;
        println!("seed {}: {taken:?}, {sent} messages", seed.number);
        let most = 8 * 200 * 8;
        if taken >= seconds(3) || sent > most {
            return Err(format!("{taken:?} and {sent} messages, not 3 s and {most}"));
        }
        Ok(())
    });
}

#[test]
fn defects_are_found() {
    let find = |defect, run: fn(Seed, Option<Defect>) -> Result<(), String>| {
        let found = check("a planted defect", 0..400, |seed| run(seed, Some(defect)));
        println!("{defect:?}: {}", found.expect_err("the defect is found"));
    };
    find(Defect::NeverRefutes, storm);
    find(Defect::TrustsAcknowledgements, storm);
    find(Defect::ConfirmsAnything, storm);
    find(Defect::ConfirmsForever, storm);
    find(Defect::NeverWaits, calm);
}
