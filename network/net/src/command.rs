//! `fulmar net …`: what people, scripts and tests type.

use crate::control::{Answer, Request, ask};
use crate::namespace::Namespace;
use crate::state::directory;
use crate::{Error, Topology, guard, run, table};
use clap::{Args, Subcommand};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// `fulmar net`
#[derive(Subcommand)]
#[command(after_help = "Example:\n  fulmar net up pair.toml\n  fulmar net exec a -- ping -c 3 10.0.0.2\n  \
                        fulmar net link a s1 loss=0.1 delay=2ms\n  fulmar net down\n\n\
                        with pair.toml:\n  [[host]]\n  name = \"a\"\n  address = \"10.0.0.1/24\"\n\n  \
                        [[host]]\n  name = \"b\"\n  address = \"10.0.0.2/24\"\n\n  \
                        [[switch]]\n  name = \"s1\"\n\n  \
                        [[link]]\n  ends = [\"a\", \"s1\"]\n\n  \
                        [[link]]\n  ends = [\"b\", \"s1\"]\n  rate = \"100Mbit\"\n\n\
                        It needs the rights of root, and `ip` (iproute2).")]
pub enum Net {
    /// Brings a network up
    #[command(after_help = "Example:\n  fulmar net up pair.toml        # `fulmar net --help` shows one")]
    Up(Up),
    /// Runs a command on a host
    Exec(Exec),
    /// Says what there is, and what became of frames
    #[command(after_help = "Example:\n  fulmar net show --json")]
    Show(Show),
    /// Changes links while they run: up, down, or their quality
    #[command(
        after_help = "Example:\n  fulmar net link a s1 loss=0.1 delay=2ms\n  fulmar net link a s1 down"
    )]
    Link(Link),
    /// Ends a network, and all commands that run on its hosts
    #[command(after_help = "Example:\n  fulmar net down")]
    Down(Which),
    /// Is a network, which `up` has started
    #[command(hide = true)]
    Run(Up),
    /// Cleans up after a network
    #[command(hide = true)]
    Guard(Stand),
}

/// Which network.
#[derive(Args)]
pub struct Which {
    /// The network's name: there can be several
    #[arg(long, default_value = "net")]
    name: String,
}

/// `fulmar net up`
#[derive(Args)]
pub struct Up {
    /// Hosts, switches and links (docs/net.md)
    topology: PathBuf,
    #[command(flatten)]
    which: Which,
    /// Stay until Ctrl-C instead of going to the background
    #[arg(long)]
    foreground: bool,
}

/// `fulmar net exec`
#[derive(Args)]
#[command(
    after_help = "Example:\n  fulmar net exec a -- ping -c 3 10.0.0.2\n\nExit status: the command's; 125 if there is no such network or host, 126 if the command cannot be run, \
                        127 if it is not found."
)]
pub struct Exec {
    #[command(flatten)]
    which: Which,
    /// The host
    host: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// `fulmar net show`
#[derive(Args)]
pub struct Show {
    #[command(flatten)]
    which: Which,
    /// As a JSON document
    #[arg(long)]
    json: bool,
}

/// `fulmar net link`
#[derive(Args)]
pub struct Link {
    #[command(flatten)]
    which: Which,
    /// One end
    one: String,
    /// The other end
    other: String,
    /// `up`, `down`, or as in a topology: `loss=0.1`, `rate=100Mbit`, `delay=2ms`
    #[arg(required = true)]
    changes: Vec<String>,
}

/// What a guard is told.
#[derive(Args)]
pub struct Stand {
    directory: PathBuf,
}

/// Does what the command says.
#[must_use]
pub fn command(net: Net) -> ExitCode {
    match net {
        Net::Exec(exec) => exec_on(&exec),
        net => match try_command(net) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("Error: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn try_command(net: Net) -> Result<(), Error> {
    match net {
        Net::Up(up) if up.foreground => run(Topology::read(&up.topology)?, &up.which.name, || {
            println!("Network {} is up until Ctrl-C.", up.which.name);
            Ok(())
        }),
        Net::Up(up) => go_up(&up),
        Net::Run(up) => be(&up),
        Net::Exec(_) => unreachable!("it has an exit status of its own"),
        Net::Show(show) => {
            let Answer::Status(status) = ask(&show.which.name, &Request::Show)? else {
                return Err(Error::Refused("the network is another version's: end it with that".into()));
            };
            let text = if show.json { status.to_string() } else { table::of(&status) };
            writeln!(io::stdout(), "{}", text.trim_end()).map_err(Error::cannot("write"))
        }
        Net::Link(link) => {
            let ends = [link.one, link.other];
            ask(&link.which.name, &Request::Link { ends, changes: link.changes }).map(drop)
        }
        Net::Down(which) => ask(&which.name, &Request::Down).map(drop),
        Net::Guard(stand) => guard::stand(&stand.directory),
    }
}

/// Starts a network's process, and leaves when all is up.
fn go_up(up: &Up) -> Result<(), Error> {
    // What is wrong with it is said at once.
    Topology::read(&up.topology)?;
    let name = &up.which.name;
    let mut process = Command::new("/proc/self/exe")
        .arg0("fulmar")
        .args(["net", "run", "--name", name])
        .arg(&up.topology)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::cannot("start the network's process"))?;
    let mut said = String::new();
    if let Some(mut output) = process.stdout.take() {
        output.read_to_string(&mut said).map_err(Error::cannot("hear from the network's process"))?;
    }
    if said.is_empty() {
        let status = process.wait().map_err(Error::cannot("await the network's process"))?;
        return Err(Error::Refused(format!("network {name} is not up ({status})")));
    }
    let option = if name == "net" { String::new() } else { format!(" --name {name}") };
    let host =
        Topology::read(&up.topology)?.hosts.first().map_or_else(|| "HOST".into(), |host| host.name.clone());
    println!("Network {name} is up. Try:");
    println!("  fulmar net exec{option} {host} -- ip address");
    println!("  fulmar net show{option}");
    println!("  fulmar net down{option}");
    Ok(())
}

/// Is a network in the background.
fn be(up: &Up) -> Result<(), Error> {
    let topology = Topology::read(&up.topology)?;
    let log = directory(&up.which.name)?.join("log");
    // It fails if nobody has started it from a terminal: then there is none to leave.
    let _ = rustix::process::setsid();
    run(topology, &up.which.name, || {
        std::env::set_current_dir("/")?;
        println!("up");
        let log = File::create(log)?;
        dup2_stderr(&log)?;
        Ok(dup2_stdout(&log)?)
    })
}

/// Becomes the command, on its host. If that fails, says so as shells do.
fn exec_on(exec: &Exec) -> ExitCode {
    let entered = ask(&exec.which.name, &Request::Host(exec.host.clone())).and_then(|answer| match answer {
        Answer::Host(path) => enter(&path),
        _ => Err(Error::Refused("the network is another version's: end it with that".into())),
    });
    if let Err(error) = entered {
        eprintln!("Error: {error}");
        return ExitCode::from(125);
    }
    let why = Command::new(&exec.command[0]).args(&exec.command[1..]).exec();
    eprintln!("Error: cannot run {}: {why}", exec.command[0].display());
    ExitCode::from(if why.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

fn enter(path: &Path) -> Result<(), Error> {
    Namespace::open(path)
        .and_then(|host| host.enter())
        .map_err(Error::cannot(format!("enter {}", path.display())))
}
