//! Who says another's name, and who only takes up room.

use super::{ONE, Running, raw};
use fulmar_transport::{Limits, LinkError, Notice};
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What is not done by then is never done.
const LONG: Duration = Duration::from_secs(30);

/// What ends in time, or is not waited for.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(LONG).expect("it ends in time")
}

#[test]
fn a_greeting_in_drips_is_not_waited_for() {
    let server = Running::start(ONE, Limits::default());
    let mut drips = raw::connect(&server.address);
    drips.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A server that is busy says this before anything else, as often as it likes.
    let drip = move || {
        while drips.write_all(&[0xff]).is_ok()
            && drips.read(&mut [0]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
        {}
    };
    in_time(drip);
    let why = server.await_notice(|notice| match notice {
        Notice::Unknown { why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Mute(_)), "{why}");
    server.stop();
}
