//! Clients of services, in a child of a process that has made them.

use crate::{PATIENCE, alone, fork, wait};
use fulmar_replication::Protocol;
use fulmar_replication::applications::LockMode;
use fulmar_services::{Application, CallError, Charter, LockError, LockSession, Members, TimestampClient};
use std::num::NonZeroU64;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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

/// Replicas, killed at the end.
struct Replicas(Vec<Child>);

impl Drop for Replicas {
    fn drop(&mut self) {
        for process in &mut self.0 {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

#[test]
fn a_child_holds_no_lock_of_its_parents() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let process = std::process::id();
    // Nobody else's.
    let members = [1, 2, 3].map(|n| format!("127.{}.{}.{n}:7501", 1 + process / 256 % 250, process % 256));
    let settings = directory.path().join("node.toml");
    std::fs::write(&settings, format!("service = \"locks\"\nmembers = {members:?}\n")).unwrap();
    let serve = |member: &String| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.args(["serve", "--found", "--listen", member, "--config"]).arg(&settings);
        command.arg("--data").arg(directory.path().join(member));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let _replicas = Replicas(members.iter().map(serve).collect());
    let members = Members::new(members.iter().map(String::as_str)).unwrap();
    let patience = Duration::from_secs(PATIENCE.into());
    let charter = Charter::find_within(patience, Application::Locks, &members).unwrap();
    let mut session = LockSession::open(&charter, patience).unwrap();
    session.acquire(b"eggs", LockMode::Write).unwrap();
    let child = fork(|| {
        // SAFETY: it says that this process is to end.
        unsafe { libc::alarm(PATIENCE) };
        let is_over = session.lease().is_over();
        let refused = session.acquire(b"ham", LockMode::Write);
        let released = session.release(b"eggs");
        let is_forked = |told: Option<LockError>| matches!(told, Some(LockError::Call(CallError::Forked)));
        i32::from(is_over && is_forked(refused.err()) && is_forked(released.err()))
    });
    assert_eq!(wait(child), 1);
    assert!(!session.lease().is_over());
    session.release(b"eggs").unwrap();
    session.close().unwrap();
}
