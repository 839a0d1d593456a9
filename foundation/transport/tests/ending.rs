//! Servers and connections that end, and who hears of it.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_transport::{Address, Client, ClusterId, Handle, Limits, Protocol, Server, User};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PROTOCOL: Protocol = Protocol { cluster: ClusterId(0xe4d), version: 1 };
const SERVER: NodeId = NodeId(1);
const LONG: Duration = Duration::from_secs(600);

/// Answers what it hears, and tells whose connections end.
struct Mourner;

impl Process for Mourner {
    type Message = Vec<u8>;
    type Timer = ();
    type Request = Vec<u8>;
    type Event = NodeId;
    type Record = ();

    fn receive(&mut self, _now: Time, from: NodeId, message: Vec<u8>, out: &mut Outbox<Self>) {
        if from == SERVER {
            out.event(from);
        } else if !message.is_empty() {
            out.send(from, message);
        }
    }

    fn request(&mut self, _now: Time, message: Vec<u8>, out: &mut Outbox<Self>) {
        out.send(SERVER, message);
    }

    fn disconnected(&mut self, _now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        out.event(peer);
    }
}

struct Listener(Sender<NodeId>);

impl User<Mourner> for Listener {
    fn event(&mut self, peer: NodeId, _requests: &mut Vec<Vec<u8>>) {
        // A test that has seen enough no longer listens.
        let _ = self.0.send(peer);
    }
}

struct Running {
    address: Address,
    handle: Handle<Mourner>,
    gone: Receiver<NodeId>,
    thread: JoinHandle<()>,
}

fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().into();
    let mut server = Server::new(SERVER, PROTOCOL, Limits::default(), Mourner, Lsn(0)).unwrap();
    server.listen(listener).unwrap();
    let handle = server.handle();
    let (sender, gone) = mpsc::channel();
    let thread = thread::spawn(move || {
        server.run(&mut (), &mut Listener(sender)).unwrap();
    });
    Running { address, handle, gone, thread }
}

fn client(server: &Running) -> Client<Mourner> {
    let mut client = Client::new(PROTOCOL, Limits::default(), Mourner);
    client.address(SERVER, server.address.clone());
    client
}

#[test]
fn a_server_hears_that_a_client_is_gone() {
    let server = start();
    let mut client = client(&server);
    client.request(vec![1]).unwrap();
    drop(client);
    assert!(server.gone.recv().unwrap() > SERVER);
    server.handle.stop();
    server.thread.join().unwrap();
}

#[test]
fn a_client_that_waits_hears_that_its_server_is_gone_and_that_it_stays_so() {
    let server = start();
    let mut client = client(&server);
    client.request(vec![1]).unwrap();
    let handle = server.handle.clone();
    // What is empty is not answered.
    client.tell(Vec::new());
    handle.stop();
    server.thread.join().unwrap();
    assert_eq!(client.wait().unwrap(), [SERVER]);
    assert_eq!(client.request(vec![2]).unwrap(), [SERVER], "nobody listens there");
}

#[test]
fn a_server_that_retires_ends_when_it_may() {
    let server = start();
    let (asks, asked) = mpsc::channel();
    let (answers, may_end) = mpsc::channel();
    let may_end = fulmar_locks::Mutex::new(may_end);
    let mut stop = server.handle.clone().retiring(LONG, move |_, _, _| {
        asks.send(()).unwrap();
        may_end.lock().recv().unwrap()
    });
    stop();
    for may_end in [false, false, true] {
        asked.recv().unwrap();
        answers.send(may_end).unwrap();
    }
    server.thread.join().unwrap();
}

#[test]
fn a_server_that_is_told_twice_to_retire_ends_at_once() {
    let server = start();
    let mut stop = server.handle.clone().retiring(LONG, |_, _, _| false);
    stop();
    stop();
    server.thread.join().unwrap();
}

#[test]
fn a_server_does_not_retire_for_longer_than_it_may() {
    let server = start();
    let mut stop = server.handle.clone().retiring(Duration::from_millis(20), |_, _, _| false);
    stop();
    server.thread.join().unwrap();
}
