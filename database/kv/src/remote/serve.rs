//! A server on sockets.

use super::connection::{SERVER, limits, protocol};
use super::server::{Note, Open, Server, SyncLog};
use fulmar_node::Lsn;
use fulmar_transport::{ClusterId, Handle, Listener, Notice, ServeError, User};
use std::fs::File;
use std::io::{self, Read};

/// A server with its sockets: [`Service::run`] is one thread's work.
pub struct Service(fulmar_transport::Server<Server>);

impl Service {
    /// The server of a cluster, for the databases that `directory` opens.
    ///
    /// # Errors
    /// What the system says if it gives no more descriptors.
    pub fn new(cluster: u128, directory: Box<dyn Open>) -> io::Result<Self> {
        let server = Server::new(directory);
        Ok(Self(fulmar_transport::Server::new(
            SERVER,
            protocol(ClusterId(cluster)),
            limits(),
            server,
            Lsn(0),
        )?))
    }

    /// Accepts connections from this socket as well.
    ///
    /// # Errors
    /// What the system says if the socket cannot be waited for.
    pub fn listen(&mut self, listener: impl Into<Listener>) -> io::Result<()> {
        self.0.listen(listener)
    }

    /// A way to stop it from other threads.
    pub fn handle(&self) -> Handle<Server> {
        self.0.handle()
    }

    /// Serves until it is stopped. `report` is told what happens to connections.
    ///
    /// # Errors
    /// [`ServeError`]: a disk has failed, or the system.
    pub fn run(self, report: impl FnMut(&Notice)) -> Result<(), ServeError> {
        self.0.run(&mut SyncLog::default(), &mut Connections(report)).map(|_| ())
    }
}

/// A name for a new cluster, which no other has.
///
/// # Errors
/// If the system gives no random numbers.
pub fn new_cluster() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_be_bytes(bytes).max(1))
}

/// Tells the server whose connections end.
struct Connections<R>(R);

impl<R: FnMut(&Notice)> User<Server> for Connections<R> {
    fn event(&mut self, _event: (), _requests: &mut Vec<Note>) {}

    fn notice(&mut self, notice: Notice, requests: &mut Vec<Note>) {
        (self.0)(&notice);
        if let Notice::Closed { peer, .. } = notice {
            requests.push(Note::Gone(peer));
        }
    }
}
