//! A server's sockets: a source of frames and a drain for frames, on one epoll.
//!
//! Level-triggered epoll by `rustix`, whose calls are safe and add no layer: the loop needs one system call to wait,
//! one to read and one to write, and nothing that another system's poller would.

mod accepting;
mod bounds;
mod claims;
mod dialing;
mod greeting;
mod reading;
mod room;
mod sending;
mod sizes;
mod stalls;
mod sweeping;

use crate::book::Book;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::hello::{FIRST_CLIENT, Protocol};
use crate::keep_alive::KeepAlive;
use crate::limits::{self, Limits};
use crate::link::{Link, LinkError};
use crate::notice::Notice;
use crate::routes::{Purpose, Routes};
use crate::spin::Spin;
use accepting::Door;
use fulmar_node::{NodeId, Time};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use sizes::Sizes;
use stalls::Progress;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Epoll's name of the waker. Doors and sockets for datagrams are numbered from here on, connections from zero.
const WAKER: u64 = u64::MAX;
const FIRST_DOOR: u64 = 1 << 62;
const FIRST_DATAGRAMS: u64 = 1 << 63;
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
    fn wanted(&self) -> epoll::EventFlags {
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, !self.paused && !self.held);
        wanted.set(epoll::EventFlags::OUT, self.link.is_connecting() || self.link.unsent() > 0);
        wanted
    }
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
            && self.routes.end(peer, key, |key| claims::standing(&self.connections, key))
        {
            self.inherited(peer);
            if matches!(connection.stage, Stage::Open(_)) {
                self.disconnected.push(peer);
            }
        }
    }

    /// Whether a peer is connected, or about to be.
    pub(crate) fn is_routed(&self, peer: NodeId) -> bool {
        self.routes.get(peer).is_some()
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
