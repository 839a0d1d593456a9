//! How far long work has come, on a terminal and nowhere else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line at the bottom of the terminal that goes away with the work.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work on as many bytes as are known, each of which is counted.
    pub(crate) fn bytes(visible: bool, total: u64) -> Self {
        if !visible {
            return Self(ProgressBar::hidden());
        }
        Self::styled(
            ProgressBar::new(total),
            "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left {msg}",
        )
    }

    /// Work on as many rows as are known, each of which is counted.
    pub(crate) fn counted_rows(visible: bool, total: u64) -> Self {
        if !visible {
            return Self(ProgressBar::hidden());
        }
        Self::styled(ProgressBar::new(total), "{bar:30} {human_pos}/{human_len} rows, {eta} left {msg}")
    }

    /// Work on an unknown number of rows.
    pub(crate) fn rows(visible: bool, table: &str) -> Self {
        if !visible {
            return Self(ProgressBar::hidden());
        }
        Self::styled(ProgressBar::new_spinner(), "{spinner} {msg}: {human_pos} rows, {elapsed}").named(table)
    }

    /// Work of unknown size that counts nothing.
    pub(crate) fn spinner(visible: bool, message: &str) -> Self {
        if !visible {
            return Self(ProgressBar::hidden());
        }
        let progress = Self::styled(ProgressBar::new_spinner(), "{spinner} {msg}, {elapsed}").named(message);
        progress.0.enable_steady_tick(Duration::from_millis(200));
        progress
    }

    pub(crate) fn advance(&self, amount: u64) {
        self.0.inc(amount);
    }

    pub(crate) fn reach(&self, position: u64) {
        self.0.set_position(position);
    }

    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(message.to_owned());
    }

    /// Shows a line above without tearing the bar.
    pub(crate) fn suspended<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }

    fn styled(bar: ProgressBar, template: &str) -> Self {
        // Every template above is valid; were one not, the bar would only look plainer.
        Self(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    fn named(self, message: &str) -> Self {
        self.say(message);
        self
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
