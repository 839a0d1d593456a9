//! Groups that a database gets when a server joins its cluster.
//!
//! A group may have trees and leaves as soon as it has a copy of what all groups have ([`Tree::facts`]). Whoever changes that
//! writes down, in the same transaction, how many groups have a copy; so does whoever gives one to a new group. So they
//! conflict, and none is left out.

use crate::transaction::Transaction;
use crate::{Cursor, Database, Durability, Error, GROUPS, OWN, Tree, WELCOME};
use fulmar_kv::{GroupId, Store};

impl Transaction {
    /// How many groups have a copy of what all have.
    pub(crate) fn groups(&self) -> Result<u16, Error> {
        match self.get(Tree::facts(GroupId(0)), GROUPS)? {
            Some(stored) => {
                let damaged = || self.database.corrupt("the number of groups is damaged".into());
                (*stored).try_into().map(u16::from_be_bytes).map_err(|_| damaged())
            }
            None => Ok(self.database.store.groups()?.founded),
        }
    }

    /// Keeps the number of groups as it is, until the commit.
    pub(crate) fn keep_groups(&mut self, groups: u16) -> Result<(), Error> {
        self.put(Tree::facts(GroupId(0)), GROUPS, &groups.to_be_bytes())
    }
}

impl Database {
    /// Gives each new group what all groups have; from then on trees may be in it. Says how many groups there are then.
    ///
    /// # Errors
    /// [`Error::Io`] if a server cannot be reached.
    pub fn welcome_groups(&self) -> Result<u16, Error> {
        loop {
            let mut transaction = self.begin()?;
            let groups = transaction.groups()?;
            if groups >= self.store.groups()?.all {
                return Ok(groups);
            }
            let copy = Tree::facts(GroupId(groups));
            let mut cursor = Cursor::new(Tree::facts(GroupId(0)));
            let mut more = cursor.first(&transaction)?;
            while more && cursor.key().first() != Some(&OWN) {
                transaction.put(copy, cursor.key(), cursor.value())?;
                more = cursor.next(&transaction)?;
            }
            transaction.put(copy, WELCOME, &[])?;
            transaction.keep_groups(groups + 1)?;
            match transaction.commit(Durability::Synced) {
                Ok(_) | Err(Error::Conflict | Error::SnapshotGone) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
