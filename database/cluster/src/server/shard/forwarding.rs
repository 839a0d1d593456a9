//! What is misdirected goes on to where it belongs.
//!
//! A client finds leaves by inner nodes that it has read before. Where a tree grows, at its end for instance, they are old
//! after every few rows, and to read them anew is more work than what the client wants. If the right leaf is in this shard
//! too, it is found here, from the root.
//!
//! *Known as:* forwarding of misrouted requests.

use super::Shard;
use fulmar_kv::{Changes, Commit, Error, Key, KeyAndValue, Object, ObjectId, Part, Write};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Shard {
    /// The leaf that holds where `part` begins, if it is in this shard; `astray` is a node of the same tree.
    pub(super) fn leaf_from(&self, astray: &Object, part: Part<'_>) -> Result<Option<Arc<Object>>, Error> {
        let (_, shard) = self.name;
        let mut next = astray.root();
        let mut above = u8::MAX;
        while next.shard() == shard
            && let Some(node) = self.database.read(next)?
            && node.level() < above
        {
            if node.level() == 0 {
                return Ok(node.holds(part).then_some(node));
            }
            let Some(link) = node.link_towards(part) else { break };
            (next, above) = (link, node.level());
        }
        Ok(None)
    }

    /// The commit with each cell at the leaf that holds it now; nothing if that cannot be told here.
    pub(super) fn forwarded(&self, commit: &Commit) -> Result<Option<Commit>, Error> {
        if !commit.restructurings.is_empty() {
            return Ok(None);
        }
        let mut writes: BTreeMap<ObjectId, Vec<KeyAndValue<'_>>> = BTreeMap::new();
        for Write { object, cleared, changes } in &commit.writes {
            if !cleared.is_empty() {
                return Ok(None);
            }
            for (key, value) in changes.iter() {
                let Some(leaf) = self.holder(*object, key)? else { return Ok(None) };
                writes.entry(leaf.id()).or_default().push((key, value));
            }
        }
        // Nobody means to change a cell twice.
        let in_order = |(object, mut changes): (ObjectId, Vec<KeyAndValue<'_>>)| {
            changes.sort_by_key(|(key, _)| *key);
            let mut sorted = Changes::default();
            let is_sound = changes.into_iter().all(|(key, value)| sorted.push(key, value));
            is_sound.then_some(Write { object, cleared: Vec::new(), changes: sorted })
        };
        let (Some(required), Some(touched)) =
            (self.relocated(&commit.required)?, self.relocated(&commit.touched)?)
        else {
            return Ok(None);
        };
        let Some(writes) = writes.into_iter().map(in_order).collect() else { return Ok(None) };
        Ok(Some(Commit { writes, required, touched, ..commit.clone() }))
    }

    /// The same cells, each at the leaf that holds it now.
    fn relocated(&self, cells: &[(ObjectId, Key)]) -> Result<Option<Vec<(ObjectId, Key)>>, Error> {
        let place = |(object, key): &(ObjectId, Key)| {
            Ok(self.holder(*object, key)?.map(|leaf| (leaf.id(), key.clone())))
        };
        cells.iter().map(place).collect()
    }

    /// The leaf that holds a cell which was taken to be in `object`.
    pub(super) fn holder(&self, object: ObjectId, key: &[u8]) -> Result<Option<Arc<Object>>, Error> {
        match self.database.read(object)? {
            Some(leaf) if leaf.level() == 0 && leaf.covers(key) => Ok(Some(leaf)),
            Some(astray) => self.leaf_from(&astray, Part::From(key)),
            None => Ok(None),
        }
    }
}
