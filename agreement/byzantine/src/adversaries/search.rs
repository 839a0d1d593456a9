//! From bad to worse: plans that are changed a little, of which the worst is kept.

use super::strategies::{Cast, any_act};
use super::{Plan, Setting, Strategy};
use crate::Value;
use fulmar_node::Random;

/// Out of so many strategies' plans the worst is where it begins.
const BEGINNINGS: usize = 8;

/// The plan with the highest score among `tries` (at least one), each made from the best so far by a change of one process in one
/// round, of an input, or of all that one process does. Depends on `seed` and what `score` says alone; of equals the later is kept,
/// so that it walks on where changes do nothing.
///
/// # Errors
/// What `score` says is wrong with a plan, and the plan.
pub fn search<V: Value, E>(
    setting: &Setting<V>,
    seed: u64,
    tries: usize,
    mut score: impl FnMut(&Plan<V>) -> Result<u64, E>,
) -> Result<(Plan<V>, u64), (Plan<V>, E)> {
    let mut random = Random::new(seed);
    let mut best: Option<(Plan<V>, u64)> = None;
    for number in 0..tries.max(1) {
        let plan = match &best {
            Some((best, _)) if number >= BEGINNINGS => changed(setting, best, &mut random),
            _ => Strategy::ALL[random.index(Strategy::ALL.len())].plan_of(setting, setting.t, &mut random),
        };
        match score(&plan) {
            Ok(points) if best.as_ref().is_some_and(|&(_, most)| points < most) => {}
            Ok(points) => best = Some((plan, points)),
            Err(error) => return Err((plan, error)),
        }
    }
    Ok(best.expect("there was a try"))
}

/// The same plan but for one thing.
fn changed<V: Value>(setting: &Setting<V>, plan: &Plan<V>, random: &mut Random) -> Plan<V> {
    let mut plan = plan.clone();
    let cast = Cast { setting, lying: plan.lying(), first: random.index(3) + 1 };
    let place = random.index(plan.liars.len());
    let Some(liar) = plan.liars.get_mut(place).filter(|_| !random.one_in(6)) else {
        let place = random.index(setting.n);
        plan.inputs[place] = setting.values[random.index(setting.values.len())];
        return plan;
    };
    let round = cast.a_round(random) - 1;
    if liar.acts.len() <= round {
        liar.acts.resize(round + 1, Vec::new());
    }
    let acts = &mut liar.acts[round];
    match random.below(6) {
        0 => acts.clear(),
        1 => {
            // As in the round before.
            let before = round.checked_sub(1).map(|before| liar.acts[before].clone());
            liar.acts[round] = before.unwrap_or_default();
        }
        2 => {
            let strategy = Strategy::ALL[random.index(Strategy::ALL.len())];
            let other = strategy.plan_of(setting, setting.t, random);
            let theirs = random.index(other.liars.len());
            liar.acts.clone_from(&other.liars[theirs].acts);
        }
        3 if !acts.is_empty() => {
            let place = random.index(acts.len());
            acts[place].targets = cast.as_many_as_a_threshold(random);
        }
        _ => acts.insert(random.index(acts.len() + 1), any_act(&cast, random)),
    }
    plan
}
