//! The dot commands that show what a database holds.

use std::io::Write;

use super::{Call, Failure};
use crate::shell::quoting::{quoted_name, sql_name, sql_string};
use crate::shell::{Flow, Shell, SqlError};

/// The widest line of a list of names.
const LINE_WIDTH: usize = 80;

/// An attached database as `PRAGMA database_list` tells it.
pub(in crate::shell) struct Attached {
    pub(in crate::shell) name: String,
    file: String,
}

/// What an option and a pattern on the line of `.schema` ask for.
struct Wanted {
    pattern: Option<String>,
    indent: bool,
    system: bool,
}

impl Shell {
    pub(in crate::shell) fn attached(&self) -> Result<Vec<Attached>, SqlError> {
        let rows = self.query("PRAGMA database_list", &[])?;
        Ok(rows
            .into_iter()
            .filter_map(|row| match <[_; 3]>::try_from(row) {
                Ok([_, Some(name), file]) => Some(Attached { name, file: file.unwrap_or_default() }),
                _ => None,
            })
            .collect())
    }

    pub(super) fn list_databases(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        call.none()?;
        for Attached { name, file } in self.attached()? {
            let file = if file.is_empty() { "\"\"".to_owned() } else { file };
            let access = if self.connection.is_readonly(name.as_str())? { "r/o" } else { "r/w" };
            writeln!(self.output, "{name}: {file} {access}")?;
        }
        Ok(Flow::Continue)
    }

    pub(super) fn list_tables(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let pattern = call.optional()?.unwrap_or("%");
        self.list_names("type IN ('table', 'view')", "name", pattern)
    }

    pub(super) fn list_indexes(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let pattern = call.optional()?.unwrap_or("%");
        self.list_names("type = 'index'", "tbl_name", pattern)
    }

    /// Writes the names of schema objects of a kind in columns; those outside `main` after their database's name.
    fn list_names(&mut self, kind: &str, matched: &str, pattern: &str) -> Result<Flow, Failure> {
        let mut names = Vec::new();
        for Attached { name: database, .. } in self.attached()? {
            let sql = format!(
                "SELECT name FROM {}.sqlite_schema
                 WHERE {kind} AND name NOT LIKE 'sqlite__%' ESCAPE '_' AND {matched} LIKE ?1 ESCAPE '\\'",
                quoted_name(&database)
            );
            for name in self.query(&sql, &[pattern])?.into_iter().flatten().flatten() {
                names.push(if database == "main" { name } else { format!("{database}.{name}") });
            }
        }
        names.sort_unstable();
        let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let columns = (LINE_WIDTH / (widest + 2)).max(1);
        let height = names.len().div_ceil(columns);
        for row in 0..height {
            let cells: Vec<String> =
                names.iter().skip(row).step_by(height).map(|name| format!("{name:<widest$}")).collect();
            writeln!(self.output, "{}", cells.join("  "))?;
        }
        Ok(Flow::Continue)
    }

    pub(super) fn show_schema(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let mut wanted = Wanted { pattern: None, indent: false, system: true };
        for word in call.words() {
            match word {
                "--indent" | "-indent" => wanted.indent = true,
                "--nosys" | "-nosys" => wanted.system = false,
                _ if word.starts_with('-') => {
                    return Err(Failure::Arguments(format!("unknown option \"{word}\"")));
                }
                _ if wanted.pattern.is_none() => wanted.pattern = Some(word.to_owned()),
                _ => return Err(Failure::Arguments("expected at most one pattern".into())),
            }
        }
        let names_schema_table = wanted.pattern.as_ref().is_some_and(|pattern| {
            ["sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"]
                .contains(&pattern.to_ascii_lowercase().as_str())
        });
        if let (true, Some(name)) = (names_schema_table, &wanted.pattern) {
            let columns = "type text,\n  name text,\n  tbl_name text,\n  rootpage integer,\n  sql text";
            writeln!(self.output, "CREATE TABLE {name} (\n  {columns}\n);")?;
        }
        for Attached { name: database, .. } in self.attached()? {
            self.show_schema_of(&database, &wanted)?;
        }
        Ok(Flow::Continue)
    }

    fn show_schema_of(&mut self, database: &str, wanted: &Wanted) -> Result<(), Failure> {
        let (pattern, operator) = match &wanted.pattern {
            None => ("%", "LIKE"),
            Some(pattern) if pattern.contains(['*', '?', '[']) => (pattern.as_str(), "GLOB"),
            Some(pattern) => (pattern.as_str(), "LIKE"),
        };
        let escape = if operator == "LIKE" { "ESCAPE '\\'" } else { "" };
        let matched = if pattern.contains('.') {
            format!("{} || '.' || tbl_name", sql_string(database))
        } else {
            "tbl_name".to_owned()
        };
        let system = if wanted.system { "" } else { "AND name NOT LIKE 'sqlite__%' ESCAPE '_'" };
        let sql = format!(
            "SELECT sql, name FROM {}.sqlite_schema
             WHERE sql IS NOT NULL AND lower({matched}) {operator} lower(?1) {escape} {system} ORDER BY rowid",
            quoted_name(database)
        );
        for row in self.query(&sql, &[pattern])? {
            let Ok([Some(sql), Some(name)]) = <[_; 2]>::try_from(row) else { continue };
            let sql = if database == "main" { sql } else { qualified(&sql, database) };
            let columns = self.columns_of_query(database, &name, &sql);
            writeln!(self.output, "{}{columns};", laid_out(&sql, wanted.indent))?;
        }
        Ok(())
    }

