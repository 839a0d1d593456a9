//! Random statements on Fulmar and, in the same process and library, on SQLite's own storage.
//!
//! After each statement everything that a program can see of it must be the same on both sides: columns, rows in their
//! order, error code and message, counts of changes, the last rowid. Now and then the contents of all tables are
//! compared, both are checked for integrity, and both are closed and opened again. The first difference is reduced to a
//! short script.

use crate::generate::{Catalog, Generator};
use crate::outcome::{self, Failure, Outcome};
use rusqlite::Connection;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// Statements on one pair of databases, before the next seed has new ones.
const EPISODE: u64 = 300;

/// Why the fuzz could not go on, or what it found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The two sides differ.
    #[error("{0}")]
    Difference(Box<Difference>),
    /// A database could not be opened.
    #[error("{0:?}")]
    Database(Failure),
    /// No directory for the databases.
    #[error(transparent)]
    Directory(#[from] std::io::Error),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Database(failure)
    }
}

/// A script after which the two sides differ.
#[derive(Debug)]
pub struct Difference {
    /// Of the episode.
    pub seed: u64,
    /// What leads to it, as short as it could be made.
    pub script: Vec<Step>,
    /// What Fulmar answered to the last step.
    pub fulmar: String,
    /// What SQLite answered.
    pub sqlite: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "a difference in the episode of seed {}; run again with: soak fuzz --statements 1 --seed {}",
            self.seed, self.seed
        )?;
        for step in &self.script {
            writeln!(f, "  {step};")?;
        }
        write!(f, "Fulmar: {}\nSQLite: {}", self.fulmar, self.sqlite)
    }
}

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a statement.
    Sql(String),
    /// Closes and opens the databases.
    Reopen,
    /// Compares all contents, and checks both.
    Compare,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(sql) => f.write_str(sql),
            Self::Reopen => f.write_str("-- reopen"),
            Self::Compare => f.write_str("-- compare"),
        }
    }
}

/// What Fulmar is given to run instead of a statement: for tests of the fuzz itself.
pub type Alteration = fn(&str) -> Cow<'_, str>;

/// Runs at least so many statements, whole episodes from `seed` on, and returns how many succeeded of how many.
///
/// # Errors
/// [`Error::Difference`] for the first.
pub fn run(statements: u64, seed: u64, alter: Alteration) -> Result<(u64, u64), Error> {
    let (mut succeeded, mut all) = (0, 0);
    let mut seed = seed;
    while all < statements {
        let (good, total) = episode(seed, alter)?;
        succeeded += good;
        all += total;
        seed += 1;
    }
    Ok((succeeded, all))
}

fn episode(seed: u64, alter: Alteration) -> Result<(u64, u64), Error> {
    let mut pair = Pair::new(alter, seed.is_multiple_of(3))?;
    let mut generator = Generator::new(seed);
    let mut script = Vec::new();
    let (mut succeeded, mut all) = (0, 0);
    while all < EPISODE {
        let step = if pair.sqlite.is_autocommit() && generator.one_in(80) {
            Step::Reopen
        } else if generator.one_in(60) {
            Step::Compare
        } else {
            all += 1;
            Step::Sql(generator.statement())
        };
        script.push(step.clone());
        match pair.step(&step)? {
            Answers::Same(good) => succeeded += u64::from(good),
            Answers::Chance => break,
            Answers::Different(fulmar, sqlite) => {
                let found = Difference { seed, script, fulmar, sqlite };
                let difference = reduce(found, alter, seed.is_multiple_of(3))?;
                return Err(Error::Difference(Box::new(difference)));
            }
        }
        if let Some(catalog) = pair.learned.take() {
            generator.learn(catalog);
        }
    }
    Ok((succeeded, all))
}

/// Whether a statement may change what the next can name.
fn changes_schema(sql: &str) -> bool {
    ["CREATE", "DROP", "ALTER", "ROLLBACK"].iter().any(|word| sql.contains(word))
}

/// What the two sides made of a step.
enum Answers {
    /// The same, and whether it was a success.
    Same(bool),
    /// Not the same, but by chance: SQLite numbers rows at random after the largest number there is.
    Chance,
    Different(String, String),
}

/// The same databases twice.
struct Pair {
    fulmar: Connection,
    sqlite: Connection,
    directory: tempfile::TempDir,
    alter: Alteration,
    attached: bool,
    /// What there is, if the last step may have changed it.
    learned: Option<Catalog>,
}

impl Pair {
    fn new(alter: Alteration, attached: bool) -> Result<Self, Error> {
        let directory = tempfile::tempdir()?;
        let (fulmar, sqlite) = connect(directory.path(), attached)?;
        Ok(Self { fulmar, sqlite, directory, alter, attached, learned: None })
    }

    fn step(&mut self, step: &Step) -> Result<Answers, Error> {
        let answers = self.answers(step)?;
        if !matches!(step, Step::Sql(sql) if !changes_schema(sql)) {
            // To read the catalog changes what a connection knows of views: so both do.
            let _ = Catalog::read(&self.fulmar);
            self.learned = Catalog::read(&self.sqlite).ok();
        }
        Ok(answers)
    }

