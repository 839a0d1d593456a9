//! The `fulmar` binary.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
#[command(after_help = "Example:\n  fulmar sql birds 'CREATE TABLE sightings(species TEXT, at TEXT)'")]
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

/// How commands end that do not say otherwise in their help.
const STATUSES: &str = "Exit status: 0 done, 1 failed, 2 bad usage.";

/// Has the help of each command say how it ends.
fn with_statuses(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let command = match help.as_str() {
        "" => command.after_help(STATUSES),
        help if help.contains("Exit status: ") => command,
        help => command.after_help(format!("{help}\n\n{STATUSES}")),
    };
    command.mut_subcommands(with_statuses)
}

fn main() -> ExitCode {
    let definition = with_statuses(Arguments::command());
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if let Some(subcommand) = definition.find_subcommand("sql") {
        arguments = sql::Options::with_two_dashes(subcommand, arguments);
    }
    let matches = definition.get_matches_from(arguments);
    match Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with each command that does something, and how it is called.
    fn walk(command: &clap::Command, called: &str, visit: &mut dyn FnMut(&str, &clap::Command)) {
        let is_shown = |one: &&clap::Command| !one.is_hide_set() && one.get_name() != "help";
        for subcommand in command.get_subcommands().filter(is_shown) {
            let called = format!("{called} {}", subcommand.get_name());
            walk(subcommand, &called, visit);
        }
        if !command.is_subcommand_required_set() {
            visit(called, command);
        }
    }

    #[test]
    fn every_help_has_an_example_that_is_not_wrapped_and_says_how_the_command_ends() {
        let mut definition = with_statuses(Arguments::command());
        definition.build();
        walk(&definition, "fulmar", &mut |called, command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Exit status: "), "{called}: {help}");
            assert!(help.contains("Example"), "{called} has no example");
            // Without a terminal, what is longer is wrapped.
            let long = help.lines().find(|line| line.starts_with("  ") && line.chars().count() > 100);
            assert_eq!(long, None, "{called}");
        });
    }

    /// The words of a line, as a shell would have them, up to what begins another command.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for letter in line.chars() {
            match (letter, quote) {
                (_, Some(open)) if letter == open => quote = None,
                ('\'' | '"', None) => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                ('|' | '&' | ';' | '>' | '<' | ')', None) => break,
                ('#', None) if word.is_none() => break,
                (' ', None) => words.extend(word.take()),
                _ => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words
    }

    /// Those in blocks of the console are typed by other tests; those of `sh` take hours, other machines or packages.
    #[test]
    fn every_command_that_a_page_shows_is_taken() {
        let definition = with_statuses(Arguments::command());
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = std::fs::read_dir(root.join("docs")).expect("pages");
        let pages = pages.map(|page| page.expect("a page").path()).chain([root.join("README.md")]);
        let mut taken = 0;
        for page in pages.filter(|page| page.is_file()) {
            let text = std::fs::read_to_string(&page).expect("a page");
            for block in text.split("\n```sh\n").skip(1) {
                let (block, _) = block.split_once("```").expect("the block ends");
                for line in block.lines().filter(|line| line.starts_with("fulmar ")) {
                    let matches = definition.clone().try_get_matches_from(words(line));
                    matches.unwrap_or_else(|error| panic!("{}: {line}\n{error}", page.display()));
                    taken += 1;
                }
            }
        }
        assert!(taken > 5, "{taken}");
    }
}
