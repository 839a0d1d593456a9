//! What an episode is like, apart from its statements.

use crate::database;
use crate::outcome::Failure;
use fulmar_node::Random;
use rusqlite::Connection;
use std::fmt;
use std::path::Path;

/// The settings under which an episode runs. They follow from its seed.
#[derive(Clone, Debug)]
pub struct World {
    encoding: &'static str,
    foreign_keys: bool,
    recursive_triggers: bool,
    reversed: bool,
    /// Whether a database of the same kind as `main` is attached as `aux`.
    aux: bool,
    /// Whether SQLite's own storage is attached on both sides, as `mem`.
    memory: bool,
    /// Rows that a table may gather: few, so that joins stay fast, or enough for a tree of many leaves.
    pub(crate) rows: usize,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(!seed);
        Self {
            encoding: random.pick(&["UTF-8", "UTF-8", "UTF-8", "UTF-16le", "UTF-16be"]),
            foreign_keys: random.one_in(2),
            recursive_triggers: random.one_in(4),
            reversed: random.one_in(6),
            aux: random.one_in(3),
            memory: random.one_in(6),
            rows: if random.one_in(5) { 900 } else { 25 },
        }
    }

    /// Opens one side's databases in `directory`, whose names begin with `prefix`.
    pub(crate) fn open(&self, directory: &Path, prefix: &str) -> rusqlite::Result<Connection> {
        let mut connection = Connection::open(name_in(directory, prefix, "main"))?;
        bound_statements(&mut connection)?;
        connection.execute_batch(&self.to_string())?;
        // What the loss of power would do is tested elsewhere.
        connection.execute_batch("PRAGMA synchronous = OFF")?;
        if !prefix.starts_with("fulmar:") {
            connection.execute_batch("PRAGMA journal_mode = MEMORY")?;
        }
        if self.aux {
            connection.execute_batch(&attachment(directory, prefix))?;
            connection.execute_batch("PRAGMA aux.synchronous = OFF")?;
        }
        if self.memory {
            connection.execute_batch("ATTACH ':memory:' AS mem")?;
        }
        Ok(connection)
    }

    /// Both sides' databases: Fulmar's, then SQLite's own.
    pub(crate) fn open_both(&self, directory: &Path) -> Result<(Connection, Connection), Failure> {
        Ok((self.open(directory, "fulmar:")?, self.open(directory, "ordinary-")?))
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PRAGMA encoding = '{}'; PRAGMA foreign_keys = {}; PRAGMA recursive_triggers = {}; \
             PRAGMA reverse_unordered_selects = {}",
            self.encoding, self.foreign_keys, self.recursive_triggers, self.reversed
        )
    }
}

fn name_in(directory: &Path, prefix: &str, name: &str) -> String {
    match prefix {
        "fulmar:" => database::named(directory, name),
        _ => directory.join(format!("{prefix}{name}")).display().to_string(),
    }
}

/// The statement that attaches a side's second database.
pub(crate) fn attachment(directory: &Path, prefix: &str) -> String {
    format!("ATTACH '{}' AS aux", name_in(directory, prefix, "aux"))
}

/// Interrupts statements that take too long, such as joins of what nobody would join: after the same number of steps on
/// both sides.
fn bound_statements(connection: &mut Connection) -> rusqlite::Result<()> {
    const STEPS: i32 = 1_000_000;
    connection.progress_handler(STEPS, Some(|| true))
}
