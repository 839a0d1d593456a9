//! Lines of input on their way to becoming statements.

use super::statement::is_complete;

/// One source of lines, typed or read, and what of it waits for more.
#[derive(Debug, Default)]
pub struct Script {
    interactive: bool,
    /// Of the last line taken; the first is 1.
    line: u64,
    /// The lines of a statement that is not complete yet.
    pending: String,
    /// Where `pending` began.
    pending_line: u64,
    errors: u64,
}

/// Something that can be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line that begins with a dot.
    Dot { text: String, line: u64 },
    /// One or more statements, and the line on which the first began.
    Sql { text: String, line: u64 },
}

impl Script {
    /// Lines that a person types: errors are reported without the number of the line, and none ends the session.
    pub fn interactive() -> Self {
        Self { interactive: true, ..Self::default() }
    }

    /// Lines from a file or a pipe.
    pub fn batch() -> Self {
        Self::default()
    }

    /// Whether a person types.
    pub fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// How many statements and commands have failed.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Whether the last lines are a statement that is not complete.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Forgets the lines of an incomplete statement.
    pub fn discard(&mut self) {
        self.pending.clear();
    }

    pub(crate) fn count_error(&mut self) {
        self.errors += 1;
    }

    /// Counts a line that nothing can be done with, and answers its number.
    pub(crate) fn skip_line(&mut self) -> u64 {
        self.line += 1;
        self.line
    }

    /// Adds a line; answers what is complete with it.
    pub(crate) fn gather(&mut self, line: &str) -> Option<Input> {
        self.line += 1;
        if self.pending.is_empty() {
            if line.starts_with('.') {
                return Some(Input::Dot { text: line.to_owned(), line: self.line });
            }
            if line.starts_with('#') || line.trim().is_empty() {
                return None;
            }
            self.pending_line = self.line;
            self.pending.push_str(line.trim_start());
        } else {
            // What other databases' shells end a statement with.
            let is_terminator = line.trim() == "/" || line.trim().eq_ignore_ascii_case("go");
            let line = if is_terminator && is_complete(&format!("{};", self.pending)) { ";" } else { line };
            self.pending.push('\n');
            self.pending.push_str(line);
        }
        if has_only_comments(&self.pending) {
            self.pending.clear();
        } else if self.pending.contains(';') && is_complete(&self.pending) {
            return self.rest();
        }
        None
    }

    /// Takes what waits, complete or not.
    pub(crate) fn rest(&mut self) -> Option<Input> {
        let text = std::mem::take(&mut self.pending);
        (!text.is_empty()).then_some(Input::Sql { text, line: self.pending_line })
    }
}

/// Whether no statement has begun, nor a comment that a later line will end.
fn has_only_comments(sql: &str) -> bool {
    let mut rest = sql.trim_start();
    loop {
        let comment_end = if rest.starts_with("--") {
            Some(rest.find('\n').map_or(rest.len(), |end| end + 1))
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else {
            return rest.is_empty();
        };
        match comment_end {
            Some(end) => rest = rest[end..].trim_start(),
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(text: &str, line: u64) -> Option<Input> {
        Some(Input::Sql { text: text.into(), line })
    }

    #[test]
    fn lines_gather_until_they_are_complete() {
        let mut script = Script::batch();
        assert_eq!(script.gather("-- a comment;"), None);
        assert_eq!(script.gather("  SELECT ';"), None);
        assert!(script.is_pending());
        assert_eq!(script.gather(".no command'"), None);
        assert_eq!(script.gather("; SELECT 2;"), sql("SELECT ';\n.no command'\n; SELECT 2;", 2));
        assert_eq!(script.gather(".mode csv"), Some(Input::Dot { text: ".mode csv".into(), line: 5 }));
        assert_eq!(script.gather("SELECT 3"), None);
        assert_eq!(script.gather("go"), sql("SELECT 3\n;", 6));
        assert_eq!(script.gather("SELECT 4"), None);
        assert_eq!(script.rest(), sql("SELECT 4", 8));
        assert_eq!(script.rest(), None);
    }

    #[test]
    fn a_trigger_is_one_statement() {
        let mut script = Script::batch();
        assert_eq!(script.gather("CREATE TRIGGER t AFTER INSERT ON a BEGIN"), None);
        assert_eq!(script.gather("SELECT 1;"), None);
        assert!(script.gather("END;").is_some());
    }

    #[test]
    fn a_comment_may_span_lines() {
        let mut script = Script::batch();
        assert_eq!(script.gather("/* one;"), None);
        assert_eq!(script.gather("two */"), None);
        assert!(!script.is_pending());
        assert_eq!(script.gather("SELECT 1;"), sql("SELECT 1;", 3));
    }
}
