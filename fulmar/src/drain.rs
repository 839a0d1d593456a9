//! `fulmar drain`: empties a server.

use clap::Args;
use fulmar_dbt::remote::{Cluster, NodeId};
use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// `fulmar drain`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar drain 10.0.0.2:7400\n\n\
                        Exit status: 0 it holds nothing any more and can be stopped, 1 failed, 2 bad usage. If it is \
                        interrupted, the server goes on all the same.")]
pub struct Drain {
    /// The server, as `fulmar status` calls it
    #[arg(value_name = "HOST:PORT")]
    server: String,
}

/// Has the server hand over what it holds, and returns when it has.
pub fn run(drain: &Drain) -> ExitCode {
    match try_run(drain) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(drain: &Drain) -> Result<(), Box<dyn Error>> {
    let address = drain.server.trim_start_matches("fulmar://").trim_end_matches('/');
    let cluster = Cluster::meet(address)?;
    let server = cluster.map.servers.iter().find(|(_, known)| *known == address).map(|(server, _)| *server);
    cluster.drain(address)?;
    let (Some(server), Some(keeper)) = (server, cluster.map.servers.get(&cluster.map.keeper)) else {
        return Ok(());
    };
    let mut before = None;
    while let Some(left) = left(keeper, server)? {
        if before != Some(left) {
            let nodes = if left == 1 { "node" } else { "nodes" };
            eprintln!("{address} still holds {left} {nodes} of trees");
            before = Some(left);
        }
        thread::sleep(Duration::from_millis(200));
    }
    println!("{address} holds nothing any more; stop it whenever you like");
    Ok(())
}

/// How many nodes of trees a server holds; nothing, if it is no longer one of the cluster's.
fn left(keeper: &str, server: NodeId) -> Result<Option<u64>, Box<dyn Error>> {
    let cluster = Cluster::meet(keeper)?;
    let Some(address) = cluster.map.servers.get(&server) else { return Ok(None) };
    let status = cluster.examine(address)?;
    Ok(Some(status.groups.iter().map(|group| group.nodes).sum()))
}
