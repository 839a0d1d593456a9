//! Measures request and reply of 64 bytes on loopback, with one client and with sixteen: processes on this crate, the
//! same while each client is connected to two more servers, and beside them bare blocking sockets with a thread for each
//! connection.
//!
//! `cargo run --release -p fulmar-transport --example echo [SPIN_MICROSECONDS]`

use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_transport::{Client, ClusterId, Limits, Protocol, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const PROTOCOL: Protocol = Protocol { cluster: ClusterId(1), version: 1 };
const SERVER: NodeId = NodeId(1);
const SIZE: usize = 64;
const RUN: Duration = Duration::from_secs(1);

/// Sends back what it receives.
struct Echo;

impl Process for Echo {
    type Message = Vec<u8>;
    type Timer = ();
    type Request = ();
    type Event = ();
    type Record = ();

    fn receive(&mut self, _now: Time, from: NodeId, message: Vec<u8>, out: &mut Outbox<Self>) {
        out.send(from, message);
    }
}

/// Sends what it is asked to, and tells what comes back.
struct Caller;

impl Process for Caller {
    type Message = Vec<u8>;
    type Timer = ();
    type Request = Vec<u8>;
    type Event = Vec<u8>;
    type Record = ();

    fn request(&mut self, _now: Time, request: Vec<u8>, out: &mut Outbox<Self>) {
        out.send(SERVER, request);
    }

    fn receive(&mut self, _now: Time, _from: NodeId, message: Vec<u8>, out: &mut Outbox<Self>) {
        out.event(message);
    }
}

/// Calls `request` from so many threads, each with its own, for a while; prints how often that was.
fn measure<F: FnMut() + Send>(name: &str, clients: u32, connect: impl Fn() -> F) {
    let requests: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                let mut request = connect();
                scope.spawn(move || {
                    let begun = Instant::now();
                    let mut count = 0;
                    while begun.elapsed() < RUN {
                        request();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).sum()
    });
    let rate = f64::from(requests) / RUN.as_secs_f64();
    println!("{name:>10} {clients:>7} {rate:>10.0} {:>10.1}", f64::from(clients) * 1e6 / rate);
}

fn bare_server() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut bytes = [0; SIZE];
                while stream.set_nodelay(true).and_then(|()| stream.read_exact(&mut bytes)).is_ok() {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(address)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spin = std::env::args().nth(1).map_or(Ok(0), |text| text.parse())?;
    let limits = Limits { spin: Duration::from_micros(spin), ..Limits::default() };

    let mut servers = Vec::new();
    for name in [SERVER, NodeId(2), NodeId(3)] {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let mut server = Server::new(name, PROTOCOL, limits, Echo, Lsn(0))?;
        server.listen(listener)?;
        let handle = server.handle();
        servers.push((address, handle, thread::spawn(move || server.run(&mut (), &mut ()))));
    }
    let process = |connections: usize| {
        let mut client = Client::new(PROTOCOL, limits, Caller);
        for (address, _, _) in &servers[..connections] {
            client.meet((*address).into()).expect("the server runs");
        }
        move || {
            let echoed = client.request(vec![7; SIZE]).expect("the server runs");
            assert_eq!(echoed.len(), 1);
        }
    };

    let bare_address = bare_server()?;
    let bare = || {
        let mut stream = TcpStream::connect(bare_address).expect("the server runs");
        stream.set_nodelay(true).expect("a TCP socket");
        move || {
            let mut bytes = [7; SIZE];
            stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).expect("the server runs");
        }
    };

    println!("{:>10} {:>7} {:>10} {:>10}", "", "clients", "requests/s", "µs each");
    for clients in [1, 16] {
        measure("bare", clients, bare);
        measure("process", clients, || process(1));
        measure("of three", clients, || process(3));
    }
    for (_, handle, server) in servers {
        handle.stop();
        server.join().expect("no panic")?;
    }
    Ok(())
}
