//! Sharing a database among the processes of one machine.
//!
//! Who opens a database alone has it in its own process, which is fastest. It also listens, at a door beside the data. A
//! second process finds the database held and knocks; thereupon the holder closes it, starts a server, which opens it, and
//! goes on as one of the server's clients, like the second process. The server inherits the lock, so that nobody else gets
//! hold of the database between the two. Transactions that are open in the holder go on too:
//! all that they have in the storage is their snapshot, and the server keeps that. The server ends when it has had no
//! client for some seconds.
//!
//! ```text
//!   alone                      knocked at                   shared
//!   process ── LOCK, engine    process ─┐                   process ──┐
//!      └ door "holder"                  ├ starts a server             ├── door "server": LOCK, engine
//!                              second ──┘                   second  ──┘
//! ```
//!
//! Whoever is killed leaves at most a socket that nobody listens to: the kernel frees the lock, and whoever gets it next
//! removes the socket. If the server is killed, the next client that asks it for something starts another.

mod program;

use crate::codes::{CANTOPEN, Failure};
use crate::fork::ClosedInChild;
use fulmar_cluster::{Connection, Door, Doors, Remote};
use fulmar_dbt::{Database, Error, Exclusion, Held, Options, Site, Store, Timestamp};
use fulmar_locks::Mutex;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process that opens a database looks for somebody who has it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client that has lost the server tries to find or start one, before it waits a little and tries again.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long a holder that is knocked at lets what is going on go on.
const HANDOVER: Duration = Duration::from_secs(5);
/// How long somebody waits who has found the database between two holders.
const PAUSE: Duration = Duration::from_millis(5);
/// How long until a holder that could not let a visitor in tries to again.
const AGAIN: Duration = Duration::from_millis(50);
/// What a holder says that has given the database to a server.
const MOVED: &str = "moved";

/// A database in a directory, as this process has it.
pub(crate) struct Shared {
    path: PathBuf,
    options: Options,
    /// Why this process only reads it, as it was when it was opened, if it does.
    frozen: Option<String>,
    state: Mutex<State>,
}

enum State {
    /// In this process.
    Here(Here),
    /// On the server.
    There,
}

/// Whether the system has refused because this process may not write there.
fn may_not_write(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, Error::Io { source, .. } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}

/// What is dropped first is done first: whoever finds the database unlocked shall not find our door any more.
struct Here {
    /// None if there can be none: on a file system without sockets, say.
    door: Option<OpenDoor>,
    _lock: Option<ClosedInChild>,
    database: Database,
    users: Vec<Weak<Site>>,
}

impl Here {
    fn new(database: Database, users: Vec<Weak<Site>>) -> Self {
        Self { door: None, _lock: database.lock().map(ClosedInChild::new), database, users }
    }
}

