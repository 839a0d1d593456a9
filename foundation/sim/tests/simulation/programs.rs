//! Hosted programs.

use crate::register::{Bug, CLIENT, Event, Request, Role, replicas};
use fulmar_node::{NodeId, Time};
use fulmar_sim::{Detail, Faults, Port, PortError, Seed, Sim, check, seeds};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CLIENTS: u32 = 3;

/// The register, with clients that each have a program.
fn hosted(seed: impl Into<Seed>, program: impl Fn(u32, Port<Role>) + Clone + Send + 'static) -> Sim<Role> {
    let mut sim = Sim::new(seed, |id, records: &[u64]| Role::new(id, records, Bug::None));
    replicas().for_each(|id| sim.add(id));
    for number in 0..CLIENTS {
        let (id, program) = (NodeId(CLIENT.0 + number), program.clone());
        sim.add(id);
        sim.host(id, move |port| program(number, port));
    }
    sim
}

fn finish(sim: &mut Sim<Role>) -> bool {
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0)
}

/// Writes and reads, with pauses; what it reads is not older than what it wrote.
fn visitor(number: u32, port: &Port<Role>) -> Result<(), PortError> {
    for value in 1..=20 {
        let value = value * 10 + u64::from(number);
        assert_eq!(port.call(Request::Write(value))?, Event::Written(value));
        let before = port.now();
        port.sleep(Duration::from_millis(u64::from(number) + 1))?;
        assert!(port.now() > before);
        let Event::Read(read) = port.call(Request::Read)? else { panic!("an answer to another question") };
        assert!(read >= value, "read {read} after {value}");
    }
    Ok(())
}

#[test]
fn programs_run_the_same_way_for_the_same_seed() {
    seeds("programs_run_the_same_way_for_the_same_seed", 0..100, |seed| {
        let finished = Arc::new(Mutex::new(Vec::new()));
        let order = Arc::clone(&finished);
        let mut sim = hosted(seed, move |number, port| {
            if visitor(number, &port).is_ok() {
                order.lock().expect("no program panics").push((number, port.now()));
            }
        });
        let faults = Faults::random(replicas(), sim.random());
        sim.inject(faults);
        sim.after(Duration::from_secs(2), |sim| sim.heal(replicas()));
        if !finish(&mut sim) {
            return Err("programs wait for ever".to_owned());
        }
        let finished = finished.lock().expect("no program panics");
        for (number, at) in finished.iter() {
            sim.note(NodeId(CLIENT.0 + number), format_args!("finished at {at}"));
        }
        if finished.len() == CLIENTS as usize { Ok(()) } else { Err(format!("finished: {finished:?}")) }
    });
}

#[test]
fn the_whole_trace_is_the_same() {
    let trace = |seed| {
        let mut sim = hosted(Seed::new(seed, Detail::Kept), |number, port| {
            assert_eq!(visitor(number, &port), Ok(()));
        });
        assert!(finish(&mut sim));
        sim.trace().to_owned()
    };
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}

#[test]
fn a_crash_fails_the_pending_call_and_later_ones() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&said);
    let mut sim = hosted(1, move |number, port| {
        if number > 0 {
            return;
        }
        let crashed = PortError::Crashed(CLIENT);
        assert_eq!(port.call(Request::Read), Err(crashed));
        assert_eq!(port.call(Request::Read), Err(crashed));
        assert_eq!(port.request(Request::Read), Err(crashed));
        assert_eq!(port.event(None), Err(crashed));
        assert_eq!(port.attach(CLIENT), Err(crashed));
        assert_eq!(port.sleep(Duration::from_secs(2)), Ok(()));
        assert_eq!(port.call(Request::Read), Err(crashed), "its successor is another process");
        assert_eq!(port.attach(NodeId(CLIENT.0 + 1)), Ok(()), "whose program has ended");
        assert_eq!(port.call(Request::Read), Ok(Event::Read(0)));
        assert_eq!(port.attach(CLIENT), Ok(()));
        assert_eq!(port.call(Request::Read), Ok(Event::Read(0)));
        told.lock().expect("not poisoned").push(port.now());
    });
    replicas().for_each(|id| sim.pause(id));
    sim.after(Duration::from_millis(100), |sim| sim.crash(CLIENT));
    sim.after(Duration::from_secs(1), |sim| {
        replicas().for_each(|id| sim.resume(id));
        sim.restart(CLIENT);
    });
    assert!(finish(&mut sim));
    assert_eq!(said.lock().expect("not poisoned").len(), 1);
}

