//! Random commits on replicas of the core, against a map of all versions of all cells.

use super::{Commit, Core, Loading, Restructuring, STATE, Staged, Write, link, linked};
use crate::engine::{Batch, Engine, EngineWrite, Memory};
use crate::object::tests::damaged;
use crate::{Change, Error, Interval, Key, Object, ObjectId, Refusal, Timestamp};
use fulmar_node::Random;
use fulmar_sim::seeds;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Objects = BTreeMap<ObjectId, Option<Arc<Object>>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Committed(Timestamp),
    Misplaced,
    Conflict,
}

#[derive(Default)]
struct Replica {
    core: Core,
    engine: Memory,
    cache: RefCell<Objects>,
    written: Vec<Batch>,
}

impl Replica {
    fn read(&self, id: ObjectId, watermark: Timestamp) -> Option<Arc<Object>> {
        let mut cache = self.cache.borrow_mut();
        cache
            .entry(id)
            .or_insert_with(|| load(&self.engine, id, watermark).expect("sound").map(Arc::new))
            .clone()
    }

    fn execute(&mut self, shard: &[Commit], watermark: Timestamp) -> Vec<Answer> {
        let mut core = std::mem::take(&mut self.core);
        let read = |id| Ok(self.read(id, watermark));
        let mut staged = Staged::new(&read, watermark, &self.engine);
        let mut execute = |commit| match core.execute(commit, &mut staged) {
            Ok(at) => Answer::Committed(at),
            Err(Refusal::Misplaced(())) => Answer::Misplaced,
            Err(Refusal::Failed(Error::Conflict)) => Answer::Conflict,
            Err(Refusal::Failed(error)) => panic!("{error}"),
        };
        let answers = shard.iter().map(&mut execute).collect();
        let Staged { objects, mut batch, .. } = staged;
        if !batch.writes.is_empty() {
            core.save(0, &mut batch);
            self.written.push(batch.clone());
            self.engine.write(batch).expect("memory");
            self.cache.borrow_mut().extend(objects);
        }
        self.core = core;
        answers
    }

    fn restart(&mut self) {
        let state = self.engine.fact(STATE).expect("memory");
        (self.core, _) = Core::restore(state.as_deref()).expect("sound");
        self.cache.borrow_mut().clear();
    }
}

fn load(engine: &Memory, id: ObjectId, watermark: Timestamp) -> Result<Option<Object>, String> {
    let mut loading = Loading::default();
    engine.load(id, &mut |sequence, entry| loading.entry(id, sequence, entry, watermark)).expect("memory");
    loading.finish()
}

/// Oldest first.
type Versions = Vec<(Timestamp, Option<Vec<u8>>)>;

/// All versions of all cells, by the root and key of each.
#[derive(Default)]
struct Model {
    cells: BTreeMap<(ObjectId, Vec<u8>), Versions>,
    touched: BTreeMap<(ObjectId, Vec<u8>), Timestamp>,
}

/// A leaf as a commit finds it.
#[derive(Clone)]
struct Leaf {
    root: ObjectId,
    interval: Interval,
}

