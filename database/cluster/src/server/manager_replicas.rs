//! The clock and the map on replicas: the leader of these keeps them.
//!
//! They begin on the first server alone, a group of one; when there are as many servers as new databases have replicas, it is
//! followed by a group of so many. Who leads it announces itself, as with any shard, and goes on from what is written down: with
//! the clock from its bound, which none who has kept it has told. Who has kept it before may not know. So each answer of the
//! clock's waits until the replicas have said that whoever gives it leads them still: one question to them for all that wait,
//! or whatever else they are asked meanwhile.

use super::ledger::Ledger;
use super::manager::Manager;
use super::{Held, Turn};
use crate::map::{Map, RECORDS};
use crate::replicated::Leading;
use fulmar_kv::{Database, Error, Options};

/// Memory for what is cached of the records, bytes.
const CACHE_BYTES: u64 = 4 << 20;

impl Held {
    /// Keeps the clock and the map, if the replicas of these have been told that this server leads them.
    pub(super) fn keep_records(&mut self, turn: &mut Turn<'_>) -> Result<(), Error> {
        let Some(hosted) = self.replicas.hosted.get(&RECORDS).filter(|_| self.membership.manager.is_none())
        else {
            return Ok(());
        };
        let Some(view) = hosted.serves() else { return Ok(()) };
        let (entries, group) = (hosted.entries.clone(), hosted.replica.group().clone());
        let options = Options { cache_bytes: CACHE_BYTES, ..Options::default() };
        let engine = Leading { entries: entries.clone(), view };
        let records = Database::with_engine(entries.path(), Box::new(engine), &options)?;
        // What the first server has kept alone.
        let before = if self.membership.founds { Some(self.directory.records()?) } else { None };
        let mut manager = Manager::new(records, Ledger::Replicas(entries.clone()), before.as_ref())?;
        manager.start(Some((view, group)), turn);
        self.membership.manager = Some(manager);
        Ok(())
    }

    /// Sees to it that the clock and the map are where they are to be.
    pub(super) fn sweep_records(&mut self, turn: &mut Turn<'_>) {
        let kept = self.keep_records(turn);
        turn.report(|_| "go on with the clock and the map".into(), kept);
        let Some(manager) = &mut self.membership.manager else { return };
        manager.sweep();
        if manager.map().is_to_spread() {
            let changed = manager.change(Map::spread, turn);
            turn.report(|_| "write down the map".into(), changed);
        }
    }
}
