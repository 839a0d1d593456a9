//! Integers of varying length and byte strings, as messages and records are made of them.
//!
//! *Known as:* varints (LEB128), length-prefixed strings.
//!
//! Whoever writes appends to a vector; a [`Reader`] takes from the front of what was stored or came from elsewhere, and answers `None` where
//! that is not what was written. What comes from anybody is read by a [bounded](Reader::bounded) reader: its lists take at most so many times
//! the memory of the message.
//!
//! ```
//! use fulmar_coding::{Reader, put_bytes, put_varint};
//!
//! let mut message = Vec::new();
//! put_varint(&mut message, 300);
//! put_bytes(&mut message, b"ahoy");
//!
//! let mut input = Reader::new(&message);
//! assert_eq!(input.varint(), Some(300));
//! assert_eq!(input.bytes(), Some(&b"ahoy"[..]));
//! assert!(input.is_empty());
//! ```

use std::mem::needs_drop;

/// Appends `n` seven bits at a time, least significant first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push((n & 0x7f) as u8);
}

/// Appends the length of `bytes` and `bytes`.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What of a list lies elsewhere takes about so many bytes more than its content.
const ALLOCATION: usize = 32;
/// A list may take so many bytes in any case.
const SPARE: usize = 64 << 10;

/// Reads from the front of stored bytes; each method gives `None` where they end too early.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Bytes of memory that lists may still take.
    budget: usize,
}

impl<'a> Reader<'a> {
    /// What reads these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, budget: usize::MAX }
    }

    /// What reads these bytes, of which the [lists](list) take at most so many times the memory: for what comes from anybody. An item of a list may
    /// be many times as large in memory as in the message.
    #[must_use]
    pub const fn bounded(bytes: &'a [u8], times: usize) -> Self {
        Self::within(bytes, bytes.len().saturating_mul(times).saturating_add(SPARE))
    }

    /// The same, if these lists take no more than so much memory, however many bytes there are.
    #[must_use]
    pub const fn within(bytes: &'a [u8], budget: usize) -> Self {
        Self { rest: bytes, budget }
    }

    /// Whether all were read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// All that was not read yet, which then is read.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next one.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// An integer, as [`put_varint`] writes it.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// The next so many.
    #[inline]
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// A byte string, as [`put_bytes`] writes it.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }
}

/// A number and so many items. Nothing, if they would take more memory than the reader [allows](Reader::bounded).
pub fn list<T>(input: &mut Reader<'_>, mut item: impl FnMut(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(input.varint()?).ok()?;
    let each = size_of::<T>() + if needs_drop::<T>() { ALLOCATION } else { 0 };
    input.budget = input.budget.checked_sub(count.checked_mul(each)?)?;
    // What is announced may not come.
    let room = SPARE.saturating_add(input.rest.len().saturating_mul(8));
    let mut items = Vec::with_capacity(count.min(room / each.max(1)));
    for _ in 0..count {
        items.push(item(input)?);
    }
    Some(items)
}

/// A number of 32 bits.
pub fn number(input: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(input.varint()?).ok()
}

/// A string.
pub fn text(input: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(input.bytes()?.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    #[test]
    fn integers_and_strings_are_read_as_they_were_written() {
        let mut numbers: Vec<_> = (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits]).collect();
        numbers.push(u64::MAX);
        let mut out = Vec::new();
        for n in &numbers {
            let start = out.len();
            put_varint(&mut out, *n);
            assert_eq!(out.len() - start, (64 - (n | 1).leading_zeros()).div_ceil(7) as usize);
            put_bytes(&mut out, &n.to_le_bytes());
        }
        let mut input = Reader::new(&out);
        for n in &numbers {
            assert_eq!(input.varint(), Some(*n));
            assert_eq!(input.bytes(), Some(&n.to_le_bytes()[..]));
        }
        assert!(input.is_empty() && input.rest().is_empty());
    }

    #[test]
    fn what_is_too_large_or_ends_too_early_is_nothing() {
        let mut ten = [0xff; 10];
        for last in 2..=0xff {
            ten[9] = last;
            assert_eq!(Reader::new(&ten).varint(), None, "{last:x}");
        }
        assert_eq!(Reader::new(&[0x80; 30]).varint(), None);
        assert_eq!(Reader::new(&[0x80]).varint(), None);
        assert_eq!(Reader::new(&[]).byte(), None);
        assert_eq!(Reader::new(&[3, 1, 2]).bytes(), None);
        let mut huge = Vec::new();
        put_varint(&mut huge, u64::MAX);
        assert_eq!(Reader::new(&huge).bytes(), None);
    }

    #[test]
    fn a_list_takes_no_more_memory_than_it_may() {
        for count in [10, 10_000, 100_000] {
            let mut out = Vec::new();
            put_varint(&mut out, count as u64);
            out.extend(std::iter::repeat_n(0, count));
            let read = |mut input: Reader<'_>| list(&mut input, |input| input.varint().map(|n| [n; 4]));
            assert!(read(Reader::new(&out)).is_some_and(|read| read.len() == count));
            assert!(read(Reader::bounded(&out, 32)).is_some());
            assert_eq!(read(Reader::bounded(&out, 31)).is_some(), count < 100_000);
            let text = |mut input: Reader<'_>| list(&mut input, text);
            assert_eq!(
                text(Reader::bounded(&out, 55)).is_some(),
                count < 100_000,
                "with what lies elsewhere"
            );
        }
        let mut announced = Vec::new();
        put_varint(&mut announced, u64::MAX);
        assert!(list(&mut Reader::new(&announced), number).is_none());
        announced.clear();
        put_varint(&mut announced, 1 << 40);
        assert!(list(&mut Reader::new(&announced), number).is_none(), "and no room is made");
    }

    #[test]
    fn a_reader_gives_no_more_than_there_is() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let bytes: Vec<_> =
                (0..random.index(20)).map(|_| random.next().to_be_bytes()[0] & 0x8f).collect();
            let mut input = Reader::new(&bytes);
            let mut left = bytes.len();
            while let Some(read) = input.bytes() {
                assert!(read.len() + input.rest().len() < left);
                left = input.rest().len();
            }
        }
    }
}
