//! The configuration database of a virtual switch, and the protocol by which it is used: RFC 7047.
//!
//! *Known as:* an OVSDB server (`ovsdb-server`), JSON-RPC, monitors.
//!
//! # The problem
//!
//! OpenFlow programs the flows of a switch that is there. That there is one, which ports it has, what its tunnels lead to and who controls
//! it, is said elsewhere: in a small database that outlives the switch and the programs that write to it. Several of these write at once,
//! each knows only a part, and the switch itself has something to say: which number a port has got, what went wrong, that all is done.
//!
//! So what is asked of such a database is not size. It is that a change takes place as a whole or not at all, that rules which nobody may
//! break are kept by the database and not by its users, and that everybody hears of what changes instead of asking again and again.
//!
//! # The idea
//!
//! A transaction works on a [`Draft`], which only it sees, and ends as [`Changes`]: each row that is another, before and after. The
//! rules are checked between the two. Everything else follows from the changes: they are what is [applied](Database), what is written to the
//! [log](Store), and what those who watch are told. As a transaction that waits for something looks again whenever there are changes,
//! it needs no lock.
//!
//! The rules are in a [`Schema`], which is a value: types and limits of [columns](Column), indexes, and references. A strong reference
//! keeps a row alive, and in tables that are no roots nothing else does; a weak one goes when its row goes. So who takes a bridge out of
//! the switch need not know what belongs to it.
//!
//! The [`Server`] has no socket, no clock, no thread and no chance of its own: it is told what has come, from whom and when, and says what is to
//! be sent. A [`Service`] does that with sockets, in one thread. In the same process a [`Handle`] is all that a switch needs: it
//! [reads](Handle::read), [hears of changes](Handle::subscribe), and [commits](Handle::transact).
//!
//! # The structure
//!
//! - [`Schema`], [`Table`], [`Column`], [`Type`], [`Base`]: what there may be; [`open_vswitch`]: what `ovs-vsctl` and a switch expect.
//! - [`Datum`] of [`Atom`]s, [`Uuid`]: what a row holds in a column; `names`: rows that have no UUID yet.
//! - `execution`: the operations; `condition`, `mutation`: of which rows, and how they change; `integrity`: what must hold in the end.
//! - [`Database`], [`Draft`], [`Changes`], [`RowRef`]: rows, as they are, as they may be, as they become, as they are read.
//! - [`Store`], [`Journal`]: what is kept, and where; `record`: how it is written; `log`: a file of records.
//! - [`Server`], [`Outbox`], [`Message`]: the protocol; `framing`: where messages end; `monitor`, `lock`: what clients watch, and hold;
//!   `itself`: what they are told of the server.
//! - [`Service`], [`Handle`]: the same on sockets.
//!
//! # Example
//!
//! ```
//! use fulmar_node::{Random, Time};
//! use fulmar_ovsdb::{ConnectionId, Outbox, Server, Store, open_vswitch};
//!
//! let mut server = Server::new(Store::in_memory(open_vswitch()), Random::new(1));
//! let (client, mut out) = (ConnectionId(1), Outbox::default());
//! server.connect(client, 0);
//! let request = br#"{"method": "transact", "id": 7, "params": ["Open_vSwitch",
//!     {"op": "insert", "table": "Open_vSwitch", "row": {"bridges": ["named-uuid", "b"]}},
//!     {"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "br0"}}]}"#;
//! server.receive(Time::ZERO, client, request, &mut out);
//! let reply = out.messages.remove(0).1.into_text().expect("it is whole");
//! assert!(reply.contains(r#""id":7"#), "{reply}");
//! let bridge = out.commits[0].of("Bridge").next().and_then(|change| change.new).expect("it is new");
//! assert_eq!(bridge.get("name").string(), Some("br0"));
//! ```
//!
//! # What is guaranteed
//!
//! A transaction takes place as a whole, one after the other, and is on the disk before anybody hears of it. What is committed keeps all
//! rules of the schema. Who monitors is told of all changes, in order, and of its own before the reply. A log is cut where a crash has torn
//! it; damage before its end is found and refused; after a failure of the disk nothing is committed until the log is opened
//! again. What a client sends and leaves unread takes a bounded amount of memory, but for what one transaction selects.
//!
//! Not guaranteed: that the last record of a log is not lost if the disk damages it after its sync, since that looks as if it was torn;
//! that a transaction whose record could not be synced is not there when the log is opened again; what ephemeral columns hold, and the
//! versions of rows, after a restart; that rows in a circle of strong references go when nothing else refers to them. Anybody who
//! can reach a socket may change everything: there are neither names nor passwords, nor TLS.
//!
//! Not there: replication and relays, `convert`, and names of transactions: `monitor_cond_since` never finds what a client has seen
//! before, and sends everything.

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
mod journal;
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
mod service;
mod store;
mod uuid;

pub use atom::{Atom, AtomicType, Real};
pub use database::Database;
pub use datum::Datum;
pub use draft::Draft;
pub use error::{Error, Tag};
pub use journal::Journal;
pub use log::LogError;
pub use open_vswitch::open_vswitch;
pub use row::{ChangeRef, Changes, RowRef};
pub use schema::{Base, Column, Reference, Schema, Strength, Table, Type};
pub use server::{ConnectionId, Message, Outbox, Server};
pub use service::{Handle, Service, chance};
pub use store::{OpenError, Store};
pub use uuid::{Uuid, UuidError};
