//! One connection's view of one database: its transaction and what SQLite keeps in a database's header.

use crate::codes::{BUSY, BUSY_SNAPSHOT, Failure, MISUSE, READONLY, SCHEMA_CHANGED};
use crate::cursor::Cursor;
use crate::name::{Access, Immediate, Name};
use crate::record::{Value, Values};
use crate::registry::OpenDatabase;
use crate::sequences::Raised;
use crate::version::Version;
use fulmar_dbt::{Database, Durability, Error, Exclusion, Mark, Timestamp, Transaction, Tree};
use std::cmp::Ordering;
use std::ffi::{CString, c_int};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;

/// The tree of facts about the database; a meta value is the cell `m` followed by its number.
const FACTS: Tree = Tree(0);
/// The table `sqlite_schema`, and which of its columns names the root of a table or index.
const SCHEMA: Tree = Tree(1);
const SCHEMA_ROOT: usize = 3;
/// In `FACTS`, a cell that is never there. Whoever changes data touches it, and who changes the schema with data at hand
/// deletes it, which is a conflict if it was touched meanwhile.
const SCHEMA_GUARD: &[u8] = b"schema";
/// How many meta values SQLite's header has.
const META_VALUES: usize = 16;
/// The meta value that changes with the schema.
const SCHEMA_COOKIE: usize = 1;
/// Cursors kept for reuse, with their buffers.
const SPARE_CURSORS: usize = 8;

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

/// Meta values read before, as of a snapshot.
#[derive(Default)]
struct Meta {
    at: Option<Timestamp>,
    values: [Option<u32>; META_VALUES],
    /// Whether the open transaction has changed one.
    changed: bool,
}

impl Meta {
    /// Forgets what the transaction's snapshot may not hold. If that is yet to be taken, the cookie is kept, and the read
    /// that takes it makes sure of it.
    fn begin(&mut self, transaction: &Transaction) {
        let at = transaction.known_snapshot();
        if at.is_none() || self.at != at {
            // Zero is also what a database has that has no cookie yet.
            let cookie = self.values[SCHEMA_COOKIE].filter(|cookie| at.is_none() && *cookie != 0);
            if let Some(cookie) = cookie {
                transaction.expect(FACTS, &meta_key(SCHEMA_COOKIE), Some(&cookie.to_be_bytes()));
            }
            *self = Self { at, ..Self::default() };
            self.values[SCHEMA_COOKIE] = cookie;
        }
    }
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

    /// Begins a transaction, or makes one that reads write. `keep_base` if it may be rolled back and yet stay open.
    pub(crate) fn begin(&mut self, level: Level, keep_base: bool) -> Result<(), Failure> {
        self.make_own()?;
        if level > Level::Read && self.read_only {
            let why = self.store().read_only().map(|why| format!(": {why}")).unwrap_or_default();
            let what = format!("{} is open for reading only{why}", self.store().name());
            return Err(Failure::new(READONLY, what));
        }
        let fresh = self.open.is_none();
        if fresh {
            self.failure = None;
        }
        let held = self.open.as_ref().map_or(Level::Read, |open| open.level);
        if level > held {
            self.register(level, held, fresh)?;
        }
        if fresh {
            let store = self.store();
            let commits = store.commits.load(Relaxed);
            let transaction = self.database().begin()?;
            self.meta.begin(&transaction);
            self.open = Some(Open {
                transaction,
                level: Level::Read,
                base: None,
                savepoints: Vec::new(),
                uses_data: false,
                raised: Raised::default(),
                commits,
            });
        }
        if let Some(open) = &mut self.open
            && level > open.level
        {
            if open.level == Level::Read {
                open.transaction.require_unchanged(FACTS, &meta_key(SCHEMA_COOKIE));
                open.transaction.touch(FACTS, SCHEMA_GUARD);
                open.base = keep_base.then(|| open.transaction.mark());
            }
            open.transaction.set_exclusive(level == Level::Exclusive);
            open.level = level;
        }
        Ok(())
    }

