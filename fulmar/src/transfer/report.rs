//! How far a transfer has come: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use crate::shell::progress::Progress;

/// Tells people how far things are, on standard error.
pub(super) struct Report {
    bar: Progress,
    /// Whether lines are written.
    lines: bool,
    /// Rows of all tables.
    total: u64,
    /// Rows of the tables that are done.
    finished: u64,
    /// The table at hand, and how many of its rows are done.
    table: String,
    rows: u64,
    /// What was last told, in hundredths of the total.
    told: u64,
}

impl Report {
    /// Of work on `total` rows; tables with `finished` of them are done already.
    pub(super) fn new(total: u64, finished: u64) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = Progress::counted_rows(on_terminal, total);
        Self { bar, lines: !on_terminal, total, finished, table: String::new(), rows: 0, told: 0 }
    }

    /// So many rows of a table are done.
    pub(super) fn reach(&mut self, table: &str, rows: u64) {
        if self.table != table {
            self.table = table.into();
            self.bar.say(table);
        }
        self.rows = rows;
        if rows.is_multiple_of(1024) {
            self.bar.reach(self.finished + rows);
        }
    }

    /// A table is done that has so many rows.
    pub(super) fn finish_table(&mut self, rows: u64) {
        self.finished += rows;
        self.rows = 0;
        self.bar.reach(self.finished);
    }

    /// What was reached since the last commit is not there: tables with so many rows are done.
    pub(super) fn go_back(&mut self, finished: u64) {
        self.finished = finished;
        self.rows = 0;
    }

    /// What was told to be reached is there to stay. The end is for the summary to tell.
    pub(super) fn committed(&mut self) {
        let done = self.finished + self.rows;
        self.bar.reach(done);
        let hundredths = (done * 100).checked_div(self.total).unwrap_or(100);
        if self.lines && hundredths > self.told && hundredths < 100 {
            self.told = hundredths;
            eprintln!("{hundredths:3} %  {}: {done} of {} rows", self.table, self.total);
        }
    }
}
