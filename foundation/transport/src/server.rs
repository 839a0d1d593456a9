//! One process on one thread, with its sockets, its log and its user.

use crate::address::{Address, Listener};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::deadlines::Deadlines;
use crate::hello::{FIRST_CLIENT, Protocol};
use crate::limits::{Limits, descriptors};
use crate::net::Net;
use crate::notice::Notice;
use crate::wire::Wire;
use fulmar_node::{Lsn, MulticastId, NodeId, Outbox, Process, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// So often in one turn a process and its user may answer themselves before others are heard.
const ROUNDS: u32 = 16;

/// How often a server that is to stop is asked whether it may.
const STEP: Duration = Duration::from_millis(5);

/// Where a process's records are kept.
pub trait Log<R> {
    /// Appends records behind those appended before.
    ///
    /// # Errors
    ///
    /// What the disk says. The server ends.
    fn append(&mut self, records: &[R]) -> io::Result<()>;

    /// Returns when all that was appended survives a crash.
    ///
    /// # Errors
    ///
    /// What the disk says. The server ends: what a disk did not take once it need not take the second time, even if it
    /// says so.
    fn sync(&mut self) -> io::Result<()>;
}

/// Keeps nothing: for a process that begins anew when it restarts.
impl<R> Log<R> for () {
    fn append(&mut self, _records: &[R]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A process's local user: hears what the process tells, and may ask it for something in turn.
pub trait User<P: Process> {
    /// The process tells something. Requests that are added are made in the same turn.
    fn event(&mut self, event: P::Event, requests: &mut Vec<P::Request>);

    /// Something happened to a connection. Requests that are added are made in the same turn.
    fn notice(&mut self, notice: Notice, requests: &mut Vec<P::Request>) {
        let _ = (notice, requests);
    }
}

/// Hears nothing.
impl<P: Process> User<P> for () {
    fn event(&mut self, _event: P::Event, _requests: &mut Vec<P::Request>) {}
}

/// Why a server ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The log failed. What was in it and had been acknowledged before is safe; nothing else was acknowledged.
    #[error("the log failed: {0}")]
    Log(#[source] io::Error),
    /// The system does not let it wait for its sockets.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[source] io::Error),
}

type Work<P> = Box<dyn FnOnce(&mut P, Time, &mut Outbox<P>) + Send>;
type Directory<P> = Box<dyn Fn(&P, NodeId) -> Option<Address> + Send>;
type DatagramDirectory<P> = Box<dyn Fn(&P, NodeId) -> Option<SocketAddr> + Send>;

enum Command<P: Process> {
    Request(P::Request),
    Work(Work<P>),
    Address(NodeId, Address),
    Count(Sender<Counters>),
    Stop,
}

/// A way to a running server from other threads. It need not be running yet.
pub struct Handle<P: Process> {
    commands: Sender<Command<P>>,
    waker: Arc<OwnedFd>,
}

impl<P: Process> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone(), waker: Arc::clone(&self.waker) }
    }
}

impl<P: Process> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl<P: Process> Handle<P> {
    /// Hands the process a request. False if the server has ended.
    pub fn request(&self, request: P::Request) -> bool {
        self.command(Command::Request(request))
    }

    /// Runs something on the server's thread between two steps of the process. False if the server has ended.
    pub fn run(&self, work: impl FnOnce(&mut P, Time, &mut Outbox<P>) + Send + 'static) -> bool {
        self.command(Command::Work(Box::new(work)))
    }

