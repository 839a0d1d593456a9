//! The text format.

use std::fmt::{Display, Write as _};

/// Of what kind a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, but begins again at zero with the process.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// Figures, as they are told.
#[derive(Debug, Default)]
pub struct Figures(String);

impl Figures {
    /// Begins a family: what a figure is called, of what kind it is, and what it says. Its samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, about: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Text in memory takes what is written.
        let _ = write!(self.0, "# HELP {name} {about}\n# TYPE {name} {kind}\n");
    }

    /// One figure of the family that was begun last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            // Text in memory takes what is written.
            let _ = write!(self.0, "{before}{label}=\"{}\"", quoted(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        // Text in memory takes what is written.
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// All of them.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }
}

/// As the format has it in quotes: names may be anybody's. It has no escapes for what a terminal would obey, so that is replaced.
fn quoted(label: &str) -> String {
    let escaped = label.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    escaped.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_in_their_quotes() {
        let mut figures = Figures::default();
        figures.sample("birds", &[("a", "a\"b\\c\nd"), ("b", "2")], 7);
        assert_eq!(figures.text(), "birds{a=\"a\\\"b\\\\c\\nd\",b=\"2\"} 7\n");
    }

    #[test]
    fn a_terminal_obeys_no_label() {
        let mut figures = Figures::default();
        figures.sample("birds", &[("a", "\u{1b}]0;x\u{7}\r")], 7);
        assert_eq!(figures.text(), "birds{a=\"\u{fffd}]0;x\u{fffd}\u{fffd}\"} 7\n");
    }

    #[test]
    fn a_figure_without_labels_has_no_braces() {
        let mut figures = Figures::default();
        figures.sample("birds", &[], 7);
        assert_eq!(figures.text(), "birds 7\n");
    }
}
