#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use super::*;
use crate::engine::Memory;
use fulmar_node::Random;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// What is in `path`, with when it was last changed.
fn files_in(path: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        files.insert(folder.clone(), (folder.metadata().unwrap().modified().unwrap(), Vec::new()));
        for entry in std::fs::read_dir(&folder).unwrap() {
            let (path, metadata) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
            if metadata.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), (metadata.modified().unwrap(), std::fs::read(path).unwrap()));
            }
        }
    }
    files
}

fn put(object: u64, sequence: u64, bytes: usize) -> EngineWrite {
    EngineWrite::Put { object: ObjectId(object), sequence, entry: vec![7; bytes] }
}

fn found(engine: &dyn Engine, object: u64) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    engine.load(ObjectId(object), &mut |sequence, entry| found.push((sequence, entry.len()))).unwrap();
    found
}

/// Threads and syncs were most of the 1.5 ms that it took.
#[test]
fn who_only_reads_has_no_database_opened_and_changes_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let open = || Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let first = open();
    let fact = EngineWrite::Fact { name: "marker", value: vec![1] };
    first
        .write(Batch { writes: vec![put(1, 0, 1), put(1, 1, 2), put(3, 0, 3), fact], ..Batch::default() })
        .unwrap();
    first
        .write(Batch {
            writes: vec![EngineWrite::Remove { object: ObjectId(1), sequence: 0 }],
            ..Batch::default()
        })
        .unwrap();
    drop(first);
    let before = files_in(&path);
    let reader = open();
    assert_eq!(found(&reader, 1), [(1, 2)]);
    assert_eq!(found(&reader, 2), []);
    assert_eq!(reader.next(ObjectId(2)).unwrap(), Some(ObjectId(3)));
    assert_eq!(reader.next(ObjectId(4)).unwrap(), None);
    assert_eq!(reader.fact("marker").unwrap(), Some(vec![1]));
    assert_eq!(reader.fact("other").unwrap(), None);
    reader.compact(u64::MAX);
    reader.sync().unwrap();
    assert!(reader.written().is_none() && !reader.changes_files());
    drop(reader);
    assert_eq!(files_in(&path), before);
    let writer = open();
    writer.write(Batch { writes: vec![put(1, 2, 1)], ..Batch::default() }).unwrap();
    assert!(writer.written().is_some() && writer.changes_files());
    assert_eq!(found(&writer, 1), [(1, 2), (2, 1)]);
}

/// Some of the log may be in tables, and then is not replayed over what came after it there.
#[test]
fn who_only_reads_sees_tables_and_the_log_as_fjall_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let open = || Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let mut random = Random::new(1);
    for round in 0..20 {
        let engine = open();
        assert!(engine.written().is_none() || round == 0);
        for _ in 0..10 {
            let (object, sequence) = (random.next() % 4, random.next() % 8);
            let write = match random.next() % 3 {
                0 => EngineWrite::Remove { object: ObjectId(object), sequence },
                _ => put(object, sequence, (random.next() % 2_000) as usize),
            };
            engine.write(Batch { writes: vec![write], ..Batch::default() }).unwrap();
        }
        let writer = engine.writer().unwrap();
        if round % 3 == 0 {
            flush(&writer.database, &[&writer.entries]).unwrap();
        }
        drop(writer);
        let expected: Vec<_> = (0..4).map(|object| found(&engine, object)).collect();
        drop(engine);
        let reader = open();
        let seen: Vec<_> = (0..4).map(|object| found(&reader, object)).collect();
        assert_eq!(seen, expected, "round {round}");
        assert!(reader.written().is_none());
    }
}

#[test]
fn who_may_not_write_is_refused_when_it_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let open = || Fjall::open(&path, 1 << 20, "marker", |_| Ok(true));
    open().unwrap().write(Batch { writes: vec![put(1, 0, 1)], ..Batch::default() }).unwrap();
    // Root may write everywhere, but not where there is a directory.
    std::fs::remove_file(path.join("lock")).unwrap();
    std::fs::create_dir(path.join("lock")).unwrap();
    assert!(matches!(open(), Err(Error::Io { .. })));
}

