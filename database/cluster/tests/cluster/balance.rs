//! Leaves spread over the servers, by what they hold and by what is asked of them.

use crate::transfers::{check_trees, close, found, found_in};
use crate::world::{
    CLIENTS_BEGIN, Defect, Disks, LATE, LONERS, Role, SERVERS, connect, replicas, servers, stir, world,
};
use fulmar_cluster::Replication;
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_kv::{ObjectId, ShardId, linked};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Port, Sim, seeds};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Four fill a leaf.
fn key(row: u64) -> Vec<u8> {
    [&row.to_be_bytes()[..], &[b'x'; 1900]].concat()
}

fn fill(database: &Database, rows: u64) -> Result<Tree, Error> {
    let tree = found(database)?[1];
    for row in 0..rows {
        let mut transaction = database.begin()?;
        transaction.put(tree, &key(row), b"")?;
        transaction.commit(Durability::Written)?;
    }
    Ok(tree)
}

/// A tree of so many rows.
fn filled(sim: &mut Sim<Role>, rows: u64) -> Tree {
    let tree = Arc::new(Mutex::new(None));
    let made = Arc::clone(&tree);
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        *made.lock() = Some(fill(&connect(port), rows).unwrap());
    });
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
    let tree = *tree.lock();
    tree.expect("filled")
}

/// How many leaves of the tree each shard has.
fn leaves(sim: &Sim<Role>, tree: Tree) -> BTreeMap<ShardId, usize> {
    let shards: Vec<_> = servers()
        .chain([LATE])
        .filter_map(|server| match sim.process(server) {
            Some(Role::Server(server, ..)) => Some(server.databases().cloned().collect::<Vec<_>>()),
            _ => None,
        })
        .flatten()
        .collect();
    let mut counts = BTreeMap::new();
    let mut nodes = vec![tree.root()];
    while let Some(id) = nodes.pop() {
        let kv = shards.iter().find(|kv| kv.shard() == id.shard()).unwrap();
        let Some(node) = kv.read(id).unwrap() else { continue };
        if node.level() == 0 {
            *counts.entry(id.shard()).or_default() += 1;
        }
        let below = (0..node.slots()).filter(|_| node.level() > 0);
        nodes.extend(below.filter_map(|slot| linked(node.value(slot))));
    }
    counts
}

fn is_shared(leaves: &BTreeMap<ShardId, usize>, servers: u32, least: usize) -> bool {
    leaves.len() == servers as usize && leaves.values().all(|count| *count >= least)
}

/// A tree of 400 rows, whose leaves have gone where there is room.
fn filled_and_shared(sim: &mut Sim<Role>) -> Result<Tree, String> {
    let tree = filled(sim, 400);
    let shared = |sim: &Sim<Role>| is_shared(&leaves(sim, tree), SERVERS, 25);
    if sim.run_until(Duration::from_secs(60), |_, _, _| {}, shared) {
        return Ok(tree);
    }
    Err(format!("{:?}", leaves(sim, tree)))
}

/// Drops so many trees of each shard while somebody still reads them: what is noted of them fills several leaves.
fn drop_many(database: &Database, beside: &[Tree]) -> Result<(), Error> {
    let reader = database.begin()?;
    reader.snapshot()?;
    for tree in beside {
        let mut making = database.begin()?;
        let made = (0..700).map(|_| making.create_tree_beside(*tree)).collect::<Result<Vec<_>, _>>()?;
        making.commit(Durability::Written)?;
        let mut dropping = database.begin()?;
        made.into_iter().try_for_each(|tree| dropping.drop_tree(tree))?;
        dropping.commit(Durability::Written)?;
    }
    Ok(())
}

