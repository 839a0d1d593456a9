//! The first frames of a connection: who speaks, to whom, of which cluster, in which version.
//!
//! Both begin alike, and a refusal is readable to every version, so that two that cannot talk can say why:
//!
//! ```text
//! hello    magic[6] framing:u16 version:u32 cluster:u128 from:u32 to:u32
//! welcome  magic[6] framing:u16 version:u32 0:u8 cluster:u128 server:u32 you:u32
//! refusal  magic[6] framing:u16 version:u32 1:u8 reason (UTF-8, to the end)
//! ```
//!
//! Numbers are little-endian. `u32::MAX` stands for "a client" in `from` and for "whoever you are" in `to`; cluster 0
//! of a client means "whichever you are".

use fulmar_node::NodeId;
use std::fmt;

const MAGIC: &[u8; 6] = b"fulmar";
/// The version of frames and greetings, as against that of the messages in them.
const FRAMING: u16 = 1;
const NOBODY: u32 = u32::MAX;
/// Bytes of a hello.
pub(crate) const HELLO_LENGTH: usize = 36;
/// Greetings are no longer than this.
pub(crate) const HELLO_LIMIT: usize = 1 << 10;

/// Servers are named below this, clients from here on: by each server they connect to, for one connection.
pub const FIRST_CLIENT: NodeId = NodeId(1 << 31);

/// The name of a cluster, given once when it is made. Messages never cross from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// What a client says that takes the cluster as it finds it. No cluster is named so.
    pub const ANY: Self = Self(0);
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What two ends of a connection must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The cluster.
    pub cluster: ClusterId,
    /// The version of the messages: raise it when their encoding changes.
    pub version: u32,
}

/// The first frame of who dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) protocol: Protocol,
    /// Nothing for a client.
    pub(crate) from: Option<NodeId>,
    /// Nothing if whoever answers will do.
    pub(crate) to: Option<NodeId>,
}

/// The first frame of who accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome {
        cluster: ClusterId,
        server: NodeId,
        /// The name of who dialed, on this connection.
        you: NodeId,
    },
    Refusal(String),
}

/// Why a server refuses a connection; its text goes to the other end, too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The greeting is none.
    #[error("this is a Fulmar server, and the connection does not speak its protocol")]
    NotFulmar,
    /// Frames or greetings are of another version.
    #[error("the connection is framed in version {theirs}, and this server's in version {ours}")]
    Framing {
        /// Version of the other end.
        theirs: u16,
        /// Version of the server.
        ours: u16,
    },
    /// Messages are of another version.
    #[error(
        "the connection speaks protocol version {theirs}, and this server version {ours}: one is of another version of Fulmar, or one \
         is for databases and the other for timestamps or locks"
    )]
    Version {
        /// Version of the other end.
        theirs: u32,
        /// Version of the server.
        ours: u32,
    },
    /// The other end belongs to another cluster.
    #[error("the connection is meant for cluster {theirs}, and this server belongs to cluster {ours}")]
    Cluster {
        /// Cluster of the other end.
        theirs: ClusterId,
        /// Cluster of the server.
        ours: ClusterId,
    },
    /// The other end looks for another server.
    #[error("the connection is meant for server {wanted}, and this is server {me}")]
    Node {
        /// Whom the other end looks for.
        wanted: NodeId,
        /// Who the server is.
        me: NodeId,
    },
    /// The other end calls itself what no other server may be called.
    #[error("the connection comes from a server named {0}, which cannot be another server's name")]
    Name(NodeId),
    /// The server has as many connections as it may have.
    #[error("the server has {0} connections and takes no more")]
    Full(usize),
}

fn head(version: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FRAMING.to_le_bytes());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes
}

/// Takes the next `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_le_bytes)
}

impl Hello {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = head(self.protocol.version);
        bytes.extend_from_slice(&self.protocol.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&self.from.map_or(NOBODY, |node| node.0).to_le_bytes());
        bytes.extend_from_slice(&self.to.map_or(NOBODY, |node| node.0).to_le_bytes());
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, Refusal> {
        let bytes = &mut bytes;
        if take(bytes).as_ref() != Some(MAGIC) {
            return Err(Refusal::NotFulmar);
        }
        let theirs = take(bytes).map(u16::from_le_bytes).ok_or(Refusal::NotFulmar)?;
        if theirs != FRAMING {
            return Err(Refusal::Framing { theirs, ours: FRAMING });
        }
        let mut body = || {
            let version = take_u32(bytes)?;
            let cluster = ClusterId(u128::from_le_bytes(take(bytes)?));
            let node = |name| (name != NOBODY).then_some(NodeId(name));
            let from = node(take_u32(bytes)?);
            let to = node(take_u32(bytes)?);
            Some(Self { protocol: Protocol { cluster, version }, from, to })
        };
        body().ok_or(Refusal::NotFulmar)
    }