impl Shared {
    /// Takes hold of the database, or else finds the server that has it.
    pub(crate) fn open(path: &Path, options: Options) -> Result<Arc<Self>, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let shared = |state, frozen| {
            let options = options.clone();
            Arc::new(Self { path: path.into(), options, frozen, state: Mutex::new(state) })
        };
        loop {
            let opened = match Database::open(path, &options) {
                Err(error) if may_not_write(&error) => match Database::open_frozen(path, &options) {
                    Ok(database) => {
                        let here = State::Here(Here::new(database, Vec::new()));
                        return Ok(shared(here, Some(error.to_string())));
                    }
                    Err(held @ Error::Held { .. }) => Err(held),
                    // What it cannot do either explains less.
                    Err(_) => Err(error),
                },
                opened => opened,
            };
            let held = match opened {
                Ok(database) => {
                    let shared = shared(State::Here(Here::new(database, Vec::new())), None);
                    shared.listen();
                    return Ok(shared);
                }
                Err(error @ Error::Held { .. }) => error,
                Err(error) => return Err(error.into()),
            };
            match knock(path, deadline) {
                Answer::Server => return Ok(shared(State::There, None)),
                Answer::Moved | Answer::Nobody if Instant::now() < deadline => thread::sleep(PAUSE),
                Answer::No(why) => return Err(refused(&held, &why)),
                _ => return Err(refused(&held, "it does not answer")),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn frozen(&self) -> Option<&str> {
        self.frozen.as_deref()
    }

    /// The database, for one more user.
    pub(crate) fn user(&self) -> Result<Database, Failure> {
        let mut state = self.state.lock();
        if let State::Here(here) = &mut *state
            && let Some(database) = here.database.for_another()
        {
            here.users.retain(|user| user.strong_count() > 0);
            here.users.push(Arc::downgrade(database.site()));
            return Ok(database);
        }
        drop(state);
        let unreachable =
            |why| Failure::new(CANTOPEN, format!("{}: cannot reach its server: {why}", self.path.display()));
        let store = self.remote().map_err(|why| unreachable(why.to_string()))?;
        store.newest().map_err(|error| unreachable(error.to_string()))?;
        Ok(Database::remote(store))
    }

    /// A connection to the server, made when it is needed.
    fn remote(&self) -> io::Result<Arc<Remote<Connection>>> {
        let doors = Doors::of(&self.path).ok();
        let (path, options) = (self.path.clone(), self.options.clone());
        let connection = Connection::found_by(move || {
            let doors = doors.as_ref()?;
            serve(&path, &options).then(|| doors.address(Door::Server))
        })?;
        Ok(Arc::new(Remote::new(&self.path, connection)))
    }

    /// Begins to listen for others who want the database.
    fn listen(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if let State::Here(here) = &mut *state {
            here.door = OpenDoor::open(&self.path, Arc::downgrade(self)).ok();
        }
    }

    /// Gives the database to a server, whose client this process becomes; not if that has to wait for too long.
    fn hand_over(self: &Arc<Self>) -> Result<bool, String> {
        let mut state = self.state.lock();
        let State::Here(here) = &mut *state else { return Ok(true) };
        let program = program::find()?;
        let users: Vec<_> = here.users.iter().filter_map(Weak::upgrade).collect();
        let until = Instant::now() + HANDOVER;
        let mut held: Vec<(Held<'_>, Vec<Timestamp>, Arc<Remote<Connection>>)> = Vec::new();
        for user in &users {
            let Some(user) = user.hold(until) else { return Ok(false) };
            let snapshots = user.snapshots();
            held.push((user, snapshots, self.remote().map_err(|why| why.to_string())?));
        }
        for (user, _, server) in &mut held {
            user.move_to(Arc::clone(server) as Arc<dyn Store>);
        }
        let lock = here.database.pass_lock().map_err(|error| error.to_string())?.map(Arc::new);
        let _closed = lock.as_ref().map(|lock| ClosedInChild::new(lock.as_raw_fd()));
        // Closes the engine.
        *state = State::There;
        let oldest = held.iter().flat_map(|(_, snapshots, _)| snapshots).min().copied();
        let keep = match program::start(&program, &self.path, &self.options, lock.as_deref(), oldest) {
            Ok(keep) => keep,
            Err(why) => {
                let snapshots: Vec<_> =
                    held.iter().flat_map(|(_, snapshots, _)| snapshots).copied().collect();
                let options = Options { lock, ..self.options.clone() };
                if let Ok(database) = Database::open_keeping(&self.path, &options, &snapshots) {
                    for (user, ..) in &mut held {
                        user.return_to(&database);
                    }
                    let users = users.iter().map(Arc::downgrade).collect();
                    *state = State::Here(Here::new(database, users));
                    drop(held);
                    drop(state);
                    self.listen();
                    return Err(why);
                }
                // What fails next will say what has happened to it.
                None
            }
        };
        for (user, snapshots, server) in &held {
            if user.excludes() {
                // The server has no other client yet who could.
                let _ = server.exclude(Exclusion::Begin);
            }
            for at in snapshots {
                // If the server does not know it, the transaction will hear so when it goes on.
                let _ = server.reopen_snapshot(*at);
            }
            for (at, tree, number) in user.numbers() {
                let _ = server.pick(tree, number, at);
            }
            user.leave_to_its_user();
        }
        drop(keep);
        Ok(true)
    }
}

/// What happens to somebody who knocks.
enum Answer {
    /// A server has the database.
    Server,
    /// Its holder has given it to one.
    Moved,
    /// Its holder will not.
    No(String),
    /// Nobody is there, or nobody who answers.
    Nobody,
}

/// Asks whoever has the database to share it.
fn knock(path: &Path, deadline: Instant) -> Answer {
    let Ok(doors) = Doors::of(path) else { return Answer::Nobody };
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let not_ours = || Answer::No("(nothing, as this process may not write to its socket)".into());
    match doors.knock(Door::Server) {
        Ok(_) => return Answer::Server,
        Err(error) if refused(&error) => return not_ours(),
        Err(_) => {}
    }
    let mut holder = match doors.knock(Door::Holder) {
        Ok(holder) => holder,
        Err(error) if refused(&error) => return not_ours(),
        Err(_) => return Answer::Nobody,
    };
    let mut answer = String::new();
    let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
    let read = holder.set_read_timeout(Some(left)).and_then(|()| holder.read_to_string(&mut answer));
    match answer.as_str() {
        MOVED => Answer::Moved,
        "" => Answer::Nobody,
        _ if read.is_err() => Answer::Nobody,
        why => Answer::No(why.into()),
    }
}

/// Sees to it that a server has the database; whether one has.
fn serve(path: &Path, options: &Options) -> bool {
    let deadline = Instant::now() + ATTEMPT;
    loop {
        match knock(path, deadline) {
            Answer::Server => return true,
            Answer::Moved => continue,
            Answer::No(_) => return false,
            Answer::Nobody => {}
        }
        // If it cannot open the database, somebody else has just done so.
        let started = program::find().and_then(|program| program::start(&program, path, options, None, None));
        if started.is_err() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(PAUSE);
        }
    }
}

fn refused(held: &Error, why: &str) -> Failure {
    Failure::new(CANTOPEN, format!("{held}; asked to share it, that process says: {why}"))
}

/// Where others knock who want the database that this process has.
struct OpenDoor {
    doors: Doors,
    _listener: ClosedInChild,
    /// A thread waits at it.
    listener: Arc<UnixListener>,
}

impl OpenDoor {
    fn open(path: &Path, shared: Weak<Shared>) -> io::Result<Self> {
        let doors = Doors::of(path)?;
        let listener = Arc::new(doors.listen(Door::Holder)?);
        let door = Self {
            doors,
            _listener: ClosedInChild::new(listener.as_raw_fd()),
            listener: Arc::clone(&listener),
        };
        thread::Builder::new().name("fulmar holder".into()).spawn(move || wait(&listener, &shared))?;
        Ok(door)
    }
}

impl Drop for OpenDoor {
    fn drop(&mut self) {
        let _ = self.doors.remove(Door::Holder);
        // Wakes the thread, which then ends.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

/// Waits for somebody to knock. Ends when the database is not here any more.
fn wait(listener: &UnixListener, shared: &Weak<Shared>) {
    loop {
        let visitor = match listener.accept() {
            Ok((visitor, _)) => visitor,
            // It was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // The application has no descriptors left, say: the visitor waits.
            Err(_) => {
                thread::sleep(AGAIN);
                continue;
            }
        };
        let Some(shared) = shared.upgrade() else { return };
        if has_left(&visitor) {
            continue;
        }
        let answer = match shared.hand_over() {
            Ok(true) => MOVED.to_owned(),
            // The visitor knocks again.
            Ok(false) => continue,
            Err(why) => why,
        };
        // Who has left meanwhile need not hear it.
        let _ = send(&visitor, answer.as_bytes(), SendFlags::NOSIGNAL);
    }
}

/// Whether a visitor has given up, while this process was stopped, say.
fn has_left(mut visitor: &UnixStream) -> bool {
    let read = visitor.set_nonblocking(true).and_then(|()| visitor.read(&mut [0]));
    let _ = visitor.set_nonblocking(false);
    read.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when the application has no descriptors left.
    #[test]
    fn who_could_not_let_anybody_in_waits_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("door");
        let listener = Arc::new(UnixListener::bind(&path).expect("a socket"));
        // Nobody is there: that is an error here.
        listener.set_nonblocking(true).expect("it can be told");
        let listens = Arc::clone(&listener);
        let holder = thread::spawn(move || wait(&listens, &Weak::new()));
        let has_ended = (0..100_000).any(|_| {
            thread::yield_now();
            holder.is_finished()
        });
        assert!(!has_ended);
        let mut visitor = UnixStream::connect(&path).expect("it listens");
        // The database is not here any more.
        assert_eq!(visitor.read(&mut [0]).expect("it was let in"), 0);
        holder.join().expect("it ends");
    }
}
