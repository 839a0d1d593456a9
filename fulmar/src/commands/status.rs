//! `fulmar status`: what a cluster's servers are doing.

use crate::ending::{BadUsage, failed};
use clap::Args;
use fulmar_cluster::{Cluster, NodeId, Status, with_port};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

/// `fulmar status`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar status 127.0.0.1:7400\n\n\
                        Exit status: 0 all servers answer and take part, 1 one does not, 2 bad usage.")]
pub struct Options {
    /// A server of the cluster
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// One object a line: of the cluster, of each server, and of each shard
    #[arg(long)]
    json: bool,
}

/// Asks all servers, and prints what they say.
pub fn run(options: &Options) -> ExitCode {
    let server = match server(&options.server) {
        Ok(server) => server,
        Err(why) => return failed(why),
    };
    let cluster = match Cluster::meet(&server) {
        Ok(cluster) => cluster,
        Err(error) => return failed(error),
    };
    let told: BTreeMap<NodeId, Result<Status, String>> = cluster
        .map
        .servers
        .keys()
        .map(|name| (*name, cluster.examine(*name).map_err(|error| error.to_string())))
        .collect();
    let out = &mut io::stdout().lock();
    let printed =
        if options.json { print_json(out, &cluster, &told) } else { print_table(out, &cluster, &told) };
    // Who reads it may have had enough.
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return failed(error);
    }
    let is_well =
        |told: &Result<Status, String>| told.as_ref().is_ok_and(|status| status.failures.is_empty());
    if told.values().all(is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The server's `HOST:PORT`, which is said as such, without its port, or as the beginning of a database's name.
pub(crate) fn server(text: &str) -> Result<String, BadUsage> {
    let address = text.trim_start_matches("fulmar://").trim_end_matches('/');
    with_port(address).ok_or_else(|| {
        BadUsage::new(format_args!("`{text}` is no server: expected HOST:PORT, such as 10.0.0.1:7400"))
    })
}

/// Where the cluster's clock is, as far as any server knows.
fn clock(told: &BTreeMap<NodeId, Result<Status, String>>) -> u64 {
    told.values().flatten().map(|status| status.now.0).max().unwrap_or(0)
}

fn print_table(
    out: &mut impl Write,
    cluster: &Cluster,
    told: &BTreeMap<NodeId, Result<Status, String>>,
) -> io::Result<()> {
    writeln!(out, "cluster {:032x}, {} servers, clock {}", cluster.name, told.len(), clock(told))?;
    writeln!(out)?;
    writeln!(out, "{:<24} {:>10} {:>10} {:>8}", "server", "snapshots", "lag", "shards")?;
    for (name, status) in told {
        let address = &cluster.map.servers[name];
        match status {
            Ok(status) => {
                let lag = clock(told) - status.now.0;
                let held = cluster.map.databases.values().flat_map(|placement| &placement.shards);
                let shards = held.filter(|server| *server == name).count();
                let note = match name {
                    _ if cluster.map.draining.contains(name) => "  being drained",
                    _ if *name == cluster.map.manager => "  keeps the clock and the map",
                    _ if cluster.map.managers().contains(name) => "  may come to keep them",
                    _ => "",
                };
                writeln!(out, "{address:<24} {:>10} {lag:>10} {shards:>8}{note}", status.snapshots)?;
                for failure in &status.failures {
                    writeln!(out, "{:<24} {failure}", "")?;
                }
            }
            Err(error) => writeln!(out, "{address:<24} does not answer: {error}")?,
        }
    }
    writeln!(out)?;
    writeln!(
        out,
        "{:<24} {:>5} {:<24} {:>8} {:>10} {:>10} {:>9} {:>10}",
        "database", "shard", "server", "nodes", "reads", "commits", "prepared", "cached MB"
    )?;
    for (number, placement) in &cluster.map.databases {
        for (shard, server) in placement.shards.iter().enumerate() {
            let address = cluster.map.servers.get(server).map_or("unknown", String::as_str);
            let status = told.get(server).and_then(|status| status.as_ref().ok());
            let open = status.and_then(|status| {
                let is_it = |g: &&fulmar_cluster::ShardStatus| {
                    g.database == *number && usize::from(g.shard.0) == shard
                };
                status.shards.iter().find(is_it)
            });
            write!(out, "{:<24} {shard:>5} {address:<24} ", placement.name)?;
            match open {
                Some(g) => writeln!(
                    out,
                    "{:>8} {:>10} {:>10} {:>9} {:>10}",
                    g.nodes,
                    g.reads,
                    g.commits,
                    g.prepared,
                    g.cached.div_ceil(1 << 20)
                ),
                None => writeln!(out, "not in use"),
            }?;
        }
    }
    Ok(())
}

fn print_json(
    out: &mut impl Write,
    cluster: &Cluster,
    told: &BTreeMap<NodeId, Result<Status, String>>,
) -> io::Result<()> {
    let address = |server| cluster.map.servers.get(&server);
    writeln!(
        out,
        "{}",
        serde_json::json!({
            "cluster": format!("{:032x}", cluster.name), "servers": told.len(), "clock": clock(told),
            "manager": address(cluster.map.manager),
            "managers": cluster.map.managers().into_iter().map(address).collect::<Vec<_>>(),
        })
    )?;
    for (name, status) in told {
        let address = &cluster.map.servers[name];
        match status {
            Ok(status) => {
                writeln!(
                    out,
                    "{}",
                    serde_json::json!({
                        "server": address, "now": status.now.0, "watermark": status.watermark.0,
                        "snapshots": status.snapshots, "failures": status.failures,
                    })
                )?;
                for g in &status.shards {
                    let database = cluster.map.databases.get(&g.database).map(|placement| &*placement.name);
                    writeln!(
                        out,
                        "{}",
                        serde_json::json!({
                            "server": address, "database": database, "shard": g.shard.0, "nodes": g.nodes, "reads": g.reads,
                            "commits": g.commits, "prepared": g.prepared, "cached_bytes": g.cached,
                        })
                    )?;
                }
            }
            Err(error) => writeln!(out, "{}", serde_json::json!({"server": address, "error": error}))?,
        }
    }
    Ok(())
}