    /// What something finds on the server's thread between two steps of the process. Waits for that; nothing if the server has ended.
    pub fn ask<T: Send + 'static>(&self, look: impl FnOnce(&P, Time) -> T + Send + 'static) -> Option<T> {
        let (answer, found) = mpsc::channel();
        let is_asked = self.run(move |process, now, _| {
            // Who asked may have ended meanwhile.
            let _ = answer.send(look(process, now));
        });
        is_asked.then(|| found.recv().ok()).flatten()
    }

    /// Tells the server another server's address; it no longer waits for an answer from any before. False if the server has
    /// ended.
    pub fn address(&self, node: NodeId, address: Address) -> bool {
        self.command(Command::Address(node, address))
    }

    /// What the server has counted. Waits for the end of its turn; nothing if the server has ended.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        let (answer, counters) = mpsc::channel();
        self.command(Command::Count(answer));
        counters.recv().ok()
    }

    /// Ends the server after this turn. What is unsent then is sent as far as the network takes it.
    pub fn stop(&self) {
        self.command(Command::Stop);
    }

    /// What ends the server as soon as `step` says that it may, which is run again and again between two steps of the process;
    /// after so long at the latest; and at once when it is called again. It does not wait for the end.
    pub fn retiring(
        self,
        within: Duration,
        step: impl Fn(&mut P, Time, &mut Outbox<P>) -> bool + Send + Sync + 'static,
    ) -> impl FnMut() + Send + 'static
    where
        P: 'static,
        P::Request: Send,
    {
        let step = Arc::new(step);
        let mut is_called = false;
        move || {
            let until = Instant::now() + within;
            let (handle, step) = (self.clone(), Arc::clone(&step));
            let wait = move || {
                while !handle.is_done(&step, until) {
                    thread::sleep(STEP);
                }
                handle.stop();
            };
            if std::mem::replace(&mut is_called, true)
                || thread::Builder::new().name("stop".into()).spawn(wait).is_err()
            {
                self.stop();
            }
        }
    }

    /// What the step says, or that it says nothing in time.
    fn is_done(
        &self,
        step: &Arc<impl Fn(&mut P, Time, &mut Outbox<P>) -> bool + Send + Sync + 'static>,
        until: Instant,
    ) -> bool {
        let (answer, done) = mpsc::channel();
        let step = Arc::clone(step);
        self.run(move |process, now, out| {
            // Nobody hears it when the time is over.
            let _ = answer.send(step(process, now, out));
        });
        done.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap_or(true)
    }

    fn command(&self, command: Command<P>) -> bool {
        // The waker cannot be written to when it is full, and then the server is awake.
        self.commands.send(command).is_ok() && {
            let _ = rustix::io::write(&*self.waker, &[1; 8]);
            true
        }
    }
}

/// A process with its sockets: [`Self::run`] is one thread's work.
pub struct Server<P: Process> {
    process: P,
    out: Outbox<P>,
    timers: Deadlines<P::Timer>,
    groups: BTreeMap<MulticastId, Vec<NodeId>>,
    directory: Option<Directory<P>>,
    datagram_directory: Option<DatagramDirectory<P>>,
    net: Net,
    clock: Clock,
    /// Messages of the process to itself: encoded like all others, since they need not be clonable.
    own: Vec<Vec<u8>>,
    requests: Vec<P::Request>,
    commands: Receiver<Command<P>>,
    handle: Handle<P>,
    stopped: bool,
}

impl<P: Process> fmt::Debug for Server<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("me", &self.net.me).finish_non_exhaustive()
    }
}

impl<P: Process<Message: Wire>> Server<P> {
    /// The server `me`, which runs a process that has been made from so many records.
    ///
    /// # Errors
    ///
    /// What the system says if it gives no more descriptors.
    ///
    /// # Panics
    ///
    /// If `me` is a client's name, or the cluster has none.
    pub fn new(me: NodeId, protocol: Protocol, limits: Limits, process: P, logged: Lsn) -> io::Result<Self> {
        assert!(me < FIRST_CLIENT, "{me} is a client's name");
        assert!(protocol.cluster != crate::ClusterId::ANY, "a cluster without a name");
        let net = Net::new(me, protocol, limits.within(descriptors()))?;
        let (sender, commands) = mpsc::channel();
        Ok(Self {
            process,
            out: Outbox::after(logged),
            timers: Deadlines::new(),
            groups: BTreeMap::new(),
            directory: None,
            datagram_directory: None,
            handle: Handle { commands: sender, waker: net.waker() },
            net,
            clock: Clock::start(),
            own: Vec::new(),
            requests: Vec::new(),
            commands,
            stopped: false,
        })
    }

    /// Accepts connections from this socket as well.
    ///
    /// # Errors
    ///
    /// What the system says if the socket cannot be waited for.
    pub fn listen(&mut self, listener: impl Into<Listener>) -> io::Result<()> {
        self.net.listen(listener.into())
    }

    /// Notes where another server is, in place of any address before.
    pub fn address(&mut self, node: NodeId, address: Address) {
        self.net.book.insert(node, address);
    }

