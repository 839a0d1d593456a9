//! What a process is told of the time, when the steps of a turn take long.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_transport::{ClusterId, Handle, Limits, Protocol, Server, User};
use std::net::TcpListener;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PROTOCOL: Protocol = Protocol { cluster: ClusterId(0x707), version: 1 };
const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const LONG: Duration = Duration::from_millis(5);

/// Takes long for a message, at whose beginning it sets a timer and asks for more work.
struct Slow {
    own: Option<Handle<Self>>,
    steps: Sender<(&'static str, Time)>,
}

impl Process for Slow {
    type Message = Vec<u8>;
    type Timer = ();
    type Request = ();
    type Event = ();
    type Record = ();

    fn receive(&mut self, now: Time, _from: NodeId, _message: Vec<u8>, out: &mut Outbox<Self>) {
        self.steps.send(("message", now)).unwrap();
        out.set_timer((), now + LONG / 5);
        let work = |process: &mut Self, now, _: &mut Outbox<Self>| process.steps.send(("work", now)).unwrap();
        self.own.as_ref().map(|own| own.run(work)).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            thread::yield_now();
        }
    }

    fn expire(&mut self, now: Time, (): (), _out: &mut Outbox<Self>) {
        self.steps.send(("timer", now)).unwrap();
    }
}

struct Nobody;

impl User<Slow> for Nobody {
    fn event(&mut self, _event: (), _requests: &mut Vec<()>) {}
}

fn start(server: Server<Slow>) -> (Handle<Slow>, JoinHandle<()>) {
    let handle = server.handle();
    let own = handle.clone();
    handle.run(|process, _, _| process.own = Some(own));
    (handle, thread::spawn(move || drop(server.run(&mut (), &mut Nobody).unwrap())))
}

/// A follower that was long in a turn took its leader to have been silent since the turn began: what it had heard in the meantime it was
/// told with the time of that, or was to be told only after its timer.
#[test]
fn time_goes_on_within_a_turn_and_timers_wait_for_the_next() {
    let (steps, taken) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = |name| {
        let process = Slow { own: None, steps: steps.clone() };
        Server::new(name, PROTOCOL, Limits::default(), process, Lsn(0)).unwrap()
    };
    let (mut one, mut two) = (server(ONE), server(TWO));
    one.listen(listener).unwrap();
    two.address(ONE, address.into());
    let ((one, one_runs), (two, two_runs)) = (start(one), start(two));
    two.run(|_, _, out| out.send(ONE, b"take long".to_vec()));
    let [message, work, timer] = [(); 3].map(|()| taken.recv().unwrap());
    assert_eq!([message.0, work.0, timer.0], ["message", "work", "timer"]);
    assert!(work.1.since(message.1) >= LONG, "{message:?}, {work:?}");
    assert!(timer.1 >= work.1);
    for (handle, runs) in [(one, one_runs), (two, two_runs)] {
        handle.stop();
        runs.join().unwrap();
    }
}
