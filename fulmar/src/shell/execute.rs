//! Runs SQL and shows what comes of it.

use std::io::Write;
use std::rc::Rc;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, ffi};

use super::failure::Failure;
use super::format::{Format, Mode};
use super::printer::Printer;
use super::statement::{Cell, Statement, memory_used};
use super::{Shell, SqlError};

impl Shell {
    /// Runs all statements of `sql`, up to the first error.
    pub(super) fn run_sql(&mut self, sql: &str) -> Result<(), Failure> {
        let connection = Rc::clone(&self.connection);
        let mut rest = sql;
        while !rest.is_empty() {
            let (statement, taken) = Statement::prepare(&connection, rest)?;
            let (text, after) = rest.split_at(taken);
            rest = after;
            let Some(mut statement) = statement else { continue };
            if self.settings.query_plan && statement.explain_level() == 0 {
                let plan = format!("EXPLAIN QUERY PLAN {text}");
                if let (Some(mut plan), _) = Statement::prepare(&connection, &plan)? {
                    bind_parameters(&connection, &mut plan)?;
                    self.show_plan(&mut plan)?;
                }
            }
            let begin = Instant::now();
            bind_parameters(&connection, &mut statement)?;
            let outcome = self.show_result(&mut statement);
            if self.settings.stats {
                self.show_counters(&statement)?;
            }
            drop(statement);
            if self.settings.timer {
                writeln!(self.output, "Run Time: real {:.3}", begin.elapsed().as_secs_f64())?;
            }
            outcome?;
        }
        if self.settings.changes {
            let (now, total) = (connection.changes(), connection.total_changes());
            writeln!(self.output, "changes: {now}   total_changes: {total}")?;
        }
        Ok(())
    }

    fn show_result(&mut self, statement: &mut Statement<'_>) -> Result<(), Failure> {
        let listing = Format { mode: Mode::Column, headers: true, wrap: 0, ..Format::default() };
        let format = match statement.explain_level() {
            1 if self.settings.explain_layout => &listing,
            2 if self.settings.explain_layout => return self.show_plan(statement),
            _ => &self.format,
        };
        let mut printer = Printer::new(format, statement.column_names());
        loop {
            match statement.step() {
                Ok(true) => printer.row(&statement.row(), &mut self.output)?,
                Ok(false) => return Ok(printer.finish(&mut self.output)?),
                Err(error) => {
                    // The rows that did come are shown before the reason why no more do.
                    printer.finish(&mut self.output)?;
                    return Err(error.into());
                }
            }
        }
    }

    /// Draws the rows of an `EXPLAIN QUERY PLAN` as the tree they describe.
    fn show_plan(&mut self, statement: &mut Statement<'_>) -> Result<(), Failure> {
        let mut nodes = Vec::new();
        while statement.step()? {
            if let [Cell::Integer(node), Cell::Integer(parent), _, Cell::Text(detail)] = statement.row()[..] {
                nodes.push(PlanNode { node, parent, detail: String::from_utf8_lossy(detail).into_owned() });
            }
        }
        if !nodes.is_empty() {
            writeln!(self.output, "QUERY PLAN")?;
            write_plan(&nodes, 0, "", &mut self.output)?;
        }
        Ok(())
    }

    fn show_counters(&mut self, statement: &Statement<'_>) -> Result<(), Failure> {
        let (now, most) = memory_used();
        writeln!(self.output, "Memory Used:                         {now} (max {most}) bytes")?;
        for (label, counter) in [
            ("Fullscan Steps:", ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP),
            ("Sort Operations:", ffi::SQLITE_STMTSTATUS_SORT),
            ("Autoindex Inserts:", ffi::SQLITE_STMTSTATUS_AUTOINDEX),
            ("Virtual Machine Steps:", ffi::SQLITE_STMTSTATUS_VM_STEP),
        ] {
            writeln!(self.output, "{label:<37}{}", statement.counter(counter))?;
        }
        Ok(())
    }

    /// The rows of a query of the shell's own, each column as text.
    pub(super) fn query(&self, sql: &str, parameters: &[&str]) -> Result<Vec<Vec<Option<String>>>, SqlError> {
        let (Some(mut statement), _) = Statement::prepare(&self.connection, sql)? else {
            return Ok(Vec::new());
        };
        for (number, value) in (1..).zip(parameters) {
            statement.bind(number, Cell::Text(value.as_bytes()))?;
        }
        let mut rows = Vec::new();
        while statement.step()? {
            let row = statement.row().into_iter().map(|cell| match cell {
                Cell::Null => None,
                cell => Some(cell.with_text(|text| String::from_utf8_lossy(text).into_owned())),
            });
            rows.push(row.collect());
        }
        Ok(rows)
    }
}

/// Gives the statement's parameters the values that `.parameter` has stored.
fn bind_parameters(connection: &Connection, statement: &mut Statement<'_>) -> Result<(), Failure> {
    if statement.parameter_count() == 0 {
        return Ok(());
    }
    let stored = "SELECT 1 FROM temp.sqlite_schema WHERE name = 'sqlite_parameters'";
    if connection.query_row(stored, [], |_| Ok(())).optional()?.is_none() {
        return Ok(());
    }
    let lookup = "SELECT value FROM temp.sqlite_parameters WHERE key = ?1";
    for number in 1..=statement.parameter_count() {
        let name = statement.parameter_name(number).unwrap_or_else(|| format!("?{number}"));
        let (Some(mut value), _) = Statement::prepare(connection, lookup)? else { continue };
        value.bind(1, Cell::Text(name.as_bytes()))?;
        if value.step()?
            && let [cell] = value.row()[..]
        {
            statement.bind(number, cell)?;
        }
    }
    Ok(())
}

/// A step of a query plan.
struct PlanNode {
    node: i64,
    parent: i64,
    detail: String,
}

fn write_plan(nodes: &[PlanNode], parent: i64, indent: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let children: Vec<&PlanNode> = nodes.iter().filter(|node| node.parent == parent).collect();
    for (at, child) in children.iter().enumerate() {
        let is_last = at + 1 == children.len();
        let (branch, below) = if is_last { ("`--", "   ") } else { ("|--", "|  ") };
        writeln!(out, "{indent}{branch}{}", child.detail)?;
        // A node is never its own ancestor: SQLite numbers children after their parent.
        if child.node > parent {
            write_plan(nodes, child.node, &format!("{indent}{below}"), out)?;
        }
    }
    Ok(())
}
