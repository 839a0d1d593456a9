//! Real threads: writers move entries about, so that nodes split and merge, while readers hold snapshots.
//!
//! Whatever the writers do, every entry is in the tree exactly once, in every snapshot.

use fulmar_dbt::{Cursor, Database, Durability, Error, Options, Seek, Transaction, Tree};
use fulmar_node::Random;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

const TREE: Tree = Tree(1);
/// Entries, and places for them.
const ENTRIES: u64 = 600;
const PLACES: u64 = 2400;

/// Long keys, so that inner nodes split too.
fn key(place: u64) -> Vec<u8> {
    [&[b'k'; 150][..], &place.to_be_bytes()].concat()
}

fn place(key: &[u8]) -> u64 {
    u64::from_be_bytes(*key.last_chunk().unwrap())
}

/// A value that tells which entry it is of, and its length.
fn value(entry: u64) -> Vec<u8> {
    let length = usize::try_from(8 + entry * 37 % 900).unwrap();
    let mut value = entry.to_be_bytes().to_vec();
    value.resize(length, 0);
    value
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn forwards(transaction: &Transaction) -> Result<Entries, Error> {
    let mut cursor = Cursor::new(TREE);
    let mut more = cursor.first(transaction)?;
    let mut found = Entries::new();
    while more {
        found.push((cursor.key().into(), cursor.value().into()));
        more = cursor.next(transaction)?;
    }
    Ok(found)
}

fn backwards(transaction: &Transaction) -> Result<Entries, Error> {
    let mut cursor = Cursor::new(TREE);
    let mut more = cursor.last(transaction)?;
    let mut found = Entries::new();
    while more {
        found.push((cursor.key().into(), cursor.value().into()));
        more = cursor.previous(transaction)?;
    }
    found.reverse();
    Ok(found)
}

fn assert_complete(found: &Entries) {
    assert!(found.is_sorted_by(|(a, _), (b, _)| a < b));
    let mut entries: Vec<_> =
        found.iter().map(|(_, value)| u64::from_be_bytes(*value.first_chunk().unwrap())).collect();
    entries.sort_unstable();
    assert!(entries.into_iter().eq(0..ENTRIES), "{} of {ENTRIES} entries", found.len());
}

/// Moves a run of entries to where there is room for them, by one range delete or many deletes.
fn shift(transaction: &mut Transaction, random: &mut Random) -> Result<(), Error> {
    let from = random.below(PLACES);
    let widest = if random.one_in(8) { PLACES } else { 60 };
    let width = 1 + random.below(widest);
    let distance = random.below(PLACES);
    let mut moved = Vec::new();
    let mut cursor = Cursor::new(TREE);
    let mut more = cursor.seek(transaction, &key(from), Seek::AtOrAfter)?;
    while more && place(cursor.key()) < from + width {
        moved.push((place(cursor.key()), cursor.value().to_vec()));
        more = cursor.next(transaction)?;
    }
    if random.one_in(2) {
        let (low, high) = (key(from), key(from + width));
        transaction.delete_range(TREE, Bound::Included(&low), Bound::Excluded(&high))?;
    } else {
        for (from, _) in &moved {
            transaction.delete(TREE, &key(*from))?;
        }
    }
    for (from, value) in moved {
        let mut to = (from + distance) % PLACES;
        while transaction.get(TREE, &key(to))?.is_some() {
            to = (to + 1) % PLACES;
        }
        transaction.put(TREE, &key(to), &value)?;
    }
    Ok(())
}

fn write(database: &Database, seed: u64, commits: u64) {
    let mut random = Random::new(seed);
    let (mut done, mut lost) = (0, 0);
    while done < commits {
        let mut transaction = database.begin().unwrap();
        shift(&mut transaction, &mut random).unwrap();
        match transaction.commit(Durability::Written) {
            Ok(_) => done += 1,
            Err(Error::Conflict) => lost += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(lost < 100 * commits, "{lost} conflicts for {done} commits");
    }
}

/// Looks at snapshots, each three times in all ways, until the writers are done.
fn read(database: &Database, writing: &AtomicUsize) {
    let mut is_last = false;
    while !is_last {
        is_last = writing.load(SeqCst) == 0;
        let transaction = database.begin().unwrap();
        let found = forwards(&transaction).unwrap();
        assert_complete(&found);
        for _ in 0..2 {
            assert!(backwards(&transaction).unwrap() == found, "a snapshot differs backwards");
            assert_eq!(transaction.count(TREE).unwrap(), ENTRIES);
            assert!(forwards(&transaction).unwrap() == found, "a snapshot has changed");
        }
        for (key, value) in found.iter().step_by(50) {
            assert_eq!(transaction.get(TREE, key).unwrap().as_deref(), Some(&value[..]));
        }
    }
}

/// Goes to and fro in one snapshot of the beginning.
fn hold(database: &Database, writing: &AtomicUsize) {
    let transaction = database.begin().unwrap();
    let found = forwards(&transaction).unwrap();
    let mut random = Random::new(9);
    let mut cursor = Cursor::new(TREE);
    assert!(cursor.first(&transaction).unwrap());
    let mut at = 0;
    while writing.load(SeqCst) > 0 {
        for _ in 0..random.below(300) {
            let is_forward = random.one_in(2) && at + 1 < found.len() || at == 0;
            if is_forward {
                assert!(cursor.next(&transaction).unwrap());
                at += 1;
            } else {
                assert!(cursor.previous(&transaction).unwrap());
                at -= 1;
            }
            assert_eq!((cursor.key(), cursor.value()), (&found[at].0[..], &found[at].1[..]));
        }
        at = random.index(found.len());
        assert!(cursor.seek(&transaction, &found[at].0, Seek::AtOrBefore).unwrap());
    }
}

fn run(database: &Database, commits: u64) {
    let mut filler = database.begin().unwrap();
    for entry in 0..ENTRIES {
        filler.put(TREE, &key(entry * (PLACES / ENTRIES)), &value(entry)).unwrap();
    }
    filler.commit(Durability::Written).unwrap();
    let writing = AtomicUsize::new(3);
    thread::scope(|scope| {
        for seed in 0..3 {
            let writing = &writing;
            scope.spawn(move || {
                // Readers end also if this panics.
                let _done = Leaving(writing);
                write(database, seed, commits);
            });
        }
        scope.spawn(|| read(database, &writing));
        scope.spawn(|| hold(database, &writing));
    });
    let reader = database.begin().unwrap();
    assert_eq!(reader.check(TREE).unwrap(), [""; 0]);
    assert_complete(&forwards(&reader).unwrap());
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Puts and deletes keys so long that a few make a root grow.
fn grow_and_shrink(database: &Database, seed: u64) {
    let mut random = Random::new(seed);
    for round in 0..12 {
        let mut transaction = database.begin().unwrap();
        for _ in 0..20 {
            let key = [&[b'k'; 2000][..], &random.below(100).to_be_bytes()].concat();
            if round % 4 == 3 {
                transaction.delete(TREE, &key)
            } else {
                transaction.put(TREE, &key, &[0; 900])
            }
            .unwrap();
        }
        match transaction.commit(Durability::Written) {
            Ok(_) | Err(Error::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn roots_grow_and_shrink_under_the_plans_of_others() {
    for seed in 0..30 {
        let database = Database::transient(&Options::default()).unwrap();
        thread::scope(|scope| {
            for n in 0..3 {
                let database = &database;
                scope.spawn(move || grow_and_shrink(database, seed * 3 + n));
            }
        });
        assert_eq!(database.begin().unwrap().check(TREE).unwrap(), [""; 0]);
    }
}

#[test]
fn snapshots_stay_whole_while_others_write() {
    run(&Database::transient(&Options::default()).unwrap(), 100);
}

#[test]
fn snapshots_stay_whole_on_the_real_engine_with_a_small_cache() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { cache_bytes: 1 << 17, ..Options::default() };
    run(&Database::open(&directory.path().join("database"), &options).unwrap(), 40);
}