impl Model {
    fn seen(&self, root: ObjectId, interval: &Interval, at: Timestamp) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let inside = self.cells.iter().filter(|((r, key), _)| *r == root && interval.contains(key));
        let visible = inside.filter_map(|((_, key), versions)| {
            let (_, value) = versions.iter().rfind(|(then, _)| *then <= at)?;
            Some((key.clone(), value.clone()?))
        });
        visible.collect()
    }

    fn changed(&self, root: ObjectId, key: &[u8]) -> Timestamp {
        let versions = self.cells.get(&(root, key.to_vec()));
        versions.and_then(|v| v.last()).map_or(Timestamp(0), |(at, _)| *at)
    }

    /// All that a commit writes.
    fn writes(
        &self,
        commit: &Commit,
        leaves: &BTreeMap<ObjectId, Leaf>,
    ) -> Vec<(ObjectId, Key, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        for write in &commit.writes {
            let Some(leaf) = leaves.get(&write.object) else { continue };
            let mut changes = BTreeMap::new();
            for cleared in &write.cleared {
                let seen = self.seen(leaf.root, cleared, commit.snapshot);
                changes.extend(seen.into_keys().map(|key| (Key::from(key), None)));
            }
            changes
                .extend(write.changes.iter().map(|(key, value)| (Key::from(key), value.map(<[u8]>::to_vec))));
            all.extend(changes.into_iter().map(|(key, value)| (leaf.root, key, value)));
        }
        all
    }

    fn conflicts(&self, commit: &Commit, leaves: &BTreeMap<ObjectId, Leaf>) -> bool {
        let is_deleted = |(object, key): &&(ObjectId, Key)| {
            let cell = leaves.get(object).map(|leaf| (leaf.root, key.to_vec()));
            let newest = cell.and_then(|cell| self.cells.get(&cell)?.last());
            newest.is_none_or(|(_, value)| value.is_none())
        };
        let kept = commit.required.iter().chain(commit.touched.iter().filter(is_deleted));
        let kept = kept.filter_map(|(object, key)| Some((leaves.get(object)?.root, key.clone())));
        let writes = self.writes(commit, leaves);
        let written = writes.iter().map(|(root, key, _)| (*root, key.clone()));
        let is_changed = kept.chain(written).any(|(root, key)| self.changed(root, &key) > commit.snapshot);
        let is_touched = |root: &ObjectId, key: &Key| {
            self.touched.get(&(*root, key.to_vec())).is_some_and(|at| *at > commit.snapshot)
        };
        is_changed || writes.iter().any(|(root, key, value)| value.is_none() && is_touched(root, key))
    }

    fn apply(&mut self, commit: &Commit, leaves: &BTreeMap<ObjectId, Leaf>, at: Timestamp) {
        for restructuring in &commit.restructurings {
            if let Restructuring::Remove { object } = restructuring
                && let Some(leaf) = leaves.get(object)
            {
                self.cells.retain(|(root, key), _| *root != leaf.root || !leaf.interval.contains(key));
            }
        }
        for (root, key, value) in self.writes(commit, leaves) {
            let versions = self.cells.entry((root, key.to_vec())).or_default();
            // Deleting what is not there is no change.
            if value.is_some() || versions.last().is_some_and(|(_, value)| value.is_some()) {
                versions.push((at, value));
            }
        }
        for (object, key) in &commit.touched {
            self.touched.insert((leaves[object].root, key.to_vec()), at);
        }
    }
}

