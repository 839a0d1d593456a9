//! A program with the commands of `fulmar net`, and no others: what the tests of this crate run.

use clap::{Parser, Subcommand};
use fulmar_net::Net;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Small networks on this machine
    #[command(subcommand)]
    Net(Net),
}

fn main() -> ExitCode {
    let Command::Net(net) = Arguments::parse().command;
    fulmar_net::command(net)
}
