//! What the network itself takes: a datagram of 64 bytes there and back, two threads that do nothing else.

use super::{Run, latencies};
use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

const SIZE: usize = 64;

pub(super) fn run(length: Duration) -> io::Result<Run> {
    let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    thread::scope(|scope| {
        let echo = scope.spawn(|| -> io::Result<()> {
            let mut buffer = [0; SIZE];
            // An empty datagram ends it.
            while there.recv(&mut buffer)? > 0 {
                there.send(&buffer)?;
            }
            Ok(())
        });
        let (mut buffer, mut taken) = ([7; SIZE], latencies());
        let begun = Instant::now();
        let mut now = begun;
        while now - begun < length {
            here.send(&buffer)?;
            here.recv(&mut buffer)?;
            let before = std::mem::replace(&mut now, Instant::now());
            let latency = u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX);
            taken.record(latency).expect("it grows");
        }
        here.send(&[])?;
        echo.join().map_err(|_| io::Error::other("the echo panicked"))??;
        Ok(Run::of(taken, now - begun))
    })
}
