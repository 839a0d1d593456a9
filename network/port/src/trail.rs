//! The way of a frame from switch to switch inside a process, which ends.
//!
//! Two bridges that are joined by two pairs of patch ports send each broadcast round and round, as fast as a processor can. A loop of real links is as bad, but
//! takes as long as these do, and a spanning tree or somebody who pulls a plug ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A frame goes through so many links, one after the other: as many as Open vSwitch lets it be looked up again.
const MOST_LINKS: u8 = 64;
/// And all frames that become of one go through so many together.
const MOST_FRAMES: u32 = 4_096;

/// How far a frame has come, and what is left to all that become of the same.
#[derive(Clone, Debug)]
pub struct Trail {
    links: u8,
    left: Arc<AtomicU32>,
}

impl Trail {
    /// One more link than before, if there was one; nothing, if it may go no further.
    pub(crate) fn after(before: Option<&Self>) -> Option<Self> {
        let (links, left) = before.map_or_else(
            || (0, Arc::new(AtomicU32::new(MOST_FRAMES))),
            |trail| (trail.links, Arc::clone(&trail.left)),
        );
        let has_left = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        (links < MOST_LINKS && has_left).then_some(Self { links: links + 1, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_so_far_and_no_further() {
        let mut trail = None;
        for _ in 0..MOST_LINKS {
            trail = Some(Trail::after(trail.as_ref()).expect("it goes on"));
        }
        assert!(Trail::after(trail.as_ref()).is_none());
    }

    #[test]
    fn what_becomes_of_a_frame_is_only_so_much() {
        let first = Trail::after(None).expect("it goes on");
        let copies = (0..2 * MOST_FRAMES).filter_map(|_| Trail::after(Some(&first))).count();
        assert_eq!(copies, MOST_FRAMES as usize - 1);
        assert!(Trail::after(None).is_some(), "another frame");
    }
}
