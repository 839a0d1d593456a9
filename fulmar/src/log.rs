//! The log of commands that go on until they are stopped: standard error, one line for each thing that happens, with the time (UTC), the level and the
//! kind of it.
//!
//! The log never holds a command up and never ends it. Lines wait in a bounded queue for who reads them, and are left out where it is
//! full, slow readers and full disks notwithstanding. Of each kind of line there are few in a short time: what others can have
//! a command say again and again does not hide the rest. And what came from outside is text, whatever it is to a terminal.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Of one kind so many lines may come at once …
const AT_ONCE: u32 = 100;
/// … and after these one in this time.
const ONE_IN: Duration = Duration::from_millis(100);
/// So many lines wait for a reader.
const QUEUED: usize = 1_000;

/// Begins to log what is told by `tracing`. Lines that wait are written when what is returned is dropped.
pub(crate) fn begin() -> WorkerGuard {
    let queue = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUED);
    let (out, guard) = queue.finish(io::stderr());
    let lines = Lines { out: Mutex::new(out), kinds: Mutex::default() };
    // Only a second log in one process could be in the way, and that one serves as well.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    guard
}

/// Says on standard output that a command has begun. Nobody need read it.
pub(crate) fn announce(what: fmt::Arguments<'_>) {
    // Who is not there hears nothing.
    let _ = writeln!(io::stdout(), "{what}");
}

struct Lines {
    out: Mutex<NonBlocking>,
    kinds: Mutex<HashMap<(Identifier, String), Kind>>,
}

/// A kind of lines, by where they are told and of which kind that says they are.
#[derive(Debug)]
struct Kind {
    /// How far those that were written reach if there is [`ONE_IN`] such time (the generic cell rate algorithm).
    until: Instant,
    /// How many were left out since the last.
    omitted: u64,
}

impl Kind {
    /// Counts one more line: how many were left out before it; nothing, if it is to be, too.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        self.until = self.until.max(now);
        if self.until - now >= ONE_IN * AT_ONCE {
            self.omitted += 1;
            return None;
        }
        self.until += ONE_IN;
        Some(std::mem::take(&mut self.omitted))
    }
}

impl Lines {
    fn admit(&self, kind: (Identifier, String), now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.entry(kind).or_insert(Kind { until: now, omitted: 0 }).admit(now)
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        metadata.target().starts_with("fulmar")
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut told = Told::default();
        event.record(&mut told);
        let kind = (event.metadata().callsite(), told.kind.clone());
        let Some(omitted) = self.admit(kind, Instant::now()) else { return };
        let mut time = String::new();
        // Writing to a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let line = told.lines(&time, *event.metadata().level(), omitted);
        // It is never said that there was no room.
        let _ = self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

/// What an event says.
#[derive(Default)]
struct Told {
    message: String,
    kind: String,
}

impl Told {
    /// As it is logged, after so many like it that were left out.
    fn lines(&self, time: &str, level: Level, omitted: u64) -> String {
        let mut begin = format!("{time} {level:>5} ");
        if !self.kind.is_empty() {
            begin.push_str(&self.kind);
            begin.push_str(": ");
        }
        let message = harmless(&self.message);
        if omitted > 0 {
            format!("{begin}({omitted} lines like the next one are left out)\n{begin}{message}\n")
        } else {
            format!("{begin}{message}\n")
        }
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "kind" => value.clone_into(&mut self.kind),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

/// The text with all escaped that a terminal or a reader of lines would obey.
fn harmless(text: &str) -> String {
    let is_harmless =
        |c: char| !c.is_control() && !matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_harmless(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_few_are_written_and_the_others_counted() {
        let mut now = Instant::now();
        let mut kind = Kind { until: now, omitted: 0 };
        let admitted = (0..1_000).filter(|_| kind.admit(now).is_some()).count();
        assert_eq!(admitted, AT_ONCE as usize);
        now += ONE_IN;
        assert_eq!(kind.admit(now), Some(1_000 - u64::from(AT_ONCE)));
        assert_eq!(kind.admit(now), None);
        now += ONE_IN * AT_ONCE;
        assert_eq!(kind.admit(now), Some(1));
        assert_eq!((0..1_000).filter(|_| kind.admit(now).is_some()).count(), AT_ONCE as usize - 1);
    }

    #[test]
    fn a_line_says_when_and_of_what_kind_it_is() {
        let told = |kind: &str, message: &str| Told { message: message.into(), kind: kind.into() };
        let line = told("view", "view v1.0 has begun").lines("2026-11-30T22:38:40.123456Z", Level::INFO, 0);
        assert_eq!(line, "2026-11-30T22:38:40.123456Z  INFO view: view v1.0 has begun\n");
        let lines = told("", "a\nb").lines("now", Level::WARN, 7);
        assert_eq!(lines, "now  WARN (7 lines like the next one are left out)\nnow  WARN a\\nb\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_text() {
        assert_eq!(harmless("n1 connected: 127.0.0.1:7400 — ok"), "n1 connected: 127.0.0.1:7400 — ok");
        let hostile = "\u{1b}[2J\u{7}\r\nError: \u{9b}31m\u{202e}\u{2066}\0";
        let shown = harmless(hostile);
        assert!(!shown.contains(char::is_control) && shown.is_ascii(), "{shown}");
        assert!(shown.contains("\\r\\nError: "), "{shown}");
    }
}
