//! AUTOINCREMENT without conflicts.
//!
//! For each table with AUTOINCREMENT, SQLite keeps a row in `sqlite_sequence` with the largest rowid that there ever was,
//! and writes it in every INSERT. As a write like any other, that would make all transactions that insert into such a
//! table conflict, though they insert different rows (see [`fulmar_dbt::Numbers`]). So a commit first takes these writes out of its
//! transaction and raises the numbers in a transaction of its own. If the commit then fails, numbers have been
//! passed over, as AUTOINCREMENT allows.
//!
//! Of the transactions that make the row of a table, all but one conflict: they put it after the last row that there is,
//! whichever rowid SQLite had picked. Should a table have several rows all the same, as written by hand or by an earlier
//! version, the largest counts, for SQLite too (`build/amalgamation.rs`).
//!
//! A transaction that changes `sqlite_sequence` in any other way, or the schema, keeps its writes, and may conflict.

use crate::key;
use crate::record::{Value, Values};
use fulmar_dbt::{Cursor, Database, Durability, Error, Transaction, Tree};
use fulmar_locks::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a transaction has raised.
#[derive(Default)]
pub(crate) struct Raised {
    /// For each row of `sqlite_sequence`, the record that was last written by an INSERT into the table it is about.
    records: BTreeMap<(Tree, i64), Arc<[u8]>>,
    /// The tables `sqlite_sequence` that were changed otherwise too.
    by_hand: BTreeSet<Tree>,
}

impl Raised {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// An INSERT is about to write `record` under `row`.
    pub(crate) fn note(&mut self, transaction: &Transaction, tree: Tree, row: i64, record: &[u8]) {
        let known = self.records.get(&(tree, row)).map(|record| Some(&**record));
        if transaction.written(tree, &key::of_row(row)) != known {
            self.by_hand.insert(tree);
        }
        self.records.insert((tree, row), record.into());
    }

    /// Takes the writes of tables that nothing else has changed out of the transaction.
    fn take(self, transaction: &mut Transaction) -> Result<Vec<Sequence>, Error> {
        let mut taken = Vec::new();
        let trees: BTreeSet<Tree> = self.records.keys().map(|(tree, _)| *tree).collect();
        for tree in trees.difference(&self.by_hand) {
            let Some(puts) = transaction.take_puts(*tree) else { continue };
            for (key, record) in puts {
                let row = key::row_of(&key);
                match Sequence::of(*tree, row, &record) {
                    Some(sequence) if self.records.get(&(*tree, row)) == Some(&record) => {
                        taken.push(sequence)
                    }
                    // Written by hand, or brought back by a savepoint.
                    _ => transaction.put(*tree, &key, &record)?,
                }
            }
        }
        Ok(taken)
    }
}

/// The table `sqlite_sequence`, and the table that a row there is about.
type Name = (Tree, Box<[u8]>);

/// A row of `sqlite_sequence`.
#[derive(Clone)]
struct Sequence {
    tree: Tree,
    row: i64,
    table: Box<[u8]>,
    largest: i64,
    record: Arc<[u8]>,
}

impl Sequence {
    fn of(tree: Tree, row: i64, record: &Arc<[u8]>) -> Option<Self> {
        let mut values = Values::of(record);
        match (values.next(), values.next()) {
            (Some(Value::Text(table)), Some(Value::Integer(largest))) => {
                Some(Self { tree, row, table: table.into(), largest, record: Arc::clone(record) })
            }
            _ => None,
        }
    }
}

/// The numbers that committing transactions of this process wait to see raised.
#[derive(Default)]
pub(crate) struct Sequences {
    /// The highest wanted for each table: whoever raises first does it for all.
    wanted: Mutex<BTreeMap<Name, Sequence>>,
    raising: Mutex<()>,
}

