//! The `fulmar` binary.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fulmar::commands::agree::{self, Agree};
use fulmar::commands::bench::{self, Bench};
use fulmar::commands::demo::{self, Demo};
use fulmar::commands::discover::{self, Discover};
use fulmar::commands::drain::{self, Drain};
use fulmar::commands::lab::{self, Lab};
use fulmar::commands::lock::{self, Lock};
use fulmar::commands::serve::{self, Serve};
use fulmar::commands::switch::{self, Switch};
use fulmar::commands::timestamp::{self, Draw};
use fulmar::commands::transfer::{self, Transfer};
use fulmar::commands::{fence, sql, status};
use fulmar_net::Net;

/// A server makes and drops a leaf for each change of one: docs/ycsb.md says what this spares.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Fulmar: a SQL database designed together with its network
#[derive(Parser)]
#[command(name = "fulmar", version, arg_required_else_help = true)]
#[command(after_help = "Example:\n  fulmar sql birds 'CREATE TABLE sightings(species TEXT, at TEXT)'\n\n\
                        Exit status: 0 done, 1 failed, 2 bad usage.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A shell for SQL, as people know it from sqlite3
    Sql(sql::Options),
    /// Serves databases to clients on other machines, or timestamps or locks
    Serve(Serve),
    /// Agrees with other machines on a cluster's configuration, in spite of some that lie
    Agree(Agree),
    /// Tries a cluster: three servers on this machine, a sample database, a shell
    Demo(Demo),
    /// Finds all members of a network, from the addresses of some
    Discover(Discover),
    /// Says what a cluster's servers are doing
    Status(status::Options),
    /// Draws timestamps from the replicas that serve them
    Timestamp(Draw),
    /// Runs a command while it holds a lock of the replicas that serve locks
    Lock(Lock),
    /// Runs a command unless its lock has had a later holder
    Fence(fence::Options),
    /// Moves all that a server of a cluster holds to the others
    Drain(Drain),
    /// Runs virtual switches, or says what they do with packets
    Switch(Switch),
    #[command(flatten)]
    Transfer(Transfer),
    /// Small networks on this machine, for tests and for trying things out
    #[command(subcommand)]
    Net(Net),
    /// Measures Fulmar beside what people use today
    #[command(subcommand)]
    Bench(Bench),
    /// Runs what papers have measured again, beside what they say
    #[command(subcommand)]
    Lab(Lab),
}

fn main() -> ExitCode {
    let definition = Arguments::command();
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if let Some(subcommand) = definition.find_subcommand("sql") {
        arguments = sql::Options::with_two_dashes(subcommand, arguments);
    }
    match Arguments::parse_from(arguments).command {
        Command::Sql(options) => sql::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Agree(agree) => agree::run(&agree),
        Command::Demo(demo) => demo::run(&demo),
        Command::Discover(discover) => discover::run(&discover),
        Command::Status(options) => status::run(&options),
        Command::Timestamp(draw) => timestamp::run(&draw),
        Command::Lock(lock) => lock::run(&lock),
        Command::Fence(options) => fence::run(&options),
        Command::Drain(options) => drain::run(&options),
        Command::Switch(switch) => switch::run(&switch),
        Command::Transfer(transfer) => transfer::run(&transfer),
        Command::Net(net) => fulmar_net::command(net),
        Command::Bench(bench) => bench::run(bench),
        Command::Lab(lab) => lab::run(&lab),
    }
}
