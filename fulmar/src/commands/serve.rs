//! `fulmar serve`: a storage server, or a replica of a service.

mod beacon;
mod data_directory;
mod figures;
mod genesis;
mod local;
mod reach;
mod rights;
mod seek;
mod service;
mod settings;

use crate::descriptors::allow_descriptors;
use crate::ending::{BadUsage, exit_code};
use crate::files::Addresses;
use crate::{files, log, metrics, signals};
use beacon::Beacon;
use clap::Args;
use data_directory::{DataDirectory, Identity};
use figures::Happened;
use fulmar_cluster::{
    Cluster, Connection, Directory, Event, FIRST, NodeId, Remote, Report, Server, Service, ShardOptions,
    Transient, new_cluster,
};
use fulmar_dbt::{Database, Options, Timestamp};
use fulmar_transport::{ClusterId, FIRST_CLIENT, Handle, Notice, Refusal};
use seek::Seeker;
use settings::Settings;
pub(crate) use settings::{Agreement as Protocol, Service as Serviced};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Where databases are served if nothing else is said.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7400";
/// Of so many reasons for which other servers are refused each is said once.
const MOST_REASONS: usize = 100;

/// `fulmar serve`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar serve --config node.toml &\n  \
                        fulmar sql fulmar://127.0.0.1:7400/birds 'CREATE TABLE sighting(species)'\n\n\
                        with node.toml:\n  data = \"/var/lib/fulmar\"     # the databases; made if there are none\n  \
                        listen = \"127.0.0.1:7400\"   # where to accept connections; port 0 takes a free one\n  \
                        join = \"db1.example:7400\"    # servers of the cluster, with commas; else a new server founds one\n  \
                        advertise = \"db2.example:7400\" # where others find this server, if not where it listens\n  \
                        cache_mb = 256              # memory for the cached data of each database\n  \
                        leader_timeout = \"500ms\"    # how long a leader may be silent: 100ms to 10s, else 300ms\n  \
                        discovery = false           # not to be found by `fulmar discover`, nor by servers that join\n  \
                        metrics = \"127.0.0.1:9474\"  # where to tell figures to Prometheus, over HTTP\n  \
                        replicas = 3                # on the first server: how many hold each row of a new database\n  \
                        replication = \"viewstamped\" # how they agree, or fast-paxos or speculative-paxos\n\n\
                        or, for a service in place of databases (the first time with --found, everywhere):\n  \
                        service = \"locks\"           # or timestamps\n  \
                        members = [\"10.0.0.1:7500\", \"10.0.0.2:7500\", \"10.0.0.3:7500\"] # all its replicas\n  \
                        listen = \"10.0.0.1:7500\"   # the one that this is, unless `advertise` says so\n  \
                        data = \"/var/lib/fulmar-locks\"\n  \
                        replication = \"viewstamped\"\n  \
                        leader_timeout = \"500ms\"    # as with databases\n\n\
                        with --genesis, also:\n  council = \"…\"               # whose agreement it is: what `fulmar agree` has printed")]
