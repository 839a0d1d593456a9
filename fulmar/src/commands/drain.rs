//! `fulmar drain`: empties a server.

use crate::commands::status::server;
use crate::ending::exit_code;
use clap::Args;
use fulmar_cluster::{Cluster, DrainError, NodeId, ShardStatus};
use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// How often the cluster is asked.
const PAUSE: Duration = Duration::from_millis(200);
/// For so long another may take to keep the map.
const PATIENCE: Duration = Duration::from_secs(10);

/// `fulmar drain`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar drain 10.0.0.2:7400\n\n\
                        Exit status: 0 it holds nothing any more and can be stopped, 1 failed, 2 bad usage. If it is \
                        interrupted, the server goes on all the same.")]
pub struct Drain {
    /// The server, as `fulmar status` calls it
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// Another server of the cluster, to be asked if that one does not answer
    #[arg(long, value_name = "HOST:PORT")]
    ask: Option<String>,
}

/// Has the server hand over what it holds, and returns when it has.
pub fn run(drain: &Drain) -> ExitCode {
    exit_code(try_run(drain))
}

fn try_run(drain: &Drain) -> Result<(), Box<dyn Error>> {
    let address = &server(&drain.server)?;
    let ask = drain.ask.as_deref().map(server).transpose()?;
    let cluster = request(address, ask.as_ref().unwrap_or(address))?;
    let server = cluster.map.servers.iter().find(|(_, known)| *known == address).map(|(server, _)| *server);
    let Some(server) = server else { return Ok(()) };
    let mut said = String::new();
    while let Some(left) = left(&cluster, server)? {
        let left = format!("{address} still holds {left}");
        if said != left {
            eprintln!("{left}");
            said = left;
        }
        thread::sleep(PAUSE);
    }
    println!("{address} holds nothing any more; stop it whenever you like");
    Ok(())
}

/// Asks for it, also if whoever keeps the cluster's map is gone, and another is about to.
fn request(address: &str, ask: &str) -> Result<Cluster, DrainError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let cluster = Cluster::meet(ask)?;
        match cluster.drain(address) {
            Err(DrainError::Connect(_)) if cluster.map.records.is_some() && Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            asked => return asked.map(|()| cluster),
        }
    }
}

/// What a server holds; nothing, if it is no longer one of the cluster's. Any other of these may have failed.
fn left(cluster: &Cluster, server: NodeId) -> Result<Option<String>, Box<dyn Error>> {
    let others = cluster.map.servers.iter().filter(|(other, _)| **other != server);
    let mut failure = "there is no other server".into();
    for (_, address) in others {
        match cluster.now(address) {
            Ok(now) => return Ok(now.map.servers.get(&server).map(|_| held(&now, server))),
            Err(why) => failure = why.to_string(),
        }
    }
    Err(failure.into())
}

fn held(cluster: &Cluster, server: NodeId) -> String {
    let counted = |count, one, more| format!("{count} {}", if count == 1 { one } else { more });
    let replicas = cluster.map.replicas_left(server) as u64;
    let is_alone = |shard: &&ShardStatus| !cluster.map.is_replicated(shard.database, shard.shard);
    match cluster.examine(server) {
        Ok(status) => {
            let nodes = status.shards.iter().filter(is_alone).map(|shard| shard.nodes).sum();
            let replicas = counted(replicas, "replica", "replicas");
            format!("{} of trees, and {replicas} of shards", counted(nodes, "node", "nodes"))
        }
        // It is not needed for others to have its replicas.
        Err(_) => format!("{} of shards, and does not answer", counted(replicas, "replica", "replicas")),
    }
}
