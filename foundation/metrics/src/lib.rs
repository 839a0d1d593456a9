//! Figures for Prometheus, in its text format, over HTTP.
//!
//! # The problem
//!
//! Who looks after servers has one program ask all of them for figures, again and again. None of these questions, and nobody who only pretends to ask, may hold
//! up the server or others who ask.
//!
//! # The idea
//!
//! One thread answers all, [`ASKING`] at a time; who comes then takes the place of the one that came first. All figures are told to every question, so
//! what is asked for does not matter, only where the question ends.
//!
//! *Known as:* a metrics endpoint, an exporter; the exposition format.
//!
//! # The structure
//!
//! - [`Figures`]: what is told, with the names, kinds and labels of Prometheus; [`Events`]: those that count what a log tells.
//! - [`serve`]: tells it.
//!
//! # Example
//!
//! ```
//! use fulmar_metrics::{Figures, Kind};
//!
//! let mut figures = Figures::default();
//! figures.family("birds_total", Kind::Counter, "Birds that were seen.");
//! figures.sample("birds_total", &[("species", "Fulmarus glacialis")], 7);
//! let told = figures.text();
//! assert!(told.ends_with("# TYPE birds_total counter\nbirds_total{species=\"Fulmarus glacialis\"} 7\n"));
//! ```
//!
//! # What is guaranteed
//!
//! A label stays in its quotes, whatever it holds. Nobody waits for another who says nothing or reads nothing. Not guaranteed: anything of HTTP beyond an answer to
//! one question in each connection; nor secrecy.

mod events;
mod exposition;
mod figures;

pub use events::Events;
pub use exposition::{ASKING, serve};
pub use figures::{Figures, Kind};
