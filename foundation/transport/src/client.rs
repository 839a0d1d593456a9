//! A process that its user calls: it runs on the caller's thread, while the caller waits.

mod connecting;
mod waiting;

pub use connecting::{GREETING, MeetError};

use crate::address::Address;
use crate::book::Book;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::deadlines::Deadlines;
use crate::hello::{ClusterId, HELLO_LIMIT, Protocol};
use crate::limits::Limits;
use crate::link::{Link, LinkError};
use crate::spin::Spin;
use crate::wire::Wire;
use fulmar_node::{MulticastId, NodeId, Outbox, Process, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;
use waiting::is_writable;

/// After a rest of this length a client looks whether servers have closed connections meanwhile.
const REST: Duration = Duration::from_millis(100);

/// A server that does not greet for so long may be elsewhere by now. An address that nobody has any more is silent for seconds.
const SILENT: Duration = Duration::from_millis(100);

/// Waiting is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server is connected, and this one refuses.
    #[error("server {server} refused: {reason}")]
    Refused {
        /// Which.
        server: NodeId,
        /// Its words.
        reason: String,
    },
    /// No server is connected and no timer is set: nothing can happen any more.
    #[error("no server is connected, and nothing is left to wait for")]
    Stuck,
    /// The system does not let it wait.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[source] io::Error),
}

type Directory<P> = Box<dyn Fn(&P, NodeId) -> Option<Address> + Send>;

#[derive(Debug)]
struct Peer {
    link: Link,
    /// When the connection was begun.
    since: Time,
    /// The server has welcomed us.
    greeted: bool,
    /// Round trips that the last message to it in this request came after, itself included.
    depth: u64,
    /// Messages to it that no message from it has followed: if all are answered, the answers that are out.
    awaited: u64,
    /// What the socket's own time limit is set to.
    patience: Option<Duration>,
}

impl Peer {
    const fn new(link: Link, greeted: bool, since: Time) -> Self {
        Self { link, since, greeted, depth: 0, awaited: 0, patience: None }
    }
}

/// A client process on its caller's thread.
///
/// It does nothing between calls: what servers send then waits in sockets, and timers are late. A process that forks must
/// not go on with it on both sides, which would share its connections.
pub struct Client<P: Process> {
    process: P,
    out: Outbox<P>,
    timers: Deadlines<P::Timer>,
    groups: BTreeMap<MulticastId, Vec<NodeId>>,
    directory: Option<Directory<P>>,
    protocol: Protocol,
    limits: Limits,
    book: Book,
    peers: BTreeMap<NodeId, Peer>,
    /// Why servers that are not connected are not.
    faults: BTreeMap<NodeId, LinkError>,
    /// Those of them that the process is to hear of.
    disconnected: Vec<NodeId>,
    clock: Clock,
    now: Time,
    spin: Spin,
    started: bool,
    /// One server answers for another: waiting for the one that was asked is not enough.
    others_answer: bool,
    /// The deepest message of this request that was answered.
    depth: u64,
    round_trips: u64,
    counters: Counters,
}

impl<P: Process> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl<P: Process<Message: Wire>> Client<P> {
    /// A client of the cluster, or of the first that it meets if that is [`ClusterId::ANY`]. Records of the process
    /// are not kept, and of the limits those of messages, dead hosts and spinning count.
    pub fn new(protocol: Protocol, limits: Limits, process: P) -> Self {
        Self {
            process,
            out: Outbox::default(),
            timers: Deadlines::new(),
            groups: BTreeMap::new(),
            directory: None,
            protocol,
            limits,
            book: Book::default(),
            peers: BTreeMap::new(),
            faults: BTreeMap::new(),
            disconnected: Vec::new(),
            clock: Clock::start(),
            now: Time::ZERO,
            spin: Spin::new(limits.spin),
            started: false,
            others_answer: false,
            depth: 0,
            round_trips: 0,
            counters: Counters::default(),
        }
    }

    /// Notes where a server is. Connected to when the process first sends to it.
    pub fn address(&mut self, server: NodeId, address: Address) {
        self.book.insert(server, address);
    }