    /// Whether server `me` may talk to who sent this.
    pub(crate) fn judge(self, ours: Protocol, me: NodeId) -> Result<(), Refusal> {
        let theirs = self.protocol;
        if theirs.version != ours.version {
            return Err(Refusal::Version { theirs: theirs.version, ours: ours.version });
        }
        if theirs.cluster != ours.cluster && !(theirs.cluster == ClusterId::ANY && self.from.is_none()) {
            return Err(Refusal::Cluster { theirs: theirs.cluster, ours: ours.cluster });
        }
        if let Some(wanted) = self.to.filter(|&wanted| wanted != me) {
            return Err(Refusal::Node { wanted, me });
        }
        match self.from {
            Some(name) if name == me || name >= FIRST_CLIENT => Err(Refusal::Name(name)),
            _ => Ok(()),
        }
    }
}

impl Answer {
    pub(crate) fn encode(&self, version: u32) -> Vec<u8> {
        let mut bytes = head(version);
        match self {
            Self::Welcome { cluster, server, you } => {
                bytes.push(0);
                bytes.extend_from_slice(&cluster.0.to_le_bytes());
                bytes.extend_from_slice(&server.0.to_le_bytes());
                bytes.extend_from_slice(&you.0.to_le_bytes());
            }
            Self::Refusal(reason) => {
                bytes.push(1);
                bytes.extend_from_slice(reason.as_bytes());
            }
        }
        bytes
    }

    /// Nothing if the bytes are no answer.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        if take(bytes).as_ref() != Some(MAGIC) {
            return None;
        }
        let framing = u16::from_le_bytes(take(bytes)?);
        let _version = take_u32(bytes)?;
        match take(bytes)? {
            [0] if framing == FRAMING => Some(Self::Welcome {
                cluster: ClusterId(u128::from_le_bytes(take(bytes)?)),
                server: NodeId(take_u32(bytes)?),
                you: NodeId(take_u32(bytes)?),
            }),
            [1] => Some(Self::Refusal(String::from_utf8_lossy(bytes).into_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    const OURS: Protocol = Protocol { cluster: ClusterId(7), version: 3 };
    const ME: NodeId = NodeId(1);

    fn hello() -> Hello {
        Hello { protocol: OURS, from: Some(NodeId(2)), to: Some(ME) }
    }

    #[test]
    fn greetings_come_back_from_bytes() {
        for greeting in [hello(), Hello { from: None, to: None, ..hello() }] {
            assert_eq!(greeting.encode().len(), HELLO_LENGTH);
            assert_eq!(Hello::decode(&greeting.encode()), Ok(greeting));
        }
        let welcome = Answer::Welcome { cluster: ClusterId(7), server: ME, you: FIRST_CLIENT };
        for answer in [welcome, Answer::Refusal("the tide is out".into())] {
            assert_eq!(Answer::decode(&answer.encode(3)), Some(answer));
        }
    }

    #[test]
    fn who_does_not_belong_is_refused() {
        assert_eq!(hello().judge(OURS, ME), Ok(()));
        let version = Protocol { version: 4, ..OURS };
        let cluster = Protocol { cluster: ClusterId(8), ..OURS };
        let any = Protocol { cluster: ClusterId::ANY, ..OURS };
        let cases = [
            (Hello { protocol: version, ..hello() }, Refusal::Version { theirs: 4, ours: 3 }),
            (
                Hello { protocol: cluster, ..hello() },
                Refusal::Cluster { theirs: ClusterId(8), ours: ClusterId(7) },
            ),
            (
                Hello { protocol: any, ..hello() },
                Refusal::Cluster { theirs: ClusterId(0), ours: ClusterId(7) },
            ),
            (Hello { to: Some(NodeId(5)), ..hello() }, Refusal::Node { wanted: NodeId(5), me: ME }),
            (Hello { from: Some(ME), ..hello() }, Refusal::Name(ME)),
            (Hello { from: Some(FIRST_CLIENT), ..hello() }, Refusal::Name(FIRST_CLIENT)),
        ];
        for (greeting, refusal) in cases {
            assert_eq!(greeting.judge(OURS, ME), Err(refusal));
        }
        assert_eq!(Hello { protocol: any, from: None, to: None }.judge(OURS, ME), Ok(()));
    }

    #[test]
    fn another_framing_is_named() {
        let mut bytes = hello().encode();
        bytes[6] = 9;
        assert_eq!(Hello::decode(&bytes), Err(Refusal::Framing { theirs: 9, ours: FRAMING }));
    }

    #[test]
    fn random_bytes_are_no_greeting() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let mut bytes = if random.one_in(2) { hello().encode() } else { Vec::new() };
            bytes.truncate(random.index(50));
            bytes.extend((0..random.below(50)).map(|_| random.next().to_le_bytes()[0]));
            let _ = Hello::decode(&bytes);
            let _ = Answer::decode(&bytes);
        }
    }
}