impl Sequences {
    /// Raises what a transaction that is about to commit has `raised`. `cookie` is the cell that changes with the schema.
    pub(crate) fn raise(
        &self,
        database: &Database,
        transaction: &mut Transaction,
        raised: Raised,
        cookie: (Tree, &[u8]),
    ) -> Result<(), Error> {
        if raised.is_empty() || transaction.written(cookie.0, cookie.1).is_some() {
            return Ok(());
        }
        let schema = transaction.get(cookie.0, cookie.1)?;
        let taken = raised.take(transaction)?;
        {
            let mut wanted = self.wanted.lock();
            for sequence in &taken {
                let name = (sequence.tree, sequence.table.clone());
                let highest = wanted.entry(name).or_insert_with(|| sequence.clone());
                if highest.largest < sequence.largest {
                    *highest = sequence.clone();
                }
            }
        }
        let _raising = self.raising.lock();
        for own in taken {
            let highest = self.wanted.lock().remove(&(own.tree, own.table.clone()));
            let sequence = highest.filter(|highest| highest.largest > own.largest).unwrap_or(own);
            loop {
                let mut small = database.begin()?;
                small.require_unchanged(cookie.0, cookie.1);
                if small.get(cookie.0, cookie.1)? != schema {
                    // The large one has lost.
                    return Ok(());
                }
                set(&mut small, &sequence)?;
                match small.commit(Durability::Written) {
                    // Somebody changed the table by hand.
                    Err(Error::Conflict) => {}
                    Err(error) => return Err(error),
                    Ok(_) => break,
                }
            }
        }
        Ok(())
    }
}

/// Writes a sequence where its table has a row already, unless that is as high.
fn set(transaction: &mut Transaction, sequence: &Sequence) -> Result<(), Error> {
    let at = |row, record: &Arc<[u8]>| {
        Sequence::of(sequence.tree, row, record).filter(|s| s.table == sequence.table)
    };
    let there = transaction.get(sequence.tree, &key::of_row(sequence.row))?;
    let mut found = there.as_ref().and_then(|record| at(sequence.row, record));
    // The same for all who make a row on this snapshot, so that they conflict.
    let mut free = 1;
    if found.is_none() {
        let mut cursor = Cursor::new(sequence.tree);
        let mut more = cursor.first(transaction)?;
        while more {
            let row = key::row_of(cursor.key());
            found =
                found.into_iter().chain(at(row, &cursor.value().into())).max_by_key(|found| found.largest);
            free = row.checked_add(1).unwrap_or(sequence.row);
            more = cursor.next(transaction)?;
        }
    }
    match found {
        Some(found) if found.largest >= sequence.largest => Ok(()),
        Some(found) => transaction.put(sequence.tree, &key::of_row(found.row), &sequence.record),
        None => transaction.put(sequence.tree, &key::of_row(free), &sequence.record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_dbt::Options;

    /// The row of `sqlite_sequence` that says that the largest number of the table `t` is `largest`.
    fn sequence(tree: Tree, row: i64, largest: u8) -> Sequence {
        let record: Arc<[u8]> = [3, 15, 1, b't', largest].into();
        Sequence::of(tree, row, &record).expect("a record of a name and a number")
    }

    #[test]
    fn of_two_who_make_the_row_of_a_table_one_loses() {
        let database = Database::transient(&Options::default()).expect("a database in memory");
        let begin = || database.begin().expect("begins");
        let mut maker = begin();
        let tree = maker.create_tree().expect("a tree");
        maker.commit(Durability::Written).expect("commits");
        let (mut a, mut b) = (begin(), begin());
        set(&mut a, &sequence(tree, 1, 1)).expect("sets");
        set(&mut b, &sequence(tree, 2, 2)).expect("sets");
        a.commit(Durability::Written).expect("commits");
        assert!(matches!(b.commit(Durability::Written), Err(Error::Conflict)));
        let mut again = begin();
        set(&mut again, &sequence(tree, 2, 2)).expect("sets");
        assert_eq!(again.count(tree).expect("counts"), 1);
    }

    #[test]
    fn of_several_rows_the_largest_is_raised() {
        let database = Database::transient(&Options::default()).expect("a database in memory");
        let mut transaction = database.begin().expect("begins");
        let tree = transaction.create_tree().expect("a tree");
        for (row, largest) in [(1, 3), (2, 9), (3, 5)] {
            let record = sequence(tree, row, largest).record;
            transaction.put(tree, &key::of_row(row), &record).expect("puts");
        }
        set(&mut transaction, &sequence(tree, 4, 10)).expect("sets");
        let record = transaction.get(tree, &key::of_row(2)).expect("gets").expect("a row");
        assert_eq!(record, sequence(tree, 2, 10).record);
        assert_eq!(transaction.count(tree).expect("counts"), 3);
    }
}
