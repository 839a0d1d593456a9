//! x

mod address;
mod book;
mod client;
mod clock;
mod counters;
mod deadlines;
mod frame;
mod hello;
mod link;
mod net;
mod notice;
mod server;
mod wire;

pub use address::{Address, Listener, NoAddress};
pub use client::{Client, ClientError, MeetError};
pub use counters::Counters;
pub use frame::FrameTooLong;
pub use hello::{ClusterId, FIRST_CLIENT, Protocol, Refusal};
pub use link::LinkError;
pub use net::Limits;
pub use notice::Notice;
pub use server::{Handle, Log, ServeError, Server, User};
pub use wire::{Malformed, Wire};
