//! Which group it is: what all its founders say alike.

use fulmar_node::NodeId;
use fulmar_replication::{Group, GroupError, Protocol};
use fulmar_transport::ClusterId;
use std::fmt;
use xxhash_rust::xxh3::xxh3_128;

/// What is replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// Numbers that only grow.
    Timestamps,
    /// A lock manager.
    Locks,
}

impl Application {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Timestamps, Self::Locks];
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timestamps => "timestamps",
            Self::Locks => "locks",
        })
    }
}

/// The addresses of all replicas of a group, sorted: so nobody has to say them in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members(Vec<String>);

/// Addresses that are no group's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// One is none.
    #[error("`{0}` is no member's address: expected HOST:PORT")]
    Address(String),
    /// One is there twice.
    #[error("{0} is named twice among the members: each is another process")]
    Twice(String),
    /// Their number is even.
    #[error(
        "{0} members: a majority must survive a failure, and of {0} no more may fail than of {less}; expected an odd \
         number, such as 3",
        less = .0.max(&2) - 1
    )]
    Even(usize),
}

impl Members {
    /// These `HOST:PORT`.
    ///
    /// # Errors
    /// [`MembersError`]
    pub fn new<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Self, MembersError> {
        let mut members: Vec<String> = addresses.into_iter().map(canonical).collect::<Result<_, _>>()?;
        members.sort_unstable();
        if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MembersError::Twice(pair[0].clone()));
        }
        if members.len().is_multiple_of(2) {
            return Err(MembersError::Even(members.len()));
        }
        Ok(Self(members))
    }

    /// The replicas and their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.0.iter().zip(1..).map(|(address, number)| (NodeId(number), address.as_str()))
    }

    /// The replica at this address.
    #[must_use]
    pub fn node(&self, address: &str) -> Option<NodeId> {
        let address = canonical(address).ok()?;
        self.iter().find(|(_, member)| *member == address).map(|(node, _)| node)
    }

    /// Where a replica is.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<&str> {
        self.iter().find(|(member, _)| *member == node).map(|(_, address)| address)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// The one way to write an address.
fn canonical(address: &str) -> Result<String, MembersError> {
    let wrong = || MembersError::Address(address.into());
    let (host, port) = address.trim().rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let is_name = !host.is_empty() && (!host.contains(':') || host.starts_with('['));
    if port == 0 || !is_name || host.contains(|c: char| c.is_whitespace() || c == ',') {
        return Err(wrong());
    }
    Ok(format!("{}:{port}", host.to_lowercase()))
}

/// What a group is founded with, and goes by ever after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charter {
    /// What it replicates.
    pub application: Application,
    /// Where its replicas are.
    pub members: Members,
    /// How they agree.
    pub protocol: Protocol,
}

impl Charter {
    /// The group that is founded so.
    ///
    /// # Errors
    /// [`GroupError`], which [`Members`] rule out.
    pub fn group(&self) -> Result<Group, GroupError> {
        Group::new(self.members.iter().map(|(node, _)| node), self.protocol)
    }

    /// The name by which replicas and clients know that they mean the same group.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        ClusterId(xxh3_128(self.to_string().as_bytes()).max(1))
    }

    /// The charter with these members that has this name, if there is one.
    #[must_use]
    pub fn named(cluster: ClusterId, members: &Members) -> Option<Self> {
        let protocols = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
        let all = Application::ALL.into_iter().flat_map(|application| {
            protocols.map(|protocol| Self { application, members: members.clone(), protocol })
        });
        all.into_iter().find(|charter| charter.cluster() == cluster)
    }
}

impl fmt::Display for Charter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} by {}", self.application, self.members, self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(addresses: &[&str]) -> String {
        Members::new(addresses.iter().copied()).expect_err("no group").to_string()
    }

    #[test]
    fn members_are_the_same_in_any_order() {
        let members = Members::new(["b:2", "A:1", "[::1]:03"]).expect("three");
        assert_eq!(members.to_string(), "[::1]:3, a:1, b:2");
        assert_eq!(Members::new(["a:1", "[::1]:3", "b:2"]), Ok(members.clone()));
        assert_eq!(members.node("a:01"), Some(NodeId(2)));
        assert_eq!(members.address(NodeId(3)), Some("b:2"));
        assert_eq!((members.node("c:1"), members.address(NodeId(4))), (None, None));
    }

    #[test]
    fn wrong_members_are_named() {
        assert!(error(&["a:1", "b"]).starts_with("`b` is no member's address"));
        for wrong in ["", ":1", "a:", "a:0", "a:70000", "::1", "a b:1", "a:1,b:2"] {
            assert_eq!(error(&[wrong]), format!("`{wrong}` is no member's address: expected HOST:PORT"));
        }
        assert!(error(&["a:1", "b:1", "A:01"]).starts_with("a:1 is named twice"));
        assert!(error(&["a:1", "b:1"]).starts_with("2 members:"));
        assert!(error(&[]).contains("expected an odd number"));
    }

    #[test]
    fn a_group_is_known_by_its_name() {
        let members = Members::new(["a:1", "b:1", "c:1"]).expect("three");
        let charter = |application, protocol| Charter { application, members: members.clone(), protocol };
        for application in Application::ALL {
            for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
                let charter = charter(application, protocol);
                assert_eq!(Charter::named(charter.cluster(), &members), Some(charter));
            }
        }
        let others = Members::new(["a:1", "b:1", "d:1"]).expect("three");
        let charter = charter(Application::Locks, Protocol::Fast);
        assert_eq!(Charter::named(charter.cluster(), &others), None);
        assert_eq!(charter.to_string(), "locks on a:1, b:1, c:1 by fast-paxos");
    }
}