    /// Asks the process itself where servers are that it sends to and that are not connected. What it does not know is
    /// looked up among the addresses that were noted.
    pub fn directory(&mut self, directory: impl Fn(&P, NodeId) -> Option<Address> + Send + 'static) {
        self.directory = Some(Box::new(directory));
    }

    /// Sends and receives messages that fit by datagrams, too.
    ///
    /// # Errors
    ///
    /// What the system says if the sockets cannot be waited for.
    pub fn datagrams(&mut self, datagrams: Datagrams) -> io::Result<()> {
        self.net.add_datagrams(datagrams)
    }

    /// Asks the process itself where servers receive datagrams whose address was not noted with [`Datagrams::address`].
    pub fn datagram_directory(
        &mut self,
        directory: impl Fn(&P, NodeId) -> Option<SocketAddr> + Send + 'static,
    ) {
        self.datagram_directory = Some(Box::new(directory));
    }

    /// Says whom a multicast reaches that does not go by datagram: it goes to each by itself.
    pub fn group(&mut self, group: MulticastId, members: impl IntoIterator<Item = NodeId>) {
        self.groups.insert(group, members.into_iter().collect());
    }

    /// A way to this server from other threads.
    pub fn handle(&self) -> Handle<P> {
        self.handle.clone()
    }

    /// Runs the process until it is stopped, and returns it.
    ///
    /// # Errors
    ///
    /// [`ServeError`]: the log has failed, or the system.
    pub fn run(mut self, log: &mut impl Log<P::Record>, user: &mut impl User<P>) -> Result<P, ServeError> {
        self.net.keep_alive(self.clock).map_err(ServeError::Wait)?;
        self.net.now = self.clock.now();
        self.step(P::start);
        self.finish_turn(log, user)?;
        while !self.stopped {
            let deadline = if self.is_finished() { self.timers.soonest() } else { Some(self.net.now) };
            self.net.wait(self.clock, deadline).map_err(ServeError::Wait)?;
            let begun = self.net.now;
            self.receive_datagrams();
            self.receive();
            self.expire(begun);
            self.obey();
            self.finish_turn(log, user)?;
        }
        Ok(self.process)
    }

    /// One step of the process. Its sends wait in connections until the turn ends, its records and events here.
    ///
    /// Each has its own time: if what was heard late in a long turn were heard when the turn began, whoever said it would seem to have been silent.
    fn step(&mut self, step: impl FnOnce(&mut P, Time, &mut Outbox<P>)) {
        self.net.now = self.clock.now();
        step(&mut self.process, self.net.now, &mut self.out);
        self.dispatch();
    }

    fn dispatch(&mut self) {
        let mut sends = std::mem::take(&mut self.out.sends);
        for (to, message) in sends.drain(..) {
            self.send(to, &message);
        }
        self.out.sends = sends;
        let mut multicasts = std::mem::take(&mut self.out.multicasts);
        for (group, message) in multicasts.drain(..) {
            let address = self.net.datagrams.as_ref().and_then(|datagrams| datagrams.of_group(group));
            if self.send_datagram(address, &message) {
                continue;
            }
            for to in self.groups.get(&group).cloned().unwrap_or_default() {
                self.send(to, &message);
            }
        }
        self.out.multicasts = multicasts;
        for (timer, change) in self.out.timers.drain(..) {
            self.timers.change(timer, change);
        }
    }

    /// Encodes a message into what is to be sent to its receiver, which may be the process itself.
    fn send(&mut self, to: NodeId, message: &P::Message) {
        if to == self.net.me {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            self.own.push(bytes);
            return;
        }
        let noted = self.net.datagrams.as_ref().and_then(|datagrams| datagrams.of_server(to));
        let known = || self.datagram_directory.as_ref().and_then(|known| known(&self.process, to));
        let address = noted.or_else(known);
        if self.send_datagram(address, message) {
            return;
        }
        if to < FIRST_CLIENT && !self.net.is_routed(to) {
            self.look_up(to);
        }
        self.net.send(to, |body| message.encode(body));
    }

    /// Asks the process where a server is.
    fn look_up(&mut self, server: NodeId) {
        let known = self.directory.as_ref().and_then(|directory| directory(&self.process, server));
        if let Some(address) = known.filter(|address| self.net.book.address(server) != Some(address)) {
            self.net.book.insert(server, address);
        }
    }

