//! How long things take at most. For networks of one building: round trips well below [`PATIENCE`].

use std::time::Duration;

const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A follower says something this often while anything changes…
pub(super) const BUSY: Duration = millis(200);
/// …and, step by step, this rarely when nothing does.
pub(super) const IDLE: Duration = millis(1_000);
/// What is learned together within this time is told together.
pub(super) const TOGETHER: Duration = millis(30);
/// After this time an answer is late.
pub(super) const PATIENCE: Duration = millis(100);
/// So often a silent node is asked, [`PATIENCE`] apart, before it is suspected.
pub(super) const ASKED: u32 = 3;
/// A suspect may refute for so long: twice what a follower takes that has to find another centre for it.
pub(super) const SUSPICION: Duration = millis(400);
/// A view is called stable only when it was the same for so long.
pub(super) const CALM: Duration = millis(300);
/// Older confirmations of a view count no more: a follower's is two pauses old at most, unless something was lost.
pub(super) const FRESH: Duration = millis(2_500);
/// Who does not answer is not chosen as the centre for so long.
pub(super) const AVOIDED: Duration = millis(2_000);
/// The centre asks this often whether one of the dead was only cut off…
pub(super) const REUNION: Duration = millis(1_000);
/// …this many at a time, or more…
pub(super) const REUNITED: usize = 4;
/// …so that it has asked all when it has asked so often: the dead may be many who were never there.
pub(super) const REUNIONS: usize = 10;
/// Who has been dead or gone for so long is forgotten: longer than a network is cut in two by a failure. What strangers invent fades, too.
pub(super) const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// That is looked for this often.
pub(super) const FORGETTING: Duration = Duration::from_secs(60);
/// Of the addresses known from the start, the second is called this much later than the first, and the third than the second.
pub(super) const BETWEEN_CONTACTS: Duration = millis(100);
/// After so many calls without an answer nobody waits for one.
pub(super) const CALLS: u32 = 5;
/// The longest time between two calls.
pub(super) const RARELY: Duration = millis(8_000);
/// Who leaves says so this often, [`PATIENCE`] apart, unless somebody has heard it.
pub(super) const FAREWELLS: u32 = 4;

/// The time from a call to the next: short at first, then twice as long each time.
pub(super) fn call_again(calls: u32) -> Duration {
    if calls < CALLS {
        PATIENCE + millis(25) * calls
    } else {
        (BUSY * 2_u32.pow((calls - CALLS).min(6))).min(RARELY)
    }
}
