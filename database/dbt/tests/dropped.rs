//! Trees that were dropped while somebody could still read them.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_dbt::{Database, Durability, Options, Tree};
use fulmar_kv::ObjectId;
use std::iter;
use std::thread;

fn objects(kv: &fulmar_kv::Database) -> usize {
    let next = |from| kv.next(from).unwrap();
    iter::successors(next(ObjectId(0)), |last| next(ObjectId(last.0 + 1))).count()
}

/// What a commit does about dropped trees takes no more stack the more of them there are.
#[test]
fn many_trees_that_a_reader_held_are_removed_one_after_the_other() {
    const TREES: usize = 2_000;
    let body = || {
        let kv = fulmar_kv::Database::transient(&Options::default()).unwrap();
        let database = Database::on(kv.clone()).unwrap();
        let before = objects(&kv);
        let mut transaction = database.begin().unwrap();
        let trees: Vec<Tree> = (0..TREES).map(|_| transaction.create_tree().unwrap()).collect();
        transaction.commit(Durability::Written).unwrap();
        let reader = database.begin().unwrap();
        reader.snapshot().unwrap();
        for tree in &trees {
            let mut transaction = database.begin().unwrap();
            transaction.drop_tree(*tree).unwrap();
            transaction.commit(Durability::Written).unwrap();
        }
        let left = || objects(&kv) - before;
        // The commits themselves take some.
        assert!(left() >= TREES);
        drop(reader);
        let mut commits: usize = 0;
        while left() > TREES / 10 {
            commits += 1;
            assert!(commits <= TREES, "{} trees are left", left());
            let mut transaction = database.begin().unwrap();
            transaction.put(Tree(1), &commits.to_be_bytes(), b"").unwrap();
            transaction.commit(Durability::Written).unwrap();
        }
    };
    thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}
