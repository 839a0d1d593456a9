//! What `PRAGMA data_version` says of commits in other processes.

use fulmar_dbt::Timestamp;
use std::cell::Cell;

/// What a connection has heard of commits on a server, for `PRAGMA data_version`.
#[derive(Default)]
pub(crate) struct Version {
    /// The newest commit that was seen, or was its own and came right after that.
    at: Cell<Timestamp>,
    /// How often others had committed when it looked.
    changes: Cell<u32>,
}

impl Version {
    /// How often others had committed, as this snapshot shows.
    pub(crate) fn look(&self, at: Timestamp) -> u32 {
        if self.at.replace(at) != at {
            self.changes.set(self.changes.get().wrapping_add(1));
        }
        self.heard()
    }

    /// How often others had committed when it last looked.
    pub(crate) fn heard(&self) -> u32 {
        self.changes.get()
    }

    /// The connection itself has committed, on this snapshot.
    pub(crate) fn committed(&self, snapshot: Option<Timestamp>, at: Timestamp) {
        if snapshot == Some(self.at.get()) && self.at.get().0 + 1 == at.0 {
            self.at.set(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_commits_do_not_count() {
        let version = Version::default();
        let before = version.look(Timestamp(7));
        version.committed(Some(Timestamp(7)), Timestamp(8));
        assert_eq!(version.look(Timestamp(8)), before);
        assert_ne!(version.look(Timestamp(9)), before);
        let before = version.look(Timestamp(9));
        version.committed(Some(Timestamp(9)), Timestamp(11));
        assert_ne!(version.look(Timestamp(11)), before, "somebody else's was in between");
    }
}
