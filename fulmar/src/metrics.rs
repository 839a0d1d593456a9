//! Figures for Prometheus that a command tells while it runs, and how often has happened what its log says.

use fulmar_metrics::{Figures, Kind};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How often something of each kind has happened since the command has begun, by the kinds of the log.
#[derive(Default)]
pub(crate) struct Events(Mutex<BTreeMap<&'static str, u64>>);

impl Events {
    pub(crate) fn count(&self, kind: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// Adds them, as a family of this name.
    pub(crate) fn add_to(&self, figures: &mut Figures, name: &str) {
        figures.family(name, Kind::Counter, "What has happened, by the kinds of the log.");
        for (kind, count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            figures.sample(name, &[("kind", kind)], *count);
        }
    }
}

/// Where figures are asked for.
pub(crate) fn listen(address: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|error| format!("cannot listen on {address} for `metrics`: {error}"))
}

/// Tells whoever asks there what `figures` says then.
pub(crate) fn tell(
    listener: TcpListener,
    figures: impl Fn() -> Figures + Send + 'static,
) -> Result<(), String> {
    let tell = move || {
        let never = AtomicBool::new(false);
        if let Err(why) = fulmar_metrics::serve(&listener, figures, &never) {
            tracing::warn!("figures are not told any more: {why}");
        }
    };
    let begun = thread::Builder::new().name("metrics".into()).spawn(tell);
    begun.map(drop).map_err(|error| format!("cannot begin to tell figures: {error}"))
}
