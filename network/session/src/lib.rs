//! OpenFlow connections: what a switch keeps for each of its controllers.

mod attempts;
mod bundles;
mod channel;
mod clock;
mod closed;
mod connection;
mod door;
mod election;
mod event;
mod interest;
mod keeper;
mod liveness;
mod outgoing;
mod parts;
mod place;
mod session;
mod sessions;
mod shared;
mod signal;
mod switch;
mod target;
mod task;
mod tls;

pub use attempts::State;
pub use event::Event;
pub use place::{Settings, Status};
pub use sessions::Sessions;
pub use switch::{Asker, SessionId, Switch};
pub use target::{Target, TargetError};
pub use tls::TlsFiles;
