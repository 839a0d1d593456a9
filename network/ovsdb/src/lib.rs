//! The configuration database of a virtual switch, and the protocol by which it is used: RFC 7047.
//!
//! In it is said that there is a switch, which ports it has, what its tunnels lead to and who controls it. Several programs
//! write to it at once. A transaction takes place as a whole or not at all, and what it leaves behind keeps all rules of
//! the schema.

mod atom;
mod condition;
mod database;
mod datum;
mod draft;
mod error;
mod execution;
mod fields;
mod framing;
mod integrity;
mod lock;
mod log;
#[cfg(test)]
mod model;
mod monitor;
mod mutation;
mod names;
mod open_vswitch;
mod record;
mod row;
mod schema;
mod server;
mod store;
mod uuid;

pub use atom::{Atom, AtomicType, Real};
pub use database::Database;
pub use datum::Datum;
pub use draft::Draft;
pub use error::{Error, Tag};
pub use log::LogError;
pub use open_vswitch::open_vswitch;
pub use row::{ChangeRef, Changes, RowRef};
pub use schema::{Base, Column, Reference, Schema, Strength, Table, Type};
pub use server::{ConnectionId, Outbox, Server};
pub use store::{Journal, OpenError, Store};
pub use uuid::{Uuid, UuidError};