struct Run {
    random: Random,
    /// Two that do the same, and one that finds everything in its engine.
    replicas: [Replica; 3],
    model: Model,
    watermark: Timestamp,
    next: u64,
    committed: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let replicas = [(); 3].map(|()| Replica::default());
        let (model, watermark) = (Model::default(), Timestamp(0));
        Self { random: Random::new(seed), replicas, model, watermark, next: 1, committed: 0 }
    }

    fn last(&self) -> Timestamp {
        self.replicas[0].core.last
    }

    fn objects(&self) -> Vec<Arc<Object>> {
        self.replicas[0].cache.borrow().values().flatten().cloned().collect()
    }

    fn fresh(&mut self) -> ObjectId {
        self.next += 1;
        ObjectId(self.next)
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.random.below(60).to_be_bytes()[7];
        if n.is_multiple_of(3) { vec![n] } else { vec![n / 3 * 3, n, n] }
    }

    /// A commit that mostly fits, and the leaves as it finds them.
    fn commit(&mut self) -> (Commit, BTreeMap<ObjectId, Leaf>) {
        let ahead = self.last().0 - self.watermark.0;
        let mut commit = Commit {
            snapshot: Timestamp(
                self.last().0 - self.random.below(ahead + 1).min(self.random.below(ahead + 1)),
            ),
            ..Commit::default()
        };
        let objects = self.objects();
        let as_leaf = |o: &Arc<Object>| (o.id(), Leaf { root: o.root(), interval: o.interval().clone() });
        let mut leaves: BTreeMap<_, _> = objects.iter().filter(|o| o.level() == 0).map(as_leaf).collect();
        if objects.is_empty() || self.random.one_in(3) {
            self.restructure(&mut commit, &objects, &mut leaves);
        }
        for _ in 0..self.random.below(3) {
            self.write(&mut commit, &leaves);
        }
        for _ in 0..self.random.below(8).saturating_sub(5) {
            let key = self.key();
            let Some((object, _)) = leaves.iter().find(|(_, leaf)| leaf.interval.contains(&key)) else {
                continue;
            };
            let kept = (*object, key.into());
            if self.random.one_in(2) { commit.required.push(kept) } else { commit.touched.push(kept) }
        }
        (commit, leaves)
    }

    fn write(&mut self, commit: &mut Commit, leaves: &BTreeMap<ObjectId, Leaf>) {
        if leaves.is_empty() {
            return;
        }
        let place = self.random.index(leaves.len());
        let Some((object, leaf)) = leaves.iter().nth(place) else { return };
        if commit.writes.iter().any(|write| write.object == *object) {
            return;
        }
        let mut changes = BTreeMap::new();
        let is_careful = !self.random.one_in(30);
        for _ in 0..self.random.below(12) {
            let key = self.key();
            if is_careful && !leaf.interval.contains(&key) {
                continue;
            }
            let length = if self.random.one_in(20) { 3000 } else { self.random.index(30) };
            let value = (!self.random.one_in(3)).then(|| Arc::from(vec![b'v'; length]));
            changes.insert(Key::from(key), value);
        }
        let changes: Vec<_> = changes.into_iter().map(|(key, value)| Change { key, value }).collect();
        let mut cleared = Vec::new();
        if self.random.one_in(6) {
            let some = Interval::new(self.key().into(), Some(self.key().into())).intersection(&leaf.interval);
            cleared.extend((!some.is_empty()).then_some(some));
        }
        commit.writes.push(Write { object: *object, cleared, changes: changes.into() });
    }

    fn restructure(
        &mut self,
        commit: &mut Commit,
        objects: &[Arc<Object>],
        leaves: &mut BTreeMap<ObjectId, Leaf>,
    ) {
        let steps = &mut commit.restructurings;
        if objects.is_empty() || self.random.one_in(20) {
            let known = objects.first().filter(|_| self.random.one_in(4)).map(|o| o.id());
            let object = known.unwrap_or_else(|| self.fresh());
            leaves.insert(object, Leaf { root: object, interval: Interval::everything() });
            return steps.push(Restructuring::Create { object });
        }
        let some = objects[self.random.index(objects.len())].clone();
        let object = some.id();
        match self.random.below(8) {
            0..3 => {
                let keys: BTreeSet<_> = (0..=self.random.below(2)).map(|_| self.key()).collect();
                let is_cut = |key: &Vec<u8>| **key > *some.interval().low() && some.covers(key);
                let cuts: Vec<_> =
                    keys.into_iter().filter(is_cut).map(|k| (k.into(), self.fresh())).collect();
                for (n, (key, into)) in cuts.iter().enumerate() {
                    let next = cuts.get(n + 1).map(|(key, _): &(Key, _)| key.clone());
                    let high = next.or_else(|| some.interval().high().map(Key::from));
                    let interval = Interval::new(key.clone(), high);
                    leaves.insert(*into, Leaf { root: some.root(), interval });
                    if let Some(whole) = leaves.get_mut(&object) {
                        let first = cuts.first().map(|(key, _)| key.clone());
                        whole.interval = Interval::new(whole.interval.low().into(), first);
                    }
                }
                steps.push(Restructuring::Split { object, cuts });
            }
            3 | 4 => {
                let is_next = |o: &&Arc<Object>| {
                    Some(o.interval().low()) == some.interval().high() && o.root() == some.root()
                };
                let Some(right) = objects.iter().find(is_next) else { return };
                if let (Some(left), Some(gone)) = (leaves.get(&object).cloned(), leaves.remove(&right.id())) {
                    let interval =
                        Interval::new(left.interval.low().into(), gone.interval.high().map(Into::into));
                    leaves.insert(object, Leaf { interval, ..left });
                }
                steps.push(Restructuring::Join { left: object, right: right.id() });
            }
            5 => {
                let into = self.fresh();
                if let Some(leaf) = leaves.remove(&object) {
                    leaves.insert(into, leaf);
                }
                steps.push(Restructuring::Grow { root: object, into });
            }
            6 => steps.push(Restructuring::Collect { object }),
            _ if some.level() == 0 && self.random.one_in(4) => steps.push(Restructuring::Remove { object }),
            _ => {
                if let Some(child) = (some.level() == 1).then(|| linked(some.value(0))).flatten()
                    && let Some(leaf) = leaves.remove(&child)
                {
                    leaves.insert(object, leaf);
                }
                steps.push(Restructuring::Shrink { root: object });
            }
        }
    }

    fn shard(&mut self) {
        let mut answers: Option<Vec<Answer>> = None;
        // One commit at a time to learn what each finds; now and then the same ones again as a shard, which all refuse.
        let (commit, leaves) = self.commit();
        let conflicts = self.model.conflicts(&commit, &leaves);
        let creates_again = matches!(&commit.restructurings[..], [Restructuring::Create { object }]
            if self.objects().iter().any(|o| o.id() == *object));
        let shard =
            if self.random.one_in(4) { vec![commit.clone(), commit.clone()] } else { vec![commit.clone()] };
        if self.random.one_in(2) {
            self.replicas[2].cache.borrow_mut().clear();
        }
        for replica in &mut self.replicas {
            let found = replica.execute(&shard, self.watermark);
            assert_eq!(
                answers.get_or_insert_with(|| found.clone()),
                &found,
                "replicas disagree on {shard:?}"
            );
        }
        let answers = answers.unwrap_or_default();
        assert_eq!(self.replicas[0].written.last(), self.replicas[1].written.last());
        match answers[0] {
            Answer::Committed(at) => {
                self.committed += 1;
                assert!(!conflicts && !creates_again, "a conflict went unnoticed: {commit:?}");
                self.model.apply(&commit, &leaves, at);
            }
            Answer::Conflict => assert!(conflicts || creates_again, "a conflict was invented: {commit:?}"),
            Answer::Misplaced => {}
        }
        if let Some(Answer::Committed(at)) = answers.get(1) {
            // Nothing in it has changed since its snapshot, not even by itself.
            assert!(!self.model.conflicts(&commit, &leaves), "the same commit twice: {commit:?}");
            self.model.apply(&commit, &leaves, *at);
        }
    }

    fn check(&mut self) {
        let ahead = self.last().0 - self.watermark.0;
        let at = Timestamp(self.watermark.0 + self.random.below(ahead + 1));
        let known: Vec<_> = self.replicas[0].cache.borrow().keys().copied().collect();
        for replica in &self.replicas {
            let mut count = 0;
            for id in &known {
                let object = replica.read(*id, self.watermark);
                let mut stored = 0;
                let mut visit = |_: u64, _: &[u8]| stored += 1;
                replica.engine.load(*id, &mut visit).expect("memory");
                assert_eq!(object.as_ref().map_or(0, |o| o.log.stored), stored);
                let Some(object) = object else { continue };
                assert_eq!(object.problems(), [""; 0]);
                if object.level() == 0 {
                    let seen = self.model.seen(object.root(), object.interval(), at);
                    assert_eq!(object.count(at), seen.len(), "{object:?}");
                    assert!(seen.iter().all(|(key, value)| object.get(key, at) == Some(value)), "{object:?}");
                    count += seen.len();
                }
            }
            let all = self.model.cells.values().filter(|versions| {
                versions.iter().rfind(|(then, _)| *then <= at).is_some_and(|(_, value)| value.is_some())
            });
            assert_eq!(count, all.count());
        }
    }

    fn step(&mut self) {
        self.shard();
        self.check();
        if self.random.one_in(10) {
            let ahead = self.last().0 - self.watermark.0;
            self.watermark.0 += self.random.below(ahead + 1);
        }
        if self.random.one_in(40) {
            self.watermark = self.last();
            self.replicas[2].restart();
        }
    }
}

