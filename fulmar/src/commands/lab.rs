//! `fulmar lab`: what papers have measured, run again beside what they say.

mod byzantine;
mod discovery;
mod open_vswitch;
mod speculative_paxos;

pub use byzantine::Byzantine;
pub use discovery::Discovery;
pub use open_vswitch::OpenVswitch;
pub use speculative_paxos::SpeculativePaxos;

use crate::ending::exit_code;
use clap::Subcommand;
use std::process::ExitCode;

/// Which paper.
#[derive(Subcommand)]
pub enum Lab {
    /// Byzantine agreement (Abraham and Dolev, STOC 2015): rounds, trees and messages against adversaries, beside older protocols
    #[command(after_help = byzantine::EXAMPLES)]
    Byzantine(Byzantine),
    /// Resource discovery (Haeupler and Malkhi, PODC 2015): rounds, messages and bits, beside four others
    #[command(after_help = discovery::EXAMPLES)]
    Discovery(Discovery),
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
        Lab::Byzantine(paper) => byzantine::run(paper),
        Lab::Discovery(paper) => discovery::run(paper),
        Lab::OpenVswitch(paper) => open_vswitch::run(paper),
        Lab::SpeculativePaxos(paper) => speculative_paxos::run(paper),
    })
}