pub struct Serve {
    /// Settings in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the databases, instead of the one in the settings
    #[arg(long, value_name = "DIRECTORY", required_unless_present_any = ["config", "memory", "local"])]
    data: Option<PathBuf>,
    /// Keeps the databases in memory: they are gone when the server ends
    #[arg(long, conflicts_with = "data")]
    memory: bool,
    /// Where to accept connections, instead of what the settings say
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where others find this server, instead of what the settings say
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Servers of the cluster to be one of, instead of those in the settings
    #[arg(long, value_name = "HOST:PORT[,…]", value_delimiter = ',')]
    join: Vec<String>,
    /// How long the leader of replicas may be silent before this server wants another, 100ms to 10s, instead of what the settings say
    #[arg(long, value_name = "TIME")]
    leader_timeout: Option<String>,
    /// Founds a cluster, or a service: for the first start of its first server, or of each replica, and never again
    #[arg(long, conflicts_with_all = ["join", "memory"])]
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
    allow_descriptors()?;
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
    let _written_at_the_end = log::begin();
    let mut settings = serve.config.as_deref().map_or_else(|| Ok(Settings::default()), files::settings)?;
    if !serve.join.is_empty() {
        settings.join = Some(Addresses(serve.join.clone()));
    }
    settings.data = serve.data.clone().or(settings.data);
    settings.listen = serve.listen.clone().or(settings.listen);
    settings.advertise = serve.advertise.clone().or(settings.advertise);
    settings.leader_timeout = serve.leader_timeout.clone().or(settings.leader_timeout);
    let settings = settings.with_ports()?;
    if let Some(agreed) = &serve.genesis {
        genesis::require(agreed, &settings)?;
    }
    if let Some(service) = settings.service {
        if serve.memory {
            return Err(BadUsage::new(
                "`--memory` is for databases, and a replica of a service keeps its records",
            )
            .into());
        }
        return service::run(service, &settings, serve.found);
    }
    if settings.members.is_some() {
        return Err(BadUsage::new("the settings lack `service`, without which nobody is a member").into());
    }
    let leader_timeout = settings.leader_timeout()?;
    let listen = settings.listen.as_deref().unwrap_or(DEFAULT_ADDRESS);
    let listener =
        TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr()?;
    let advertised = settings.advertise.clone().unwrap_or_else(|| address.to_string());
    reach::require(&listener, &advertised)?;
    let metrics = settings.metrics.as_deref().map(metrics::listen).transpose()?;
    let mut options = ShardOptions { leader_timeout, ..ShardOptions::default() };
    if let Some(cache) = settings.cache_mb {
        options.storage.cache_bytes = cache << 20;
    }
    let beacon = if settings.discovery == Some(false) {
        Beacon::off()
    } else {
        Beacon::new(address, &advertised, settings.join().iter().map(String::as_str))
    };
    let place = Place { advertised: &advertised, beacon: &beacon, founds: serve.found };
    let (mut start, what) = if serve.memory {
        let databases = Box::new(Transient::new(options));
        let cluster = new_cluster()?;
        let service = Service::first(cluster, databases, &advertised, settings.replication()?)?;
        (Start { service, cluster, directory: None, is_unsure: false }, "memory".into())
    } else {
        let data =
            settings.data.as_ref().ok_or_else(|| BadUsage::new("the settings lack `data`, a directory"))?;
        rights::take_those_of_owner(data)?;
        let directory = DataDirectory::open(data)?;
        let databases = Box::new(Directory::new(data.clone(), options));
        (start(directory, databases, &settings, &place)?, data.display().to_string())
    };
    start.service.listen(listener)?;
    let happened = Arc::new(Happened::default());
    let beacon = Arc::new(Mutex::new(beacon));
    seek::locked(&beacon).serve();
    if let Some(metrics) = metrics {
        let (server, happened) = (start.service.handle(), Arc::clone(&happened));
        let found = Arc::clone(&beacon);
        let figures = move || {
            let mut figures = happened.figures(&server);
            seek::locked(&found).add_to(&mut figures);
            figures
        };
        metrics::tell(metrics, figures)?;
    }
    let handle = start.service.handle();
    let seeker = Seeker::start(start.cluster, settings.join().to_vec(), Arc::clone(&beacon), handle.clone());
    let (own, known_as) = (address.to_string(), advertised);
    thread::spawn(move || welcome(&own, &known_as));
    signals::on(&[signals::SIGINT, signals::SIGTERM], start.service.stop())?;
    log::announce(format_args!("serving {what} on fulmar://{address}"));
    let (mut unreachable, mut refused) = (BTreeMap::new(), BTreeSet::new());
    let claim = Claim::default();
    start.service.run(|report| {
        happened.note(report);
        let notice = match report {
            Report::Connection(notice) => notice,
            Report::Server(event @ Event::Fails(_)) => return tracing::warn!(kind = event.kind(), "{event}"),
            Report::Server(event) => return tracing::info!(kind = event.kind(), "{event}"),
        };
        seeker.notice(notice);
        if start.is_unsure {
            claim.notice(notice, &handle);
        }
        // Clients come and go.
        if matches!(notice, Notice::Connected { peer, .. } | Notice::Closed { peer, .. } if *peer >= FIRST_CLIENT)
        {
            return;
        }
        let said = notice.to_string();
        match notice {
            Notice::Connecting { .. } => return,
            // It is tried every second.
            Notice::Unreachable { peer, .. }
                if unreachable.insert(*peer, said.clone()).as_ref() == Some(&said) =>
            {
                return;
            }
            Notice::Connected { peer, .. } => drop(unreachable.remove(peer)),
            // So is this.
            Notice::Refused { call: Some(_), why, .. }
                if refused.len() >= MOST_REASONS || !refused.insert(why.to_string()) =>
            {
                return;
            }
            _ => {}
        }
        tracing::info!(kind = notice.kind(), "{said}");
    })?;
    seek::locked(&beacon).leave();
    match start.directory.zip(claim.ended()) {
        Some((directory, claimed)) => Err(disbanded(&directory, &claimed).into()),
        None => Ok(()),
    }
}

