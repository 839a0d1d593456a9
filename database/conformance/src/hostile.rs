//! Connections that mean no good, to a real server, while a client goes on whose waits are measured.
//!
//! They greet as clients and as servers, or not at all; say what may be a message, what has the form of a good question, or neither; read
//! what is answered, or do not. What a client may do to a database that it may open is done to one of their own.

mod said;

use crate::workload::Error;
use crate::{database, memory};
use fulmar_dbt::remote::{DatabaseNumber, MapRequest, Message, Question, VERSION};
use fulmar_kv::ObjectId;
use fulmar_node::Random;
use fulmar_transport::Wire;
use rusqlite::Connection;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// So much more memory than before may the server take, bytes.
pub const GROWTH: u64 = 256 << 20;
/// So long may the client wait for a commit.
pub const WAIT: Duration = Duration::from_secs(1);

const ATTACKERS: u64 = 3;
/// The database of the client that means well, which is made first.
const SPARED: DatabaseNumber = DatabaseNumber(0);
const TARGET: DatabaseNumber = DatabaseNumber(1);

/// What a run has come to.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Connections that meant no good.
    pub connections: u64,
    /// What was sent on these, frames.
    pub frames: u64,
    /// Commits of the client that meant well.
    pub commits: u64,
    /// The longest that it has waited for one.
    pub longest: Duration,
    /// Memory that the server has taken at the most, over what it had before, bytes.
    pub growth: u64,
}

/// Starts `program` as a server in `directory`, attacks it for so long, kills it, and starts it again.
///
/// # Errors
/// [`Error::Breach`] if the server ends, a commit waits for more than [`WAIT`], the memory grows by more than [`GROWTH`], or what was
/// committed is not there in the end.
pub fn run(program: &Path, directory: &Path, length: Duration, seed: u64) -> Result<Tally, Error> {
    let mut server = Server::start(program, directory, None)?;
    let address = server.address.clone();
    let spared = server.open("spared")?;
    spared.execute_batch("CREATE TABLE t(n INTEGER PRIMARY KEY)")?;
    server.open("target")?.execute_batch("CREATE TABLE t(n INTEGER PRIMARY KEY)")?;
    let before = server.memory("VmRSS")?;
    let end = Instant::now() + length;
    let mut tally = Tally { connections: 0, frames: 0, commits: 0, longest: Duration::ZERO, growth: 0 };
    thread::scope(|scope| {
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|attacker| {
                let address = &address;
                scope.spawn(move || attack(address, Random::new(seed << 8 | attacker), end))
            })
            .collect();
        let committed = commit_until(&spared, end, &mut tally);
        for attacker in attackers {
            let (connections, frames) =
                attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (tally.connections, tally.frames) = (tally.connections + connections, tally.frames + frames);
        }
        committed
    })?;
    drop(spared);
    if let Some(status) = server.process.try_wait()? {
        return Err(Error::Breach(format!("the server has ended: {status}")));
    }
    tally.growth = server.memory("VmHWM")?.saturating_sub(before);
    server.process.kill()?;
    server.process.wait()?;
    let server = Server::start(program, directory, Some(&address))?;
    let spared = server.open("spared")?;
    let found: u64 = spared.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
    let sound: String = spared.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    server.open("target")?.query_row("SELECT count(*) FROM t", [], |_| Ok(()))?;
    if found != tally.commits || sound != "ok" {
        return Err(Error::Breach(format!("{found} rows of {}, {sound}", tally.commits)));
    }
    if tally.longest > WAIT || tally.growth > GROWTH {
        return Err(Error::Breach(format!("{tally:?}")));
    }
    Ok(tally)
}

/// Commits one row after the other.
fn commit_until(connection: &Connection, end: Instant, tally: &mut Tally) -> Result<(), Error> {
    while Instant::now() < end {
        let begun = Instant::now();
        connection.execute("INSERT INTO t VALUES (?1)", [tally.commits])?;
        tally.longest = tally.longest.max(begun.elapsed());
        tally.commits += 1;
        if tally.commits.is_multiple_of(100) {
            let found: u64 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
            if found != tally.commits {
                return Err(Error::Breach(format!("{found} rows of {}", tally.commits)));
            }
        }
    }
    Ok(())
}

/// Connects again and again; how often, and how many frames were sent.
fn attack(address: &str, mut random: Random, end: Instant) -> (u64, u64) {
    let (mut connections, mut frames) = (0, 0);
    while Instant::now() < end {
        connections += 1;
        // Whoever is refused, or whose connection ends, comes again.
        let _ = connect_and_speak(address, &mut random, &mut frames);
    }
    (connections, frames)
}

