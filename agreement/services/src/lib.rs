//! Replicated services as they are run: timestamps and locks, on sockets and disks.
//!
//! *Known as:* a coordination service (Chubby, ZooKeeper, etcd): timestamp oracle, lock service with leases and fencing tokens.
//!
//! # The problem
//!
//! `fulmar-replication` has replicas without sockets, and state machines that they replicate. Who wants a lock that outlives servers needs
//! processes that find each other, keep their promises on disks, come back by themselves, and do not take each other for
//! somebody else.
//!
//! # The idea
//!
//! All that a group's founders must say alike is its [`Charter`]: what is replicated, where, and how. Its hash is the name by which
//! replicas and clients greet each other, so whoever means another group is refused at the first word; and a client that
//! knows the members finds out the rest from the name.
//!
//! A replica is who its directory says it is. A founder has said so when the directory was made; any other begins as an
//! incarnation that never was, and the others let it in.
//!
//! # The structure
//!
//! - [`Charter`], [`Members`], [`Application`]: which group.
//! - [`Server`]: a replica of it; [`ReplicaStatus`]: how that is. `directory`: its directory; `journal`: its records there; `ticker`: the time that passes for
//!   sessions of locks; `report`: what is said of the other replicas.
//! - [`TimestampClient`], [`LockSession`] and its [`Lease`]: what clients do; `caller`: how they ask. [`FenceFile`]: how what a lock
//!   protects refuses a holder that comes late.
//!
//! # Example
//!
//! ```no_run
//! use fulmar_replication::applications::LockMode;
//! use fulmar_services::{Application, Charter, LockSession, Members};
//! use std::time::Duration;
//!
//! let members = Members::new(["10.0.0.1:7500", "10.0.0.2:7500", "10.0.0.3:7500"])?;
//! let charter = Charter::find(Application::Locks, &members)?;
//! let mut session = LockSession::open(&charter, Duration::from_secs(10))?;
//! let fence = session.acquire(b"eggs", LockMode::Write)?;
//! println!("{}", fence.0);
//! assert!(!session.lease().is_over());
//! session.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! What `fulmar-replication` guarantees, for replicas that crash at any time and lose no more than f directories before the first
//! of them is back. A journal's torn end is cut off; damage before its end is found, and refused. While a [`Lease`] is not over nobody
//! else holds its session's locks, if clocks gain less than a second on each other in the time in which it expires. The fencing
//! tokens of a lock grow from holder to holder.
//!
//! A [`Lease`] that is not over says nothing of the next moment: its process may be stopped before it acts. What must not be
//! changed by a holder that is late has to look at fencing tokens.
//!
//! Not guaranteed: that the last batch of a journal is not lost if the disk damages it after its sync, since that looks as if it was
//! torn; anything against those who can write to the ports or the directories.

mod caller;
mod chance;
mod charter;
mod directory;
mod fence;
mod journal;
mod lease;
mod report;
mod server;
mod session;
mod ticker;
mod timestamps;

use caller::Caller;

pub use caller::CallError;
pub use charter::{Application, Charter, Members, MembersError};
pub use directory::DirectoryError;
pub use fence::{Admitted, FenceError, FenceFile};
pub use fulmar_replication::applications::Fence;
pub use journal::JournalError;
pub use lease::Lease;
pub use server::{Begun, ReplicaStatus, Server, ServerError, Stop};
pub use session::{LockError, LockSession};
pub use timestamps::TimestampClient;
