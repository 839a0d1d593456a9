//! Somebody who writes much in each transaction, as long as this is there.

use super::Failure;
use super::client::is_refused;
use crate::database;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

/// Bytes of a transaction: more than a message among replicas holds.
const BYTES: usize = 16 << 20;

pub(super) struct Large {
    is_over: Arc<AtomicBool>,
    writer: JoinHandle<rusqlite::Result<()>>,
}

impl Large {
    /// Begins to write to the database of this name.
    pub(super) fn begin(name: String) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        Self { is_over, writer: thread::spawn(move || write(&name, &ends)) }
    }

    /// Ends it. None of the transactions may have failed, as nobody was gone.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.is_over.store(true, SeqCst);
        let written = self.writer.join().map_err(|_| "who writes much has panicked")?;
        written.map_err(|why| format!("a large transaction: {why}").into())
    }
}

fn write(name: &str, is_over: &AtomicBool) -> rusqlite::Result<()> {
    let session = database::open(name)?;
    session.execute_batch("CREATE TABLE IF NOT EXISTS large(bytes)")?;
    while !is_over.load(SeqCst) {
        match session.execute("INSERT INTO large VALUES (randomblob(?1))", [BYTES]) {
            Err(why) if !is_refused(&why) => return Err(why),
            _ => {}
        }
    }
    session.execute("DELETE FROM large", []).map(drop)
}
