//! `fulmar serve`: a storage server, or a replica of a service.

mod beacon;
mod genesis;
mod local;
mod service;
mod settings;

use crate::ending::exit_code;
use crate::files;
use crate::signals;
use beacon::Beacon;
use clap::Args;
use fulmar_dbt::remote::{Cluster, Connection, FIRST, NodeId, Remote, Service, new_cluster, new_server};
use fulmar_dbt::{Database, Directory, Options, Timestamp, Transient, write_whole};
use fulmar_transport::Notice;
use settings::Settings;
pub(crate) use settings::{Agreement as Protocol, Service as Serviced};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Where databases are served if nothing else is said.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7400";

/// `fulmar serve`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar serve --config node.toml &\n  \
                        fulmar sql fulmar://127.0.0.1:7400/birds 'CREATE TABLE sighting(species)'\n\n\
                        with node.toml:\n  data = \"/var/lib/fulmar\"     # the databases; made if there are none\n  \
                        listen = \"127.0.0.1:7400\"   # where to accept connections; port 0 takes a free one\n  \
                        join = \"db1.example:7400\"    # servers of the cluster to be one of, with commas; without it, this is the first\n  \
                        advertise = \"db2.example:7400\" # where others find this server, if not where it listens\n  \
                        cache_mb = 256              # memory for the cached data of each database\n  \
                        discovery = false           # not to be found by `fulmar discover` and by servers that join by way of others\n  \
                        replicas = 3                # on the first server: how many servers hold each row of a new database\n  \
                        replication = \"viewstamped\" # how they agree, or fast-paxos or speculative-paxos\n\n\
                        or, for a service in place of databases (the first time with --found, everywhere):\n  \
                        service = \"locks\"           # or timestamps\n  \
                        members = [\"10.0.0.1:7500\", \"10.0.0.2:7500\", \"10.0.0.3:7500\"] # all its replicas\n  \
                        listen = \"10.0.0.1:7500\"   # the one that this is, unless `advertise` says so\n  \
                        data = \"/var/lib/fulmar-locks\"\n  \
                        replication = \"viewstamped\"\n\n\
                        with --genesis, also:\n  council = \"…\"               # whose agreement it is: what `fulmar agree` has printed")]
pub struct Serve {
    /// Settings in TOML
    #[arg(long, value_name = "FILE", required_unless_present_any = ["data", "memory", "local"])]
    config: Option<PathBuf>,
    /// Directory of the databases, instead of the one in the settings
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Keeps the databases in memory: they are gone when the server ends
    #[arg(long, conflicts_with = "data")]
    memory: bool,
    /// Where to accept connections, instead of what the settings say
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Servers of the cluster to be one of, instead of those in the settings
    #[arg(long, value_name = "HOST:PORT[,…]")]
    join: Option<String>,
    /// Founds a service: for the first start of each of its replicas, and never again
    #[arg(long, requires = "config", conflicts_with = "join")]
    found: bool,
    /// Starts only on what was agreed on: on settings that match this file of `fulmar agree`
    #[arg(long, value_name = "FILE", requires = "config", conflicts_with = "local")]
    genesis: Option<PathBuf>,
    /// Serve the database in this directory to the processes of this machine, until it is idle
    #[arg(long, value_name = "DIRECTORY", hide = true, conflicts_with_all = ["config", "data", "listen"])]
    local: Option<PathBuf>,
    /// Memory for the cached data of that database
    #[arg(long, value_name = "BYTES", hide = true, requires = "local")]
    cache_bytes: Option<u64>,
    /// That database's lock was passed on: it is that of the file on standard input
    #[arg(long, hide = true, requires = "local")]
    locked: bool,
    /// A snapshot of that database that is in use
    #[arg(long, value_name = "TIMESTAMP", hide = true, requires = "local")]
    keep: Option<u64>,
}

/// Serves until it is stopped by a signal.
pub fn run(serve: &Serve) -> ExitCode {
    exit_code(try_run(serve))
}

