//! Changes of a tree's shape in which several shards have a part: the root's shard, which has the inner nodes, and those
//! of the leaves.
//!
//! Each is a transaction whose primary is the root's shard. The others prepare their parts: they lock the leaves whole,
//! with all their cells. Then the primary changes the link, and that decides. A reader or writer who meets a locked leaf
//! asks the primary, as with any lock, and a writer waits for the answer that it is over; one whom an old link has led to
//! a leaf that is gone finds nothing there, and searches again.
//!
//! A leaf that moves takes with it from which time on commits are free to change it: the decision is later than all that
//! was read or prepared where it was.
//!
//! *Known as:* range splits, merges and moves.

use super::Turn;
use super::shard::{Done, Shard};
use crate::message::Message;
use crate::peer::{PeerMessage, Ready, Step};
use fulmar_dbt::{Linked, Reshape, Shape};
use fulmar_kv::{
    Commit, Durability, Error, Key, ObjectId, Outcome, Prepare, Restructuring, ShardId, Timestamp,
    TransactionId,
};
use fulmar_node::Time;
use std::time::Duration;

/// A shard has so many underway at once; whoever asks for more asks again.
const MOST_UNDERWAY: usize = 32;
/// One that takes longer waits for somebody who may have gone, while its leaves are locked.
const PATIENCE: Duration = Duration::from_secs(1);
/// Changes that take longer keep the servers' disks from what is asked of them.
const SLOW: Duration = Duration::from_millis(125);
/// So few at once are not too many because they are slow: it may be far to the other servers.
const FEW: usize = 2;
/// The longest rest between two tries, as a power of two of that: a minute.
const LONGEST_REST: u32 = 6;
/// In [`TransactionId::client`]: distinguishes the names of these transactions from those of clients, whose numbers are by chance.
const OWN: u64 = 1 << 63;

/// A change that is not decided.
pub(super) struct Underway {
    reshape: Reshape,
    /// The links that it is about, which must be as they are.
    links: Vec<(Key, ObjectId)>,
    /// The shards that were asked to prepare something.
    asked: Vec<ShardId>,
    /// It cannot take place before.
    at: Timestamp,
    snapshot: Timestamp,
    since: Time,
    /// As a join: how many neighbours have refused it before.
    tried: usize,
}

impl Underway {
    /// Lets it take place after `seen`: somebody has read what was there before it.
    pub(super) fn postpone(&mut self, seen: Timestamp) {
        self.at = self.at.max(Timestamp(seen.0 + 1));
    }
}

/// How many leaves may be on their way at once. Where leaves are large or disks slow, many together keep commits waiting: half as many are
/// tried then. If they take longer than one is waited for, all would be given up and begun again for ever: fewer still are tried, and
/// one by one ever more seldom.
#[derive(Debug)]
pub(super) struct Pace {
    at_once: usize,
    /// How often one alone took too long.
    failures: u32,
    rests_until: Time,
}

impl Default for Pace {
    fn default() -> Self {
        Self { at_once: MOST_UNDERWAY, failures: 0, rests_until: Time::ZERO }
    }
}

impl Pace {
    pub(super) fn at_once(&self, now: Time) -> usize {
        if now < self.rests_until { 0 } else { self.at_once }
    }

    fn is_done(&mut self, took: Duration) {
        self.failures = 0;
        if took <= SLOW {
            self.at_once = (self.at_once + 1).min(MOST_UNDERWAY);
        } else if self.at_once > FEW {
            self.at_once = (self.at_once / 2).max(FEW);
        }
    }

    fn is_too_slow(&mut self, now: Time) {
        if self.at_once == 1 {
            self.rests_until = now + PATIENCE * (1 << self.failures.min(LONGEST_REST));
            self.failures += 1;
        }
        self.at_once = (self.at_once / 2).max(1);
    }
}

/// Whether it is a change of a tree's shape.
pub(super) fn is_reshape(transaction: TransactionId) -> bool {
    transaction.client & OWN != 0
}

/// As the shard of the tree's root.
impl Shard {
    /// Begins a change, if it still fits.
    pub(super) fn reshape(&mut self, reshape: Reshape, turn: &mut Turn<'_>) -> Result<(), Error> {
        self.try_reshape(reshape, 0, turn)
    }

