//! One connection's view of one database: how it is open, and in which process.

mod header;
mod rows;
mod transaction;

use crate::codes::{Failure, MISUSE, SCHEMA_CHANGED};
use crate::cursor::Cursor;
use crate::name::{Access, Immediate, Name};
use crate::registry::OpenDatabase;
use crate::sequences::Raised;
use crate::version::Version;
use fulmar_dbt::{Database, Durability, Mark, Transaction, Tree};
use header::Meta;
use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;

/// The tree of facts about the database; a meta value is the cell `m` followed by its number.
const FACTS: Tree = Tree(0);
/// The table `sqlite_schema`.
const SCHEMA: Tree = Tree(1);
/// The meta value that changes with the schema.
const SCHEMA_COOKIE: usize = 1;

/// What a transaction may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Read,
    Write,
    Exclusive,
}

/// A connection's handle on a database.
pub(crate) struct Handle {
    store: Option<Arc<OpenDatabase>>,
    database: Option<Database>,
    /// How the database was opened, and is again in a child process.
    opened: (Name, Access),
    /// The connection's flag that says when servers are waited for no longer.
    interrupted: Option<&'static AtomicI32>,
    name: CString,
    read_only: bool,
    immediate: Immediate,
    durability: Durability,
    open: Option<Open>,
    meta: Meta,
    /// Whether the transaction has picked rowids.
    has_picked: bool,
    /// Whether the last commit failed because somebody in another process has begun an exclusive transaction.
    was_excluded: bool,
    /// How long servers may take to answer, as a PRAGMA says.
    limit: Option<Duration>,
    /// Whether a statement runs again, and others let it pass.
    has_turn: Cell<bool>,
    version: Version,
    /// What the last failure was, until it is asked for.
    failure: Option<(c_int, CString)>,
    #[expect(
        clippy::vec_box,
        reason = "C holds the boxes: keeping them saves an allocation for each cursor"
    )]
    spare: Vec<Box<Cursor>>,
    own_commits: u32,
    assumes: Assumes,
    /// Whether the statement that runs reads one row, by its rowid, and is a transaction of its own.
    reads_one_row: bool,
    /// The schema cookie before the open transaction emptied the database.
    emptied: Option<u32>,
}

/// Whether a statement takes rows for present that it changes by rowid, without looking: only its commit looks, and it
/// needs no round trip to read them.
#[derive(Clone, Debug)]
enum Assumes {
    /// It looks.
    Nothing,
    /// It may assume: it can be run again, looking.
    Ready,
    /// It has.
    Rows,
    /// It has, and could not read one when it needed its columns.
    Unread(c_int, String),
}

/// An open transaction.
struct Open {
    transaction: Transaction,
    level: Level,
    /// The point before its first change, if it can be rolled back as a whole and yet stay open.
    base: Option<Mark>,
    /// The points of SQLite's savepoints, outermost first. They nest inside `base`.
    savepoints: Vec<Mark>,
    /// Whether it may have read or changed a table's data, be it to fill an index.
    uses_data: bool,
    /// What its INSERTs wrote to `sqlite_sequence`.
    raised: Raised,
    /// Commits that its snapshot includes, for `PRAGMA data_version`.
    commits: u32,
}

impl Handle {
    pub(crate) fn open(name: &str, access: Access) -> Result<Self, Failure> {
        let name = Name::parse(name)?;
        let access = match (access, name.access) {
            (Access::Read, _) | (_, Some(Access::Read)) => Access::Read,
            (Access::ReadWrite, _) | (_, Some(Access::ReadWrite)) => Access::ReadWrite,
            (Access::ReadWriteCreate, _) => Access::ReadWriteCreate,
        };
        let immediate = name.immediate.map_or_else(Immediate::of_environment, Ok)?;
        let (store, database) = OpenDatabase::open(&name, access)?;
        Ok(Self {
            immediate,
            name: CString::new(store.name()).unwrap_or_default(),
            read_only: access == Access::Read || store.read_only().is_some(),
            store: Some(store),
            database: Some(database),
            opened: (name, access),
            interrupted: None,
            durability: Durability::Synced,
            open: None,
            meta: Meta::default(),
            has_picked: false,
            was_excluded: false,
            limit: None,
            has_turn: Cell::new(false),
            version: Version::default(),
            failure: None,
            spare: Vec::new(),
            own_commits: 0,
            assumes: Assumes::Nothing,
            reads_one_row: false,
            emptied: None,
        })
    }

    /// Opens a database that the program knows by another name.
    pub(crate) fn open_as(name: &str, access: Access, shown: &str) -> Result<Self, Failure> {
        let mut handle = Self::open(name, access)?;
        handle.name = CString::new(shown).unwrap_or_default();
        Ok(handle)
    }

    fn store(&self) -> &OpenDatabase {
        self.store.as_deref().expect("a handle lets go of its store only when it is dropped")
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("a handle lets go of its database only when it is dropped")
    }

