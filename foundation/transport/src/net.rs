//! A server's sockets: a source of frames and a drain for frames, on one epoll.
//!
//! Level-triggered epoll by `rustix`, whose calls are safe and add no layer: the loop needs one system call to wait,
//! one to read and one to write, and nothing that another system's poller would.

mod claims;
mod room;
mod sizes;
mod stalls;

use crate::address::{Address, Listener};
use crate::book::Book;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::hello::{Answer, FIRST_CLIENT, HELLO_LIMIT, Hello, Protocol, Refusal};
use crate::keep_alive::{self, KeepAlive, Tail};
use crate::limits::{self, Limits};
use crate::link::{Link, LinkError};
use crate::notice::Notice;
use crate::routes::{Purpose, Routes};
use crate::spin::Spin;
use fulmar_node::{NodeId, Time};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use sizes::Sizes;
use stalls::Progress;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Epoll's name of the waker. Doors and sockets for datagrams are numbered from here on, connections from zero.
const WAKER: u64 = u64::MAX;
const FIRST_DOOR: u64 = 1 << 62;
const FIRST_DATAGRAMS: u64 = 1 << 63;
/// A greeting is whole within this time, or the connection goes.
const GREETING: Duration = Duration::from_secs(5);
/// How often connections are looked through for those that are silent, and for how long a listener rests that the
/// system gave no connection.
const SWEEP: Duration = Duration::from_secs(1);
/// From this size on a message that is not whole counts as one that takes memory.
const LARGE: usize = 1 << 20;

/// How far a connection has come.
///
/// | stage | then |
/// | --- | --- |
/// | `Hello`: accepted, the greeting is to come | `Open`, or refused |
/// | `Answer`: dialed, the greeting is out and messages behind it | `Open`, or refused |
/// | `Open`: messages come and go | |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Hello,
    Answer(NodeId),
    Open(NodeId),
}

#[derive(Debug)]
struct Connection {
    link: Link,
    stage: Stage,
    dialed: bool,
    /// What epoll watches for.
    interest: epoll::EventFlags,
    /// The socket has something to read.
    readable: bool,
    /// In [`Net::ready`].
    ready: bool,
    /// In [`Net::dirty`].
    dirty: bool,
    /// Not read from, since too much is unsent.
    paused: bool,
    /// Not read from, since all together have sent too much that is not whole.
    held: bool,
    /// When it was accepted, or dialed.
    begun: Time,
    heard: Time,
    /// When bytes last left.
    sent: Time,
    /// When a message last came after the greeting.
    spoken: Option<Time>,
    /// When it was last noted that more is on its way.
    more_noted: Time,
    progress: Progress,
}

impl Connection {
    /// The server from which more is on its way than was read, told now and then. It is there, whatever it has said that comes later:
    /// who was long in a turn would take it to be silent.
    fn note_more(&mut self, now: Time) -> Option<NodeId> {
        let peer = match self.stage {
            Stage::Open(peer) if peer < FIRST_CLIENT && self.link.input.has_more() => peer,
            _ => return None,
        };
        let is_due = self.more_noted + keep_alive::INTERVAL <= now;
        is_due.then(|| {
            self.more_noted = now;
            peer
        })
    }

    fn wanted(&self) -> epoll::EventFlags {
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, !self.paused && !self.held);
        wanted.set(epoll::EventFlags::OUT, self.link.is_connecting() || self.link.unsent() > 0);
        wanted
    }
}

#[derive(Debug)]
struct Door {
    socket: OwnedFd,
    /// Watched by epoll: there is room, and the system gives connections.
    open: bool,
}

/// A frame that came. Its bytes are there until the next one is asked for.
pub(crate) struct Frame {
    pub(crate) from: NodeId,
    key: u64,
    place: Range<usize>,
}