    fn try_reshape(&mut self, mut reshape: Reshape, tried: usize, turn: &mut Turn<'_>) -> Result<(), Error> {
        let is_busy = self.reshapes.values().any(|underway| underway.reshape.leaf == reshape.leaf);
        if is_busy || self.reshapes.len() >= MOST_UNDERWAY {
            return Ok(());
        }
        let Some(linked) = self.trees.linked(reshape.root, &reshape.low)? else { return Ok(()) };
        if linked.links[linked.at] != (reshape.low.clone(), reshape.leaf) {
            return Ok(());
        }
        let leaf = reshape.leaf;
        let mut links = &linked.links[linked.at..=linked.at];
        let step = match &reshape.shape {
            Shape::Split(cuts) => Step::Split(leaf, cuts.clone()),
            Shape::Move(to) if *to == leaf.shard() => return Ok(()),
            Shape::Move(_) | Shape::Remove => Step::Leave(leaf),
            Shape::Join(bytes) => {
                let is_near = |[(_, left), (_, right)]: &&[(Key, ObjectId); 2]| left.shard() == right.shard();
                match linked.pairs().filter(is_near).nth(tried) {
                    Some(pair @ [(_, left), (_, right)]) => {
                        links = pair;
                        Step::Join(*left, *right, *bytes)
                    }
                    None if tried > 0 => return Ok(()),
                    None => {
                        // First it goes where it can be joined: with a neighbour, or else with the root, which then is a leaf.
                        let other = |[(_, left), (_, right)]: &[(Key, ObjectId); 2]| {
                            if *left == leaf { *right } else { *left }
                        };
                        let to = linked.pairs().next().map_or(reshape.root, other).shard();
                        if to == leaf.shard() {
                            return Ok(());
                        }
                        reshape.shape = Shape::Move(to);
                        Step::Leave(leaf)
                    }
                }
            }
        };
        turn.known.reshaped += 1;
        let (_, shard) = self.name;
        let transaction = TransactionId {
            client: OWN | u64::from(shard.0) << 32 | u64::from(turn.known.me.0),
            number: (turn.known.clock.born().0 << 16) + turn.known.reshaped,
        };
        let snapshot = turn.known.clock.now();
        let (links, asked) = (links.to_vec(), Vec::new());
        let at = Timestamp(0);
        let underway = Underway { reshape, links, asked, at, snapshot, since: turn.now, tried };
        self.reshapes.insert(transaction, underway);
        self.ask_to_prepare(transaction, leaf.shard(), step, turn);
        Ok(())
    }

    fn ask_to_prepare(
        &mut self,
        transaction: TransactionId,
        shard: ShardId,
        step: Step,
        turn: &mut Turn<'_>,
    ) {
        let Some(underway) = self.reshapes.get_mut(&transaction) else { return };
        underway.asked.push(shard);
        let said = PeerMessage::Prepare { snapshot: underway.snapshot, step };
        self.tell(&[shard], transaction, said, turn);
    }

    /// A shard has prepared its part.
    pub(super) fn go_on(
        &mut self,
        transaction: TransactionId,
        at: Timestamp,
        ready: Ready,
        turn: &mut Turn<'_>,
    ) -> Result<(), Error> {
        let Some(underway) = self.reshapes.get_mut(&transaction) else { return Ok(()) };
        underway.at = underway.at.max(at);
        let Reshape { low, shape, .. } = &underway.reshape;
        let links = match (shape, ready) {
            (Shape::Move(to), Ready::Left(moved, oldest)) => {
                // Told twice, it has asked already.
                if underway.asked.len() == 1 {
                    let to = *to;
                    self.ask_to_prepare(transaction, to, Step::Arrive(moved, oldest), turn);
                }
                return Ok(());
            }
            (Shape::Move(_), Ready::Made(made)) => {
                made.first().map(|leaf| (low.clone(), Some(*leaf))).into_iter().collect()
            }
            (Shape::Split(cuts), Ready::Made(made)) => {
                cuts.iter().cloned().zip(made.into_iter().map(Some)).collect()
            }
            (Shape::Join(_), Ready::Made(_)) => {
                underway.links.get(1).map(|(separator, _)| (separator.clone(), None)).into_iter().collect()
            }
            (Shape::Remove, Ready::Left(..)) => vec![(low.clone(), None)],
            (Shape::Split(_) | Shape::Join(_), Ready::Left(..)) | (Shape::Remove, Ready::Made(_)) => {
                Vec::new()
            }
        };
        self.conclude_reshape(transaction, links, turn)
    }

