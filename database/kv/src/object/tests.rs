use super::{Changes, Encoded, Object, encode_changes, head};
use crate::{Interval, Key, ObjectId, Part, Timestamp};
use fulmar_node::Random;
use fulmar_sim::seeds;
use std::collections::BTreeMap;

/// All versions that every cell ever had, oldest first.
type Model = BTreeMap<Vec<u8>, Vec<(Timestamp, Option<Vec<u8>>)>>;

/// Adjacent objects that once were one, and what they hold.
struct Run {
    random: Random,
    objects: Vec<Object>,
    model: Model,
    last: Timestamp,
    watermark: Timestamp,
    prefix: usize,
    keys: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            objects: vec![Object::empty(ObjectId(7), Interval::everything(), 0)],
            model: Model::new(),
            last: Timestamp(0),
            watermark: Timestamp(0),
            prefix: random.index(20),
            keys: 1 << random.below(8),
            random,
        }
    }

    /// Keys of all lengths around the eight bytes that are compared first, with zeros at the end.
    fn key(&mut self) -> Vec<u8> {
        if self.random.one_in(50) {
            let length = self.random.index(self.prefix + 2);
            return vec![self.random.next().to_be_bytes()[0]; length];
        }
        let mut key = vec![b'p'; self.prefix];
        let n = self.random.below(self.keys);
        match n % 4 {
            0 => key.resize(self.prefix + usize::try_from(n).expect("small"), 0),
            1 => key.extend(n.to_be_bytes()),
            2 => key.extend([&[0; 8][..], &n.to_be_bytes()[7..]].concat()),
            _ => key.push(n.to_be_bytes()[7]),
        }
        key
    }

    fn step(&mut self) {
        let place = self.random.index(self.objects.len());
        match self.random.below(12) {
            0..6 => self.write(place),
            6 => {
                let ahead = self.last.0 - self.watermark.0;
                self.watermark.0 += self.random.below(ahead + 1);
            }
            7 => {
                let object = &self.objects[place];
                self.objects[place] = object.apply(&Changes::default(), Timestamp(0), self.watermark);
            }
            8 => self.split(place),
            9 if place > 0 => {
                let right = self.objects.remove(place);
                let left = &mut self.objects[place - 1];
                *left = left.join(&right, self.watermark);
            }
            10 => self.objects[place] = self.objects[place].renamed(ObjectId(8), 0),
            _ => self.store(place),
        }
    }

    fn write(&mut self, place: usize) {
        let mut changes = BTreeMap::new();
        for _ in 0..=self.random.below(10) {
            let key = self.key();
            if self.objects[place].covers(&key) {
                let length = self.random.index(20);
                let value = (!self.random.one_in(3)).then(|| vec![b'v'; length]);
                changes.insert(key, value);
            }
        }
        self.last.0 += 1;
        let list = as_changes(&changes);
        let next = self.objects[place].apply(&list, self.last, self.watermark);
        let delta = encode_changes(&list, self.last);
        let replayed = self.objects[place].replay(&delta, self.watermark).expect("whole");
        assert_eq!(format!("{next:?}"), format!("{replayed:?}"));
        self.objects[place] = next;
        for (key, value) in changes {
            let versions = self.model.entry(key).or_default();
            // Deleting what is not there is no change.
            if value.is_some() || versions.last().is_some_and(|(_, value)| value.is_some()) {
                versions.push((self.last, value));
            }
        }
    }

    fn split(&mut self, place: usize) {
        let whole = &self.objects[place];
        let low = whole.interval().low().to_vec();
        let whole = self.objects.remove(place);
        let mut keys: Vec<_> = (0..self.random.below(3)).map(|_| self.key()).collect();
        keys.retain(|key| whole.covers(key) && *key > low);
        keys.sort();
        keys.dedup();
        let cuts: Vec<_> = keys.iter().map(|key| (Key::from(&**key), ObjectId(9))).collect();
        self.objects.splice(place..place, whole.split(&cuts, self.watermark));
    }

    /// Writes and reads an object, whole and damaged.
    fn store(&mut self, place: usize) {
        let object = &self.objects[place];
        let mut bytes = Vec::new();
        object.encode(&mut bytes);
        let read = Object::decode(object.id(), &bytes).expect("whole");
        assert_eq!(format!("{object:?}"), format!("{read:?}"));
        assert_eq!(
            (object.root(), object.stale(), object.newest()),
            (read.root(), read.stale(), read.newest())
        );
        for _ in 0..5 {
            let bytes = damaged(&mut self.random, &bytes);
            if let Some(read) = Object::decode(ObjectId(7), &bytes) {
                assert_eq!(read.problems(), [""; 0]);
                assert!(read.memory() < 1000 + 20 * bytes.len(), "{} for {}", read.memory(), bytes.len());
            }
        }
    }

    fn check(&mut self) {
        let mut low = Vec::new();
        for object in &self.objects {
            assert_eq!(object.problems(), [""; 0]);
            assert_eq!(object.interval().low(), low);
            low = object.interval().high().unwrap_or_default().to_vec();
        }
        let probes: Vec<_> = (0..10).map(|_| self.key()).collect();
        let snapshot = self.watermark.0 + self.random.below(self.last.0 - self.watermark.0 + 1);
        let snapshot = Timestamp(snapshot);
        for object in &self.objects {
            let seen: Vec<(&[u8], &[u8])> = self.seen(object, snapshot).collect();
            assert_eq!(walk(object, snapshot), seen);
            assert_eq!(walk_back(object, snapshot), seen);
            assert_eq!(object.count(snapshot), seen.len());
            for key in &probes {
                let below = (0..object.slots()).filter(|s| object.key(*s) < &**key).count();
                let upto = (0..object.slots()).filter(|s| object.key(*s) <= &**key).count();
                assert_eq!((object.lower_bound(key), object.upper_bound(key)), (below, upto), "{key:02x?}");
                assert_eq!(object.covers(key), object.interval().contains(key));
                if object.covers(key) {
                    let value = seen.iter().find(|(k, _)| k == key).map(|(_, value)| *value);
                    assert_eq!(object.get(key, snapshot), value);
                    let newest = self.model.get(key).and_then(|versions| versions.last());
                    let is_newer = newest.is_some_and(|(at, _)| *at > snapshot);
                    assert_eq!(object.changed(key).is_some_and(|at| at > snapshot), is_newer);
                    assert!(!is_newer || object.newest() > snapshot);
                }
            }
        }
    }

    fn seen<'m>(
        &'m self,
        object: &'m Object,
        snapshot: Timestamp,
    ) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
        self.model.iter().filter(|(key, _)| object.interval().contains(key)).filter_map(
            move |(key, versions)| {
                let (_, value) = versions.iter().rfind(|(at, _)| *at <= snapshot)?;
                Some((&**key, value.as_deref()?))
            },
        )
    }
}

