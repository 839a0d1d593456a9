//! What is asked of a network that runs, and its answers: a line of JSON each, on a socket in its directory.

use crate::link::Counts;
use crate::state::{directory, require_own};
use crate::{Error, Quality};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A longer line is none.
const LONGEST_REQUEST: u64 = 64 << 10;
/// How long a network waits for somebody who has called.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is asked.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Request {
    /// How it is.
    Show,
    /// Where a host's namespace is.
    Host(String),
    /// Changes of the links between two of them, as `loss=0.1`.
    Link { ends: [String; 2], changes: Vec<String> },
    /// To end. The connection closes when nothing is left.
    Down,
}

/// What is answered.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Answer {
    /// As a JSON document: a [`Status`].
    Status(serde_json::Value),
    /// The path of a namespace.
    Host(PathBuf),
    Done,
    /// Why not.
    Refused(String),
}

/// How a network is.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    /// The process that is the network.
    pub(crate) process: u32,
    /// The process that cleans up after it.
    pub(crate) guard: u32,
    pub(crate) hosts: Vec<HostStatus>,
    pub(crate) switches: Vec<SwitchStatus>,
    pub(crate) links: Vec<LinkStatus>,
}

#[derive(Debug, Serialize)]
pub(crate) struct HostStatus {
    pub(crate) name: String,
    /// As for `nsenter --net=`.
    pub(crate) namespace: PathBuf,
    pub(crate) addresses: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SwitchStatus {
    pub(crate) name: String,
    pub(crate) management: PathBuf,
    /// What is at port 1, 2, and so on.
    pub(crate) ports: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LinkStatus {
    pub(crate) ends: [String; 2],
    pub(crate) quality: Quality,
    /// From the first end to the second, and back.
    pub(crate) counts: [Counts; 2],
}

/// Where a network listens.
pub(crate) fn socket(directory: &Path) -> PathBuf {
    directory.join("control")
}

/// Asks the network of this name.
pub(crate) fn ask(name: &str, request: &Request) -> Result<Answer, Error> {
    let directory = directory(name)?;
    match require_own(&directory) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(Error::NotUp { name: name.into() }),
        own => own.map_err(Error::cannot(format!("trust {}", directory.display())))?,
    }
    let Ok(mut stream) = UnixStream::connect(socket(&directory)) else {
        return Err(Error::NotUp { name: name.into() });
    };
    // The directory may be another since it was looked at: whoever answers tells which namespace is entered.
    require_own_user(&stream)
        .map_err(Error::cannot(format!("trust who answers in {}", directory.display())))?;
    let mut talk = || {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, io::Error>(serde_json::from_str(&answer)?)
    };
    match talk().map_err(Error::cannot(format!("ask network {name}")))? {
        Answer::Refused(why) => Err(Error::Refused(why)),
        answer => Ok(answer),
    }
}

/// Requires that it is this user who listens there.
fn require_own_user(stream: &UnixStream) -> io::Result<()> {
    let listener = socket_peercred(stream)?.uid;
    if listener == geteuid() {
        return Ok(());
    }
    Err(io::Error::other(format!("it is user {}", listener.as_raw())))
}

/// Reads what somebody asks who has called.
pub(crate) fn read(stream: &UnixStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_REQUEST)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Answers it.
pub(crate) fn answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    stream.write_all(&serde_json::to_vec(answer)?)
}