    /// All parts are prepared: changes the links, which decides.
    fn conclude_reshape(
        &mut self,
        transaction: TransactionId,
        links: Vec<(Key, Option<ObjectId>)>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Error> {
        let Some(underway) = self.reshapes.get(&transaction) else { return Ok(()) };
        let Reshape { root, low, .. } = &underway.reshape;
        let linked = self.trees.linked(*root, low)?;
        let about = &underway.links;
        let still_fits = |linked: &Linked| linked.links.windows(about.len()).any(|links| links == about);
        let Some(linked) = linked.filter(still_fits).filter(|_| !links.is_empty()) else {
            self.abandon(transaction, turn);
            return Ok(());
        };
        let (_, shard) = self.name;
        let others: Vec<_> = underway.asked.iter().copied().filter(|other| *other != shard).collect();
        let storage = self.database.storage();
        let at = underway.at.max(Timestamp(storage.last().0 + 1));
        let relink = Restructuring::Relink { object: linked.parent, level: 1, links };
        match storage.reshape(transaction, (at, &others), &[relink]) {
            Ok(written) => {
                self.pace.is_done(turn.now.since(underway.since));
                self.reshapes.remove(&transaction);
                let said = PeerMessage::Ended(Outcome::Committed(at));
                let sends = self.messages(&others, transaction, said, turn);
                self.tell_when(Durability::Synced, Done { sends, written, ..Done::default() }, turn);
                self.retry(transaction, turn);
            }
            Err(_) => self.abandon(transaction, turn),
        }
        Ok(())
    }

    /// A shard cannot prepare its part. Of two leaves that come to too much for one, the other neighbour may have room.
    pub(super) fn refused(&mut self, transaction: TransactionId, turn: &mut Turn<'_>) -> Result<(), Error> {
        let join = |underway: &Underway| {
            let is_join = matches!(underway.reshape.shape, Shape::Join(_));
            is_join.then(|| (underway.reshape.clone(), underway.tried + 1))
        };
        let join = self.reshapes.get(&transaction).and_then(join);
        self.abandon(transaction, turn);
        join.map_or(Ok(()), |(reshape, tried)| self.try_reshape(reshape, tried, turn))
    }

    /// Gives a change up.
    pub(super) fn abandon(&mut self, transaction: TransactionId, turn: &mut Turn<'_>) {
        let Some(underway) = self.reshapes.remove(&transaction) else { return };
        if self.database.storage().has_failed() {
            // It may be decided on the disk: the others ask when the shard is opened again.
            return;
        }
        let said = PeerMessage::Ended(Outcome::Aborted);
        self.tell(&underway.asked, transaction, said, turn);
    }

    /// How many leaves are on their way from one shard to another.
    pub(super) fn moves_underway(&self) -> usize {
        let is_move = |underway: &&Underway| matches!(underway.reshape.shape, Shape::Move(_));
        self.reshapes.values().filter(is_move).count()
    }

    /// These shards may not have heard what they were told: changes in which they have a part are given up, as leaves are locked for
    /// these.
    pub(super) fn miss(&mut self, is_missed: impl Fn(ShardId) -> bool, turn: &mut Turn<'_>) {
        let waits = |underway: &Underway| underway.asked.iter().any(|asked| is_missed(*asked));
        let waiting: Vec<_> =
            self.reshapes.iter().filter(|(_, underway)| waits(underway)).map(|(name, _)| *name).collect();
        waiting.into_iter().for_each(|transaction| self.abandon(transaction, turn));
    }

    /// These shards are served elsewhere from now on. What another server has not answered about a transaction they are asked again.
    pub(super) fn follow(&mut self, is_moved: impl Fn(ShardId) -> bool, turn: &mut Turn<'_>) {
        self.miss(&is_moved, turn);
        let undecided = self.database.storage().pending(|pending| pending.all_undecided());
        let (_, shard) = self.name;
        for undecided in undecided {
            if undecided.primary != shard && is_moved(undecided.primary) {
                self.inquire(undecided.transaction, None, turn);
            }
        }
    }

    /// Gives up what takes too long.
    pub(super) fn abandon_old(&mut self, turn: &mut Turn<'_>) {
        let is_old = |underway: &Underway| turn.now >= underway.since + PATIENCE;
        let old: Vec<_> =
            self.reshapes.iter().filter(|(_, underway)| is_old(underway)).map(|(name, _)| *name).collect();
        if !old.is_empty() {
            self.pace.is_too_slow(turn.now);
        }
        old.into_iter().for_each(|transaction| self.abandon(transaction, turn));
    }
}

/// As the shard of a leaf.
impl Shard {
    /// Asks the shards of the roots for these changes.
    pub(super) fn wish(&self, reshapes: Vec<Reshape>, turn: &mut Turn<'_>) {
        let (database, _) = self.name;
        for reshape in reshapes {
            if let Some(server) = turn.known.map.server(database, reshape.root.shard()) {
                turn.send(server, Message::Reshape { database, reshape });
            }
        }
    }

