//! Writes the rows of a result in the current format: row by row where the mode allows it, and as a grid at
//! the end where all rows together decide the widths.

use std::io::{self, Write};

use super::format::{Format, Mode};
use super::grid::Grid;
use super::quoting::{
    LineEnds, sql_name, sql_string, write_c_string, write_csv, write_html, write_json_string,
    write_sql_literal,
};
use super::statement::{Cell, exact_real};

/// A result on its way out.
pub(crate) struct Printer<'format> {
    format: &'format Format,
    columns: Vec<String>,
    rows: u64,
    /// In the modes that draw a grid, all rows so far.
    grid: Option<Grid<'format>>,
}

impl<'format> Printer<'format> {
    pub(crate) fn new(format: &'format Format, columns: Vec<String>) -> Self {
        let grid = format.mode.is_grid().then(|| Grid::new(format, &columns));
        Self { format, columns, rows: 0, grid }
    }

    /// Takes one row, of as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>], out: &mut dyn Write) -> io::Result<()> {
        let first = self.rows == 0;
        self.rows += 1;
        if let Some(grid) = &mut self.grid {
            grid.row(cells);
            return Ok(());
        }
        match self.format.mode {
            Mode::Line => self.lines(first, cells, out),
            Mode::Json => self.json(first, cells, out),
            Mode::Insert => self.insert(cells, out),
            Mode::Html => self.html(first, cells, out),
            _ => self.separated(first, cells, out),
        }
    }

    /// Ends the result. A result without rows leaves no trace.
    pub(crate) fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        match self.grid {
            Some(grid) if self.rows > 0 => grid.draw(out),
            None if self.rows > 0 && self.format.mode == Mode::Json => out.write_all(b"]\n"),
            _ => Ok(()),
        }
    }

    fn separated(&self, first: bool, cells: &[Cell<'_>], out: &mut dyn Write) -> io::Result<()> {
        let format = self.format;
        if first && format.headers {
            for (at, name) in self.columns.iter().enumerate() {
                self.separate(at, out)?;
                match format.mode {
                    Mode::Csv => write_csv(out, name.as_bytes(), format.column_separator.as_bytes())?,
                    Mode::Tcl => write_c_string(out, name.as_bytes())?,
                    Mode::Quote => out.write_all(sql_string(name).as_bytes())?,
                    _ => out.write_all(name.as_bytes())?,
                }
            }
            out.write_all(format.row_separator.as_bytes())?;
        }
        for (at, &cell) in cells.iter().enumerate() {
            self.separate(at, out)?;
            match (format.mode, cell) {
                (Mode::Quote, _) => write_sql_literal(out, cell, LineEnds::Plain)?,
                (Mode::Tcl, Cell::Null) => write_c_string(out, format.null.as_bytes())?,
                (_, Cell::Null) => out.write_all(format.null.as_bytes())?,
                (Mode::Csv, _) => {
                    cell.with_text(|text| write_csv(out, text, format.column_separator.as_bytes()))?;
                }
                (Mode::Tcl, _) => cell.with_text(|text| write_c_string(out, text))?,
                _ => cell.with_text(|text| out.write_all(text))?,
            }
        }
        out.write_all(format.row_separator.as_bytes())
    }

    fn separate(&self, column: usize, out: &mut dyn Write) -> io::Result<()> {
        if column > 0 { out.write_all(self.format.column_separator.as_bytes()) } else { Ok(()) }
    }

    fn lines(&self, first: bool, cells: &[Cell<'_>], out: &mut dyn Write) -> io::Result<()> {
        if !first {
            out.write_all(self.format.row_separator.as_bytes())?;
        }
        let width = self.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        for (name, &cell) in self.columns.iter().zip(cells) {
            write!(out, "{name:>width$} = ")?;
            match cell {
                Cell::Null => out.write_all(self.format.null.as_bytes())?,
                _ => cell.with_text(|text| out.write_all(text))?,
            }
            out.write_all(self.format.row_separator.as_bytes())?;
        }
        Ok(())
    }

    fn json(&self, first: bool, cells: &[Cell<'_>], out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if first { b"[{" } else { b",\n{" })?;
        for (at, (name, &cell)) in self.columns.iter().zip(cells).enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            write_json_string(out, name)?;
            out.write_all(b":")?;
            match cell {
                Cell::Null => out.write_all(b"null")?,
                Cell::Integer(integer) => write!(out, "{integer}")?,
                Cell::Real(real, _) => out.write_all(exact_real(real).as_bytes())?,
                Cell::Text(text) => write_json_string(out, &String::from_utf8_lossy(text))?,
                Cell::Blob(blob) => match std::str::from_utf8(blob) {
                    Ok(text) => write_json_string(out, text)?,
                    // JSON has no bytes: each becomes the character of its number.
                    Err(_) => write_json_string(
                        out,
                        &blob.iter().map(|&byte| char::from(byte)).collect::<String>(),
                    )?,
                },
            }
        }
        out.write_all(b"}")
    }

    fn insert(&self, cells: &[Cell<'_>], out: &mut dyn Write) -> io::Result<()> {
        write!(out, "INSERT INTO {}", self.format.table)?;
        if self.format.headers {
            let names: Vec<String> = self.columns.iter().map(|name| sql_name(name)).collect();
            write!(out, "({})", names.join(","))?;
        }
        out.write_all(b" VALUES(")?;
        for (at, &cell) in cells.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            write_sql_literal(out, cell, LineEnds::Escaped)?;
        }
        out.write_all(b");\n")
    }

    fn html(&self, first: bool, cells: &[Cell<'_>], out: &mut dyn Write) -> io::Result<()> {
        if first && self.format.headers {
            out.write_all(b"<TR>")?;
            for name in &self.columns {
                out.write_all(b"<TH>")?;
                write_html(out, name.as_bytes())?;
                out.write_all(b"</TH>\n")?;
            }
            out.write_all(b"</TR>\n")?;
        }
        out.write_all(b"<TR>")?;
        for &cell in cells {
            out.write_all(b"<TD>")?;
            match cell {
                Cell::Null => write_html(out, self.format.null.as_bytes())?,
                _ => cell.with_text(|text| write_html(out, text))?,
            }
            out.write_all(b"</TD>\n")?;
        }
        out.write_all(b"</TR>\n")
    }
}
