//! Random transactions, several at a time, against a naive oracle: one ordered map a commit.
//!
//! A failing seed is reported; `FULMAR_SEED=n` runs it alone, `FULMAR_SEEDS=n` runs more of them.

use fulmar_dbt::{Cursor, Database, Durability, Error, Mark, Options, Seek, Transaction, Tree};
use fulmar_kv::engine::Memory;
use fulmar_node::Random;
use fulmar_sim::seeds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
const TREE: Tree = Tree(1);

/// What every commit left, and when each key was last changed and touched.
#[derive(Default)]
struct Oracle {
    states: Vec<Map>,
    changed: BTreeMap<Vec<u8>, usize>,
    touched: BTreeMap<Vec<u8>, usize>,
}

struct Open {
    real: Transaction,
    state: usize,
    view: Map,
    written: BTreeSet<Vec<u8>>,
    required: BTreeSet<Vec<u8>>,
    touched: BTreeSet<Vec<u8>>,
    marks: Vec<(Mark, Map, BTreeSet<Vec<u8>>)>,
    cursor: Cursor,
    at: Option<Vec<u8>>,
}

impl Open {
    fn begin(database: &Database, oracle: &Oracle) -> Self {
        Self {
            real: database.begin().unwrap(),
            state: oracle.states.len() - 1,
            view: oracle.states.last().unwrap().clone(),
            written: BTreeSet::new(),
            required: BTreeSet::new(),
            touched: BTreeSet::new(),
            marks: Vec::new(),
            cursor: Cursor::new(TREE),
            at: None,
        }
    }
    fn set(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.written.insert(key.into());
        match value {
            Some(value) => self.view.insert(key.into(), value),
            None => self.view.remove(key),
        };
    }
    fn agrees(&self, moved: bool) {
        assert_eq!(moved, self.at.is_some());
        assert_eq!(self.cursor.is_positioned(), self.at.is_some());
        if let Some(at) = &self.at {
            assert_eq!(self.cursor.key(), &at[..]);
            assert_eq!(self.cursor.value(), &self.view[at][..]);
        }
    }
    fn seek(&mut self, key: &[u8], seek: Seek) {
        let moved = self.cursor.seek(&self.real, key, seek).unwrap();
        self.at = oracle_seek(&self.view, key, seek);
        self.agrees(moved);
    }
}

fn oracle_seek(map: &Map, key: &[u8], seek: Seek) -> Option<Vec<u8>> {
    let from = |bound| map.range::<[u8], _>((bound, Bound::Unbounded)).next();
    let to = |bound| map.range::<[u8], _>((Bound::Unbounded, bound)).next_back();
    let found = match seek {
        Seek::AtOrAfter => from(Bound::Included(key)),
        Seek::After => from(Bound::Excluded(key)),
        Seek::AtOrBefore => to(Bound::Included(key)),
        Seek::Before => to(Bound::Excluded(key)),
    };
    found.map(|(k, _)| k.clone())
}

fn bounds_contain((low, high): (Bound<&[u8]>, Bound<&[u8]>), key: &[u8]) -> bool {
    std::ops::RangeBounds::<[u8]>::contains(&(low, high), key)
}