/// A leaf of the facts of the first shard had been moved, as it was read so much: that shard could not be opened again.
#[test]
fn what_a_shard_needs_to_be_opened_stays_with_it() {
    seeds("what_a_shard_needs_to_be_opened_stays_with_it", 0..3, |seed| {
        let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, Replication::default());
        let trees = found_in(&mut sim);
        let facts: Vec<_> = (0..SERVERS).map(|shard| Tree(shard << 22)).collect();
        let beside = trees.clone();
        sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| drop_many(&connect(port), &beside).unwrap());
        stir(&mut sim, facts.clone(), Duration::from_secs(4));
        sim.run(Duration::from_secs(5), |_, _, _| {});
        for (shard, tree) in (0..).map(ShardId).zip(&facts) {
            let leaves = leaves(&sim, *tree);
            if leaves.len() != 1 || leaves.get(&shard).is_none_or(|count| *count < 2) {
                return Err(format!("the leaves of {shard:?}: {leaves:?}"));
            }
        }
        servers().for_each(|server| sim.crash(server));
        servers().for_each(|server| sim.restart(server));
        sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| drop(found(&connect(port)).unwrap()));
        close(&mut sim, &trees)
    });
}

#[test]
fn leaves_go_where_there_is_room() {
    seeds("leaves_go_where_there_is_room", 0..3, |seed| {
        let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, Replication::default());
        let tree = filled_and_shared(&mut sim)?;
        check_trees(&mut sim, &[tree])
    });
}

#[test]
fn leaves_go_where_there_is_time() {
    const ROWS: u64 = 40;
    seeds("leaves_go_where_there_is_time", 0..3, |seed| {
        let mut sim = world(seed, &Disks::default(), 4, Defect::Nothing, Replication::default());
        let tree = filled(&mut sim, ROWS);
        let before = leaves(&sim, tree);
        for client in 0..4 {
            let mut random: Random = sim.random().fork();
            sim.host(NodeId(CLIENTS_BEGIN + client), move |port: Port<Role>| {
                let database = connect(port);
                for _ in 0..10_000 {
                    let found = database.begin().unwrap().get(tree, &key(random.below(ROWS))).unwrap();
                    assert!(found.is_some());
                }
            });
        }
        let shared = |sim: &Sim<Role>| is_shared(&leaves(sim, tree), SERVERS, 2);
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, shared) {
            return Err(format!("before {before:?}, afterwards {:?}", leaves(&sim, tree)));
        }
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
        check_trees(&mut sim, &[tree])
    });
}

/// All nodes that the servers hold.
fn nodes(sim: &Sim<Role>) -> Vec<ObjectId> {
    let server = |server| match sim.process(server) {
        Some(Role::Server(server, ..)) => server.databases().cloned().collect(),
        _ => Vec::new(),
    };
    let after = |kv: &fulmar_kv::Database, from| kv.next(from).unwrap();
    let all = |kv: fulmar_kv::Database| {
        let mut found = after(&kv, ObjectId(0));
        std::iter::from_fn(move || {
            let node = found?;
            found = after(&kv, ObjectId(node.0 + 1));
            Some(node)
        })
    };
    servers().flat_map(server).flat_map(all).collect()
}

/// Each shard of each database moved a leaf when the three servers held too different numbers: ninety together, so that the
/// emptiest was the fullest next. Ten databases and more never came to rest.
#[test]
fn many_small_databases_come_to_rest() {
    seeds("many_small_databases_come_to_rest", 0..3, |seed| {
        let (disks, replication) = (Disks::default(), replicas(&seed));
        let mut sim = world(seed, &disks, 0, Defect::Nothing, replication);
        for loner in (0..30).map(|n| NodeId(LONERS.0 + n)) {
            sim.add(loner);
            let mut random = sim.random().fork();
            sim.host(loner, move |port: Port<Role>| {
                fill(&connect(port), 60 * random.below(2)).unwrap();
            });
        }
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0) {
            return Err(format!("{} programs do not end", sim.programs_running()));
        }
        sim.run(Duration::from_secs(10), |_, _, _| {});
        let before = nodes(&sim);
        sim.run(Duration::from_secs(10), |_, _, _| {});
        let after = nodes(&sim);
        if before != after {
            return Err(format!("{} nodes, and leaves still move", after.len()));
        }
        // With each change of the map, what replicas are kept in was opened anew until they had begun.
        let opened = disks.opened("replica of");
        if opened.iter().all(|count| *count == 1) {
            return Ok(());
        }
        Err(format!("{} replicas were opened {} times", opened.len(), opened.iter().sum::<usize>()))
    });
}

