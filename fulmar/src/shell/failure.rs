//! What can go wrong between a line of input and its answer.

use std::io;

use super::name::NameError;
use super::statement::{Phase, SqlError};

/// Why a command or a statement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// SQLite refused it.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The name of a database makes no sense.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The arguments of a dot command make no sense; its usage goes with the message.
    #[error("{0}")]
    Arguments(String),
    /// Anything else that a message says best.
    #[error("{0}")]
    Message(String),
    /// A file or a command that the user named.
    #[error("{name}: {error}")]
    File {
        /// As the user named it.
        name: String,
        /// What the system says.
        error: io::Error,
    },
    /// A result could not be written: the session has nobody to talk to.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// A script that this command ran has reported its own errors.
    #[error("the script failed")]
    Reported,
}

impl Failure {
    /// For `map_err` on what concerns the file called `name`.
    pub(crate) fn file(name: &str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |error| Self::File { name, error }
    }

    /// The message as it is shown: `line` is where the statement began, or `None` when a person has just typed it.
    pub(crate) fn report(&self, line: Option<u64>) -> String {
        let (kind, details) = match self {
            Self::Sql(error) => {
                let kind = match error.phase {
                    Phase::Parse => "Parse error",
                    Phase::Run => "Runtime error",
                };
                let code = match error.primary_code() {
                    code @ 2.. => format!(" ({code})"),
                    _ => String::new(),
                };
                let place = error.place.as_ref().map_or_else(String::new, |(sql, at)| pointer(sql, *at));
                (kind, format!("{error}{code}{place}"))
            }
            _ => ("Error", self.to_string()),
        };
        match line {
            Some(line) => format!("{kind} near line {line}: {details}"),
            None => format!("{kind}: {details}"),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(error, message) => Self::Sql(SqlError {
                phase: Phase::Run,
                code: error.extended_code,
                message: message.unwrap_or_else(|| error.to_string()),
                place: None,
            }),
            other => Self::Message(other.to_string()),
        }
    }
}

/// The part of `sql` around the byte `offset`, and on a second line an arrow to it.
fn pointer(sql: &str, offset: usize) -> String {
    // A terminal's line: at most this much of the statement is shown, and at most that much before the error.
    const SHOWN: usize = 78;
    const BEFORE: usize = 50;
    let Some(before) = sql.get(..offset).filter(|_| offset < sql.len()) else { return String::new() };
    let skipped = before.chars().count().saturating_sub(BEFORE);
    let excerpt: String = sql
        .chars()
        .skip(skipped)
        .take(SHOWN)
        .map(|character| if character.is_whitespace() { ' ' } else { character })
        .collect();
    let column = before.chars().count() - skipped;
    let arrow = if column < 25 {
        format!("{}^--- error here", " ".repeat(column))
    } else {
        format!("{}error here ---^", " ".repeat(column - "error here ---".len()))
    };
    format!("\n  {excerpt}\n  {arrow}")
}

#[cfg(test)]
mod tests {
    use super::pointer;

    #[test]
    fn the_arrow_points_at_the_error_from_whichever_side_has_room() {
        assert_eq!(pointer("selec\n1;", 0), "\n  selec 1;\n  ^--- error here");
        let late = "SELECT one, two, three, four, five FORM numbers;";
        let arrow = format!("{}error here ---^", " ".repeat(40 - 14));
        assert_eq!(pointer(late, 40), format!("\n  {late}\n  {arrow}"));
        let far = format!("{}!{}", "é".repeat(100), "z".repeat(100));
        let shown = pointer(&far, 200);
        assert_eq!(shown.lines().nth(1).map(|line| line.chars().count()), Some(80));
        assert_eq!(shown.lines().nth(2).map(|line| line.chars().count()), Some(2 + 50 + 1));
        assert_eq!(pointer("short", 5), "");
    }
}
