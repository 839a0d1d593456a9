//! Transactions of several shards, as one of them takes part (two-phase commit).
//!
//! *Known as:* coordinator and participant of two-phase commit.

use super::super::Turn;
use super::super::reshape::is_reshape;
use super::answers::{Done, Refused};
use super::{Answer, Asked, Progress, Shard, Task, has_enough};
use crate::message::Message;
use crate::peer::PeerMessage;
use fulmar_kv::{Durability, Error, Outcome, Prepare, Refusal, ShardId, Timestamp, TransactionId};
use fulmar_node::{NodeId, Time};
use std::time::Duration;

/// A client that has prepared a transaction and says nothing more for so long has given it up, though it is still connected. Its parts
/// in other shards may be large, and the machines busy.
const LEASE: Duration = Duration::from_secs(30);
/// A client whose transaction is found prepared when the shard is opened may come back for so long.
const RETURN: Duration = Duration::from_secs(2);
/// A client has one at a time, and gives up those that it has not ended.
const MOST_PREPARED: usize = 16;
/// So many transactions are noted that clients have given up, and that are not here.
const MOST_REFUSED: usize = 100_000;

/// Who may yet ask for the decision about a transaction.
pub(super) struct Owner {
    /// Nothing, if it has not come back since the shard was opened.
    pub(super) client: Option<NodeId>,
    until: Time,
}

impl Owner {
    pub(super) fn returning(now: Time) -> Self {
        Self { client: None, until: now + RETURN }
    }
}

impl Shard {
    pub(super) fn prepare(
        &mut self,
        asked: &Asked,
        prepare: &Prepare,
        turn: &mut Turn<'_>,
    ) -> Result<Progress, Error> {
        let storage = self.database.storage();
        if storage.pending(|pending| pending.undecided(prepare.transaction).is_none()) {
            self.begin_change(asked.client, (&prepare.commit, 1 + prepare.others.len()), turn)?;
            if self.refused.contains_key(&prepare.transaction) {
                return Err(Error::Conflict);
            }
            let owned = self.owners.values().filter(|owner| owner.client == Some(asked.client));
            if owned.count() >= MOST_PREPARED {
                return Err(has_enough(format_args!("{MOST_PREPARED} transactions prepared")));
            }
            if let Some(by) = storage.pending(|pending| pending.blocker(&prepare.commit)) {
                return Ok(Progress::Blocked(by));
            }
        }
        match storage.prepare(prepare) {
            Ok(proposal) => {
                let owner = Owner { client: Some(asked.client), until: turn.now + LEASE };
                self.owners.insert(prepare.transaction, owner);
                // Whatever the client wants of its commits: the other shards rely on it.
                let reply = Some((asked, Answer::At(proposal)));
                self.tell_when(Durability::Synced, Done { reply, ..Done::default() }, turn);
                Ok(Progress::Done)
            }
            Err(Refusal::Misplaced(())) => match self.forwarded(&prepare.commit)? {
                Some(commit) if commit != prepare.commit => {
                    self.prepare(asked, &Prepare { commit, ..prepare.clone() }, turn)
                }
                _ => Ok(Progress::Refused(Refused::Misplaced)),
            },
            Err(Refusal::Failed(error)) => Err(error),
        }
    }

    pub(super) fn decide(
        &mut self,
        asked: &Asked,
        transaction: TransactionId,
        at: Timestamp,
        durability: Durability,
        turn: &mut Turn<'_>,
    ) -> Result<Progress, Error> {
        let storage = self.database.storage();
        let undecided = storage.pending(|pending| pending.undecided(transaction));
        let Some(undecided) = undecided else {
            return Ok(Progress::Refused(Refused::Failed(Error::Conflict)));
        };
        let decided = match storage.decide(transaction, at) {
            Ok(decided) => decided,
            Err(error) => {
                // If the disk holds it all the same, the other shards will show it.
                self.doubt(at, true);
                self.leave_undone(transaction, turn);
                return Err(error);
            }
        };
        let Some((at, written)) = decided else { unreachable!("it is prepared here") };
        self.owners.remove(&transaction);
        self.commits += 1;
        self.committed.insert((asked.client, undecided.snapshot), at);
        turn.reach(at);
        let said = PeerMessage::Ended(Outcome::Committed(at));
        let sends = self.messages(&undecided.others, transaction, said, turn);
        let done = Done { reach: at, reply: Some((asked, Answer::At(at))), written, ..Done::default() };
        self.tell_when(durability, done, turn);
        // The other shards forget what they have prepared, and so rely on the decision, whatever the client wants.
        self.tell_when(Durability::Synced, Done { reach: at, sends, ..Done::default() }, turn);
        self.retry(transaction, turn);
        Ok(Progress::Done)
    }

