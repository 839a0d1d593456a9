//! Replicas of timestamps or of locks, which are attacked as by clients, and by servers that are no members. Who goes by the name of a
//! member that has said nothing to a replica for a second is heard as that member yet, and so is left out. A client can hold the locks of
//! others by right: the attackers have locks of their own.

use super::Tally;
use super::connection::{Greeting, speak};
use crate::process::Server;
use crate::workload::Error;
use fulmar_coding::{put_bytes, put_varint};
use fulmar_node::{NodeId, Random};
use fulmar_replication::applications::{LockMode, LockOperation, SessionId, Timestamps};
use fulmar_replication::{
    ClientId, Entry, Group, Log, Member, Message, Protocol, SequenceNumber, Summary, View,
};
use fulmar_services::{Application, CallError, Charter, LockError, LockSession, Members, TimestampClient};
use fulmar_transport::Wire;
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
        speak(address, greeting, random, frames, name, |random, _| Said { random }.message())
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

/// What an attacker says: the form is that of a good message, its numbers are near what is, or far from it.
struct Said<'r> {
    random: &'r mut Random,
}

impl Said<'_> {
    fn one<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.random.index(N)]
    }

    fn number(&mut self) -> u64 {
        let near = self.random.below(2_000);
        self.one([0, 0, 1, 1, 2, 3, near, near, 1 << 20, 1 << 32, (1 << 32) + 1, 1 << 56, (1 << 62) - 1])
    }

    fn place(&mut self) -> SequenceNumber {
        SequenceNumber(self.number())
    }

    fn view(&mut self) -> View {
        let epoch = self.one([0, 0, 0, 0, 1, 2, 1 << 32, (1 << 62) - 1]);
        View { epoch, number: self.number() }
    }

    fn summary(&mut self) -> Summary {
        let any = u128::from(self.random.next());
        Summary(self.one([0, 1, any]))
    }

    fn client(&mut self) -> ClientId {
        let any = self.random.next();
        self.one([ClientId(7), ClientId(8), ClientId(any), ClientId::GROUP])
    }

    fn group(&mut self) -> Group {
        let first = self.one([1, 1, 4]);
        let members = [first, 2, 3].map(|node| {
            let incarnation = self.one([0, 0, 1, u64::MAX]);
            Member { node: NodeId(node), incarnation }
        });
        let protocol = self.one([Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative]);
        let mut group = Group::new([1, 2, 3].map(NodeId), protocol).expect("three");
        for _ in 0..self.random.below(4) {
            group = group.followed_by(members.into(), protocol).expect("three");
        }
        group
    }

    fn operation(&mut self) -> Vec<u8> {
        let number = self.random.below(6);
        let session = self.one([SessionId(number), SessionId::drawn(number)]);
        let name = vec![b'a' + self.one([0, 1, 2])];
        match self.random.below(10) {
            0 => Timestamps::take(self.number()),
            1 => {
                let (ticks, drawn) = (self.one([0, 1]), SessionId::drawn(number));
                LockOperation::Open { ticks, session: self.one([None, Some(drawn)]) }.encode()
            }
            2 => LockOperation::KeepAlive(session).encode(),
            3 => LockOperation::Close(session).encode(),
            4 => {
                let mode = self.one([LockMode::Read, LockMode::Write]);
                LockOperation::Acquire { session, name, mode, waits: self.one([true, false]) }.encode()
            }
            5 => LockOperation::Release(session, name).encode(),
            6 => LockOperation::Look(session, name).encode(),
            7 => LockOperation::Tick(self.number()).encode(),
            8 => vec![0xff; self.random.index(2_000)],
            _ => {
                let mut group = Vec::new();
                self.group().encode(&mut group);
                group
            }
        }
    }

    fn entry(&mut self) -> Entry {
        let (client, session) = (self.client(), self.place());
        let (number, operation) = (self.number(), self.operation().into());
        Entry { client, session, number, operation, is_query: self.one([true, false]) }
    }

    fn log(&mut self) -> Log {
        let mut log = Log::after(self.place(), self.summary());
        for _ in 0..self.random.below(4) {
            log.append(self.entry());
        }
        log
    }

    /// As `fulmar_replication` lays it out.
    fn state(&mut self, out: &mut Vec<u8>) {
        put_varint(out, self.number());
        out.extend(self.summary().0.to_be_bytes());
        self.group().encode(out);
        put_varint(out, 0);
        let state = self.one([&[][..], &[7], &[0; 4], &[0xff; 40]]);
        put_bytes(out, state);
    }

    fn message(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let (view, committed) = (self.view(), self.place());
        let message = match self.random.below(20) {
            0..6 => {
                let Entry { client, session, number, operation, is_query } = self.entry();
                let epoch = self.one([0, 0, 0, 1]);
                Message::Request { client, epoch, session, number, operation, is_query }
            }
            6 => Message::Doubt { view },
            7 => {
                let from = SequenceNumber(self.number().max(1));
                let entries = (0..self.random.below(3)).map(|_| self.entry()).collect();
                Message::Prepare { view, from, before: self.summary(), entries, committed }
            }
            8 => Message::Commit { view, committed, summary: self.summary(), round: self.number() },
            9 => {
                let (ordered, upto, received) = (self.place(), self.place(), self.place());
                let (summary, round) = (self.summary(), self.number());
                Message::PrepareOk { view, ordered, upto, summary, received, round }
            }
            10 => Message::Alive { view },
            11 => Message::Suspect { view },
            12 => Message::StartViewChange { view },
            13 => {
                let (last_normal, log, ordered) = (self.view(), self.log(), self.place());
                let end = self.one([log.end(), (committed, Summary(0))]);
                Message::DoViewChange { view, last_normal, log, end, ordered, committed }
            }
            14 => {
                let log = self.log();
                let end = log.end();
                Message::StartView { view, checkpoint: None, log, end, committed }
            }
            15 => Message::GetState { view, committed, after: self.place() },
            16 => Message::Group(self.group()),
            17 | 18 => {
                out.push(13);
                self.state(&mut out);
                return out;
            }
            _ => {
                let (client, number, result) = (self.client(), self.number(), self.operation());
                Message::Reply { view, client, number, result }
            }
        };
        message.encode(&mut out);
        out
    }
}
