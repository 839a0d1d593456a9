//! What members send each other, and its bytes.

use crate::council::Council;
use crate::key::{Digest, Identity, PublicKey, Signature};
use fulmar_byzantine::Wire;
use std::io::Read;

/// The most bytes of a frame, without those that say how long it is. A longer one is not read.
pub const MOST_BYTES: usize = 4 << 20;

/// What a member sends to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// It is ready to begin.
    Ready,
    /// What it sends in this round, by the protocol.
    Round {
        /// The round, from 1.
        round: u32,
        /// The message.
        message: Vec<u8>,
    },
    /// It has halted, and this is what it has decided.
    Halted(Verdict),
}

/// What a member has decided, signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The value, or the default ⊥.
    pub value: Option<Digest>,
    /// By the member, of [`Council::verdict`].
    pub signature: Signature,
}

impl Verdict {
    pub(crate) fn sign(council: &Council, identity: &Identity, value: Option<Digest>) -> Self {
        Self { value, signature: identity.sign(&council.verdict(value.as_ref())) }
    }

    pub(crate) fn is_by(&self, council: &Council, key: &PublicKey) -> bool {
        key.has_signed(&council.verdict(self.value.as_ref()), &self.signature)
    }
}

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The connection has ended, or fails.
    Lost,
    /// It would be longer than any.
    TooLarge,
    /// It means nothing.
    Malformed,
}

impl Frame {
    /// As it is sent: its length in four bytes, then a byte for what it is, and that. Numbers have their highest byte first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        match self {
            Self::Ready => bytes.push(0),
            Self::Round { round, message } => {
                bytes.push(1);
                bytes.extend(round.to_be_bytes());
                bytes.extend(message);
            }
            Self::Halted(verdict) => {
                bytes.push(2);
                bytes.push(u8::from(verdict.value.is_some()));
                if let Some(value) = verdict.value {
                    value.encode(&mut bytes);
                }
                verdict.signature.encode(&mut bytes);
            }
        }
        let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let frame = match u8::decode(&mut bytes)? {
            0 => Self::Ready,
            1 => {
                let round = u32::from_be_bytes(<[u8; 4]>::decode(&mut bytes)?);
                Self::Round { round, message: std::mem::take(&mut bytes).to_vec() }
            }
            2 => {
                let value = match u8::decode(&mut bytes)? {
                    0 => None,
                    1 => Some(Digest::decode(&mut bytes)?),
                    _ => return None,
                };
                Self::Halted(Verdict { value, signature: Signature::decode(&mut bytes)? })
            }
            _ => return None,
        };
        bytes.is_empty().then_some(frame)
    }

    /// The next of a connection. Takes no more memory than has come.
    ///
    /// # Errors
    /// See [`ReadError`]: nothing more is to be read of the connection then.
    pub fn read(from: &mut impl Read) -> Result<Self, ReadError> {
        let mut length = [0; 4];
        from.read_exact(&mut length).map_err(|_| ReadError::Lost)?;
        let length = u32::from_be_bytes(length);
        if usize::try_from(length).map_or(true, |length| length > MOST_BYTES) {
            return Err(ReadError::TooLarge);
        }
        let mut bytes = Vec::new();
        let read = from.take(length.into()).read_to_end(&mut bytes).map_err(|_| ReadError::Lost)?;
        if u32::try_from(read) != Ok(length) {
            return Err(ReadError::Lost);
        }
        Self::from_bytes(&bytes).ok_or(ReadError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let signature = Signature::from_bytes([7; 64]);
        vec![
            Frame::Ready,
            Frame::Round { round: 3, message: b"eggs".to_vec() },
            Frame::Round { round: 1, message: Vec::new() },
            Frame::Halted(Verdict { value: Some(Digest::of(b"eggs")), signature }),
            Frame::Halted(Verdict { value: None, signature }),
        ]
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let bytes = frames().iter().flat_map(Frame::to_bytes).collect::<Vec<_>>();
        let mut from = &bytes[..];
        for frame in frames() {
            assert_eq!(Frame::read(&mut from).expect("it is there"), frame);
        }
        assert!(matches!(Frame::read(&mut from), Err(ReadError::Lost)));
    }

    #[test]
    fn no_frame_has_the_bytes_of_another_and_more() {
        for frame in frames() {
            if matches!(frame, Frame::Round { .. }) {
                continue; // Its message may be anything.
            }
            let mut bytes = frame.to_bytes().split_off(4);
            bytes.push(0);
            assert_eq!(Frame::from_bytes(&bytes), None);
            bytes.truncate(bytes.len() - 2);
            assert_eq!(Frame::from_bytes(&bytes), None);
        }
        assert_eq!(Frame::from_bytes(&[3]), None);
        assert_eq!(Frame::from_bytes(&[2, 2]), None);
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let length = u32::try_from(MOST_BYTES).expect("it fits") + 1;
        let bytes = [&length.to_be_bytes()[..], &[0; 100]].concat();
        let mut from = &bytes[..];
        assert!(matches!(Frame::read(&mut from), Err(ReadError::TooLarge)));
        assert_eq!(from.len(), 100);
        assert!(matches!(Frame::read(&mut &[0, 0, 0, 8, 1, 2][..]), Err(ReadError::Lost)));
    }
}
