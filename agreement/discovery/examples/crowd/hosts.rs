//! One process of some nodes, told by lines what to do, and telling what becomes of it by lines.
//!
//! It says [`Line::Ready`], reads a line with the addresses that each of its nodes knows, and starts these. Every further line
//! asks for [`Line::Sent`]. It ends when its standard input does, so that none outlives who has started it.

use fulmar_discovery::live::{Event, Host, Name};
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io::{self, Write, stdin, stdout};
use std::net::{SocketAddr, UdpSocket};
use std::str::FromStr;

/// With this argument the program is such a process.
pub(crate) const ARGUMENT: &str = "hosts";
/// Nodes of one process.
pub(crate) const COUNT: usize = 10;

/// What the process tells.
pub(crate) enum Line {
    /// Its nodes have these addresses.
    Ready(Vec<SocketAddr>),
    /// A node calls this view stable.
    Stable(SocketAddr, BTreeSet<SocketAddr>),
    /// All of its nodes have sent so many messages: a datagram each, or several to one receiver in one.
    Sent(u64),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(nodes) => {
                write!(f, "ready")?;
                nodes.iter().try_for_each(|node| write!(f, " {node}"))
            }
            Self::Stable(node, view) => {
                write!(f, "stable {node}")?;
                view.iter().try_for_each(|member| write!(f, " {member}"))
            }
            Self::Sent(sent) => write!(f, "sent {sent}"),
        }
    }
}

impl FromStr for Line {
    type Err = Box<dyn Error>;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut words = line.split(' ');
        let (kind, mut rest) = (words.next(), words.clone().map(str::parse));
        Ok(match kind {
            Some("ready") => Self::Ready(rest.collect::<Result<_, _>>()?),
            Some("stable") => {
                Self::Stable(rest.next().ok_or("a view of nobody")??, rest.collect::<Result<_, _>>()?)
            }
            Some("sent") => Self::Sent(words.next().ok_or("no number")?.parse()?),
            _ => return Err(format!("a process said: {line}").into()),
        })
    }
}

/// What cannot be said is not missed: who would have heard it is gone.
fn say(line: &Line) {
    let _ = writeln!(stdout(), "{line}");
}

/// Is such a process until its standard input ends.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let sockets = (0..COUNT).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>()?;
    let nodes = sockets.iter().map(UdpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
    say(&Line::Ready(nodes.clone()));
    let mut asked = stdin().lines();
    let Some(start) = asked.next().transpose()? else { return Ok(()) };
    let mut hosts = Vec::new();
    for ((socket, node), known) in sockets.into_iter().zip(nodes).zip(start.split(' ')) {
        let known = known.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        let tell = move |event| {
            if let Event::Stable(stable) = event {
                say(&Line::Stable(node, stable.members.iter().map(|member| member.address).collect()));
            }
        };
        hosts.push(Host::start(socket, node, Name::default(), known, tell)?);
    }
    for asked in asked {
        asked?;
        let counters = hosts.iter().filter_map(Host::counters);
        say(&Line::Sent(counters.map(|counters| counters.messages_sent).sum()));
    }
    Ok(())
}
