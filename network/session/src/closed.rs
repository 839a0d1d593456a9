//! Why a session ends.

use fulmar_openflow::{Broken, ErrorCode};
use std::time::Duration;

/// Why a session ends, if not because the other side has closed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Closed {
    /// Its bytes are no messages.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// Its first message was another one.
    #[error("its first message has type {0}: expected a hello, which has type 0")]
    NoHello(u8),
    /// Its hello cannot be read.
    #[error("its hello cannot be read: {0}")]
    BadHello(ErrorCode),
    /// It does not speak what is spoken here.
    #[error(
        "it speaks OpenFlow up to version {0} of the protocol: expected {1} (version 1 is OpenFlow 1.0, version 4 is OpenFlow 1.3)"
    )]
    Incompatible(u8, String),
    /// It refuses to speak with this side.
    #[error("it refused the hello: {0}")]
    Refused(ErrorCode),
    /// It has said nothing at all.
    #[error("it has not said hello for {0:?}")]
    NoGreeting(Duration),
    /// It says nothing any more.
    #[error("it was silent for {0:?}, and has not answered an echo request for as long")]
    Silent(Duration),
    /// It does not take what it must be told.
    #[error("{0} bytes of what it must be told wait to be read: expected no more")]
    Deaf(usize),
    /// It reads what it has asked for so slowly that others are not answered.
    #[error(
        "{0} bytes of what it has asked for wait to be read, and others for room: expected 4 MiB a second to be read at least"
    )]
    Slow(usize),
}