    /// Lets a child process open for itself what its parent had open, unless it is in the middle of a transaction.
    fn make_own(&mut self) -> Result<(), Failure> {
        if self.open.is_some() || !self.store().is_inherited() {
            return self.require_own();
        }
        let (name, access) = &self.opened;
        let (store, database) = OpenDatabase::open(name, *access)?;
        database.set_limit(name.timeout);
        std::mem::forget((self.store.replace(store), self.database.replace(database)));
        self.interrupted.into_iter().for_each(|interrupted| self.heed(interrupted));
        self.meta = Meta::default();
        Ok(())
    }

    /// A child process cannot go on with a transaction of its parent's.
    fn require_own(&self) -> Result<(), Failure> {
        if !self.store().is_inherited() {
            return Ok(());
        }
        let what = format!(
            "this transaction of {} was begun before fork(); it is the parent's",
            self.store().name()
        );
        Err(Failure::new(MISUSE, what))
    }

    /// Takes part among those who write.
    fn register(&self, level: Level, held: Level, fresh: bool) -> Result<(), Failure> {
        let turns = &self.store().turns;
        if fresh {
            turns.let_pass();
        }
        let is_exclusive = level == Level::Exclusive;
        let granted = match held {
            Level::Read => turns.begin(is_exclusive),
            Level::Write | Level::Exclusive => turns.become_exclusive(),
        };
        if granted {
            let exclusion = if is_exclusive { Exclusion::Begin } else { Exclusion::Look };
            let alone = !is_exclusive && !self.was_excluded;
            let agreed = if alone { Ok(true) } else { self.database().exclude(exclusion) };
            if matches!(agreed, Ok(true)) {
                return if is_exclusive { self.require_newest(held) } else { Ok(()) };
            }
            self.stand_back(held, is_exclusive);
            agreed?;
        }
        let why = if level == Level::Exclusive {
            "database is locked: BEGIN EXCLUSIVE waits until no other transaction writes"
        } else {
            "database is locked: another connection has begun an exclusive transaction"
        };
        Err(Failure::new(BUSY, why))
    }

    /// Who is to be alone sees all that others have committed, also in what it has read before.
    fn require_newest(&self, held: Level) -> Result<(), Failure> {
        let seen = self.open.as_ref().and_then(|open| open.transaction.known_snapshot());
        let Some(seen) = seen else { return Ok(()) };
        let newest = self.database().newest();
        if matches!(newest, Ok(newest) if newest <= seen) {
            return Ok(());
        }
        // A server that cannot be reached has ended it already.
        let _ = self.database().exclude(Exclusion::End);
        self.stand_back(held, true);
        newest?;
        let why = "database is locked: others may have committed since a statement of this connection began to read; \
                   retry when that has ended";
        Err(Failure::new(BUSY_SNAPSHOT, why))
    }

    /// Takes part among those who write as before.
    fn stand_back(&self, held: Level, is_exclusive: bool) {
        let turns = &self.store().turns;
        match held {
            Level::Read => turns.end(is_exclusive),
            Level::Write | Level::Exclusive => turns.become_shared(),
        }
    }

    /// Whether statements that read one row only are worth finding.
    pub(crate) fn is_far(&self) -> bool {
        self.own_database().is_some_and(Database::is_far)
    }

    /// A statement begins, or ends, that is a transaction of its own and seeks one row by its rowid, once.
    pub(crate) fn let_read_one_row(&mut self, ready: bool) {
        self.reads_one_row = ready;
    }

    /// Goes to a row; see [`Cursor::seek_row`].
    pub(crate) fn seek_row(
        &self,
        cursor: &mut Cursor,
        row: i64,
        exact: bool,
    ) -> Result<Option<Ordering>, Failure> {
        let transaction = self.transaction()?;
        match (self.reads_one_row, exact) {
            (true, _) => cursor.seek_only_row(transaction, row),
            (false, true) => cursor.seek_exact_row(transaction, row),
            (false, false) => cursor.seek_row(transaction, row),
        }
    }

    /// A statement begins, or ends, that is a transaction of its own and can be run again.
    pub(crate) fn let_assume(&mut self, ready: bool) {
        self.assumes = if ready { Assumes::Ready } else { Assumes::Nothing };
    }

