//! How the engine stores objects and changes of them.

use super::next::Builder;
use super::{Changes, Object};
use crate::{Interval, ObjectId, Timestamp};
use foldhash::quality::FixedState;
use fulmar_coding::{Reader, put_bytes, put_varint};
use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};

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

    /// What [`Object::encode`] writes.
    pub fn encoded(&self) -> Encoded<'_> {
        let ends = (self.interval.low(), self.interval.high());
        Encoded::of(self, ends, self.slots.len(), (vec![&self.cells], usize::MAX))
    }

    /// A cell as it is encoded.
    pub(super) fn cell(&self, slot: usize) -> &[u8] {
        let s = &self.slots[slot];
        &self.cells[s.start as usize..s.end()]
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

/// An encoded object, of which any bytes can be had without a copy of the others.
pub struct Encoded<'o> {
    ends: [Cow<'o, [u8]>; 5],
    cells: Vec<&'o [u8]>,
    /// So many bytes of each of those tell which it is.
    telling: usize,
}

impl<'o> Encoded<'o> {
    pub(super) fn of(
        object: &Object,
        (low, high): (&'o [u8], Option<&'o [u8]>),
        count: usize,
        (cells, telling): (Vec<&'o [u8]>, usize),
    ) -> Self {
        let varint = |number: usize, out: &mut Vec<u8>| put_varint(out, number as u64);
        let mut start = vec![object.level];
        put_varint(&mut start, object.root.0);
        varint(low.len(), &mut start);
        let mut middle = vec![u8::from(high.is_some())];
        if let Some(high) = high {
            varint(high.len(), &mut middle);
        }
        let mut counted = Vec::new();
        varint(count, &mut counted);
        let ends = [start.into(), low.into(), middle.into(), high.unwrap_or_default().into(), counted.into()];
        Self { ends, cells, telling }
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().map(|piece| &**piece).chain(self.cells.iter().copied())
    }

    /// How many bytes.
    pub fn size(&self) -> u64 {
        self.pieces().map(|piece| piece.len() as u64).sum()
    }

    /// As good as certainly another number for what is encoded otherwise.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = FixedState::with_seed(self.size()).build_hasher();
        self.ends.iter().for_each(|piece| hasher.write(piece));
        self.cells.iter().for_each(|cell| hasher.write(&cell[..cell.len().min(self.telling)]));
        hasher.finish()
    }

    /// So many bytes at most, from this place on.
    pub fn bytes(&self, from: u64, most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut before = usize::try_from(from).unwrap_or(usize::MAX);
        for piece in self.pieces() {
            let rest = piece.get(before..).unwrap_or_default();
            before = before.saturating_sub(piece.len());
            out.extend_from_slice(&rest[..rest.len().min(most - out.len())]);
        }
        out
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
