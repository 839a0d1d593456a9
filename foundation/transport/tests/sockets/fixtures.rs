//! What several tests begin with: a server on a thread, its clients, and bytes by chance.

use crate::processes::{Caller, Echo};
use fulmar_node::{Lsn, NodeId, Random};
use fulmar_transport::{Address, Client, ClusterId, Handle, Limits, Notice, Protocol, Server, User};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

pub(crate) const PROTOCOL: Protocol = Protocol { cluster: ClusterId(0xf01), version: 3 };
pub(crate) const ONE: NodeId = NodeId(1);
pub(crate) const TWO: NodeId = NodeId(2);
pub(crate) const THREE: NodeId = NodeId(3);

/// Passes notices on to the test.
struct Watcher(Sender<Notice>);

impl User<Echo> for Watcher {
    fn event(&mut self, _event: (), _requests: &mut Vec<()>) {}

    fn notice(&mut self, notice: Notice, _requests: &mut Vec<()>) {
        // A test that has seen enough no longer listens.
        let _ = self.0.send(notice);
    }
}

/// A server on a thread.
pub(crate) struct Running {
    pub(crate) address: Address,
    pub(crate) handle: Handle<Echo>,
    notices: Receiver<Notice>,
    thread: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(name: NodeId, limits: Limits) -> Self {
        Self::at("127.0.0.1:0", name, PROTOCOL, limits)
    }

    pub(crate) fn at(address: &str, name: NodeId, protocol: Protocol, limits: Limits) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().into();
        let mut server = Server::new(name, protocol, limits, Echo::default(), Lsn(0)).unwrap();
        server.listen(listener).unwrap();
        Self::run(server, address)
    }

    pub(crate) fn run(server: Server<Echo>, address: Address) -> Self {
        let handle = server.handle();
        let (sender, notices) = mpsc::channel();
        let thread = thread::spawn(move || {
            server.run(&mut (), &mut Watcher(sender)).unwrap();
        });
        Self { address, handle, notices, thread }
    }

    pub(crate) fn stop(self) -> Address {
        self.handle.stop();
        self.thread.join().unwrap();
        self.address
    }

    pub(crate) fn end(self) {
        self.stop();
    }

    /// Waits for a notice of which `wanted` makes something.
    pub(crate) fn await_notice<T>(&self, wanted: impl Fn(Notice) -> Option<T>) -> T {
        self.notices.iter().find_map(wanted).expect("the server runs")
    }
}

pub(crate) fn client(caller: Caller) -> Client<Caller> {
    Client::new(PROTOCOL, Limits::default(), caller)
}

pub(crate) fn client_of(servers: &[(NodeId, &Running)]) -> Client<Caller> {
    let mut client = client(Caller::new(servers.iter().map(|&(name, _)| name)));
    for &(name, running) in servers {
        client.address(name, running.address.clone());
    }
    client
}

pub(crate) fn bytes(random: &mut Random, longest: usize) -> Vec<u8> {
    let length = random.index(longest);
    let first = random.next().to_le_bytes()[0];
    (0..length).map(|at| first.wrapping_add(at.to_le_bytes()[0])).collect()
}
