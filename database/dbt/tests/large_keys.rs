//! Keys that are larger than a node.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_dbt::{Cursor, Database, Durability, Options, Tree};

const TREE: Tree = Tree(1);

/// The links to such keys are as large as they are: a node of a few is too large, and no split makes it smaller.
#[test]
fn nodes_of_large_links_are_not_split_for_ever() {
    let database = Database::transient(&Options::default()).unwrap();
    for n in 0..40_u8 {
        let mut transaction = database.begin().unwrap();
        // Out of order, so that splits fall between all of them.
        let key = [vec![b'k'; 20_000], vec![n.wrapping_mul(77)]].concat();
        transaction.put(TREE, &key, &[n; 100]).unwrap();
        transaction.commit(Durability::Synced).unwrap();
    }
    let transaction = database.begin().unwrap();
    assert_eq!(transaction.check(TREE).unwrap(), Vec::<String>::new());
    let (mut cursor, mut found) = (Cursor::new(TREE), 0);
    let mut more = cursor.first(&transaction).unwrap();
    while more {
        found += 1;
        more = cursor.next(&transaction).unwrap();
    }
    assert_eq!(found, 40);
}
