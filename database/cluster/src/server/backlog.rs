//! Questions that wait: for the clock, for a lock, for the place of a database.

use std::collections::VecDeque;

/// In one place no more wait…
const MOST: usize = 1 << 16;
/// …nor such with more bytes, if it is not a single one.
const MOST_BYTES: u64 = 256 << 20;

/// How much waits in one place.
pub(super) struct Room {
    count: usize,
    bytes: u64,
}

impl Room {
    pub(super) const EMPTY: Self = Self { count: 0, bytes: 0 };

    /// Whether there is room for what takes so many bytes, which has it then.
    pub(super) fn admit(&mut self, bytes: u64) -> bool {
        let is_room = self.count < MOST && self.bytes.saturating_add(bytes) <= MOST_BYTES;
        if !is_room && self.count > 0 {
            return false;
        }
        self.count += 1;
        self.bytes += bytes;
        true
    }

    /// How many bytes of it are taken.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It waits no longer.
    pub(super) fn leave(&mut self, bytes: u64) {
        self.count -= 1;
        self.bytes -= bytes;
    }
}

/// What waits, the oldest first. There are bounds on it, as clients ask as much as they like: who finds no room asks again in a while.
pub(super) struct Backlog<T> {
    waiting: VecDeque<(u64, T)>,
    room: Room,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), room: Room::EMPTY }
    }
}

impl<T> Backlog<T> {
    /// Has it wait, which takes so many bytes. If there is no room for it, it comes back.
    pub(super) fn push(&mut self, bytes: u64, one: T) -> Result<(), T> {
        if self.room.admit(bytes) {
            self.waiting.push_back((bytes, one));
            Ok(())
        } else {
            Err(one)
        }
    }

    /// Takes the oldest, if that is true of it.
    pub(super) fn pop_if(&mut self, is_due: impl FnOnce(&T) -> bool) -> Option<T> {
        let (bytes, one) = self.waiting.pop_front_if(|(_, one)| is_due(one))?;
        self.room.leave(bytes);
        Some(one)
    }

    /// Takes all of which that is true.
    pub(super) fn extract(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        if !self.iter().any(&is_wanted) {
            return Vec::new();
        }
        let (wanted, others) =
            std::mem::take(&mut self.waiting).into_iter().partition::<Vec<_>, _>(|(_, one)| is_wanted(one));
        self.waiting = others.into();
        wanted.iter().for_each(|(bytes, _)| self.room.leave(*bytes));
        wanted.into_iter().map(|(_, one)| one).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, one)| one)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_waits_than_there_is_room_for() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.push(MOST_BYTES + 1, 0), Ok(()), "one alone may always wait");
        assert_eq!(backlog.push(1, 1), Err(1));
        assert_eq!(backlog.extract(|one| *one == 0), [0]);
        for one in 0..4 {
            assert_eq!(backlog.push(MOST_BYTES / 4, one), Ok(()));
        }
        assert_eq!(backlog.push(1, 4), Err(4));
        assert_eq!(backlog.extract(|one| one % 2 == 1), [1, 3]);
        assert_eq!(backlog.pop_if(|one| *one == 2), None, "0 is the oldest");
        assert_eq!(backlog.pop_if(|one| *one == 0), Some(0));
        assert_eq!(backlog.push(3 * (MOST_BYTES / 4), 5), Ok(()));
        assert_eq!(backlog.push(1, 6), Err(6));
        assert_eq!(backlog.extract(|_| true), [2, 5]);
        for one in 0..MOST {
            assert_eq!(backlog.push(0, one), Ok(()));
        }
        assert_eq!(backlog.push(0, MOST), Err(MOST));
    }
}
