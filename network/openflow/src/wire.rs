//! Bytes in network order, and the macro by which a layout is written down once: for writing, for reading and for the tests, which
//! make up values.

use crate::error::ErrorCode;

/// What was read, or the error that its sender is to be told.
pub(crate) type Result<T> = std::result::Result<T, ErrorCode>;

/// Actions may hold actions, so deeply at most: what reads them calls itself.
const DEEPEST: u8 = 16;

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// What is wrong if they are too few, or too many.
    length: ErrorCode,
    depth: u8,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], length: impl Into<ErrorCode>) -> Self {
        Self { rest: bytes, length: length.into(), depth: 0 }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(count).ok_or(self.length)?;
        self.rest = rest;
        Ok(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(self.length)?;
        self.rest = rest;
        Ok(*front)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<()> {
        self.bytes(count).map(|_| ())
    }

    /// All that is left.
    pub(crate) fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next so many bytes, which have a rule of their own for lengths.
    pub(crate) fn part(&mut self, count: usize, length: impl Into<ErrorCode>) -> Result<Self> {
        let rest = self.bytes(count)?;
        Ok(Self { rest, length: length.into(), depth: self.depth })
    }

    /// The next thing, whose length is in two bytes that come `at` so many bytes.
    pub(crate) fn measured(&mut self, at: usize) -> Result<Self> {
        let length = self.rest.get(at..at + 2).ok_or(self.length)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        self.part(length, self.length)
    }

    /// The same bytes, one level deeper.
    pub(crate) fn deeper(self) -> Option<Self> {
        (self.depth < DEEPEST).then(|| Self { depth: self.depth + 1, ..self })
    }

    /// Leaves out what fills up something that began when `before` bytes were left to a multiple of 8.
    pub(crate) fn align(&mut self, before: usize) -> Result<()> {
        self.skip((before - self.rest.len()).next_multiple_of(8) - (before - self.rest.len()))
    }

    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The error for a length that is wrong here.
    pub(crate) const fn wrong_length(&self) -> ErrorCode {
        self.length
    }

    /// That nothing is left.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.length) }
    }
}

/// What has a form in bytes.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(input: &mut Reader<'_>) -> Result<Self>;

    fn put_all(values: &[Self], out: &mut Vec<u8>) {
        values.iter().for_each(|value| value.put(out));
    }

    /// As many as there are.
    fn get_all(input: &mut Reader<'_>) -> Result<Vec<Self>> {
        let mut values = Vec::new();
        while !input.is_empty() {
            let before = input.left();
            values.push(Self::get(input)?);
            // What takes nothing would go on for ever.
            if input.left() == before {
                return Err(input.wrong_length());
            }
        }
        Ok(values)
    }
}

/// How many bytes its form has.
pub(crate) fn length(value: &impl Wire) -> usize {
    let mut out = Vec::new();
    value.put(&mut out);
    out.len()
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_be_bytes());
            }
            fn get(input: &mut Reader<'_>) -> Result<Self> {
                input.array().map(Self::from_be_bytes)
            }
        }
    )*};
}
integers!(u16 u32 u64 u128);

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.array().map(|[byte]| byte)
    }

    fn put_all(values: &[Self], out: &mut Vec<u8>) {
        out.extend(values);
    }

    fn get_all(input: &mut Reader<'_>) -> Result<Vec<Self>> {
        Ok(input.all().to_vec())
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.array()
    }
}

impl<const N: usize> Wire for [u32; N] {
    fn put(&self, out: &mut Vec<u8>) {
        u32::put_all(self, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u32::get(input)?;
        }
        Ok(words)
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        T::get(input).map(Self::new)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        Ok((A::get(input)?, B::get(input)?))
    }
}

/// A list that goes on to the end of what it is in.
impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put_all(self, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        T::get_all(input)
    }
}

pub(crate) fn put_zeros(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, 0);
}

/// Fills up what began at `start` to a multiple of 8.
pub(crate) fn align(out: &mut Vec<u8>, start: usize) {
    put_zeros(out, (out.len() - start).next_multiple_of(8) - (out.len() - start));
}

/// A length, as it is said. What is longer than can be said is in a message that is too long as well, and that is noticed there.
pub(crate) fn said_length(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Writes how long what began at `start` is into the two bytes that come `at` so many bytes in it.
pub(crate) fn put_length(out: &mut [u8], start: usize, at: usize) {
    let length = said_length(out.len() - start);
    out[start + at..start + at + 2].copy_from_slice(&length.to_be_bytes());
}

/// How many bytes a value takes.
pub(crate) fn length_of(value: &impl Wire) -> usize {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes.len()
}

/// A structure, field after field. `[4]` is so many bytes of nothing; `measured at 2` says where the length of the whole is, for which
/// there must be nothing there. What is `checked by` a function is refused if that refuses it.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $(measured at $at:literal)? struct $name:ident $(, checked by $check:ident)? {
            $([$first:literal];)?
            $($(#[$doc:meta])* $field:ident: $type:ty $([$pad:literal])?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(let (start, _) = (out.len(), $at);)?
                $($crate::wire::put_zeros(out, $first);)?
                $(
                    self.$field.put(out);
                    $($crate::wire::put_zeros(out, $pad);)?
                )*
                $($crate::wire::put_length(out, start, $at);)?
            }

            fn get(input: &mut $crate::wire::Reader<'_>) -> $crate::wire::Result<Self> {
                $(
                    let mut whole = input.measured($at)?;
                    let input = &mut whole;
                )?
                $(input.skip($first)?;)?
                $(
                    let $field = $crate::wire::Wire::get(input)?;
                    $(input.skip($pad)?;)?
                )*
                $(
                    let _ = $at;
                    input.end()?;
                )?
                let value = Self { $($field),* };
                $(value.$check()?;)?
                Ok(value)
            }
        }

        #[cfg(test)]
        impl $crate::tests::Any for $name {
            fn any(random: &mut fulmar_node::Random) -> Self {
                Self { $($field: $crate::tests::Any::any(random)),* }
            }
        }
    };
}
pub(crate) use layout;
