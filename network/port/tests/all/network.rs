//! Hosts as network namespaces, and one more for a switch between them. Needs `ip` (iproute2) and the rights of root.

use fulmar_node::Random;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;

/// A namespace, which goes with this value, and its interfaces with it.
pub(crate) struct Namespace(String);

impl Namespace {
    pub(crate) fn new(name: &str) -> Self {
        // No other process that lives has this number, and tests have names.
        let name = format!("fulmar-port-{}-{name}", std::process::id());
        ip(&["netns", "add", &name]);
        Self(name)
    }

    pub(crate) fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0], arguments].concat());
    }

    /// Moves the thread that calls it here, for good: the sockets that it opens from now on are this host's.
    pub(crate) fn enter(&self) {
        let link = File::open(format!("/run/netns/{}", self.0)).expect("`ip` has made it");
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
    }

    /// Does something there.
    pub(crate) fn within<T: Send>(&self, does: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                does()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).output();
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("`ip` is there");
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {}: {}", arguments.join(" "), why.trim());
}

/// Two hosts, `10.9.0.1` and `10.9.0.2`, also `fd09::1` and `fd09::2`, on interfaces `eth0` whose other ends are a switch's `port1`
/// and `port2`. Nothing but what a test sends is on the wire: no host looks for neighbours.
pub(crate) struct Network {
    pub(crate) switch: Namespace,
    pub(crate) hosts: [Namespace; 2],
}

pub(crate) const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

impl Network {
    pub(crate) fn new(test: &str) -> Self {
        Self::with_queues(test, 1)
    }

    /// All interfaces send by so many queues.
    pub(crate) fn with_queues(test: &str, queues: u32) -> Self {
        let queues = queues.to_string();
        let queues = ["numtxqueues", &queues, "numrxqueues", &queues];
        let switch = Namespace::new(&format!("{test}-s"));
        let hosts = [1, 2].map(|number| {
            let host = Namespace::new(&format!("{test}-{number}"));
            let port = format!("port{number}");
            let (mac, other) = (format!("02:00:00:00:00:0{number}"), 3 - number);
            let peer = ["type", "veth", "peer", "name", "eth0", "address", &mac, "netns", &host.0];
            switch.ip(&[&["link", "add", &port], &queues[..], &peer[..], &queues[..]].concat());
            switch.ip(&["link", "set", &port, "addrgenmode", "none", "up"]);
            host.ip(&["link", "set", "eth0", "addrgenmode", "none", "up"]);
            host.ip(&["address", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"]);
            host.ip(&["address", "add", &format!("fd09::{number}/64"), "dev", "eth0", "nodad"]);
            let mac = format!("02:00:00:00:00:0{other}");
            for address in [format!("10.9.0.{other}"), format!("fd09::{other}")] {
                host.ip(&["neighbour", "add", &address, "lladdr", &mac, "dev", "eth0", "nud", "permanent"]);
            }
            host
        });
        Self { switch, hosts }
    }
}

fn any(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect()
}

/// Two hosts that send each other bytes at once, by their kernels' TCP.
pub(crate) fn exchange(hosts: &[Namespace; 2], to: IpAddr) {
    let [sent, answered] = [any(1, 8 << 20), any(2, 8 << 20)];
    let talk = |mut stream: TcpStream, says: &[u8], hears: &[u8]| {
        // If a wire breaks, this ends too.
        let patience = Some(std::time::Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("it is not 0");
        stream.set_write_timeout(patience).expect("it is not 0");
        thread::scope(|scope| {
            let mut writer = stream.try_clone().expect("another file");
            scope.spawn(move || writer.write_all(says).expect("it is sent"));
            let mut heard = vec![0; hears.len()];
            stream.read_exact(&mut heard).expect("all comes");
            assert!(heard == hears, "other bytes came");
        });
    };
    let listener = hosts[1].within(|| TcpListener::bind(SocketAddr::new(to, 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    thread::scope(|scope| {
        scope.spawn(|| talk(listener.accept().expect("somebody comes").0, &answered, &sent));
        let stream = hosts[0].within(|| TcpStream::connect(at).expect("it listens"));
        talk(stream, &sent, &answered);
    });
}