#[test]
fn a_load_sees_a_batch_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let fjall = Fjall::open(&directory.path().join("engine"), 1 << 20, "marker", |_| Ok(true)).unwrap();
    let object = ObjectId(1);
    let put = |sequence| EngineWrite::Put { object, sequence, entry: vec![0] };
    fjall.write(Batch { writes: vec![put(0)], ..Batch::default() }).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for sequence in 0..20_000 {
                let writes = vec![EngineWrite::Remove { object, sequence }, put(sequence + 1)];
                fjall.write(Batch { writes, ..Batch::default() }).unwrap();
            }
        });
        while !writer.is_finished() {
            let mut found = Vec::new();
            fjall.load(object, &mut |sequence, _| found.push(sequence)).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
        }
    });
}

/// A disk that is full has no room for a copy of the log, and yet the database must open.
#[test]
fn a_torn_tail_is_cut_without_a_copy_if_the_log_shows_that_nothing_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let open = |least: u8| {
        Fjall::open(&path, 1 << 20, "marker", |value| match value {
            Some([marker]) if *marker >= least => Ok(true),
            _ => Err(Error::Conflict),
        })
    };
    let fact = |value| EngineWrite::Fact { name: "marker", value: vec![value] };
    let first = Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    for value in [1, 2] {
        first.write(Batch { writes: vec![fact(value)], ..Batch::default() }).unwrap();
    }
    drop(first);
    // As many bytes as the disk took of a batch; and where a copy of the log would be, there cannot be one.
    let log = path.join("0.jnl");
    let mut whole = std::fs::read(&log).unwrap();
    whole.truncate(whole.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    let torn = [&whole[..], &whole[..20]].concat();
    std::fs::write(&log, &torn).unwrap();
    std::fs::create_dir(log.with_extension("copy")).unwrap();
    assert!(matches!(open(3), Err(Error::Io { .. })));
    assert_eq!(std::fs::read(&log).unwrap(), torn, "it is left as it was found");
    assert_eq!(open(2).unwrap().fact("marker").unwrap(), Some(vec![2]));
    assert_eq!(std::fs::read(&log).unwrap(), whole);
}

/// It hung in a commit when writing tables failed while four of them waited.
#[test]
#[expect(clippy::disallowed_methods, reason = "that the writer waits shows only in what it does not do")]
fn a_write_that_waits_for_room_hears_of_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let fjall = Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let written = AtomicU64::new(0);
    let writes_until_it_fails = || {
        loop {
            let sequence = written.fetch_add(1, Relaxed);
            let entry = vec![0; 1 << 20];
            let writes = vec![EngineWrite::Put { object: ObjectId(1), sequence, entry }];
            if let Err(error) = fjall.write(Batch { writes, ..Batch::default() }) {
                return error;
            }
        }
    };
    thread::scope(|scope| {
        let writer = fjall.writer().unwrap();
        let no_table_is_written = writer.entries.tree.get_flush_lock();
        let failing = scope.spawn(writes_until_it_fails);
        let mut before = None;
        // Until it waits.
        while before != Some(written.load(Relaxed)) {
            before = Some(written.load(Relaxed));
            (0..100_000).for_each(|_| thread::yield_now());
        }
        std::fs::remove_dir(path.join("keyspaces/1/tables")).unwrap();
        drop(no_table_is_written);
        assert!(matches!(failing.join().unwrap(), Error::Io { .. }));
    });
}

/// On a full disk, with other programs busy: a row was refused, and was there when the database was opened again.
#[test]
#[expect(clippy::disallowed_methods, reason = "fjall does not tell when it has given up")]
fn what_is_in_the_log_is_not_refused_when_a_table_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let tables = path.join("keyspaces/1/tables");
    let open = || Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let engine = open();
    engine.write(Batch { writes: vec![put(1, 0, 1)], ..Batch::default() }).unwrap();
    std::fs::remove_dir(&tables).unwrap();
    let writer = engine.writer().unwrap();
    writer.entries.rotate_memtable().unwrap();
    while writer.database.persist(PersistMode::Buffer).is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
    drop(writer);
    engine.sync().unwrap();
    for _ in 0..2 {
        assert!(matches!(
            engine.write(Batch { writes: vec![put(1, 1, 1)], ..Batch::default() }),
            Err(Error::Io { .. })
        ));
    }
    drop(engine);
    std::fs::create_dir(&tables).unwrap();
    assert_eq!(found(&open(), 1), [(0, 1)]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "fjall does not tell when it has begun another log")]
