//! The connection to a member, on which it is sent to: made, and made again while that makes sense.

use crate::council::Council;
use crate::greeting::{self, Refused};
use crate::happened::Happened;
use crate::key::Identity;
use crate::session::Link;
use crate::tls::{self, Called};
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How long a member may take for each step until a connection is made, or for what is sent to leave.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long until it is called again, and how often it is looked whether it is there still.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Caller {
    pub(crate) council: Arc<Council>,
    pub(crate) identity: Arc<Identity>,
    /// Whom it calls.
    pub(crate) member: usize,
    /// What it sends, already as bytes. It ends when nobody can give it more.
    pub(crate) frames: Receiver<Vec<u8>>,
    pub(crate) tell: Sender<Happened>,
}

impl Caller {
    pub(crate) fn run(self) {
        let mut said = String::new();
        loop {
            match self.connect() {
                Ok(stream) => {
                    said.clear();
                    self.tell(Happened::Link(Link::Called(self.member)));
                    if !self.send(stream) {
                        return;
                    }
                    self.tell(Happened::Link(Link::Uncalled(self.member)));
                }
                Err(Refused::Begun) => return self.tell(Happened::Link(Link::Begun(self.member))),
                Err(why) => {
                    let why = why.to_string();
                    if why != said {
                        self.tell(Happened::Unreached(self.member, why.clone()));
                        said = why;
                    }
                }
            }
            match self.frames.recv_timeout(AGAIN) {
                // It was meant for a connection that is gone.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tell(&self, happened: Happened) {
        // Nobody listens any more when all is over.
        let _ = self.tell.send(happened);
    }

    fn connect(&self) -> Result<Called, Refused> {
        let member = &self.council.members()[self.member];
        let mut failure = io::Error::other("the name has no address");
        for address in member.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    let mut stream = tls::call(stream, &self.identity, member.key)?;
                    greeting::call(&mut stream, self.council.digest())?;
                    return Ok(stream);
                }
                Err(why) => failure = why,
            }
        }
        Err(failure.into())
    }

    /// Sends until nothing more is to be sent, which is true, or the connection ends.
    fn send(&self, mut stream: Called) -> bool {
        loop {
            match self.frames.recv_timeout(AGAIN) {
                Ok(bytes) => {
                    if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
                        return false;
                    }
                }
                Err(RecvTimeoutError::Timeout) if has_ended(&stream.sock) => return false,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    stream.conn.send_close_notify();
                    // Who is gone need not be told.
                    let _ = stream.flush().and_then(|()| stream.sock.shutdown(Shutdown::Write));
                    return true;
                }
            }
        }
    }
}

/// Whether the other side has ended a connection on which it sends nothing.
fn has_ended(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let is_there = matches!(&peeked, Err(why) if why.kind() == ErrorKind::WouldBlock);
    !is_there || stream.set_nonblocking(false).is_err()
}
