//! Nothing: the manifest beside this folder only pins a source package.
//!
//! `cargo xtask e2e` asks cargo where that package is and has the C compiler make the original `sqlite3` shell of
//! its `shell.c`, on the drop-in library: Debian's binary of the shell refuses any library of another version than
//! its own.
