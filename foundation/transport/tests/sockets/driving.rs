//! How a server drives its process: work from other threads, records on a disk, and one that never rests.

use crate::fixtures::{ONE, PROTOCOL, Running, client};
use crate::processes::{Ask, Caller, Echo, Restless};
use fulmar_node::Lsn;
use fulmar_transport::{ClientError, Limits, Server};
use std::io;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

#[test]
fn requests_and_work_come_from_other_threads() {
    let server = Running::start(ONE, Limits::default());
    let (sender, seen) = mpsc::channel();
    for _ in 0..3 {
        assert!(server.handle.request(()));
    }
    assert!(server.handle.run(move |echo, _now, _out| sender.send(echo.requests).unwrap()));
    // Work is done before requests that came in the same turn.
    assert!(seen.recv().unwrap() <= 3);
    let handle = server.handle.clone();
    server.stop();
    assert!(!handle.request(()) && handle.counters().is_none());
}

/// A log that a test looks into, and that fails when told to.
struct Disk {
    appended: Vec<u8>,
    syncs: usize,
    fails_at: usize,
}

impl fulmar_transport::Log<u8> for Disk {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.appended.extend(records);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        if self.syncs == self.fails_at { Err(io::Error::other("the disk is on fire")) } else { Ok(()) }
    }
}

#[test]
fn answers_wait_for_the_disk_and_a_failed_one_gives_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = Server::new(ONE, PROTOCOL, Limits::default(), Echo::durable(), Lsn(0)).unwrap();
    server.listen(listener).unwrap();
    let mut disk = Disk { appended: Vec::new(), syncs: 0, fails_at: 3 };
    let thread = thread::spawn(move || {
        let error = server.run(&mut disk, &mut ()).err();
        (disk, error)
    });
    let mut client = client(Caller::new([ONE]));
    client.address(ONE, address.into());
    for turn in 0..2 {
        assert_eq!(client.request(Ask::together(vec![vec![turn]])).unwrap(), [[[turn]]]);
    }
    assert!(matches!(client.request(Ask::together(vec![vec![2]])), Err(ClientError::Stuck)));
    let (disk, error) = thread.join().unwrap();
    assert_eq!((disk.appended, disk.syncs), (vec![0, 1, 2], 3));
    assert_eq!(error.unwrap().to_string(), "the log failed: the disk is on fire");
}

#[test]
fn a_restless_process_can_be_stopped() {
    let server = Server::new(ONE, PROTOCOL, Limits::default(), Restless::default(), Lsn(0)).unwrap();
    let handle = server.handle();
    let thread = thread::spawn(move || server.run(&mut (), &mut ()).unwrap());
    for _ in 0..3 {
        assert!(handle.counters().is_some());
    }
    handle.stop();
    assert!(thread.join().unwrap().turns > 0);
}
