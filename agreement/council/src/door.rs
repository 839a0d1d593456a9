//! Where members call, and what they send is read.

use crate::caller::PATIENCE;
use crate::council::Council;
use crate::frame::{Frame, ReadError};
use crate::greeting;
use crate::happened::{Happened, Inbound};
use crate::key::Identity;
use crate::news::Fault;
use crate::tls::{self, Answered};
use fulmar_files::{Stranger, Threshold};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// So many may be on the threshold at a time, whom nobody knows yet. When more come, who has stood there for the longest has to go: a member
/// needs a moment, and whoever says nothing, or a byte now and then, keeps nobody out.
const STRANGERS: usize = 256;
/// How long until somebody is let in who could not be.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Door {
    pub(crate) council: Arc<Council>,
    pub(crate) identity: Arc<Identity>,
    /// Whether members may still come.
    pub(crate) is_open: AtomicBool,
    /// Whether all is over.
    pub(crate) is_over: AtomicBool,
    /// Who is on the threshold.
    strangers: Arc<Threshold<TcpStream>>,
    serials: AtomicU64,
}

impl Door {
    pub(crate) fn new(council: Arc<Council>, identity: Arc<Identity>) -> Self {
        Self {
            council,
            identity,
            is_open: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
            strangers: Arc::new(Threshold::new(STRANGERS)),
            serials: AtomicU64::new(0),
        }
    }

    /// Lets members in until all is over, which [`Door::close`] tells.
    #[expect(clippy::disallowed_methods, reason = "each connection is read by a thread of its own")]
    pub(crate) fn run(self: &Arc<Self>, listener: &TcpListener, tell: &Sender<Happened>) {
        for stream in listener.incoming() {
            if self.is_over.load(SeqCst) {
                return;
            }
            // It has gone again before it was let in, or there are no descriptors left for it for a while.
            let Ok((stream, same)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
                thread::sleep(PAUSE);
                continue;
            };
            let serial = self.serials.fetch_add(1, SeqCst);
            let stranger = self.strangers.enter(same);
            let (door, tell) = (self.clone(), tell.clone());
            // If there is no thread, it is as if it had not come.
            let _ = thread::Builder::new().spawn(move || door.admit(serial, stream, stranger, &tell));
        }
    }

    /// Ends it.
    pub(crate) fn close(&self, listener: &TcpListener) {
        self.is_over.store(true, SeqCst);
        // It waits for somebody to come.
        let _ = listener.local_addr().and_then(TcpStream::connect);
    }

    fn admit(&self, serial: u64, stream: TcpStream, stranger: Stranger<TcpStream>, tell: &Sender<Happened>) {
        let from = stream.peer_addr().map_or_else(|_| "somebody".into(), |address| address.to_string());
        let met = self.meet(stream);
        drop(stranger);
        match met {
            Ok((member, stream)) => {
                if let Err(why) = Self::read(serial, member, stream, tell) {
                    let _ = tell.send(Happened::Refused(from, why.to_string()));
                }
            }
            Err(why) => {
                // Nobody listens any more when all is over.
                let _ = tell.send(Happened::Refused(from, why.to_string()));
            }
        }
    }

    /// Finds out who that is.
    fn meet(&self, stream: TcpStream) -> Result<(usize, Answered), greeting::Refused> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let own = self.identity.public();
        let keys = self.council.members().iter().map(|member| member.key).filter(|key| *key != own);
        let (mut stream, key) = tls::answer(stream, &self.identity, keys.collect())?;
        greeting::answer(&mut stream, self.council.digest(), self.is_open.load(SeqCst))?;
        let member = self.council.number(&key).ok_or_else(|| io::Error::other("it is no member"))?;
        stream.sock.set_read_timeout(None)?;
        Ok((member, stream))
    }

    /// Reads what a member sends until that ends.
    fn read(serial: u64, member: usize, mut stream: Answered, tell: &Sender<Happened>) -> io::Result<()> {
        let (go_on, may): (Sender<()>, Receiver<()>) = channel();
        let inbound = Inbound { serial, go_on, stream: stream.sock.try_clone()? };
        // Nobody listens any more when all is over; nor to one that another connection of this member's has replaced.
        let tell = |happened| tell.send(happened);
        if tell(Happened::Heard(member, inbound)).is_err() {
            return Ok(());
        }
        while may.recv().is_ok() {
            let (happened, is_end) = match Frame::read(&mut stream) {
                Ok(frame) => (Happened::Frame(member, serial, frame), false),
                Err(ReadError::Lost) => (Happened::Ended(member, serial, Fault::Lost), true),
                Err(ReadError::TooLarge) => (Happened::Ended(member, serial, Fault::TooLarge), true),
                Err(ReadError::Malformed) => (Happened::Ended(member, serial, Fault::Malformed), true),
            };
            if tell(happened).is_err() || is_end {
                return Ok(());
            }
        }
        Ok(())
    }
}
