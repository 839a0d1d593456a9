//! What a client of a replicated service waits for.

use fulmar_services::Charter;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A wait of so long is said …
const LONG: Duration = Duration::from_secs(1);
/// … and again each time that it has gone on for so long.
const AGAIN: Duration = Duration::from_secs(10);

/// Asks the replicas, and says on standard error what it waits for if the answer does not come.
pub(super) fn ask<T>(charter: &Charter, question: impl FnOnce() -> T) -> T {
    let (answered, is_answered) = channel();
    let charter = charter.clone();
    thread::spawn(move || say(&charter, &is_answered));
    let answer = question();
    drop(answered);
    answer
}

fn say(charter: &Charter, is_answered: &Receiver<()>) {
    let (began, mut rest) = (Instant::now(), LONG);
    while is_answered.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
        let lasts = began.elapsed().as_secs_f64();
        let missing: Vec<_> = charter.unreachable().iter().map(ToString::to_string).collect();
        let missing = if missing.is_empty() { "all can be reached".into() } else { missing.join("; ") };
        let count = charter.members.iter().count();
        // Whoever closed it does not want to know.
        let _ =
            writeln!(io::stderr(), "waiting for {lasts:.1} s for a majority of {count} replicas: {missing}");
        rest = AGAIN;
    }
}