pub(crate) struct Net {
    pub(crate) me: NodeId,
    pub(crate) protocol: Protocol,
    limits: Limits,
    /// How many connections may be at their greeting when there are as many as there may be.
    waiting_room: usize,
    epoll: OwnedFd,
    waker: Arc<OwnedFd>,
    doors: Vec<Door>,
    connections: BTreeMap<u64, Connection>,
    /// Each is in `connections`.
    routes: Routes,
    pub(crate) book: Book,
    pub(crate) datagrams: Option<Datagrams>,
    next_key: u64,
    next_client: u32,
    /// Connections that may have frames.
    ready: VecDeque<u64>,
    /// Connections that may have something to send.
    dirty: Vec<u64>,
    /// How much there is of clients' large messages that are not whole, by connection, and in all.
    unread: Sizes,
    /// How much waits to be sent to clients that do not read, as far as it is [`LARGE`].
    backlog: Sizes,
    /// The connection whose message goes on although there is too much, and how much there was of it at the last sweep.
    exempt: Option<(u64, usize)>,
    /// What the last wait has found: names, and what is the matter with them.
    stirred: Vec<(u64, epoll::EventFlags)>,
    pub(crate) now: Time,
    spin: Spin,
    next_sweep: Option<Time>,
    /// When it is to be looked whether what has left for servers was acknowledged.
    next_look: Option<Time>,
    keep_alive: Option<KeepAlive>,
    /// Servers that have said that they are there, and nothing else.
    pub(crate) busy: Vec<NodeId>,
    /// Servers whose connections stand still.
    pub(crate) stalled: Vec<NodeId>,
    /// Servers in whose names somebody came in who is not known to be it.
    pub(crate) claims: Vec<NodeId>,
    /// Whose connections have ended.
    pub(crate) disconnected: Vec<NodeId>,
    pub(crate) counters: Counters,
    pub(crate) notices: Vec<Notice>,
}

