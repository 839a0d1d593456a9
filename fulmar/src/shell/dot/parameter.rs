//! `.parameter`: the values of `?1`, `:name` and their kin in the statements to come.

use std::io::Write;

use rusqlite::config::DbConfig;

use super::{Call, Failure};
use crate::shell::quoting::sql_string;
use crate::shell::{Flow, Shell};

impl Shell {
    pub(super) fn parameter(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        match call.words()[..] {
            ["init"] => self.create_parameters()?,
            ["clear"] => self.connection.execute_batch("DROP TABLE IF EXISTS temp.sqlite_parameters")?,
            ["list"] => self.list_parameters()?,
            ["set", name, value] => {
                self.create_parameters()?;
                let set = |value: &str| {
                    self.connection.execute_batch(&format!(
                        "REPLACE INTO temp.sqlite_parameters(key, value) VALUES({}, {value})",
                        sql_string(name)
                    ))
                };
                // What is no expression is meant as text.
                set(&format!("({value})")).or_else(|_| set(&sql_string(value)))?;
            }
            ["unset", name] => {
                self.create_parameters()?;
                self.connection.execute("DELETE FROM temp.sqlite_parameters WHERE key = ?1", [name])?;
            }
            _ => {
                return Err(Failure::Arguments(
                    "expected clear, init, list, set NAME VALUE or unset NAME".into(),
                ));
            }
        }
        Ok(Flow::Continue)
    }

    /// The table has one of SQLite's own names, so that no listing shows it.
    fn create_parameters(&self) -> Result<(), Failure> {
        let writable = DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA;
        let before = self.connection.db_config(writable)?;
        self.connection.set_db_config(writable, true)?;
        let created = self.connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS temp.sqlite_parameters(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        );
        self.connection.set_db_config(writable, before)?;
        Ok(created?)
    }

    fn list_parameters(&mut self) -> Result<(), Failure> {
        self.create_parameters()?;
        let rows = self.query("SELECT key, quote(value) FROM temp.sqlite_parameters ORDER BY key", &[])?;
        let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
        let widest = rows.iter().map(|row| text(&row[0]).chars().count()).max().unwrap_or(0);
        for row in rows {
            writeln!(self.output, "{:<widest$} {}", text(&row[0]), text(&row[1]))?;
        }
        Ok(())
    }
}
