//! Results as grids: columns under their names, with or without lines around them.

use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

use super::format::{Format, Mode};
use super::quoting::{LineEnds, write_sql_literal};
use super::statement::Cell;

/// All rows of a result, each cell broken into the lines it will take.
pub(super) struct Grid<'format> {
    format: &'format Format,
    header: Vec<String>,
    rows: Vec<Vec<Vec<String>>>,
    /// The width of each column in terminal cells: the widest line in it, or what the user asked for.
    widths: Vec<usize>,
}

/// The characters of a horizontal line: where it begins, between columns, where it ends, and what fills it.
struct Rule(&'static str, &'static str, &'static str, char);

/// How a mode draws its grid.
struct Strokes {
    top: Option<Rule>,
    under_header: Rule,
    bottom: Option<Rule>,
    /// Before the first cell, between two cells and after the last.
    upright: (&'static str, &'static str, &'static str),
    /// How many blanks on each side of a cell a horizontal line covers too.
    padding: usize,
    /// Whether the names stand in the middle of their columns.
    centered: bool,
}

impl Strokes {
    fn of(mode: Mode) -> Self {
        let ascii = || Rule("+", "+", "+", '-');
        match mode {
            Mode::Box => Self {
                top: Some(Rule("┌", "┬", "┐", '─')),
                under_header: Rule("├", "┼", "┤", '─'),
                bottom: Some(Rule("└", "┴", "┘", '─')),
                upright: ("│ ", " │ ", " │"),
                padding: 1,
                centered: true,
            },
            Mode::Table => Self {
                top: Some(ascii()),
                under_header: ascii(),
                bottom: Some(ascii()),
                upright: ("| ", " | ", " |"),
                padding: 1,
                centered: true,
            },
            Mode::Markdown => Self {
                top: None,
                under_header: Rule("|", "|", "|", '-'),
                bottom: None,
                upright: ("| ", " | ", " |"),
                padding: 1,
                centered: true,
            },
            _ => Self {
                top: None,
                under_header: Rule("", "  ", "", '-'),
                bottom: None,
                upright: ("", "  ", ""),
                padding: 0,
                centered: false,
            },
        }
    }
}

impl<'format> Grid<'format> {
    pub(super) fn new(format: &'format Format, columns: &[String]) -> Self {
        let mut grid = Self { format, header: Vec::new(), rows: Vec::new(), widths: Vec::new() };
        for (column, name) in columns.iter().enumerate() {
            let asked = grid.asked_width(column);
            let first_line = broken(name, grid.limit(column), format.word_wrap).swap_remove(0);
            grid.widths.push(display_width(&first_line).max(asked));
            grid.header.push(first_line);
        }
        grid
    }

    pub(super) fn row(&mut self, cells: &[Cell<'_>]) {
        let row: Vec<Vec<String>> = cells
            .iter()
            .enumerate()
            .map(|(column, &cell)| {
                let lines = broken(&self.text(cell), self.limit(column), self.format.word_wrap);
                let widest = lines.iter().map(|line| display_width(line)).max().unwrap_or(0);
                self.widths[column] = self.widths[column].max(widest);
                lines
            })
            .collect();
        self.rows.push(row);
    }

    pub(super) fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        let strokes = Strokes::of(self.format.mode);
        if let Some(top) = &strokes.top {
            self.rule(top, strokes.padding, out)?;
        }
        if self.format.headers || self.format.mode != Mode::Column {
            let names: Vec<String> = (self.header.iter().enumerate())
                .map(|(column, name)| {
                    if strokes.centered {
                        centered(name, self.widths[column])
                    } else {
                        self.aligned(column, name)
                    }
                })
                .collect();
            line(&names, &strokes, out)?;
            self.rule(&strokes.under_header, strokes.padding, out)?;
        }
        let has_tall_row = self.rows.iter().flatten().any(|lines| lines.len() > 1);
        for (at, row) in self.rows.iter().enumerate() {
            if has_tall_row && at > 0 {
                match self.format.mode {
                    Mode::Box | Mode::Table => self.rule(&strokes.under_header, strokes.padding, out)?,
                    Mode::Column => out.write_all(b"\n")?,
                    _ => {}
                }
            }
            let height = row.iter().map(Vec::len).max().unwrap_or(0);
            for level in 0..height {
                let cells: Vec<String> = (row.iter().enumerate())
                    .map(|(column, lines)| self.aligned(column, lines.get(level).map_or("", String::as_str)))
                    .collect();
                line(&cells, &strokes, out)?;
            }
        }
        strokes.bottom.as_ref().map_or(Ok(()), |bottom| self.rule(bottom, strokes.padding, out))
    }

    fn text(&self, cell: Cell<'_>) -> String {
        let mut bytes = Vec::new();
        if self.format.quote && !matches!(cell, Cell::Real(..)) {
            // Writing to a vector cannot fail.
            let _ = write_sql_literal(&mut bytes, cell, LineEnds::Plain);
            if matches!(cell, Cell::Blob(_)) {
                bytes[0] = b'x';
            }
        } else if cell == Cell::Null {
            return self.format.null.clone();
        } else {
            cell.with_text(|text| bytes.extend_from_slice(text));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn asked_width(&self, column: usize) -> usize {
        self.format.widths.get(column).map_or(0, |width| width.unsigned_abs() as usize)
    }

    /// Where a line of this column breaks; 0 for never.
    fn limit(&self, column: usize) -> usize {
        match self.asked_width(column) {
            0 => self.format.wrap,
            asked => asked,
        }
    }

    fn aligned(&self, column: usize, text: &str) -> String {
        let blanks = " ".repeat(self.widths[column].saturating_sub(display_width(text)));
        let to_the_right = self.format.widths.get(column).is_some_and(|&width| width < 0);
        if to_the_right { blanks + text } else { text.to_owned() + &blanks }
    }

    fn rule(&self, rule: &Rule, padding: usize, out: &mut dyn Write) -> io::Result<()> {
        let Rule(begin, between, end, fill) = rule;
        let spans: Vec<String> =
            self.widths.iter().map(|width| fill.to_string().repeat(width + 2 * padding)).collect();
        writeln!(out, "{begin}{}{end}", spans.join(between))
    }
}

fn line(cells: &[String], strokes: &Strokes, out: &mut dyn Write) -> io::Result<()> {
    let (begin, between, end) = strokes.upright;
    writeln!(out, "{begin}{}{end}", cells.join(between))
}

fn centered(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(display_width(text));
    let left = blanks / 2;
    format!("{}{text}{}", " ".repeat(left), " ".repeat(blanks - left))
}

fn display_width(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// The lines that a text takes: broken at its own line ends and, where `limit` is not 0, before a line grows
/// wider than that. Tabs become blanks, other control characters `^X`. There is always a first line.
fn broken(text: &str, limit: usize, word_wrap: bool) -> Vec<String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut lines = Vec::new();
    for own_line in text.split('\n') {
        let mut rest = visible(own_line.strip_suffix('\r').unwrap_or(own_line));
        while let Some(at) = break_position(&rest, limit, word_wrap) {
            let tail = rest.split_off(at);
            lines.push(rest);
            rest = if word_wrap { tail.trim_start_matches(' ').to_owned() } else { tail };
        }
        lines.push(rest);
    }
    lines
}

/// The byte position at which a line must be broken; `None` when it is short enough.
fn break_position(line: &str, limit: usize, word_wrap: bool) -> Option<usize> {
    if limit == 0 {
        return None;
    }
    let mut width = 0;
    let hard = line.char_indices().find_map(|(at, character)| {
        width += character.width().unwrap_or(0);
        // A single wide character stays whole however narrow the column is.
        (width > limit && at > 0).then_some(at)
    })?;
    if !word_wrap {
        return Some(hard);
    }
    // A word may be broken only where its beginning would leave half the line empty.
    let candidates = || line.char_indices().map(|(at, _)| at).filter(|&at| at > hard / 2 && at <= hard).rev();
    let before = |at: usize| line[..at].chars().next_back();
    let after = |at: usize| line[at..].chars().next();
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    candidates()
        .find(|&at| before(at).is_some_and(char::is_whitespace))
        .or_else(|| candidates().find(|&at| is_word(before(at)) != is_word(after(at))))
        .or(Some(hard))
}

fn visible(line: &str) -> String {
    let mut visible = String::with_capacity(line.len());
    let mut width = 0;
    for character in line.chars() {
        let before = visible.len();
        match character {
            '\t' => visible.push_str(&" ".repeat(8 - width % 8)),
            '\0'..='\x1f' => {
                visible.push('^');
                visible.push(char::from(character as u8 + 0x40));
            }
            _ => visible.push(character),
        }
        width += display_width(&visible[before..]);
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_between_words_unless_half_of_it_would_stay_empty() {
        assert_eq!(broken("jumps over the", 12, true), ["jumps over ", "the"]);
        assert_eq!(broken("abcdefghijklmnop", 12, true), ["abcdefghijkl", "mnop"]);
        assert_eq!(broken("a,b;c-d(e)f+g", 12, true), ["a,b;c-d(e)f+", "g"]);
        assert_eq!(broken("jumps over the", 12, false), ["jumps over t", "he"]);
    }

    #[test]
    fn control_characters_show_and_wide_characters_count_twice() {
        assert_eq!(broken("a\tb\x01\r\nc\n", 0, false), ["a       b^A", "c"]);
        assert_eq!(broken("漢字漢字", 5, false), ["漢字", "漢字"]);
        assert_eq!(broken("漢字", 1, false), ["漢", "字"]);
    }
}
