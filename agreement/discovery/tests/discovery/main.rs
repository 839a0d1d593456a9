//! All algorithms, on all topologies: every machine comes to know all, calls only whom it knows, and what that costs is counted.

mod model;
mod simulator;

use fulmar_discovery::sublogarithmic::{Constants, Message, Step, Sublogarithmic};
use fulmar_discovery::{Algorithm, Call, Counts, Setting, Shape, network};

/// Numbers of machines: the smallest ones, those that are no power of two, and one with several iterations of everything.
const SIZES: [usize; 8] = [1, 2, 3, 5, 16, 37, 100, 256];

#[test]
fn every_machine_knows_all_in_the_end() {
    for shape in Shape::ALL {
        for machines in SIZES {
            for seed in 0..6 {
                let setting = Setting::new(shape, machines, seed);
                for algorithm in Algorithm::ALL {
                    // Runs of this size are checked call by call.
                    let run = setting.run(algorithm);
                    assert!(run.is_ok(), "{shape:?}, {machines}, seed {seed}, {algorithm:?}: {run:?}");
                }
            }
        }
    }
}

/// Constants that are not the default ones cost more, and are as right: initialization, splitting, and hardly any exploring.
#[test]
fn every_machine_knows_all_whatever_the_constants() {
    let default = Constants::default;
    for constants in [
        Constants { initialization: 1, ..default() },
        Constants { initialization: 3, ..default() },
        Constants { split: Some(1.0), ..default() },
        Constants { initialization: 2, split: Some(2.0), ..default() },
        Constants { sample: 0.1, last_sample: 0.1, reach: 0.1, ..default() },
        Constants { growth: 1.5, left: 0.1, ..default() },
    ] {
        for shape in Shape::ALL {
            for (machines, seeds) in [(2, 4), (16, 8), (200, 4)] {
                for seed in 0..seeds {
                    let setting = Setting::new(shape, machines, seed);
                    let mut all = setting.sublogarithmic(&constants);
                    let run = network::run(&mut all, &setting.topology, 1_000, |_| {});
                    assert!(run.is_ok(), "{shape:?}, {machines}, seed {seed}, {constants:?}: {run:?}");
                }
            }
        }
    }
}

#[test]
fn a_seed_gives_one_run() {
    for algorithm in Algorithm::ALL {
        let run = |seed| Setting::new(Shape::PowerLaw, 100, seed).run(algorithm);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}

/// Clusters that are split have at most as many members as is asked for, and nobody is lost.
#[test]
fn large_clusters_are_split() {
    let constants = Constants { initialization: 1, split: Some(1.0), ..Constants::default() };
    let setting = Setting::new(Shape::PowerLaw, 256, 3);
    let plan = setting.plan(&constants);
    let mut all = setting.sublogarithmic(&constants);
    let mut pieces = 0;
    let run = network::run(&mut all, &setting.topology, 1_000, |acted| {
        if let Step::Split(most) = plan.step(acted.round) {
            let largest = acted.machines.iter().map(|machine| machine.members().len()).max();
            assert!(largest <= Some(most), "{largest:?} > {most}");
            let leads = |call: &Call<Message>| matches!(call, Call::Push(_, Message::Lead(_)));
            pieces += acted.calls.iter().filter(|(_, call)| leads(call)).count();
        }
    });
    assert!(run.is_ok() && pieces > 1, "{run:?} {pieces}");
}

/// A hub that knows all from the start is asked by each of the others, and that is all.
#[test]
fn who_knows_all_ends_it() {
    for seed in 0..20 {
        let counts = Setting::new(Shape::Star, 256, seed).run(Algorithm::Sublogarithmic);
        let counts = counts.expect("all come to know all");
        // Where the hub is a centre, three of four join it and are told.
        assert!(counts.rounds == 4 && (255..2 * 255).contains(&counts.messages), "{seed}: {counts:?}");
    }
}

/// What Theorem 1 promises and measurement shows, at sizes that tests can afford: no more rounds than any other but flooding, and no
/// more messages than any other.
#[test]
fn it_is_beaten_in_rounds_by_flooding_only_and_in_messages_by_none() {
    for (shape, machines) in Shape::ALL.into_iter().flat_map(|shape| [(shape, 256), (shape, 1_024)]) {
        let medians = |algorithm| {
            let seeds = if machines == 256 { 20 } else { 5 };
            let runs = (0..seeds).map(|seed| Setting::new(shape, machines, seed).run(algorithm));
            let runs = runs.collect::<Result<Vec<_>, _>>().expect("all come to know all");
            let median = |of: fn(&Counts) -> u64| {
                let mut values: Vec<u64> = runs.iter().map(of).collect();
                values.sort_unstable();
                values[values.len() / 2]
            };
            (median(|counts| counts.rounds.into()), median(|counts| counts.messages))
        };
        let ours = medians(Algorithm::Sublogarithmic);
        // With more, flooding says more than a test can wait for.
        let others = Algorithm::ALL.into_iter().filter(|by| machines == 256 || *by != Algorithm::Flooding);
        for other in others {
            let theirs = medians(other);
            let is_slower = other != Algorithm::Flooding && ours.0 > theirs.0;
            assert!(
                !is_slower && ours.1 <= theirs.1,
                "{shape:?}, {machines}: {ours:?}, {other:?} {theirs:?}"
            );
        }
    }
}

/// Whom machines follow is what leaders say of them, in every round in which nobody moves.
#[test]
fn members_follow_the_leader_that_counts_them() {
    let setting = Setting::new(Shape::DataCenter, 256, 5);
    let plan = setting.plan(&Constants::default());
    let mut all = setting.sublogarithmic(&Constants::default());
    let mut seen = 0;
    let run = network::run(&mut all, &setting.topology, 1_000, |acted| {
        if matches!(plan.step(acted.round), Step::Explore(_) | Step::Survey) {
            seen += 1;
            let mut members = 0;
            for leader in acted.machines.iter().filter(|machine| !machine.members().is_empty()) {
                for &member in leader.members() {
                    let follows = acted.machines.get(member.0 as usize).map(Sublogarithmic::leader);
                    assert_eq!(follows, Some(leader.leader()));
                    members += 1;
                }
            }
            assert_eq!(members, 256, "round {}", acted.round);
        }
    });
    assert!(run.is_ok() && seen > 5, "{run:?} {seen}");
}
