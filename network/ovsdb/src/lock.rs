//! Locks (RFC 7047, sections 4.1.8 to 4.1.10): names that mean what clients agree on. `assert` makes a transaction depend on one.

use crate::{ConnectionId, Error};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who holds which lock, and who waits.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// For each lock those who want it. The first has it; there is one.
    queues: BTreeMap<String, VecDeque<Claim>>,
    /// What each has locked, or waits for, and has not unlocked: also what was stolen from who had stolen it, and does not wait.
    claims: BTreeSet<(ConnectionId, String)>,
}

#[derive(Debug)]
struct Claim {
    by: ConnectionId,
    stolen: bool,
}

/// What comes of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// Whether it has the lock now.
    pub(crate) locked: bool,
    /// From whom it was stolen.
    pub(crate) victim: Option<ConnectionId>,
}

impl Locks {
    /// `lock`, or `steal`.
    pub(crate) fn claim(&mut self, name: &str, by: ConnectionId, steal: bool) -> Result<Claimed, Error> {
        if self.has_claimed(name, by) {
            return Err(Error::syntax(format!(
                "the lock {name} is to be unlocked before it is locked again"
            )));
        }
        self.claims.insert((by, name.into()));
        let queue = self.queues.entry(name.into()).or_default();
        if !steal {
            queue.push_back(Claim { by, stolen: false });
            return Ok(Claimed { locked: queue.len() == 1, victim: None });
        }
        let victim = queue.front().map(|claim| claim.by);
        // Who had it by asking gets it back; who had stolen it does not.
        if queue.front().is_some_and(|claim| claim.stolen) {
            queue.pop_front();
        }
        queue.push_front(Claim { by, stolen: true });
        Ok(Claimed { locked: true, victim })
    }

    /// `unlock`: also by one who waits. Answers who has the lock now, if that is another than before.
    pub(crate) fn unlock(&mut self, name: &str, by: ConnectionId) -> Result<Option<ConnectionId>, Error> {
        if !self.claims.remove(&(by, name.into())) {
            return Err(Error::syntax(format!("the lock {name} was not locked")));
        }
        let Some(queue) = self.queues.get_mut(name) else { return Ok(None) };
        let had = queue.front().is_some_and(|claim| claim.by == by);
        queue.retain(|claim| claim.by != by);
        let next = queue.front().map(|claim| claim.by);
        if next.is_none() {
            self.queues.remove(name);
        }
        Ok(next.filter(|_| had))
    }

    /// The names of all locks that it has claimed.
    pub(crate) fn claimed(&self, by: ConnectionId) -> Vec<String> {
        self.claims_of(by).map(|(_, name)| name.clone()).collect()
    }

    /// How many that are.
    pub(crate) fn count(&self, by: ConnectionId) -> usize {
        self.claims_of(by).count()
    }

    fn claims_of(&self, by: ConnectionId) -> impl Iterator<Item = &(ConnectionId, String)> {
        self.claims.range((by, String::new())..).take_while(move |(of, _)| *of == by)
    }

    pub(crate) fn owns(&self, name: &str, by: ConnectionId) -> bool {
        self.queues.get(name).and_then(VecDeque::front).is_some_and(|claim| claim.by == by)
    }

    fn has_claimed(&self, name: &str, by: ConnectionId) -> bool {
        self.claims.contains(&(by, name.into()))
    }
}
