//! SQL on Fulmar databases, through `rusqlite`, beside the same SQL on SQLite's own B-tree in the same library.

use fulmar_sql as _;

mod basics;
mod concurrency;
mod differential;
mod faces;
mod features;
mod pair;
mod races;
mod returning;
mod schemas;
mod sequences;
mod settings;
