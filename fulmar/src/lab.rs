//! `fulmar lab`: what papers have measured, run again beside what they say.

mod speculative_paxos;

pub use speculative_paxos::SpeculativePaxos;

use crate::bench::exit_code;
use clap::Subcommand;
use std::process::ExitCode;

/// Which paper.
#[derive(Subcommand)]
pub enum Lab {
    /// Speculative Paxos (Ports and others, NSDI 2015): cost, throughput, reordering, rollback
    #[command(after_help = speculative_paxos::EXAMPLES)]
    SpeculativePaxos(SpeculativePaxos),
}

/// Runs it again and prints what comes of it.
pub fn run(lab: &Lab) -> ExitCode {
    exit_code(match lab {
        Lab::SpeculativePaxos(paper) => speculative_paxos::run(paper),
    })
}
