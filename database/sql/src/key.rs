//! Keys: byte strings that sort as SQLite sorts what they stand for.
//!
//! A row of a table is found by its rowid: eight bytes, big-endian, the sign bit inverted.
//!
//! An index entry is found by its fields one after another, each of them prefix-free, so that comparing the bytes
//! compares field by field. A field is a tag (NULL < number < text < blob) and
//!
//! - a number: the double nearest to it, in eight bytes that sort; where doubles are coarser than integers (from 2⁵³ on),
//!   two more bytes for how far the exact value lies from that double;
//! - text or a blob: its bytes, 00 written as `00 FF`, and `00 00` at the end.
//!
//! Text is first brought to the form that its collation compares. A descending field has all its bytes inverted. No
//! field begins with FF, so a prefix followed by FF lies after every key with that prefix.
//!
//! *Known as:* memcomparable keys.

use crate::record::Value;
use std::borrow::Cow;

/// The key of a table's row.
pub(crate) fn of_row(row: i64) -> [u8; 8] {
    (row ^ i64::MIN).to_be_bytes()
}

/// The row that a table's key stands for.
pub(crate) fn row_of(key: &[u8]) -> i64 {
    key.try_into().map_or(0, |bytes| i64::from_be_bytes(bytes) ^ i64::MIN)
}

const NULL: u8 = 0x10;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
const BLOB: u8 = 0x40;

/// From here on (2⁵³) two integers may have the same nearest double.
const COARSE: f64 = 9_007_199_254_740_992.0;

/// How text compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Collation {
    Binary,
    /// ASCII letters without their case; a NUL ends the comparison of characters, and then the lengths decide.
    NoCase,
    /// Trailing spaces do not count.
    Rtrim,
}

/// How a database stores text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// How one field of an index compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) collation: Collation,
    pub(crate) descending: bool,
}

/// How the entries of one index become keys.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) fields: Vec<Field>,
    /// So many leading fields are unique among entries without a NULL in them: for those entries the key ends there, so
    /// that two transactions which insert the same values write the same key, and conflict. 0 if not unique.
    pub(crate) unique: usize,
    pub(crate) encoding: Encoding,
}

impl Format {
    /// Replaces `key` with the key, or the prefix of keys, of an entry that begins with `values`, and `rest` with the
    /// fields after the unique ones where those make up the key.
    pub(crate) fn encode<'v>(
        &self,
        values: impl Iterator<Item = Value<'v>>,
        key: &mut Vec<u8>,
        rest: &mut Vec<u8>,
    ) {
        key.clear();
        rest.clear();
        let mut null_seen = false;
        for (i, (field, value)) in self.fields.iter().zip(values).enumerate() {
            let complete = self.unique > 0 && i >= self.unique && !null_seen;
            let target = if complete { &mut *rest } else { &mut *key };
            let start = target.len();
            let null = self.encode_value(field.collation, value, target);
            null_seen |= null && !complete;
            if field.descending {
                target[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
    }

    /// Appends one value, ascending, and says whether it is NULL.
    fn encode_value(&self, collation: Collation, value: Value<'_>, key: &mut Vec<u8>) -> bool {
        match value {
            Value::Integer(integer) => encode_integer(integer, key),
            Value::Real(real) if !real.is_nan() => encode_real(real, key),
            Value::Text(text) => {
                key.push(TEXT);
                match collation {
                    Collation::Binary => escape(text, key),
                    Collation::Rtrim => {
                        let text = self.as_utf8(text);
                        let spaces = text.iter().rev().take_while(|byte| **byte == b' ').count();
                        escape(&text[..text.len() - spaces], key);
                    }
                    Collation::NoCase => fold(&self.as_utf8(text), key),
                }
            }
            Value::Blob(bytes, zeros) => {
                key.push(BLOB);
                escape_bytes(bytes, key);
                (0..zeros).for_each(|_| key.extend([0, 0xff]));
                key.extend([0, 0]);
            }
            Value::Null | Value::Real(_) => {
                key.push(NULL);
                return true;
            }
        }
        false
    }

    /// The text as the collations NOCASE and RTRIM see it.
    fn as_utf8<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let unit: fn([u8; 2]) -> u16 = match self.encoding {
            Encoding::Utf8 => return Cow::Borrowed(text),
            Encoding::Utf16Le => u16::from_le_bytes,
            Encoding::Utf16Be => u16::from_be_bytes,
        };
        let units = text.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let characters = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Cow::Owned(characters.collect::<String>().into_bytes())
    }
}

#[expect(clippy::cast_precision_loss, reason = "what the nearest double loses is kept beside it")]
fn encode_integer(integer: i64, key: &mut Vec<u8>) {
    let nearest = integer as f64;
    push_double(nearest, key);
    if nearest.abs() >= COARSE {
        // The nearest double of an i64 is a whole number within ±2⁶³, at most 2⁹ away from it.
        #[expect(clippy::cast_possible_truncation, reason = "exact, as said above")]
        let distance = (i128::from(integer) - nearest as i128) as i16;
        key.extend((distance ^ i16::MIN).to_be_bytes());
    }
}

fn encode_real(real: f64, key: &mut Vec<u8>) {
    push_double(real, key);
    if real.abs() >= COARSE {
        key.extend(i16::MIN.to_be_bytes());
    }
}

/// Appends a double so that bytes sort as doubles: negative ones are inverted, others get their sign bit set.
fn push_double(real: f64, key: &mut Vec<u8>) {
    // Adding zero turns -0.0 into 0.0.
    let bits = (real + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.push(NUMBER);
    key.extend(ordered.to_be_bytes());
}

fn escape(bytes: &[u8], key: &mut Vec<u8>) {
    escape_bytes(bytes, key);
    key.extend([0, 0]);
}

fn escape_bytes(mut bytes: &[u8], key: &mut Vec<u8>) {
    while let Some(zero) = bytes.iter().position(|byte| *byte == 0) {
        key.extend_from_slice(&bytes[..zero]);
        key.extend([0, 0xff]);
        bytes = &bytes[zero + 1..];
    }
    key.extend_from_slice(bytes);
}

/// NOCASE: after a NUL only the length of the text counts.
fn fold(text: &[u8], key: &mut Vec<u8>) {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    key.extend(text[..end].iter().map(u8::to_ascii_lowercase));
    if end < text.len() {
        key.extend([0, 0xff]);
        key.extend((text.len() as u64).to_be_bytes());
    }
    key.extend([0, 0]);
}

#[cfg(test)]
mod tests;
