//! Lets time pass for sessions.
//!
//! Each replica does so while it leads and there are sessions. A tick comes no sooner than [`Locks::TICK`] after whoever invokes it has
//! heard of the one before, and counts only as the next after that: so two who both take themselves for leaders do not hurry time, and
//! what was heard of within `n` times [`Locks::TICK`] lives for `n` ticks. Replicas let nobody's ticks in faster.

use crate::report::Reporter;
use crate::{Caller, Charter};
use fulmar_replication::Replica;
use fulmar_replication::applications::{LockAnswer, LockOperation, Locks};
use fulmar_transport::Handle;
use std::thread;

/// Goes on for as long as the replica runs.
pub(crate) fn run(replica: &Handle<Replica<Locks>>, charter: &Charter, reporter: &Reporter) {
    let (mut caller, mut ticks) = (None, 0);
    loop {
        thread::sleep(Locks::TICK);
        match is_due(replica) {
            None => return,
            Some(false) => continue,
            Some(true) => {}
        }
        let asked = match caller.take() {
            Some(caller) => Ok(caller),
            None => Caller::new(charter),
        };
        let told = asked.and_then(|mut asked| {
            let answer = asked.invoke(LockOperation::Tick(ticks + 1).encode())?;
            caller = Some(asked);
            Ok(answer)
        });
        match told.map(|answer| LockAnswer::decode(&answer)) {
            Ok(Some(LockAnswer::Ticks(now))) => ticks = now,
            Ok(_) => {}
            Err(why) => reporter.tell("fails", &format!("sessions do not expire for now: {why}")),
        }
    }
}

/// Whether this replica is to let time pass; nothing, if it has ended.
fn is_due(replica: &Handle<Replica<Locks>>) -> Option<bool> {
    replica.ask(|replica, _| replica.leads() && replica.state_machine().has_sessions())
}