    fn answers(&mut self, step: &Step) -> Result<Answers, Error> {
        match step {
            Step::Sql(sql) => Ok(self.statement(sql)),
            Step::Reopen => {
                // Dropped before the new ones open: ordinary files have locks.
                self.fulmar = Connection::open_in_memory()?;
                self.sqlite = Connection::open_in_memory()?;
                (self.fulmar, self.sqlite) = connect(self.directory.path(), self.attached)?;
                Ok(Answers::Same(true))
            }
            Step::Compare => self.compare(),
        }
    }

    fn statement(&self, sql: &str) -> Answers {
        let ours = outcome::run(&self.fulmar, &(self.alter)(sql));
        let theirs = outcome::run(&self.sqlite, sql);
        self.judge(ours, theirs)
    }

    fn judge(&self, ours: Outcome, theirs: Outcome) -> Answers {
        if ours == theirs {
            return Answers::Same(ours.succeeded());
        }
        // Also if the row with the largest number is gone again.
        let random = |outcome: &Outcome| outcome.last_insert_rowid > 1 << 40;
        let picked = ours.last_insert_rowid != theirs.last_insert_rowid && random(&ours) && random(&theirs);
        if picked || self.has_largest_rowid() {
            return Answers::Chance;
        }
        Answers::Different(format!("{ours:?}"), format!("{theirs:?}"))
    }

    fn has_largest_rowid(&self) -> bool {
        let Ok(catalog) = Catalog::read(&self.sqlite) else { return false };
        catalog.rowid_tables().any(|path| {
            let largest =
                outcome::rows(&self.sqlite, &format!("SELECT max(rowid) = 9223372036854775807 FROM {path}"));
            largest.is_ok_and(|rows| rows == [[outcome::Value::Integer(1)]])
        })
    }

    /// Compares the contents of all tables, and asks both sides for their integrity.
    fn compare(&self) -> Result<Answers, Error> {
        let mut queries = vec!["PRAGMA integrity_check".to_owned()];
        for schema in crate::generate::schemas(&self.sqlite)? {
            queries
                .push(format!("SELECT type, name, tbl_name, sql FROM {schema}.sqlite_schema ORDER BY rowid"));
        }
        let _ = Catalog::read(&self.fulmar);
        queries.extend(Catalog::read(&self.sqlite)?.tables().map(|path| format!("SELECT * FROM {path}")));
        for query in queries {
            let answers = self.statement(&query);
            if !matches!(answers, Answers::Same(_)) {
                return Ok(answers);
            }
        }
        Ok(Answers::Same(true))
    }
}

fn connect(directory: &Path, attached: bool) -> Result<(Connection, Connection), Error> {
    let open = |scheme: &str, settings: &str| -> Result<Connection, Error> {
        let path = |name: &str| -> String {
            let path: PathBuf =
                directory.join(format!("{}{name}", if scheme.is_empty() { "ordinary-" } else { "" }));
            format!("{scheme}{}", path.display())
        };
        let mut connection = Connection::open(path("main"))?;
        bound_statements(&mut connection)?;
        connection.execute_batch(settings)?;
        if attached {
            connection.execute("ATTACH ?1 AS aux", [path("aux")])?;
        }
        Ok(connection)
    };
    let fulmar = open("fulmar:", "PRAGMA synchronous = OFF")?;
    let sqlite = open("", "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")?;
    Ok((fulmar, sqlite))
}

/// Interrupts statements that take too long, such as joins of what nobody would join: after the same number of steps on
/// both sides.
fn bound_statements(connection: &mut Connection) -> Result<(), Error> {
    const STEPS: i32 = 2_000_000;
    Ok(connection.progress_handler(STEPS, Some(|| true))?)
}

/// The shortest script found that ends in a difference: leaves out ever smaller pieces (Zeller and Hildebrandt, 2002).
fn reduce(found: Difference, alter: Alteration, attached: bool) -> Result<Difference, Error> {
    let mut shortest = found;
    let mut piece = shortest.script.len().div_ceil(2);
    loop {
        let mut start = 0;
        while start < shortest.script.len() {
            let script = &shortest.script;
            let end = (start + piece).min(script.len());
            let mut candidate: Vec<Step> = script[..start].iter().chain(&script[end..]).cloned().collect();
            match replay(&candidate, alter, attached)? {
                Some((length, fulmar, sqlite)) => {
                    candidate.truncate(length);
                    shortest = Difference { seed: shortest.seed, script: candidate, fulmar, sqlite };
                }
                None => start = end,
            }
        }
        if piece == 1 {
            return Ok(shortest);
        }
        piece = piece.div_ceil(2);
    }
}

/// How many steps of the script lead to a difference, and what the sides then say; `None` if they agree.
fn replay(
    script: &[Step],
    alter: Alteration,
    attached: bool,
) -> Result<Option<(usize, String, String)>, Error> {
    let mut pair = Pair::new(alter, attached)?;
    for (n, step) in script.iter().enumerate() {
        // Without the statements around it a transaction may be open here.
        if *step == Step::Reopen && !pair.sqlite.is_autocommit() {
            continue;
        }
        match pair.step(step)? {
            Answers::Same(_) => {}
            Answers::Chance => return Ok(None),
            Answers::Different(ours, theirs) => return Ok(Some((n + 1, ours, theirs))),
        }
    }
    Ok(None)
}
