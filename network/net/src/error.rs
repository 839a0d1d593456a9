//! What can go wrong with a network.

use std::io;
use std::path::PathBuf;

/// Why something cannot be done with a network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A topology is not as it should be.
    #[error("{}:{line}: {what}; write {instead}", file.display())]
    Topology {
        /// Where it was read from.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
        /// What would be right.
        instead: String,
    },
    /// There is a network of this name.
    #[error(
        "there is a network {name:?} already, or one that is just ending: `fulmar net down --name {name}` ends it; or give this one another --name"
    )]
    Taken {
        /// The name.
        name: String,
    },
    /// There is no network of this name.
    #[error("there is no network {name:?}: `fulmar net up TOPOLOGY.toml --name {name}` starts one")]
    NotUp {
        /// The name.
        name: String,
    },
    /// A name that cannot be one.
    #[error("{name:?} cannot be a name: write letters, digits, `-` and `_`, 15 at most")]
    BadName {
        /// What was given.
        name: String,
    },
    /// The network that runs refuses what was asked of it.
    #[error("{0}")]
    Refused(String),
    /// `ip` refuses.
    #[error("host {host}: `ip` refuses: {why}")]
    Ip {
        /// Whose interfaces or routes were to be set.
        host: String,
        /// What it says, with the number of the command.
        why: String,
    },
    /// A host's interface cannot be made.
    #[error("host {host}: {why}")]
    Interface {
        /// The host.
        host: String,
        /// Why not.
        #[source]
        why: fulmar_port::Error,
    },
    /// The system refuses.
    #[error("cannot {what}: {why}")]
    System {
        /// What was to be done.
        what: String,
        /// What it says.
        #[source]
        why: io::Error,
    },
}

impl Error {
    /// For `map_err`: this cannot be done.
    pub(crate) fn cannot<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |why| Self::System { what: what.into(), why: why.into() }
    }
}
