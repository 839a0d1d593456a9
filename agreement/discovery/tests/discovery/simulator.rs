//! The same machines on the simulator's messages cost the same.

use fulmar_discovery::baselines::{KuttenPelegVishkin, NameDropper};
use fulmar_discovery::process::{InRounds, ROUND};
use fulmar_discovery::sublogarithmic::Constants;
use fulmar_discovery::{Counts, Machine, Setting, Shape, network};
use fulmar_node::NodeId;
use fulmar_sim::{Delay, Link, Sim};
use std::time::Duration;

/// Runs machines in rounds of virtual time, `rounds` of them: what they cost, and whether all know all a round before that, and then.
fn simulated<M>(machines: Vec<M>, rounds: u32) -> (Counts, [bool; 2])
where
    M: Machine + 'static,
    M::Message: Clone + std::fmt::Debug,
{
    let all = machines.len();
    let nodes = || (0..).map(NodeId).take(all);
    let mut machines: Vec<Option<M>> = machines.into_iter().map(Some).collect();
    let mut sim = Sim::new(0, move |me: NodeId, _: &[()]| {
        let machine = machines[me.0 as usize].take().expect("nothing restarts");
        InRounds::new(me, all, machine)
    });
    sim.network.link = Link { latency: Delay::Fixed(Duration::from_micros(100)), ..Link::default() };
    nodes().for_each(|node| sim.add(node));
    // The first round begins after `ROUND`, and each is heard when the next begins.
    let know_all = |sim: &Sim<InRounds<M>>| {
        nodes().all(|node| sim.process(node).is_some_and(|process| process.known() == all))
    };
    sim.run(ROUND * rounds + ROUND / 2, |_, _, _| {});
    let before = know_all(&sim);
    let counts: Vec<Counts> = nodes().filter_map(|node| Some(sim.process(node)?.counts())).collect();
    sim.run(ROUND, |_, _, _| {});
    let sum = |value: fn(&Counts) -> u64| counts.iter().map(value).sum();
    let counts = Counts {
        rounds,
        messages: sum(|counts| counts.messages),
        most_messages: counts.iter().map(|counts| counts.messages).max().unwrap_or_default(),
        addresses: sum(|counts| counts.addresses),
        bits: sum(|counts| counts.bits),
    };
    (counts, [before, know_all(&sim)])
}

/// The same in [`network::run`] and in the simulator.
fn agree<M>(setting: &Setting, machines: impl Fn() -> Vec<M>)
where
    M: Machine + 'static,
    M::Message: Clone + std::fmt::Debug,
{
    let expected = network::run(&mut machines(), &setting.topology, 1_000, |_| {});
    let expected = expected.expect("all come to know all");
    assert_eq!(simulated(machines(), expected.rounds), (expected, [false, true]));
}

#[test]
fn rounds_by_the_clock_cost_what_rounds_cost() {
    for shape in Shape::ALL {
        for seed in 0..3 {
            let setting = Setting::new(shape, 60, seed);
            agree(&setting, || setting.sublogarithmic(&Constants::default()));
            agree(&setting, || {
                setting.sublogarithmic(&Constants { initialization: 2, ..Constants::default() })
            });
            agree(&setting, || setting.machines(|me, known, random| NameDropper::new(me, 60, known, random)));
            agree(&setting, || setting.machines(|me, known, _| KuttenPelegVishkin::new(me, 60, known)));
        }
    }
}
