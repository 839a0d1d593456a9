//! What can go wrong with a port.

use std::io;

/// Why a port cannot be opened, or cannot be received from.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such interface in this network namespace.
    #[error("there is no interface {name} in this network namespace: create it, or name another")]
    NoInterface {
        /// What was asked for.
        name: String,
    },
    /// The name cannot be an interface's.
    #[error(
        "{name:?} cannot be the name of an interface: those have 1 to 15 bytes, none of them '/' or a space"
    )]
    BadName {
        /// What was asked for.
        name: String,
    },
    /// It is not an Ethernet.
    #[error("interface {name} carries no Ethernet frames (its hardware type is {kind})")]
    NotEthernet {
        /// The interface.
        name: String,
        /// Its `ARPHRD_` number.
        kind: u16,
    },
    /// Nothing comes in until somebody brings it up. Receiving works again then.
    #[error("interface {name} is down: bring it up, and receive again")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface that was opened no longer exists. One that has its name now is another one, to be opened anew.
    #[error("interface {name} is gone: once there is one again, open it anew")]
    Gone {
        /// Its name when it was opened.
        name: String,
    },
    /// Two tunnels would be told apart by nothing.
    #[error(
        "another tunnel takes the same datagrams ({claim}): give one another key, remote_ip, local_ip or dst_port"
    )]
    Claimed {
        /// What both are for.
        claim: String,
    },
    /// The kernel refused.
    #[error("interface {name}: the kernel refuses {what}: {why}")]
    Refused {
        /// The interface.
        name: String,
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        #[source]
        why: io::Error,
    },
}

impl Error {
    /// For `map_err`: the kernel refused this.
    pub(crate) fn refused<E: Into<io::Error>>(name: &str, what: &'static str) -> impl FnOnce(E) -> Self {
        move |why| Self::Refused { name: name.into(), what, why: why.into() }
    }
}
