//! `fulmar lab`: what papers have measured, run again beside what they say.

mod open_vswitch;
mod speculative_paxos;

pub use open_vswitch::OpenVswitch;
pub use speculative_paxos::SpeculativePaxos;

use crate::bench::exit_code;
use clap::Subcommand;
use std::process::ExitCode;

/// Which paper.
#[derive(Subcommand)]
pub enum Lab {
    /// Open vSwitch (Pfaff and others, NSDI 2015): optimisations of classification, caches, tuples
    #[command(after_help = open_vswitch::EXAMPLES)]
    OpenVswitch(OpenVswitch),
    /// Speculative Paxos (Ports and others, NSDI 2015): cost, throughput, reordering, rollback
    #[command(after_help = speculative_paxos::EXAMPLES)]
    SpeculativePaxos(SpeculativePaxos),
}

/// Runs it again and prints what comes of it.
pub fn run(lab: &Lab) -> ExitCode {
    exit_code(match lab {
        Lab::OpenVswitch(paper) => open_vswitch::run(paper),
        Lab::SpeculativePaxos(paper) => speculative_paxos::run(paper),
    })
}