fn connect_and_speak(address: &str, random: &mut Random, frames: &mut u64) -> io::Result<()> {
    let cluster = match random.below(3) {
        0 => Some(greet(&mut TcpStream::connect(address)?, 0, None)?),
        _ => None,
    };
    let mut stream = TcpStream::connect(address)?;
    let reads = random.below(4) > 0;
    match random.below(8) {
        0 => stream.write_all(&noise(random, 200))?,
        1 => stream.write_all(&hello(0, None)[..random.index(36)])?,
        _ => {
            let name = u32::try_from(random.below(1 << 31)).ok().filter(|_| cluster.is_some());
            greet(&mut stream, cluster.unwrap_or(0), name)?;
        }
    }
    for turn in 0..random.below(300) {
        let body = match random.below(30) {
            0 => noise(random, 1 << 16),
            1..6 => {
                let mut body = Vec::new();
                let clock = 1 << random.below(20);
                aimed(said::question(random, turn, clock, ObjectId(1 << 20))).encode(&mut body);
                body
            }
            _ => {
                let object = ObjectId(random.below(1 << 33));
                let body = said::bytes(random, object);
                match Message::decode(&body).map(aimed) {
                    Ok(message) if is_to_come(&message) => continue,
                    Ok(message) => {
                        let mut body = Vec::new();
                        message.encode(&mut body);
                        body
                    }
                    Err(_) => body,
                }
            }
        };
        send(&mut stream, &body)?;
        *frames += 1;
        if reads {
            stream.set_read_timeout(Some(Duration::from_micros(10)))?;
            let mut answers = [0; 1 << 14];
            match stream.read(&mut answers) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
    if random.below(2) == 0 { stream.shutdown(Shutdown::Both) } else { Ok(()) }
}

/// What is known to be believed still: who says that it is a free server joins.
fn is_to_come(message: &Message) -> bool {
    matches!(message, Message::Ask(MapRequest::Join(_)))
}

/// With all that a client may do to others by right done to the attackers' own database.
fn aimed(mut message: Message) -> Message {
    if let Message::Question { database, question, .. } = &mut message
        && *database == SPARED
        && !matches!(question, Question::Read { .. } | Question::OpenSnapshot | Question::Newest)
    {
        *database = TARGET;
    }
    if let Message::GivenUp(database, ..) = &mut message {
        *database = TARGET;
    }
    message
}

fn noise(random: &mut Random, longest: usize) -> Vec<u8> {
    (0..random.index(longest)).map(|_| random.next().to_le_bytes()[0]).collect()
}

fn send(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    stream.write_all(&[&length.to_le_bytes(), body].concat())
}

/// As `fulmar_transport`'s `hello` lays it out.
fn hello(cluster: u128, name: Option<u32>) -> Vec<u8> {
    let mut bytes = b"fulmar".to_vec();
    bytes.extend_from_slice(&1_u16.to_le_bytes());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&cluster.to_le_bytes());
    bytes.extend_from_slice(&name.unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes
}

/// Greets, as a client or as a server of this name, and hears which cluster it is.
fn greet(stream: &mut TcpStream, cluster: u128, name: Option<u32>) -> io::Result<u128> {
    send(stream, &hello(cluster, name))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_le_bytes(length).min(1 << 10) as usize];
    stream.read_exact(&mut answer)?;
    let cluster = answer.get(13..29).and_then(|cluster| cluster.try_into().ok()).filter(|_| answer[12] == 0);
    cluster.map(u128::from_le_bytes).ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
}

/// A server's process.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts one, which founds a cluster if it has not been at this address before.
    fn start(program: &Path, directory: &Path, before: Option<&str>) -> Result<Self, Error> {
        let address = match before {
            Some(address) => address.to_owned(),
            None => TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string(),
        };
        let log = File::options().append(true).create(true).open(directory.join("log"))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(directory.join("data")).args(["--listen", &address]);
        if before.is_none() {
            command.arg("--found");
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut server = Self { process: command.spawn()?, address };
        while TcpStream::connect(&server.address).is_err() {
            if let Some(status) = server.process.try_wait()? {
                return Err(Error::Breach(format!("the server has ended: {status}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn open(&self, name: &str) -> Result<Connection, Error> {
        Ok(database::open(&format!("fulmar://{}/{name}", self.address))?)
    }

    fn memory(&self, line: &str) -> io::Result<u64> {
        memory::of_process(&self.process.id().to_string(), line)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