/// Changes, removes, inserts or repeats some bytes.
pub(crate) fn damaged(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let place = random.index(bytes.len() + 1);
        let byte = random.next().to_be_bytes()[0];
        match random.below(5) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, byte),
            2 => bytes.extend_from_within(place..),
            _ if place < bytes.len() => bytes[place] ^= if random.one_in(2) { 1 << (byte % 8) } else { byte },
            _ => {}
        }
    }
    bytes
}

fn as_changes(changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Changes {
    changes.iter().map(|(key, value)| (&**key, value.as_deref())).collect()
}

fn walk(object: &Object, snapshot: Timestamp) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    let mut at = object.visible_from(0, snapshot);
    while let Some(slot) = at {
        found.push((object.key(slot), object.value(slot)));
        at = object.visible_after(slot, snapshot);
    }
    found
}

fn walk_back(object: &Object, snapshot: Timestamp) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    let mut at = object.visible_before(object.slots(), snapshot);
    while let Some(slot) = at {
        found.push((object.key(slot), object.value(slot)));
        at = object.visible_before(object.cell_start(slot), snapshot);
    }
    found.reverse();
    found
}

#[test]
fn objects_are_what_all_versions_in_a_map_are() {
    seeds("objects_are_what_all_versions_in_a_map_are", 0..300, |seed| {
        let mut run = Run::new(seed.number);
        for _ in 0..150 {
            run.step();
            run.check();
        }
        Ok(())
    });
}

#[test]
fn heads_sort_as_the_strings_they_are_of() {
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        let [a, b] = [(); 2].map(|()| {
            let length = random.index(12);
            (0..length).map(|_| [0, 1, 0xff][random.index(3)]).collect::<Vec<u8>>()
        });
        if head(&a) != head(&b) {
            assert_eq!(head(&a).cmp(&head(&b)), a.cmp(&b));
        }
    }
}