/// What a server needs to begin, beside its directory.
struct Place<'a> {
    advertised: &'a str,
    beacon: &'a Beacon,
    founds: bool,
}

/// A server that is about to begin.
struct Start {
    service: Service,
    cluster: u128,
    /// Its directory, locked; nothing, if it is in memory.
    directory: Option<DataDirectory>,
    /// Whether there may have been another server at this address.
    is_unsure: bool,
}

/// The server that the directory is of; a new one, if it is nobody's.
fn start(
    directory: DataDirectory,
    mut databases: Box<Directory>,
    settings: &Settings,
    place: &Place<'_>,
) -> Result<Start, Box<dyn std::error::Error>> {
    let (join, data) = (settings.join(), directory.path().display().to_string());
    match directory.identity()? {
        Identity::Member(..) if place.founds => Err(format!(
            "{data}: the server has lived before, and a cluster is founded once; start it without `--found`, or, to found \
             another cluster, with an empty directory"
        )
        .into()),
        Identity::Member(cluster, FIRST) => {
            if let Some(known) = Cluster::remembered(cluster, &mut *databases)? {
                require_undrained(&known, FIRST, &data)?;
            }
            first(directory, cluster, databases, settings, place)
        }
        Identity::Member(cluster, name) => {
            settings.require_no_replicas()?;
            let known = match Cluster::remembered(cluster, &mut *databases)? {
                Some(known) => seek::find_again(join, place.beacon, known),
                None if join.is_empty() => {
                    return Err(format!("{data}: this server has not met the others yet, and `join` is missing").into());
                }
                None => seek::find(join, place.beacon)?,
            };
            if known.name != cluster {
                let theirs = known.name;
                return Err(format!("{data}: these data belong to cluster {cluster:032x}, and not to {theirs:032x}").into());
            }
            other(directory, known, name, databases, place)
        }
        Identity::Replacement(name) if join.is_empty() || place.founds => Err(format!(
            "{data}: this directory is to become that of server {name}, which has lost its data, again (it holds the file \
             SERVER and nothing else), and such a server joins the others: name one of them by `join`"
        )
        .into()),
        Identity::Replacement(name) => {
            if name != FIRST {
                settings.require_no_replicas()?;
            }
            let cluster = seek::find(join, place.beacon)?;
            require_replaceable(&cluster, name, &data)?;
            directory.keep_name(name)?;
            other(directory, cluster, name, databases, place)
        }
        Identity::New if join.is_empty() || place.founds => {
            // Its settings are looked at before anything is made.
            settings.replication()?;
            let cluster = directory.found()?;
            first(directory, cluster, databases, settings, place)
        }
        Identity::New => {
            settings.require_no_replicas()?;
            let cluster = seek::find(join, place.beacon)?;
            require_own(place.advertised, &cluster, &directory)?;
            let name = directory.name_server()?;
            other(directory, cluster, name, databases, place)
        }
    }
}

fn first(
    directory: DataDirectory,
    cluster: u128,
    databases: Box<Directory>,
    settings: &Settings,
    place: &Place<'_>,
) -> Result<Start, Box<dyn std::error::Error>> {
    let replication = settings.replication()?;
    let is_unsure = !place.founds;
    let begin = if is_unsure { Service::unsure_first } else { Service::first };
    let service = begin(cluster, databases, place.advertised, replication)?;
    Ok(Start { service, cluster, directory: Some(directory), is_unsure })
}

fn other(
    directory: DataDirectory,
    known: Cluster,
    name: NodeId,
    mut databases: Box<Directory>,
    place: &Place<'_>,
) -> Result<Start, Box<dyn std::error::Error>> {
    let cluster = known.name;
    require_undrained(&known, name, &directory.path().display().to_string())?;
    known.remember(&mut *databases)?;
    directory.join(cluster)?;
    let service = Service::other(known, name, databases, place.advertised)?;
    Ok(Start { service, cluster, directory: Some(directory), is_unsure: false })
}

