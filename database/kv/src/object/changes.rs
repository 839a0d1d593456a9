//! Changes of cells, one after the other in one buffer, as they lie in messages too.
//!
//! A commit may change millions of cells. Each by itself would take many times the memory of the message that it came in.

use super::Change;
use fulmar_coding::{Reader, put_bytes, put_varint};
use std::fmt;
use std::iter;

/// Changes of one object's cells, in ascending order of distinct keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of each the key, and a byte that says whether there is a value, and that.
    bytes: Vec<u8>,
    count: usize,
    /// Where the last one begins.
    last: usize,
}

/// A key and its new value; `None` deletes it.
pub type KeyAndValue<'c> = (&'c [u8], Option<&'c [u8]>);

impl Changes {
    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that keys and values take, and a few more for each.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = KeyAndValue<'_>> + Clone {
        let mut input = Reader::new(&self.bytes);
        iter::from_fn(move || change(&mut input))
    }

    /// That of the lowest key.
    #[must_use]
    pub fn first(&self) -> Option<KeyAndValue<'_>> {
        change(&mut Reader::new(&self.bytes))
    }

    /// That of the highest key.
    #[must_use]
    pub fn last(&self) -> Option<KeyAndValue<'_>> {
        change(&mut Reader::new(&self.bytes[self.last..]))
    }

    /// Adds the next one, if its key is above that of the last; whether it is.
    #[must_use]
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        if self.last().is_some_and(|(last, _)| last >= key) {
            return false;
        }
        self.last = self.bytes.len();
        put_bytes(&mut self.bytes, key);
        self.bytes.push(value.is_some().into());
        if let Some(value) = value {
            put_bytes(&mut self.bytes, value);
        }
        self.count += 1;
        true
    }

    /// Adds those that follow.
    ///
    /// # Panics
    /// If the keys do not ascend.
    fn extend<'c>(&mut self, changes: impl IntoIterator<Item = KeyAndValue<'c>>) {
        for (key, value) in changes {
            assert!(self.push(key, value), "changes in ascending order");
        }
    }

    /// Appends them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count as u64);
        out.extend_from_slice(&self.bytes);
    }

    /// The next of a message or record, if they are in ascending order.
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let count = usize::try_from(input.varint()?).ok()?;
        let all = input.rest();
        let (mut last, mut previous) = (0, None);
        for _ in 0..count {
            last = all.len() - input.rest().len();
            let (key, _) = change(input)?;
            if previous.is_some_and(|previous| previous >= key) {
                return None;
            }
            previous = Some(key);
        }
        let bytes = all[..all.len() - input.rest().len()].into();
        Some(Self { bytes, count, last })
    }
}

fn change<'c>(input: &mut Reader<'c>) -> Option<KeyAndValue<'c>> {
    let key = input.bytes()?;
    let value = match input.byte()? {
        0 => None,
        1 => Some(input.bytes()?),
        _ => return None,
    };
    Some((key, value))
}

impl<'c> FromIterator<KeyAndValue<'c>> for Changes {
    /// # Panics
    /// If the keys do not ascend.
    fn from_iter<I: IntoIterator<Item = KeyAndValue<'c>>>(changes: I) -> Self {
        let mut all = Self::default();
        all.extend(changes);
        all
    }
}

impl From<Vec<Change>> for Changes {
    /// # Panics
    /// If the keys do not ascend.
    fn from(changes: Vec<Change>) -> Self {
        let size =
            |change: &Change| change.key.len() + change.value.as_ref().map_or(0, |value| value.len()) + 6;
        let mut all = Self { bytes: Vec::with_capacity(changes.iter().map(size).sum()), ..Self::default() };
        all.extend(changes.iter().map(|change| (&*change.key, change.value.as_deref())));
        all
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = |(key, value): KeyAndValue<'_>| Change { key: key.into(), value: value.map(Into::into) };
        f.debug_list().entries(self.iter().map(change)).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use fulmar_node::Random;
    use std::collections::BTreeMap;

    #[test]
    fn changes_are_what_they_were_made_of() {
        let mut random = Random::new(1);
        for _ in 0..300 {
            let mut bytes = |longest| vec![random.next().to_le_bytes()[0]; random.index(longest)];
            let of: Vec<(Vec<u8>, Vec<u8>)> = (0..20).map(|_| (bytes(5), bytes(200))).collect();
            let of: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
                of.into_iter().map(|(key, value)| (key, (value.len() % 3 > 0).then_some(value))).collect();
            let pairs = || of.iter().map(|(key, value)| (&**key, value.as_deref()));
            let changes: Changes = pairs().collect();
            assert!(changes.iter().eq(pairs()));
            assert_eq!((changes.first(), changes.last()), (pairs().next(), pairs().next_back()));
            assert_eq!((changes.len(), changes.is_empty()), (of.len(), of.is_empty()));
            let mut written = Vec::new();
            changes.encode(&mut written);
            written.push(7);
            let mut input = Reader::new(&written);
            assert_eq!(Changes::decode(&mut input).unwrap(), changes);
            assert_eq!(input.rest(), [7]);
            for end in 0..written.len() - 1 {
                assert_eq!(Changes::decode(&mut Reader::new(&written[..end])), None);
            }
        }
    }

    #[test]
    fn what_does_not_ascend_is_refused() {
        for keys in [["b", "a"], ["a", "a"]] {
            let mut written = vec![2];
            for key in keys {
                put_bytes(&mut written, key.as_bytes());
                written.push(0);
            }
            assert_eq!(Changes::decode(&mut Reader::new(&written)), None);
        }
    }
}
