//! What happened, as lines or as a number.

use fulmar_node::{NodeId, Time};
use std::fmt::{self, Write as _};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How much of the trace is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// A hash of when what happened to whom. Costs next to nothing, and does not see what messages say.
    #[default]
    Numbers,
    /// A hash of all lines.
    Hashed,
    /// The lines are kept, for [`Sim::trace`](crate::Sim::trace).
    Kept,
    /// The lines go to the standard output at once.
    Printed,
}

/// The kinds of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Start,
    Receive,
    Expire,
    Request,
    Durable,
    Send,
    Twice,
    Lost,
    Cut,
    Dead,
    Record,
    Event,
    Crash,
    Pause,
    Resume,
    Clock,
    Disk,
    Network,
    Program,
    Note,
    Disconnect,
}

impl What {
    const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Receive => "receive",
            Self::Expire => "expire",
            Self::Request => "request",
            Self::Durable => "durable",
            Self::Send => "send",
            Self::Twice => "twice",
            Self::Lost => "lost",
            Self::Cut => "cut",
            Self::Dead => "dead",
            Self::Record => "record",
            Self::Event => "event",
            Self::Crash => "crash",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Clock => "clock",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Program => "program",
            Self::Note => "note",
            Self::Disconnect => "disconnect",
        }
    }
}

/// Bytes of a line that say enough: a message may hold megabytes, and writing them as text took longer than all else in a simulation.
const LONGEST_LINE: usize = 4 << 10;

/// Text that is cut off where it becomes too long. Whoever writes it is told that by an error, and ends there.
struct Line(String);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(LONGEST_LINE.saturating_sub(self.0.len()));
        self.0.push_str(&text[..fits]);
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

pub(crate) struct Trace {
    detail: Detail,
    hash: u64,
    line: Line,
    kept: String,
}

impl Trace {
    pub(crate) const fn new(detail: Detail) -> Self {
        Self { detail, hash: 0, line: Line(String::new()), kept: String::new() }
    }

    #[inline]
    pub(crate) fn add(&mut self, at: Time, node: NodeId, what: What, details: fmt::Arguments<'_>) {
        if self.detail == Detail::Numbers {
            self.hash = mix(self.hash ^ at.as_nanos());
            self.hash = mix(self.hash ^ (u64::from(node.0) << 8) ^ what as u64);
        } else {
            self.add_line(at, node, what, details);
        }
    }

    #[cold]
    fn add_line(&mut self, at: Time, node: NodeId, what: What, details: fmt::Arguments<'_>) {
        self.line.0.clear();
        if write!(self.line, "{at} n{:<4} {:<8}{details}", node.0, what.word()).is_err() {
            self.line.0.push('…');
        }
        let Line(line) = &mut self.line;
        line.push('\n');
        self.hash = xxh3_64_with_seed(line.as_bytes(), self.hash);
        match self.detail {
            Detail::Kept => self.kept.push_str(line),
            Detail::Printed => print!("{line}"),
            Detail::Numbers | Detail::Hashed => {}
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn kept(&self) -> &str {
        &self.kept
    }
}

const fn mix(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_off_between_letters() {
        let mut trace = Trace::new(Detail::Kept);
        trace.add(Time::ZERO, NodeId(1), What::Note, format_args!("{}", "é".repeat(LONGEST_LINE)));
        trace.add(Time::ZERO, NodeId(1), What::Note, format_args!("short"));
        let (long, short) = trace.kept().split_once('\n').expect("two lines");
        assert!(long.len() <= LONGEST_LINE + '…'.len_utf8() && long.ends_with("éé…"), "{}", long.len());
        assert!(short.ends_with("short\n"), "{short}");
    }
}