#[test]
fn replicas_agree_with_each_other_and_with_a_map_of_all_versions() {
    seeds("replicas_agree_with_each_other_and_with_a_map_of_all_versions", 0..150, |seed| {
        let mut run = Run::new(seed.number);
        for _ in 0..150 {
            run.step();
        }
        if run.committed > 50 { Ok(()) } else { Err(format!("only {} commits", run.committed)) }
    });
}

/// The engine's entries of one object after some commits.
fn entries() -> Vec<Vec<u8>> {
    let mut replica = Replica::default();
    let object = ObjectId(7);
    for n in 0..8_u8 {
        let create = (n == 0).then_some(Restructuring::Create { object });
        let changes = vec![Change { key: [n].into(), value: Some(Arc::from([n; 9])) }];
        let commit = Commit {
            snapshot: replica.core.last,
            restructurings: create.into_iter().collect(),
            writes: vec![Write { object, cleared: vec![], changes: changes.into() }],
            ..Commit::default()
        };
        assert!(matches!(replica.execute(&[commit], Timestamp(0))[..], [Answer::Committed(_)]));
    }
    let mut entries = Vec::new();
    replica.engine.load(object, &mut |_, entry| entries.push(entry.to_vec())).expect("memory");
    entries
}

#[test]
fn damaged_entries_never_harm() {
    seeds("damaged_entries_never_harm", 0..1000, |seed| {
        let mut random = Random::new(seed.number);
        let mut whole = entries();
        assert!(whole.len() > 4);
        let place = random.index(whole.len());
        whole[place] = damaged(&mut random, &whole[place]);
        let mut loading = Loading::default();
        for (sequence, entry) in (0..).zip(&whole) {
            loading.entry(ObjectId(7), sequence, entry, Timestamp(0));
        }
        match loading.finish() {
            Ok(Some(object)) if !object.problems().is_empty() => Err(object.problems().join("\n")),
            _ => Ok(()),
        }
    });
}