    /// Whether the statement has failed with this code, perhaps, because of what it has assumed; then nothing of it has taken place.
    pub(crate) fn was_misled(&self, code: c_int) -> bool {
        let has_assumed = matches!(self.assumes, Assumes::Rows | Assumes::Unread(..));
        // Of what the database itself has failed at, only a conflict may be due to that. Otherwise its commit may have taken place.
        has_assumed && (code == BUSY_SNAPSHOT || self.failure(code).is_none())
    }

    /// Takes a row for present, if the statement may and has read nothing yet.
    pub(crate) fn assume_row(&mut self, cursor: &mut Cursor, row: i64) -> Result<bool, Failure> {
        let may = matches!(self.assumes, Assumes::Ready | Assumes::Rows);
        let transaction = self.transaction_mut()?;
        if !may || transaction.known_snapshot().is_some() {
            return Ok(false);
        }
        cursor.assume_row(transaction, row);
        self.assumes = Assumes::Rows;
        Ok(true)
    }

    /// Reads a row that was taken for present.
    pub(crate) fn load_row(&mut self, cursor: &mut Cursor) -> Result<(), Failure> {
        let loaded = cursor.load(self.transaction_mut()?);
        if let Err(Failure { code, message }) = &loaded {
            self.assumes = Assumes::Unread(*code, message.clone());
        }
        loaded
    }

    /// Commits what was written. Afterwards no transaction is open, whatever the outcome.
    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        self.require_own()?;
        if let Some(cookie) = self.emptied.take() {
            self.set_meta(SCHEMA_COOKIE, cookie.wrapping_add(1))?;
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if let Assumes::Unread(code, message) = &self.assumes {
            let failure = Failure::new(*code, message.clone());
            self.leave(open.level, None);
            return Err(failure);
        }
        if !open.transaction.is_changed() {
            self.leave(open.level, None);
            drop(open);
            self.database().clean_up();
            return Ok(());
        }
        let cookie = meta_key(SCHEMA_COOKIE);
        if open.uses_data && open.transaction.written(FACTS, &cookie).is_some() {
            // What others have changed meanwhile would be missing from a new index.
            open.transaction.delete(FACTS, SCHEMA_GUARD)?;
        }
        let store = self.store();
        let snapshot = open.transaction.known_snapshot();
        let outcome = store
            .sequences
            .raise(self.database(), &mut open.transaction, open.raised, (FACTS, &cookie))
            .and_then(|()| open.transaction.commit(self.durability));
        if outcome.is_ok() {
            store.commits.fetch_add(1, Relaxed);
            self.own_commits = self.own_commits.wrapping_add(1);
        }
        if let Ok(at) = outcome {
            self.version.committed(snapshot, at);
        }
        self.was_excluded = matches!(outcome, Err(Error::Excluded));
        self.leave(open.level, outcome.as_ref().ok().copied());
        match outcome {
            // What was assumed was so. Nobody else has changed the cookie: that was required. The other values may be newer.
            Ok(at) => {
                self.assumes = Assumes::Nothing;
                let cookie = self.meta.values[SCHEMA_COOKIE];
                self.meta = Meta { at: Some(at), ..Meta::default() };
                self.meta.values[SCHEMA_COOKIE] = cookie;
                Ok(())
            }
            Err(error) => {
                self.meta = Meta::default();
                Err(error.into())
            }
        }
    }

