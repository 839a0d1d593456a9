//! Random statements on Fulmar and, in the same process and library, on SQLite's own storage.
//!
//! After each statement everything that a program can see of it must be the same on both sides: columns, rows in their
//! order, error code and message, counts of changes, the last rowid. Some statements run while a query is half read. Now
//! and then the contents of all tables are compared, both are checked for integrity, and both are closed and opened
//! again. The first difference is reduced to a short script.

mod pair;
mod world;

use crate::generate::Generator;
pub use crate::generate::Step;
use crate::outcome::Failure;
use pair::{Answers, Pair};
use std::borrow::Cow;
use std::fmt;
pub use world::World;

/// Steps on one pair of databases, before the next seed has new ones.
const EPISODE: u32 = 300;

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
    /// In which it happened.
    pub world: World,
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
        writeln!(f, "  {};", self.world)?;
        for step in &self.script {
            writeln!(f, "  {step};")?;
        }
        write!(f, "Fulmar: {}\nSQLite: {}", self.fulmar, self.sqlite)
    }
}

/// What Fulmar is given to run instead of a statement: for tests of the fuzz itself.
pub type Alteration = fn(&str) -> Cow<'_, str>;

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Statements run on both sides.
    pub statements: u64,
    /// Those of them that ended without an error.
    pub succeeded: u64,
    /// Pairs of databases.
    pub episodes: u64,
    /// Those of them that ended early, since SQLite chose a rowid at random.
    pub by_chance: u64,
}

/// Runs at least so many statements, whole episodes from `seed` on.
///
/// # Errors
/// [`Error::Difference`] for the first.
pub fn run(statements: u64, seed: u64, alter: Alteration) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut seed = seed;
    while tally.statements < statements {
        episode(seed, alter, &mut tally)?;
        seed += 1;
    }
    Ok(tally)
}

fn episode(seed: u64, alter: Alteration, tally: &mut Tally) -> Result<(), Error> {
    let world = World::of(seed);
    let mut generator = Generator::new(seed, world.rows);
    let mut pair = Pair::new(world.clone(), alter)?;
    let mut script = Vec::new();
    tally.episodes += 1;
    for _ in 0..EPISODE {
        let step = generator.step();
        script.push(step.clone());
        tally.statements += u64::from(!matches!(step, Step::Reopen | Step::Compare));
        match pair.step(&step)? {
            Answers::Same(good) => {
                tally.succeeded += u64::from(good && !matches!(step, Step::Reopen | Step::Compare));
            }
            Answers::Chance => {
                tally.by_chance += 1;
                break;
            }
            Answers::Different(fulmar, sqlite) => {
                let difference = reduce(Difference { seed, world, script, fulmar, sqlite }, alter)?;
                return Err(Error::Difference(Box::new(difference)));
            }
        }
        if let Some(catalog) = pair.learned.take() {
            generator.learn(catalog);
        }
    }
    Ok(())
}

/// The shortest script found that ends in a difference: leaves out ever smaller pieces (Zeller and Hildebrandt, 2002).
fn reduce(found: Difference, alter: Alteration) -> Result<Difference, Error> {
    let mut shortest = found;
    let mut piece = shortest.script.len().div_ceil(2);
    loop {
        let mut start = 0;
        while start < shortest.script.len() {
            let script = &shortest.script;
            let end = (start + piece).min(script.len());
            let mut candidate: Vec<Step> = script[..start].iter().chain(&script[end..]).cloned().collect();
            match replay(&candidate, &shortest.world, alter)? {
                Some((length, fulmar, sqlite)) => {
                    candidate.truncate(length);
                    shortest = Difference { script: candidate, fulmar, sqlite, ..shortest };
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
    world: &World,
    alter: Alteration,
) -> Result<Option<(usize, String, String)>, Error> {
    let mut pair = Pair::new(world.clone(), alter)?;
    for (n, step) in script.iter().enumerate() {
        match pair.step(step)? {
            Answers::Same(_) => {}
            Answers::Chance => return Ok(None),
            Answers::Different(ours, theirs) => return Ok(Some((n + 1, ours, theirs))),
        }
    }
    Ok(None)
}
