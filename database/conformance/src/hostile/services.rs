//! Replicas of timestamps or of locks, which are attacked as by clients, and by servers that are no members. Who goes by the name of a
//! member that has said nothing to a replica for a second is heard as that member yet, and so is left out. A client can hold the locks of
//! others by right: the attackers have locks of their own.

use super::Tally;
use super::connection::{Greeting, speak};
use super::replication::Said;
use crate::process::Server;
use crate::workload::Error;
use fulmar_node::{NodeId, Random};
use fulmar_replication::Protocol;
use fulmar_replication::applications::LockMode;
use fulmar_services::{Application, CallError, Charter, LockError, LockSession, Members, TimestampClient};
use std::io;
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

/// The lock of the client that means well.
const SPARED: &[u8] = b"spared";
/// A session of a client is given up if it was not heard of for so long.
const EXPIRES: Duration = Duration::from_secs(10);

/// Starts three replicas by `program` in `directory`, attacks them for so long, kills them, and starts them again.
///
/// # Errors
/// [`Error::Breach`] if a replica ends, the client waits for more than [`super::WAIT`], the memory of one grows by more than
/// [`super::GROWTH`], or a number or a lock is given twice, also in the end.
pub fn run(
    program: &Path,
    directory: &Path,
    application: Application,
    length: Duration,
    seed: u64,
) -> Result<Tally, Error> {
    // Held together, so that they are three.
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut addresses = Vec::new();
    for listener in listeners {
        addresses.push(listener?.local_addr()?.to_string());
    }
    let members = Members::new(addresses.iter().map(String::as_str)).map_err(io::Error::other)?;
    let protocols = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
    let protocol = protocols[usize::try_from(seed).unwrap_or_default() % protocols.len()];
    let charter = Charter { application, members, protocol };
    let mut servers = start(program, directory, &charter, &["--found"])?;
    let mut client = Client::new(&charter)?;
    client.act()?;
    let greeting = Greeting { version: 0, cluster: charter.cluster().0 }.learn(&addresses[0])?;
    let connect = |random: &mut Random, frames: &mut u64| {
        let address = &addresses[random.index(addresses.len())];
        let name = |random: &mut Random| u32::try_from(random.below(8)).ok().filter(|name| *name > 3);
        speak(address, greeting, random, frames, name, |random, _| {
            Said::new(random, [1, 2, 3].map(NodeId)).message()
        })
    };
    let mut tally = Tally::of(length, seed, connect, |_| client.act())?;
    for server in &mut servers {
        server.is_up()?;
        tally.growth = tally.growth.max(server.growth()?);
    }
    for server in servers {
        server.kill()?;
    }
    let _servers = start(program, directory, &charter, &[])?;
    client.come_again(&charter)?;
    client.act()?;
    tally.judge()
}

fn start(program: &Path, directory: &Path, charter: &Charter, more: &[&str]) -> Result<Vec<Server>, Error> {
    let quoted: Vec<String> = charter.members.iter().map(|(_, address)| format!("{address:?}")).collect();
    let start = |(node, address): (NodeId, &str)| {
        let at = |ending: &str| directory.join(format!("{node}{ending}"));
        let settings = format!(
            "service = \"{}\"\nmembers = [{}]\nlisten = \"{address}\"\ndata = {:?}\nreplication = \"{}\"\n",
            charter.application,
            quoted.join(", "),
            at("").display().to_string(),
            charter.protocol,
        );
        std::fs::write(at(".toml"), settings)?;
        let settings = at(".toml").display().to_string();
        Server::serve(program, &[&["--config", &settings], more].concat(), address, &at(".log"))
    };
    charter.members.iter().map(start).collect()
}

/// The client that means well, and the last that it was given.
enum Client {
    Timestamps(TimestampClient, u64),
    Locks(LockSession, u64),
}

impl Client {
    fn new(charter: &Charter) -> Result<Self, Error> {
        Ok(match charter.application {
            Application::Timestamps => Self::Timestamps(TimestampClient::new(charter).map_err(called)?, 0),
            Application::Locks => Self::Locks(LockSession::open(charter, EXPIRES).map_err(called)?, 0),
        })
    }

    /// As another, that knows what was given to this one.
    fn come_again(&mut self, charter: &Charter) -> Result<(), Error> {
        let next = Self::new(charter)?;
        match (self, next) {
            (Self::Timestamps(client, _), Self::Timestamps(next, _)) => *client = next,
            (Self::Locks(session, _), Self::Locks(next, _)) => *session = next,
            _ => {}
        }
        Ok(())
    }

    /// Draws a number, or takes a lock and gives it up: what it gets is later than what it had.
    fn act(&mut self) -> Result<(), Error> {
        let (given, last) = match self {
            Self::Timestamps(client, last) => (client.draw(NonZeroU64::MIN).map_err(called)?.start, last),
            Self::Locks(session, last) => {
                let fence = session.acquire(SPARED, LockMode::Write).map_err(locked)?;
                session.release(SPARED).map_err(locked)?;
                (fence.0, last)
            }
        };
        if given <= *last {
            return Err(Error::Breach(format!("{given} was given after {last}")));
        }
        *last = given;
        Ok(())
    }
}

fn called(failure: CallError) -> Error {
    Error::Breach(failure.to_string())
}

fn locked(failure: LockError) -> Error {
    Error::Breach(failure.to_string())
}
