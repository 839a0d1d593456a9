//! `.dump`: the database as SQL that makes it again.

use std::io::Write;
use std::rc::Rc;

use super::schema::laid_out;
use super::{Call, Failure};
use crate::shell::progress::Progress;
use crate::shell::quoting::{LineEnds, quoted_name, sql_name, sql_string, write_sql_literal};
use crate::shell::statement::Statement;
use crate::shell::{Flow, Shell, SqlError};

/// What the user wants in the text.
#[derive(Default)]
struct Options {
    data_only: bool,
    keeps_newlines: bool,
    no_system: bool,
    rowids: bool,
    patterns: Vec<String>,
}

/// The columns of a table that a copy must be given.
pub(in crate::shell) struct StoredColumns {
    /// The name by which the rowid can be had beside them; `None` where a column is the rowid, where there is
    /// none, and where columns hide all its names.
    pub(in crate::shell) rowid: Option<&'static str>,
    /// Names; generated and hidden columns are not among them.
    pub(in crate::shell) names: Vec<String>,
}

impl Shell {
    pub(super) fn dump(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let options = Options::parse(&call.words())?;
        if !options.data_only {
            writeln!(self.output, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?;
        }
        // Everything is read from one snapshot.
        self.connection.execute_batch("SAVEPOINT dump")?;
        let outcome = self.dump_all(&options);
        self.connection.execute_batch("RELEASE dump")?;
        if !options.data_only {
            let end = if outcome.is_ok() { "COMMIT;" } else { "ROLLBACK; -- due to errors" };
            writeln!(self.output, "{end}")?;
        }
        outcome.map(|()| Flow::Continue)
    }

    fn dump_all(&mut self, options: &Options) -> Result<(), Failure> {
        let mut has_virtual_table = false;
        // `sqlite_sequence` stays when nothing needs it any more, but only AUTOINCREMENT makes it again.
        let tables = format!(
            "SELECT name, sql FROM sqlite_schema AS o WHERE type = 'table' AND sql IS NOT NULL AND {}
             AND (name <> 'sqlite_sequence'
                  OR EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'))
             ORDER BY tbl_name = 'sqlite_sequence', rowid",
            options.condition()
        );
        for row in self.query(&tables, &[])? {
            let Ok([Some(name), Some(sql)]) = <[_; 2]>::try_from(row) else { continue };
            let is_virtual = sql.starts_with("CREATE VIRTUAL TABLE");
            if let Some(head) = head(&name, &sql, options) {
                if is_virtual && !has_virtual_table && !options.data_only {
                    // The module must not make its shadow tables: they follow.
                    writeln!(self.output, "PRAGMA writable_schema=ON;")?;
                    has_virtual_table = true;
                }
                self.output.write_all(head.as_bytes())?;
                if !is_virtual {
                    self.dump_rows(&name, options)?;
                }
            }
        }
        if options.data_only {
            return Ok(());
        }
        let others = format!(
            "SELECT sql FROM sqlite_schema AS o
             WHERE sql IS NOT NULL AND type IN ('index', 'trigger', 'view') AND {}",
            options.condition()
        );
        for sql in self.query(&others, &[])?.into_iter().flatten().flatten() {
            writeln!(self.output, "{sql};")?;
        }
        if has_virtual_table {
            // Who reads the dump then reads the schema anew, and finds the virtual tables in it.
            writeln!(self.output, "PRAGMA writable_schema=RESET;")?;
        }
        Ok(())
    }

    fn dump_rows(&mut self, table: &str, options: &Options) -> Result<(), Failure> {
        let columns = self.stored_columns("main", table)?;
        let rowid = columns.rowid.filter(|_| options.rowids);
        let selected: Vec<String> = rowid
            .iter()
            .map(|&rowid| rowid.to_owned())
            .chain(columns.names.iter().map(|name| sql_name(name)))
            .collect();
        let into = match rowid {
            Some(_) => format!("{}({})", sql_name(table), selected.join(",")),
            None => sql_name(table),
        };
        let select = format!("SELECT {} FROM {}", selected.join(","), quoted_name(table));
        let line_ends = if options.keeps_newlines { LineEnds::Newlines } else { LineEnds::Escaped };
        self.write_rows(&into, &select, line_ends)
    }

    /// Writes the rows of a query as statements that insert them into a table.
    pub(super) fn write_inserts(&mut self, table: &str, select: &str) -> Result<(), Failure> {
        self.write_rows(&sql_name(table), select, LineEnds::Escaped)
    }

    fn write_rows(&mut self, into: &str, select: &str, line_ends: LineEnds) -> Result<(), Failure> {
        let connection = Rc::clone(&self.connection);
        let (Some(mut statement), _) = Statement::prepare(&connection, select)? else { return Ok(()) };
        // On a terminal the rows themselves show that work goes on.
        let progress = Progress::rows(self.settings.progress && !self.output.is_standard(), into);
        while statement.step()? {
            write!(self.output, "INSERT INTO {into} VALUES(")?;
            for (at, cell) in statement.row().into_iter().enumerate() {
                if at > 0 {
                    self.output.write_all(b",")?;
                }
                write_sql_literal(&mut self.output, cell, line_ends)?;
            }
            self.output.write_all(b");\n")?;
            progress.advance(1);
        }
        Ok(())
    }

    /// The columns of a table in `database` that are stored, and how to reach its rowid.
    pub(in crate::shell) fn stored_columns(
        &self,
        database: &str,
        table: &str,
    ) -> Result<StoredColumns, SqlError> {
        let pragma = format!("PRAGMA {}.table_info({})", quoted_name(database), quoted_name(table));
        let mut names = Vec::new();
        let mut primary_key_types = Vec::new();
        for row in self.query(&pragma, &[])? {
            let Ok([_, Some(name), declared, _, _, primary_key]) = <[_; 6]>::try_from(row) else { continue };
            names.push(name);
            if primary_key.as_deref() != Some("0") {
                primary_key_types.push(declared.unwrap_or_default());
            }
        }
        let is_rowid = matches!(&primary_key_types[..], [only] if only.eq_ignore_ascii_case("INTEGER"));
        let hidden = |rowid: &str| names.iter().any(|name| name.eq_ignore_ascii_case(rowid));
        let free = ["rowid", "_rowid_", "oid"].into_iter().find(|rowid| !hidden(rowid)).filter(|_| !is_rowid);
        let reachable = |rowid: &str| {
            let probe = format!("SELECT {rowid} FROM {}.{}", quoted_name(database), quoted_name(table));
            Statement::prepare(&self.connection, &probe).is_ok()
        };
        let rowid = free.filter(|rowid| reachable(rowid));
        Ok(StoredColumns { rowid, names })
    }
}

/// What comes before the rows of a table; `None` for a table that makes itself.
fn head(name: &str, sql: &str, options: &Options) -> Option<String> {
    let is_statistics = name.starts_with("sqlite_stat") && name.len() == "sqlite_stat1".len();
    let makes_itself = name.starts_with("sqlite_") && !is_statistics && name != "sqlite_sequence";
    if makes_itself || (options.no_system && name.starts_with("sqlite_")) {
        return None;
    }
    if options.data_only {
        return Some(String::new());
    }
    Some(if name == "sqlite_sequence" {
        "DELETE FROM sqlite_sequence;\n".into()
    } else if is_statistics {
        "ANALYZE sqlite_schema;\n".into()
    } else if sql.starts_with("CREATE VIRTUAL TABLE") {
        let (name, sql) = (sql_string(name), sql_string(sql));
        format!(
            "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table',{name},{name},0,{sql});\n"
        )
    } else {
        format!("{};\n", laid_out(sql, false))
    })
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, Failure> {
        let mut options = Self::default();
        for word in words {
            match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
                None => options.patterns.push((*word).to_owned()),
                Some("data-only") => options.data_only = true,
                Some("newlines") => options.keeps_newlines = true,
                Some("nosys") => options.no_system = true,
                Some("preserve-rowids") => options.rowids = true,
                Some(_) => return Err(Failure::Arguments(format!("unknown option \"{word}\""))),
            }
        }
        Ok(options)
    }

    /// A condition of SQL on the schema `o`: what a pattern names, and the shadow tables of what it names.
    fn condition(&self) -> String {
        if self.patterns.is_empty() {
            return "true".into();
        }
        let each = self.patterns.iter().map(|pattern| {
            let pattern = sql_string(pattern);
            format!(
                "o.name LIKE {pattern} ESCAPE '\\' OR EXISTS (
                     SELECT 1 FROM sqlite_schema WHERE name LIKE {pattern} ESCAPE '\\'
                     AND sql LIKE 'CREATE VIRTUAL TABLE%' AND substr(o.name, 1, length(name) + 1) = name || '_')"
            )
        });
        format!("({})", each.collect::<Vec<_>>().join(" OR "))
    }
}
