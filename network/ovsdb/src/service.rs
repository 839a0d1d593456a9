//! A server on sockets: one thread that waits for clients, and a handle for the rest of the process.
#![expect(clippy::disallowed_methods, reason = "here the clock is read, so that it is not elsewhere")]

mod connection;

use crate::{Changes, ConnectionId, Database, Draft, Error, Outbox, Server, Store};
use connection::{Connection, Socket, TOO_MUCH, WAITING};
use fulmar_files::{Door, Visit};
use fulmar_node::{Random, Time};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// So many clients at once by each door: those that come by TCP do not keep those on this machine out.
const CLIENTS: usize = 500;
/// So many are let in at once: those who are there already have a turn, too.
const ARRIVALS: usize = 64;
/// A client that has never said anything for so long makes room for another, or that has not read all it is told for so long while too
/// much waits for all …
const MUTE: Duration = Duration::from_secs(1);
/// … or that has said nothing for so long since.
const IDLE: Duration = Duration::from_secs(60);
/// For so long requests are done before it is looked who else has come.
const ROUND: Duration = Duration::from_millis(50);
/// How long nobody is let in after the system could not let somebody in.
const REST: Duration = Duration::from_secs(1);

/// Chance that no other process has: what a server's names of rows come from.
///
/// # Errors
/// If the system gives none.
pub fn chance() -> io::Result<Random> {
    fulmar_files::chance_u64().map(Random::new)
}

/// A database that is served. [`Service::run`] is one thread's work.
pub struct Service {
    shared: Arc<Shared>,
    doors: Vec<Door>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// How many have ever connected.
    count: u64,
    /// Until when nobody is let in.
    rests: Time,
    /// Of those who came by each door, whose request was done last.
    served: Vec<ConnectionId>,
}

/// What the thread that serves has in common with handles.
struct Shared {
    state: Mutex<State>,
    /// Readable when there is something to do that sockets do not tell of.
    waker: OwnedFd,
    origin: Instant,
}

struct State {
    server: Server,
    /// What is still to be done.
    out: Outbox,
    subscribers: Vec<Sender<Arc<Changes>>>,
    stops: bool,
}

impl Shared {
    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    fn wake(&self) {
        // If it cannot be written to, it is readable.
        let _ = rustix::io::write(&self.waker, &[1; 8]);
    }
}

impl State {
    /// Tells those of this process what was committed; who does not listen any more is forgotten.
    fn publish(&mut self) {
        for changes in self.out.commits.drain(..) {
            self.subscribers.retain(|subscriber| subscriber.send(changes.clone()).is_ok());
        }
    }
}

/// The database, for those who live in the same process. Any thread may use it while the service runs.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Looks at what is committed. Everybody else waits meanwhile.
    pub fn read<T>(&self, look: impl FnOnce(&Database) -> T) -> T {
        look(self.0.state.lock().server.database())
    }

    /// Looks at what is committed, and hears of all that is committed after that, in order.
    pub fn subscribe<T>(&self, look: impl FnOnce(&Database) -> T) -> (T, Receiver<Arc<Changes>>) {
        let mut state = self.0.state.lock();
        let (sender, receiver) = channel();
        state.subscribers.push(sender);
        (look(state.server.database()), receiver)
    }

    /// A transaction: what `make` does, or nothing if it fails. Everybody else waits meanwhile.
    ///
    /// # Errors
    /// What `make` says, or [`Error`] of what it comes to.
    pub fn transact<T>(
        &self,
        make: impl FnOnce(&mut Draft<'_>, &mut Random) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.0.state.lock();
        let State { server, out, .. } = &mut *state;
        let made = server.transact(self.0.now(), make, out);
        state.publish();
        self.0.wake();
        made
    }

    /// Ends [`Service::run`].
    pub fn stop(&self) {
        self.0.state.lock().stops = true;
        self.0.wake();
    }
}

