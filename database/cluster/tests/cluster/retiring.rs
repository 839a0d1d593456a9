//! How long writers wait when a server ends that leads what they write to, keeps the clock and the map, or both.

use crate::leaders::{plant, run, server_of};
use crate::world::{CLIENTS_BEGIN, Defect, Disks, Role, SERVERS, Wish, connect_to, replicas, servers, world};
use fulmar_dbt::{Cursor, Durability, Transaction, Tree};
use fulmar_kv::{Error, ShardId};
use fulmar_locks::Mutex;
use fulmar_node::{NodeId, Time};
use fulmar_sim::{Detail, Seed, Sim, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How a server leaves the others.
#[derive(Clone, Copy)]
enum End {
    /// It is told to end, and has others lead first.
    Retires,
    /// Its process is killed: its machine closes its connections.
    Killed,
    /// Its process is killed, and started again at once.
    Returns,
    /// It hears and says nothing any more.
    Stopped,
    /// It and another are killed, and started again.
    TwoRestart,
    /// All are.
    AllRestart,
}

impl End {
    /// A client that commits without a pause waits so long at most; of servers that start again, from when the last has.
    fn pause(self) -> Duration {
        Duration::from_millis(match self {
            Self::Retires => 200,
            Self::Killed => 500,
            Self::Returns => 1_000,
            Self::Stopped => 600,
            Self::TwoRestart | Self::AllRestart => 2_000,
        })
    }

    /// Whether servers start again that have ended.
    const fn starts_again(self) -> bool {
        matches!(self, Self::Returns | Self::TwoRestart | Self::AllRestart)
    }

    /// How many servers end.
    const fn count(self) -> usize {
        match self {
            Self::Retires | Self::Killed | Self::Returns | Self::Stopped => 1,
            Self::TwoRestart => 2,
            Self::AllRestart => SERVERS as usize,
        }
    }
}

/// Tells the server to end until it has nothing to lead any more, or a second is over; then it is gone.
fn retire(sim: &mut Sim<Role>, server: NodeId, until: Time) {
    let has_retired = Arc::new(AtomicBool::new(false));
    sim.request(server, Wish::Retire(Arc::clone(&has_retired)));
    sim.after(Duration::from_millis(5), move |sim| {
        if has_retired.load(Relaxed) || sim.now() >= until {
            sim.kill(server);
        } else {
            retire(sim, server, until);
        }
    });
}

/// Kills servers, and starts them again one after the other.
fn restart(sim: &mut Sim<Role>, leaving: impl Iterator<Item = NodeId>) {
    let leaving: Vec<_> = leaving.collect();
    leaving.iter().for_each(|server| sim.kill(*server));
    for server in leaving {
        let lasting = Duration::from_micros(sim.random().below(500_000));
        sim.run(lasting, |_, _, _| {});
        sim.restart(server);
    }
}

/// What a transaction of a writer does.
#[derive(Clone, Copy)]
enum Does {
    /// It reads a row, and writes another.
    OneRow,
    /// It reads all rows before, in parts: while it looks at one, the next is on its way.
    AllRows,
    /// It writes a row in two shards each.
    TwoShards,
}

impl Does {
    /// So often it writes: longer than all that happens takes.
    const fn rows(self) -> u64 {
        match self {
            Self::OneRow | Self::TwoShards => 400,
            Self::AllRows => 80,
        }
    }

    fn read(self, transaction: &Transaction, tree: Tree) -> Result<(), Error> {
        match self {
            Self::OneRow | Self::TwoShards => transaction.get(tree, b"bird").map(drop),
            Self::AllRows => {
                let mut cursor = Cursor::new(tree);
                let mut more = cursor.first(transaction)?;
                while more {
                    more = cursor.next(transaction)?;
                }
                Ok(())
            }
        }
    }
}

/// Runs until this is over, and answers the longest time in which `count` did not grow, the last one included; nothing, if it is
/// not over in that time.
pub(crate) fn longest_standstill(
    sim: &mut Sim<Role>,
    lasting: Duration,
    count: impl Fn() -> usize,
    is_over: impl Fn(&Sim<Role>) -> bool,
) -> Option<Duration> {
    let (mut last, mut longest) = ((sim.now(), count()), Duration::ZERO);
    let over = sim.run_until(
        lasting,
        |_, _, _| {},
        |sim| {
            longest = longest.max(sim.now().since(last.0));
            let counted = count();
            if counted > last.1 {
                last = (sim.now(), counted);
            }
            is_over(sim)
        },
    );
    over.then_some(longest)
}

/// The longest pause of a writer while a server ends that has told it where things are, and one of the two others is silent, as at an address
/// that nobody has any more.
fn longest_pause_beside_a_silent_server(seed: Seed) -> Result<Duration, String> {
    let replication = replicas(&seed);
    let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let leaving = u32::try_from(sim.random().below(SERVERS.into())).expect("few");
    let [leaving, next, silent] = [0, 1, 2].map(|steps| (leaving + steps) % SERVERS);
    let silent = if sim.random().one_in(2) { next } else { silent };
    let tree = plant(&mut sim, ShardId(u16::try_from(leaving).expect("few")), NodeId(leaving))?;
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    sim.host(NodeId(CLIENTS_BEGIN), move |port| {
        let database = connect_to(port, NodeId(leaving));
        for number in 0..Does::OneRow.rows() {
            let mut transaction = database.begin().expect("it waits");
            transaction.get(tree, b"bird").expect("it waits");
            transaction.put(tree, &number.to_be_bytes(), b"egg").expect("it is known where");
            transaction.commit(Durability::Synced).expect("it waits");
            *count.lock() += 1;
        }
    });
    let begun = Arc::clone(&told);
    sim.run_until(Duration::from_secs(10), |_, _, _| {}, move |_| *begun.lock() > 20);
    sim.partition([NodeId(CLIENTS_BEGIN)], [NodeId(silent)]);
    sim.kill(NodeId(leaving));
    // Nobody writes before another leads that the client reaches.
    let is_served = |sim: &Sim<Role>| {
        let server = server_of(sim, NodeId(silent), ShardId(u16::try_from(leaving).expect("few")));
        server.is_some_and(|server| server != NodeId(leaving) && server != NodeId(silent))
    };
    if !sim.run_until(Duration::from_secs(2), |_, _, _| {}, is_served) {
        // The silent one leads.
        return Ok(Duration::ZERO);
    }
    let ends = |sim: &Sim<Role>| sim.programs_running() == 0;
    let longest = longest_standstill(&mut sim, Duration::from_secs(200), || *told.lock(), ends);
    longest.ok_or_else(|| "a program does not end".into())
}

#[test]
fn who_is_silent_is_passed_over() {
    seeds("who_is_silent_is_passed_over", 0..60, |seed| match longest_pause_beside_a_silent_server(seed)? {
        longest if longest > Duration::from_secs(1) => Err(format!("a writer waits for {longest:?}")),
        _ => Ok(()),
    });
}

/// The longest pause of a writer while a server ends.
fn longest_pause(seed: Seed, end: End, does: Does) -> Result<Duration, String> {
    let replication = replicas(&seed);
    let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let shard = u16::try_from(sim.random().below(2)).expect("few");
    let tree = plant(&mut sim, ShardId(shard), NodeId(shard.into()))?;
    let other = match does {
        Does::TwoShards => Some(plant(&mut sim, ShardId(1 - shard), NodeId((1 - shard).into()))?),
        Does::OneRow | Does::AllRows => None,
    };
    let leaving = NodeId(u32::try_from(sim.random().below(2)).expect("few"));
    let asked = servers().find(|server| *server != leaving).expect("there are three");
    let told = Arc::new(Mutex::new(Vec::new()));
    let outcomes = Arc::clone(&told);
    sim.host(NodeId(CLIENTS_BEGIN), move |port| {
        let database = connect_to(port, asked);
        for number in 0..does.rows() {
            let change = || {
                let mut transaction = database.begin()?;
                does.read(&transaction, tree)?;
                for tree in [Some(tree), other].into_iter().flatten() {
                    transaction.put(tree, &number.to_be_bytes(), &[b'f'; 1_500])?;
                }
                transaction.commit(Durability::Synced)
            };
            let outcome = loop {
                match change() {
                    // It was opened by a server that has begun anew.
                    Err(Error::SnapshotGone) if end.starts_again() => {}
                    outcome => break outcome,
                }
            };
            outcomes.lock().push(outcome.map_err(|error| error.to_string()));
        }
    });
    let (begun, second) = (Arc::clone(&told), Duration::from_secs(1));
    sim.run_until(Duration::from_secs(10), |_, _, _| {}, move |_| begun.lock().len() > 20);
    // In the midst of a transaction.
    let later = Duration::from_micros(sim.random().below(20_000));
    sim.run(later, |_, _, _| {});
    let until = sim.now() + second;
    match end {
        End::Retires => retire(&mut sim, leaving, until),
        End::Killed => sim.kill(leaving),
        End::Returns => {
            sim.kill(leaving);
            let away = Duration::from_micros(sim.random().below(300_000));
            sim.after(away, move |sim| sim.restart(leaving));
        }
        End::Stopped => sim.pause(leaving),
        End::TwoRestart | End::AllRestart => {
            let others = servers().filter(|server| *server != leaving);
            restart(&mut sim, [leaving].into_iter().chain(others).take(end.count()));
        }
    }
    let ends = |sim: &Sim<Role>| sim.programs_running() == 0;
    let longest = longest_standstill(&mut sim, Duration::from_secs(200), || told.lock().len(), ends);
    let longest = longest.ok_or("a program does not end")?;
    let told = told.lock().clone();
    if let Some(failed) = told.iter().find(|told| told.is_err()) {
        return Err(format!("{failed:?}"));
    }
    run(&mut sim, 1, move |port| {
        let transaction = connect_to(port, asked).begin()?;
        for number in 0..does.rows() {
            assert!(transaction.get(tree, &number.to_be_bytes())?.is_some(), "{number} is lost");
        }
        Ok(())
    })?;
    Ok(longest)
}

fn judge(name: &str, end: End, does: Does) {
    seeds(name, 0..60, |seed| {
        let pause = longest_pause(seed, end, does)?;
        if pause <= end.pause() { Ok(()) } else { Err(format!("a pause of {pause:?}")) }
    });
}

#[test]
fn who_is_to_end_has_others_lead_first() {
    judge("who_is_to_end_has_others_lead_first", End::Retires, Does::OneRow);
}

#[test]
fn who_is_killed_is_missed_at_once() {
    judge("who_is_killed_is_missed_at_once", End::Killed, Does::OneRow);
}

#[test]
fn who_is_back_at_once_keeps_nobody() {
    judge("who_is_back_at_once_keeps_nobody", End::Returns, Does::TwoShards);
}

#[test]
fn who_is_stopped_is_missed_within_a_second() {
    judge("who_is_stopped_is_missed_within_a_second", End::Stopped, Does::OneRow);
}

/// It looks for another leader while it waits for what was asked for ahead.
#[test]
fn who_is_stopped_is_missed_as_soon_by_who_reads_all() {
    judge("who_is_stopped_is_missed_as_soon_by_who_reads_all", End::Stopped, Does::AllRows);
}

#[test]
fn two_that_were_killed_are_back_within_two_seconds() {
    judge("two_that_were_killed_are_back_within_two_seconds", End::TwoRestart, Does::OneRow);
}

#[test]
fn all_that_were_killed_are_back_within_two_seconds() {
    judge("all_that_were_killed_are_back_within_two_seconds", End::AllRestart, Does::OneRow);
}

/// The checks above tell these apart.
#[test]
fn who_says_less_is_missed_for_longer() {
    for (end, less) in [(End::Retires, End::Killed), (End::Retires, End::Stopped)] {
        let pauses = (0..20).map(|seed| longest_pause(Seed::new(seed, Detail::Numbers), less, Does::OneRow));
        assert!(pauses.flatten().any(|pause| pause > end.pause()), "nobody waits");
    }
}
