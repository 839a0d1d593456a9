//! Which faults, in which order, for how long: all of it follows from the seed.

use fulmar_node::Random;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Servers.
pub const SERVERS: usize = 3;
/// The place of the clients in the network, beside those of the servers.
pub const CLIENTS: usize = SERVERS;

/// What fails. Numbers are places of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL, and started again.
    Kill(usize),
    /// SIGSTOP and SIGCONT.
    Stop(usize),
    /// A server is told to end, and started again.
    End(usize),
    /// Two are killed, and started again.
    KillTwo(usize, usize),
    /// The disk is lost; the server joins again under its name.
    Wipe(usize),
    /// Nothing reaches it, and nothing it sends arrives.
    CutOff(usize),
    /// The same, but clients reach it still.
    CutFromServers(usize),
    /// Two servers do not reach each other.
    CutPair(usize, usize),
    /// What the first sends to the second is lost.
    CutOneWay(usize, usize),
    /// It sends, and hears nobody.
    Deafen(usize),
    /// Connections of living clients are shut.
    BreakConnections,
    /// The disk is full.
    Fill(usize),
    /// Syncs take until it is over.
    Hang(usize),
    /// Every call to the disk fails; the server is started again when the disk is back.
    FailDisk(usize),
    /// The clock leaps by so many seconds, and again when the server is started anew.
    Leap(usize, i64),
    /// All are without power at once, and what they had not synced is lost.
    Power,
    /// It is started again at another address.
    Rename(usize),
    /// All are.
    RenameAll,
    /// All disks are full.
    FillAll,
    /// The processors are busy with something else.
    Busy,
    /// The same, and somebody writes much in each transaction.
    BusyLarge,
}

/// How many kinds there are.
const KINDS: usize = 21;

impl Fault {
    fn draw(kind: usize, random: &mut Random) -> Self {
        let place = random.index(SERVERS);
        let other = (place + 1 + random.index(SERVERS - 1)) % SERVERS;
        match kind {
            0 => Self::Kill(place),
            1 => Self::Stop(place),
            2 => Self::End(place),
            3 => Self::KillTwo(place, other),
            4 => Self::Wipe(place),
            5 => Self::CutOff(place),
            6 => Self::CutFromServers(place),
            7 => Self::CutPair(place, other),
            8 => Self::CutOneWay(place, other),
            9 => Self::Deafen(place),
            10 => Self::BreakConnections,
            11 => Self::Fill(place),
            12 => Self::Hang(place),
            13 => Self::FailDisk(place),
            14 => Self::Leap(place, random.between(-1_000_000, 1_000_000)),
            15 => Self::Power,
            16 => Self::Rename(place),
            17 => Self::RenameAll,
            18 => Self::FillAll,
            19 => Self::Busy,
            _ => Self::BusyLarge,
        }
    }

    /// What kind it is, for figures.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Kill(_) => "killed",
            Self::Stop(_) => "stopped",
            Self::End(_) => "ended by SIGTERM",
            Self::KillTwo(..) => "two killed",
            Self::Wipe(_) => "wiped",
            Self::CutOff(_) => "cut off",
            Self::CutFromServers(_) => "cut off from servers",
            Self::CutPair(..) => "a pair cut",
            Self::CutOneWay(..) => "cut one way",
            Self::Deafen(_) => "deaf",
            Self::BreakConnections => "connections broken",
            Self::Fill(_) => "disk full",
            Self::Hang(_) => "disk hangs",
            Self::FailDisk(_) => "disk fails",
            Self::Leap(..) => "clock leaps",
            Self::Power => "power cut",
            Self::Rename(_) => "renamed",
            Self::RenameAll => "all renamed",
            Self::FillAll => "all disks full",
            Self::Busy => "processors busy",
            Self::BusyLarge => "busy with large commits",
        }
    }
}

/// A fault, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What fails.
    pub fault: Fault,
    /// Until it is healed.
    pub hold: Duration,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for {} ms", self.fault, self.hold.as_millis())
    }
}