    /// A client will not ask for the decision about its transaction.
    pub(in super::super) fn give_up(&mut self, transaction: TransactionId, turn: &mut Turn<'_>) {
        let undecided = self.database.storage().pending(|pending| pending.undecided(transaction));
        match undecided {
            Some(_) => self.end(transaction, Outcome::Aborted, turn),
            // It may be on its way. One that is not noted, as there are too many, gives way to others after a while.
            None if self.refused.len() < MOST_REFUSED => {
                self.refused.insert(transaction, turn.known.clock.now());
            }
            None => {}
        }
    }

    /// A client has given up a transaction whose locks are here; its primary may not have heard of it.
    pub(super) fn pass_on_that_it_is_given_up(&self, transaction: TransactionId, turn: &mut Turn<'_>) {
        let undecided = self.database.storage().pending(|pending| pending.undecided(transaction));
        let (database, _) = self.name;
        if let Some(primary) = undecided.map(|undecided| undecided.primary)
            && let Some(server) = turn.known.map.server(database, primary)
        {
            turn.send(server, Message::GivenUp(database, primary, transaction));
        }
    }

    /// Carries a prepared transaction out, or gives it up, and tells the other shards if this one decides.
    pub(super) fn end(&mut self, transaction: TransactionId, outcome: Outcome, turn: &mut Turn<'_>) {
        let storage = self.database.storage();
        let Some(undecided) = storage.pending(|pending| pending.undecided(transaction)) else { return };
        let (_, shard) = self.name;
        let Ok(written) = storage.conclude(transaction, outcome) else {
            // The other shards are not told, but show what is committed.
            if let Outcome::Committed(at) = outcome {
                self.doubt(at, true);
            }
            return self.leave_undone(transaction, turn);
        };
        if let Outcome::Committed(at) = outcome {
            // For who keeps the structure.
            storage.publish(at);
        }
        let client = self.owners.remove(&transaction).and_then(|owner| owner.client);
        if let (Some(client), Outcome::Committed(at)) = (client, outcome) {
            self.commits += 1;
            self.committed.insert((client, undecided.snapshot), at);
        }
        if outcome == Outcome::Aborted || is_reshape(transaction) {
            // Who has asked to prepare it may have asked twice.
            self.refused.insert(transaction, undecided.snapshot);
        }
        let sends = if undecided.primary == shard {
            self.messages(&undecided.others, transaction, PeerMessage::Ended(outcome), turn)
        } else if matches!(outcome, Outcome::Committed(_)) {
            self.messages(&[undecided.primary], transaction, PeerMessage::Confirmed, turn)
        } else {
            Vec::new()
        };
        self.tell_when(Durability::Synced, Done { sends, written, ..Done::default() }, turn);
        self.retry(transaction, turn);
    }

    /// Asks again for what has met the locks of a transaction.
    pub(in super::super) fn retry(&mut self, transaction: TransactionId, turn: &mut Turn<'_>) {
        for asked in self.deferred.take(transaction) {
            self.pursue(asked, turn);
        }
    }

    /// What has met the locks of a transaction whose end could not be written is told why, unless the next leader can tell more.
    fn leave_undone(&mut self, transaction: TransactionId, turn: &mut Turn<'_>) {
        if self.is_replicated() {
            return;
        }
        for asked in self.deferred.take(transaction) {
            if let Some(failure) = self.database.storage().failure() {
                self.refuse(&asked, Refused::Failed(failure), turn);
            }
        }
    }

    /// Asks a transaction's primary what has become of it.
    pub(in super::super) fn inquire(
        &mut self,
        transaction: TransactionId,
        reader: Option<Timestamp>,
        turn: &mut Turn<'_>,
    ) {
        let undecided = self.database.storage().pending(|pending| pending.undecided(transaction));
        if let Some(undecided) = undecided {
            let said = PeerMessage::Asked { snapshot: undecided.snapshot, reader };
            self.tell(&[undecided.primary], transaction, said, turn);
        }
    }

