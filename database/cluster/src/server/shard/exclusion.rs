//! A client that keeps all others from committing.
//!
//! *Known as:* an exclusive lock of the database; admission of one writer.

use super::answers::Refused;
use super::{Asked, Progress, Shard, Task, Turn, is_reshape};
use fulmar_kv::{Error, Exclusion, Timestamp};
use fulmar_node::{NodeId, Time};
use std::time::Duration;

/// Who wants to exclude all others waits for so long for those that are about to commit.
const EXCLUDING_WAITS: Duration = Duration::from_secs(1);

/// A client that keeps all others from committing.
pub(super) struct Excluding {
    pub(super) client: NodeId,
    /// Snapshots from this time on see all that was committed before.
    pub(super) since: Timestamp,
    /// When it first asked to.
    pub(super) began: Time,
}

fn waits_for_others(asked: &Asked, client: NodeId) -> bool {
    asked.client == client && matches!(asked.task, Task::Exclude(_))
}

impl Shard {
    /// See [`fulmar_kv::Store::exclude`]. Who begins waits for what is prepared, which may take place at any time from its proposal on, and
    /// is told when the clock has reached all that was committed before: a snapshot that is opened then sees it.
    pub(super) fn exclude(
        &mut self,
        asked: &Asked,
        exclusion: Exclusion,
        turn: &mut Turn<'_>,
    ) -> Result<Progress, Error> {
        let client = asked.client;
        self.require_not_excluded(client)?;
        match exclusion {
            Exclusion::Begin => {
                let began = self.excluding.as_ref().map_or(turn.now, |before| before.began);
                self.excluding = Some(Excluding { client, since: turn.known.clock.now(), began });
                let undecided = self.database.storage().pending(|pending| pending.all_undecided());
                if let Some(first) = undecided.iter().find(|first| !is_reshape(first.transaction)) {
                    return Ok(Progress::Blocked(first.transaction));
                }
                self.tell_that_others_are_excluded(asked, turn);
            }
            Exclusion::End => {
                self.excluding = None;
                self.deferred.extract(|asked| waits_for_others(asked, client));
                self.grant(asked, turn);
            }
            Exclusion::Look => self.grant(asked, turn),
        }
        Ok(Progress::Done)
    }

    /// Who has waited for others for long before it excludes them does not: for how long is its user's to say, and one of them may be
    /// silent.
    pub(super) fn refuse_to_wait_on(&mut self, turn: &mut Turn<'_>) {
        let is_late = |excluding: &Excluding| turn.now >= excluding.began + EXCLUDING_WAITS;
        let Some(late) = self.excluding.as_ref().filter(|excluding| is_late(excluding)) else { return };
        let client = late.client;
        for asked in self.deferred.extract(|asked| waits_for_others(asked, client)) {
            self.excluding = None;
            self.refuse(&asked, Refused::Failed(Error::Excluded), turn);
        }
    }

    pub(super) fn require_not_excluded(&self, client: NodeId) -> Result<(), Error> {
        if self.excluding.as_ref().is_none_or(|excluding| excluding.client == client) {
            return Ok(());
        }
        Err(Error::Excluded)
    }
}
