//! Text in a fixed number of bytes.

use crate::wire::{Reader, Result, Wire};
use std::fmt;

/// Text of `N` bytes, the rest of which are 0, and one at least.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    fn of_bytes(text: &[u8]) -> Self {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let length = text.len().min(N - 1);
        let mut bytes = [0; N];
        bytes[..length].copy_from_slice(&text[..length]);
        Self(bytes)
    }
}

/// As much of it as there is room for.
impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Self::of_bytes(text.as_bytes())
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.pad(&String::from_utf8_lossy(text))
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl<const N: usize> Wire for Text<N> {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        input.array::<N>().map(|bytes| Self::of_bytes(&bytes))
    }
}