    /// Ends the transaction, without what it wrote. With `keep_reading` its snapshot stays, or else a new one is taken.
    pub(crate) fn end(&mut self, keep_reading: bool) -> Result<(), Failure> {
        self.emptied = None;
        if self.store().is_inherited() {
            // Its snapshot is the parent's to end.
            std::mem::forget(self.open.take());
        }
        let Some(level) = self.open.as_ref().map(|open| open.level) else {
            return if keep_reading { self.begin(Level::Read, false) } else { Ok(()) };
        };
        self.leave(level, None);
        if std::mem::take(&mut self.meta.changed) {
            self.meta = Meta::default();
        }
        if !keep_reading {
            self.open = None;
            self.database().clean_up();
            return Ok(());
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.transaction.is_changed() {
            let Some(base) = open.base else {
                self.open = None;
                return self.begin(Level::Read, false);
            };
            open.transaction.undo_to(base);
        }
        self.meta.at = open.transaction.known_snapshot();
        open.level = Level::Read;
        open.savepoints.clear();
        open.raised = Raised::default();
        Ok(())
    }

    /// No longer takes part among those who write.
    fn leave(&mut self, level: Level, committed: Option<Timestamp>) {
        if level == Level::Read {
            return;
        }
        if std::mem::take(&mut self.has_picked) {
            self.store().rowids.end(self.owner(), committed);
        }
        if level == Level::Exclusive {
            // A server that cannot be reached has ended it already.
            let _ = self.database().exclude(Exclusion::End);
        }
        self.store().turns.end(level == Level::Exclusive);
    }

    /// Opens savepoints until there are `count`.
    pub(crate) fn open_savepoints(&mut self, count: usize) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        while open.savepoints.len() < count {
            open.savepoints.push(open.transaction.mark());
        }
        Ok(())
    }

