use super::{About, Act, Deed, Liar, Lie, Plan, Puppets, Say, Setting, Strategy, search, shrink};
use crate::baselines::{Baseline, Eig, Level};
use crate::runs::{Adversary, Execution, trial};
use crate::{Processes, Wire};
use fulmar_node::Random;

fn setting(n: usize) -> Setting<u8> {
    Setting { values: vec![0, 1, 2], ..Setting::optimal(n, Vec::new()) }
}

/// What process 3 of four sends in a round to processes 0, 1 and 2, who begin with 0, 1 and 2.
fn heard(acts: Vec<Vec<Act<u8>>>, round: u32) -> Vec<Option<Vec<u8>>> {
    let setting = setting(4);
    let plan = Plan { inputs: vec![0, 1, 2, 1], liars: vec![Liar { process: 3, acts }], seed: 7 };
    let make = |me: u8, input| Eig::new(4, 1, me.into(), input, 0);
    let processes = (0..4).map(|me| make(me, me.min(2)));
    let mut execution = Execution::new(processes.collect(), plan.lying());
    let mut adversary = Puppets::new(&setting, &plan, make);
    (0..round).for_each(|_| execution.step(&mut adversary));
    let said = |to| Adversary::<Eig<u8>>::message(&mut adversary, 3, to).map(|level| level.0);
    (0..3).map(said).collect()
}

fn lie(about: About, say: Say<u8>) -> Vec<Act<u8>> {
    vec![Act { targets: [1].into_iter().collect(), deed: Deed::Lie(Lie { about, say, percent: 100 }) }]
}

#[test]
fn each_hears_the_first_act_that_is_meant_for_it_and_else_the_truth() {
    let targets = |targets: &[u8]| targets.iter().copied().collect::<Processes>();
    let acts = vec![
        Act { targets: targets(&[0]), deed: Deed::Silent },
        Act { targets: targets(&[0, 1]), deed: Deed::Face(2) },
    ];
    assert_eq!(heard(vec![acts], 1), [None, Some(vec![2]), Some(vec![1])]);
}

#[test]
fn lies_are_about_the_nodes_that_they_name() {
    // In the second round: what 0, 1 and 2 have said.
    let truth = vec![0, 1, 2];
    for (about, say, lied) in [
        (About::All, Say::Value(1), vec![1, 1, 1]),
        (About::SaidBy(2), Say::Next, vec![0, 1, 0]),
        (About::Through(0), Say::Next, vec![1, 1, 2]),
        (About::AmongLiars, Say::Next, truth.clone()),
        (About::SaidByCorrect, Say::Next, vec![1, 2, 0]),
    ] {
        let [zero, one, two] =
            heard(vec![Vec::new(), lie(about, say)], 2).try_into().expect("there are three");
        assert_eq!((zero, one, two), (Some(truth.clone()), Some(lied), Some(truth.clone())), "{about:?}");
    }
    // Its own value is the root's, of which all lie that there are in its sequence.
    assert_eq!(heard(vec![lie(About::AmongLiars, Say::Next)], 1)[1], Some(vec![2]));
}

#[test]
fn changed_bytes_are_messages_or_nothing() {
    let message = Level(vec![0_u8, 1, 2]);
    let mut random = Random::new(3);
    let garbled: Vec<_> = (0..500).map(|_| super::forge::garble(&message, &mut random)).collect();
    assert!(garbled.iter().any(Option::is_none));
    assert!(garbled.iter().flatten().any(|other| *other != message));
    let mut empty: &[u8] = &[];
    assert_eq!(Level::<u8>::decode(&mut empty), None);
}

#[test]
fn a_seed_makes_one_plan_and_all_strategies_lie() {
    let setting = setting(10);
    for strategy in Strategy::ALL {
        let plan = |seed| strategy.plan_of(&setting, 3, &mut Random::new(seed));
        assert_eq!(plan(5), plan(5));
        let lies =
            |plan: Plan<u8>| plan.liars.iter().any(|liar| liar.acts.iter().any(|acts| !acts.is_empty()));
        assert!((0..5).any(|seed| lies(plan(seed))), "{strategy:?}");
        assert_eq!(plan(5).lying().len(), 3);
    }
}

#[test]
fn a_search_ends_with_the_worst_that_it_has_seen() {
    let setting = setting(7);
    let mut seen = Vec::new();
    let mut score = |plan: &Plan<u8>| {
        let points = plan.liars.iter().flat_map(|liar| &liar.acts).map(Vec::len).sum::<usize>() as u64;
        seen.push(points);
        Ok::<_, ()>(points)
    };
    let found = search(&setting, 3, 200, &mut score);
    let again = search(&setting, 3, 200, &mut score);
    assert_eq!(found, again);
    let (_, points) = found.expect("nothing is wrong");
    assert_eq!(Some(&points), seen.iter().max());
    assert!(points > seen[0] + 3, "{seen:?}");
}

#[test]
fn a_shrunk_plan_fails_and_needs_all_that_it_does() {
    let (eig, setting) = (Baseline::<Eig<u8>>::default(), Setting { t: 1, rounds: 2, ..setting(3) });
    let fails = |plan: &Plan<u8>| trial(&eig, &setting, plan).is_err();
    let mut random = Random::new(1);
    let plans = (0..2_000).map(|_| Strategy::Chaos.plan_of(&setting, 1, &mut random));
    let plan = plans.into_iter().find(|plan| fails(plan)).expect("a third that lies breaks it");
    let shrunk = shrink(&plan, fails);
    assert!(fails(&shrunk));
    let count = shrunk.liars[0].acts.iter().map(Vec::len).sum::<usize>();
    assert!(count > 0);
    for round in 0..shrunk.liars[0].acts.len() {
        for act in 0..shrunk.liars[0].acts[round].len() {
            let mut smaller = shrunk.clone();
            smaller.liars[0].acts[round].remove(act);
            assert!(!fails(&smaller), "{smaller:?}");
        }
    }
}
