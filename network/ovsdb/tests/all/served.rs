//! A database that is served for as long as a test needs it.

use fulmar_ovsdb::{Handle, Service, Store, chance, open_vswitch};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread::JoinHandle;
use tempfile::TempDir;

pub(crate) struct Served {
    pub(crate) handle: Handle,
    pub(crate) address: SocketAddr,
    directory: TempDir,
    /// Answers why connections were closed.
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Served {
    /// A switch's database, in a file, behind a socket of each kind.
    pub(crate) fn begin() -> Self {
        Self::again(tempfile::tempdir().expect("a directory"))
    }

    /// The database that is in this directory.
    fn again(directory: TempDir) -> Self {
        let mut chance = chance().expect("chance");
        let file = directory.path().join("conf.db");
        let store = Store::open(&file, open_vswitch(), &mut chance).expect("it can be opened");
        let mut service = Service::new(store, chance).expect("a service");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        service.listen_unix(&directory.path().join("db.sock")).expect("a socket");
        service.listen_tcp(listener).expect("a socket");
        let handle = service.handle();
        let thread = std::thread::Builder::new().spawn(move || {
            let mut told = Vec::new();
            service.run(|why| told.push(why.into())).expect("it runs");
            told
        });
        Self { handle, address, directory, thread: Some(thread.expect("a thread")) }
    }

    /// Ends it and begins it with the same file.
    pub(crate) fn restart(mut self) -> Self {
        self.stop();
        let empty = tempfile::tempdir().expect("a directory");
        let directory = std::mem::replace(&mut self.directory, empty);
        // Who has a handle has the file.
        drop(self);
        Self::again(directory)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("db.sock")
    }

    /// Ends it; answers why connections were closed.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.handle.stop();
        self.thread.take().map(|thread| thread.join().expect("it has run")).unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}
