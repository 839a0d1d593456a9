//! Why nothing can be committed any more.

use super::Storage;
use crate::{Error, Refusal, Timestamp};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// An error that all later commits answer too.
#[derive(Clone)]
pub(super) struct Reason {
    pub(super) kind: io::ErrorKind,
    pub(super) message: String,
}

impl Reason {
    pub(super) fn of(error: &Error) -> Self {
        let kind = match error {
            Error::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        Self { kind, message: error.to_string() }
    }
}

impl Storage {
    /// Why what was written may not be on the disk, if a sync of all of it has failed.
    pub fn unsynced(&self) -> Option<Error> {
        self.failure().filter(|_| self.unsynced.load(Relaxed))
    }

    /// Why nothing can be committed any more, if so. What is known in memory may not be what the disk holds then.
    pub fn failure(&self) -> Option<Error> {
        self.failed.lock().as_ref().map(|reason| self.latched(reason))
    }

    /// Whether nothing can be committed any more.
    pub fn has_failed(&self) -> bool {
        self.failed.lock().is_some()
    }

    /// After a failed write or sync what is on the disk is unknown: nothing may build on it before recovery has looked.
    /// The first of the commits is told why, the others that they have lost their ground.
    pub(crate) fn fail(
        &self,
        results: Vec<Result<Timestamp, Refusal<()>>>,
        error: Error,
    ) -> Vec<Result<Timestamp, Refusal<()>>> {
        let reason = Reason::of(&error);
        *self.failed.lock() = Some(reason.clone());
        let mut cause = Some(error);
        let lost = |result: Result<Timestamp, _>| {
            result.and_then(|_| Err(cause.take().unwrap_or_else(|| self.latched(&reason)).into()))
        };
        results.into_iter().map(lost).collect()
    }

    /// Lets all further commits fail, after a panic has left something undone.
    pub(crate) fn give_up(&self) -> Error {
        let message = "a defect of the program".into();
        let reason = Reason { kind: io::ErrorKind::Other, message };
        let reason = self.failed.lock().get_or_insert(reason).clone();
        self.latched(&reason)
    }

    pub(super) fn latched(&self, Reason { kind, message }: &Reason) -> Error {
        let what = format!("no more commits after a failed one ({message}); open the database anew");
        Error::Io { path: self.path.clone(), source: io::Error::new(*kind, what) }
    }
}