/// Servers of another cluster that have looked for one of theirs at this address, where a cluster without databases has been
/// founded.
#[derive(Default)]
struct Claim(Arc<Mutex<Option<Claimed>>>);

struct Claimed {
    cluster: ClusterId,
    /// Who looks for whom, and from where.
    by: NodeId,
    wanted: NodeId,
    from: String,
}

impl Claim {
    /// Ends the server if it has nothing yet.
    fn notice(&self, notice: &Notice, handle: &Handle<Server>) {
        let Notice::Refused { address, call: Some((by, wanted)), why: Refusal::Cluster { theirs, .. } } =
            notice
        else {
            return;
        };
        let claimed = Claimed { cluster: *theirs, by: *by, wanted: *wanted, from: address.clone() };
        let (claim, stop) = (Arc::clone(&self.0), handle.clone());
        // It has ended, or is about to.
        let _ = handle.run(move |server, _, _| {
            if server.is_unused() {
                seek::locked(&claim).get_or_insert(claimed);
                stop.stop();
            }
        });
    }

    fn ended(&self) -> Option<Claimed> {
        seek::locked(&self.0).take()
    }
}

/// Takes back that a cluster was founded, and says what to do instead.
fn disbanded(directory: &DataDirectory, claimed: &Claimed) -> String {
    let Claimed { cluster, by, wanted, from } = claimed;
    let data = directory.path().display();
    let left =
        directory.disband().err().map(|why| format!(" (what it has made there could not be removed: {why})"));
    format!(
        "{data}: nothing was there, but server {by} of cluster {cluster} (at {from}) looks for its server {wanted} at this address, \
         so that server has lost its data, or its disk is not mounted; no other cluster is founded{}. To bring it back, if \
         others have replicas of all it had: write its name, {:032x}, to {}, and start it with `--join` and the address of another. To \
         found another cluster here all the same: start it with `--found`",
        left.unwrap_or_default(),
        wanted.0,
        directory.server_file().display()
    )
}

/// Once this server is on the map: gives the shards that databases have got on it what all their shards have. What fails is
/// tried again, as the other servers may only be about to start.
fn welcome(own: &str, known_as: &str) {
    loop {
        match try_welcome(own, known_as) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => tracing::warn!("cannot take part in the cluster's databases yet: {why}"),
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
        map.databases.values().filter(|placement| placement.shards.len() > placement.founded.into())
    {
        let connection = Connection::connect(own, &placement.name, false)?;
        Database::remote(Arc::new(Remote::new(Path::new(own), connection))).welcome_shards()?;
    }
    Ok(true)
}

/// Requires that the server has not left the cluster for good.
fn require_undrained(cluster: &Cluster, name: NodeId, data: &str) -> Result<(), String> {
    if !cluster.map.draining.contains(&name) || cluster.map.servers.contains_key(&name) {
        return Ok(());
    }
    Err(format!("{data}: this server was drained; with another directory it joins the cluster anew"))
}

/// Requires that no other server of the cluster is known at this address.
fn require_own(address: &str, cluster: &Cluster, directory: &DataDirectory) -> Result<(), String> {
    let Some((other, _)) = cluster.map.servers.iter().find(|(_, known)| *known == address) else {
        return Ok(());
    };
    Err(format!(
        "{address} is the address of another server of the cluster: each needs one of its own. If this one is to take the \
         place of that, which has lost its data, write its name, {:032x}, to {}",
        other.0,
        directory.server_file().display()
    ))
}

/// Requires that others have what a server had that has lost its data.
fn require_replaceable(cluster: &Cluster, name: NodeId, data: &str) -> Result<(), String> {
    let map = &cluster.map;
    if map.records.is_none() && map.manager == name {
        return Err(format!(
            "{data}: server {name} kept the cluster's clock and map alone, so nothing can take its place; a backup of its \
             databases can be restored to another cluster"
        ));
    }
    let lost: Vec<_> = map.without_replicas(name).collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{data}: server {name} held parts of {} that have no replicas, so nothing can take its place; a backup of them can be \
         restored to another cluster",
        lost.join(", ")
    ))
}