#[test]
fn a_server_that_joins_gets_its_share() {
    seeds("a_server_that_joins_gets_its_share", 0..3, |seed| {
        let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, Replication::default());
        let tree = filled(&mut sim, 400);
        sim.add(LATE);
        sim.host(NodeId(CLIENTS_BEGIN + 1), |port: Port<Role>| {
            let database = connect(port);
            // While the schema changes.
            while database.welcome_shards().unwrap() <= SERVERS.try_into().unwrap() {
                change_facts(&database).unwrap();
            }
            change_facts(&database).unwrap();
        });
        let shared = |sim: &Sim<Role>| is_shared(&leaves(sim, tree), SERVERS + 1, 20);
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, shared) {
            return Err(format!("{:?}", leaves(&sim, tree)));
        }
        check_trees(&mut sim, &[tree])
    });
}

/// What all shards have.
fn change_facts(database: &Database) -> Result<(), Error> {
    let mut transaction = database.begin()?;
    let before = transaction.get(Tree(0), b"n")?.map_or(0, |n| u64::from_be_bytes((*n).try_into().unwrap()));
    for shard in 0..if before == 0 { 1 } else { SERVERS } {
        let copy = transaction.get(Tree(shard << 22), b"n")?;
        assert_eq!(copy, transaction.get(Tree(0), b"n")?);
    }
    transaction.put(Tree(0), b"n", &(before + 1).to_be_bytes())?;
    match transaction.commit(Durability::Synced) {
        Ok(_) | Err(Error::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}

#[test]
fn a_dropped_tree_leaves_nothing_behind_anywhere() {
    seeds("a_dropped_tree_leaves_nothing_behind_anywhere", 0..3, |seed| {
        let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, Replication::default());
        let tree = filled_and_shared(&mut sim)?;
        sim.host(NodeId(CLIENTS_BEGIN + 1), move |port: Port<Role>| {
            let mut transaction = connect(port).begin().unwrap();
            transaction.drop_tree(tree).unwrap();
            transaction.commit(Durability::Synced).unwrap();
        });
        // What all shards have, three trees, records of transactions, the first schema.
        let few = |sim: &Sim<Role>| objects(sim) <= 4 * SERVERS as usize;
        if sim.run_until(Duration::from_secs(60), |_, _, _| {}, few) {
            return Ok(());
        }
        Err(format!("{} objects are left", objects(&sim)))
    });
}

/// How many leaves the tree has.
fn count(sim: &Sim<Role>, tree: Tree) -> usize {
    leaves(sim, tree).values().sum()
}

/// Deletes all rows, and reads what is left.
fn empty(database: &Database, tree: Tree) -> Result<(), Error> {
    loop {
        let mut transaction = database.begin()?;
        transaction.delete_range(tree, Bound::Unbounded, Bound::Unbounded)?;
        match transaction.commit(Durability::Synced) {
            // A leaf has moved.
            Err(Error::Conflict) => {}
            done => break done.map(drop)?,
        };
    }
    assert_eq!(database.begin()?.count(tree)?, 0);
    Ok(())
}

/// Empty leaves stayed, most of them: beside one that was full still, or in another shard than their neighbours.
#[test]
fn a_tree_that_is_emptied_is_few_nodes_soon() {
    seeds("a_tree_that_is_emptied_is_few_nodes_soon", 0..6, |seed| {
        let (disks, is_crashed) = (Disks::default(), seed.number % 2 == 1);
        let mut sim = world(seed, &disks, 2, Defect::Nothing, Replication::default());
        let tree = filled_and_shared(&mut sim)?;
        sim.host(NodeId(CLIENTS_BEGIN + 1), move |port: Port<Role>| empty(&connect(port), tree).unwrap());
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
        if is_crashed {
            servers().for_each(|server| sim.crash(server));
            servers().for_each(|server| sim.restart(server));
            // What the servers knew of is forgotten: they find what is read.
            let read = move |port: Port<Role>| empty(&connect(port), tree).unwrap();
            sim.host(NodeId(CLIENTS_BEGIN + 1), read);
            sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
        }
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| count(sim, tree) == 1) {
            return Err(format!("leaves are left: {:?}", leaves(&sim, tree)));
        }
        check_trees(&mut sim, &[tree])
    });
}