    /// Asks the process itself where servers are that it sends to and that are not connected. What it does not know is
    /// looked up among the addresses that were noted.
    pub fn directory(&mut self, directory: impl Fn(&P, NodeId) -> Option<Address> + Send + 'static) {
        self.directory = Some(Box::new(directory));
    }

    /// Says whom a multicast reaches: it goes to each by TCP.
    pub fn group(&mut self, group: MulticastId, members: impl IntoIterator<Item = NodeId>) {
        self.groups.insert(group, members.into_iter().collect());
    }

    /// The process.
    pub const fn process(&self) -> &P {
        &self.process
    }

    /// The cluster, once one is known.
    pub const fn cluster(&self) -> ClusterId {
        self.protocol.cluster
    }

    /// Why a server is not connected, if it was tried.
    pub fn fault(&self, server: NodeId) -> Option<&LinkError> {
        self.faults.get(&server)
    }

    /// Where a server is, if it was noted or met.
    pub fn known(&self, server: NodeId) -> Option<&Address> {
        self.book.address(server)
    }

    /// What was counted.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// How many times, in all requests, the process had to hear from a server before it could go on.
    ///
    /// Messages that are sent together count once; what is sent because of an answer counts on top of what was
    /// answered, and so does what is sent again because a timer has expired. Messages whose answers nobody waited for
    /// do not count, nor do greetings: messages leave right behind them.
    pub const fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Hands the process a request, and waits as [`Self::wait`] does.
    ///
    /// # Errors
    ///
    /// As for [`Self::wait`].
    pub fn request(&mut self, request: P::Request) -> Result<Vec<P::Event>, ClientError> {
        self.begin();
        self.book.forgive();
        self.step(0, |process, now, out| process.request(now, request, out));
        self.go_on()
    }

    /// Hands the process a request, and waits for nothing: what it tells, a later wait returns. What it sends leaves with
    /// what is sent next, or by itself after a fifth of a second: a message of its own would cost as much as a request.
    pub fn tell(&mut self, request: P::Request) {
        self.begin();
        self.step(0, |process, now, out| process.request(now, request, out));
        for peer in self.peers.values_mut() {
            self.counters.bytes_sent += peer.link.flush_later() as u64;
        }
    }

    /// Waits until the process tells something, and returns that: one event or more.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if there is nothing to wait for. The process goes on where it was when it is called again.
    pub fn wait(&mut self) -> Result<Vec<P::Event>, ClientError> {
        self.begin();
        self.go_on()
    }

    fn begin(&mut self) {
        let before = std::mem::replace(&mut self.now, self.clock.now());
        self.depth = 0;
        for peer in self.peers.values_mut() {
            peer.depth = 0;
        }
        if self.now.since(before) >= REST {
            self.read_all();
        }
        if !self.started {
            self.started = true;
            self.step(0, P::start);
        }
        if !self.disconnected.is_empty() {
            self.hear_disconnected();
        }
    }

    fn hear_disconnected(&mut self) {
        for peer in std::mem::take(&mut self.disconnected) {
            let depth = self.depth_of_all();
            self.step(depth, |process, now, out| process.disconnected(now, peer, out));
        }
    }

    /// What was lost has been waited for, too.
    fn depth_of_all(&self) -> u64 {
        self.peers.values().map(|peer| peer.depth).max().unwrap_or(0)
    }

    fn flush(&mut self) {
        for peer in self.peers.values_mut() {
            self.counters.bytes_sent += peer.link.flush() as u64;
        }
    }

    fn go_on(&mut self) -> Result<Vec<P::Event>, ClientError> {
        loop {
            if !self.disconnected.is_empty() {
                self.hear_disconnected();
            }
            for _ in 0..self.timers.due(self.now) {
                let Some(timer) = self.timers.expire(self.now) else { break };
                let depth = self.depth_of_all();
                self.step(depth, |process, now, out| process.expire(now, timer, out));
            }
            self.flush();
            if !self.out.events.is_empty() {
                self.round_trips += self.depth;
                return Ok(std::mem::take(&mut self.out.events));
            }
            self.block()?;
        }
    }

