//! Names that a transaction gives to the rows that it inserts (RFC 7047, section 5.1, `<named-uuid>`).

use crate::fields::is_id;
use crate::{Error, Tag, Uuid};
use fulmar_node::Random;
use std::collections::BTreeMap;

/// The names of one transaction. A name may be used before the row is there, as rows may refer to each other.
pub(crate) struct Names<'c> {
    /// Where UUIDs come from; nothing outside of transactions, where there are no names.
    chance: Option<&'c mut Random>,
    known: BTreeMap<String, Name>,
}

struct Name {
    uuid: Uuid,
    /// Whether a row has it.
    given: bool,
}

impl<'c> Names<'c> {
    pub(crate) const fn new(chance: &'c mut Random) -> Self {
        Self { chance: Some(chance), known: BTreeMap::new() }
    }

    /// For values outside of transactions.
    pub(crate) const fn none() -> Self {
        Self { chance: None, known: BTreeMap::new() }
    }

    /// A UUID for a row without a name.
    ///
    /// # Panics
    /// Outside of a transaction.
    pub(crate) fn fresh(&mut self) -> Uuid {
        Uuid::random(self.chance.as_mut().expect("rows are inserted in transactions"))
    }

    /// The row that has this name, or will have it.
    pub(crate) fn refer(&mut self, name: &str) -> Result<Uuid, Error> {
        self.look_up(name).map(|name| name.uuid)
    }

    /// Gives the name to a row, which gets this UUID if no other is given.
    pub(crate) fn give(&mut self, name: &str, uuid: Option<Uuid>) -> Result<Uuid, Error> {
        let is_used = self.known.contains_key(name);
        let entry = self.look_up(name)?;
        if is_used && !entry.given && uuid.is_some() {
            let details = format!("`{name}` is used before the insert that says its UUID");
            return Err(Error::syntax(details));
        }
        if entry.given {
            let details = format!("an earlier insert of this transaction has the name `{name}` already");
            return Err(Error::new(Tag::DuplicateUuidName, details));
        }
        entry.uuid = uuid.unwrap_or(entry.uuid);
        entry.given = true;
        Ok(entry.uuid)
    }

    fn look_up(&mut self, name: &str) -> Result<&mut Name, Error> {
        let Some(chance) = self.chance.as_mut() else {
            return Err(Error::syntax(format!("`{name}`: rows have names in transactions only")));
        };
        if !is_id(name) {
            return Err(Error::syntax(format!("`{name}` is no name: expected letters, digits and `_`")));
        }
        let new = || Name { uuid: Uuid::random(chance), given: false };
        Ok(self.known.entry(name.into()).or_insert_with(new))
    }
}