/// How servers agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// Each part of the database is on one server only.
    #[default]
    None,
    /// Viewstamped Replication.
    Viewstamped,
    /// Fast Paxos.
    FastPaxos,
    /// Speculative Paxos.
    SpeculativePaxos,
}

impl Replication {
    /// As servers' settings name them.
    const NAMES: [(&str, Self); 4] = [
        ("none", Self::None),
        ("viewstamped", Self::Viewstamped),
        ("fast-paxos", Self::FastPaxos),
        ("speculative-paxos", Self::SpeculativePaxos),
    ];
}

impl FromStr for Replication {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, found)| *found);
        let known = Self::NAMES.map(|(known, _)| known).join(", ");
        found.ok_or_else(|| format!("there is no replication {name:?}: expected one of {known}"))
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, known)| known == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// What of a plan is not drawn.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// How servers agree. Where no other server has what a disk holds, none is wiped.
    pub replication: Replication,
    /// The kinds that there are, with commas between them.
    pub kinds: Option<String>,
    /// How long each fault lasts.
    pub hold: Option<Duration>,
}

/// So many steps. Kinds are dealt from a shuffled deck: none comes twice before all have come.
#[must_use]
pub fn draw(seed: u64, steps: usize, given: &Given) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut deck: Vec<usize> = Vec::new();
    let kinds = (0..KINDS).filter(|kind| {
        let drawn = Fault::draw(*kind, &mut Random::new(0)).kind();
        let may_come = given.replication != Replication::None || drawn != Fault::Wipe(0).kind();
        may_come && given.kinds.as_ref().is_none_or(|given| given.split(',').any(|given| given == drawn))
    });
    let kinds: Vec<_> = kinds.collect();
    let mut step = || {
        if deck.is_empty() {
            deck.clone_from(&kinds);
            for left in (1..deck.len()).rev() {
                deck.swap(left, random.index(left + 1));
            }
        }
        let fault = Fault::draw(deck.pop()?, &mut random);
        // Mostly long enough to have another leader begin, sometimes not.
        let hold = Duration::from_millis([100, 1_200, 1_200, 2_500][random.index(4)]);
        Some(Step { fault, hold: given.hold.unwrap_or(hold) })
    };
    (0..steps).map_while(|_| step()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn replicated() -> Given {
        Given { replication: Replication::Viewstamped, ..Given::default() }
    }

    #[test]
    fn a_seed_gives_one_plan_and_others_another() {
        assert_eq!(draw(7, 50, &replicated()), draw(7, 50, &replicated()));
        assert_ne!(draw(7, 50, &replicated()), draw(8, 50, &replicated()));
    }

    #[test]
    fn all_kinds_come_before_one_comes_again() {
        let kinds: BTreeSet<_> = draw(3, KINDS, &replicated()).iter().map(|step| step.fault.kind()).collect();
        assert_eq!(kinds.len(), KINDS);
    }

    #[test]
    fn what_has_no_replicas_is_not_wiped() {
        assert!(draw(3, 100, &Given::default()).iter().all(|step| step.fault.kind() != "wiped"));
    }

    #[test]
    fn replication_has_names() {
        for (name, replication) in Replication::NAMES {
            assert_eq!((name.parse(), replication.to_string()), (Ok(replication), name.to_owned()));
        }
        let why = "fast".parse::<Replication>().expect_err("there is none");
        assert!(why.contains("expected one of none, viewstamped"), "{why}");
    }

    #[test]
    fn kinds_can_be_asked_for() {
        let hold = Some(Duration::from_secs(7));
        let given = Given { kinds: Some("cut off,killed".into()), hold, ..Given::default() };
        let steps = draw(3, 6, &given);
        assert_eq!(steps.iter().filter(|step| step.fault.kind() == "cut off").count(), 3);
        assert_eq!(steps.iter().filter(|step| step.fault.kind() == "killed").count(), 3);
        assert!(steps.iter().all(|step| step.hold.as_secs() == 7));
        let unknown = Given { kinds: Some("bored".into()), ..Given::default() };
        assert_eq!(draw(3, 5, &unknown), []);
    }
}
