//! A failure, with all that it does not need taken out.

use super::Plan;

/// The plan without what can be left out while it still `fails`: acts, targets, rounds, and that a process lies at all cannot be, as
/// the number of those that lie bounds the rounds. Deterministic; runs `fails` some hundred times.
pub(crate) fn shrink<V: Clone>(plan: &Plan<V>, mut fails: impl FnMut(&Plan<V>) -> bool) -> Plan<V> {
    let mut plan = plan.clone();
    let mut try_without = |plan: &mut Plan<V>, change: &dyn Fn(&mut Plan<V>)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        let is_enough = fails(&smaller);
        if is_enough {
            *plan = smaller;
        }
        is_enough
    };
    for liar in 0..plan.liars.len() {
        if try_without(&mut plan, &|plan| plan.liars[liar].acts.clear()) {
            continue;
        }
        for round in (0..plan.liars[liar].acts.len()).rev() {
            if try_without(&mut plan, &|plan| plan.liars[liar].acts[round].clear()) {
                continue;
            }
            for act in (0..plan.liars[liar].acts[round].len()).rev() {
                if try_without(&mut plan, &|plan| drop(plan.liars[liar].acts[round].remove(act))) {
                    continue;
                }
                for target in plan.liars[liar].acts[round][act].targets.iter().collect::<Vec<_>>() {
                    try_without(&mut plan, &|plan| {
                        let targets = &mut plan.liars[liar].acts[round][act].targets;
                        *targets = targets.without([target].into_iter().collect());
                    });
                }
            }
        }
    }
    plan
}
