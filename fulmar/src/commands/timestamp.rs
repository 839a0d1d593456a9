//! `fulmar timestamp`: numbers that only grow.

use crate::commands::waiting;
use crate::ending::{BadUsage, exit_code};
use clap::Args;
use fulmar_services::{Application, Charter, Members, TimestampClient};
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::Duration;

/// So long replicas are looked for that may only be about to start.
pub(super) const REACHED: Duration = Duration::from_secs(5);

/// `fulmar timestamp`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar timestamp 10.0.0.1:7500,10.0.0.2:7500,10.0.0.3:7500\n\n\
                        It waits while no majority of the replicas takes part, and says so; it fails if none can be reached for five seconds.")]
pub struct Draw {
    /// All replicas of the service, in any order
    #[arg(value_name = "HOST:PORT,…")]
    members: String,
    /// So many, each on a line
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    count: NonZeroU64,
}

/// Prints the next timestamps.
pub fn run(draw: &Draw) -> ExitCode {
    exit_code(try_run(draw))
}

fn try_run(draw: &Draw) -> Result<(), Box<dyn Error>> {
    let members = Members::new(draw.members.split(',')).map_err(BadUsage::new)?;
    let charter = Charter::find_within(REACHED, Application::Timestamps, &members)?;
    let mut client = TimestampClient::new(&charter)?;
    let mut output = BufWriter::new(io::stdout().lock());
    let mut wanted = Some(draw.count);
    while let Some(count) = wanted {
        let timestamps = waiting::ask(&charter, || client.draw(count))?;
        wanted = NonZeroU64::new(count.get() - (timestamps.end - timestamps.start));
        timestamps.into_iter().try_for_each(|timestamp| writeln!(output, "{timestamp}"))?;
    }
    Ok(output.flush()?)
}
