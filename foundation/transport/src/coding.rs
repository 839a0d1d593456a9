//! Integers of varying length and byte strings, as messages and records are made of them.

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

/// Reads from the front of stored bytes; each method gives `None` where they end too early.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// What reads these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all were read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// All that was not read yet, which then is read.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// The next one.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
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
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A byte string, as [`put_bytes`] writes it.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }
}

/// A number and so many items.
pub fn list<T>(input: &mut Reader<'_>, mut item: impl FnMut(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = input.varint()?;
    let mut items = Vec::new();
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
