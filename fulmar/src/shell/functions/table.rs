//! Tables that are computed: what `generate_series` and `fsdir` have in common.
//!
//! Arguments of such a table are its hidden columns. SQLite shows a [`TableFunction`] the conditions of a query
//! ([`plan`](TableFunction::plan)), and later starts a scan with the values that the plan asked for. This is the one
//! file that knows how `rusqlite` wants its virtual tables laid out.

#![allow(unsafe_code, reason = "rusqlite relies on where the fields of a virtual table lie")]

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

use rusqlite::Connection;
use rusqlite::vtab::{
    Context, Filters, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};

/// A table that makes its rows when it is asked for them.
pub(super) trait TableFunction: 'static {
    /// The columns, as a `CREATE TABLE`.
    const SCHEMA: &'static CStr;
    /// Where it may be used.
    const TRUST: VTabConfig;
    /// A scan.
    type Rows: Rows;

    /// Chooses which conditions become arguments of a scan, and describes the choice for it. `None` where a
    /// parameter depends on a table that comes later in the join.
    fn plan(conditions: &mut IndexInfo) -> rusqlite::Result<Option<String>>;

    /// Starts a scan as planned.
    fn scan(plan: &str, arguments: &Filters<'_>) -> rusqlite::Result<Self::Rows>;
}

/// The rows of a scan. It stands before the first until it is advanced.
pub(super) trait Rows {
    /// Goes to the next row; false at the end.
    fn advance(&mut self) -> rusqlite::Result<bool>;

    /// Answers the value of a column.
    fn column(&self, answer: &mut Context, column: c_int) -> rusqlite::Result<()>;

    /// Numbers the row.
    fn rowid(&self) -> i64;
}

/// Makes a table function known by its name.
pub(super) fn register<F: TableFunction>(connection: &Connection, name: &CStr) -> rusqlite::Result<()> {
    connection.create_module(name, const { &Module::<Table<F>>::eponymous_only_module() }, None)
}

#[repr(C)]
struct Table<F> {
    /// SQLite's part, which must come first.
    base: sqlite3_vtab,
    function: PhantomData<F>,
}

// SAFETY: the base is the first field of a `repr(C)` structure.
unsafe impl<F: TableFunction> VTab<'_> for Table<F> {
    type Aux = ();
    type Cursor = Cursor<F>;

    fn connect(
        connection: &mut VTabConnection,
        _aux: Option<&()>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _arguments: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, Self)> {
        connection.config(F::TRUST)?;
        Ok((F::SCHEMA.into(), Self { base: sqlite3_vtab::default(), function: PhantomData }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        let plan = F::plan(info)?;
        if let Some(plan) = &plan {
            info.set_idx_str(plan);
        }
        Ok(plan.is_some())
    }

    fn open(&mut self) -> rusqlite::Result<Cursor<F>> {
        Ok(Cursor { base: sqlite3_vtab_cursor::default(), rows: None })
    }
}

#[repr(C)]
struct Cursor<F: TableFunction> {
    /// SQLite's part, which must come first.
    base: sqlite3_vtab_cursor,
    /// The scan, while it stands on a row.
    rows: Option<F::Rows>,
}

// SAFETY: the base is the first field of a `repr(C)` structure.
unsafe impl<F: TableFunction> VTabCursor for Cursor<F> {
    fn filter(
        &mut self,
        _number: c_int,
        plan: Option<&str>,
        arguments: &Filters<'_>,
    ) -> rusqlite::Result<()> {
        self.rows = Some(F::scan(plan.unwrap_or_default(), arguments)?);
        self.next()
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        if let Some(rows) = &mut self.rows
            && !rows.advance()?
        {
            self.rows = None;
        }
        Ok(())
    }

    fn eof(&self) -> bool {
        self.rows.is_none()
    }

    fn column(&self, answer: &mut Context, column: c_int) -> rusqlite::Result<()> {
        self.rows.as_ref().map_or(Ok(()), |rows| rows.column(answer, column))
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.rows.as_ref().map_or(0, Rows::rowid))
    }
}
