//! How a value becomes bytes.

use std::borrow::Cow;

/// A value that travels between processes.
///
/// What `encode` writes, `decode` reads back as an equal value. Bytes come from outside: `decode` must not panic on any.
pub trait Wire: Sized {
    /// Appends the value's bytes to `into`.
    fn encode(&self, into: &mut Vec<u8>);

    /// The value of these bytes, all of them.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if they are not what `encode` writes.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed>;
}

/// Bytes that are no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub Cow<'static, str>);

impl Malformed {
    /// Says what is wrong with the bytes, for people.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

/// Bytes as they are.
impl Wire for Vec<u8> {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(bytes.to_vec())
    }
}
