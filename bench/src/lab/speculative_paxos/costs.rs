//! Table 1: message delays and messages for each request, where nothing fails and all arrives in order. Counts, and exact.

use super::name;
use crate::Figure;
use crate::replication::Mode;
use crate::replication::simulated::{LATENCY, Setting, World};
use fulmar_replication::{GroupError, Options};
use std::time::Duration;

/// Operations of a batch, the paper's b: there are always more that wait.
const BATCH: u32 = 10;
/// Requests from one synchronisation to the next, the paper's s.
const SYNCHRONIZE: u32 = 10;
/// Until the same happens again and again; whole batches, as is what is counted.
const WARMING: u64 = 200;
const COUNTED: u64 = 1_000;
/// Longer than all of that takes: no sign of a leader is counted.
const LONG: Duration = Duration::from_secs(3_600);

/// What a request costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Under which protocol.
    pub mode: Mode,
    /// How many replicas there are.
    pub replicas: u32,
    /// How long a client waits that is alone, in times that a message is on its way.
    pub delays: f64,
    /// How many messages there are in all.
    pub messages: f64,
    /// How many of them the busiest replica sends or receives.
    pub bottleneck: f64,
    /// The three of them as the paper has them, if it does.
    pub paper: Option<[f64; 3]>,
}

/// Of one replica, and of three and five under each protocol.
pub(super) fn count() -> Result<Vec<Cost>, GroupError> {
    let replicated = |replicas| {
        let modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Unreplicated);
        modes.map(move |mode| (mode, replicas))
    };
    let all = [(Mode::Unreplicated, 1)].into_iter().chain([3, 5].into_iter().flat_map(replicated));
    all.map(|(mode, replicas)| cost(mode, replicas)).collect()
}

fn cost(mode: Mode, replicas: u32) -> Result<Cost, GroupError> {
    let setting = |clients| {
        let (heartbeat, patience, synchronize) = (LONG, LONG, SYNCHRONIZE.into());
        let mut options = Options { heartbeat, patience, synchronize, ..mode.options() };
        if mode == Mode::Batching {
            // One message at a time, so that the next one fills.
            (options.batch, options.window) = (BATCH as usize, 1);
        }
        Setting { replicas, options, message: Duration::ZERO, ..Setting::of(mode, clients) }
    };
    let mut alone = World::new(&setting(1))?;
    alone.answer(WARMING);
    let began = alone.now();
    alone.answer(COUNTED);
    let delays = alone.now().since(began).as_nanos() / LATENCY.as_nanos();

    let mut many = World::new(&setting(if mode == Mode::Batching { 4 * BATCH } else { 1 }))?;
    many.answer(WARMING);
    let (sent, busy): (u64, Vec<u64>) = (many.counts().sent, many.messages().collect());
    many.answer(COUNTED);
    let bottleneck = many.messages().zip(busy).map(|(after, before)| after - before).max();
    Ok(Cost {
        mode,
        replicas,
        delays: delays as f64 / COUNTED as f64,
        messages: (many.counts().sent - sent) as f64 / COUNTED as f64,
        bottleneck: bottleneck.unwrap_or_default() as f64 / COUNTED as f64,
        paper: paper(mode, replicas.into()),
    })
}

/// Table 1's formulas.
fn paper(mode: Mode, n: f64) -> Option<[f64; 3]> {
    let (b, s) = (f64::from(BATCH), f64::from(SYNCHRONIZE));
    match mode {
        Mode::Unreplicated => None,
        Mode::Viewstamped => Some([4.0, 2.0 * n, 2.0 * n]),
        // "4+": at least.
        Mode::Batching => Some([4.0, 2.0 + 2.0 * n / b, 2.0 + 2.0 * n / b]),
        Mode::Fast => Some([3.0, 2.0 * n, 2.0 * n]),
        Mode::Speculative => Some([2.0, 2.0 * n + 2.0 * n / s, 2.0 + 2.0 * n / s]),
    }
}

pub(super) fn figures(costs: &[Cost]) -> Vec<Figure> {
    let figure = |cost: &Cost| {
        let Cost { mode, replicas, paper, .. } = cost;
        let columns = [
            ("delays", "message delays", cost.delays),
            ("messages", "messages", cost.messages),
            ("bottleneck", "messages", cost.bottleneck),
        ];
        let figure = |(column, (what, unit, value)): (usize, (&str, &'static str, f64))| Figure {
            paper: paper.map(|paper| paper[column]),
            machine: "simulated".into(),
            note: format!("for each request, counted in the simulator; b = {BATCH}, s = {SYNCHRONIZE}"),
            ..Figure::of(
                name("table1", &format!("{}_{what}_{replicas}", mode.word())),
                unit,
                "lower",
                &[value],
            )
        };
        columns.into_iter().enumerate().map(figure).collect::<Vec<_>>()
    };
    costs.iter().flat_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where they differ from the paper's (`docs/replication.md` says why), they are fewer.
    #[test]
    fn counts_are_those_of_the_paper_or_fewer() {
        let costs = count().expect("odd numbers");
        let found = |mode, replicas| {
            let cost = costs.iter().find(|cost| (cost.mode, cost.replicas) == (mode, replicas));
            cost.map(|cost| [cost.delays, cost.messages, cost.bottleneck])
        };
        assert_eq!(found(Mode::Unreplicated, 1), Some([2.0, 2.0, 2.0]));
        for replicas in [3, 5] {
            let n = f64::from(replicas);
            let batching = 2.0 + 2.0 * (n - 1.0) / 10.0;
            let synchronizing = 2.0 * (n - 1.0) / 10.0;
            assert_eq!(found(Mode::Viewstamped, replicas), Some([4.0, 2.0 * n, 2.0 * n]));
            assert_eq!(found(Mode::Batching, replicas), Some([4.0, batching, batching]));
            assert_eq!(found(Mode::Fast, replicas), Some([3.0, 2.0 * n, n + 1.0]));
            let speculative = [2.0, 2.0 * n + synchronizing, 2.0 + synchronizing];
            assert_eq!(found(Mode::Speculative, replicas), Some(speculative));
        }
        for cost in costs {
            let ours = [cost.delays, cost.messages, cost.bottleneck];
            assert!(cost.paper.is_none_or(|paper| ours.iter().zip(paper).all(|(our, their)| *our <= their)));
        }
    }
}
