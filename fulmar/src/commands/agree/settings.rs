//! What `agree.toml` says.

use fulmar_council::{Council, Member};
use serde::Deserialize;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    name: String,
    tolerates: usize,
    #[serde(default = "round_ms")]
    round_ms: u64,
    #[serde(default = "wait_s")]
    wait_s: u64,
    pub(super) key: PathBuf,
    pub(super) proposal: PathBuf,
    /// Where it listens, if not where the others call it.
    pub(super) listen: Option<String>,
    member: Vec<Named>,
}

/// A member, as files name it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    address: String,
    key: String,
}

/// Three times what a message takes around the world, and what busy machines add.
const fn round_ms() -> u64 {
    2_000
}

/// Until all operators have typed a command.
const fn wait_s() -> u64 {
    600
}

impl Settings {
    pub(super) fn council(&self) -> Result<Council, Box<dyn Error>> {
        let members = self.member.iter().map(|Named { address, key }| {
            let key = key.parse().map_err(|why| format!("the key of {address}: {why}"))?;
            Ok(Member { address: address.clone(), key })
        });
        let members = members.collect::<Result<_, String>>()?;
        Ok(Council::new(self.name.clone(), members, self.tolerates, Duration::from_millis(self.round_ms))?)
    }

    pub(super) const fn patience(&self) -> Duration {
        Duration::from_secs(self.wait_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_documented() {
        crate::reference::require::<Settings>("Settings of `fulmar agree`");
    }
}
