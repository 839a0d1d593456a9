//! Hosts as network namespaces, and one more for a switch between them. Needs `ip` (iproute2) and the rights of root.

use fulmar_namespaces::Namespace;
use fulmar_node::Random;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

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
        let switch = Namespace::new(&format!("{test}-s")).expect("root may");
        let hosts = [1, 2].map(|number| {
            let host = Namespace::new(&format!("{test}-{number}")).expect("root may");
            let port = format!("port{number}");
            let (mac, other) = (format!("02:00:00:00:00:0{number}"), 3 - number);
            let peer = ["type", "veth", "peer", "name", "eth0", "address", &mac, "netns", host.name()];
            switch
                .ip(&[&["link", "add", &port], &queues[..], &peer[..], &queues[..]].concat())
                .expect("root may");
            switch.ip(&["link", "set", &port, "addrgenmode", "none", "up"]).expect("root may");
            host.ip(&["link", "set", "eth0", "addrgenmode", "none", "up"]).expect("root may");
            host.ip(&["address", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"]).expect("root may");
            host.ip(&["address", "add", &format!("fd09::{number}/64"), "dev", "eth0", "nodad"])
                .expect("root may");
            let mac = format!("02:00:00:00:00:0{other}");
            for address in [format!("10.9.0.{other}"), format!("fd09::{other}")] {
                host.ip(&["neighbour", "add", &address, "lladdr", &mac, "dev", "eth0", "nud", "permanent"])
                    .expect("root may");
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
