//! What hosts send through a switch, and how much of it arrives.

use super::network::{ADDRESSES, HOST_PORT, MACS, Network};
use crate::fault::Fault;
use fulmar_packet::{Field, FlowKey, build, ethernet, ip};
use fulmar_port::{Offload, Port, packet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// What comes before a measurement: connections reach their speed, and caches are filled.
const WARM: Duration = Duration::from_millis(300);
/// If a switch loses its mind, this ends too.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of a write or read of the stream.
const CHUNK: usize = 128 << 10;
/// Bytes of UDP in a frame of 60 bytes.
const PAYLOAD: usize = 60 - 14 - 20 - 8;
/// Packets that are sent at a time.
const BATCH: usize = 64;
/// Connections that are set up at a time.
const SESSIONS: usize = 16;

/// Connects once: whoever can do that has a switch between them.
pub(super) fn connect(network: &Network) -> Result<(), Fault> {
    let listener = listen(network)?;
    let at = listener.local_addr()?;
    network.hosts[0].within(|| TcpStream::connect_timeout(&at, Duration::from_millis(500)))?;
    Ok(())
}

/// Bits a second of one TCP stream, as it is read.
pub(super) fn stream(network: &Network, span: Duration) -> Result<f64, Fault> {
    let listener = listen(network)?;
    let at = listener.local_addr()?;
    let mut sender = network.hosts[0].within(|| TcpStream::connect_timeout(&at, PATIENCE))?;
    let (mut receiver, _) = listener.accept()?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    sender.set_write_timeout(Some(PATIENCE))?;
    thread::scope(|scope| {
        // It ends when nobody reads any more.
        scope.spawn(move || while sender.write_all(&[0; CHUNK]).is_ok() {});
        let mut buffer = vec![0; CHUNK];
        let mut read_for = |span| -> Result<(u64, Duration), Fault> {
            let (begun, mut bytes) = (Instant::now(), 0);
            while begun.elapsed() < span {
                bytes += receiver.read(&mut buffer)? as u64;
            }
            Ok((bytes, begun.elapsed()))
        };
        let read = read_for(WARM).and_then(|_| read_for(span));
        // Also after an error, or the sender would fill what is left of the way first.
        let _ = receiver.shutdown(std::net::Shutdown::Both);
        drop(receiver);
        let (bytes, took) = read?;
        Ok(bytes as f64 * 8.0 / took.as_secs_f64())
    })
}

/// UDP packets a second, in frames of 60 bytes, that reach the other host's interface when as many are sent as can be.
///
/// They are put on the wire as frames, past the host's own UDP: a switch may be faster than that.
pub(super) fn packets(network: &Network, span: Duration) -> Result<f64, Fault> {
    // It is not read from: what counts has arrived before.
    let sink = network.hosts[1].within(|| UdpSocket::bind((ADDRESSES[1], 0)))?;
    let frame = frame(sink.local_addr()?.port());
    let mut source = network.hosts[0].within(|| packet::open(HOST_PORT))?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send_until(&mut source, &frame, &ended));
        thread::sleep(WARM);
        let measured = (|| {
            let (begun, before) = (Instant::now(), network.delivered()?);
            thread::sleep(span);
            Ok((network.delivered()? - before) as f64 / begun.elapsed().as_secs_f64())
        })();
        ended.store(true, Relaxed);
        measured
    })
}

/// From the first host to this port of the second.
fn frame(port: u16) -> Vec<u8> {
    let mut key = FlowKey::EMPTY;
    for (field, value) in [
        (Field::ETH_DESTINATION, MACS[1].into()),
        (Field::ETH_SOURCE, MACS[0].into()),
        (Field::ETH_TYPE, ethernet::IPV4.into()),
        (Field::IPV4_SOURCE, u32::from(ADDRESSES[0]).into()),
        (Field::IPV4_DESTINATION, u32::from(ADDRESSES[1]).into()),
        (Field::IP_PROTOCOL, ip::UDP.into()),
        (Field::IP_TTL, 64),
        (Field::L4_SOURCE, port.into()),
        (Field::L4_DESTINATION, port.into()),
    ] {
        key.set(field, value);
    }
    build(&key, &[0; PAYLOAD])
}

fn send_until(source: &mut Port, frame: &[u8], ended: &AtomicBool) {
    while !ended.load(Relaxed) {
        (0..BATCH).for_each(|_| source.send(frame, Offload::NONE));
        // What finds no room is lost, as on any wire.
        source.flush();
    }
}

/// Connections a second, each for one byte there and one back.
pub(super) fn connections(network: &Network, span: Duration) -> Result<f64, Fault> {
    let listener = listen(network)?;
    let at = listener.local_addr()?;
    let (ended, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    answer(&listener)
                }
            });
        }
        let clients: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    network.hosts[0].within(|| {
                        while !ended.load(Relaxed) {
                            ask(&at)?;
                            count.fetch_add(1, Relaxed);
                        }
                        Ok(())
                    })
                })
            })
            .collect();
        thread::sleep(WARM);
        let (begun, before) = (Instant::now(), count.load(Relaxed));
        thread::sleep(span);
        let rate = (count.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        ended.store(true, Relaxed);
        let asked = clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        // Those that answer wait for somebody: each hears one more, who goes away at once.
        for _ in 0..SESSIONS {
            network.hosts[1].within(|| TcpStream::connect(at))?;
        }
        asked.map(|()| rate)
    })
}

fn ask(at: &std::net::SocketAddr) -> Result<(), Fault> {
    let mut stream = TcpStream::connect_timeout(at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[1])?;
    Ok(stream.read_exact(&mut [0])?)
}

/// Answers one connection. Whoever is at its other end has seen what went wrong.
fn answer(listener: &TcpListener) {
    let _ = listener.accept().and_then(|(mut stream, _)| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read_exact(&mut [0])?;
        stream.write_all(&[1])
    });
}

fn listen(network: &Network) -> Result<TcpListener, Fault> {
    Ok(network.hosts[1].within(|| TcpListener::bind((ADDRESSES[1], 0)))?)
}