fn a_sync_is_of_the_logs_that_may_have_been_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let engine = Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let write = |sequence| {
        engine.write(Batch { writes: vec![put(1, sequence, 1 << 20)], ..Batch::default() }).unwrap()
    };
    let number = |name: &str| path.join(name).metadata().unwrap().ino();
    let synced = || {
        engine.sync().unwrap();
        let writer = engine.writer().unwrap();
        let open = writer.log.open.lock();
        open.files.iter().map(|log| log.metadata().unwrap().ino()).collect::<Vec<_>>()
    };
    write(0);
    assert_eq!(synced(), [number("0.jnl")]);
    (1..70).for_each(write);
    while !path.join("1.jnl").exists() {
        thread::sleep(Duration::from_millis(1));
    }
    write(70);
    assert_eq!(synced(), [number("1.jnl")]);
    // As fjall leaves it that had no room to begin another.
    File::create(path.join("2.jnl")).unwrap();
    write(71);
    for _ in 0..2 {
        assert_eq!(synced(), ["1.jnl", "2.jnl"].map(number));
    }
}

#[test]
fn what_was_replaced_takes_no_space_after_a_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let engine = Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let write = |engine: &Fjall, round: u8, bytes: usize| {
        let put = |sequence: u64| {
            // It does not compress to nothing.
            let mut random = Random::new(u64::from(round) << 8 | sequence);
            let entry = (0..bytes).map(|_| random.next().to_le_bytes()[0]).collect();
            EngineWrite::Put { object: ObjectId(1), sequence, entry }
        };
        engine.write(Batch { writes: (0..20).map(put).collect(), ..Batch::default() }).unwrap();
    };
    write(&engine, 0, 1 << 18);
    let writer = engine.writer().unwrap();
    flush(&writer.database, &[&writer.entries]).unwrap();
    let before = writer.entries.disk_space();
    write(&engine, 1, 1);
    engine.compact(before / 8);
    assert!(writer.compaction.lock().is_none(), "not worth it");
    engine.compact(before);
    let compaction = writer.compaction.lock().take().unwrap();
    compaction.join().unwrap();
    let files = std::fs::read_dir(path.join("keyspaces/1/tables")).unwrap();
    let after: u64 = files.map(|table| table.unwrap().metadata().unwrap().len()).sum();
    assert!(after < before / 10, "{after} of {before} bytes");
}

/// To replay 40 MB took 40 ms, each time.
#[test]
fn a_long_log_is_in_tables_when_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let complete = |value: Option<&[u8]>| if value == Some(&[1]) { Ok(true) } else { Err(Error::Conflict) };
    let first = Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let put = |sequence, bytes| EngineWrite::Put { object: ObjectId(1), sequence, entry: vec![7; bytes] };
    let marker = EngineWrite::Fact { name: "marker", value: vec![1] };
    first.write(Batch { writes: vec![put(0, 2 << 20), put(1, 1), marker], ..Batch::default() }).unwrap();
    drop(first);
    assert_eq!(path.join("0.jnl").metadata().unwrap().len(), 0);
    for sequence in 2..4 {
        // What comes next is not taken for older than what is there.
        let again = Fjall::open(&path, 1 << 20, "marker", complete).unwrap();
        again
            .write(Batch { writes: vec![put(1, sequence), put(sequence as u64, 1)], ..Batch::default() })
            .unwrap();
        drop(again);
        assert!(path.join("0.jnl").metadata().unwrap().len() > 0, "a short one is replayed");
        let again = Fjall::open(&path, 1 << 20, "marker", complete).unwrap();
        let mut found = Vec::new();
        again.load(ObjectId(1), &mut |_, entry| found.push(entry.len())).unwrap();
        assert_eq!(found[..2], [2 << 20, sequence]);
        assert_eq!(found.len(), sequence + 1);
    }
}

