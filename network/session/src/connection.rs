//! A session on a stream: one thread's work.

use crate::channel::Channel;
use crate::closed::Closed;
use crate::listings::Listing;
use crate::place::Place;
use crate::session::Session;
use crate::shared::{Line, Shared};
use crate::task::carry_out;
use fulmar_files::Stranger;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("the other side has closed the connection")]
    Hangup,
    #[error("{0}")]
    Closed(#[from] Closed),
    #[error("{0}")]
    Lost(#[from] io::Error),
    #[error("stopped")]
    Stopped,
}

struct Connection<'a> {
    shared: &'a Shared,
    place: &'a Place,
    line: Arc<Line>,
    listing: Listing<'a>,
    channel: Box<dyn Channel>,
    /// What is being sent, of which so many bytes are.
    sending: Vec<u8>,
    sent: usize,
    /// The other side had not read what was sent when it was sent last.
    is_held: bool,
    is_known: bool,
    /// Of somebody who has come and not said hello.
    stranger: Option<Stranger<OwnedFd>>,
}

/// Carries on a session until it is over, and tells why. The other side is a stranger no more when it has said hello.
pub(crate) fn serve(
    shared: &Shared,
    place: &Arc<Place>,
    channel: Box<dyn Channel>,
    stranger: Option<Stranger<OwnedFd>>,
) -> End {
    let line = match shared.enter(place) {
        Ok(line) => line,
        Err(why) => return End::Lost(why),
    };
    let (sending, sent, is_held, is_known) = (Vec::new(), 0, false, false);
    let listing = Listing::new(&shared.listings, line.clone());
    let mut connection =
        Connection { shared, place, line, listing, channel, sending, sent, is_held, is_known, stranger };
    let end = match connection.run() {
        Ok(never) => match never {},
        Err(end) => end,
    };
    // What can be told at once still is.
    let _ = connection.write();
    connection.channel.end();
    shared.leave(&connection.line, connection.is_known);
    end
}

enum Never {}

impl Connection<'_> {
    fn run(&mut self) -> Result<Never, End> {
        loop {
            let has_read = self.read()?;
            // After that: while the switch was busy, the other side may have said that it is there, or what it has said may be its greeting.
            if !has_read || self.session().has_greeted() {
                self.session().expire(self.shared.clock.now())?;
            }
            self.listing.expire(self.shared.clock.now())?;
            self.work()?;
            let was_full = !self.session().listens();
            self.write()?;
            let unread = self.session().unread();
            self.listing.has_unread(unread);
            // Then there may be more to do of what was received before.
            let has_room_again = was_full && self.session().listens();
            if self.place.stop.is_set() {
                return Err(End::Stopped);
            }
            if !has_read && !has_room_again {
                self.wait()?;
            }
        }
    }

    fn session(&self) -> impl std::ops::DerefMut<Target = Session> {
        self.line.session.lock()
    }

    /// Reads once, so that what was read is done before more is.
    fn read(&mut self) -> Result<bool, End> {
        if !self.session().listens() {
            return Ok(false);
        }
        let mut bytes = [0; 16 << 10];
        match self.channel.read(&mut bytes) {
            Ok(0) => Err(End::Hangup),
            Ok(length) => {
                self.session().receive(self.shared.clock.now(), &bytes[..length]);
                Ok(true)
            }
            Err(why) if is_idle(&why) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    fn work(&mut self) -> Result<(), End> {
        let Shared { switch, election, .. } = self.shared;
        let is_overheard = self.shared.is_overheard(self.place);
        while !self.place.stop.is_set() {
            if is_overheard {
                self.session().overhear();
            }
            let Line { id, standing, session, .. } = &*self.line;
            let has_turn = self.listing.is_making();
            let next_task = |role| session.lock().next_task(role, has_turn);
            let next = carry_out(*id, standing, &**switch, election, next_task);
            if is_overheard {
                let overheard = self.session().overheard();
                self.shared.copy(&overheard);
            }
            let Some((origin, answer)) = next? else {
                if self.session().wants_turn() && self.listing.begin() {
                    continue;
                }
                break;
            };
            self.session().answer(&origin, answer);
            if has_turn {
                let unread = self.session().unread();
                self.listing.made(unread, self.shared.clock.now());
            }
        }
        let version = self.session().version();
        if let Some(version) = version.filter(|_| !self.is_known) {
            self.is_known = true;
            self.stranger = None;
            self.shared.connected(&self.line, version);
        }
        Ok(())
    }

    /// Sends what can be sent.
    fn write(&mut self) -> io::Result<()> {
        loop {
            if self.sent == self.sending.len() {
                self.sending.clear();
                self.sent = 0;
                self.line.session.lock().take(&mut self.sending);
                if self.shared.is_overheard(self.place) {
                    self.shared.copy(&self.sending);
                }
            }
            if self.sending.is_empty() {
                break;
            }
            match self.channel.write(&self.sending[self.sent..]) {
                Ok(length) => {
                    self.sent += length;
                    if std::mem::take(&mut self.is_held) {
                        self.line.session.lock().was_read(self.shared.clock.now());
                    }
                }
                Err(why) if is_idle(&why) => {
                    self.is_held = true;
                    return Ok(());
                }
                Err(why) => return Err(why),
            }
        }
        if self.channel.wants_write() {
            match self.channel.flush() {
                Err(why) if !is_idle(&why) => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let mut flags = PollFlags::empty();
        let (listens, deadline) = {
            let session = self.session();
            (session.listens(), session.deadline())
        };
        flags.set(PollFlags::IN, listens);
        flags.set(PollFlags::OUT, self.sent < self.sending.len() || self.channel.wants_write());
        let deadline = deadline.into_iter().chain(self.listing.deadline()).min();
        let mut fds = vec![PollFd::new(&self.line.signal, PollFlags::IN)];
        // Who has gone would be told of again and again.
        if !flags.is_empty() {
            fds.push(PollFd::new(&self.channel, flags));
        }
        self.place.stop.wait(&fds, self.shared.clock.now(), deadline)?;
        self.line.signal.lower();
        Ok(())
    }
}

/// Whether there is nothing to be read or written just now.
fn is_idle(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