/// `apply` relies on the order of changes: what is not in order must not reach it.
#[test]
fn changes_that_are_not_an_objects_next_ones_are_refused() {
    let change = |key: &str| [(key.as_bytes(), Some(&b"value"[..]))].into_iter().collect::<Changes>();
    let interval = Interval::new(b"a".as_slice().into(), Some(b"m".as_slice().into()));
    let object = Object::empty(ObjectId(7), interval, 0);
    let object = object.apply(&change("c"), Timestamp(5), Timestamp(0));
    let object = object.apply(&change("f"), Timestamp(5), Timestamp(0));
    let entry = |key: &str, at| encode_changes(&change(key), Timestamp(at));
    let replay = |keys: &[&str], at| {
        let entries: Vec<u8> = keys.iter().flat_map(|key| entry(key, at)).collect();
        object.replay(&entries, Timestamp(0)).is_some()
    };
    assert!(replay(&["b", "d"], 6));
    assert!(!replay(&["d", "b"], 6), "descending");
    assert!(!replay(&["b", "b"], 6), "twice the same key");
    assert!(!replay(&["b", "x"], 6), "outside of the interval");
    assert!(!replay(&["c"], 5), "not newer than what is there");
    assert!(replay(&["d"], 4), "older than what is beside it");
    let mixed = [entry("b", 6), entry("d", 7)];
    assert!(object.replay(&mixed.concat(), Timestamp(0)).is_none(), "of two times");
}

#[test]
fn damaged_changes_never_harm() {
    seeds("damaged_changes_never_harm", 0..300, |seed| {
        let mut random = Random::new(seed.number);
        let mut object = Object::empty(ObjectId(7), Interval::everything(), 0);
        for at in 1..20 {
            let keys = (0..random.below(8)).map(|_| vec![random.next().to_be_bytes()[0]; random.index(9)]);
            let changes: BTreeMap<_, _> = keys.map(|key| (key, Some(vec![1; 3]))).collect();
            let mut bytes = encode_changes(&as_changes(&changes), Timestamp(at));
            if random.one_in(2) {
                bytes = damaged(&mut random, &bytes);
            }
            if let Some(next) = object.replay(&bytes, Timestamp(0)) {
                assert_eq!(next.problems(), [""; 0]);
                object = next;
            }
        }
        Ok(())
    });
}

/// What `at` sees, key by key.
fn seen(object: &Object, at: Timestamp) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cells = Vec::new();
    let mut next = object.visible_from(0, at);
    while let Some(slot) = next {
        cells.push((object.key(slot).to_vec(), object.value(slot).to_vec()));
        next = object.visible_after(slot, at);
    }
    cells
}

/// What is encoded piece by piece is what is encoded at once.
fn assert_pieces(encoded: &Encoded<'_>, object: &Object, most: usize) {
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    object.encode(&mut whole);
    while pieces.len() < whole.len() {
        let piece = encoded.bytes(pieces.len() as u64, most);
        assert!((1..=most).contains(&piece.len()));
        pieces.extend(piece);
    }
    assert_eq!((&pieces, encoded.size()), (&whole, whole.len() as u64));
    assert_eq!(encoded.bytes(encoded.size(), most), []);
    assert_eq!(encoded.bytes(u64::MAX, most), []);
}

fn parts_ascending(object: &Object, at: Timestamp, bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cells = Vec::new();
    let mut from = object.interval().low().to_vec();
    loop {
        let view = object.view(Part::From(&from), at, bytes).expect("the key is inside");
        let part = view.copy();
        assert_pieces(&view.encoded(), &part, bytes + 1);
        assert_eq!((part.problems(), part.interval().low()), (vec![], &*from));
        cells.extend(seen(&part, Timestamp(u64::MAX)));
        match part.interval().high() {
            high if high == object.interval().high() => return cells,
            Some(high) => from = high.to_vec(),
            None => panic!("a part that goes beyond the object"),
        }
    }
}

fn parts_descending(object: &Object, at: Timestamp, bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cells = Vec::new();
    let mut before = object.interval().high().map(<[u8]>::to_vec);
    loop {
        let part = object.view(Part::Before(before.as_deref()), at, bytes).expect("the key is inside").copy();
        assert_eq!((part.problems(), part.interval().high()), (vec![], before.as_deref()));
        cells.splice(0..0, seen(&part, Timestamp(u64::MAX)));
        let low = part.interval().low();
        if low == object.interval().low() {
            return cells;
        }
        before = Some(low.to_vec());
    }
}

#[test]
fn parts_put_together_are_what_a_snapshot_sees() {
    seeds("parts_put_together_are_what_a_snapshot_sees", 0..100, |seed| {
        let mut run = Run::new(seed.number);
        for _ in 0..100 {
            run.step();
        }
        let at = Timestamp(run.watermark.0 + run.random.below(run.last.0 - run.watermark.0 + 1));
        let bytes = run.random.index(100);
        for object in &run.objects {
            assert_pieces(&object.encoded(), object, bytes + 1);
            let whole = seen(object, at);
            assert_eq!(parts_ascending(object, at, bytes), whole);
            assert_eq!(parts_descending(object, at, bytes), whole);
        }
        Ok(())
    });
}
