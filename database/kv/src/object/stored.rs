//! How the engine stores objects and changes of them.

use super::next::Builder;
use super::{Changes, Object};
use crate::{Interval, ObjectId, Timestamp};
use fulmar_coding::{Reader, put_bytes, put_varint};

impl Object {
    /// Appends it as the engine stores it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.cells.len() + 64);
        out.push(self.level);
        put_varint(out, self.root.0);
        self.interval.encode(out);
        put_varint(out, self.slots.len() as u64);
        out.extend_from_slice(&self.cells);
    }

    /// The object that [`Object::encode`] wrote; `None` if these bytes are not one.
    pub fn decode(id: ObjectId, bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let level = input.byte()?;
        let root = ObjectId(input.varint()?);
        let interval = Interval::decode(&mut input)?;
        let count = usize::try_from(input.varint()?).ok()?;
        if count > bytes.len() / SMALLEST_CELL {
            return None;
        }
        let mut object = Builder::with_capacity(count, bytes.len());
        for _ in 0..count {
            let (key, value, at) = decode_cell(&mut input)?;
            let in_order = object.last().is_none_or(|(last, then)| (last, at) < (key, then));
            if !in_order || !interval.contains(key) {
                return None;
            }
            object.push(key, value, at);
        }
        input.is_empty().then(|| object.finish(id, root, interval, level))
    }

    /// The state after changes that [`encode_changes`] wrote; `None` if these bytes are not changes of this object.
    pub(crate) fn replay(&self, bytes: &[u8], watermark: Timestamp) -> Option<Self> {
        let (changes, at) = decode_changes(bytes)?;
        self.takes(&changes, at).then(|| self.apply(&changes, at, watermark))
    }

    /// Whether these changes are of its cells, and later than what it has of these.
    pub(crate) fn takes(&self, changes: &Changes, at: Timestamp) -> bool {
        // Of other cells there may be later versions: a transaction of several shards is carried out late.
        let is_later = |key: &[u8]| self.changed(key).is_none_or(|newest| at > newest);
        let mut keys = changes.iter().map(|(key, _)| key);
        let is_next = at == Timestamp(0) || at > self.newest || keys.clone().all(is_later);
        is_next && keys.all(|key| self.interval.contains(key))
    }
}

/// Two lengths and a timestamp, of one byte each.
const SMALLEST_CELL: usize = 3;

/// Changes of one object made at one time, as the engine stores them.
pub(crate) fn encode_changes(changes: &Changes, at: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(cells_bound(changes));
    for (key, value) in changes.iter() {
        encode_cell(&mut out, key, value, at);
    }
    out
}

fn decode_changes(bytes: &[u8]) -> Option<(Changes, Timestamp)> {
    let mut input = Reader::new(bytes);
    let mut changes = Changes::default();
    let mut made = None;
    while !input.is_empty() {
        let (key, value, at) = decode_cell(&mut input)?;
        if *made.get_or_insert(at) != at || !changes.push(key, value) {
            return None;
        }
    }
    Some((changes, made.unwrap_or_default()))
}

/// No cells made of these changes take more bytes.
pub(super) const fn cells_bound(changes: &Changes) -> usize {
    changes.size() + 20 * changes.len()
}

/// A cell's key, its value or `None` for a deletion, and when it got it.
type StoredCell<'a> = (&'a [u8], Option<&'a [u8]>, Timestamp);

/// Key length, value length plus one (0: deleted), timestamp, key, value.
pub(super) fn encode_cell(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>, at: Timestamp) {
    put_varint(out, key.len() as u64);
    put_varint(out, value.map_or(0, |v| v.len() as u64 + 1));
    put_varint(out, at.0);
    out.extend_from_slice(key);
    out.extend_from_slice(value.unwrap_or_default());
}

fn decode_cell<'a>(input: &mut Reader<'a>) -> Option<StoredCell<'a>> {
    let key_length = usize::try_from(input.varint()?).ok()?;
    let value_length = usize::try_from(input.varint()?).ok()?;
    let at = Timestamp(input.varint()?);
    let key = input.take(key_length)?;
    let value = if value_length == 0 { None } else { Some(input.take(value_length - 1)?) };
    Some((key, value, at))
}

impl Interval {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.low());
        match self.high() {
            Some(high) => {
                out.push(1);
                put_bytes(out, high);
            }
            None => out.push(0),
        }
    }

    /// The next of a message or record.
    pub fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let low = input.bytes()?.into();
        let high = match input.byte()? {
            0 => None,
            1 => Some(input.bytes()?.into()),
            _ => return None,
        };
        Some(Self::new(low, high))
    }
}
