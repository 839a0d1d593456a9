//! How often a client waits for the server, on sockets.

use fulmar_cluster::{Connection, Directory, Remote, Replication, Service, ShardOptions, new_cluster};
use fulmar_dbt::{Cursor, Database, Durability, Seek, Tree};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;

const TREE: Tree = Tree(1);

fn key(n: u32) -> Vec<u8> {
    [&n.to_be_bytes()[..], &[b'k'; 100]].concat()
}

/// A server, and a client whose tree has leaves below inner nodes.
fn served(work: impl FnOnce(&Database, &dyn Fn() -> u64)) {
    served_with(|_, database| work(database, &|| database.round_trips()));
}

fn served_with(work: impl FnOnce(SocketAddr, &Database)) {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let databases = Directory::new(directory.path().into(), ShardOptions::default());
    let cluster = new_cluster().unwrap();
    let mut service =
        Service::first(cluster, Box::new(databases), &address.to_string(), Replication::default()).unwrap();
    service.listen(listener).unwrap();
    let handle = service.handle();
    #[expect(clippy::disallowed_methods, reason = "the server runs beside its client")]
    let server = thread::spawn(move || service.run(|_| {}).unwrap());
    let database = another(address);
    for part in 0..10 {
        let mut filler = database.begin().unwrap();
        for n in 0..100 {
            filler.put(TREE, &key(part * 100 + n), &[b'v'; 100]).unwrap();
        }
        filler.commit(Durability::Written).unwrap();
    }
    let reader = database.begin().unwrap();
    for n in (0..1000).step_by(10) {
        assert!(reader.get(TREE, &key(n)).unwrap().is_some());
    }
    drop(reader);
    work(address, &database);
    drop(database);
    handle.stop();
    server.join().unwrap();
}

fn another(server: SocketAddr) -> Database {
    let connection = Connection::open(server.into(), "trees", true).unwrap();
    Database::remote(Arc::new(Remote::new(Path::new("server"), connection)))
}

#[test]
fn where_others_have_made_a_tree_grow_nobody_asks_twice() {
    served_with(|server, database| {
        let other = another(server);
        let mut row = 1000;
        // Some leaves of rows at the end.
        let mut append = |database: &Database, rows: u32| {
            let before = database.round_trips();
            for _ in 0..rows {
                let mut writer = database.begin().unwrap();
                let mut cursor = Cursor::new(TREE);
                assert!(cursor.last(&writer).unwrap());
                assert_eq!(cursor.key(), key(row - 1));
                writer.put(TREE, &key(row), &[b'v'; 100]).unwrap();
                writer.commit(Durability::Written).unwrap();
                row += 1;
            }
            database.round_trips() - before
        };
        append(database, 1);
        append(&other, 200);
        assert_eq!(append(database, 1), 2);
        let before = database.round_trips();
        assert!(database.begin().unwrap().get_only(TREE, &key(1100)).unwrap().is_some());
        let mut writer = database.begin().unwrap();
        writer.assume(TREE, &key(1150));
        writer.put(TREE, &key(1150), b"new").unwrap();
        writer.commit(Durability::Written).unwrap();
        assert_eq!(database.round_trips() - before, 2);
    });
}

#[test]
fn a_row_is_found_in_one_round_trip() {
    served(|database, round_trips| {
        let before = round_trips();
        let reader = database.begin().unwrap();
        assert!(reader.get(TREE, &key(500)).unwrap().is_some());
        drop(reader);
        assert_eq!(round_trips() - before, 1);
    });
}

#[test]
fn a_row_alone_is_found_in_one_and_no_snapshot_is_left() {
    served(|database, round_trips| {
        let before = round_trips();
        for n in [500, 5000] {
            let reader = database.begin().unwrap();
            reader.expect(Tree(0), b"fact", None);
            assert_eq!(reader.get_only(TREE, &key(n)).unwrap().is_some(), n == 500);
            assert_eq!(reader.known_snapshot(), None);
        }
        assert_eq!(round_trips() - before, 2);
        let reader = database.begin().unwrap();
        reader.expect(Tree(0), b"fact", Some(b"value"));
        assert!(matches!(reader.get_only(TREE, &key(1)), Err(fulmar_dbt::Error::Unexpected)));
    });
}

#[test]
fn a_row_is_changed_in_two() {
    served(|database, round_trips| {
        let before = round_trips();
        let mut writer = database.begin().unwrap();
        assert!(writer.get(TREE, &key(500)).unwrap().is_some());
        writer.put(TREE, &key(500), b"new").unwrap();
        writer.commit(Durability::Synced).unwrap();
        assert_eq!(round_trips() - before, 2);
    });
}

#[test]
fn a_row_that_was_not_read_is_changed_in_one() {
    served(|database, round_trips| {
        let before = round_trips();
        let mut writer = database.begin().unwrap();
        writer.expect(Tree(0), b"fact", None);
        writer.assume(TREE, &key(500));
        writer.put(TREE, &key(500), b"new").unwrap();
        writer.commit(Durability::Synced).unwrap();
        assert_eq!(round_trips() - before, 1);
        let reader = database.begin().unwrap();
        assert_eq!(reader.get(TREE, &key(500)).unwrap().as_deref(), Some(&b"new"[..]));
    });
}

