//! A client of timestamps.

use crate::{CallError, Caller, Charter};
use fulmar_replication::applications::Timestamps;
use std::num::NonZeroU64;
use std::ops::Range;

/// Draws timestamps: each is given once, and is larger than all that were given before it was asked for. A child of `fork` makes its own.
#[derive(Debug)]
pub struct TimestampClient(Caller);

impl TimestampClient {
    /// A client of this group.
    ///
    /// # Errors
    /// [`CallError`]
    pub fn new(charter: &Charter) -> Result<Self, CallError> {
        Caller::new(charter).map(Self)
    }

    /// So many, one after the other, or [`Timestamps::MOST`] if it is more.
    ///
    /// # Errors
    /// [`CallError`]
    pub fn draw(&mut self, count: NonZeroU64) -> Result<Range<u64>, CallError> {
        let count = count.get().min(Timestamps::MOST);
        let answer = self.0.invoke(Timestamps::take(count))?;
        let first = Timestamps::first(&answer).ok_or(CallError::Answer(answer))?;
        Ok(first..first.saturating_add(count))
    }
}
