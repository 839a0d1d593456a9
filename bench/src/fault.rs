//! What goes wrong with systems that are measured.

/// What went wrong, in the words of the system's client.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, in our words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) String);

/// A system could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{system}: {}", chain(&**why))]
pub struct Error {
    system: String,
    why: Fault,
}

impl Error {
    pub(crate) fn of(system: impl Into<String>) -> impl FnOnce(Fault) -> Self {
        let system = system.into();
        |why| Self { system, why }
    }
}

/// An error and what caused it: PostgreSQL's client says only there what the server said.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}
