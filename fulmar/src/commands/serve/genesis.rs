//! Whether a node's settings are those that were agreed on.

use super::DEFAULT_ADDRESS;
use super::settings::Settings;
use crate::commands::agree::{Agreed, Cluster, Own};
use std::error::Error;
use std::path::Path;

/// Requires that the settings match what is in a file of `fulmar agree`, which must be of the council that they name.
pub(super) fn require(path: &Path, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let agreed = Agreed::read(path)?;
    let council = agreed.council().digest().to_string();
    match &settings.council {
        None => {
            return Err(format!(
                "the settings lack `council`, whose agreement {} is to be: it is of council {council}, which `fulmar agree` \
                 has printed where it ran",
                path.display()
            )
            .into());
        }
        Some(named) if *named != council => {
            return Err(format!(
                "{} is of council {council}, and these settings name {named}: it was agreed on by others, or about \
                 something else",
                path.display()
            )
            .into());
        }
        Some(_) => {}
    }
    let refused =
        |why: &dyn std::fmt::Display| format!("not what was agreed on in {}: {why}", path.display());
    let cluster = Cluster::parse(agreed.configuration()).map_err(|why| refused(&why))?;
    let address = settings.advertise.as_deref().or(settings.listen.as_deref()).unwrap_or(DEFAULT_ADDRESS);
    let own = Own {
        address,
        join: settings.join.as_ref().map(|join| &join.0[..]),
        members: settings.members.as_ref().map(|members| &members.0[..]),
        service: settings.service,
        replicas: settings.replicas,
        replication: settings.replication,
    };
    cluster.require(&own).map_err(|why| refused(&why))?;
    Ok(())
}
