//! Prepared statements as a shell needs them.
//!
//! `rusqlite` hides three things a shell shows: where a statement ends inside a longer text, the text that
//! SQLite itself makes of a floating-point number, and text that is not UTF-8. This module is the only one in
//! the crate that speaks to SQLite's C interface; everything it exports is safe.

#![allow(unsafe_code, reason = "prepared statements speak to SQLite's C interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use rusqlite::{Connection, ffi};

/// The encoding of bound text, as the functions that take a byte for it want it.
#[allow(clippy::cast_possible_truncation, reason = "SQLite's constant is 1")]
const UTF8: c_uchar = ffi::SQLITE_UTF8 as c_uchar;

/// When an SQL statement failed: while it was compiled or while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The text is not a statement of this database's schema.
    Parse,
    /// The statement was fine and its execution was not.
    Run,
}

/// An error of SQLite with the place in the text where it arose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct SqlError {
    /// Compilation or execution.
    pub(crate) phase: Phase,
    /// SQLite's extended result code.
    pub(crate) code: c_int,
    /// SQLite's own words.
    pub(crate) message: String,
    /// The statement and the byte offset in it that SQLite blames, where it blames one.
    pub(crate) place: Option<(String, usize)>,
}

impl SqlError {
    /// The result code without the extension: 19 for every kind of violated constraint.
    pub(crate) fn primary_code(&self) -> c_int {
        self.code & 0xff
    }
}

/// One value of a result row. Text is whatever bytes the database holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'row> {
    /// NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A number and the text SQLite renders it as.
    Real(f64, &'row str),
    /// Text in the database's bytes, which need not be UTF-8.
    Text(&'row [u8]),
    /// Bytes.
    Blob(&'row [u8]),
}

impl Cell<'_> {
    /// Gives `write` the value as text, up to the first zero byte: what follows one is no text to a terminal.
    pub(crate) fn with_text<T>(self, write: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Null => write(b""),
            Self::Integer(integer) => write(integer.to_string().as_bytes()),
            Self::Real(_, text) => write(text.as_bytes()),
            Self::Text(text) | Self::Blob(text) => {
                write(text.split(|&byte| byte == 0).next().unwrap_or_default())
            }
        }
    }
}

/// A compiled statement. Dropping it finalizes it.
pub(crate) struct Statement<'connection> {
    /// Not finalized before `drop`, and belongs to a connection that outlives `'connection`.
    raw: NonNull<ffi::sqlite3_stmt>,
    connection: PhantomData<&'connection Connection>,
}