#[test]
fn a_queue_takes_no_more_leaves_than_its_rows() {
    const ROWS: u64 = 400;
    seeds("a_queue_takes_no_more_leaves_than_its_rows", 0..6, |seed| {
        let replication = if seed.number % 2 == 0 { Replication::default() } else { replicas(&seed) };
        let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
        let tree = filled_and_shared(&mut sim)?;
        sim.host(NodeId(CLIENTS_BEGIN + 1), move |port: Port<Role>| {
            let database = connect(port);
            for row in 0..ROWS {
                loop {
                    let mut transaction = database.begin().unwrap();
                    transaction.put(tree, &key(row + ROWS), b"").unwrap();
                    transaction.delete(tree, &key(row)).unwrap();
                    match transaction.commit(Durability::Written) {
                        Err(Error::Conflict) => {}
                        done => break done.map(drop).unwrap(),
                    }
                }
            }
            assert_eq!(database.begin().unwrap().count(tree).unwrap(), ROWS);
        });
        sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
        // Four rows fill one, and two are left of it when it is split; one leaf is at each end.
        let is_small = |sim: &Sim<Role>| count(sim, tree) as u64 <= ROWS / 2 + 2;
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, is_small) {
            return Err(format!("leaves are left: {:?}", leaves(&sim, tree)));
        }
        check_trees(&mut sim, &[tree])
    });
}

/// How many objects all shards hold.
fn objects(sim: &Sim<Role>) -> usize {
    let count = |kv: &fulmar_kv::Database| {
        let mut from = ObjectId(0);
        std::iter::from_fn(|| {
            let object = kv.next(from).unwrap()?;
            from = ObjectId(object.0 + 1);
            Some(object)
        })
        .count()
    };
    let server = |server| match sim.process(server) {
        Some(Role::Server(server, ..)) => server.databases().map(count).sum(),
        _ => 0,
    };
    servers().map(server).sum()
}

/// A client that writes a whole tree anew, again and again, is told of no damage and of no unknown outcome, and waits for nobody,
/// though the leaves move meanwhile.
#[test]
fn a_tree_is_written_whole_while_its_leaves_move() {
    const ROWS: u64 = 100;
    const TIMES: u8 = 15;
    seeds("a_tree_is_written_whole_while_its_leaves_move", 0..60, |seed| {
        let replication = if seed.number % 2 == 0 { Replication::default() } else { replicas(&seed) };
        let mut sim = world(seed, &Disks::default(), 1, Defect::Nothing, replication);
        let tree = filled(&mut sim, ROWS);
        stir(&mut sim, vec![tree], Duration::from_secs(5));
        let written = Arc::new(Mutex::new(0));
        let count = Arc::clone(&written);
        sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
            let database = connect(port);
            for time in 0..TIMES {
                let write = || {
                    let mut transaction = database.begin()?;
                    (0..ROWS).try_for_each(|row| transaction.put(tree, &key(row), &[time; 500]))?;
                    transaction.commit(Durability::Synced)
                };
                // A statement is run again that conflicts with a leaf's move.
                while let Err(error) = write() {
                    assert!(matches!(error, Error::Conflict), "{error}");
                }
                *count.lock() += 1;
            }
        });
        let (mut last, mut longest) = ((sim.now(), 0), Duration::ZERO);
        let ends = |sim: &Sim<Role>| {
            let count = *written.lock();
            if count > last.1 {
                longest = longest.max(sim.now().since(last.0));
                last = (sim.now(), count);
            }
            sim.programs_running() == 0
        };
        if !sim.run_until(Duration::from_secs(60), |_, _, _| {}, ends) {
            return Err("the writer does not end".into());
        }
        if longest > Duration::from_secs(1) {
            return Err(format!("once it took {longest:?}"));
        }
        check_trees(&mut sim, &[tree])
    });
}