fn key(random: &mut Random, keys: u64) -> Vec<u8> {
    let n = random.below(keys);
    match n % 4 {
        0 => format!("a common beginning {n:05}").into_bytes(),
        1 => n.to_be_bytes().to_vec(),
        2 => vec![0; usize::try_from(n % 40).unwrap()],
        _ => format!("{n}").into_bytes(),
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let database = if random.one_in(2) {
        let options = Options { cache_bytes: 1 << 12, ..Options::default() };
        let kv = fulmar_kv::Database::with_engine(Path::new("test"), Box::new(Memory::default()), &options);
        Database::on(kv.unwrap()).unwrap()
    } else {
        Database::transient(&Options::default()).unwrap()
    };
    let keys = 1 << random.below(11);
    let value_bytes = 1 << random.below(11);
    let mut oracle = Oracle { states: vec![Map::new()], ..Oracle::default() };
    let mut open: Vec<Open> = Vec::new();
    for _ in 0..600 {
        if open.is_empty() || (open.len() < 4 && random.one_in(10)) {
            open.push(Open::begin(&database, &oracle));
        }
        let n = usize::try_from(random.below(open.len() as u64)).unwrap();
        let t = &mut open[n];
        let k = key(&mut random, keys);
        match random.below(22) {
            0..6 => {
                let value = vec![b'v'; usize::try_from(random.below(value_bytes)).unwrap()];
                t.real.put(TREE, &k, &value).unwrap();
                t.set(&k, Some(value));
                t.at = None;
                t.cursor = Cursor::new(TREE);
            }
            6 => {
                // Many keys at once, as a bulk load has them.
                for i in 0..random.below(300) {
                    let k = [&k[..], &i.to_be_bytes()].concat();
                    t.real.put(TREE, &k, &k).unwrap();
                    t.set(&k, Some(k.clone()));
                }
                t.at = None;
                t.cursor = Cursor::new(TREE);
            }
            7 | 8 => {
                t.real.delete(TREE, &k).unwrap();
                t.set(&k, None);
            }
            9 if random.one_in(3) => {
                let mut high = key(&mut random, keys);
                let (low, high) = if k <= high { (k, high) } else { (std::mem::replace(&mut high, k), high) };
                let (low, high) = if low <= high { (low, high) } else { (high, low) };
                let everything = random.one_in(4);
                let bounds = if everything {
                    (Bound::Unbounded, Bound::Unbounded)
                } else {
                    (Bound::Included(&low[..]), Bound::Included(&high[..]))
                };
                t.real.delete_range(TREE, bounds.0, bounds.1).unwrap();
                let inside =
                    |map: &Map| map.range::<[u8], _>(bounds).map(|(k, _)| k.clone()).collect::<Vec<_>>();
                // What the transaction added there itself leaves no trace; what its snapshot has there is changed.
                t.written.retain(|k| !bounds_contain(bounds, k));
                t.written.extend(inside(&oracle.states[t.state]));
                for k in inside(&t.view) {
                    t.view.remove(&k);
                }
            }
            10 => {
                let mark = t.real.mark();
                t.marks.push((mark, t.view.clone(), t.written.clone()));
            }
            11 if !t.marks.is_empty() => {
                let m = usize::try_from(random.below(t.marks.len() as u64)).unwrap();
                t.marks.truncate(m + 1);
                let (mark, view, written) = t.marks[m].clone();
                if random.one_in(2) {
                    t.real.undo_to(mark);
                    (t.view, t.written) = (view, written);
                    t.at = None;
                    t.cursor = Cursor::new(TREE);
                } else {
                    t.real.release(mark);
                    t.marks.truncate(m);
                }
            }
            12 if random.one_in(2) => {
                t.real.touch(TREE, &k);
                t.touched.insert(k);
            }
            12 => {
                t.real.require_unchanged(TREE, &k);
                t.required.insert(k);
            }
            13 => assert_eq!(t.real.count(TREE).unwrap(), t.view.len() as u64),
            14 => assert_eq!(t.real.get(TREE, &k).unwrap().as_deref(), t.view.get(&k).map(|v| &v[..])),
            15 | 16 => {
                let all = [Seek::AtOrAfter, Seek::After, Seek::AtOrBefore, Seek::Before];
                let seek = all[usize::try_from(random.below(4)).unwrap()];
                t.seek(&k, seek);
            }
            17 | 18 => {
                let forward = random.one_in(2);
                for _ in 0..random.below(40) {
                    let Some(at) = t.at.clone() else { break };
                    let moved = if forward { t.cursor.next(&t.real) } else { t.cursor.previous(&t.real) };
                    t.at = oracle_seek(&t.view, &at, if forward { Seek::After } else { Seek::Before });
                    t.agrees(moved.unwrap());
                }
            }
            19 => {
                let moved = if random.one_in(2) { t.cursor.first(&t.real) } else { t.cursor.last(&t.real) };
                let first = t.cursor.key() <= t.view.keys().next().map_or(&[][..], |k| k);
                t.at = if first { t.view.keys().next() } else { t.view.keys().next_back() }.cloned();
                t.agrees(moved.unwrap());
            }
            20 => {
                let t = open.swap_remove(n);
                commit(t, &mut oracle, &database);
            }
            21 if random.one_in(3) => drop(open.swap_remove(n)),
            _ => {}
        }
    }
    for t in open {
        commit(t, &mut oracle, &database);
    }
    let reader = database.begin().unwrap();
    let mut cursor = Cursor::new(TREE);
    let mut more = cursor.first(&reader).unwrap();
    let mut found = Map::new();
    while more {
        found.insert(cursor.key().into(), cursor.value().into());
        more = cursor.next(&reader).unwrap();
    }
    assert_eq!(&found, oracle.states.last().unwrap());
}

fn commit(t: Open, oracle: &mut Oracle, database: &Database) {
    let is_after = |at: Option<&usize>| at.is_some_and(|at| *at > t.state);
    let newest = oracle.states.last().unwrap();
    let gone = t.touched.iter().filter(|k| !newest.contains_key(*k));
    let conflict = t.written.iter().chain(&t.required).chain(gone).any(|k| is_after(oracle.changed.get(k)))
        || t.written.iter().any(|k| !t.view.contains_key(k) && is_after(oracle.touched.get(k)));
    let read_only = !t.real.is_changed();
    match t.real.commit(Durability::Synced) {
        Ok(_) => {
            assert!(read_only || !conflict, "a conflict went unnoticed");
            let mut next = oracle.states.last().unwrap().clone();
            for k in t.written {
                let before = match t.view.get(&k) {
                    Some(v) => next.insert(k.clone(), v.clone()),
                    None => next.remove(&k),
                };
                // Deleting what is not there is no change.
                if before.is_some() || next.contains_key(&k) {
                    oracle.changed.insert(k, oracle.states.len());
                }
            }
            if !read_only {
                oracle.touched.extend(t.touched.into_iter().map(|k| (k, oracle.states.len())));
            }
            oracle.states.push(next);
        }
        Err(Error::Conflict) => assert!(conflict, "a conflict was invented"),
        Err(error) => panic!("{error}"),
    }
    let problems = database.begin().unwrap().check(TREE).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn transactions_agree_with_the_oracle() {
    seeds("transactions_agree_with_the_oracle", 0..400, |seed| {
        run(seed.number);
        Ok(())
    });
}
