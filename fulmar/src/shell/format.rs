//! How a result is written: the modes of `.mode` and what goes with them.

use std::fmt;

use super::quoting::sql_name;

/// The shape of a result on the screen or in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Values joined by a separator.
    List,
    /// Comma-separated values, quoted as RFC 4180 has it.
    Csv,
    /// Columns of equal width under their names.
    Column,
    /// A grid drawn in ASCII.
    Table,
    /// A grid drawn with line characters.
    Box,
    /// A grid as Markdown reads it.
    Markdown,
    /// One value a line, after its column's name.
    Line,
    /// One array of objects.
    Json,
    /// SQL that inserts the rows again.
    Insert,
    /// Values separated by tabs.
    Tabs,
    /// Literals of SQL.
    Quote,
    /// Rows of an HTML table.
    Html,
    /// Values separated by the ASCII unit and record separators.
    Ascii,
    /// Strings of C and Tcl.
    Tcl,
}

impl Mode {
    /// All modes, in the order of their names.
    pub const ALL: [Self; 14] = [
        Self::Ascii,
        Self::Box,
        Self::Column,
        Self::Csv,
        Self::Html,
        Self::Insert,
        Self::Json,
        Self::Line,
        Self::List,
        Self::Markdown,
        Self::Quote,
        Self::Table,
        Self::Tabs,
        Self::Tcl,
    ];

    /// The name that `.mode` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Csv => "csv",
            Self::Column => "column",
            Self::Table => "table",
            Self::Box => "box",
            Self::Markdown => "markdown",
            Self::Line => "line",
            Self::Json => "json",
            Self::Insert => "insert",
            Self::Tabs => "tabs",
            Self::Quote => "quote",
            Self::Html => "html",
            Self::Ascii => "ascii",
            Self::Tcl => "tcl",
        }
    }

    /// The first mode whose name begins with `prefix`; `columns` and `lines` are taken too.
    pub(crate) fn named(prefix: &str) -> Option<Self> {
        let singular = prefix.strip_suffix('s').filter(|singular| matches!(*singular, "column" | "line"));
        let prefix = singular.unwrap_or(prefix);
        let exact = Self::ALL.into_iter().find(|mode| mode.name() == prefix);
        exact.or_else(|| {
            Self::ALL.into_iter().find(|mode| !prefix.is_empty() && mode.name().starts_with(prefix))
        })
    }

    /// Whether rows wait for the last one, because all of them decide how wide a column is.
    pub(crate) fn is_grid(self) -> bool {
        matches!(self, Self::Column | Self::Table | Self::Box | Self::Markdown)
    }
}

/// Everything that decides how rows are written.
#[derive(Debug, Clone)]
pub struct Format {
    /// The shape.
    pub mode: Mode,
    /// Whether names of columns come first.
    pub headers: bool,
    /// Whether the user has said so, which column mode then respects.
    pub headers_chosen: bool,
    /// Between two values of a row.
    pub column_separator: String,
    /// After a row.
    pub row_separator: String,
    /// What stands for NULL.
    pub null: String,
    /// The least width of each column in characters; negative aligns to the right, 0 leaves it open.
    pub widths: Vec<i32>,
    /// Where a grid breaks a longer value, in characters; 0 never does.
    pub wrap: usize,
    /// Whether a grid prefers to break between words.
    pub word_wrap: bool,
    /// Whether a grid shows values as literals of SQL.
    pub quote: bool,
    /// The table that `Mode::Insert` names, ready to stand in SQL.
    pub table: String,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            mode: Mode::List,
            headers: false,
            headers_chosen: false,
            column_separator: "|".into(),
            row_separator: "\n".into(),
            null: String::new(),
            widths: Vec::new(),
            wrap: 60,
            word_wrap: false,
            quote: false,
            table: sql_name("table"),
        }
    }
}

impl Format {
    /// Turns to a mode, with the separators and headers that belong to it.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        let separators = match mode {
            Mode::List => Some(("|", "\n")),
            Mode::Csv => Some((",", "\r\n")),
            Mode::Tabs => Some(("\t", "\n")),
            Mode::Quote => Some((",", "\n")),
            Mode::Tcl => Some((" ", "\n")),
            Mode::Ascii => Some(("\u{1f}", "\u{1e}")),
            _ => None,
        };
        if let Some((column, row)) = separators {
            self.column_separator = column.into();
            self.row_separator = row.into();
        } else if mode.is_grid() || mode == Mode::Line {
            self.row_separator = "\n".into();
        }
        if mode == Mode::Column && !self.headers_chosen {
            self.headers = true;
        }
        if mode.is_grid() {
            let fresh = Self::default();
            (self.wrap, self.word_wrap, self.quote) = (fresh.wrap, fresh.word_wrap, fresh.quote);
        }
    }
}

/// The mode with its options, as `.mode` and `.show` report it.
impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.mode.name())?;
        if self.mode.is_grid() {
            let word_wrap = if self.word_wrap { "on" } else { "off" };
            let quote = if self.quote { "" } else { "no" };
            write!(out, " --wrap {} --wordwrap {word_wrap} --{quote}quote", self.wrap)?;
        }
        Ok(())
    }
}