    /// For a view or a virtual table, whose statement does not tell them, the columns in a comment.
    fn columns_of_query(&self, database: &str, name: &str, sql: &str) -> String {
        if !sql.starts_with("CREATE VIEW") && !sql.starts_with("CREATE VIRTUAL TABLE") {
            return String::new();
        }
        let pragma = format!("PRAGMA {}.table_info({})", quoted_name(database), quoted_name(name));
        // A view may refer to what is gone; then its columns are unknown and its text is still worth showing.
        let rows = self.query(&pragma, &[]).unwrap_or_default();
        let columns: Vec<String> =
            rows.into_iter().filter_map(|row| row.into_iter().nth(1)?).map(|name| sql_name(&name)).collect();
        let prefix = if database == "main" { String::new() } else { format!("{}.", sql_name(database)) };
        if columns.is_empty() {
            return String::new();
        }
        format!("\n/* {prefix}{}({}) */", sql_name(name), columns.join(","))
    }

    pub(super) fn show_full_schema(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let indent = match call.optional()? {
            None => false,
            Some("--indent" | "-indent") => true,
            Some(word) => return Err(Failure::Arguments(format!("unknown option \"{word}\""))),
        };
        let every_object = "SELECT sql FROM (SELECT sql, name, rowid AS place FROM sqlite_schema UNION ALL
             SELECT sql, name, rowid FROM sqlite_temp_schema)
             WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite__%' ESCAPE '_' ORDER BY place";
        for sql in self.query(every_object, &[])?.into_iter().flatten().flatten() {
            writeln!(self.output, "{};", laid_out(&sql, indent))?;
        }
        let tables = self.query("SELECT name FROM sqlite_schema WHERE name GLOB 'sqlite_stat[134]'", &[])?;
        if tables.is_empty() {
            writeln!(self.output, "/* No STAT tables available */")?;
            return Ok(Flow::Continue);
        }
        writeln!(self.output, "ANALYZE sqlite_schema;")?;
        for table in tables.into_iter().flatten().flatten() {
            self.write_inserts(&table, &format!("SELECT * FROM {table}"))?;
        }
        writeln!(self.output, "ANALYZE sqlite_schema;")?;
        Ok(Flow::Continue)
    }
}

/// The statement with the object's name after that of its database.
fn qualified(sql: &str, database: &str) -> String {
    for kind in ["TABLE", "VIRTUAL TABLE", "INDEX", "UNIQUE INDEX", "VIEW", "TRIGGER"] {
        if let Some(rest) = sql.strip_prefix(&format!("CREATE {kind} ")) {
            return format!("CREATE {kind} {}.{rest}", sql_name(database));
        }
    }
    sql.to_owned()
}

/// The statement as it is shown: a table whose name is quoted, as shadow tables are, may exist already when the
/// text is run; `indent` puts each column on a line of its own.
pub(super) fn laid_out(sql: &str, indent: bool) -> String {
    let shown = match sql.strip_prefix("CREATE TABLE ") {
        Some(rest) if rest.starts_with(['"', '\'']) => format!("CREATE TABLE IF NOT EXISTS {rest}"),
        _ => sql.to_owned(),
    };
    if indent && sql.starts_with("CREATE TABLE") { indented(&shown) } else { shown }
}

/// Breaks a `CREATE TABLE` at the parentheses and commas of its outermost level.
fn indented(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 32);
    let mut depth = 0_usize;
    let mut closing = None;
    for character in sql.chars() {
        if let Some(quote) = closing {
            if character == quote {
                closing = None;
            }
            text.push(character);
            continue;
        }
        match character {
            '\'' | '"' | '`' => closing = Some(character),
            '[' => closing = Some(']'),
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    text.truncate(text.trim_end().len());
                    text.push('\n');
                }
            }
            _ if character.is_whitespace() => {
                if !text.ends_with(char::is_whitespace) {
                    text.push(' ');
                }
                continue;
            }
            _ => {}
        }
        text.push(character);
        if depth == 1 && matches!(character, '(' | ',') {
            text.push_str("\n  ");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_broken_at_its_columns_only() {
        let sql = "CREATE TABLE t(a  int,\n b text DEFAULT 'x, (', CHECK (a IN (1, 2)))";
        let expected = "CREATE TABLE t(\n  a int,\n  b text DEFAULT 'x, (',\n  CHECK (a IN (1, 2))\n)";
        assert_eq!(laid_out(sql, true), expected);
        assert_eq!(laid_out(sql, false), sql);
        assert_eq!(laid_out("CREATE TABLE 'f_idx'(a)", false), "CREATE TABLE IF NOT EXISTS 'f_idx'(a)");
    }

    #[test]
    fn a_name_is_qualified_whatever_kind_it_names() {
        assert_eq!(qualified("CREATE UNIQUE INDEX i ON t(a)", "aux"), "CREATE UNIQUE INDEX aux.i ON t(a)");
        assert_eq!(qualified("CREATE TABLE t(a)", "odd name"), "CREATE TABLE \"odd name\".t(a)");
    }
}
