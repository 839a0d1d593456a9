//! What clients do: YCSB's core workloads, and a few that isolate one thing.

use super::Distribution;
use fulmar_node::Random;
use std::fmt;
use std::str::FromStr;

/// The longest scan, in records; the shortest is one.
pub(super) const LONGEST_SCAN: u64 = 100;

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of what is new, insertions.
    D,
    /// 95 % short scans, insertions.
    E,
    /// Half reads, half reads with an update of what was read.
    F,
    /// Updates only.
    Update,
    /// Insertions into one table, whose keys the database chooses, each larger than those before.
    Insert,
    /// The same, each client into a table of its own.
    Inserts,
}

/// One step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
    Append { own_table: bool },
}

impl Workload {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 9] =
        [Self::C, Self::Update, Self::A, Self::B, Self::D, Self::E, Self::F, Self::Insert, Self::Inserts];

    /// Its name, as it is given and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Inserts => "inserts",
        }
    }

    /// What it consists of, for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::A => "50 % reads, 50 % updates",
            Self::B => "95 % reads, 5 % updates",
            Self::C => "reads",
            Self::D => "95 % reads of the latest, 5 % insertions",
            Self::E => "95 % scans of 1 to 100, 5 % insertions",
            Self::F => "50 % reads, 50 % reads and updates of the same",
            Self::Update => "updates",
            Self::Insert => "insertions into one table, growing keys",
            Self::Inserts => "insertions, a table for each client",
        }
    }

    /// The distributions under which it runs, of those that were asked for.
    pub(super) fn distributions(self, wanted: &[Distribution]) -> Vec<Distribution> {
        match self {
            Self::D => vec![Distribution::Latest],
            Self::Insert | Self::Inserts => vec![Distribution::Uniform],
            _ => wanted.to_vec(),
        }
    }

    pub(crate) fn next(self, random: &mut Random) -> Operation {
        let percent = random.below(100);
        match self {
            Self::A if percent < 50 => Operation::Read,
            Self::A => Operation::Update,
            Self::B if percent < 95 => Operation::Read,
            Self::B => Operation::Update,
            Self::C => Operation::Read,
            Self::D if percent < 95 => Operation::Read,
            Self::D => Operation::Insert,
            Self::E if percent < 95 => Operation::Scan,
            Self::E => Operation::Insert,
            Self::F if percent < 50 => Operation::Read,
            Self::F => Operation::ReadModifyWrite,
            Self::Update => Operation::Update,
            Self::Insert => Operation::Append { own_table: false },
            Self::Inserts => Operation::Append { own_table: true },
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| {
            let mut known: Vec<_> = Self::ALL.iter().map(|workload| workload.name()).collect();
            known.sort_unstable();
            format!("no workload; there are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(workload: Workload, operation: Operation) -> f64 {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| workload.next(&mut random) == operation).count();
        hits as f64 / 100_000.0
    }

    #[test]
    fn mixes_are_those_of_ycsb() {
        for (workload, operation, expected) in [
            (Workload::A, Operation::Read, 0.5),
            (Workload::A, Operation::Update, 0.5),
            (Workload::B, Operation::Read, 0.95),
            (Workload::B, Operation::Update, 0.05),
            (Workload::C, Operation::Read, 1.0),
            (Workload::D, Operation::Read, 0.95),
            (Workload::D, Operation::Insert, 0.05),
            (Workload::E, Operation::Scan, 0.95),
            (Workload::E, Operation::Insert, 0.05),
            (Workload::F, Operation::Read, 0.5),
            (Workload::F, Operation::ReadModifyWrite, 0.5),
        ] {
            let found = share(workload, operation);
            assert!((found - expected).abs() < 0.01, "{workload}: {found} {operation:?}");
        }
    }

    #[test]
    fn a_name_is_read_back() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        let wrong = "g".parse::<Workload>().expect_err("no such workload");
        assert!(wrong.contains("a, b, c, d, e, f, insert, inserts, update"), "{wrong}");
    }
}
