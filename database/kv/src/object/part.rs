//! A part of an object, as one snapshot sees it: what travels to a reader elsewhere.

use super::next::Builder;
use super::{Encoded, Object};
use crate::commit::linked;
use crate::{Interval, ObjectId, Part, Timestamp};

impl Object {
    /// Whether it is responsible for where `part` begins.
    #[inline]
    pub fn holds(&self, part: Part<'_>) -> bool {
        let interval = self.interval();
        match part {
            Part::From(key) => self.covers(key),
            Part::Before(Some(key)) => interval.low() < key && interval.high().is_none_or(|high| key <= high),
            Part::Before(None) => interval.high().is_none(),
        }
    }

    /// Of an inner node, the link to the one below that holds where `part` begins, if the tree has not changed since.
    #[inline]
    pub fn link_towards(&self, part: Part<'_>) -> Option<ObjectId> {
        let after = match part {
            Part::From(key) => self.upper_bound(key),
            Part::Before(Some(key)) => self.lower_bound(key),
            Part::Before(None) => self.slots(),
        };
        after.checked_sub(1).and_then(|slot| linked(self.value(slot)))
    }

    /// The cells that `at` sees, beginning with `part`: as many as take `bytes`, but one at least if there is one. Its
    /// interval is what it tells of. `None` if the object does not hold where `part` begins.
    pub fn view<'a>(&'a self, part: Part<'a>, at: Timestamp, bytes: usize) -> Option<View<'a>> {
        let mut slots = Vec::new();
        let mut room = bytes;
        let take = |slot: usize, slots: &mut Vec<usize>, room: &mut usize| {
            let size = self.cell_size(slot);
            let fits = slots.is_empty() || size <= *room;
            if fits {
                slots.push(slot);
                *room = room.saturating_sub(size);
            }
            fits
        };
        if !self.holds(part) {
            return None;
        }
        let (low, high) = match part {
            Part::From(key) => {
                let mut next = self.visible_from(self.lower_bound(key), at);
                while let Some(slot) = next
                    && take(slot, &mut slots, &mut room)
                {
                    next = self.visible_after(slot, at);
                }
                let high = next.map(|slot| self.key(slot)).or_else(|| self.interval.high());
                (key, high)
            }
            Part::Before(before) => {
                let (high, mut next) = match before {
                    Some(key) => (Some(key), self.visible_before(self.lower_bound(key), at)),
                    None => (None, self.visible_before(self.slots.len(), at)),
                };
                while let Some(slot) = next
                    && take(slot, &mut slots, &mut room)
                {
                    next = self.visible_before(self.cell_start(slot), at);
                }
                slots.reverse();
                let low = match (next, slots.first()) {
                    (Some(_), Some(first)) => self.key(*first),
                    _ => self.interval.low(),
                };
                (low, high)
            }
        };
        Some(View { object: self, low, high, slots })
    }
}

/// A cell that a snapshot sees stays what it is: when it was written is among its first bytes.
const HEAD: usize = 1 << 10;

/// A part of an object that is not copied yet.
pub struct View<'o> {
    object: &'o Object,
    low: &'o [u8],
    high: Option<&'o [u8]>,
    slots: Vec<usize>,
}

impl<'o> View<'o> {
    /// What it tells of.
    pub fn interval(&self) -> Interval {
        Interval::new(self.low.into(), self.high.map(Into::into))
    }

    /// Bytes of its cells and of the ends of its interval.
    pub fn size(&self) -> usize {
        self.cells() + self.low.len() + self.high.map_or(0, <[u8]>::len)
    }

    fn cells(&self) -> usize {
        self.slots.iter().map(|slot| self.object.cell_size(*slot)).sum()
    }

    /// The part as an object of its own.
    pub fn copy(&self) -> Object {
        let object = self.object;
        let mut cells = Builder::with_capacity(self.slots.len(), self.cells());
        for slot in &self.slots {
            cells.push(object.key(*slot), Some(object.value(*slot)), object.slots[*slot].at);
        }
        cells.finish(object.id, object.root, self.interval(), object.level)
    }

    /// As [`View::copy`] is encoded.
    pub fn encoded(&self) -> Encoded<'o> {
        let cells = self.slots.iter().map(|slot| self.object.cell(*slot)).collect();
        Encoded::of(self.object, (self.low, self.high), self.slots.len(), (cells, HEAD))
    }
}
