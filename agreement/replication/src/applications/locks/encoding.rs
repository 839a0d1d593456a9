//! Operations and answers as bytes.

use super::{Fence, LockAnswer, LockMode, LockOperation, Locks, SessionId, TICK};
use fulmar_coding::{Reader, put_varint};

impl LockOperation {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u8, number: u64, name: &[u8]| {
            out.push(tag);
            put_varint(&mut out, number);
            out.extend_from_slice(name);
        };
        match self {
            Self::Open { ticks, session: None } => put(0, *ticks, &[]),
            Self::Open { ticks, session: Some(session) } => put(0, *ticks, &session.0.to_be_bytes()),
            Self::KeepAlive(session) => put(1, session.0, &[]),
            Self::Close(session) => put(2, session.0, &[]),
            Self::Acquire { session, name, mode, waits } => {
                put(3 + u8::from(*mode == LockMode::Write) + 2 * u8::from(*waits), session.0, name);
            }
            Self::Release(session, name) => put(7, session.0, name),
            Self::Look(session, name) => put(8, session.0, name),
            Self::Tick(tick) => put(TICK, *tick, &[]),
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let (tag, number) = (input.byte()?, input.varint()?);
        if input.rest().len() > Locks::LONGEST_NAME {
            return None;
        }
        let (session, name) = (SessionId(number), input.rest().to_vec());
        Some(match tag {
            0 if name.is_empty() => Self::Open { ticks: number, session: None },
            0 => {
                let drawn = name.try_into().ok().map(u64::from_be_bytes).map(SessionId);
                Self::Open { ticks: number, session: Some(drawn.filter(|session| session.is_drawn())?) }
            }
            1 => Self::KeepAlive(session),
            2 => Self::Close(session),
            3..=6 => {
                let mode = if (tag - 3) % 2 == 1 { LockMode::Write } else { LockMode::Read };
                Self::Acquire { session, name, mode, waits: tag >= 5 }
            }
            7 => Self::Release(session, name),
            8 => Self::Look(session, name),
            TICK => Self::Tick(number),
            _ => return None,
        })
    }
}

impl LockAnswer {
    pub(super) fn encode(self) -> Vec<u8> {
        let (tag, number) = match self {
            Self::Opened(session) => (0, session.0),
            Self::Done => (1, 0),
            Self::Held(fence) => (2, fence.0),
            Self::Waits => (3, 0),
            Self::Free => (4, 0),
            Self::Gone => (5, 0),
            Self::Malformed => (6, 0),
            Self::Ticks(ticks) => (7, ticks),
            Self::Full => (8, 0),
            Self::Shared => (9, 0),
        };
        let mut out = vec![tag];
        put_varint(&mut out, number);
        out
    }

    /// What these bytes say, if they are an answer.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let (tag, number) = (input.byte()?, input.varint()?);
        let answers = [
            Self::Opened(SessionId(number)),
            Self::Done,
            Self::Held(Fence(number)),
            Self::Waits,
            Self::Free,
            Self::Gone,
            Self::Malformed,
            Self::Ticks(number),
            Self::Full,
            Self::Shared,
        ];
        answers.get(usize::from(tag)).copied()
    }
}
