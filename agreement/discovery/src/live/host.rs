//! A finder on a socket: a thread, and a way to it from others.

use super::{Event, Finder, Member, Missing, Name, Request};
use fulmar_node::Lsn;
use fulmar_transport::{ClusterId, Counters, Datagrams, Handle, Limits, Protocol, Server, User};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What all that find each other have in common: `discover` in the name, and the version of messages.
const PROTOCOL: Protocol =
    Protocol { cluster: ClusterId(u128::from_be_bytes(*b"fulmar  discover")), version: 1 };

/// The longest that anybody waits for a farewell to be heard: twice what it takes.
const FAREWELL: Duration = Duration::from_secs(1);

/// Hands what a finder tells to a function, and lets who waits for it know that it has departed.
struct Listener<F> {
    tell: F,
    departed: Sender<()>,
}

impl<F: FnMut(Event)> User<Finder> for Listener<F> {
    fn event(&mut self, event: Event, _: &mut Vec<Request>) {
        let has_departed = event == Event::Departed;
        (self.tell)(event);
        if has_departed {
            // Perhaps nobody waits.
            let _ = self.departed.send(());
        }
    }
}

/// What a finder knows at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// All that is believed of any node, this one included, in the order of their addresses.
    pub members: Vec<Member>,
    /// What keeps the view from being stable.
    pub missing: Missing,
    /// Whether the view was told to be stable and is the same since.
    pub is_stable: bool,
}

/// A node that runs in a thread of this process. Dropped, it ends without a word, as if it had crashed.
#[derive(Debug)]
pub struct Host {
    handle: Handle<Finder>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    departed: Receiver<()>,
}

impl Host {
    /// Begins to look for others from the addresses `known`, through `socket`, which they reach at `address`. What the finder
    /// tells goes to `listener`, on the node's own thread.
    ///
    /// # Errors
    ///
    /// What the system says if it gives no descriptors or no thread.
    pub fn start(
        socket: UdpSocket,
        address: SocketAddr,
        name: Name,
        known: impl IntoIterator<Item = SocketAddr>,
        listener: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Self> {
        let finder = Finder::new(address, name, known);
        let address = finder.me().address;
        // Numbers mean nothing to other nodes, and neither does this one.
        let me = fulmar_node::NodeId(0);
        let mut server = Server::new(me, PROTOCOL, Limits::default(), finder, Lsn(0))?;
        server.datagrams(Datagrams::new(socket)?)?;
        server.datagram_directory(Finder::address);
        let handle = server.handle();
        let (sender, departed) = channel();
        let mut listener = Listener { tell: listener, departed: sender };
        let run = move || {
            // It has no log, and if the system does not let it wait, it has crashed.
            let _ = server.run(&mut (), &mut listener);
        };
        let thread = thread::Builder::new().name("discovery".into()).spawn(run)?;
        Ok(Self { handle, thread: Some(thread), address, departed })
    }

    /// Where others reach it.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says farewell to all, and ends when somebody has heard it, or after a second: then others notice by themselves.
    pub fn leave(self) {
        self.handle.request(Request::Leave);
        // That nobody has heard it changes nothing here.
        let _ = self.departed.recv_timeout(FAREWELL);
    }

    /// What it knows now; nothing, if its thread has ended.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.handle.ask(|finder, now| Snapshot {
            members: finder.members().cloned().collect(),
            missing: finder.missing(now),
            is_stable: finder.is_stable(),
        })
    }

    /// What its socket has counted; nothing, if its thread has ended. Each message is a datagram, or a part of one.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.handle.counters()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has said so.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    type View = BTreeSet<SocketAddr>;

    /// Waits until all of `hosts` have told that just they are a stable view.
    fn await_all(
        hosts: &[Host],
        told: &Receiver<(SocketAddr, View)>,
        views: &mut BTreeMap<SocketAddr, View>,
    ) {
        let all: View = hosts.iter().map(Host::address).collect();
        while !all.iter().all(|host| views.get(host) == Some(&all)) {
            let (host, view) = told.recv_timeout(Duration::from_secs(120)).expect("a stable view");
            views.insert(host, view);
        }
    }

    /// What holds in the simulator holds on sockets: nodes are found, also after one has crashed and one has left.
    #[test]
    fn nodes_find_each_other_on_sockets() {
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let sockets: Vec<UdpSocket> = (0..12).map(|_| socket()).collect();
        let (sender, told) = channel();
        let (gone, departed) = channel();
        let mut hosts = Vec::new();
        let mut before = None;
        for socket in sockets {
            let own = socket.local_addr().expect("an address");
            let (sender, gone) = (sender.clone(), gone.clone());
            let tell = move |event| match event {
                Event::Stable(stable) => {
                    let view: View = stable.members.iter().map(|member| member.address).collect();
                    // The test may be over.
                    let _ = sender.send((own, view));
                }
                Event::Departed => drop(gone.send(own)),
                Event::News(_) => {}
            };
            hosts.push(Host::start(socket, own, Name::default(), before, tell).expect("a node"));
            before = Some(own);
        }
        let mut views = BTreeMap::new();
        await_all(&hosts, &told, &mut views);
        // The centre, which all others follow, crashes.
        let centre = hosts.iter().map(Host::address).min().expect("hosts");
        hosts.retain(|host| host.address() != centre);
        await_all(&hosts, &told, &mut views);
        let leaver = hosts.swap_remove(5);
        let address = leaver.address();
        leaver.leave();
        assert_eq!(departed.recv_timeout(Duration::from_secs(120)), Ok(address));
        await_all(&hosts, &told, &mut views);
        let snapshot = hosts[0].snapshot().expect("it runs");
        assert_eq!(snapshot.members.len(), 12, "the dead and those who left are remembered");
    }
}
