//! Who invokes operations.

use crate::chance::by_chance;
use crate::server::protocol;
use crate::{Application, Charter, Members};
use fulmar_replication::applications::{LockAnswer, LockOperation};
use fulmar_replication::{Client, ClientId, GroupError, Invoke, Outcome};
use fulmar_transport::{Address, ClientError, ClusterId, Limits, LinkError, MeetError, Protocol};
use std::io;
use std::net::ToSocketAddrs;
use std::thread;
use std::time::{Duration, Instant};

/// How long it waits for an answer before it asks all replicas.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long until it is looked again whether a replica is there.
const AGAIN: Duration = Duration::from_millis(50);

/// An operation that was not answered, or a group that was not found.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No host of a replica's name is known.
    #[error("{address}: {why}")]
    Resolve {
        /// Which.
        address: String,
        /// What the system says.
        why: io::Error,
    },
    /// The last of the replicas that were tried does not answer either.
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// Something else is replicated there.
    #[error("what is served there is {found}, and not {expected}")]
    Application {
        /// What is.
        found: Application,
        /// What was looked for.
        expected: Application,
    },
    /// The group has other members.
    #[error("what is served at {0} is no group of these members; expected all members of one, and no others")]
    Members(Address),
    /// There is no such group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The system gives no name.
    #[error("cannot choose a name: {0}")]
    Chance(#[source] io::Error),
    /// Waiting is of no use.
    #[error(transparent)]
    Wait(#[from] ClientError),
    /// The client is a copy of one of the parent's, which goes on to say the same to the replicas: they would answer the one what they have answered
    /// the other.
    #[error("this client was made by the parent of this process, before fork(): make another")]
    Forked,
    /// The answer is none.
    #[error("the answer makes no sense: {0:02x?}")]
    Answer(Vec<u8>),
}

impl Charter {
    /// As [`Charter::find`]; while none of them can be reached it is looked again, for so long, as they may only be about to start.
    ///
    /// # Errors
    /// [`CallError`]
    pub fn find_within(
        patience: Duration,
        application: Application,
        members: &Members,
    ) -> Result<Self, CallError> {
        let end = Instant::now() + patience;
        loop {
            match Self::find(application, members) {
                Err(CallError::Meet(why)) if may_come(&why) && Instant::now() < end => thread::sleep(AGAIN),
                found => return found,
            }
        }
    }

    /// That of the group of these members, which one of them tells.
    ///
    /// # Errors
    /// [`CallError`] if nobody answers, or it is another group.
    pub fn find(application: Application, members: &Members) -> Result<Self, CallError> {
        let mut last = None;
        for (_, member) in members.iter() {
            match meet(member, members) {
                Ok(found) if found.application == application => return Ok(found),
                Ok(Self { application: found, .. }) => {
                    return Err(CallError::Application { found, expected: application });
                }
                Err(why @ (CallError::Resolve { .. } | CallError::Meet(_))) => last = Some(why),
                Err(why) => return Err(why),
            }
        }
        Err(last.unwrap_or(CallError::Group(GroupError::Even(0))))
    }

    /// Why those replicas cannot be reached that cannot.
    #[must_use]
    pub fn unreachable(&self) -> Vec<CallError> {
        let members = self.members.iter();
        members.filter_map(|(_, member)| meet(member, &self.members).err()).collect()
    }
}

/// Whether a server may only be about to start.
const fn may_come(error: &MeetError) -> bool {
    matches!(error.why, LinkError::Io(_) | LinkError::Ended | LinkError::Mute(_))
}

/// The group that the server `member` belongs to.
fn meet(member: &str, members: &Members) -> Result<Charter, CallError> {
    let resolve = |why| CallError::Resolve { address: member.into(), why };
    let mut addresses = member.to_socket_addrs().map_err(resolve)?;
    let address = addresses.next().ok_or_else(|| resolve(io::ErrorKind::NotFound.into()))?;
    let guess = Charter {
        application: Application::Locks,
        members: members.clone(),
        protocol: fulmar_replication::Protocol::Viewstamped,
    };
    let any = Protocol { cluster: ClusterId::ANY, ..protocol(&guess) };
    let mut client = fulmar_transport::Client::new(any, Limits::default(), client(&guess)?);
    client.meet(address.into())?;
    Charter::named(client.cluster(), members).ok_or_else(|| CallError::Members(address.into()))
}

fn client(charter: &Charter) -> Result<Client, CallError> {
    let name = ClientId(by_chance().map_err(CallError::Chance)?);
    Ok(Client::new(name, charter.group()?, PATIENCE))
}

/// Invokes operations one at a time, and waits for what comes of each: for as long as it takes, if a majority of the replicas cannot be
/// reached. After an error it is of no more use.
#[derive(Debug)]
pub(crate) struct Caller {
    client: fulmar_transport::Client<Client>,
    /// Whose it is.
    process: u32,
}

impl Caller {
    pub(crate) fn new(charter: &Charter) -> Result<Self, CallError> {
        let process = client(charter)?;
        let mut client = fulmar_transport::Client::new(protocol(charter), Limits::default(), process);
        let members = charter.members.clone();
        client
            .directory(move |_, node| members.address(node)?.to_socket_addrs().ok()?.next().map(Into::into));
        Ok(Self { client, process: std::process::id() })
    }

    pub(crate) fn invoke(&mut self, operation: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.ask(Invoke::Execute(operation.into()))
    }

    /// The same, on locks.
    pub(crate) fn invoke_lock(&mut self, operation: &LockOperation) -> Result<LockAnswer, CallError> {
        let answer = self.invoke(operation.encode())?;
        LockAnswer::decode(&answer).ok_or(CallError::Answer(answer))
    }

    /// An operation that changes nothing.
    pub(crate) fn query(&mut self, operation: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.ask(Invoke::Query(operation.into()))
    }

    fn ask(&mut self, invoke: Invoke) -> Result<Vec<u8>, CallError> {
        if self.process != std::process::id() {
            return Err(CallError::Forked);
        }
        let mut outcomes = self.client.request(invoke.clone())?;
        loop {
            match outcomes.into_iter().next() {
                Some(Outcome::Result(result)) => return Ok(result),
                // All that services do may be done twice: it takes more timestamps, or opens a session that expires; a session that
                // is closed again is said to have expired.
                Some(Outcome::Forgotten) => outcomes = self.client.request(invoke.clone())?,
                // Callers leave the group as it is.
                Some(Outcome::Group(_) | Outcome::Refused(_)) | None => outcomes = self.client.wait()?,
            }
        }
    }
}
