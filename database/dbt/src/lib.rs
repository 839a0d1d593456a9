//! The tree's interface with a naive body (one ordered map, copied by each commit), so that the layers above can be
//! built before the real tree is: see `Transaction` and `Cursor`.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Cells = BTreeMap<(u32, Vec<u8>), Arc<[u8]>>;

/// Names a tree. `Tree(0)` holds facts about the database (it exists from the start and belongs to the layer
/// above, but for keys that begin with `0xff`); `Tree(1)` exists from the start too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tree(pub u32);

/// A point in the order of commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

/// What an acknowledged commit survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Power loss: synced to the disk before `commit` returns.
    #[default]
    Synced,
    /// The end of this process: handed to the operating system.
    Written,
}

/// Why the database could not do it.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// Another transaction that committed after this one's snapshot changed the same cell.
    #[error("conflict")]
    Conflict,
    /// Another process has the database open.
    #[error("{path}: held by {holder}")]
    Held {
        /// The database.
        path: PathBuf,
        /// Who has it open: process id and command line.
        holder: String,
    },
    /// Not a database of ours, or of another format version.
    #[error("{path}: {found}")]
    Format {
        /// The file or directory.
        path: PathBuf,
        /// What was found and what was expected.
        found: String,
    },
    /// The data contradict themselves.
    #[error("{path}: {what}")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
}

/// How to open a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make it if it does not exist.
    pub create: bool,
    /// Upper bound of memory for cached data, bytes.
    pub cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { create: true, cache_bytes: 256 << 20 }
    }
}

/// An open database; clones share it.
#[derive(Clone)]
pub struct Database(Arc<Mutex<Committed>>);

struct Committed {
    at: Timestamp,
    cells: Arc<Cells>,
    last_change: BTreeMap<(u32, Vec<u8>), Timestamp>,
}

impl Database {
    /// Opens the database in the directory `path`.
    pub fn open(_path: &Path, _options: &Options) -> Result<Self, Error> {
        Ok(Self(Arc::new(Mutex::new(Committed {
            at: Timestamp(0),
            cells: Arc::default(),
            last_change: BTreeMap::new(),
        }))))
    }

    /// Begins a transaction on a snapshot of everything committed so far. Cheap.
    pub fn begin(&self) -> Transaction {
        let now = self.0.lock();
        Transaction {
            snapshot: now.at,
            cells: now.cells.clone(),
            database: self.clone(),
            changed: BTreeSet::new(),
            required: BTreeSet::new(),
            marks: Vec::new(),
        }
    }

    /// The newest commit that a transaction begun now would see.
    pub fn newest(&self) -> Timestamp {
        self.0.lock().at
    }
}

/// A snapshot and the changes made on top of it, which nobody else sees before `commit`. Dropping it rolls back.
pub struct Transaction {
    database: Database,
    snapshot: Timestamp,
    cells: Arc<Cells>,
    changed: BTreeSet<(u32, Vec<u8>)>,
    required: BTreeSet<(u32, Vec<u8>)>,
    marks: Vec<Arc<Cells>>,
}

/// A point inside a transaction to which its changes can be undone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(pub usize);

