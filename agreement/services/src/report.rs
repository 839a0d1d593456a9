//! What is said of the other replicas, once and not each time that they are tried. Each thing has a kind, as in the log of a server of
//! databases: connections' are those of their notices.

use crate::Members;
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use fulmar_replication::View;
use fulmar_transport::{Address, LinkError, Notice, Resolver};
use std::collections::BTreeMap;
use std::io;

/// Where to look if one replica refuses another.
const SAME: &str = "; settings of one group name the same service, members and replication";

/// Is told what happens, and of which kind that is.
type Tell = dyn Fn(&'static str, &str) + Send + Sync;

/// Tells news of connections.
pub(crate) struct Reporter {
    members: Members,
    resolver: Resolver,
    tell: Box<Tell>,
    /// What is wrong with a replica, or with a stranger.
    wrong: Mutex<BTreeMap<Option<NodeId>, String>>,
}

impl Reporter {
    pub(crate) fn new(
        members: Members,
        tell: impl Fn(&'static str, &str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let resolver = Resolver::new()?;
        Ok(Self { members, resolver, tell: Box::new(tell), wrong: Mutex::default() })
    }

    pub(crate) fn tell(&self, kind: &'static str, what: &str) {
        (self.tell)(kind, what);
    }

    /// Where a replica is now.
    pub(crate) fn resolve(&self, node: NodeId) -> Option<Address> {
        let address = self.members.address(node)?;
        match self.resolver.find(address) {
            Ok(found) => found,
            Err(why) => {
                self.complain(Some(node), "unreachable", format!("cannot find replica {address}: {why}"));
                None
            }
        }
    }

    pub(crate) fn notice(&self, notice: &Notice) {
        let kind = notice.kind();
        match notice {
            Notice::Connected { peer, .. } => self.reached(*peer, kind),
            Notice::Unreachable { peer, why, .. } => {
                let address = self.members.address(*peer).unwrap_or_default();
                let hint = if matches!(why, LinkError::Refused(_)) { SAME } else { "" };
                self.complain(Some(*peer), kind, format!("cannot reach replica {address}: {why}{hint}"));
            }
            Notice::Refused { why, .. } => {
                self.complain(None, kind, format!("refused connections: {why}{SAME}"));
            }
            // Clients come and go, and a replica that is gone is tried again at once.
            Notice::Connecting { .. }
            | Notice::Closed { .. }
            | Notice::Unknown { why: LinkError::Ended, .. } => {}
            _ => self.tell(kind, &notice.to_string()),
        }
    }

    /// The replica takes part in another view.
    pub(crate) fn view(&self, view: View, leader: NodeId) {
        let leader = self.members.address(leader).unwrap_or_default();
        self.tell("view", &format!("view {view} has begun, led by {leader}"));
    }

    fn reached(&self, peer: NodeId, kind: &'static str) {
        if self.wrong.lock().remove(&Some(peer)).is_some()
            && let Some(address) = self.members.address(peer)
        {
            self.tell(kind, &format!("reached replica {address}"));
        }
    }

    fn complain(&self, of: Option<NodeId>, kind: &'static str, what: String) {
        if self.wrong.lock().get(&of) != Some(&what) {
            self.tell(kind, &what);
            self.wrong.lock().insert(of, what);
        }
    }
}
