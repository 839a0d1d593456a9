//! How often something has happened.

use crate::{Figures, Kind};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How often something of each kind has happened since a program has begun.
#[derive(Debug, Default)]
pub struct Events(Mutex<BTreeMap<&'static str, u64>>);

impl Events {
    /// Something of this kind has happened.
    pub fn count(&self, kind: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// Adds them to figures, as a family of this name with a sample for each kind that has happened.
    pub fn add_to(&self, figures: &mut Figures, name: &str) {
        figures.family(name, Kind::Counter, "What has happened, by the kinds of the log.");
        for (kind, count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            figures.sample(name, &[("kind", kind)], *count);
        }
    }
}