#[test]
fn a_program_waits_for_events_and_no_longer_than_it_wants() {
    let mut sim = hosted(1, |_, port| {
        let (wait, before) = (Duration::from_secs(1), port.now());
        assert_eq!(port.event(Some(wait)), Ok(None));
        assert_eq!(port.now(), before + wait);
        assert_eq!(port.request(Request::Write(1)), Ok(()));
        assert_eq!(port.now(), before + wait);
        assert_eq!(port.event(Some(wait)), Ok(Some(Event::Written(1))));
        assert!(port.now() < before + wait * 2);
    });
    assert!(finish(&mut sim));
}

#[test]
fn a_program_of_a_paused_node_pauses() {
    let mut sim = hosted(1, |number, port| {
        assert_eq!(port.sleep(Duration::from_millis(10)), Ok(()));
        let millis = if number == 0 { 50 } else { 10 };
        assert_eq!(port.now(), Time::ZERO + Duration::from_millis(millis));
    });
    sim.after(Duration::from_millis(1), |sim| sim.pause(CLIENT));
    sim.after(Duration::from_millis(50), |sim| sim.resume(CLIENT));
    sim.run(Duration::from_secs(1), |_, _, _| {});
    assert_eq!(sim.programs_running(), 0);
}

#[test]
fn a_panic_of_a_program_fails_its_seed() {
    let failure = check("panic", 9..10, |seed| {
        let mut sim = hosted(seed, |number, port| {
            let _ = port.call(Request::Read);
            assert!(number != 2, "two is too much");
        });
        finish(&mut sim);
        Ok(())
    });
    let failure = failure.expect_err("the third program panics");
    assert_eq!(failure.seed, 9);
    assert!(failure.reason.contains("two is too much") && failure.reason.contains("on n7"), "{failure}");
}

#[test]
fn programs_end_with_their_simulation() {
    let ended = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&ended);
    let mut sim = hosted(1, move |_, port| {
        assert_eq!(port.call(Request::Read), Ok(Event::Read(0)));
        assert_eq!(port.event(None), Err(PortError::Ended));
        assert_eq!(port.sleep(Duration::from_secs(1)), Err(PortError::Ended));
        *counted.lock().expect("not poisoned") += 1;
    });
    sim.run(Duration::from_secs(10), |_, _, _| {});
    assert_eq!(sim.programs_running(), CLIENTS as usize);
    drop(sim);
    assert_eq!(*ended.lock().expect("not poisoned"), CLIENTS);
}

#[test]
fn a_program_may_outlive_its_node_and_come_back() {
    let crashes = AtomicU64::new(0);
    seeds("a_program_may_outlive_its_node_and_come_back", 0..30, |seed| {
        let mut sim = hosted(seed, |number, port| {
            let me = NodeId(CLIENT.0 + number);
            let mut value = u64::from(number);
            while value < 300 {
                match port.call(Request::Write(value)) {
                    Ok(event) => {
                        assert_eq!(event, Event::Written(value));
                        value += 10;
                    }
                    Err(PortError::Crashed(_)) => while port.attach(me) == Err(PortError::Crashed(me)) {},
                    Err(_) => return,
                }
            }
        });
        let clients = (0..CLIENTS).map(|number| NodeId(CLIENT.0 + number));
        let (every, lasting) = (Duration::from_millis(2), Duration::from_millis(20));
        sim.inject(Faults { crash: 1, pause: 1, every, lasting, down: 3, ..Faults::none(clients.clone()) });
        sim.after(Duration::from_secs(1), move |sim| sim.heal(clients));
        let is_over = finish(&mut sim);
        crashes.fetch_add(sim.counts.crashes, Relaxed);
        if is_over { Ok(()) } else { Err(format!("programs wait for ever: {:?}", sim.counts)) }
    });
    assert!(crashes.into_inner() > 0);
}

#[test]
fn a_thousand_programs_take_turns() {
    let mut sim = Sim::new(1, |id, records: &[u64]| Role::new(id, records, Bug::None));
    replicas().for_each(|id| sim.add(id));
    for id in (CLIENT.0..CLIENT.0 + 1_000).map(NodeId) {
        sim.add(id);
        sim.host(id, move |port| {
            assert_eq!(port.call(Request::Write(u64::from(id.0))), Ok(Event::Written(u64::from(id.0))));
        });
    }
    assert!(finish(&mut sim));
}
