//! Measuring Fulmar beside what people use today.
//!
//! *Known as:* benchmarks, YCSB, reproduction of results.
//!
//! Machines differ and are shared, so an absolute time means little from run to run. A [`Figure`] is a ratio of two
//! things measured in turn in one run, or a count.
//!
//! - [`sql`]: single operations against SQLite's own B-tree, compiled from the same source into the same program.
//! - [`lab`]: tables and figures of papers, run again beside what they say.
//! - [`replication`]: replicas on loopback, against a bare ping-pong of datagrams and against etcd.
//! - [`scaling`]: many servers in a simulator, against one.
//! - [`switch`]: a virtual switch between two hosts, beside Open vSwitch.
//! - [`classifier`]: a switch's lookups among many rules, beside Open vSwitch's.
//! - [`ycsb`]: a server on loopback against Redis, PostgreSQL and rqlite.
//!
//! ```
//! use fulmar_bench::sql;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let only = Some("scan_1000".into());
//! let options = sql::Options { only, runs: 1, rows: 2_000, ..sql::Options::default() };
//! let figures = sql::run(&options, |name| eprintln!("measuring {name}"))?;
//! assert_eq!(figures[0].figure, "sql.scan_1000");
//! println!("{} times as fast as {}", figures[0].value, figures[0].peer);
//! # Ok(())
//! # }
//! ```
//!
//! What is guaranteed: both sides run the same operations on the same data with the same durability, and `sql` in the
//! same process. What is not: that a ratio carries over to other machines, disks or data.

// Links SQLite on Fulmar's tree, whose symbols rusqlite calls.
use fulmar_sql as _;

mod chart;
pub mod classifier;
mod fault;
mod figure;
pub mod lab;
mod process;
pub mod replication;
mod retwis;
pub mod scaling;
pub mod sql;
pub mod switch;
pub mod ycsb;

pub use fault::Error;
pub use figure::{Figure, machine};