    /// What another shard, or this one, tells about a transaction.
    pub(in super::super) fn hear(
        &mut self,
        from: ShardId,
        transaction: TransactionId,
        said: PeerMessage,
        turn: &mut Turn<'_>,
    ) -> Result<(), Error> {
        match said {
            PeerMessage::Asked { snapshot, reader } => {
                self.answer_shard(from, transaction, snapshot, reader, turn)?;
            }
            PeerMessage::Open(seen) => {
                self.database.storage().pending(|pending| pending.postpone(transaction, seen));
                // A reader of later may see what the transaction does. Its own question is on its way.
                for mut asked in self.deferred.take_undisturbed(transaction, seen) {
                    if let Task::Read { sight, .. } = &mut asked.task {
                        sight.waits = false;
                        self.pursue(asked, turn);
                    } else {
                        self.refuse(&asked, Refused::Failed(Error::Conflict), turn);
                    }
                }
            }
            PeerMessage::Ended(outcome) => {
                let is_prepared =
                    self.database.storage().pending(|pending| pending.undecided(transaction).is_some());
                if is_prepared {
                    self.end(transaction, outcome, turn);
                } else {
                    if matches!(outcome, Outcome::Committed(_)) {
                        // If another server serves the shard by now, it may be prepared there.
                        let sends = self.messages(&[from], transaction, PeerMessage::Confirmed, turn);
                        self.tell_as_leader(Done { sends, ..Done::default() }, turn)?;
                    }
                    self.retry(transaction, turn);
                }
            }
            PeerMessage::Confirmed => self.database.storage().confirm(transaction, from)?,
            PeerMessage::Prepare { snapshot, step } => {
                self.prepare_step(from, transaction, snapshot, step, turn)
            }
            PeerMessage::Prepared(at, ready) => self.go_on(transaction, at, ready, turn)?,
            PeerMessage::Refused => self.refused(transaction, turn)?,
        }
        Ok(())
    }

    /// As a transaction's primary, tells what has become of it.
    fn answer_shard(
        &mut self,
        asker: ShardId,
        transaction: TransactionId,
        snapshot: Timestamp,
        reader: Option<Timestamp>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Error> {
        let storage = self.database.storage();
        let (decided, undecided) =
            storage.pending(|pending| (pending.committed(transaction), pending.undecided(transaction)));
        if undecided.is_some() && storage.has_failed() && !self.is_replicated() {
            // Nobody can decide it before the shard is opened again, and then it is later than all that was read.
            let seen = reader.unwrap_or_default();
            storage.advance(seen, Timestamp(0));
            self.tell(&[asker], transaction, PeerMessage::Open(seen), turn);
            return Ok(());
        }
        let mut durability = Durability::Written;
        let said = if let Some(at) = decided {
            PeerMessage::Ended(Outcome::Committed(at))
        } else if self.is_owned(transaction, turn.now) {
            let seen = reader.unwrap_or_default();
            if let Some(underway) = self.reshapes.get_mut(&transaction) {
                underway.postpone(seen);
            }
            storage.pending(|pending| pending.postpone(transaction, seen));
            // Also when it is opened again, and has forgotten what it has told.
            storage.advance(seen, Timestamp(0));
            PeerMessage::Open(seen)
        } else if undecided.is_some() {
            self.end(transaction, Outcome::Aborted, turn);
            PeerMessage::Ended(Outcome::Aborted)
        } else {
            // Nor may whoever serves the shard later prepare it, who knows of what is past only that it is; and if another
            // does already, this is not told.
            storage.pass(snapshot)?;
            durability = Durability::Synced;
            self.refused.insert(transaction, snapshot);
            PeerMessage::Ended(Outcome::Aborted)
        };
        let sends = self.messages(&[asker], transaction, said, turn);
        self.tell_when(durability, Done { sends, ..Done::default() }, turn);
        Ok(())
    }

    /// Whether it must not be prepared any more.
    pub(in super::super) fn is_refused(&self, transaction: TransactionId) -> bool {
        self.refused.contains_key(&transaction)
    }

    /// Whether the client that has prepared a transaction may yet ask for the decision.
    pub(super) fn is_owned(&self, transaction: TransactionId, now: Time) -> bool {
        self.reshapes.contains_key(&transaction)
            || self.owners.get(&transaction).is_some_and(|owner| now < owner.until)
    }
}