/// It was replayed whole, up to 64 MB of it: a second for each shard.
#[test]
#[expect(clippy::disallowed_methods, reason = "fjall does not tell when it has written a table")]
fn a_killed_process_leaves_little_of_its_log_to_replay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let open = |path: &Path| Fjall::open(path, 1 << 20, "marker", |_| Ok(true)).unwrap();
    let engine = open(&path);
    let mut random = Random::new(1);
    for round in 0..340_u32 {
        let mut writes = vec![EngineWrite::Fact { name: "marker", value: round.to_be_bytes().to_vec() }];
        for _ in 0..30 {
            let (object, sequence) = (random.next() % 4, random.next() % 64);
            writes.push(match random.next() % 8 {
                0 => EngineWrite::Remove { object: ObjectId(object), sequence },
                _ => put(object, sequence, 1_000 + random.index(2_000)),
            });
        }
        engine.write(Batch { writes, ..Batch::default() }).unwrap();
    }
    let writer = engine.written().unwrap();
    let is_busy = || {
        let waits = [&writer.entries, &writer.facts].map(|keyspace| keyspace.sealed_memtable_count() > 0);
        waits.contains(&true) || writer.database.active_compactions() > 0
    };
    while is_busy() {
        thread::sleep(Duration::from_millis(1));
    }
    let killed = |name: &str| {
        let copy = directory.path().join(name);
        for (file, (_, bytes)) in files_in(&path) {
            let to = copy.join(file.strip_prefix(&path).unwrap());
            if file.is_dir() { std::fs::create_dir(to).unwrap() } else { std::fs::write(to, bytes).unwrap() }
        }
        copy
    };
    let holds = |engine: &dyn Engine| {
        (engine.fact("marker").unwrap(), [0, 1, 2, 3].map(|object| found(engine, object)))
    };
    let copy = killed("killed");
    let in_tables = Reader::in_tables(&copy).unwrap();
    renew_log(&copy, true, true).unwrap();
    let left = copy.join("0.jnl").metadata().unwrap().len();
    assert!(left < UNFLUSHED_BYTES, "{left} bytes");
    for _ in 0..2 {
        assert_eq!(holds(&open(&copy)), holds(&engine));
    }
    // What is left is needed.
    let copy = killed("cut");
    log::renew(&copy, Some(in_tables.unwrap() + 10), true).unwrap();
    assert_ne!(holds(&open(&copy)), holds(&engine));
}

/// After a sync has failed the system takes the pages for written: the next sync succeeds, and says nothing of them.
#[test]
fn what_was_not_synced_is_written_to_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    let open = |is_synced| Fjall::open(&path, 1 << 20, "marker", move |_| Ok(is_synced)).unwrap();
    let engine = open(true);
    let write = |engine: &Fjall, value: u8, bytes| {
        let fact = EngineWrite::Fact { name: "marker", value: vec![value] };
        engine.write(Batch { writes: vec![put(1, value.into(), bytes), fact], ..Batch::default() }).unwrap();
    };
    write(&engine, 0, 1);
    drop(engine);
    let log = path.join("0.jnl");
    // It stays open: no other file has its number.
    let file = || File::open(&log).map(|file| (file.metadata().unwrap().ino(), file)).unwrap();
    for (value, (is_synced, bytes)) in (1..).zip([(true, 1), (false, 1), (false, 2 << 20), (true, 1)]) {
        let before = file();
        let engine = open(is_synced);
        assert_eq!(before.0 == file().0, is_synced);
        assert_eq!(engine.fact("marker").unwrap(), Some(vec![value - 1]));
        write(&engine, value, bytes);
        // As a process that is killed leaves it: nothing of a long log goes to tables.
        let written = engine.written().unwrap();
        written.logged.store(0, Relaxed);
    }
    // Where it cannot be, the log is not believed.
    std::fs::create_dir(log.with_extension("copy")).unwrap();
    let refused = Fjall::open(&path, 1 << 20, "marker", |_| Ok(false));
    assert!(matches!(refused, Err(Error::Io { .. })));
    assert_eq!(found(&open(true), 1).len(), 5);
}

/// Also what [`Memory`] does, which everything else is tested on.
#[test]
fn the_last_write_of_a_batch_counts() {
    let directory = tempfile::tempdir().unwrap();
    let fjall = Fjall::open(&directory.path().join("engine"), 1 << 20, "marker", |_| Ok(true)).unwrap();
    for engine in [&fjall as &dyn Engine, &Memory::default()] {
        let object = ObjectId(1);
        let put = |sequence, text: &str| EngineWrite::Put { object, sequence, entry: text.into() };
        let remove = |sequence| EngineWrite::Remove { object, sequence };
        for round in 0..100 {
            let writes =
                vec![put(1, "gone"), put(2, "old"), remove(1), put(3, "new"), remove(2), put(2, "kept")];
            engine.write(Batch { writes, ..Batch::default() }).unwrap();
            let mut found = Vec::new();
            engine.load(object, &mut |sequence, entry| found.push((sequence, entry.to_vec()))).unwrap();
            assert_eq!(found, [(2, b"kept".to_vec()), (3, b"new".to_vec())], "round {round}");
        }
    }
}

