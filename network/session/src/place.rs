//! A target while there is one: where sessions come from.

use crate::attempts::{Attempts, State};
use crate::interest::Kind;
use crate::signal::Stop;
use crate::target::Target;
use crate::tls::TlsFiles;
use fulmar_openflow::Version;
use fulmar_openflow::role::Role;
use parking_lot::Mutex;
use std::io;
use std::time::Duration;

/// How connections of a target are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest time between calls, a second at least (`max_backoff`).
    pub max_backoff: Duration,
    /// After so long a silence the other side is asked whether it is there, and given up after another (`inactivity_probe`); never, if
    /// there is none.
    pub inactivity: Option<Duration>,
    /// Keys and certificates, which `ssl` and `pssl` need.
    pub tls: Option<TlsFiles>,
    /// The versions that are spoken.
    pub versions: Vec<Version>,
}

impl Default for Settings {
    /// As Open vSwitch has it: 8 seconds, and 5 seconds; all versions that there are here.
    fn default() -> Self {
        let (max_backoff, inactivity) = (Duration::from_secs(8), Duration::from_secs(5));
        let versions = Version::ALL.to_vec();
        Self { max_backoff, inactivity: Some(inactivity), tls: None, versions }
    }
}

impl Settings {
    pub(crate) fn tls(&self) -> io::Result<&TlsFiles> {
        let missing =
            "it needs a private key, a certificate and an authority's: set them (ovs-vsctl set-ssl)";
        self.tls.as_ref().ok_or_else(|| io::Error::other(missing))
    }
}

/// How it is with a target, for the database's table `Controller`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The target.
    pub target: Target,
    /// Whether there is a session.
    pub is_connected: bool,
    /// What role its session has; of several, the first one's.
    pub role: Option<Role>,
    /// What went wrong the last time.
    pub last_error: Option<String>,
    /// What is happening.
    pub state: State,
    /// For how long it has been connected, or how long ago it was last.
    pub since_connect: Option<Duration>,
    /// How long ago a connection has ended.
    pub since_disconnect: Option<Duration>,
    /// How many packets its sessions were not told of, as they do not read as fast as those come.
    pub dropped_packets: u64,
    /// At which port of TCP it listens, if it does.
    pub port: Option<u16>,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    pub(crate) attempts: Mutex<Attempts>,
    /// At which port it listens.
    pub(crate) port: Mutex<Option<u16>>,
}

impl Place {
    pub(crate) fn new(kind: Kind, target: Target, settings: Settings) -> io::Result<Self> {
        let attempts = Mutex::new(Attempts::new(settings.max_backoff));
        Ok(Self { kind, target, settings, stop: Stop::new()?, attempts, port: Mutex::new(None) })
    }
}