    /// Sends a message by datagram, if there is an address and it fits.
    fn send_datagram(&mut self, address: Option<SocketAddr>, message: &P::Message) -> bool {
        let (me, protocol) = (self.net.me, self.net.protocol);
        let sent = address.zip(self.net.datagrams.as_mut()).and_then(|(address, datagrams)| {
            datagrams.send(address, protocol, me, |body| message.encode(body))
        });
        self.net.counters.messages_sent += u64::from(sent.is_some());
        self.net.counters.bytes_sent += sent.unwrap_or(0) as u64;
        sent.is_some()
    }

    fn receive_datagrams(&mut self) {
        let protocol = self.net.protocol;
        while let Some(datagrams) = &mut self.net.datagrams
            && let Some(from) = datagrams.next(protocol)
        {
            // What is malformed is lost, as a datagram may be.
            match P::Message::decode(datagrams.body()) {
                Ok(message) => {
                    self.net.counters.messages_received += 1;
                    self.step(|process, now, out| process.receive(now, from, message, out));
                }
                Err(_) => self.net.counters.malformed += 1,
            }
        }
        self.net.counters.malformed += self.net.datagrams.as_mut().map_or(0, Datagrams::take_malformed);
    }

    fn receive(&mut self) {
        while let Some(frame) = self.net.next_frame() {
            match P::Message::decode(self.net.body(&frame)) {
                Ok(message) => {
                    self.net.counters.messages_received += 1;
                    self.step(|process, now, out| process.receive(now, frame.from, message, out));
                }
                Err(why) => self.net.reject(&frame, why.into()),
            }
        }
        for peer in std::mem::take(&mut self.net.busy) {
            self.step(|process, now, out| process.busy(now, peer, out));
        }
        for peer in std::mem::take(&mut self.net.stalled) {
            self.look_up(peer);
            self.net.renew(peer);
        }
        for peer in std::mem::take(&mut self.net.claims) {
            if self.net.may_verify(peer) {
                self.look_up(peer);
                self.net.verify(peer);
            }
        }
    }

    /// Lets those timers expire that were due when the turn began: what had come by then was heard, and what has come since was not.
    fn expire(&mut self, begun: Time) {
        for _ in 0..self.timers.due(begun) {
            let Some(timer) = self.timers.expire(begun) else { break };
            self.step(|process, now, out| process.expire(now, timer, out));
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Request(request) => self.requests.push(request),
                Command::Work(work) => self.step(work),
                Command::Address(node, address) => self.net.locate(node, address),
                // Who asked may be gone.
                Command::Count(answer) => drop(answer.send(self.net.counters)),
                Command::Stop => self.stopped = true,
            }
        }
    }

    /// Nothing is left to do without news.
    fn is_finished(&self) -> bool {
        let is_heard = self.net.disconnected.is_empty();
        self.out.is_empty() && self.own.is_empty() && self.requests.is_empty() && is_heard
    }

    /// Makes records durable, tells the user, and lets go of what is to be sent.
    fn finish_turn(
        &mut self,
        log: &mut impl Log<P::Record>,
        user: &mut impl User<P>,
    ) -> Result<(), ServeError> {
        for _ in 0..ROUNDS {
            for bytes in std::mem::take(&mut self.own) {
                let message = P::Message::decode(&bytes).expect("what `encode` writes, `decode` reads");
                let me = self.net.me;
                self.step(|process, now, out| process.receive(now, me, message, out));
            }
            for request in std::mem::take(&mut self.requests) {
                self.step(|process, now, out| process.request(now, request, out));
            }
            if !self.out.records.is_empty() {
                log.append(&self.out.records).and_then(|()| log.sync()).map_err(ServeError::Log)?;
            }
            let events = std::mem::take(&mut self.out.events);
            let durable = (!self.out.records.is_empty()).then(|| self.out.logged());
            self.out.clear();
            if let Some(upto) = durable {
                self.step(|process, now, out| process.durable(now, upto, out));
            }
            for event in events {
                user.event(event, &mut self.requests);
            }
            for peer in std::mem::take(&mut self.net.disconnected) {
                self.step(|process, now, out| process.disconnected(now, peer, out));
            }
            for notice in self.net.notices.drain(..) {
                user.notice(notice, &mut self.requests);
            }
            if self.is_finished() {
                break;
            }
        }
        self.net.flush();
        Ok(())
    }
}