    /// Prepares a part of a change, and tells its primary.
    pub(super) fn prepare_step(
        &mut self,
        primary: ShardId,
        transaction: TransactionId,
        snapshot: Timestamp,
        step: Step,
        turn: &mut Turn<'_>,
    ) {
        let said = match self.try_step(primary, transaction, snapshot, step, turn) {
            Ok(Some((at, ready))) => PeerMessage::Prepared(at, ready),
            Ok(None) | Err(_) => PeerMessage::Refused,
        };
        let durability = if said == PeerMessage::Refused { Durability::Written } else { Durability::Synced };
        let sends = self.messages(&[primary], transaction, said, turn);
        self.tell_when(durability, Done { sends, ..Done::default() }, turn);
    }

    fn try_step(
        &mut self,
        primary: ShardId,
        transaction: TransactionId,
        snapshot: Timestamp,
        step: Step,
        turn: &mut Turn<'_>,
    ) -> Result<Option<(Timestamp, Ready)>, Error> {
        let storage = self.database.storage();
        storage.advance(Timestamp(0), turn.known.clock.watermark());
        self.require_readable(snapshot)?;
        if self.is_refused(transaction) {
            return Ok(None);
        }
        if let Step::Arrive(_, oldest) = step {
            // Snapshots that the leaf cannot be read from end here for all leaves.
            storage.advance(Timestamp(0), oldest);
        }
        let before = storage.pending(|pending| pending.restructurings(transaction).map(<[_]>::to_vec));
        let restructuring = match before.as_deref() {
            Some([restructuring]) => restructuring.clone(),
            _ => match self.restructuring(step)? {
                Some(restructuring) => restructuring,
                None => return Ok(None),
            },
        };
        let restructurings = vec![restructuring.clone()];
        let commit = Commit { snapshot, restructurings, ..Commit::default() };
        let prepare = Prepare { transaction, primary, others: Vec::new(), commit };
        let Ok(at) = storage.prepare(&prepare) else { return Ok(None) };
        let ready = match restructuring {
            Restructuring::Split { cuts, .. } => {
                Ready::Made(cuts.into_iter().map(|(_, into)| into).collect())
            }
            Restructuring::Place { object, .. } => Ready::Made(vec![object]),
            Restructuring::Remove { object } => match storage.moved(object)? {
                Some(moved) => Ready::Left(moved, storage.oldest_snapshot()),
                None => return Ok(None),
            },
            _ => Ready::Made(Vec::new()),
        };
        Ok(Some((at, ready)))
    }

    /// What the step is here; nothing, if it does not fit any more.
    fn restructuring(&self, step: Step) -> Result<Option<Restructuring>, Error> {
        Ok(Some(match step {
            Step::Split(object, cuts) => {
                let cuts = cuts.into_iter().map(|key| (key, self.database.fresh())).collect();
                Restructuring::Split { object, cuts }
            }
            Step::Join(left, right, bytes) => {
                let size = |leaf| Ok::<_, Error>(self.database.read(leaf)?.map_or(0, |leaf| leaf.size()));
                let (a, b) = (size(left)?, size(right)?);
                // One that is empty adds nothing, however full the other is.
                if a.min(b) > 0 && (a + b) as u64 > bytes {
                    return Ok(None);
                }
                Restructuring::Join { left, right }
            }
            Step::Leave(object) => Restructuring::Remove { object },
            Step::Arrive(moved, _) => Restructuring::Place { object: self.database.fresh(), moved },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen leaves of a megabyte took longer than a second together on a slow disk, and were begun again for half an hour.
    #[test]
    fn what_takes_too_long_together_is_done_one_by_one_and_ever_more_seldom() {
        let (mut pace, mut now) = (Pace::default(), Time::ZERO);
        let mut tried = Vec::new();
        for _ in 0..8 {
            tried.push(pace.at_once(now));
            pace.is_too_slow(now);
        }
        assert_eq!(tried[..6], [32, 16, 8, 4, 2, 1]);
        assert_eq!(pace.at_once(now), 0);
        now = now + PATIENCE * (1 << LONGEST_REST);
        assert_eq!(pace.at_once(now), 1);
        (0..100).for_each(|_| pace.is_done(SLOW));
        assert_eq!(pace.at_once(now), MOST_UNDERWAY);
    }

    /// Leaves of a megabyte kept the disks busy for half a minute: commits to other databases took thirty milliseconds.
    #[test]
    fn of_what_is_slow_a_few_are_done_at_once() {
        let mut pace = Pace::default();
        (0..100).for_each(|_| pace.is_done(SLOW * 2));
        assert_eq!(pace.at_once(Time::ZERO), FEW);
        pace.is_too_slow(Time::ZERO);
        pace.is_done(SLOW * 2);
        assert_eq!(pace.at_once(Time::ZERO), 1, "one that was alone");
        pace.is_done(SLOW);
        assert_eq!(pace.at_once(Time::ZERO), 2);
    }
}