fn limited(directory: &Path, limit: &WriteLimit, name: u64) -> Fjall {
    let path = directory.join(name.to_string());
    Fjall::open(&path, 1 << 20, "marker", |_| Ok(true)).unwrap().limited(Some(limit.clone()))
}

fn write(engine: &Fjall, sequence: u64) {
    engine.write(Batch { writes: vec![put(1, sequence, 1)], ..Batch::default() }).unwrap();
}

#[test]
fn whoever_was_written_to_the_longest_ago_rests() {
    let directory = tempfile::tempdir().unwrap();
    let limit = WriteLimit::of(2);
    let engines: Vec<_> = (0..4).map(|name| limited(directory.path(), &limit, name)).collect();
    let written = || -> Vec<usize> { (0..4).filter(|name| engines[*name].written().is_some()).collect() };
    // Those that were just made were written to.
    assert_eq!(written(), [2, 3]);
    for (name, expected) in [(0, [0, 3]), (3, [0, 3]), (1, [1, 3]), (3, [1, 3]), (2, [2, 3])] {
        write(&engines[name], 0);
        assert_eq!(written(), expected, "{name}");
    }
    // They are read without being opened to be written to, and are synced as they are.
    for engine in &engines {
        assert_eq!(found(engine, 1), [(0, 1)]);
        engine.sync().unwrap();
        assert!(engine.changes_files());
    }
    assert_eq!(written(), [2, 3]);
}

/// Each of them is what it would be if all were open.
#[test]
fn what_rests_is_what_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(3);
    let (limit, models) = (WriteLimit::of(1), [0, 1, 2].map(|_| Memory::default()));
    let mut engines = [0, 1, 2].map(|name| limited(directory.path(), &limit, name));
    for step in 0..600 {
        let name = (random.next() % 3) as usize;
        let (engine, model) = (&engines[name], &models[name]);
        let (object, sequence) = (random.next() % 4, random.next() % 8);
        let batch = |write| Batch { writes: vec![write], ..Batch::default() };
        match random.next() % 12 {
            0 => engine.sync().unwrap(),
            1 => {
                // The old one lets go of its files first.
                let other = limited(directory.path(), &limit, 3 + step);
                drop(std::mem::replace(&mut engines[name], other));
                engines[name] = limited(directory.path(), &limit, name as u64);
            }
            2 => {
                let remove = EngineWrite::Remove { object: ObjectId(object), sequence };
                engine.write(batch(remove.clone())).unwrap();
                model.write(batch(remove)).unwrap();
            }
            // More than is replayed when it is read again.
            3 if step % 20 == 0 => {
                let large = put(object, sequence, 3 << 20);
                engine.write(batch(large.clone())).unwrap();
                model.write(batch(large)).unwrap();
            }
            3..8 => {
                let write = put(object, sequence, (random.next() % 2_000) as usize);
                engine.write(batch(write.clone())).unwrap();
                model.write(batch(write)).unwrap();
            }
            _ => assert_eq!(found(engine, object), found(model, object), "step {step}"),
        }
        assert!(engines.iter().filter(|engine| engine.written().is_some()).count() <= 1, "step {step}");
    }
    for (engine, model) in engines.iter().zip(&models) {
        (0..4).for_each(|object| assert_eq!(found(engine, object), found(model, object)));
    }
}

#[test]
fn what_is_used_or_has_failed_does_not_rest() {
    let directory = tempfile::tempdir().unwrap();
    let limit = WriteLimit::of(1);
    let [first, second] = [0, 1].map(|name| limited(directory.path(), &limit, name));
    write(&first, 0);
    assert!(second.written().is_none());
    let in_use = first.writer().unwrap();
    write(&second, 0);
    assert!(first.written().is_some());
    in_use.log.end_with_what_is_whole();
    drop(in_use);
    assert!(!first.trees.rest());
    assert!(second.trees.rest());
    assert!(!second.trees.rest());
}

/// Threads that write to more than may be open at a time.
#[test]
fn many_threads_share_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let limit = WriteLimit::of(2);
    let engines: Vec<_> = (0..6).map(|name| limited(directory.path(), &limit, name)).collect();
    thread::scope(|scope| {
        for engine in &engines {
            scope.spawn(move || {
                for sequence in 0..40 {
                    write(engine, sequence);
                    engine.sync().unwrap();
                }
            });
            scope.spawn(move || (0..200).for_each(|_| assert!(found(engine, 1).len() <= 40)));
        }
    });
    for engine in &engines {
        assert_eq!(found(engine, 1).len(), 40);
    }
}
