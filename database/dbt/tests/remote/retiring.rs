//! A server is told to end: it has others lead first.

use crate::leaders::{plant, run};
use crate::world::{Defect, Disks, Role, SERVERS, Wish, connect_to, replicas, servers, world};
use fulmar_dbt::Durability;
use fulmar_kv::GroupId;
use fulmar_node::{NodeId, Time};
use fulmar_sim::{Detail, Seed, Sim, seeds};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A client that commits without a pause waits so long at most.
const PAUSE: Duration = Duration::from_millis(200);

/// Tells the server to end until it has nothing to lead any more, or a second is over; then it is gone.
fn end(sim: &mut Sim<Role>, server: NodeId, until: Time, retires: bool) {
    let has_retired = Arc::new(AtomicBool::new(!retires));
    if retires {
        sim.request(server, Wish::Retire(Arc::clone(&has_retired)));
    }
    sim.after(Duration::from_millis(5), move |sim| {
        if has_retired.load(Relaxed) || sim.now() >= until {
            sim.kill(server);
        } else {
            end(sim, server, until, true);
        }
    });
}

/// The longest pause of a writer while a server ends that leads what it writes to, or keeps the clock and the map, or both.
fn longest_pause(seed: Seed, retires: bool) -> Result<Duration, String> {
    let replication = replicas(&seed);
    let mut sim = world(seed, &Disks::default(), 2, Defect::Nothing, replication);
    sim.run(Duration::from_secs(2), |_, _, _| {});
    let group = GroupId(u16::try_from(sim.random().below(2)).expect("few"));
    let tree = plant(&mut sim, group, NodeId(group.0.into()))?;
    let leaving = NodeId(u32::try_from(sim.random().below(2)).expect("few"));
    let asked = servers().find(|server| *server != leaving).expect("there are three");
    let told = Arc::new(Mutex::new(Vec::new()));
    let outcomes = Arc::clone(&told);
    sim.host(NodeId(SERVERS), move |port| {
        let database = connect_to(port, asked);
        for number in 0..400_u64 {
            let change = || {
                let mut transaction = database.begin()?;
                transaction.get(tree, b"bird")?;
                transaction.put(tree, &number.to_be_bytes(), b"fulmar")?;
                transaction.commit(Durability::Synced)
            };
            let outcome = change().map_err(|error| error.to_string());
            outcomes.lock().push(outcome);
        }
    });
    let (begun, second) = (Arc::clone(&told), Duration::from_secs(1));
    sim.run_until(Duration::from_secs(10), |_, _, _| {}, move |_| begun.lock().len() > 20);
    let until = sim.now() + second;
    end(&mut sim, leaving, until, retires);
    let (mut last, mut longest) = ((sim.now(), 0), Duration::ZERO);
    let counted = Arc::clone(&told);
    let ends = sim.run_until(
        Duration::from_secs(200),
        |_, _, _| {},
        |sim| {
            let count = counted.lock().len();
            if count > last.1 {
                longest = longest.max(sim.now().since(last.0));
                last = (sim.now(), count);
            }
            sim.programs_running() == 0 && !sim.is_up(leaving)
        },
    );
    if !ends {
        return Err("a program does not end".into());
    }
    let told = told.lock().clone();
    if let Some(failed) = told.iter().find(|told| told.is_err()) {
        return Err(format!("{failed:?}"));
    }
    run(&mut sim, 1, move |port| {
        let transaction = connect_to(port, asked).begin()?;
        for number in 0..400_u64 {
            assert!(transaction.get(tree, &number.to_be_bytes())?.is_some(), "{number} is lost");
        }
        Ok(())
    })?;
    Ok(longest)
}

#[test]
fn who_is_to_end_has_others_lead_first() {
    seeds("who_is_to_end_has_others_lead_first", 0..60, |seed| {
        let pause = longest_pause(seed, true)?;
        if pause <= PAUSE { Ok(()) } else { Err(format!("a pause of {pause:?}")) }
    });
}

/// The check above finds a server that ends as if it were killed.
#[test]
fn who_ends_at_once_is_missed() {
    let pauses = (0..20).map(|seed| longest_pause(Seed::new(seed, Detail::Numbers), false));
    assert!(pauses.flatten().any(|pause| pause > PAUSE), "nobody waits");
}
