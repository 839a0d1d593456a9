//! Keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// So many bytes fit into a key without an allocation: more than a rowid or two small integers take.
const SHORT: usize = 22;

/// The key of a cell: a byte string. Keys are ordered as byte strings.
#[derive(Clone)]
pub struct Key(Bytes);

#[derive(Clone)]
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Key {
    #[inline]
    fn from(key: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match u8::try_from(key.len()) {
            Ok(length) if key.len() <= SHORT => {
                bytes[..key.len()].copy_from_slice(key);
                Self(Bytes::Short { length, bytes })
            }
            _ => Self(Bytes::Long(key.into())),
        }
    }
}

impl<const N: usize> From<[u8; N]> for Key {
    fn from(key: [u8; N]) -> Self {
        key.as_slice().into()
    }
}

impl From<Vec<u8>> for Key {
    fn from(key: Vec<u8>) -> Self {
        key.into_boxed_slice().into()
    }
}

impl From<Box<[u8]>> for Key {
    fn from(key: Box<[u8]>) -> Self {
        if key.len() <= SHORT { (*key).into() } else { Self(Bytes::Long(key)) }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // What is padded with zeros sorts as the keys do, but for keys that end in zeros themselves.
            (Bytes::Short { length: m, bytes: a }, Bytes::Short { length: n, bytes: b }) => {
                head(a).cmp(&head(b)).then_with(|| a.cmp(b)).then(m.cmp(n))
            }
            _ => (**self).cmp(&**other),
        }
    }
}

/// Compared first, as one integer.
#[inline]
fn head(bytes: &[u8; SHORT]) -> u64 {
    bytes.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_bytes(self, f)
    }
}

/// The first of many bytes.
pub(crate) fn debug_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match bytes {
        _ if bytes.len() > 20 => write!(f, "{:02x?}…{}", &bytes[..16], bytes.len()),
        _ => write!(f, "{bytes:02x?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_are_the_bytes_they_were_made_of() {
        let mut last = Key::from([]);
        for length in 0..600 {
            let bytes = vec![7; length];
            let key = Key::from(bytes.as_slice());
            assert_eq!(*key, *bytes);
            assert_eq!(key, Key::from(bytes));
            assert!(length == 0 || last < key);
            last = key;
        }
    }

    #[test]
    fn keys_sort_as_byte_strings() {
        let mut strings = vec![vec![]];
        for length in [1, 7, 8, 9, 21, 22, 23, 24] {
            for last in [0, 1, 0x7f, 0x80, 0xff] {
                for first in [0, 0xff] {
                    let mut string = vec![first; length];
                    string[length - 1] = last;
                    strings.push(string);
                }
            }
        }
        for a in &strings {
            for b in &strings {
                assert_eq!(Key::from(a.as_slice()).cmp(&b.as_slice().into()), a.cmp(b), "{a:02x?} {b:02x?}");
            }
        }
    }

    #[test]
    fn a_key_takes_no_more_room_than_a_vector() {
        assert_eq!(size_of::<Key>(), size_of::<Vec<u8>>());
    }
}