    fn read_all(&mut self) {
        let servers: Vec<NodeId> = self.peers.keys().copied().collect();
        for server in servers {
            self.read(server, false);
        }
    }

    /// Reads a connection once, and hands the process what has come whole.
    fn read(&mut self, server: NodeId, wait: bool) {
        let read = self.receive(server, wait).and_then(|()| self.take_frames(server));
        if let Err(why) = read {
            self.lose(server, why);
        }
    }

    fn receive(&mut self, server: NodeId, wait: bool) -> Result<(), LinkError> {
        let Some(peer) = self.peers.get_mut(&server) else { return Ok(()) };
        if peer.link.is_connecting() {
            if !is_writable(&peer.link)? {
                return Ok(());
            }
            peer.link.established()?;
        }
        self.counters.bytes_received += peer.link.receive(wait)? as u64;
        Ok(())
    }

    fn take_frames(&mut self, server: NodeId) -> Result<(), LinkError> {
        while let Some(peer) = self.peers.get_mut(&server) {
            if !peer.greeted {
                let place = peer.link.input.next(HELLO_LIMIT).map_err(|_| LinkError::NotFulmar)?;
                let Some(place) = place else { break };
                let answer = peer.link.input.body(place).to_vec();
                self.judge(&answer)?;
                if let Some(peer) = self.peers.get_mut(&server) {
                    peer.greeted = true;
                }
                self.book.reached(server);
                self.faults.remove(&server);
                continue;
            }
            let Some(place) = peer.link.input.next(self.limits.message)? else { break };
            let message = P::Message::decode(peer.link.input.body(place))?;
            let depth = peer.depth;
            peer.awaited = peer.awaited.saturating_sub(1);
            self.depth = self.depth.max(depth);
            self.counters.messages_received += 1;
            self.now = self.clock.now();
            self.step(depth, |process, now, out| process.receive(now, server, message, out));
        }
        Ok(())
    }

    /// A connection is no more.
    fn lose(&mut self, server: NodeId, why: LinkError) {
        if let Some(peer) = self.peers.remove(&server) {
            if !peer.greeted {
                self.book.failed(server, self.now);
            }
            self.faults.insert(server, why);
            self.disconnected.push(server);
        }
    }

    /// One step of the process, because of something that took so many round trips.
    fn step(&mut self, depth: u64, step: impl FnOnce(&mut P, Time, &mut Outbox<P>)) {
        step(&mut self.process, self.now, &mut self.out);
        let mut sends = std::mem::take(&mut self.out.sends);
        for (to, message) in sends.drain(..) {
            self.send(to, &message, depth + 1);
        }
        self.out.sends = sends;
        let mut multicasts = std::mem::take(&mut self.out.multicasts);
        for (group, message) in multicasts.drain(..) {
            for to in self.groups.get(&group).cloned().unwrap_or_default() {
                self.send(to, &message, depth + 1);
            }
        }
        self.out.multicasts = multicasts;
        for (timer, change) in self.out.timers.drain(..) {
            self.timers.change(timer, change);
        }
        self.out.records.clear();
    }

    /// Appends a message to what is to be sent to a server, connecting to it first if need be, or drops it.
    fn send(&mut self, to: NodeId, message: &P::Message, depth: u64) {
        let is_silent = |peer: &Peer| !peer.greeted && self.now.since(peer.since) >= SILENT;
        if self.peers.get(&to).is_some_and(is_silent) && self.locate(to) {
            self.peers.remove(&to);
        }
        if !self.peers.contains_key(&to) {
            self.dial(to);
        }
        let limit = self.limits.message;
        let sent = self.peers.get_mut(&to).is_some_and(|peer| {
            peer.depth = peer.depth.max(depth);
            peer.awaited += 1;
            peer.link.append(limit, |body| message.encode(body)).is_ok()
        });
        self.counters.messages_sent += u64::from(sent);
        self.counters.dropped += u64::from(!sent);
    }
}