impl<'connection> Statement<'connection> {
    /// Compiles the first statement of `sql`. Answers it, or `None` where only blanks and comments come before
    /// the next semicolon, together with the number of bytes it takes.
    pub(crate) fn prepare(
        connection: &'connection Connection,
        sql: &str,
    ) -> Result<(Option<Self>, usize), SqlError> {
        let refused = |code, message: &str| SqlError {
            phase: Phase::Parse,
            code,
            message: message.into(),
            place: None,
        };
        let length =
            c_int::try_from(sql.len()).map_err(|_| refused(ffi::SQLITE_TOOBIG, "string or blob too big"))?;
        let mut raw = ptr::null_mut();
        let mut tail = ptr::null();
        // SAFETY: `sql` is valid for `length` bytes, the out-pointers are local, and the connection is open as
        // long as it is borrowed; it is used on this thread only.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(
                connection.handle(),
                sql.as_ptr().cast(),
                length,
                &raw mut raw,
                &raw mut tail,
            )
        };
        if code != ffi::SQLITE_OK {
            let mut error = last_error(connection, Phase::Parse, code);
            // SAFETY: an open connection, as above.
            let offset = unsafe { ffi::sqlite3_error_offset(connection.handle()) };
            error.place = usize::try_from(offset).ok().map(|offset| (sql.to_owned(), offset));
            return Err(error);
        }
        // SAFETY: SQLite sets `tail` to a position inside `sql`, or to its end.
        let taken = unsafe { tail.offset_from(sql.as_ptr().cast::<c_char>()) };
        let taken = usize::try_from(taken).unwrap_or(sql.len()).min(sql.len());
        let statement = NonNull::new(raw).map(|raw| Self { raw, connection: PhantomData });
        if sql.as_bytes().get(taken) == Some(&0) {
            // To SQLite it is the end of the text, from which it would never get on.
            return Err(refused(ffi::SQLITE_ERROR, "a NUL outside a string"));
        }
        Ok((statement, taken))
    }

    /// Advances to the next row; false at the end.
    pub(crate) fn step(&mut self) -> Result<bool, SqlError> {
        // SAFETY: the statement is not finalized (see the field).
        match unsafe { ffi::sqlite3_step(self.raw.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => {
                // SAFETY: the statement's connection outlives it.
                let message = unsafe { message_of(ffi::sqlite3_db_handle(self.raw.as_ptr())) };
                Err(SqlError { phase: Phase::Run, code, message, place: None })
            }
        }
    }

    /// Makes the statement ready to run again; its parameters keep their values.
    pub(crate) fn reset(&mut self) {
        // SAFETY: the statement is not finalized. The code repeats the one of the last step.
        unsafe { ffi::sqlite3_reset(self.raw.as_ptr()) };
    }

    /// The number of columns of its result; zero where it has none.
    pub(crate) fn column_count(&self) -> usize {
        // SAFETY: the statement is not finalized.
        let count = unsafe { ffi::sqlite3_column_count(self.raw.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The names of the result's columns.
    pub(crate) fn column_names(&self) -> Vec<String> {
        (0..self.column_count())
            .map(|column| {
                // SAFETY: the column exists; the name is copied before anything else is called.
                unsafe { owned(ffi::sqlite3_column_name(self.raw.as_ptr(), index(column))) }
            })
            .collect()
    }

    /// 0 for an ordinary statement, 1 for `EXPLAIN`, 2 for `EXPLAIN QUERY PLAN`.
    pub(crate) fn explain_level(&self) -> c_int {
        // SAFETY: the statement is not finalized.
        unsafe { ffi::sqlite3_stmt_isexplain(self.raw.as_ptr()) }
    }

    /// Whether it changes no database.
    pub(crate) fn is_read_only(&self) -> bool {
        // SAFETY: the statement is not finalized.
        unsafe { ffi::sqlite3_stmt_readonly(self.raw.as_ptr()) != 0 }
    }

    /// A counter that SQLite keeps for the statement (`SQLITE_STMTSTATUS_…`).
    pub(crate) fn counter(&self, counter: c_int) -> c_int {
        // SAFETY: the statement is not finalized; SQLite ignores counters it does not know.
        unsafe { ffi::sqlite3_stmt_status(self.raw.as_ptr(), counter, 0) }
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        assert!(column < self.column_count(), "column {column} of a result with {}", self.column_count());
        let (raw, column) = (self.raw.as_ptr(), index(column));
        // SAFETY: the column exists; the pointers stay valid until the next step or conversion, and
        // a borrowed statement is not stepped; every column is converted once. Lengths are asked for after the
        // conversion they belong to.
        unsafe {
            match ffi::sqlite3_column_type(raw, column) {
                ffi::SQLITE_INTEGER => Cell::Integer(ffi::sqlite3_column_int64(raw, column)),
                ffi::SQLITE_FLOAT => {
                    let number = ffi::sqlite3_column_double(raw, column);
                    let text = ffi::sqlite3_column_text(raw, column);
                    let length = ffi::sqlite3_column_bytes(raw, column);
                    Cell::Real(number, std::str::from_utf8(bytes(text, length)).unwrap_or(""))
                }
                ffi::SQLITE_TEXT => {
                    let text = ffi::sqlite3_column_text(raw, column);
                    Cell::Text(bytes(text, ffi::sqlite3_column_bytes(raw, column)))
                }
                ffi::SQLITE_BLOB => {
                    let blob = ffi::sqlite3_column_blob(raw, column).cast();
                    Cell::Blob(bytes(blob, ffi::sqlite3_column_bytes(raw, column)))
                }
                _ => Cell::Null,
            }
        }
    }

    /// All values of the current row.
    pub(crate) fn row(&mut self) -> Vec<Cell<'_>> {
        // Exclusive, so that no second conversion of a column moves the bytes of the first.
        (0..self.column_count()).map(|column| self.cell(column)).collect()
    }

    /// The number of parameters, and with it the greatest one.
    pub(crate) fn parameter_count(&self) -> usize {
        // SAFETY: the statement is not finalized.
        let count = unsafe { ffi::sqlite3_bind_parameter_count(self.raw.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The name of a parameter with its prefix (`:a`, `?3`); `None` for a bare `?`. The first one has number 1.
    pub(crate) fn parameter_name(&self, number: usize) -> Option<String> {
        // SAFETY: the statement is not finalized; for an unknown number SQLite answers a null pointer.
        unsafe {
            let name = ffi::sqlite3_bind_parameter_name(self.raw.as_ptr(), index(number));
            (!name.is_null()).then(|| owned(name))
        }
    }

    /// Gives a parameter a value. Text may be bytes that are not UTF-8.
    pub(crate) fn bind(&mut self, number: usize, value: Cell<'_>) -> Result<(), SqlError> {
        let (raw, number) = (self.raw.as_ptr(), index(number));
        // SAFETY: the statement is not finalized, the pointers are valid for the lengths beside them, and
        // SQLITE_TRANSIENT has SQLite copy the bytes before the call returns.
        let code = unsafe {
            match value {
                Cell::Null => ffi::sqlite3_bind_null(raw, number),
                Cell::Integer(integer) => ffi::sqlite3_bind_int64(raw, number, integer),
                Cell::Real(real, _) => ffi::sqlite3_bind_double(raw, number, real),
                Cell::Text(text) => ffi::sqlite3_bind_text64(
                    raw,
                    number,
                    text.as_ptr().cast(),
                    text.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                    UTF8,
                ),
                Cell::Blob(blob) => ffi::sqlite3_bind_blob64(
                    raw,
                    number,
                    blob.as_ptr().cast(),
                    blob.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                ),
            }
        };
        self.bound(code)
    }

    /// Gives a parameter the value that a column of another statement's current row has, its bytes unchanged: text
    /// that is no text in the database's encoding stays as it is.
    pub(crate) fn bind_column(
        &mut self,
        number: usize,
        row: &Statement<'_>,
        column: usize,
    ) -> Result<(), SqlError> {
        assert!(column < row.column_count(), "column {column} of a result with {}", row.column_count());
        // SAFETY: neither statement is finalized and the column exists; SQLite copies the value before the call
        // returns.
        let code = unsafe {
            let value = ffi::sqlite3_column_value(row.raw.as_ptr(), index(column));
            ffi::sqlite3_bind_value(self.raw.as_ptr(), index(number), value)
        };
        self.bound(code)
    }

    fn bound(&self, code: c_int) -> Result<(), SqlError> {
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the statement's connection outlives it.
        let message = unsafe { message_of(ffi::sqlite3_db_handle(self.raw.as_ptr())) };
        Err(SqlError { phase: Phase::Run, code, message, place: None })
    }

    /// Shows a column of the current row as its type (`SQLITE_INTEGER`, …) and its bytes: a number's in big-endian
    /// order, a text's as the database holds them. A text is a blob afterwards; bind it before.
    pub(crate) fn look_at(&mut self, column: usize, look: impl FnOnce(c_int, &[u8])) {
        assert!(column < self.column_count(), "column {column} of a result with {}", self.column_count());
        let (raw, column) = (self.raw.as_ptr(), index(column));
        // SAFETY: the column exists; the pointer stays valid until the next step or conversion, and the statement is
        // borrowed exclusively. The length is asked for after the pointer, as SQLite wants it.
        unsafe {
            let kind = ffi::sqlite3_column_type(raw, column);
            match kind {
                ffi::SQLITE_INTEGER => look(kind, &ffi::sqlite3_column_int64(raw, column).to_be_bytes()),
                ffi::SQLITE_FLOAT => look(kind, &ffi::sqlite3_column_double(raw, column).to_be_bytes()),
                ffi::SQLITE_TEXT | ffi::SQLITE_BLOB => {
                    let start = ffi::sqlite3_column_blob(raw, column).cast();
                    look(kind, bytes(start, ffi::sqlite3_column_bytes(raw, column)));
                }
                _ => look(kind, &[]),
            }
        }
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the only place that finalizes. The code repeats the one of the last step.
        unsafe { ffi::sqlite3_finalize(self.raw.as_ptr()) };
    }
}

/// Whether `sql` ends with a semicolon that is not inside a string, a comment or a trigger's body.
pub(crate) fn is_complete(sql: &str) -> bool {
    let Ok(sql) = CString::new(sql) else { return true };
    // SAFETY: a terminated string.
    unsafe { ffi::sqlite3_complete(sql.as_ptr()) != 0 }
}

/// SQLite's version and the identity of its sources.
pub(crate) fn sqlite_version() -> String {
    // SAFETY: SQLite answers a static, terminated string.
    let source = unsafe { owned(ffi::sqlite3_sourceid()) };
    format!("{} {source}", rusqlite::version())
}

/// Whether SQLite's grammar knows `word`, so that it cannot name a table without quotes.
pub(crate) fn is_keyword(word: &str) -> bool {
    // SAFETY: the word is valid for its length.
    unsafe { ffi::sqlite3_keyword_check(word.as_ptr().cast(), index(word.len())) != 0 }
}

/// A number with as many digits as it takes to read the same number back.
pub(crate) fn exact_real(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "1e999".into() } else { "-1e999".into() };
    }
    if number == 0.0 && number.is_sign_negative() {
        // SQLite reads the sign of a zero, and does not write it.
        return "-0.0".into();
    }
    printed(c"%!.20g", number)
}

/// A number as SQLite turns it into text.
pub(crate) fn real_text(number: f64) -> String {
    printed(c"%!.17g", number)
}

/// `format` takes one number.
fn printed(format: &'static CStr, number: f64) -> String {
    // SAFETY: the two callers' formats take one double. SQLite answers a terminated string of its own, or null when
    // it is out of memory; it is copied and freed once.
    unsafe {
        let text = ffi::sqlite3_mprintf(format.as_ptr(), number);
        let copy = owned(text);
        ffi::sqlite3_free(text.cast());
        copy
    }
}

/// Bytes that SQLite has allocated now, and the most it ever had.
pub(crate) fn memory_used() -> (i64, i64) {
    // SAFETY: both functions may be called at any time.
    unsafe { (ffi::sqlite3_memory_used(), ffi::sqlite3_memory_highwater(0)) }
}

/// A keyword of SQLite's grammar by its number, `None` past the last.
pub(crate) fn keyword(number: c_int) -> Option<&'static str> {
    let mut name = ptr::null();
    let mut length = 0;
    // SAFETY: out-pointers are local; a keyword is static and ASCII, `length` bytes long.
    unsafe {
        if ffi::sqlite3_keyword_name(number, &raw mut name, &raw mut length) != ffi::SQLITE_OK {
            return None;
        }
        std::str::from_utf8(bytes(name.cast(), length)).ok()
    }
}

fn last_error(connection: &Connection, phase: Phase, code: c_int) -> SqlError {
    // SAFETY: the connection is open as long as it is borrowed.
    let message = unsafe { message_of(connection.handle()) };
    SqlError { phase, code, message, place: None }
}

/// SQLite counts columns and parameters in `int`; what does not fit does not exist, which SQLite says itself.
fn index(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// # Safety
///
/// `database` must be open.
unsafe fn message_of(database: *mut ffi::sqlite3) -> String {
    // SAFETY: the message is copied before another call can change it.
    unsafe { owned(ffi::sqlite3_errmsg(database)) }
}

/// # Safety
///
/// `text` must be null or a terminated string.
unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
///
/// `start` must be null, or valid for `length` bytes as long as `'any` lasts.
unsafe fn bytes<'any>(start: *const u8, length: c_int) -> &'any [u8] {
    match usize::try_from(length) {
        // SAFETY: the caller's promise.
        Ok(length) if length > 0 && !start.is_null() => unsafe { std::slice::from_raw_parts(start, length) },
        _ => &[],
    }
}
