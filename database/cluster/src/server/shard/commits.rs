//! Commits of transactions of this shard alone.

use super::super::Turn;
use super::answers::{Done, Refused};
use super::{Answer, Asked, Progress, Shard};
use fulmar_kv::{
    Basis, Commit, Durability, Error, Interval, ObjectId, Refusal, Restructuring, Timestamp, TransactionId,
};

impl Shard {
    pub(super) fn commit(
        &mut self,
        asked: &Asked,
        (transaction, commit): (TransactionId, &Commit),
        durability: Durability,
        turn: &mut Turn<'_>,
    ) -> Result<Progress, Error> {
        self.begin_change(asked.client, (commit, 1), turn)?;
        if let Some(by) = self.database.storage().pending(|pending| pending.blocker(commit)) {
            return Ok(Progress::Blocked(by));
        }
        let written = written(commit);
        for write in &commit.writes {
            if let Some((key, _)) = write.changes.first() {
                self.heat.note(write.object, key);
            }
        }
        match self.database.storage().execute_for(transaction, commit) {
            Ok(at) => {
                self.commits += 1;
                turn.reach(at);
                self.committed.insert((asked.client, commit.snapshot), at);
                let done =
                    Done { reply: Some((asked, Answer::At(at))), reach: at, written, ..Done::default() };
                self.tell_when(durability, done, turn);
                Ok(Progress::Done)
            }
            Err(Refusal::Misplaced(())) => match self.forwarded(commit)? {
                Some(redirected) if redirected != *commit => {
                    self.commit(asked, (transaction, &redirected), durability, turn)
                }
                _ => Ok(Progress::Refused(Refused::Misplaced)),
            },
            Err(Refusal::Failed(error)) => Err(error),
        }
    }

    /// A commit on the newest snapshot, if that is what the commit is based on.
    pub(super) fn commit_unread(
        &mut self,
        asked: &Asked,
        (transaction, commit): (TransactionId, &Commit),
        basis: &Basis,
        durability: Durability,
        turn: &mut Turn<'_>,
    ) -> Result<Progress, Error> {
        // On a newer snapshot it would not conflict with itself, but undo what others have done since.
        if asked.again && self.may_have_committed(basis.after) {
            return Ok(Progress::Refused(Refused::Unknown));
        }
        let at = commit.snapshot;
        self.database.storage().advance(at, Timestamp(0));
        for (object, key) in &basis.present {
            let Some(leaf) = self.holder(*object, key)? else {
                return Ok(Progress::Refused(Refused::Misplaced));
            };
            if let Some(by) = self.blocker(leaf.id(), &Interval::point(key), at) {
                return Ok(Progress::Blocked(by));
            }
            if leaf.get(key, at).is_none() {
                return Ok(Progress::Refused(Refused::Unexpected));
            }
        }
        if let Some(expected) = &basis.expected
            && let Some(progress) = self.refute(expected, at, at)?
        {
            return Ok(progress);
        }
        self.commit(asked, (transaction, commit), durability, turn)
    }
}

/// The objects that a commit writes or makes.
fn written(commit: &Commit) -> Vec<ObjectId> {
    let created = commit.restructurings.iter().filter_map(|restructuring| match restructuring {
        Restructuring::Create { object } => Some(*object),
        _ => None,
    });
    commit.writes.iter().map(|write| write.object).chain(created).collect()
}
