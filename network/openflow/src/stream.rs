//! Messages as they come, in pieces.

use crate::Dialect;
use crate::error::ErrorCode;
use crate::message::{HEADER, Message, Rejection};

/// Where messages begin and end can no longer be told: the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a message of {length} bytes, version {version}: less than its header, so that nobody knows where the next one begins"
)]
pub struct Broken {
    /// The version that its header tells.
    pub version: u8,
    /// The length that its header tells.
    pub length: u16,
}

/// Takes bytes as they come, and yields messages. It holds no more than was pushed and has not been taken.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// So many of them were taken.
    taken: usize,
}

/// A whole message that was not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a>(&'a [u8]);

impl Decoder {
    /// Bytes that have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    /// [`Broken`], from then on each time.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        let rest = &self.bytes[self.taken..];
        let [version, _, high, low, ..] = *rest else { return Ok(None) };
        let length = u16::from_be_bytes([high, low]);
        if usize::from(length) < HEADER {
            return Err(Broken { version, length });
        }
        let Some(frame) = rest.get(..length.into()) else { return Ok(None) };
        self.taken += frame.len();
        Ok(Some(Frame(frame)))
    }
}

impl<'a> Frame<'a> {
    /// Its bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The message that it is, in OpenFlow 1.3.
    ///
    /// # Errors
    /// What its sender is to be told; what comes after it is none the worse.
    pub fn decode(self) -> Result<Message, Rejection> {
        Message::decode(self.0)
    }

    /// The message that it is in a dialect.
    ///
    /// # Errors
    /// As of [`Self::decode`].
    pub fn decode_in(self, dialect: Dialect) -> Result<Message, Rejection> {
        dialect.decode(self.0)
    }

    /// What its sender is to be told if something else is wrong with it than its form.
    pub fn reject(self, code: impl Into<ErrorCode>) -> Rejection {
        Rejection::of(self.0, code)
    }
}