    /// Forgets the savepoint `index` and those inside it; what they changed stays.
    pub(crate) fn release_savepoint(&mut self, index: usize) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        if let Some(mark) = open.savepoints.get(index) {
            open.transaction.release(*mark);
            open.savepoints.truncate(index);
        }
        Ok(())
    }

    /// Undoes what was changed since the savepoint `index`, which stays; without an index, everything.
    pub(crate) fn undo_savepoint(&mut self, index: Option<usize>) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        let mark = index.map_or(open.base, |index| open.savepoints.get(index).copied());
        if let Some(mark) = mark {
            open.transaction.undo_to(mark);
            open.savepoints.truncate(index.map_or(0, |index| index + 1));
            if self.meta.changed {
                self.meta.values = Default::default();
            }
        }
        Ok(())
    }

    /// A value of the header that SQLite keeps for a database, as the open transaction sees it. It fails with
    /// `SCHEMA_CHANGED` if this takes the snapshot, and another schema cookie was remembered.
    pub(crate) fn meta(&mut self, index: usize) -> Result<u32, Failure> {
        let transaction = self.transaction()?;
        // A cookie that is remembered before there is a snapshot is no more than expected of it.
        if transaction.known_snapshot().is_some()
            && let Some(value) = self.meta.values.get(index).copied().flatten()
        {
            return Ok(value);
        }
        let cell = transaction.get(FACTS, &meta_key(index))?;
        let value = cell.and_then(|cell| (*cell).try_into().ok()).map_or(0, u32::from_be_bytes);
        if let Some(cached) = self.meta.values.get_mut(index) {
            *cached = Some(value);
        }
        Ok(value)
    }

    /// The schema cookie for a statement that begins. It may be remembered, which saves a round trip: the read that takes
    /// the snapshot makes sure of it, and so does a commit.
    pub(crate) fn schema_cookie(&mut self) -> Result<u32, Failure> {
        self.meta.values[SCHEMA_COOKIE].map_or_else(|| self.meta(SCHEMA_COOKIE), Ok)
    }

    pub(crate) fn set_meta(&mut self, index: usize, value: u32) -> Result<(), Failure> {
        self.transaction_mut()?.put(FACTS, &meta_key(index), &value.to_be_bytes())?;
        self.meta.changed = true;
        if let Some(cached) = self.meta.values.get_mut(index) {
            *cached = Some(value);
        }
        Ok(())
    }

    /// A number that changes when another connection has committed.
    pub(crate) fn data_version(&self) -> u32 {
        let seen = self.open.as_ref().map_or_else(|| self.store().commits.load(Relaxed), |open| open.commits);
        let far = self.open.as_ref().filter(|_| self.is_far());
        let far = far
            .and_then(|open| open.transaction.snapshot().ok())
            .map_or_else(|| self.version.heard(), |at| self.version.look(at));
        seen.wrapping_sub(self.own_commits).wrapping_add(far).wrapping_add(1)
    }

    /// How long servers may take to answer.
    pub(crate) fn set_limit(&mut self, limit: Option<Duration>) {
        self.opened.0.timeout = limit;
        if let Some(database) = self.own_database() {
            database.set_limit(limit);
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

    /// Empties a table or index and says how many entries it had.
    pub(crate) fn clear(&mut self, tree: Tree, count: bool) -> Result<u64, Failure> {
        let transaction = self.transaction_mut()?;
        let entries = if count { transaction.count(tree)? } else { 0 };
        transaction.delete_range(tree, Bound::Unbounded, Bound::Unbounded)?;
        Ok(entries)
    }

    /// Removes all that the database holds. The commit sees to it that its schema then counts as changed.
    pub(crate) fn empty(&mut self) -> Result<(), Failure> {
        let cookie = self.schema_cookie()?;
        let transaction = self.transaction_mut()?;
        let mut row = Cursor::new(SCHEMA);
        let mut found = row.first(transaction)?;
        while found {
            if let Some(Value::Integer(root)) = Values::of(row.record()).nth(SCHEMA_ROOT)
                && let Ok(root @ 2..) = u32::try_from(root)
            {
                transaction.drop_tree(Tree(root))?;
            }
            found = row.next(transaction)?;
        }
        transaction.delete_range(SCHEMA, Bound::Unbounded, Bound::Unbounded)?;
        for index in 0..META_VALUES {
            self.set_meta(index, 0)?;
        }
        self.emptied = Some(cookie);
        Ok(())
    }

    /// Whether anything was ever made in the database.
    pub(crate) fn has_content(&mut self) -> Result<bool, Failure> {
        let fresh = self.open.is_none();
        if fresh {
            self.begin(Level::Read, false)?;
        }
        let cookie = self.schema_cookie();
        if fresh {
            self.end(false)?;
        }
        Ok(cookie? != 0)
    }

    /// A rowid for a new row: `next`, or larger if other transactions have picked that.
    pub(crate) fn pick_rowid(&mut self, tree: Tree, next: i64) -> Result<i64, Failure> {
        let transaction = self.transaction()?;
        if let Some(row) = transaction.pick(tree, next)? {
            return Ok(row);
        }
        let row = self.store().rowids.pick(self.owner(), transaction.snapshot()?, tree.root(), next, 1);
        transaction.note_picked(tree, row)?;
        self.has_picked = true;
        Ok(row)
    }

    /// An INSERT into a table with AUTOINCREMENT is about to write a record of `sqlite_sequence`.
    pub(crate) fn raise_sequence(&mut self, tree: Tree, row: i64, record: &[u8]) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(no_transaction)?;
        open.raised.note(&open.transaction, tree, row, record);
        Ok(())
    }

    /// Names this handle among those of the process, as long as it lives.
    fn owner(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits for the turn to run again a statement that lost a conflict.
    pub(crate) fn queue_to_retry(&self) -> bool {
        self.store().turns.queue_to_retry()
    }

    pub(crate) fn press(&self) {
        self.store().turns.press();
    }

    pub(crate) fn leave_retry(&self) {
        self.store().turns.leave_retry();
    }

    /// A cursor, with used buffers if there are any.
    pub(crate) fn take_cursor(&mut self, tree: Tree) -> Box<Cursor> {
        if let Some(open) = &mut self.open
            && open.level > Level::Read
            && tree != SCHEMA
            && !open.transaction.is_new(tree)
        {
            open.uses_data = true;
        }
        match self.spare.pop() {
            Some(mut cursor) => {
                cursor.reopen(tree);
                cursor
            }
            None => Box::new(Cursor::new(tree)),
        }
    }

    pub(crate) fn return_cursor(&mut self, cursor: Box<Cursor>) {
        if self.spare.len() < SPARE_CURSORS {
            self.spare.push(cursor);
        }
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

fn meta_key(index: usize) -> [u8; 2] {
    [b'm', u8::try_from(index).unwrap_or(u8::MAX)]
}

fn no_transaction() -> Failure {
    Failure::new(MISUSE, "no transaction is open")
}
