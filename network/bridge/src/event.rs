//! What happens to switches, for who looks after them.
//!
//! *Known as:* structured log events.

use std::fmt;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind of thing it is.
    pub kind: EventKind,
    /// What, and to whom.
    pub text: String,
}

/// To what something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A session of a controller or a tool has begun or ended, or could not begin.
    Session,
    /// A client of the configuration database was closed or not let in.
    Client,
    /// The configuration database cannot be served or written.
    Database,
    /// A bridge does not run as it is asked for.
    Bridge,
    /// A port could not be opened, or its interface is gone.
    Port,
    /// A mirror copies nothing.
    Mirror,
    /// A station moves back and forth between ports, as in a loop.
    Loop,
    /// Figures are not told any more.
    Metrics,
}

impl EventKind {
    /// What logs and figures call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Client => "client",
            Self::Database => "database",
            Self::Bridge => "bridge",
            Self::Port => "port",
            Self::Mirror => "mirror",
            Self::Loop => "loop",
            Self::Metrics => "metrics",
        }
    }

    /// One of this kind.
    pub(crate) fn event(self, text: impl Into<String>) -> Event {
        Event { kind: self, text: text.into() }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Who hears of events.
pub(crate) type Report = dyn Fn(&Event) + Send + Sync;
