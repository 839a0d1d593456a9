//! How good a link is.

use serde::Serialize;
use std::num::NonZeroU64;
use std::time::Duration;

/// How frames get along a link, in each of its directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Whether there is a link at all: nothing passes one that is down, and what was under way is lost.
    pub up: bool,
    /// Bits a second, of frames from their Ethernet header on. Without it, frames take no time to be sent.
    pub rate: Option<NonZeroU64>,
    /// Bytes that wait to be sent when there is a rate. What does not fit is lost; a frame that finds no other always fits.
    pub queue: u64,
    /// How long a frame is under way.
    pub delay: Duration,
    /// By how much at most the delay is shorter or longer, each length as likely. Frames do not overtake each other by this.
    pub jitter: Duration,
    /// The fraction of frames that is lost.
    pub loss: f64,
    /// The fraction of frames that arrives twice.
    pub duplicate: f64,
    /// The fraction of frames that is not delayed, and so overtakes those before it.
    pub reorder: f64,
}

impl Default for Quality {
    /// A wire of no length, on which nothing is lost.
    fn default() -> Self {
        Self {
            up: true,
            rate: None,
            queue: 256 << 10,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
        }
    }
}

/// What a quality is made of, by name, with an example.
const PARTS: [(&str, &str); 8] = [
    ("up", "true"),
    ("rate", "\"100Mbit\""),
    ("queue", "\"64KiB\""),
    ("delay", "\"2ms\""),
    ("jitter", "\"500us\""),
    ("loss", "0.01"),
    ("duplicate", "0.01"),
    ("reorder", "0.05"),
];

impl Quality {
    /// The names of its parts.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        PARTS.into_iter().map(|(name, _)| name)
    }

    /// Sets a part by its name. On failure, says what could be written instead.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some((_, example)) = PARTS.into_iter().find(|(known, _)| *known == name) else {
            return Err(format!("one of {}", Self::names().collect::<Vec<_>>().join(", ")));
        };
        self.try_set(name, value).ok_or_else(|| format!("as in {name} = {example}"))
    }

    fn try_set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "up" => self.up = value.parse().ok()?,
            "rate" if value == "none" => self.rate = None,
            "rate" => self.rate = Some(NonZeroU64::new(whole(value, &BITS)?)?),
            "queue" => self.queue = whole(value, &BYTES)?,
            "delay" => self.delay = Duration::from_nanos(whole(value, &TIMES)?),
            "jitter" => self.jitter = Duration::from_nanos(whole(value, &TIMES)?),
            "loss" => self.loss = fraction(value)?,
            "duplicate" => self.duplicate = fraction(value)?,
            _ => self.reorder = fraction(value)?,
        }
        Some(())
    }

    /// Whether each frame counts by itself, so that a segment that is yet to be cut is cut before.
    pub(crate) fn is_by_frame(&self) -> bool {
        self.rate.is_some()
            || self.jitter > Duration::ZERO
            || [self.loss, self.duplicate, self.reorder].iter().any(|fraction| *fraction > 0.0)
    }
}

/// Names of units, and how much they are.
type Units = [(&'static str, f64)];

const BITS: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
const BYTES: [(&str, f64); 6] =
    [("", 1.0), ("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("KiB", 1024.0), ("MiB", 1_048_576.0)];
/// In nanoseconds.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// A number and its unit, as a number of the least units.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is in range, and its rest is below a unit"
)]
fn whole(text: &str, units: &Units) -> Option<u64> {
    /// What a `f64` counts without gaps.
    const MOST: f64 = 9e15;
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, unit) = units.iter().find(|(name, _)| *name == unit.trim())?;
    let units = number.parse::<f64>().ok()? * unit;
    (0.0..=MOST).contains(&units).then(|| units.round() as u64)
}

fn fraction(text: &str) -> Option<f64> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let fraction = number.trim().parse::<f64>().ok()? / unit;
    (0.0..=1.0).contains(&fraction).then_some(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_units() {
        let mut quality = Quality::default();
        for (name, value) in [
            ("rate", "2.5Gbit"),
            ("queue", "64KiB"),
            ("delay", "1.5ms"),
            ("jitter", "20us"),
            ("loss", "1%"),
            ("reorder", "0.25"),
            ("up", "false"),
        ] {
            quality.set(name, value).expect(name);
        }
        let expected = Quality {
            up: false,
            rate: NonZeroU64::new(2_500_000_000),
            queue: 65_536,
            delay: Duration::from_micros(1500),
            jitter: Duration::from_micros(20),
            loss: 0.01,
            duplicate: 0.0,
            reorder: 0.25,
        };
        assert_eq!(quality, expected);
        quality.set("rate", "none").expect("a rate");
        assert_eq!(quality.rate, None);
    }

    #[test]
    fn what_is_wrong_has_an_example() {
        let wrong = |name: &str, value: &str| Quality::default().set(name, value).expect_err(value);
        assert_eq!(wrong("rate", "1Gb"), "as in rate = \"100Mbit\"");
        assert_eq!(wrong("loss", "2"), "as in loss = 0.01");
        for (name, value) in
            [("rate", "0bit"), ("delay", "5"), ("delay", "-1ms"), ("queue", "1e9"), ("loss", "nan")]
        {
            wrong(name, value);
        }
        assert!(wrong("speed", "1").starts_with("one of up, rate"));
    }
}