fn try_run(serve: &Serve) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = &serve.local {
        let mut options = Options { create: false, ..Options::default() };
        if let Some(bytes) = serve.cache_bytes {
            options.cache_bytes = bytes;
        }
        if serve.locked {
            options.lock = Some(Arc::new(File::from(io::stdin().as_fd().try_clone_to_owned()?)));
        }
        return local::run(path, &options, serve.keep.map(Timestamp));
    }
    let mut settings = serve.config.as_deref().map_or_else(|| Ok(Settings::default()), files::settings)?;
    settings.join = serve.join.clone().or(settings.join);
    settings.data = serve.data.clone().or(settings.data);
    settings.listen = serve.listen.clone().or(settings.listen);
    if let Some(agreed) = &serve.genesis {
        genesis::require(agreed, &settings)?;
    }
    if let Some(service) = settings.service {
        if serve.memory {
            return Err("`--memory` is for databases, and a replica of a service keeps its records".into());
        }
        return service::run(service, &settings, serve.found);
    }
    if serve.found || settings.members.is_some() {
        return Err("the settings lack `service`, without which nobody is a member or founds anything".into());
    }
    let replication = settings.replication(settings.join.is_some())?;
    let listen = settings.listen.unwrap_or_else(|| DEFAULT_ADDRESS.into());
    let listener =
        TcpListener::bind(&listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr()?;
    let mut options = Options::default();
    if let Some(cache) = settings.cache_mb {
        options.cache_bytes = cache << 20;
    }
    let advertised = settings.advertise.unwrap_or_else(|| address.to_string());
    let known = settings.join.iter().flat_map(|join| join.split(','));
    let mut beacon = if settings.discovery == Some(false) {
        Beacon::off()
    } else {
        Beacon::new(address, &advertised, known)
    };
    let (mut service, what) = if serve.memory {
        let databases = Box::new(Transient::new(options));
        (Service::first(new_cluster()?, databases, &advertised, replication)?, "memory".into())
    } else {
        let data = settings.data.ok_or("the settings lack `data`, a directory")?;
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let mut databases = Box::new(Directory::new(data.clone(), options));
        let service = match settings.join.as_deref() {
            None => {
                let name = cluster(&data)?;
                if let Some(cluster) = Cluster::remembered(name, &mut *databases)? {
                    require_undrained(&cluster, FIRST, &data)?;
                }
                Service::first(name, databases, &advertised, replication)?
            }
            Some(known) => {
                let cluster = find(known, &beacon, &data, &mut databases)?;
                agree(&data, cluster.name)?;
                let name = name(&data)?;
                require_undrained(&cluster, name, &data)?;
                require_own(&advertised, &cluster, name, &data)?;
                Service::other(cluster, name, databases, &advertised)?
            }
        };
        (service, data.display().to_string())
    };
    service.listen(listener)?;
    beacon.serve();
    let (own, known_as) = (address.to_string(), advertised);
    thread::spawn(move || welcome(&own, &known_as));
    let stop = service.handle();
    signals::on(&[signals::SIGINT, signals::SIGTERM], move || stop.stop())?;
    println!("serving {what} on fulmar://{address}");
    let mut unreachable = BTreeMap::new();
    service.run(|notice| {
        let said = notice.to_string();
        match notice {
            // It is tried every second.
            Notice::Unreachable { peer, .. }
                if unreachable.insert(*peer, said.clone()).as_ref() == Some(&said) =>
            {
                return;
            }
            Notice::Connected { peer, .. } => drop(unreachable.remove(peer)),
            _ => {}
        }
        eprintln!("{said}");
    })?;
    beacon.leave();
    Ok(())
}

