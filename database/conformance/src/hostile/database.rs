//! A server of databases, or three with replicas. What a client may do to a database that it may open is done to one of the attackers' own.

use super::connection::{Greeting, speak};
use super::replication::Said;
use super::{Tally, said};
use crate::database;
use crate::process::{Server, Servers};
use crate::workload::Error;
use fulmar_cluster::{DatabaseNumber, Message, Question, VERSION};
use fulmar_kv::{ObjectId, ShardId};
use fulmar_node::{NodeId, Random};
use fulmar_transport::Wire;
use rusqlite::Connection;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// The database of the client that means well, which is made first.
const SPARED: DatabaseNumber = DatabaseNumber(0);
const TARGET: DatabaseNumber = DatabaseNumber(1);

/// Starts `program` as a server in `directory`, attacks it for so long, kills it, and starts it again.
///
/// # Errors
/// [`Error::Breach`] if the server ends, a commit waits for more than [`super::WAIT`], the memory grows by more than [`super::GROWTH`], or
/// what was committed is not there in the end.
pub fn run(program: &Path, directory: &Path, length: Duration, seed: u64) -> Result<Tally, Error> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let mut server = start(program, directory, &address, &["--found"])?;
    let mut tally = besiege(std::slice::from_ref(&address), length, seed)?;
    server.is_up()?;
    tally.growth = server.growth()?;
    server.kill()?;
    let _server = start(program, directory, &address, &[])?;
    require_sound(&address, tally.commits)?;
    tally.judge()
}

/// The same with three servers, and three replicas of each shard.
///
/// # Errors
/// As [`run`].
pub fn run_replicated(program: &Path, directory: &Path, length: Duration, seed: u64) -> Result<Tally, Error> {
    let mut servers = Servers::start(program, directory)?;
    let mut tally = besiege(&servers.addresses, length, seed)?;
    servers.are_up()?;
    tally.growth = servers.most(Server::growth)?;
    servers.restart()?;
    require_sound(&servers.addresses.join(","), tally.commits)?;
    tally.judge()
}

/// Attacks servers for so long, while a client commits.
fn besiege(addresses: &[String], length: Duration, seed: u64) -> Result<Tally, Error> {
    let all = addresses.join(",");
    let spared = open(&all, "spared")?;
    spared.execute_batch("CREATE TABLE t(n INTEGER PRIMARY KEY)")?;
    open(&all, "target")?.execute_batch("CREATE TABLE t(n INTEGER PRIMARY KEY)")?;
    let connect = |random: &mut Random, frames: &mut u64| {
        let address = &addresses[random.index(addresses.len())];
        attack(address, random, frames)
    };
    Tally::of(length, seed, connect, |commits| {
        spared.execute("INSERT INTO t VALUES (?1)", [commits])?;
        if commits.is_multiple_of(100) { expect(&spared, commits + 1) } else { Ok(()) }
    })
}

/// Whether so many commits are there, and nothing is damaged.
fn require_sound(addresses: &str, commits: u64) -> Result<(), Error> {
    let spared = open(addresses, "spared")?;
    expect(&spared, commits)?;
    let sound: String = spared.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    open(addresses, "target")?.query_row("SELECT count(*) FROM t", [], |_| Ok(()))?;
    if sound == "ok" { Ok(()) } else { Err(Error::Breach(sound)) }
}

fn start(program: &Path, directory: &Path, address: &str, more: &[&str]) -> Result<Server, Error> {
    let data = directory.join("data").display().to_string();
    let arguments = [&["--data", &data, "--listen", address], more].concat();
    Server::serve(program, &arguments, address, &directory.join("log"))
}

fn open(addresses: &str, name: &str) -> Result<Connection, Error> {
    Ok(database::open(&format!("fulmar://{addresses}/{name}"))?)
}

/// Whether so many rows are there.
fn expect(connection: &Connection, rows: u64) -> Result<(), Error> {
    let found: u64 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
    if found == rows { Ok(()) } else { Err(Error::Breach(format!("{found} rows of {rows}"))) }
}

fn attack(address: &str, random: &mut Random, frames: &mut u64) -> io::Result<()> {
    let any = Greeting { version: VERSION, cluster: 0 };
    let knows = random.below(3) == 0;
    let greeting = if knows { any.meet(address)? } else { any };
    let name = |random: &mut Random| u32::try_from(random.below(1 << 31)).ok().filter(|_| knows);
    speak(address, greeting, random, frames, name, |random, turn| {
        let object = ObjectId(random.below(1 << 33));
        let said = match random.below(7) {
            0 => {
                let clock = 1 << random.below(20);
                Ok(said::question(random, turn, clock, ObjectId(1 << 20)))
            }
            1 => of_a_group(random),
            _ => {
                let said = said::bytes(random, object);
                Message::decode(&said).map_err(|_| said)
            }
        };
        said.map_or_else(|bytes| bytes, |message| encoded(&aimed(message)))
    })
}

/// What replicas say to each other, of a shard or of what the cluster has written down of itself.
fn of_a_group(random: &mut Random) -> Result<Message, Vec<u8>> {
    let records = (DatabaseNumber(u32::MAX), ShardId(0));
    let groups = [records, (SPARED, ShardId(0)), (SPARED, ShardId(1)), (TARGET, ShardId(0))];
    let (database, shard) = groups[random.index(groups.len())];
    let said = Said::new(random, [0, 1, 2].map(NodeId)).message();
    let message = fulmar_replication::Message::decode(&said).map_err(|_| said)?;
    Ok(Message::Replication { database, shard, message: Box::new(message) })
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut body = Vec::new();
    message.encode(&mut body);
    body
}

/// With all that a client may do to others by right done to the attackers' own database.
fn aimed(mut message: Message) -> Message {
    if let Message::Question { database, question, .. } = &mut message
        && *database == SPARED
        && !matches!(
            question,
            Question::Read { .. } | Question::OpenSnapshot | Question::Newest | Question::Size
        )
    {
        *database = TARGET;
    }
    if let Message::GivenUp(database, ..) = &mut message {
        *database = TARGET;
    }
    message
}
