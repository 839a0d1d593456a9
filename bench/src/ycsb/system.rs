//! What a load can run on.

use crate::fault::{Fault, Wrong};

/// A database, with a table of values by number, and logs to which values are appended.
pub(super) trait System: Sync {
    /// Its name, and its version if it is not ours.
    fn name(&self) -> String;

    /// Empties it and puts in so many records and logs.
    fn load(&self, records: u64, logs: u32, values: &Values) -> Result<(), Fault>;

    /// Connects, lets `work` use the connection, and closes it.
    fn connected(&self, work: &mut dyn FnMut(&mut dyn Client) -> Result<(), Fault>) -> Result<(), Fault>;

    /// Whether it can append to logs.
    fn appends(&self) -> bool {
        true
    }
}

/// One connection, used for one operation after the other.
pub(super) trait Client {
    /// Reads a record, and says how long its value is.
    fn read(&mut self, record: u64) -> Result<usize, Fault>;

    /// Changes the value of a record.
    fn update(&mut self, record: u64, value: &str) -> Result<(), Fault>;

    /// Adds a record.
    fn insert(&mut self, record: u64, value: &str) -> Result<(), Fault>;

    /// Reads up to `count` records from this one on, and says how many there were.
    fn scan(&mut self, from: u64, count: u64) -> Result<u64, Fault>;

    /// Adds a value to a log; the system gives it a number larger than the others'.
    fn append(&mut self, log: u32, value: &str) -> Result<(), Fault>;
}

/// Values of one length, letters that compress badly.
pub(crate) struct Values {
    letters: String,
    pub(super) bytes: usize,
}

/// Where a value may begin in the letters that all values are cut from.
const STARTS: usize = 64 << 10;

impl Values {
    pub(crate) fn new(bytes: usize) -> Self {
        let mut random = fulmar_node::Random::new(1);
        let letters =
            (0..STARTS + bytes).map(|_| char::from(b"abcdefghijklmnop"[random.index(16)])).collect();
        Self { letters, bytes }
    }

    pub(crate) fn any(&self, random: &mut fulmar_node::Random) -> &str {
        let start = random.index(STARTS);
        &self.letters[start..start + self.bytes]
    }
}

/// Fails unless one row was changed.
pub(super) fn require_one(changed: u64, record: u64) -> Result<(), Fault> {
    if changed == 1 {
        return Ok(());
    }
    Err(Wrong(format!("record {record}: {changed} rows changed instead of one")).into())
}
