//! `fulmar demo`: a cluster of three servers on this machine, a small database on it, and a shell.

mod fail_over;

use crate::ending::failed;
use clap::Args;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

/// Makes the sample: birds, and where they were seen.
const SAMPLE: &str = include_str!("demo.sql");

const DATABASE: &str = "demo";

/// `fulmar demo`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar demo\n  fulmar demo 'SELECT * FROM most_seen LIMIT 3'\n  \
                        fulmar demo --fail-over\n\n\
                        Each server holds all rows. They and all data are gone when the shell ends.")]
pub struct Demo {
    /// Kill a server while rows are written, and tell what became of them, instead of a shell
    #[arg(long, conflicts_with = "statements")]
    fail_over: bool,
    /// Statements to run instead of a shell
    #[arg(value_name = "SQL")]
    statements: Vec<String>,
}

/// A server, which ends with this value.
struct Server {
    process: Child,
    /// `HOST:PORT`.
    address: String,
}

impl Server {
    /// The first says how databases are replicated.
    fn start(data: &Path, join: Option<&str>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        if let Some(known) = join {
            command.args(["--join", known]);
        } else {
            let settings = data.with_extension("toml");
            fs::write(&settings, "replicas = 3\n")?;
            command.arg("--found").arg("--config").arg(settings);
        }
        // Ctrl-C is for the shell.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().rsplit("fulmar://").next().filter(|address| !address.is_empty());
        let started = address.map(str::to_owned);
        let mut server = Self { process, address: started.unwrap_or_default() };
        if server.address.is_empty() {
            let status = server.process.wait()?;
            return Err(io::Error::other(format!("a server does not start: {status}")));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the cluster, makes the sample, and runs a shell or the statements.
pub fn run(demo: &Demo) -> ExitCode {
    try_run(demo).unwrap_or_else(failed)
}

fn try_run(demo: &Demo) -> Result<ExitCode, Box<dyn Error>> {
    let data = tempfile::tempdir()?;
    let first = Server::start(&data.path().join("1"), None)?;
    let second = Server::start(&data.path().join("2"), Some(&first.address))?;
    let third = Server::start(&data.path().join("3"), Some(&first.address))?;
    await_all(&first.address, 3)?;
    // Any of them can tell where the database is.
    let name = format!("fulmar://{},{},{}/{DATABASE}", first.address, second.address, third.address);
    let sample = Command::new(std::env::current_exe()?).args(["sql", &name, SAMPLE]).status()?;
    if !sample.success() {
        return Err("the sample database cannot be made".into());
    }
    if demo.fail_over {
        fail_over::run(&name, [first, second, third]).map_err(|error| error as Box<dyn Error>)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut shell = Command::new(std::env::current_exe()?);
    shell.args(["sql", &name]).args(&demo.statements);
    if demo.statements.is_empty() {
        let addresses = [&first, &second, &third].map(|server| &*server.address);
        println!("Three servers, each with all rows: {}.", addresses.join(", "));
        println!("Database {name}; others may open it, too. Try:");
        println!("  SELECT * FROM most_seen LIMIT 5;");
        println!("  SELECT name, rootpage >> 22 AS \"shard\" FROM sqlite_schema WHERE rootpage > 0;");
        println!("and in another terminal: fulmar status {}", first.address);
    }
    let status = shell.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Waits until the first server has all on its map, and no longer keeps that alone: a database that is made before has a part
/// on fewer.
fn await_all(first: &str, servers: usize) -> Result<(), Box<dyn Error>> {
    const TRIES: u32 = 200;
    for _ in 0..TRIES {
        let map = fulmar_cluster::Cluster::meet(first)?.map;
        if map.servers.len() == servers && map.managers().len() == servers {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err("the servers do not find each other".into())
}
