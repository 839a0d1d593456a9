//! A process that its user calls: it runs on the caller's thread, while the caller waits.

use crate::address::Address;
use crate::book::Book;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::deadlines::Deadlines;
use crate::hello::{Answer, ClusterId, FIRST_CLIENT, HELLO_LIMIT, Hello, Protocol};
use crate::limits::Limits;
use crate::link::{Link, LinkError};
use crate::spin::Spin;
use crate::wire::Wire;
use fulmar_node::{MulticastId, NodeId, Outbox, Process, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

/// How long a server may take to greet.
pub const GREETING: Duration = Duration::from_secs(5);
/// After a rest of this length a client looks whether servers have closed connections meanwhile.
const REST: Duration = Duration::from_millis(100);

/// A server that does not greet for so long may be elsewhere by now. An address that nobody has any more is silent for seconds.
const SILENT: Duration = Duration::from_millis(100);

/// How long a read of one connection keeps a client from hearing others.
const DEAF: Duration = Duration::from_millis(4);

/// A server could not be met.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach a server at {address}: {why}")]
pub struct MeetError {
    /// Where.
    pub address: Address,
    /// Why not.
    #[source]
    pub why: LinkError,
}

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

    /// Connects to a server of which only the address is known, and returns its name.
    ///
    /// # Errors
    ///
    /// [`MeetError`] if it cannot be reached, refuses, or is none.
    pub fn meet(&mut self, address: Address) -> Result<NodeId, MeetError> {
        self.meet_within(address, GREETING)
    }

    /// As [`Self::meet`], but a server may take so long to greet, and no longer.
    ///
    /// # Errors
    ///
    /// [`MeetError`]; [`LinkError::Mute`] if it takes longer.
    pub fn meet_within(&mut self, address: Address, patience: Duration) -> Result<NodeId, MeetError> {
        match self.greet(&address, patience) {
            Ok((server, link)) => {
                self.book.insert(server, address);
                self.peers.insert(server, Peer::new(link, true, self.clock.now()));
                Ok(server)
            }
            Err(why) => Err(MeetError { address, why }),
        }
    }

    fn greet(&mut self, address: &Address, patience: Duration) -> Result<(NodeId, Link), LinkError> {
        let mut link = Link::dial(address, self.limits.dead)?;
        self.counters.connections += 1;
        self.append_hello(&mut link, None)?;
        let deadline = self.clock.now() + patience;
        loop {
            let now = self.clock.now();
            if now >= deadline {
                return Err(LinkError::Mute(patience));
            }
            wait_for([&link], Some(deadline.since(now)))?;
            if link.is_connecting() {
                link.established()?;
            }
            self.counters.bytes_sent += link.flush() as u64;
            self.counters.bytes_received += link.receive(false)? as u64;
            let place = link.input.next(HELLO_LIMIT).map_err(|_| LinkError::NotFulmar)?;
            if let Some(place) = place {
                let server = self.judge(link.input.body(place))?;
                return Ok((server, link));
            }
        }
    }

    fn append_hello(&self, link: &mut Link, to: Option<NodeId>) -> Result<(), LinkError> {
        let hello = Hello { protocol: self.protocol, from: None, to }.encode();
        Ok(link.append(HELLO_LIMIT, |output| output.extend_from_slice(&hello))?)
    }

    /// Reads a server's answer to our greeting.
    fn judge(&mut self, answer: &[u8]) -> Result<NodeId, LinkError> {
        match Answer::decode(answer) {
            Some(Answer::Welcome { cluster, server, .. }) => {
                if self.protocol.cluster == ClusterId::ANY {
                    self.protocol.cluster = cluster;
                }
                if self.protocol.cluster == cluster {
                    return Ok(server);
                }
                let ours = self.protocol.cluster;
                Err(LinkError::Refused(format!("it belongs to cluster {cluster}, and not to {ours}")))
            }
            Some(Answer::Refusal(reason)) => Err(LinkError::Refused(reason)),
            None => Err(LinkError::NotFulmar),
        }
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

    /// Waits until a server sends something, or a timer expires.
    fn block(&mut self) -> Result<(), ClientError> {
        let begun = self.clock.now();
        let timeout = self.timers.soonest().map(|deadline| deadline.since(begun));
        if self.peers.is_empty() {
            for (&server, fault) in &self.faults {
                if let LinkError::Refused(reason) = fault {
                    return Err(ClientError::Refused { server, reason: reason.clone() });
                }
            }
            if timeout.is_none() {
                return Err(ClientError::Stuck);
            }
        }
        self.now = begun;
        self.wait_beyond(begun, timeout)?;
        // Messages that have come have been taken up at the end of the wait.
        if self.now == begun {
            self.now = self.clock.now();
        }
        self.spin.learn(self.now.since(begun));
        Ok(())
    }

    fn wait_beyond(&mut self, begun: Time, timeout: Option<Duration>) -> Result<(), ClientError> {
        if let Some(server) = self.only_awaited()
            && let Some(patience) = patience(timeout, self.peers.len() > 1)
        {
            if self.answers_at_once(server, begun, timeout) {
                return Ok(());
            }
            self.read_patiently(server, patience);
            return Ok(());
        }
        wait_for(self.peers.values().map(|peer| &peer.link), timeout).map_err(ClientError::Wait)?;
        self.read_all();
        Ok(())
    }

    /// Looks whether this server answers at once, before sleeping. True if it does, or is gone.
    fn answers_at_once(&mut self, server: NodeId, begun: Time, timeout: Option<Duration>) -> bool {
        let Self { spin, peers, counters, clock, .. } = self;
        let Some(peer) = peers.get_mut(&server) else { return true };
        let received = spin.look(*clock, begun, timeout, || {
            let count = peer.link.receive(false)?;
            counters.bytes_received += count as u64;
            Ok(count > 0)
        });
        match received
            .and_then(|received| if received { self.take_frames(server).map(|()| true) } else { Ok(false) })
        {
            Ok(received) => received,
            Err(why) => {
                self.lose(server, why);
                true
            }
        }
    }

    /// The one server whose answer is out, or that is connected at all, if waiting for it alone is enough.
    fn only_awaited(&self) -> Option<NodeId> {
        let alone = self.peers.len() == 1;
        let mut awaited = self.peers.iter().filter(|(_, peer)| alone || peer.awaited > 0);
        let (&server, peer) = awaited.next()?;
        let enough = awaited.next().is_none() && (alone || !self.others_answer);
        (enough && !peer.link.is_connecting() && peer.link.unsent() == 0).then_some(server)
    }

    /// Blocks in one read of one connection: the shortest way.
    fn read_patiently(&mut self, server: NodeId, patience: Option<Duration>) {
        let Some(peer) = self.peers.get_mut(&server) else { return };
        if peer.patience != patience {
            if let Err(error) = peer.link.set_patience(patience) {
                return self.lose(server, error.into());
            }
            peer.patience = patience;
        }
        let before = self.counters.bytes_received;
        self.read(server, true);
        if self.counters.bytes_received == before && self.peers.len() > 1 {
            self.read_all();
            self.others_answer |= self.counters.bytes_received != before;
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

    /// Asks the process where a server is, and says whether that is elsewhere than was known.
    fn locate(&mut self, server: NodeId) -> bool {
        let known = self.directory.as_ref().and_then(|directory| directory(&self.process, server));
        let address = known.filter(|address| self.book.address(server) != Some(address));
        let is_elsewhere = address.is_some();
        address.into_iter().for_each(|address| self.book.insert(server, address));
        is_elsewhere
    }

    /// Starts to connect to a server, if its address is known and it may be tried.
    fn dial(&mut self, to: NodeId) {
        self.locate(to);
        if to >= FIRST_CLIENT || !self.book.may_dial(to, self.now) {
            return;
        }
        let Some(address) = self.book.address(to) else { return };
        let dialed = Link::dial(address, self.limits.dead).map_err(LinkError::from);
        self.counters.connections += 1;
        let dialed = dialed.and_then(|mut link| {
            self.append_hello(&mut link, Some(to))?;
            Ok(link)
        });
        match dialed {
            Ok(link) => {
                self.peers.insert(to, Peer::new(link, false, self.now));
            }
            Err(why) => {
                self.book.failed(to, self.now);
                self.faults.insert(to, why);
                self.disconnected.push(to);
            }
        }
    }
}

/// How long one read may wait so that a timer is not late, and that other connections are heard if there are some: a
/// power of two of milliseconds, since setting it takes a system call and most waits end long before. Nothing if less
/// than a millisecond is left.
fn patience(timeout: Option<Duration>, others: bool) -> Option<Option<Duration>> {
    let Some(timeout) = timeout.into_iter().chain(others.then_some(DEAF)).min() else { return Some(None) };
    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let power = milliseconds.checked_ilog2()?;
    Some(Some(Duration::from_millis(1 << power.min(20))))
}

fn wanted(link: &Link) -> PollFlags {
    match (link.is_connecting(), link.unsent()) {
        (true, _) => PollFlags::OUT,
        (false, 0) => PollFlags::IN,
        (false, _) => PollFlags::IN | PollFlags::OUT,
    }
}

/// Waits until something can be done with one of the connections.
fn wait_for<'l>(links: impl IntoIterator<Item = &'l Link>, timeout: Option<Duration>) -> io::Result<()> {
    let mut watched: Vec<PollFd<'_>> =
        links.into_iter().map(|link| PollFd::new(link, wanted(link))).collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a connection that was begun is there, or has failed.
fn is_writable(link: &Link) -> io::Result<bool> {
    let mut watched = [PollFd::new(link, PollFlags::OUT)];
    match poll(&mut watched, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