#[test]
fn a_damaged_state_never_harms() {
    let mut batch = Batch::default();
    Core { last: Timestamp(300), sequence: 70_000, ..Core::default() }.save(1 << 33, &mut batch);
    let [EngineWrite::Fact { value, .. }] = &batch.writes[..] else { panic!("one fact") };
    let mut random = Random::new(1);
    for _ in 0..2000 {
        if let Some((core, next_object)) = Core::restore(Some(&damaged(&mut random, value))) {
            let largest = core.last.0.max(core.sequence).max(next_object);
            assert!(largest < u64::MAX / 2, "numbers at their end");
        }
    }
    // The last byte counts the objects, which states of earlier versions do not.
    let without_objects = value.len() - 1;
    for length in 0..value.len() {
        assert_eq!(Core::restore(Some(&value[..length])).is_some(), length == without_objects);
    }
}

/// Two commits that were made when the root was the parent of leaves: the first to be carried out makes it grow, so the
/// second must not link a leaf to it.
#[test]
fn a_root_that_has_grown_takes_no_links_of_the_level_below() {
    let mut replica = Replica::default();
    let (root, leaf, inner) = (ObjectId(1), ObjectId(2), ObjectId(4));
    let mut carry_out = |restructurings| {
        let commit = Commit { restructurings, ..Commit::default() };
        replica.execute(&[commit], Timestamp(0))[0]
    };
    let split = |key: &[u8], into| Restructuring::Split { object: leaf, cuts: vec![(key.into(), into)] };
    let relink =
        |key: &[u8], level, to| Restructuring::Relink { object: root, level, links: vec![(key.into(), to)] };
    let (create, grow) = (Restructuring::Create { object: root }, Restructuring::Grow { root, into: leaf });
    let made = vec![create, grow, split(b"m", ObjectId(3)), relink(b"m", 1, Some(ObjectId(3)))];
    assert!(matches!(carry_out(made), Answer::Committed(_)));
    let grown = vec![Restructuring::Grow { root, into: inner }];
    assert!(matches!(carry_out(grown), Answer::Committed(_)));
    let late = vec![split(b"f", ObjectId(5)), relink(b"f", 1, Some(ObjectId(5)))];
    assert_eq!(carry_out(late), Answer::Misplaced);
    let joined = vec![Restructuring::Join { left: leaf, right: ObjectId(3) }, relink(b"m", 1, None)];
    assert_eq!(carry_out(joined), Answer::Misplaced);
}

#[test]
fn links_are_eight_bytes() {
    assert_eq!(linked(&link(ObjectId(1 << 40))), Some(ObjectId(1 << 40)));
    assert_eq!(linked(&[0; 7]), None);
}
