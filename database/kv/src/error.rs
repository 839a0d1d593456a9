//! Why the database could not do what it was asked.

use std::io;
use std::path::{Path, PathBuf};

/// A failure that the world caused; each names the database and the reason.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// Another transaction that committed after this one's snapshot changed the same cell (first committer wins).
    #[error(
        "another transaction that committed since this one began changed the same data; retry this transaction"
    )]
    Conflict,
    /// A commit that would let an object grow beyond [`Object::LARGEST`](crate::Object::LARGEST).
    #[error(
        "too large: the versions of this row that open transactions still read leave no room for one more; end the \
         oldest of them and retry"
    )]
    TooLarge,
    /// Another client of the server keeps everybody else from committing.
    #[error("another process has begun an exclusive transaction; retry this one when that has ended")]
    Excluded,
    /// The server does not know the snapshot any more: it has been restarted, its client was out of touch for too long, or another
    /// leads the replicas by now.
    #[error(
        "the snapshot of this transaction is gone: its server was restarted, was out of touch, or leads no more; \
         retry it"
    )]
    SnapshotGone,
    /// The snapshot does not hold what was expected of it: begin again, and look.
    #[error("what was remembered of the database is out of date")]
    Unexpected,
    /// Another process has the database open.
    #[error("{}: already open in another process: {holder}", path.display())]
    Held {
        /// The database.
        path: PathBuf,
        /// Its process id and command line.
        holder: String,
    },
    /// Not a database of ours, or one of another format version.
    #[error("{}: {found}", path.display())]
    Format {
        /// The file or directory.
        path: PathBuf,
        /// What is there, and what was expected.
        found: String,
    },
    /// The stored data contradict themselves.
    #[error("{}: {what}", path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

impl Error {
    /// What the system says about `path`.
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// Whether a commit was refused because it is large, as it will be whenever it is asked for.
    pub fn is_of_size(&self) -> bool {
        let is_too_much = |source: &io::Error| source.kind() == io::ErrorKind::FileTooLarge;
        matches!(self, Self::TooLarge) || matches!(self, Self::Io { source, .. } if is_too_much(source))
    }

    /// The same, of something that may have taken place: no such error says [`io::ErrorKind::StorageFull`].
    pub fn of_unknown_outcome(self) -> Self {
        match self {
            Self::Io { path, source } => Self::Io { path, source: io::Error::other(source) },
            error => error,
        }
    }
}

/// Why a commit did not happen.
#[derive(thiserror::Error, Debug)]
pub enum Refusal<C> {
    /// A write or requirement of it is not in the object it names (any more): find out where it is, and try again.
    #[error("the tree's structure has changed")]
    Misplaced(C),
    /// Final.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Refusal<()> {
    /// The same, which gives the commit back.
    pub(crate) fn of<C>(self, commit: C) -> Refusal<C> {
        match self {
            Self::Misplaced(()) => Refusal::Misplaced(commit),
            Self::Failed(error) => Refusal::Failed(error),
        }
    }
}
