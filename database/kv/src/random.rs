//! The generator of every seeded test, and the seeds.

use std::env;
use std::panic::catch_unwind;

/// Runs a test with so many seeds, and names the first that fails. `FULMAR_SEEDS=n` runs more or fewer, `FULMAR_SEED=n`
/// only that one.
pub(crate) fn for_seeds(quick: u64, run: fn(u64) -> Result<(), String>) {
    let number = |name| env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    if let Some(seed) = number("FULMAR_SEED") {
        return run(seed).expect("the seed passes");
    }
    for seed in 0..number("FULMAR_SEEDS").unwrap_or(quick) {
        match catch_unwind(|| run(seed)) {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => panic!("FULMAR_SEED={seed} fails: {problem}"),
            Err(_) => panic!("FULMAR_SEED={seed} fails"),
        }
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub(crate) fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).expect("below a usize")
    }
    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}
