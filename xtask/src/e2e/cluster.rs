//! A cluster on loopback for a suite's databases.

use crate::run::Result;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SERVERS: usize = 3;

/// Three servers, which are killed with this value.
pub(super) struct Cluster(Vec<Server>);

struct Server {
    process: Child,
    /// `HOST:PORT`.
    address: String,
}

impl Cluster {
    /// Starts them: servers of `program`.
    pub(super) fn start(program: &Path) -> Result<Self> {
        let data = crate::run::target().join("e2e/servers");
        if data.exists() {
            std::fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        }
        let mut servers: Vec<Server> = Vec::new();
        for n in 0..SERVERS {
            let mut command = Command::new(program);
            command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.join(n.to_string()));
            if let Some(first) = servers.first() {
                command.args(["--join", &first.address]);
            }
            servers.push(Server::start(command)?);
        }
        // Whoever is not on the map yet would hold nothing; and of who has just joined it may be said that it takes no part yet.
        let all = format!("{SERVERS} servers");
        let mut told = String::new();
        for _ in 0..1_000 {
            let mut status = Command::new(program);
            status.args(["status", &servers[0].address]);
            let output = status.output().map_err(|error| format!("{status:?}: {error}"))?;
            told = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && told.contains(&all) {
                return Ok(Self(servers));
            }
            std::thread::yield_now();
        }
        Err(format!("three servers do not come to be one cluster:\n{told}"))
    }

    pub(super) fn addresses(&self) -> String {
        self.0.iter().map(|server| server.address.as_str()).collect::<Vec<_>>().join(",")
    }
}

impl Server {
    fn start(mut command: Command) -> Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| format!("{command:?}: {error}"))?;
        }
        match line.trim().rsplit_once("fulmar://") {
            Some((_, address)) => Ok(Self { process, address: address.into() }),
            None => Err(format!("{command:?}: does not start")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
