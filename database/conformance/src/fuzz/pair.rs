//! The same databases twice, which must answer alike.

use super::world::{World, attachment};
use super::{Alteration, Error, Step};
use crate::generate::{Catalog, contents, schemas};
use crate::outcome::{self, Value};
use rusqlite::Connection;
use std::fmt::Debug;

/// What the two sides made of a step.
pub(super) enum Answers {
    /// The same, and whether it was a success.
    Same(bool),
    /// Not the same, but by chance: SQLite numbers rows at random after the largest number there is.
    Chance,
    /// What Fulmar answered, and what SQLite did.
    Different(String, String),
}

/// A database on Fulmar and one on SQLite's own storage, each with what is attached to it.
pub(super) struct Pair {
    fulmar: Connection,
    sqlite: Connection,
    directory: tempfile::TempDir,
    world: World,
    alter: Alteration,
    /// What there is, if the last step may have changed it.
    pub(super) learned: Option<Catalog>,
}

impl Pair {
    pub(super) fn new(world: World, alter: Alteration) -> Result<Self, Error> {
        let directory = tempfile::tempdir()?;
        let (fulmar, sqlite) = world.open_both(directory.path())?;
        Ok(Self { fulmar, sqlite, directory, world, alter, learned: None })
    }

    /// Does a step on both sides.
    pub(super) fn step(&mut self, step: &Step) -> Result<Answers, Error> {
        let answers = self.answers(step)?;
        if may_change_schema(step) {
            // To read the catalog changes what a connection knows of views: so both do.
            let _ = Catalog::read(&self.fulmar);
            self.learned = Catalog::read(&self.sqlite).ok();
        }
        Ok(answers)
    }

    fn answers(&mut self, step: &Step) -> Result<Answers, Error> {
        match step {
            Step::Sql(sql) => Ok(self.statement(sql)),
            Step::During { query, rows, change } => {
                let ours = outcome::run_during(&self.fulmar, query, *rows, &(self.alter)(change));
                let theirs = outcome::run_during(&self.sqlite, query, *rows, change);
                // SQLite 3.40 to 3.54 may lose its place in a query that is under way when a savepoint is rolled back: it then
                // repeats rows, or takes its file for damaged. So nothing says what has to come after.
                let same_before = ours.0.rows.iter().zip(&theirs.0.rows).take(*rows).all(|(a, b)| a == b);
                let may_lose_place = change.starts_with("ROLLBACK TO") && ours.1 == theirs.1 && same_before;
                let good = ours.0.succeeded();
                Ok(match self.judge(&ours, &theirs, good) {
                    Answers::Different(..) if may_lose_place && good => Answers::Same(false),
                    answers => answers,
                })
            }
            Step::Attach => {
                let directory = self.directory.path();
                let ours = outcome::run(&self.fulmar, &attachment(directory, "fulmar:"));
                let theirs = outcome::run(&self.sqlite, &attachment(directory, "ordinary-"));
                Ok(self.judge(&ours, &theirs, ours.succeeded()))
            }
            Step::Reopen => {
                // Dropped before the new ones open: ordinary files have locks.
                self.fulmar = Connection::open_in_memory()?;
                self.sqlite = Connection::open_in_memory()?;
                (self.fulmar, self.sqlite) = self.world.open_both(self.directory.path())?;
                Ok(Answers::Same(true))
            }
            Step::Compare => self.compare(),
        }
    }

    fn statement(&self, sql: &str) -> Answers {
        let ours = outcome::run(&self.fulmar, &(self.alter)(sql));
        let theirs = outcome::run(&self.sqlite, sql);
        self.judge(&ours, &theirs, ours.succeeded())
    }

    fn judge<T: Debug + PartialEq>(&self, ours: &T, theirs: &T, good: bool) -> Answers {
        if ours == theirs {
            return Answers::Same(good);
        }
        if self.picked_rowid() || self.has_largest_rowid() {
            return Answers::Chance;
        }
        Answers::Different(format!("{ours:?}"), format!("{theirs:?}"))
    }

    /// Whether both sides have picked different rowids: the row with the largest number may be gone again.
    fn picked_rowid(&self) -> bool {
        let (ours, theirs) = (self.fulmar.last_insert_rowid(), self.sqlite.last_insert_rowid());
        ours != theirs && ours.min(theirs) > 1 << 40
    }

    fn has_largest_rowid(&self) -> bool {
        let Ok(catalog) = Catalog::read(&self.sqlite) else { return false };
        catalog.rowid_tables().any(|path| {
            let largest =
                outcome::rows(&self.sqlite, &format!("SELECT max(rowid) = 9223372036854775807 FROM {path}"));
            largest.is_ok_and(|rows| rows == [[Value::Integer(1)]])
        })
    }

    /// Compares the contents of all tables, and asks both sides for their integrity.
    fn compare(&self) -> Result<Answers, Error> {
        let mut queries = vec!["PRAGMA integrity_check".to_owned()];
        for schema in schemas(&self.sqlite)? {
            queries
                .push(format!("SELECT type, name, tbl_name, sql FROM {schema}.sqlite_schema ORDER BY rowid"));
        }
        // To list the tables changes what a connection knows of views: so both do.
        let _ = contents(&self.fulmar);
        queries.extend(contents(&self.sqlite)?);
        for query in queries {
            let answers = self.statement(&query);
            if !matches!(answers, Answers::Same(_)) {
                return Ok(answers);
            }
        }
        Ok(Answers::Same(true))
    }
}

/// Whether a step may change what the next can name.
fn may_change_schema(step: &Step) -> bool {
    let sql = match step {
        Step::Sql(sql) => sql,
        Step::During { change, .. } => change,
        Step::Attach | Step::Reopen | Step::Compare => return true,
    };
    ["CREATE", "DROP", "ALTER", "ROLLBACK", "DETACH"].iter().any(|word| sql.contains(word))
}
