//! Clients of services, in a child of a process that has made them.

use crate::{PATIENCE, alone, fork, wait};
use fulmar_replication::Protocol;
use fulmar_services::{Application, CallError, Charter, Members, TimestampClient};
use std::num::NonZeroU64;

/// Replicas answer a request that they know already as they have before: parent and child were given the same timestamps.
#[test]
fn a_child_draws_no_timestamps_as_its_parent() {
    let _alone = alone();
    // Nobody is there, and need not be.
    let charter = Charter {
        application: Application::Timestamps,
        members: Members::new(["127.0.0.1:1"]).unwrap(),
        protocol: Protocol::Viewstamped,
    };
    let mut client = TimestampClient::new(&charter).unwrap();
    let child = fork(|| {
        // SAFETY: it says that this process is to end.
        unsafe { libc::alarm(PATIENCE) };
        i32::from(!matches!(client.draw(NonZeroU64::MIN), Err(CallError::Forked)))
    });
    assert_eq!(wait(child), 0);
}