    /// The database, if it is this process's. Of its parent's, a lock may be held for ever: by another thread, when this process was forked.
    fn own_database(&self) -> Option<&Database> {
        (!self.store().is_inherited()).then(|| self.database())
    }

    pub(crate) fn name(&self) -> &CString {
        &self.name
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn immediate(&self) -> Immediate {
        self.immediate
    }

    pub(crate) fn set_immediate(&mut self, immediate: Immediate) {
        self.immediate = immediate;
    }

    /// About how many bytes it takes on the disk, of this machine or of those that lead its shards.
    pub(crate) fn bytes(&mut self) -> Result<u64, Failure> {
        self.make_own()?;
        Ok(self.store().bytes().map_or_else(|| self.database().bytes(), Ok)?)
    }

    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Remembers why an operation failed, and says its result code.
    pub(crate) fn fail(&mut self, failure: Failure) -> c_int {
        if failure.code == SCHEMA_CHANGED {
            self.meta = Meta::default();
            if let Some(open) = &self.open {
                open.transaction.expect_nothing();
            }
        }
        let message = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
        self.failure = Some((failure.code, message));
        failure.code
    }

    /// What to say about the last failure, if its result code was that.
    pub(crate) fn failure(&self, code: c_int) -> Option<&CString> {
        self.failure.as_ref().filter(|(failed, _)| *failed == code).map(|(_, message)| message)
    }

    /// The open transaction.
    pub(crate) fn transaction(&self) -> Result<&Transaction, Failure> {
        self.require_own()?;
        self.open.as_ref().map(|open| &open.transaction).ok_or_else(no_transaction)
    }

    /// The open transaction, to change the database.
    pub(crate) fn transaction_mut(&mut self) -> Result<&mut Transaction, Failure> {
        self.require_own()?;
        self.open.as_mut().map(|open| &mut open.transaction).ok_or_else(no_transaction)
    }

    /// Lets a child process open for itself what its parent had open, unless it is in the middle of a transaction.
    fn make_own(&mut self) -> Result<(), Failure> {
        if self.open.is_some() || !self.store().is_inherited() {
            return self.require_own();
        }
        let (name, access) = &self.opened;
        let (store, database) = OpenDatabase::open(name, *access)?;
        database.set_limit(self.limit.or(name.timeout));
        std::mem::forget((self.store.replace(store), self.database.replace(database)));
        self.interrupted.into_iter().for_each(|interrupted| self.heed(interrupted));
        self.meta = Meta::default();
        Ok(())
    }

    /// A child process cannot go on with a transaction of its parent's. Asked for each row.
    fn require_own(&self) -> Result<(), Failure> {
        if self.store().is_inherited() { Err(self.of_parent()) } else { Ok(()) }
    }

    #[cold]
    fn of_parent(&self) -> Failure {
        let name = self.store().name();
        Failure::new(
            MISUSE,
            format!("this transaction of {name} was begun before fork(); it is the parent's"),
        )
    }

    /// Whether statements that read one row only are worth finding.
    pub(crate) fn is_far(&self) -> bool {
        self.own_database().is_some_and(Database::is_far)
    }

    /// How long servers may take to answer, if not as long as the name says.
    pub(crate) fn set_limit(&mut self, limit: Option<Duration>) {
        self.limit = limit;
        if let Some(database) = self.own_database() {
            database.set_limit(limit.or(self.opened.0.timeout));
        }
    }

    /// When this is not zero, servers are waited for no longer.
    pub(crate) fn heed(&mut self, interrupted: &'static AtomicI32) {
        self.interrupted = Some(interrupted);
        if let Some(database) = self.own_database() {
            database.heed(Arc::new(|| interrupted.load(Relaxed) != 0));
        }
    }

    /// How many times it has waited for servers.
    pub(crate) fn round_trips(&self) -> i64 {
        self.own_database().map_or(0, Database::round_trips).cast_signed()
    }

    /// Waits for the turn to run again a statement that lost a conflict.
    pub(crate) fn queue_to_retry(&self) -> bool {
        self.has_turn.set(self.store().turns.queue_to_retry());
        self.has_turn.get()
    }

    pub(crate) fn press(&self) {
        self.store().turns.press();
    }

    pub(crate) fn leave_retry(&self) {
        self.has_turn.set(false);
        self.store().turns.leave_retry();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.store().is_inherited() {
            // Its snapshot is the parent's to end.
            std::mem::forget((self.open.take(), self.database.take()));
        }
        if let Some(open) = self.open.take() {
            self.leave(open.level, None);
            drop(open);
            self.database().clean_up();
        }
        // They may hold on to parts of the database.
        self.spare.clear();
        self.database = None;
        if let Some(store) = self.store.take() {
            store.close();
        }
    }
}

fn no_transaction() -> Failure {
    Failure::new(MISUSE, "no transaction is open")
}