impl Transaction {
    /// The snapshot that it reads.
    pub fn snapshot(&self) -> Timestamp {
        self.snapshot
    }
    /// Whether it has changes to commit.
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }
    /// The value under `key`.
    pub fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Arc<[u8]>>, Error> {
        Ok(self.cells.get(&(tree.0, key.to_vec())).cloned())
    }
    /// Sets the value under `key`.
    pub fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.changed.insert((tree.0, key.to_vec()));
        Arc::make_mut(&mut self.cells).insert((tree.0, key.to_vec()), value.into());
        Ok(())
    }
    /// Removes `key`, if it is there.
    pub fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<(), Error> {
        self.changed.insert((tree.0, key.to_vec()));
        Arc::make_mut(&mut self.cells).remove(&(tree.0, key.to_vec()));
        Ok(())
    }
    /// Removes every key in the range that this transaction sees.
    pub fn delete_range(&mut self, tree: Tree, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<(), Error> {
        let doomed: Vec<_> = self
            .cells
            .range((tree.0, vec![])..(tree.0 + 1, vec![]))
            .filter(|((_, k), _)| {
                (match low {
                    Bound::Included(l) => &k[..] >= l,
                    Bound::Excluded(l) => &k[..] > l,
                    Bound::Unbounded => true,
                }) && (match high {
                    Bound::Included(h) => &k[..] <= h,
                    Bound::Excluded(h) => &k[..] < h,
                    Bound::Unbounded => true,
                })
            })
            .map(|((_, k), _)| k.clone())
            .collect();
        for k in doomed {
            self.delete(tree, &k)?;
        }
        Ok(())
    }
    /// How many keys the tree has in this transaction's eyes.
    pub fn count(&self, tree: Tree) -> Result<u64, Error> {
        Ok(self.cells.range((tree.0, vec![])..(tree.0 + 1, vec![])).count() as u64)
    }
    /// Makes an empty tree with a name that was never used before.
    pub fn create_tree(&mut self) -> Result<Tree, Error> {
        let next = self
            .get(Tree(0), b"\xffnext")?
            .map_or(2, |v| u32::from_be_bytes((*v).try_into().unwrap_or([0, 0, 0, 2])));
        self.put(Tree(0), b"\xffnext", &(next + 1).to_be_bytes())?;
        Ok(Tree(next))
    }
    /// Removes the tree with all its keys.
    pub fn drop_tree(&mut self, tree: Tree) -> Result<(), Error> {
        self.delete_range(tree, Bound::Unbounded, Bound::Unbounded)
    }
    /// Makes the commit fail with a conflict if another transaction changes `key` before it.
    pub fn require_unchanged(&mut self, tree: Tree, key: &[u8]) {
        self.required.insert((tree.0, key.to_vec()));
    }
    /// A point to come back to. Marks nest: undoing to one forgets those set after it.
    pub fn mark(&mut self) -> Mark {
        self.marks.push(self.cells.clone());
        Mark(self.marks.len() - 1)
    }
    /// Undoes every change made since `mark`, which stays valid.
    pub fn undo_to(&mut self, mark: Mark) {
        self.cells = self.marks[mark.0].clone();
        self.marks.truncate(mark.0 + 1);
    }
    /// Forgets `mark` and those set after it; their changes stay.
    pub fn release(&mut self, mark: Mark) {
        self.marks.truncate(mark.0);
    }
    /// Commits. After an error nothing of it has happened; the transaction is over either way.
    pub fn commit(self, _durability: Durability) -> Result<Timestamp, Error> {
        let mut now = self.database.0.lock();
        for k in self.changed.iter().chain(&self.required) {
            if now.last_change.get(k).is_some_and(|t| *t > self.snapshot) {
                return Err(Error::Conflict);
            }
        }
        let at = Timestamp(now.at.0 + 1);
        let committed = &mut *now;
        let cells = Arc::make_mut(&mut committed.cells);
        for k in self.changed {
            match self.cells.get(&k) {
                Some(v) => cells.insert(k.clone(), v.clone()),
                None => cells.remove(&k),
            };
            committed.last_change.insert(k, at);
        }
        now.at = at;
        Ok(at)
    }
    /// Checks the tree's invariants; an empty list means that it is sound.
    pub fn check(&self, _tree: Tree) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

/// Where a seek lands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// The first key at or after the given one.
    AtOrAfter,
    /// The first key after the given one.
    After,
    /// The last key at or before the given one.
    AtOrBefore,
    /// The last key before the given one.
    Before,
}

/// A place in a tree. It keeps the key and value it stands on whatever the transaction or others change meanwhile;
/// `next` and `previous` go on from that key in the transaction as it is then.
pub struct Cursor {
    tree: Tree,
    at: Option<(Vec<u8>, Arc<[u8]>)>,
}

impl Cursor {
    /// A cursor that stands nowhere yet.
    pub fn new(tree: Tree) -> Self {
        Self { tree, at: None }
    }
    /// The tree it walks.
    pub fn tree(&self) -> Tree {
        self.tree
    }
    /// Goes to the key that `seek` names; `false`, and nowhere, if there is none.
    pub fn seek(&mut self, transaction: &Transaction, key: &[u8], seek: Seek) -> Result<bool, Error> {
        let (low, high, back) = match seek {
            Seek::AtOrAfter => (
                Bound::Included((self.tree.0, key.to_vec())),
                Bound::Excluded((self.tree.0 + 1, vec![])),
                false,
            ),
            Seek::After => (
                Bound::Excluded((self.tree.0, key.to_vec())),
                Bound::Excluded((self.tree.0 + 1, vec![])),
                false,
            ),
            Seek::AtOrBefore => {
                (Bound::Included((self.tree.0, vec![])), Bound::Included((self.tree.0, key.to_vec())), true)
            }
            Seek::Before => {
                (Bound::Included((self.tree.0, vec![])), Bound::Excluded((self.tree.0, key.to_vec())), true)
            }
        };
        if low == Bound::Included((self.tree.0, vec![])) && high == Bound::Excluded((self.tree.0, vec![])) {
            self.at = None;
            return Ok(false);
        }
        let mut range = transaction.cells.range((low, high));
        let found = if back { range.next_back() } else { range.next() };
        self.at = found.map(|((_, k), v)| (k.clone(), v.clone()));
        Ok(self.at.is_some())
    }
    /// Goes to the first key.
    pub fn first(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        self.seek(transaction, &[], Seek::AtOrAfter)
    }
    /// Goes to the last key.
    pub fn last(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        let found = transaction.cells.range((self.tree.0, vec![])..(self.tree.0 + 1, vec![])).next_back();
        self.at = found.map(|((_, k), v)| (k.clone(), v.clone()));
        Ok(self.at.is_some())
    }
    /// Goes to the next key; a cursor that stands nowhere stays so.
    pub fn next(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        match self.at.take() {
            Some((key, _)) => self.seek(transaction, &key, Seek::After),
            None => Ok(false),
        }
    }
    /// Goes to the previous key.
    pub fn previous(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        match self.at.take() {
            Some((key, _)) => self.seek(transaction, &key, Seek::Before),
            None => Ok(false),
        }
    }
    /// Whether it stands on a key.
    pub fn is_positioned(&self) -> bool {
        self.at.is_some()
    }
    /// The key it stands on; empty if nowhere. Valid until the cursor moves or is dropped.
    pub fn key(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], |(k, _)| k)
    }
    /// The value it stands on; empty if nowhere. Valid until the cursor moves or is dropped.
    pub fn value(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], |(_, v)| v)
    }
}
