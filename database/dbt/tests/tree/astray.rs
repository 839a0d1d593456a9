//! Searches that are led by servers which have not heard of a change.

use fulmar_dbt::{Database, Durability, Error, Options};
use fulmar_kv::{
    Basis, Commit, Exclusion, Object, ObjectId, Part, Refusal, ShardCounts, Snapshot, Store, Timestamp,
};
use fulmar_locks::Mutex;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A store elsewhere that finds no leaf of the tree but its root until it was reconsidered so often; nor an inner node below the
/// root, if it remembers others, before that is mistrusted.
struct Misled {
    store: fulmar_kv::Database,
    left: Arc<AtomicU32>,
    remembers: bool,
    mistrusted: Mutex<BTreeSet<ObjectId>>,
}

impl Store for Misled {
    fn path(&self) -> &Path {
        self.store.path()
    }

    fn open_snapshot(&self) -> Result<Timestamp, Error> {
        Store::open_snapshot(&self.store)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn close_snapshot(&self, at: Timestamp) {
        Store::close_snapshot(&self.store, at);
    }

    fn newest(&self) -> Result<Timestamp, Error> {
        Store::newest(&self.store)
    }

    fn read(&self, object: ObjectId, part: Part<'_>, at: &Snapshot) -> Result<Option<Arc<Object>>, Error> {
        let found = Store::read(&self.store, object, part, at)?;
        let is_hidden = |found: &Arc<Object>| match found.level() {
            0 => self.left.load(SeqCst) > 0,
            _ => self.remembers && found.id() != found.root() && !self.mistrusted.lock().contains(&object),
        };
        Ok(found.filter(|found| !is_hidden(found)))
    }

    fn bytes(&self) -> Result<u64, Error> {
        Store::bytes(&self.store)
    }

    fn shards(&self) -> Result<ShardCounts, Error> {
        self.store.shards()
    }

    fn is_leaf(&self, object: ObjectId) -> bool {
        self.store.is_leaf(object)
    }

    fn mistrust(&self, path: &[ObjectId]) {
        self.mistrusted.lock().extend(path);
        self.store.mistrust(path);
    }

    fn reconsider(&self) -> Result<(), Error> {
        let left = self.left.load(SeqCst);
        self.left.store(left.saturating_sub(u32::from(left < u32::MAX)), SeqCst);
        Ok(())
    }

    fn excuse(&self, node: ObjectId) {
        self.store.excuse(node);
    }

    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        Store::commit(&self.store, commit, durability)
    }

    fn commit_unread(
        &self,
        commit: Commit,
        basis: Basis,
        durability: Durability,
    ) -> Result<Timestamp, Refusal<Commit>> {
        self.store.commit_unread(commit, basis, durability)
    }

    fn pick(&self, tree: ObjectId, next: i64, at: Timestamp) -> Result<Option<i64>, Error> {
        self.store.pick(tree, next, at)
    }

    fn exclude(&self, exclusion: Exclusion) -> Result<bool, Error> {
        self.store.exclude(exclusion)
    }

    fn cached_bytes(&self) -> usize {
        Store::cached_bytes(&self.store)
    }
}

/// What is found in a tree of three levels by a store that is misled until it was reconsidered so often, or remembers inner nodes that
/// are no more.
fn found(times: u32, remembers: bool) -> Result<bool, Error> {
    // Keys so long that there are few in a node.
    let key = |row: u64| -> Vec<u8> { [&[0; 1_000], &row.to_be_bytes()[..]].concat() };
    let store = fulmar_kv::Database::transient(&Options::default())?;
    let near = Database::on(store.clone())?;
    let mut transaction = near.begin()?;
    let tree = transaction.create_tree()?;
    for row in 0..500 {
        transaction.put(tree, &key(row), &[7])?;
    }
    transaction.commit(Durability::Written)?;
    let left = Arc::new(AtomicU32::new(times));
    let far = Database::remote(Arc::new(Misled { store, left, remembers, mistrusted: Mutex::default() }));
    let transaction = far.begin()?;
    Ok(transaction.get(tree, &key(123))?.is_some())
}

#[test]
fn who_is_misled_asks_anew_whom_to_ask() {
    assert!(found(0, false).unwrap());
    assert!(found(5, false).unwrap());
}

#[test]
fn an_inner_node_that_is_no_more_is_not_remembered_for_ever() {
    assert!(found(0, true).unwrap());
}

#[test]
fn servers_that_disagree_for_ever_are_no_corruption() {
    match found(u32::MAX, false) {
        Err(Error::Io { source, .. }) => {
            assert_eq!(source.kind(), ErrorKind::TimedOut);
            assert!(source.to_string().contains("servers disagree"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}