#[test]
fn what_is_taken_for_granted_must_be_so() {
    served(|database, _| {
        let conflicts = |prepare: &dyn Fn(&mut fulmar_dbt::Transaction)| {
            let mut writer = database.begin().unwrap();
            prepare(&mut writer);
            writer.put(TREE, &key(5000), b"new").unwrap();
            matches!(writer.commit(Durability::Written), Err(fulmar_dbt::Error::Conflict))
        };
        assert!(conflicts(&|writer| writer.assume(TREE, &key(5000))));
        assert!(conflicts(&|writer| writer.expect(Tree(0), b"fact", Some(b"value"))));
        assert!(conflicts(&|writer| {
            writer.assume(TREE, &key(5000));
            assert!(writer.get(TREE, &key(1)).unwrap().is_some());
        }));
        assert!(database.begin().unwrap().get(TREE, &key(5000)).unwrap().is_none());
        assert!(!conflicts(&|_| {}));
    });
}

#[test]
fn what_is_relied_on_is_looked_for_where_it_has_gone() {
    for touch in [true, false] {
        served_with(|server, database| {
            let mut founder = database.begin().unwrap();
            let tree = founder.create_tree().unwrap();
            founder.put(tree, &key(0), b"relied on").unwrap();
            founder.commit(Durability::Written).unwrap();
            let other = another(server);
            let mut writer = other.begin().unwrap();
            assert!(writer.get(tree, &key(0)).unwrap().is_some());
            if touch {
                writer.touch(tree, &key(0));
            } else {
                writer.require_unchanged(tree, &key(0));
            }
            writer.put(TREE, &key(0), b"relies on it").unwrap();
            let mut remover = database.begin().unwrap();
            remover.delete(tree, &key(0)).unwrap();
            remover.commit(Durability::Written).unwrap();
            // The leaf that it was in becomes an inner node.
            let mut filler = database.begin().unwrap();
            (1..200).for_each(|n| filler.put(tree, &key(n), &[b'v'; 100]).unwrap());
            filler.commit(Durability::Written).unwrap();
            assert!(matches!(writer.commit(Durability::Written), Err(fulmar_dbt::Error::Conflict)));
        });
    }
}

#[test]
fn what_is_remembered_is_checked_on_the_way() {
    served(|database, round_trips| {
        let before = round_trips();
        let reader = database.begin().unwrap();
        reader.expect(Tree(0), b"fact", None);
        assert!(reader.get(TREE, &key(1)).unwrap().is_some());
        assert_eq!(round_trips() - before, 1);
        let reader = database.begin().unwrap();
        reader.expect(Tree(0), b"fact", Some(b"value"));
        assert!(matches!(reader.get(TREE, &key(1)), Err(fulmar_dbt::Error::Unexpected)));
    });
}

#[test]
fn a_scan_asks_for_leaves_and_not_for_rows() {
    served(|database, round_trips| {
        let before = round_trips();
        let reader = database.begin().unwrap();
        let mut cursor = Cursor::new(TREE);
        let mut more = cursor.seek(&reader, &key(0), Seek::AtOrAfter).unwrap();
        let mut rows = 0;
        while more {
            rows += 1;
            more = cursor.next(&reader).unwrap();
        }
        assert_eq!(rows, 1000);
        let trips = round_trips() - before;
        // A leaf of 8 KiB has more than 16 of these rows.
        assert!(trips <= 1000 / 16 + 1, "{trips}");
    });
}

/// Two readers at the same keys of two trees, each of which has the next part asked for ahead, and one that reads downwards.
#[test]
fn what_is_asked_for_ahead_is_of_the_right_tree() {
    served(|database, _| {
        let mut writer = database.begin().unwrap();
        let other = writer.create_tree().unwrap();
        for n in 0..1000 {
            writer.put(other, &key(n), &[b'w'; 90]).unwrap();
        }
        writer.commit(Durability::Written).unwrap();
        let reader = database.begin().unwrap();
        let (mut one, mut two) = (Cursor::new(TREE), Cursor::new(other));
        assert!(one.first(&reader).unwrap() && two.first(&reader).unwrap());
        let mut back = Cursor::new(TREE);
        assert!(back.last(&reader).unwrap());
        for n in 0..1000 {
            assert_eq!((one.key(), one.value()), (&*key(n), &[b'v'; 100][..]));
            assert_eq!((two.key(), two.value()), (&*key(n), &[b'w'; 90][..]));
            assert_eq!((back.key(), back.value()), (&*key(999 - n), &[b'v'; 100][..]));
            let more = n < 999;
            assert_eq!(one.next(&reader).unwrap(), more);
            assert_eq!(two.next(&reader).unwrap(), more);
            assert_eq!(back.previous(&reader).unwrap(), more);
        }
    });
}
