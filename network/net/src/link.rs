//! A link in one direction: when which frames arrive that are sent into it.

use crate::Quality;
use fulmar_node::{Random, Time};
use fulmar_port::Offload;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// So many bytes are under way at most: a second and a half at 1 Gbit/s.
const MOST_UNDER_WAY: usize = 192 << 20;

/// What has become of the frames that were sent into a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that came out at the other end; one that came twice is two.
    pub arrived: u64,
    /// Frames that were lost on the way, as the quality has it.
    pub lost: u64,
    /// Frames that the queue had no room for.
    pub overflowed: u64,
    /// Frames that were lost as the link was down.
    pub unplugged: u64,
}

/// A frame under way. It is compared by when it arrives, and among those that arrive at once by when it was sent.
#[derive(Debug, PartialEq, Eq)]
struct Flight {
    due: Time,
    number: u64,
    frame: Vec<u8>,
    offload: Offload,
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// One direction of a link, as a value: it is told the time, and the same seed and calls give the same.
#[derive(Debug)]
pub struct Direction {
    quality: Quality,
    random: Random,
    /// When all that was sent will have left.
    clear_at: Time,
    /// By how much that is too early, as a numerator over the rate: below a nanosecond.
    rest: u128,
    /// When the last frame arrives that did not overtake: never earlier than one before it.
    last_due: Time,
    under_way: BinaryHeap<Reverse<Flight>>,
    /// The sum of the lengths of what is under way.
    bytes_under_way: usize,
    sent: u64,
    counts: Counts,
}

impl Direction {
    /// One on which nothing is under way.
    #[must_use]
    pub fn new(quality: Quality, seed: u64) -> Self {
        Self {
            quality,
            random: Random::new(seed),
            clear_at: Time::ZERO,
            rest: 0,
            last_due: Time::ZERO,
            under_way: BinaryHeap::new(),
            bytes_under_way: 0,
            sent: 0,
            counts: Counts::default(),
        }
    }

    /// How good it is.
    #[must_use]
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// What has become of frames so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// It is as good as that from now on. What is under way arrives when it would have, except that it is lost if there is no link now.
    pub fn set_quality(&mut self, quality: Quality) {
        if !quality.up {
            self.counts.unplugged += self.under_way.len() as u64;
            self.under_way.clear();
            self.bytes_under_way = 0;
            (self.clear_at, self.rest) = (Time::ZERO, 0);
        }
        self.quality = quality;
    }

    /// Sends a frame into it, with what is left to be done to it.
    pub fn send(&mut self, now: Time, frame: &[u8], offload: Offload) {
        if !self.quality.up {
            self.counts.unplugged += 1;
            return;
        }
        let Some(leaves) = self.transmit(now, frame.len()) else {
            self.counts.overflowed += 1;
            return;
        };
        if self.random.happens(self.quality.loss) {
            self.counts.lost += 1;
            return;
        }
        let due = self.arrival(leaves);
        let copies = 1 + usize::from(self.random.happens(self.quality.duplicate));
        for _ in 0..copies {
            if self.bytes_under_way + frame.len() > MOST_UNDER_WAY {
                self.counts.overflowed += 1;
                continue;
            }
            self.bytes_under_way += frame.len();
            self.under_way.push(Reverse(Flight { due, number: self.sent, frame: frame.to_vec(), offload }));
            self.sent += 1;
        }
    }

    /// When a frame of this length will have left, if there is room for it until then.
    fn transmit(&mut self, now: Time, length: usize) -> Option<Time> {
        /// Bits are sent at a rate a second, and time is in nanoseconds.
        const PER_BYTE: u128 = 8 * 1_000_000_000;
        let Some(rate) = self.quality.rate else { return Some(now) };
        let rate = u128::from(rate.get());
        if self.clear_at < now {
            (self.clear_at, self.rest) = (now, 0);
        }
        let waiting = (self.clear_at.since(now).as_nanos() * rate + self.rest).div_ceil(PER_BYTE);
        if waiting > 0 && waiting + length as u128 > u128::from(self.quality.queue) {
            return None;
        }
        let takes = length as u128 * PER_BYTE + self.rest;
        self.rest = takes % rate;
        self.clear_at = self.clear_at + Duration::from_nanos(u64::try_from(takes / rate).unwrap_or(u64::MAX));
        Some(self.clear_at)
    }

    /// When a frame arrives that leaves then.
    fn arrival(&mut self, leaves: Time) -> Time {
        if self.random.happens(self.quality.reorder) {
            return leaves;
        }
        let jitter = i64::try_from(self.quality.jitter.as_nanos()).unwrap_or(i64::MAX);
        let shift = self.random.between(-jitter, jitter);
        let delay = Duration::from_nanos(shift.unsigned_abs());
        let due = leaves + self.quality.delay;
        let due = if shift < 0 { (due - delay).max(leaves) } else { due + delay };
        self.last_due = self.last_due.max(due);
        self.last_due
    }

    /// When the next frame arrives.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse(flight)| flight.due)
    }

    /// The next frame that has arrived by now, with what is left to be done to it.
    pub fn take_due(&mut self, now: Time) -> Option<(Vec<u8>, Offload)> {
        self.next_due().filter(|due| *due <= now)?;
        let Reverse(flight) = self.under_way.pop()?;
        self.bytes_under_way -= flight.frame.len();
        self.counts.arrived += 1;
        Some((flight.frame, flight.offload))
    }
}

#[cfg(test)]
mod tests;
