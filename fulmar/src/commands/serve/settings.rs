//! What `node.toml` says.

use crate::ending::BadUsage;
use crate::files::Addresses;
use fulmar_cluster::{Protocol, Replication, with_port};
use fulmar_replication::LeaderTimeout;
use fulmar_services::Application;
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) data: Option<PathBuf>,
    pub(super) listen: Option<String>,
    pub(super) advertise: Option<String>,
    pub(super) join: Option<Addresses>,
    pub(super) cache_mb: Option<u64>,
    pub(super) replicas: Option<u16>,
    /// Where figures are told.
    pub(super) metrics: Option<String>,
    /// Whether others can find this server; they can if nothing is said.
    pub(super) discovery: Option<bool>,
    /// What is served, if not databases…
    pub(super) service: Option<Service>,
    /// …and where all of its replicas are.
    pub(super) members: Option<Addresses>,
    #[serde(default)]
    pub(super) replication: Agreement,
    /// How long a leader may be silent.
    pub(super) leader_timeout: Option<String>,
    /// Whose agreement `--genesis` is to be: the digest of its council.
    pub(super) council: Option<String>,
}

/// How replicas agree.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Agreement {
    #[default]
    Viewstamped,
    FastPaxos,
    SpeculativePaxos,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewstamped => "viewstamped",
            Self::FastPaxos => "fast-paxos",
            Self::SpeculativePaxos => "speculative-paxos",
        })
    }
}

impl From<Agreement> for Protocol {
    fn from(agreement: Agreement) -> Self {
        match agreement {
            Agreement::Viewstamped => Self::Viewstamped,
            Agreement::FastPaxos => Self::Fast,
            Agreement::SpeculativePaxos => Self::Speculative,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Service {
    Timestamps,
    Locks,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timestamps => "timestamps",
            Self::Locks => "locks",
        })
    }
}

impl From<Service> for Application {
    fn from(service: Service) -> Self {
        match service {
            Service::Timestamps => Self::Timestamps,
            Service::Locks => Self::Locks,
        }
    }
}

impl Settings {
    /// Servers of the cluster.
    pub(super) fn join(&self) -> &[String] {
        self.join.as_ref().map_or(&[], |join| &join.0)
    }

    /// Says the ports of servers of databases where none are, and requires addresses: whatever stands for none now may do so when networks
    /// are up.
    pub(super) fn with_ports(mut self) -> Result<Self, BadUsage> {
        if self.service.is_none() {
            let join = self.join.iter_mut().flat_map(|join| &mut join.0).map(|address| ("join", address));
            let own = [("listen", &mut self.listen), ("advertise", &mut self.advertise)];
            let own = own.into_iter().filter_map(|(name, address)| Some((name, address.as_mut()?)));
            for (name, address) in join.chain(own) {
                *address = with_port(address).ok_or_else(|| {
                    let several = if name == "join" { ", or several with commas between them" } else { "" };
                    BadUsage::new(format_args!(
                        "{name} = \"{address}\": expected HOST:PORT, such as 10.0.0.1:7400{several}"
                    ))
                })?;
            }
        }
        Ok(self)
    }

    /// How long leaders of shards may be silent, as far as this server is concerned.
    pub(super) fn leader_timeout(&self) -> Result<LeaderTimeout, BadUsage> {
        let Some(text) = &self.leader_timeout else { return Ok(LeaderTimeout::default()) };
        text.parse().map_err(BadUsage::new)
    }

    /// How new databases are to be replicated.
    pub(super) fn replication(&self) -> Result<Replication, BadUsage> {
        let Some(replicas) = self.replicas else { return Ok(Replication::default()) };
        if replicas % 2 == 0 {
            let enough = replicas.max(2) - 1;
            return Err(BadUsage::new(format_args!(
                "replicas = {replicas}: a majority must survive a failure, and of {replicas} no more may fail than of \
                 {enough}; expected an odd number, such as 3"
            )));
        }
        Ok(Replication { replicas, protocol: self.replication.into() })
    }

    /// Requires that they leave to the first server what is its to say.
    pub(super) fn require_no_replicas(&self) -> Result<(), BadUsage> {
        match self.replicas {
            Some(_) => Err(BadUsage::new(
                "`replicas` is for the first server of a cluster to say, and this one joins it as a new server: remove it; or, \
                     if it is a server that has lost its disk, write its name to the file SERVER in its directory",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_documented() {
        crate::reference::require::<Settings>("Settings of `fulmar serve`");
    }

    #[test]
    fn settings_that_pages_show_are_settings() {
        for page in [
            include_str!("../../../../docs/server.md"),
            include_str!("../../../../docs/replication.md"),
            include_str!("../../../../docs/install.md"),
        ] {
            let blocks: Vec<_> = page.split("```toml\n").skip(1).collect();
            assert!(!blocks.is_empty());
            for block in blocks {
                let (text, _) = block.split_once("```").expect("the block ends");
                toml::from_str::<Settings>(text).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}
