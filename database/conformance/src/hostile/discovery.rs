//! Nodes that look for each other, and are told lies: datagrams of the right form by nobody and by anybody, about nodes that are there, that
//! are not, and about what was never said. Of all addresses that are named, only those of this machine are, so that nothing is sent
//! elsewhere; and no more is sent than the nodes can hear, as no content helps against a flood.

use super::connection::Greeting;
use super::{Tally, WAIT};
use crate::memory;
use crate::workload::Error;
use fulmar_coding::{put_bytes, put_varint};
use fulmar_discovery::live::{Host, Name};
use fulmar_node::Random;
use fulmar_transport::LARGEST_DATAGRAM;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// As `fulmar_discovery`'s host greets.
const GREETING: Greeting = Greeting { version: 1, cluster: u128::from_be_bytes(*b"fulmar  discover") };
const NODES: usize = 8;
/// So long after the last lie the view is stable again at the latest. Whoever is silent is dead within two seconds, but there are
/// thousands of them, and all nodes tell each other of all.
const SETTLED: Duration = Duration::from_secs(60);

/// Starts some nodes, and attacks them for so long. What is served meanwhile is the question what one of them knows.
///
/// # Errors
/// [`Error::Breach`] if a node ends, an answer takes longer than [`WAIT`], the memory of this process grows by more than
/// [`super::GROWTH`], or the nodes have no stable view of just themselves in the end.
pub fn run(length: Duration, seed: u64) -> Result<Tally, Error> {
    let mut nodes = Vec::new();
    let mut known = None;
    for _ in 0..NODES {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        nodes.push(Host::start(socket, address, Name::default(), known, |_| ())?);
        known = Some(address);
    }
    let addresses: Vec<SocketAddr> = nodes.iter().map(Host::address).collect();
    settle(&nodes, &addresses)?;
    let before = memory::of_process("self", "VmRSS")?;
    let connect = |random: &mut Random, frames: &mut u64| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let own = socket.local_addr()?;
        let mut liar = Liar { random, addresses: &addresses, own };
        for _ in 0..liar.random.below(200) {
            let to = liar.node();
            let datagram = liar.datagram();
            // What the system does not take, as a buffer is full, is one lie less.
            let _ = socket.send_to(&datagram, to);
            *frames += 1;
            if liar.random.one_in(8) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    };
    let mut tally = Tally::of(length, seed, connect, |turn| {
        thread::sleep(Duration::from_millis(1));
        let asked = &nodes[usize::try_from(turn).unwrap_or_default() % nodes.len()];
        asked.snapshot().map(drop).ok_or_else(|| Error::Breach(format!("{} has ended", asked.address())))
    })?;
    settle(&nodes, &addresses)?;
    tally.growth = memory::of_process("self", "VmHWM")?.saturating_sub(before);
    tally.judge()
}

