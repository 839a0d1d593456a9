//! The threads of a target: one that calls, or one that lets in and one for each who has come.

use crate::channel::{Channel, call_tcp, call_unix};
use crate::connection::{End, serve};
use crate::door::{self, speak};
use crate::interest::Kind;
use crate::place::Place;
use crate::shared::Shared;
use crate::target::Target;
use crate::visitors::{self, Visitors};
use fulmar_files::Door;
use fulmar_node::Time;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long nobody is let in after the system could not let somebody in.
const REST: Duration = Duration::from_secs(1);

/// Begins to keep up the sessions of a target. A door is open when this returns, if it can be opened now.
pub(crate) fn keep(shared: Arc<Shared>, place: Arc<Place>) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name("openflow".into());
    if place.target.is_passive() {
        let door = open(&shared, &place);
        builder.spawn(move || listen(&shared, &place, door))
    } else {
        builder.spawn(move || call_again_and_again(&shared, &place))
    }
}

fn failed(shared: &Shared, place: &Place, why: &str) -> Time {
    let again = place.attempts.lock().fail(shared.clock.now(), why.into());
    (shared.report)(&format!("{}: {why}", place.target));
    again
}

/// Waits until then, or the end.
fn rest(shared: &Shared, place: &Place, until: Time) {
    loop {
        let now = shared.clock.now();
        if place.stop.is_set() || now >= until || place.stop.wait(&[], now, Some(until)).is_err() {
            return;
        }
    }
}

fn call_again_and_again(shared: &Shared, place: &Arc<Place>) {
    while !place.stop.is_set() {
        let deadline = place.attempts.lock().begin(shared.clock.now());
        let end = match call(shared, place, deadline) {
            Ok(channel) => serve(shared, place, channel, None),
            Err(why) => End::Lost(why),
        };
        let again = failed(shared, place, &end.to_string());
        rest(shared, place, again);
    }
}

fn call(shared: &Shared, place: &Place, deadline: Time) -> io::Result<Box<dyn Channel>> {
    let (stop, clock) = (&place.stop, shared.clock);
    Ok(match &place.target {
        Target::Tls(at) => {
            // Before anybody is called who could not be answered.
            let files = place.settings.tls()?;
            Box::new(files.client(call_tcp(*at, stop, clock, deadline)?)?)
        }
        Target::Tcp(at) | Target::PassiveTcp(at) | Target::PassiveTls(at) => {
            Box::new(call_tcp(*at, stop, clock, deadline)?)
        }
        Target::Unix(path) | Target::PassiveUnix(path) => Box::new(call_unix(path, stop, clock, deadline)?),
    })
}

/// The door, or when it is tried again.
fn open(shared: &Shared, place: &Place) -> Result<Door, Time> {
    match door::open(&place.target) {
        Ok(door) => {
            *place.port.lock() = door.port();
            Ok(door)
        }
        Err(why) => Err(failed(shared, place, &why.to_string())),
    }
}

fn listen(shared: &Arc<Shared>, place: &Arc<Place>, mut door: Result<Door, Time>) {
    let (visitors, mut threads) = (Visitors::new(), Vec::new());
    while !place.stop.is_set() {
        match &door {
            Err(again) => {
                rest(shared, place, *again);
                if !place.stop.is_set() {
                    door = open(shared, place);
                }
            }
            Ok(door) => {
                if let Err(why) = admit(shared, place, door, &visitors, &mut threads) {
                    let why = format!("nobody is let in for a second: {why}");
                    (shared.report)(&format!("{}: {why}", place.target));
                    rest(shared, place, shared.clock.now() + REST);
                }
            }
        }
    }
    for thread in threads {
        // Its panic was reported as all are.
        let _ = thread.join();
    }
}

/// Waits for somebody, and lets in whoever is there.
fn admit(
    shared: &Arc<Shared>,
    place: &Arc<Place>,
    door: &Door,
    visitors: &Visitors,
    threads: &mut Vec<JoinHandle<()>>,
) -> io::Result<()> {
    place.stop.wait(&[PollFd::new(door, PollFlags::IN)], shared.clock.now(), None)?;
    while let Some((visit, peer)) = door.accept()? {
        threads.retain(|thread| !thread.is_finished());
        let channel = match speak(visit, &place.settings, place.target.is_secure()) {
            Ok(channel) => channel,
            Err(why) => {
                failed(shared, place, &format!("{peer}: {why}"));
                continue;
            }
        };
        let Some((seat, stranger)) = visitors.enter(&*channel)? else {
            let (target, most) = (&place.target, visitors::MOST);
            (shared.report)(&format!("{target}: {peer} is one too many: expected {most} at most"));
            continue;
        };
        let (shared, place) = (shared.clone(), place.clone());
        threads.push(Builder::new().name("openflow".into()).spawn(move || {
            let _seat = seat;
            let end = serve(&shared, &place, channel, Some(stranger));
            // Tools come and go with each command.
            if place.kind == Kind::Service && matches!(end, End::Hangup) {
                return;
            }
            failed(&shared, &place, &format!("{peer}: {end}"));
        })?);
    }
    Ok(())
}
