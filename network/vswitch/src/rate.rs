//! Rates, and what holds them.

use fulmar_node::Time;
use parking_lot::Mutex;

/// How much may pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// So much in a second, as long as anybody likes; any, if it is not said.
    pub per_second: Option<u64>,
    /// So much at once beyond that; what a tenth of a second brings, if it is not said.
    pub burst: Option<u64>,
}

const NANOS: i128 = 1_000_000_000;

/// The length of a packet in bits.
pub(crate) fn bits(bytes: usize) -> u64 {
    bytes as u64 * 8
}

/// Tokens, in billionths, so that a slow rate gains some in each nanosecond. A packet may pass while there are any, and takes as many as
/// it has bits, say: what is too much then is gained before the next. So segments that are yet to be cut are never too long.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: i128,
    depth: i128,
    filled: Mutex<(i128, Time)>,
}

impl Bucket {
    /// A full one; none, if any rate is right.
    pub(crate) fn new(rate: Rate, now: Time) -> Option<Self> {
        let per_second = rate.per_second?;
        let depth = i128::from(rate.burst.unwrap_or(per_second / 10).max(1)) * NANOS;
        Some(Self { per_second: per_second.into(), depth, filled: Mutex::new((depth, now)) })
    }

    /// Whether something may pass, which takes so many.
    fn take(&self, tokens: u64, now: Time) -> bool {
        let mut filled = self.filled.lock();
        let (there, since) = *filled;
        let passed = i128::try_from(now.since(since).as_nanos()).unwrap_or(i128::MAX >> 64);
        let there = (there + passed * self.per_second).min(self.depth);
        let has_any = there > 0;
        let cost = if has_any { i128::from(tokens) * NANOS } else { 0 };
        *filled = (there - cost, since.max(now));
        has_any
    }

    /// What was taken for something that did not pass.
    fn give_back(&self, tokens: u64) {
        self.filled.lock().0 += i128::from(tokens) * NANOS;
    }
}

/// Whether something may pass that takes so many tokens of each of two. If the second has none, the first gets its own back.
pub(crate) fn pass_both(both: [(&Option<Bucket>, u64); 2], now: Time) -> bool {
    let may_pass = |(bucket, tokens): (&Option<Bucket>, u64)| {
        bucket.as_ref().is_none_or(|bucket| bucket.take(tokens, now))
    };
    let [first, second] = both;
    if !may_pass(first) {
        return false;
    }
    let passes = may_pass(second);
    if let ((Some(bucket), tokens), false) = (first, passes) {
        bucket.give_back(tokens);
    }
    passes
}