/// Waits until each node has a stable view of just these.
fn settle(nodes: &[Host], addresses: &[SocketAddr]) -> Result<(), Error> {
    let mut expected = addresses.to_vec();
    expected.sort_unstable();
    let begun = Instant::now();
    loop {
        let mut unsettled = Vec::new();
        for node in nodes {
            let asked = Instant::now();
            let snapshot = node.snapshot().filter(|_| asked.elapsed() <= WAIT);
            let snapshot = snapshot.ok_or_else(|| Error::Breach(format!("{} is silent", node.address())))?;
            let live = snapshot.members.iter().filter(|member| member.standing.is_live());
            let view: Vec<SocketAddr> = live.map(|member| member.address).collect();
            if !(snapshot.is_stable && view == expected) {
                let missing = snapshot.missing;
                let (suspected, unconfirmed) = (missing.suspected.len(), missing.unconfirmed.len());
                let of_nodes = snapshot.members.iter().filter(|member| expected.contains(&member.address));
                let gone = of_nodes.filter(|member| !member.standing.is_live()).map(|member| {
                    let life = member.incarnation.life;
                    format!("{} {} in its life {life}", member.address, member.standing)
                });
                unsettled.push(format!(
                    "{} knows {} nodes, {suspected} of them suspected, {unconfirmed} unconfirmed, [{}]",
                    node.address(),
                    view.len(),
                    gone.collect::<Vec<_>>().join(", "),
                ));
            }
        }
        if unsettled.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > SETTLED {
            return Err(Error::Breach(format!("no stable view of {expected:?}: {}", unsettled.join("; "))));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

struct Liar<'r> {
    random: &'r mut Random,
    addresses: &'r [SocketAddr],
    own: SocketAddr,
}

impl Liar<'_> {
    fn one<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.random.index(N)]
    }

    fn node(&mut self) -> SocketAddr {
        self.addresses[self.random.index(self.addresses.len())]
    }

    fn any_address(&mut self) -> SocketAddr {
        let [a, b, c, d, ..] = self.random.next().to_le_bytes();
        let invented = SocketAddrV4::new(Ipv4Addr::new(127, 7, a % 16, b), u16::from_le_bytes([c, d]));
        let own = self.own;
        let node = self.node();
        self.one([node, node, own, invented.into()])
    }

    /// Microseconds since 1970, or about that.
    fn time(&mut self) -> u64 {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_micros());
        let (now, century) = (u64::try_from(now).unwrap_or_default(), 3_153_600_000_000_000);
        self.one([
            now,
            now,
            now,
            now - 1_000_000,
            now + 1_000_000,
            now + century,
            0,
            1,
            u64::MAX - 1,
            u64::MAX,
        ])
    }

    fn put_address(&mut self, out: &mut Vec<u8>) {
        let address = self.any_address();
        if let SocketAddr::V4(address) = address {
            out.push(4);
            out.extend(address.ip().octets());
            out.extend(address.port().to_be_bytes());
        }
    }

    fn put_member(&mut self, out: &mut Vec<u8>) {
        self.put_address(out);
        let refutations = u64::from(self.one([0, 0, 1, 2, u32::MAX - 1, u32::MAX]));
        put_varint(out, self.time());
        put_varint(out, refutations);
        out.push(self.one([0, 0, 1, 2, 2, 3, 3, 4]));
        put_bytes(out, self.one([&b""[..], b"n", b"\x1b[2J", &[b'n'; 64], &[0xff; 3]]));
    }

    /// As `fulmar_discovery` lays it out: see there.
    fn message(&mut self) -> Vec<u8> {
        let flags = u8::try_from(self.random.below(33)).unwrap_or_default();
        let mut out = vec![self.one([0, 0, 0, 1, 1, 1, 2]), flags];
        self.put_member(&mut out);
        self.put_address(&mut out);
        put_varint(&mut out, self.time());
        put_varint(&mut out, self.one([0, 1, 1_000, u64::from(u32::MAX), u64::MAX]));
        if flags & 8 != 0 {
            for _ in 0..3 {
                put_varint(&mut out, self.time());
            }
        }
        out.extend(self.random.next().to_be_bytes());
        for _ in 0..3 {
            let near = self.random.below(100);
            put_varint(&mut out, self.one([0, near, u64::MAX]));
        }
        if flags & 16 != 0 {
            put_varint(&mut out, self.time());
            out.extend(self.random.next().to_be_bytes());
        }
        for _ in 0..self.one([0, 1, 2, 40]) {
            self.put_member(&mut out);
        }
        if self.random.one_in(20) {
            out.truncate(self.random.index(out.len()));
        }
        out
    }

    fn datagram(&mut self) -> Vec<u8> {
        let name = self.one([0, 0, 0, 1, u32::MAX]);
        let mut out = GREETING.hello(Some(name));
        for _ in 0..self.one([1, 1, 1, 3]) {
            let message = self.message();
            let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
            out.extend(self.one([length, length, length, length, length, 0, u16::MAX]).to_be_bytes());
            out.extend(message);
        }
        // A longer one is cut at the socket.
        out.truncate(LARGEST_DATAGRAM);
        out
    }
}
