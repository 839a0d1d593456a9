//! What a protocol takes by how many processes there are.

use super::computation::microseconds;
use super::{INPUTS, Options};
use fulmar_byzantine::Decision;
use fulmar_byzantine::adversaries::Setting;
use fulmar_byzantine::baselines::{Baseline, Eig, King, Queen};
use fulmar_byzantine::runs::{EarlyStopping, Measures, Protocol, Tally, campaign};
use serde::Serialize;

/// The name of the protocol that is beside the others.
pub(super) const OURS: &str = "early stopping";
/// Most nodes of exponential trees that are run: larger ones are reckoned.
const RUN_NODES: f64 = 2e5;
/// Adversaries of each baseline at each size: their measures do not depend on them.
const RUNS: u64 = 3;

/// What a correct process takes at most, in all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Which protocol.
    pub protocol: &'static str,
    /// How many processes.
    pub n: usize,
    /// How many of them may lie.
    pub t: usize,
    /// Rounds.
    pub rounds: u32,
    /// Nodes of its trees at a time, or values where there are no trees.
    pub nodes: f64,
    /// Bytes of a message.
    pub message: f64,
    /// Time that the busiest process takes for an execution, microseconds: the median of some adversaries; none if it was not run.
    pub microseconds: Option<f64>,
}

/// That of all protocols.
pub(super) fn all(options: &Options, ours: &Tally<Decision<u8>>) -> Vec<Growth> {
    let ours = options.sizes.iter().filter_map(|&n| {
        let most = ours.most.get(&n)?;
        let t = (n - 1) / 3;
        let rounds = ours.rounds.range((t, 0)..=(t, t)).map(|(_, &rounds)| rounds).max()?;
        let time = microseconds(&EarlyStopping::<u8>::default(), &Setting::optimal(n, INPUTS.into()));
        Some(counted(OURS, (n, t), (rounds, time), most))
    });
    let eig = options.sizes.iter().map(|&n| {
        let t = (n - 1) / 3;
        let reckoned = reckoned(n, t);
        if reckoned.nodes > RUN_NODES {
            reckoned
        } else {
            baseline::<Eig<Decision<u8>>>("exponential EIG", n, t)
        }
    });
    let king = options.sizes.iter().map(|&n| baseline::<King<Decision<u8>>>("phase king", n, (n - 1) / 3));
    let queen = options.sizes.iter().filter(|&&n| n > 4);
    let queen = queen.map(|&n| baseline::<Queen<Decision<u8>>>("phase queen (t < n/4)", n, (n - 1) / 4));
    ours.chain(eig).chain(king).chain(queen).collect()
}

fn baseline<P>(name: &'static str, n: usize, t: usize) -> Growth
where
    Baseline<P>: Protocol<Value = Decision<u8>>,
{
    let setting = Setting { n, t, values: INPUTS.into(), rounds: 3 * (t + 1) };
    let mut tally = Tally::default();
    campaign(&Baseline::<P>::default(), &setting, 0..RUNS, &mut tally);
    assert!(tally.failures.is_empty(), "{name} is right: {:?}", tally.failures);
    let rounds = tally.rounds.values().copied().max().unwrap_or(0);
    let time = microseconds(&Baseline::<P>::default(), &setting);
    counted(name, (n, t), (rounds, time), &tally.most[&n])
}

fn counted(
    protocol: &'static str,
    (n, t): (usize, usize),
    (rounds, microseconds): (u32, f64),
    most: &Measures,
) -> Growth {
    Growth {
        protocol,
        n,
        t,
        rounds,
        nodes: most.most_nodes as f64,
        message: most.longest_message as f64,
        microseconds: Some(microseconds),
    }
}

/// What exponential information gathering would take at most.
fn reckoned(n: usize, t: usize) -> Growth {
    let sequences = |n: usize, length: usize| (0..length).map(|place| (n - place) as f64).product::<f64>();
    let nodes: f64 = (0..=t + 1).map(|length| sequences(n, length)).sum();
    Growth {
        protocol: "exponential EIG",
        n,
        t,
        rounds: u32::try_from(t + 1).unwrap_or(u32::MAX),
        nodes,
        // A value is two bytes at most, and its length is before them.
        message: 8.0 + 2.0 * sequences(n - 1, t),
        microseconds: None,
    }
}

/// The exponent e of the curve c·nᵉ that is nearest to points (n, value), by least squares of logarithms; none of fewer than two.
pub(super) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let logarithms = || points.iter().map(|(x, y)| (x.ln(), y.ln()));
    let mean_x = logarithms().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logarithms().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = logarithms().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = logarithms().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
    (points.len() > 1 && spread > 0.0).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reckoned_is_what_is_counted() {
        for (n, t) in [(4, 1), (7, 2), (10, 3)] {
            let counted = baseline::<Eig<Decision<u8>>>("exponential EIG", n, t);
            let reckoned = reckoned(n, t);
            // The longest message has no value of one byte, which chance need not meet.
            assert!(counted.message <= reckoned.message, "{counted:?}");
            assert_eq!(Growth { microseconds: None, message: reckoned.message, ..counted }, reckoned);
        }
    }

    #[test]
    fn the_exponent_of_a_power_is_found() {
        let cubes: Vec<_> = [4.0_f64, 7.0, 10.0, 31.0].map(|n| (n, 5.0 * n.powi(3))).into();
        let found = exponent(&cubes).expect("there are points");
        assert!((found - 3.0).abs() < 1e-9, "{found}");
        assert_eq!(exponent(&cubes[..1]), None);
    }
}
