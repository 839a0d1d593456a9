//! A part of an object, as one snapshot sees it: what travels to a reader elsewhere.

use super::Object;
use super::next::Builder;
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
    pub fn part(&self, part: Part<'_>, at: Timestamp, bytes: usize) -> Option<Self> {
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
        let interval = match part {
            Part::From(key) => {
                let mut next = self.visible_from(self.lower_bound(key), at);
                while let Some(slot) = next
                    && take(slot, &mut slots, &mut room)
                {
                    next = self.visible_after(slot, at);
                }
                let high = next.map(|slot| self.key(slot)).or_else(|| self.interval.high());
                Interval::new(key.into(), high.map(Into::into))
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
                Interval::new(low.into(), high.map(Into::into))
            }
        };
        let taken = slots.iter().map(|slot| self.cell_size(*slot)).sum();
        let mut cells = Builder::with_capacity(slots.len(), taken);
        for slot in slots {
            cells.push(self.key(slot), Some(self.value(slot)), self.slots[slot].at);
        }
        Some(cells.finish(self.id, self.root, interval, self.level))
    }
}