/// Once this server is on the map: gives the groups that databases have got on it what all their groups have. What fails is
/// tried again, as the other servers may only be about to start.
fn welcome(own: &str, known_as: &str) {
    loop {
        match try_welcome(own, known_as) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => eprintln!("cannot take part in the cluster's databases yet: {why}"),
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Whether it is done.
fn try_welcome(own: &str, known_as: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let Cluster { map, .. } = Cluster::meet(own)?;
    if !map.servers.values().any(|address| address == known_as) {
        return Ok(false);
    }
    for placement in
        map.databases.values().filter(|placement| placement.groups.len() > placement.founded.into())
    {
        let connection = Connection::connect(own, &placement.name, false)?;
        Database::remote(Arc::new(Remote::new(Path::new(own), connection))).welcome_groups()?;
    }
    Ok(true)
}

/// How often a cluster is asked for whose first server may only be about to start, once a second.
const TRIES: u32 = 60;

/// The cluster that one of the servers `HOST:PORT[,…]` is one of, or one of those that are found from there. If none of them answers it is as this server has known it
/// before, if it has.
fn find(
    servers: &str,
    beacon: &Beacon,
    data: &Path,
    directory: &mut Directory,
) -> Result<Cluster, Box<dyn std::error::Error>> {
    let mut said = String::new();
    for attempt in 1.. {
        let mut failure = None;
        let found = beacon.servers();
        for server in servers.split(',').chain(found.iter().map(String::as_str)) {
            match Cluster::meet(server) {
                Ok(cluster) => return Ok(cluster),
                Err(why) => failure = failure.or(Some(why)),
            }
        }
        let Some(why) = failure else { return Err("there is no server to join".into()) };
        if let Some(name) = read_number(&data.join("CLUSTER"))?
            && let Some(cluster) = Cluster::remembered(name, directory)?
        {
            eprintln!("{servers} does not answer ({why}); going on with what was known of the cluster");
            return Ok(cluster);
        }
        if attempt == TRIES {
            return Err(why.into());
        }
        let why = why.to_string();
        if why != said {
            eprintln!("waiting for {servers}, for {TRIES} seconds: {why}");
            said = why;
        }
        thread::sleep(Duration::from_secs(1));
    }
    unreachable!("the last attempt returns")
}

/// Requires that the server has not left the cluster for good.
fn require_undrained(cluster: &Cluster, name: NodeId, data: &Path) -> Result<(), String> {
    if !cluster.map.draining.contains(&name) || cluster.map.servers.contains_key(&name) {
        return Ok(());
    }
    let what = "this server was drained; with another directory it joins the cluster anew";
    Err(format!("{}: {what}", data.display()))
}

/// Requires that no other server of the cluster is known at this address.
fn require_own(address: &str, cluster: &Cluster, name: NodeId, data: &Path) -> Result<(), String> {
    let is_other = |(other, known): &(&NodeId, &String)| **other != name && *known == address;
    let Some((other, _)) = cluster.map.servers.iter().find(is_other) else { return Ok(()) };
    let own = data.join("SERVER");
    Err(format!(
        "{address} is the address of another server of the cluster: each needs one of its own. If this one is to take the \
         place of that, which has lost its data, write its name, {:032x}, to {}",
        other.0,
        own.display()
    ))
}

/// Whether the data belong to this cluster, or to none yet.
fn agree(data: &Path, cluster: u128) -> Result<(), Box<dyn std::error::Error>> {
    let path = data.join("CLUSTER");
    let own = known(&path, || Ok(cluster))?;
    if own == cluster {
        return Ok(());
    }
    Err(format!("{}: these data belong to cluster {own:032x}, and not to {cluster:032x}", path.display())
        .into())
}

/// The name of the cluster that the data belong to, given when there are none yet.
fn cluster(data: &Path) -> Result<u128, Box<dyn std::error::Error>> {
    known(&data.join("CLUSTER"), new_cluster)
}

/// The name of this server, given when it first joins a cluster.
fn name(data: &Path) -> Result<NodeId, Box<dyn std::error::Error>> {
    let name = known(&data.join("SERVER"), || Ok(new_server()?.0.into()))?;
    Ok(NodeId(u32::try_from(name)?))
}

/// The number in this file, which is made if it is not there.
fn known(path: &Path, new: impl FnOnce() -> io::Result<u128>) -> Result<u128, Box<dyn std::error::Error>> {
    if let Some(number) = read_number(path)? {
        return Ok(number);
    }
    let number = new()?;
    write_whole(path, format!("{number:032x}\n").as_bytes())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(number)
}

/// The number in this file, if there is one.
fn read_number(path: &Path) -> Result<Option<u128>, Box<dyn std::error::Error>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let number = u128::from_str_radix(text.trim(), 16).map(Some);
            number.map_err(|_| format!("{}: not a name that was given by fulmar", path.display()).into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}