impl Net {
    pub(crate) fn new(me: NodeId, protocol: Protocol, limits: Limits) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        Ok(Self {
            me,
            protocol,
            limits,
            waiting_room: limits::waiting_room(limits::descriptors()),
            epoll,
            waker: Arc::new(waker),
            doors: Vec::new(),
            connections: BTreeMap::new(),
            routes: Routes::default(),
            book: Book::default(),
            datagrams: None,
            next_key: 0,
            next_client: FIRST_CLIENT.0,
            ready: VecDeque::new(),
            dirty: Vec::new(),
            unread: Sizes::default(),
            backlog: Sizes::default(),
            exempt: None,
            stirred: Vec::new(),
            now: Time::ZERO,
            spin: Spin::new(limits.spin),
            next_sweep: None,
            next_look: None,
            keep_alive: None,
            busy: Vec::new(),
            stalled: Vec::new(),
            claims: Vec::new(),
            disconnected: Vec::new(),
            counters: Counters::default(),
            notices: Vec::new(),
        })
    }

    /// Has other servers hear of this one though a turn takes long.
    pub(crate) fn keep_alive(&mut self, clock: Clock) -> io::Result<()> {
        if self.limits.busy > Duration::ZERO {
            self.keep_alive = Some(KeepAlive::start(clock, self.limits.busy)?);
        }
        Ok(())
    }

    pub(crate) fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    pub(crate) fn listen(&mut self, Listener(socket): Listener) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let name = FIRST_DOOR + self.doors.len() as u64;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(name), epoll::EventFlags::IN)?;
        self.doors.push(Door { socket, open: true });
        Ok(())
    }

    pub(crate) fn add_datagrams(&mut self, datagrams: Datagrams) -> io::Result<()> {
        for (name, socket) in (FIRST_DATAGRAMS..).zip(datagrams.sockets()) {
            epoll::add(&self.epoll, socket, epoll::EventData::new_u64(name), epoll::EventFlags::IN)?;
        }
        self.datagrams = Some(datagrams);
        Ok(())
    }

    /// Waits until something can be done, but not beyond `deadline`, and begins to do it.
    pub(crate) fn wait(&mut self, clock: Clock, deadline: Option<Time>) -> io::Result<()> {
        self.keep_alive.iter().for_each(KeepAlive::end_turn);
        let begun = clock.now();
        let deadline = deadline.into_iter().chain(self.next_sweep).chain(self.next_look).min();
        let timeout = match deadline {
            _ if !self.ready.is_empty() => Some(Duration::ZERO),
            deadline => deadline.map(|deadline| deadline.since(begun)),
        };
        self.stirred.clear();
        if !self.look(clock, begun, timeout)? {
            self.poll(timeout)?;
        }
        let now = clock.now();
        self.spin.learn(now.since(begun));
        self.keep_alive.iter().for_each(|keep_alive| keep_alive.begin_turn(now));
        self.begin_turn(now);
        Ok(())
    }

    /// Looks whether something is to be done at once, before sleeping.
    fn look(&mut self, clock: Clock, begun: Time, timeout: Option<Duration>) -> io::Result<bool> {
        let Self { spin, epoll, stirred, .. } = self;
        spin.look(clock, begun, timeout, || {
            poll(epoll, stirred, Some(Duration::ZERO))?;
            Ok(!stirred.is_empty())
        })
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        poll(&self.epoll, &mut self.stirred, timeout)
    }

    /// Notes what the wait has found.
    fn begin_turn(&mut self, now: Time) {
        self.now = now;
        let mut stirred = std::mem::take(&mut self.stirred);
        for (name, flags) in stirred.drain(..) {
            if name == WAKER {
                // That it cannot be read means that it was read.
                let _ = rustix::io::read(&*self.waker, &mut [0; 8]);
            } else if let Some(at) = index(name, FIRST_DATAGRAMS) {
                self.datagrams.iter_mut().for_each(|datagrams| datagrams.stir(at));
            } else if let Some(at) = index(name, FIRST_DOOR) {
                self.accept(at);
            } else {
                self.stir(name, flags);
            }
        }
        self.stirred = stirred;
        if self.next_sweep.is_some_and(|time| time <= now) {
            self.sweep();
        }
        if self.next_look.is_some_and(|time| time <= now) {
            self.look_for_stalls();
        }
    }

    /// A connection can be read from, or written to, or has failed; reading tells.
    fn stir(&mut self, key: u64, flags: epoll::EventFlags) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if connection.link.is_connecting()
            && let Err(error) = connection.link.established()
        {
            return self.close(key, error.into());
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.soil(key);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.readable = true;
            }
            self.queue(key);
        }
    }

    fn queue(&mut self, key: u64) {
        if let Some(connection) = self.connections.get_mut(&key)
            && !std::mem::replace(&mut connection.ready, true)
        {
            self.ready.push_back(key);
        }
    }

    fn soil(&mut self, key: u64) {
        if let Some(connection) = self.connections.get_mut(&key)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    fn accept(&mut self, at: usize) {
        let most = self.limits.connections + self.waiting_room;
        let mut first = 0;
        while self.connections.len() < most || self.clear_waiting(&mut first) {
            let accepted = match accept_with(&self.doors[at].socket, SocketFlags::CLOEXEC) {
                Ok(socket) => Link::accepted(socket, self.limits.dead),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => {
                    self.notices.push(Notice::CannotAccept(error.into()));
                    break;
                }
            };
            // An error here is a connection that has ended already.
            let added =
                accepted.map_err(LinkError::from).and_then(|link| self.add(link, Stage::Hello, false));
            if let Err(why) = added {
                self.notices.push(Notice::Unknown { address: "an unknown address".into(), why });
            }
        }
        self.set_door(at, false);
    }

    fn set_door(&mut self, at: usize, open: bool) {
        let door = &mut self.doors[at];
        if door.open != open {
            let name = epoll::EventData::new_u64(FIRST_DOOR + at as u64);
            let interest = if open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
            if epoll::modify(&self.epoll, &door.socket, name, interest).is_ok() {
                door.open = open;
            }
        }
        self.plan_sweep();
    }

    fn plan_sweep(&mut self) {
        self.next_sweep.get_or_insert(self.now + SWEEP);
    }

    fn add(&mut self, link: Link, stage: Stage, dialed: bool) -> Result<u64, LinkError> {
        let mut connection = Connection {
            link,
            stage,
            dialed,
            interest: epoll::EventFlags::empty(),
            readable: false,
            ready: false,
            dirty: false,
            paused: false,
            held: false,
            begun: self.now,
            heard: self.now,
            sent: self.now,
            spoken: None,
            more_noted: self.now,
            progress: Progress::new(self.now),
        };
        let key = self.next_key;
        connection.interest = connection.wanted();
        let name = epoll::EventData::new_u64(key);
        epoll::add(&self.epoll, &connection.link, name, connection.interest)?;
        self.next_key += 1;
        self.counters.connections += 1;
        self.connections.insert(key, connection);
        self.plan_sweep();
        Ok(key)
    }

    /// Closes connections that say nothing, opens doors that were shut.
    fn sweep(&mut self) {
        self.next_sweep = None;
        let now = self.now;
        let late = |connection: &Connection| match connection.stage {
            Stage::Hello | Stage::Answer(_) => {
                // What came during a long turn, and was not looked at, may be a greeting.
                let is_unread = connection.readable && connection.heard == connection.begun;
                let is_late = now.since(connection.begun) >= GREETING && !is_unread;
                is_late.then_some(LinkError::Mute(GREETING))
            }
            Stage::Open(peer) if peer >= FIRST_CLIENT => {
                let silent = now.since(connection.heard);
                self.limits.idle.filter(|&idle| silent >= idle).map(LinkError::Idle)
            }
            Stage::Open(_) => None,
        };
        let late: Vec<_> =
            self.connections.iter().filter_map(|(&key, connection)| Some((key, late(connection)?))).collect();
        for (key, why) in late {
            self.close(key, why);
        }
        self.settle_claims();
        for at in 0..self.doors.len() {
            self.set_door(at, true);
        }
        if let Some((key, before)) = self.exempt {
            let own = self.unread.get(key);
            self.exempt = (own > before).then_some((key, own));
            self.let_go();
        }
        let greeting = |connection: &Connection| !matches!(connection.stage, Stage::Open(_));
        let watch = self.limits.idle.is_some() && !self.connections.is_empty();
        self.next_sweep = None;
        let waiting =
            self.exempt.is_some() || self.routes.has_claimants() || self.connections.values().any(greeting);
        if watch || waiting || self.doors.iter().any(|door| !door.open) {
            self.plan_sweep();
        }
    }

    /// The next frame of those that have come.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        while let Some(&key) = self.ready.front() {
            match self.advance(key) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(why) => self.close(key, why),
            }
            self.ready.pop_front();
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.ready = false;
            }
        }
        None
    }

    /// The bytes of a frame.
    pub(crate) fn body(&self, frame: &Frame) -> &[u8] {
        self.connections
            .get(&frame.key)
            .map_or(&[], |connection| connection.link.input.body(frame.place.clone()))
    }

    /// A frame was no message: nothing good follows.
    pub(crate) fn reject(&mut self, frame: &Frame, why: LinkError) {
        self.close(frame.key, why);
    }

    /// Whether the bounds for clients hold of a connection: it is one of a client, or of somebody who may have invented the server's name that it
    /// says. Nobody has if this server has dialed it, or sends on it to a server whose address is known.
    fn is_limited(&self, key: u64) -> bool {
        self.connections.get(&key).is_some_and(|connection| match connection.stage {
            Stage::Open(peer) if peer < FIRST_CLIENT => {
                let is_route = || self.book.address(peer).is_some() && self.routes.get(peer) == Some(key);
                !connection.dialed && !is_route()
            }
            Stage::Open(_) => true,
            _ => false,
        })
    }

    /// Whether who has sent a part of a large message has to wait for others to send theirs.
    fn is_full_for(&mut self, key: u64) -> bool {
        let own = self.unread.get(key);
        self.unread.sum() - own > self.limits.unread && self.exempt.get_or_insert((key, own)).0 != key
    }

    fn hold(&mut self, key: u64) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.held = true;
            self.soil(key);
            self.plan_sweep();
        }
    }

    fn note_unread(&mut self, key: u64, bytes: usize) {
        self.unread.set(key, bytes);
        self.counters.unread_peak = self.counters.unread_peak.max(self.unread.sum() as u64);
    }

    /// A large message is whole, or will never be: there is room for others.
    fn forget_unread(&mut self, key: u64) {
        if self.unread.set(key, 0) == 0 {
            return;
        }
        self.exempt = self.exempt.filter(|(exempt, _)| *exempt != key);
        self.let_go();
    }

    /// Looks again whether those that are held may be read from.
    fn let_go(&mut self) {
        let held = |(&key, connection): (&u64, &Connection)| connection.held.then_some(key);
        let held: Vec<u64> = self.connections.iter().filter_map(held).collect();
        for key in held {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.held = false;
            }
            self.soil(key);
            self.queue(key);
        }
    }

    /// Who is limited and has more unsent is not read from.
    fn unsent_bound(&self) -> usize {
        let is_too_much = self.backlog.sum() > self.limits.unread;
        if is_too_much { self.limits.unsent.min(LARGE) } else { self.limits.unsent }
    }

    /// Reads a connection if there is something to read, and takes its next frame.
    fn advance(&mut self, key: u64) -> Result<Option<Frame>, LinkError> {
        loop {
            let (bound, is_limited) = (self.unsent_bound(), self.is_limited(key));
            let Some(connection) = self.connections.get_mut(&key) else { return Ok(None) };
            if is_limited && connection.link.unsent() > bound {
                connection.paused = true;
                self.soil(key);
                return Ok(None);
            }
            let open = matches!(connection.stage, Stage::Open(_));
            let limit = if open { self.limits.message } else { HELLO_LIMIT };
            let next = connection.link.input.next(limit);
            if connection.link.input.take_keep_alive()
                && let Stage::Open(peer) = connection.stage
                && peer < FIRST_CLIENT
            {
                connection.progress.excuse(self.now);
                self.busy.push(peer);
            }
            let Some(place) = next.transpose() else {
                if !connection.readable {
                    self.busy.extend(connection.note_more(self.now));
                    return Ok(None);
                }
                let pending = connection.link.input.pending();
                if is_limited && pending >= LARGE && self.is_full_for(key) {
                    self.hold(key);
                    return Ok(None);
                }
                let Some(connection) = self.connections.get_mut(&key) else { return Ok(None) };
                connection.readable = false;
                let count = connection.link.receive(false)?;
                connection.heard = self.now;
                self.counters.bytes_received += count as u64;
                if is_limited && pending + count >= LARGE {
                    self.note_unread(key, pending + count);
                }
                continue;
            };
            self.forget_unread(key);
            let Some(connection) = self.connections.get_mut(&key) else { return Ok(None) };
            match (connection.stage, place) {
                (Stage::Open(from), place) => {
                    connection.spoken = Some(self.now);
                    return Ok(Some(Frame { from, key, place: place? }));
                }
                (Stage::Hello, place) => {
                    let hello = match &place {
                        Ok(place) => Hello::decode(connection.link.input.body(place.clone())),
                        Err(_) => Err(Refusal::NotFulmar),
                    };
                    let call = hello.as_ref().ok().and_then(|hello| Some((hello.from?, hello.to?)));
                    if let Err(why) = hello.and_then(|hello| self.welcome(key, hello)) {
                        self.refuse(key, call, why);
                    }
                }
                (Stage::Answer(peer), place) => {
                    let place = place.map_err(|_| LinkError::NotFulmar)?;
                    match Answer::decode(connection.link.input.body(place)) {
                        Some(Answer::Welcome { .. }) => {
                            connection.stage = Stage::Open(peer);
                            let address = connection.link.other_end();
                            let tail = connection.link.tail();
                            self.book.reached(peer);
                            self.notices.push(Notice::Connected { peer, address });
                            self.watch(key, tail);
                            self.answered(peer, key);
                        }
                        Some(Answer::Refusal(reason)) => return Err(LinkError::Refused(reason)),
                        None => return Err(LinkError::NotFulmar),
                    }
                }
            }
        }
    }

    /// Lets in who greets properly.
    fn welcome(&mut self, key: u64, hello: Hello) -> Result<(), Refusal> {
        hello.judge(self.protocol, self.me)?;
        let count = self.routes.count();
        // Of servers there are few, and clients wait for what they say to each other.
        let is_server = hello.from.is_some_and(|peer| self.book.address(peer).is_some());
        if count >= self.limits.connections && !is_server && !self.make_room() {
            return Err(Refusal::Full(count));
        }
        let peer = hello.from.unwrap_or_else(|| self.name_client());
        let answer = Answer::Welcome { cluster: self.protocol.cluster, server: self.me, you: peer };
        let answer = answer.encode(self.protocol.version);
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        connection.stage = Stage::Open(peer);
        if peer < FIRST_CLIENT && self.keep_alive.is_some() {
            // Without, it says nothing during a turn.
            let _ = connection.link.share();
        }
        let appended = connection.link.append(HELLO_LIMIT, |output| output.extend_from_slice(&answer));
        appended.expect("a greeting is short");
        let address = connection.link.other_end();
        let tail = connection.link.tail();
        self.watch(key, tail);
        self.admit(peer, key);
        self.notices.push(Notice::Connected { peer, address });
        self.soil(key);
        Ok(())
    }

    /// There is a connection with another server.
    fn watch(&self, key: u64, tail: Option<Arc<Tail>>) {
        if let Some((keep_alive, tail)) = self.keep_alive.as_ref().zip(tail) {
            keep_alive.add(key, tail);
        }
    }

    /// A name that no connection has.
    fn name_client(&mut self) -> NodeId {
        loop {
            let name = NodeId(self.next_client);
            // The last name stands for nobody.
            let after = self.next_client + 1;
            self.next_client = if after == u32::MAX { FIRST_CLIENT.0 } else { after };
            if self.routes.get(name).is_none() {
                return name;
            }
        }
    }

    fn refuse(&mut self, key: u64, call: Option<(NodeId, NodeId)>, why: Refusal) {
        let Some(mut connection) = self.connections.remove(&key) else { return };
        let answer = Answer::Refusal(why.to_string()).encode(self.protocol.version);
        connection.link.part_with(&answer);
        self.notices.push(Notice::Refused { address: connection.link.other_end(), call, why });
    }

    /// Ends a connection.
    fn close(&mut self, key: u64, why: LinkError) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.keep_alive.iter().for_each(|keep_alive| keep_alive.remove(key));
        self.forget_unread(key);
        self.backlog.set(key, 0);
        let notice = match connection.stage {
            Stage::Hello => Notice::Unknown { address: connection.link.other_end(), why },
            Stage::Open(peer) => Notice::Closed { peer, why },
            Stage::Answer(peer) => {
                let call = self.routes.end_call(peer, key);
                match call {
                    // Another call follows, or the connection goes on.
                    Some(Purpose::Renew) => return,
                    Some(Purpose::Verify) => self.routes.owe(peer),
                    _ => self.book.failed(peer, self.now),
                }
                // It may have connected by itself meanwhile.
                match self.book.address(peer).cloned().filter(|_| call.is_none()) {
                    Some(address) => Notice::Unreachable { peer, address, why },
                    None => Notice::Closed { peer, why },
                }
            }
        };
        self.notices.push(notice);
        if let Stage::Open(peer) | Stage::Answer(peer) = connection.stage
            && self.routes.end(peer, key)
            && matches!(connection.stage, Stage::Open(_))
        {
            self.disconnected.push(peer);
        }
    }

    /// Appends a message to what is to be sent to a peer, connecting to it first if need be, or drops it.
    pub(crate) fn send(&mut self, to: NodeId, body: impl FnOnce(&mut Vec<u8>)) {
        let route = self.routes.get(to).or_else(|| self.dial(to));
        let is_limited = route.is_some_and(|key| self.is_limited(key));
        let Some((key, connection)) = route.and_then(|key| Some((key, self.connections.get_mut(&key)?)))
        else {
            self.counters.dropped += 1;
            return;
        };
        let bound = if is_limited { self.limits.unsent.saturating_mul(2) } else { self.limits.unsent };
        if connection.link.unsent() > bound {
            self.counters.dropped += 1;
            return;
        }
        if let Err(why) = connection.link.append(self.limits.message, body) {
            self.counters.dropped += 1;
            self.notices.push(Notice::TooLong { to, why });
            return;
        }
        self.counters.messages_sent += 1;
        self.counters.unsent_peak = self.counters.unsent_peak.max(connection.link.unsent() as u64);
        self.soil(key);
    }

    /// Whether a peer is connected, or about to be.
    pub(crate) fn is_routed(&self, peer: NodeId) -> bool {
        self.routes.get(peer).is_some()
    }

    /// Notes where a server is. An address that nobody has any more may be silent for seconds: an attempt there is given up.
    pub(crate) fn locate(&mut self, node: NodeId, address: Address) {
        if self.book.address(node) != Some(&address) {
            for key in self.routes.get(node).into_iter().chain(self.routes.call(node)) {
                let known = self.connections.get(&key);
                if known.is_some_and(|known| matches!(known.stage, Stage::Answer(_))) {
                    self.close(key, LinkError::Moved);
                }
            }
        }
        self.book.insert(node, address);
    }

    /// Starts to connect to a server, if its address is known and it may be tried.
    fn dial(&mut self, to: NodeId) -> Option<u64> {
        if !self.book.may_dial(to, self.now) {
            return None;
        }
        let address = self.book.address(to)?.clone();
        match self.call(to, &address) {
            Ok(key) => {
                self.routes.set(to, key);
                self.notices.push(Notice::Connecting { peer: to, address });
                Some(key)
            }
            Err(why) => {
                self.book.failed(to, self.now);
                self.notices.push(Notice::Unreachable { peer: to, address, why });
                None
            }
        }
    }

    /// Begins a connection to a server.
    fn call(&mut self, to: NodeId, address: &Address) -> Result<u64, LinkError> {
        let hello = Hello { protocol: self.protocol, from: Some(self.me), to: Some(to) }.encode();
        let mut link = Link::dial(address, self.limits.dead)?;
        if self.keep_alive.is_some() {
            link.share()?;
        }
        link.append(HELLO_LIMIT, |output| output.extend_from_slice(&hello))?;
        self.add(link, Stage::Answer(to), true)
    }

    /// Sends what can be sent, with one write for each connection and one for all datagrams.
    pub(crate) fn flush(&mut self) {
        self.datagrams.iter_mut().for_each(Datagrams::flush);
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            connection.dirty = false;
            let count = connection.link.flush();
            if count > 0 {
                connection.sent = self.now;
            }
            self.counters.bytes_sent += count as u64;
            let unsent = connection.link.unsent();
            let is_client = matches!(connection.stage, Stage::Open(peer) if peer >= FIRST_CLIENT);
            if !is_client {
                self.note_left(key, count);
            }
            self.backlog.set(key, if unsent < LARGE || !self.is_limited(key) { 0 } else { unsent });
            self.counters.backlog_peak = self.counters.backlog_peak.max(self.backlog.sum() as u64);
            let bound = self.unsent_bound();
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            let resumed = connection.paused && connection.link.unsent() <= bound / 2;
            connection.paused &= !resumed;
            let wanted = connection.wanted();
            if connection.interest != wanted {
                let name = epoll::EventData::new_u64(key);
                match epoll::modify(&self.epoll, &connection.link, name, wanted) {
                    Ok(()) => connection.interest = wanted,
                    Err(error) => {
                        self.close(key, error.into());
                        continue;
                    }
                }
            }
            if resumed {
                self.queue(key);
            }
        }
        self.dirty = dirty;
    }
}

/// Waits once, and appends what is found to `stirred`.
fn poll(
    epoll: &OwnedFd,
    stirred: &mut Vec<(u64, epoll::EventFlags)>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut events = [const { MaybeUninit::uninit() }; 128];
    match epoll::wait(epoll, &mut events, timeout.as_ref()) {
        Ok((events, _)) => {
            stirred.extend(events.iter().map(|event| (event.data.u64(), event.flags)));
            Ok(())
        }
        Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Which of those that are named from `first` on it is.
fn index(name: u64, first: u64) -> Option<usize> {
    usize::try_from(name.checked_sub(first)?).ok()
}