impl Service {
    /// The server of this database; nobody can reach it yet.
    ///
    /// # Errors
    /// If the system is out of file descriptors.
    pub fn new(store: Store, chance: Random) -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let server = Server::new(store, chance);
        let state = State { server, out: Outbox::default(), subscribers: Vec::new(), stops: false };
        let shared = Shared { state: Mutex::new(state), waker, origin: Instant::now() };
        Ok(Self {
            shared: Arc::new(shared),
            doors: Vec::new(),
            connections: BTreeMap::new(),
            count: 0,
            rests: Time::ZERO,
            served: Vec::new(),
        })
    }

    /// Lets clients in by a socket of this name: `ovs-vsctl --db=unix:PATH`. What a server that is gone has left there is removed.
    ///
    /// # Errors
    /// If it cannot be made, or another server is there.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        self.serve(Door::unix(path)?);
        Ok(())
    }

    /// Lets clients in by TCP: `ovs-vsctl --db=tcp:HOST:PORT`. Who can reach it may change everything.
    ///
    /// # Errors
    /// If the listener cannot be made to not block.
    pub fn listen_tcp(&mut self, listener: TcpListener) -> io::Result<()> {
        self.serve(Door::tcp(listener)?);
        Ok(())
    }

    fn serve(&mut self, door: Door) {
        self.doors.push(door);
        self.served.push(ConnectionId(0));
    }

    /// For the rest of the process.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Serves until it is stopped. `tell` hears why connections are closed that did not close themselves.
    ///
    /// # Errors
    /// If the system cannot tell when there is something to do.
    pub fn run(&mut self, mut tell: impl FnMut(&str)) -> io::Result<()> {
        let shared = self.shared.clone();
        while !shared.state.lock().stops {
            let (visitors, readable) = self.wait()?;
            let mut state = shared.state.lock();
            let State { server, out, .. } = &mut *state;
            let now = shared.now();
            for at in visitors {
                self.admit(at, now, (server, out), &mut tell);
            }
            for id in readable {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.read(now, |bytes| server.take(now, id, bytes));
                    if connection.is_ending() {
                        server.disconnect(id, out);
                    }
                }
            }
            server.expire(now, out);
            // What comes of transactions that wait is there at once, whoever reads it.
            if has_room(&self.waiting(Connection::waiting)) {
                server.retry(now, out);
            }
            self.deliver(state, &mut tell);
            self.write(&mut tell);
            self.answer(&mut tell);
        }
        Ok(())
    }

    /// Waits until there is something to do: doors at which somebody is, and connections that can be read.
    fn wait(&self) -> io::Result<(Vec<usize>, Vec<ConnectionId>)> {
        let now = self.shared.now();
        let (waiting, backlogs) = (self.waiting(Connection::waiting), self.waiting(Connection::backlog));
        let lets_in = self.rests <= now;
        let is_due = self.connections.values().any(|connection| {
            let door = connection.door();
            let is_asked = connection.may_ask(waiting[door]) || connection.may_be_told(backlogs[door]);
            is_asked || connection.is_done()
        });
        let (deadline, is_behind) = {
            let server = &self.shared.state.lock().server;
            (server.deadline(), server.is_behind())
        };
        let deadlines = [
            deadline,
            (is_behind && has_room(&waiting)).then_some(now),
            (!lets_in).then_some(self.rests),
            is_due.then_some(now),
            self.slow(&waiting).filter_map(|connection| Some(connection.behind()? + MUTE)).min(),
        ];
        let timeout = deadlines.into_iter().flatten().min().map(|deadline| timespec(deadline.since(now)));
        let mut fds = vec![PollFd::new(&self.shared.waker, PollFlags::IN)];
        let door_flags = if lets_in { PollFlags::IN } else { PollFlags::empty() };
        fds.extend(self.doors.iter().map(|door| PollFd::new(door, door_flags)));
        // Who waits for nothing is not asked, as it would say that it is gone, again and again.
        let polled = self
            .connections
            .iter()
            .filter_map(|(id, connection)| Some((*id, connection.poll(waiting[connection.door()])?)));
        let (ids, polled): (Vec<_>, Vec<_>) = polled.unzip();
        fds.extend(polled);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        if !fds[0].revents().is_empty() {
            // That it cannot be read means that it was read.
            let _ = rustix::io::read(&self.shared.waker, &mut [0; 8]);
        }
        let mut stirred = fds[1..].iter().map(|fd| !fd.revents().is_empty());
        let visitors = (0..self.doors.len()).zip(stirred.by_ref()).filter(|(_, stirred)| *stirred);
        let visitors = visitors.map(|(at, _)| at).collect();
        let readable = ids.into_iter().zip(stirred).filter(|(_, stirred)| *stirred);
        Ok((visitors, readable.map(|(id, _)| id).collect()))
    }

    /// Has what the server wants to be said waiting for whom it is said to, and tells this process what was committed.
    fn deliver(&mut self, mut state: MutexGuard<'_, State>, tell: &mut impl FnMut(&str)) {
        state.publish();
        let Outbox { messages, closed, .. } = std::mem::take(&mut state.out);
        drop(state);
        for (id, message) in messages {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.send(message);
            }
        }
        for (id, why) in closed {
            if let Some(connection) = self.connections.get_mut(&id) {
                tell(&format!("closed the connection of {}: {why}", connection.peer()));
                connection.end();
            }
        }
    }

    /// Does what clients have asked for, if there is room for what comes of it: by turns for those of each door, so that many at one keep nobody
    /// waiting at another, and no longer than a while, as others may have come meanwhile.
    fn answer(&mut self, tell: &mut impl FnMut(&str)) {
        let end = self.shared.now() + ROUND;
        loop {
            let mut is_done = true;
            for door in 0..self.doors.len() {
                let waiting = self.waiting(Connection::waiting);
                if let Some(id) = self.next(door, waiting[door]) {
                    is_done = false;
                    self.answer_one(door, id, tell);
                }
            }
            if is_done || self.shared.now() >= end {
                return;
            }
        }
    }

    /// Whose request is done next of those who came by a door, for whom so much waits.
    fn next(&self, door: usize, waiting: usize) -> Option<ConnectionId> {
        let served = self.served[door];
        let after = self.connections.range((Bound::Excluded(served), Bound::Unbounded));
        let mut all = after.chain(self.connections.range(..=served));
        let asks = |connection: &Connection| connection.door() == door && connection.may_ask(waiting);
        all.find(|(_, connection)| asks(connection)).map(|(id, _)| *id)
    }

    /// Does one thing that a client has asked for.
    fn answer_one(&mut self, door: usize, id: ConnectionId, tell: &mut impl FnMut(&str)) {
        self.served[door] = id;
        let shared = self.shared.clone();
        let now = shared.now();
        let mut state = shared.state.lock();
        let State { server, out, .. } = &mut *state;
        if !server.answer(now, id, out)
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.is_answered();
        }
        self.deliver(state, tell);
        let mut backlogs = self.waiting(Connection::backlog);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.write(now, &mut backlogs[door]);
        }
    }

    /// The sums of this for those who came by each door.
    fn waiting(&self, bytes: impl Fn(&Connection) -> usize) -> Vec<usize> {
        let mut waiting = vec![0; self.doors.len()];
        for connection in self.connections.values() {
            waiting[connection.door()] += bytes(connection);
        }
        waiting
    }

    /// Those who do not keep up, of those who came by doors by which too much waits.
    fn slow(&self, waiting: &[usize]) -> impl Iterator<Item = &Connection> {
        let is_full = |connection: &&Connection| waiting[connection.door()] >= WAITING;
        self.connections.values().filter(is_full).filter(|connection| connection.behind().is_some())
    }

    /// Lets those in who are at a door.
    fn admit(
        &mut self,
        door: usize,
        now: Time,
        (server, out): (&mut Server, &mut Outbox),
        tell: &mut impl FnMut(&str),
    ) {
        for _ in 0..ARRIVALS {
            let (socket, peer): (Box<dyn Socket>, String) = match self.doors[door].accept() {
                Ok(Some((Visit::Tcp(stream), peer))) => (Box::new(stream), peer),
                Ok(Some((Visit::Unix(stream), peer))) => (Box::new(stream), peer),
                Ok(None) => return,
                Err(why) => {
                    tell(&format!("nobody is let in for a second: {why}"));
                    self.rests = now + REST;
                    return;
                }
            };
            if self.by(door).count() >= CLIENTS {
                let Some(idlest) = self.idlest(door, now) else {
                    tell(&format!("{peer} is not let in: {CLIENTS} others are busy here"));
                    continue;
                };
                if let Some(connection) = self.connections.remove(&idlest) {
                    let (peer, silent) = (connection.peer(), now.since(connection.heard().1).as_secs());
                    tell(&format!("closed the connection of {peer}: silent for {silent} s, and others wait"));
                }
                server.disconnect(idlest, out);
            }
            self.count += 1;
            let id = ConnectionId(self.count);
            server.connect(id, door);
            self.connections.insert(id, Connection::new(socket, peer, door, now));
        }
    }

    /// Those who came by this door.
    fn by(&self, door: usize) -> impl Iterator<Item = (&ConnectionId, &Connection)> {
        self.connections.iter().filter(move |(_, connection)| connection.door() == door)
    }

    /// Who of those who came by this door is to make room for another: somebody idle, if anybody is.
    fn idlest(&self, door: usize, now: Time) -> Option<ConnectionId> {
        let is_idle = |(has_spoken, heard)| now.since(heard) >= if has_spoken { IDLE } else { MUTE };
        let heard = self.by(door).map(|(id, connection)| (connection.heard(), *id));
        heard.filter(|(heard, _)| is_idle(*heard)).min().map(|(_, id)| id)
    }

    /// Sends what can be sent, and lets go of who is done and who does not keep up.
    fn write(&mut self, tell: &mut impl FnMut(&str)) {
        let now = self.shared.now();
        let mut backlogs = self.waiting(Connection::backlog);
        let mut gone = Vec::new();
        for (id, connection) in &mut self.connections {
            connection.write(now, &mut backlogs[connection.door()]);
            let unread = connection.unread();
            if unread > TOO_MUCH {
                let peer = connection.peer();
                tell(&format!(
                    "closed the connection of {peer}: it has not read {unread} bytes: expected {TOO_MUCH} at most"
                ));
                gone.push(*id);
            } else if connection.is_done() {
                gone.push(*id);
            }
        }
        let mut waiting = self.waiting(Connection::waiting);
        // Of those who have not kept up for long those for whom most waits, until others have room.
        let is_late =
            |connection: &&Connection| connection.behind().is_some_and(|since| now.since(since) >= MUTE);
        let mut late: Vec<_> =
            self.connections.iter().filter(|(_, connection)| is_late(connection)).collect();
        late.sort_by_key(|(_, connection)| connection.waiting());
        while let Some((id, connection)) = late.pop() {
            if waiting[connection.door()] >= WAITING && !gone.contains(id) {
                waiting[connection.door()] -= connection.waiting();
                let (peer, unread) = (connection.peer(), connection.waiting());
                tell(&format!(
                    "closed the connection of {peer}: it has not read {unread} bytes, and others wait"
                ));
                gone.push(*id);
            }
        }
        let mut state = self.shared.state.lock();
        let State { server, out, .. } = &mut *state;
        for id in gone {
            self.connections.remove(&id);
            server.disconnect(id, out);
        }
        // Others have got the locks of those who are gone.
        if !out.messages.is_empty() {
            self.shared.wake();
        }
    }
}

/// Whether less waits by each door than may.
fn has_room(waiting: &[usize]) -> bool {
    waiting.iter().all(|waiting| *waiting < WAITING)
}

fn timespec(duration: Duration) -> Timespec {
    // So that it does not wake up just before.
    let duration = duration + Duration::from_nanos(1);
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
