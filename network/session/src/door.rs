//! Where controllers come in.

use crate::channel::Channel;
use crate::place::Settings;
use crate::target::Target;
use fulmar_files::{Door, Visit};
use std::io;
use std::net::TcpListener;

/// The door of a passive target.
pub(crate) fn open(target: &Target) -> io::Result<Door> {
    match target {
        Target::PassiveTcp(at) | Target::PassiveTls(at) | Target::Tcp(at) | Target::Tls(at) => {
            Door::tcp(TcpListener::bind(at)?)
        }
        Target::PassiveUnix(path) | Target::Unix(path) => Door::unix(path),
    }
}

/// Speaks with whoever has come, if the settings are right.
pub(crate) fn speak(visit: Visit, settings: &Settings, is_secure: bool) -> io::Result<Box<dyn Channel>> {
    Ok(match visit {
        Visit::Tcp(stream) if is_secure => Box::new(settings.tls()?.server(stream)?),
        Visit::Tcp(stream) => Box::new(stream),
        Visit::Unix(stream) => Box::new(stream),
    })
}
