//! Shards that a database gets when a server joins its cluster.
//!
//! A shard may have trees and leaves as soon as it has a copy of what all shards have ([`Tree::facts`]). Whoever changes that
//! writes down, in the same transaction, how many shards have a copy; so does whoever gives one to a new shard. So they
//! conflict, and none is left out.

use crate::transaction::Transaction;
use crate::{Cursor, Database, Durability, Error, OWN, SHARDS, Tree, WELCOME};
use fulmar_kv::{ShardId, Store};

impl Transaction {
    /// How many shards have a copy of what all have.
    pub(crate) fn shards(&self) -> Result<u16, Error> {
        match self.get(Tree::facts(ShardId(0)), SHARDS)? {
            Some(stored) => {
                let damaged = || self.database.corrupt("the number of shards is damaged".into());
                (*stored).try_into().map(u16::from_be_bytes).map_err(|_| damaged())
            }
            None => Ok(self.database.store.shards()?.founded),
        }
    }

    /// Keeps the number of shards as it is, until the commit.
    pub(crate) fn keep_shards(&mut self, shards: u16) -> Result<(), Error> {
        self.put(Tree::facts(ShardId(0)), SHARDS, &shards.to_be_bytes())
    }
}

impl Database {
    /// Gives each new shard what all shards have; from then on trees may be in it. Says how many shards there are then.
    ///
    /// # Errors
    /// [`Error::Io`] if a server cannot be reached.
    pub fn welcome_shards(&self) -> Result<u16, Error> {
        loop {
            let mut transaction = self.begin()?;
            let shards = transaction.shards()?;
            if shards >= self.store.shards()?.all {
                return Ok(shards);
            }
            let copy = Tree::facts(ShardId(shards));
            let mut cursor = Cursor::new(Tree::facts(ShardId(0)));
            let mut more = cursor.first(&transaction)?;
            while more && cursor.key().first() != Some(&OWN) {
                transaction.put(copy, cursor.key(), cursor.value())?;
                more = cursor.next(&transaction)?;
            }
            transaction.put(copy, WELCOME, &[])?;
            transaction.keep_shards(shards + 1)?;
            match transaction.commit(Durability::Synced) {
                Ok(_) | Err(Error::Conflict | Error::SnapshotGone) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
