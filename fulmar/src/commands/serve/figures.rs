//! What a server of databases, or a replica of a service, tells of itself in figures, for Prometheus.

use fulmar_cluster::{NodeId, Report, Server, ShardStatus, Status};
use fulmar_metrics::{Events, Figures, Kind};
use fulmar_services::ReplicaStatus;
use fulmar_transport::{Counters, FIRST_CLIENT, Handle, Notice};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What has happened since the server has begun.
#[derive(Default)]
pub(super) struct Happened {
    events: Events,
    clients: AtomicU64,
}

/// What a server says of itself, and what its databases are called.
struct Said {
    status: Status,
    behind: usize,
    names: BTreeMap<u32, String>,
}

/// A figure that is told of something.
struct Figure<T> {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    value: fn(&T) -> u64,
}

const fn figure<T>(name: &'static str, kind: Kind, about: &'static str, value: fn(&T) -> u64) -> Figure<T> {
    Figure { name, kind, about, value }
}

/// What is told of each shard that is open.
const SHARDS: [Figure<ShardStatus>; 5] = [
    figure("fulmar_shard_reads_total", Kind::Counter, "Reads since the shard was opened.", |shard| {
        shard.reads
    }),
    figure("fulmar_shard_commits_total", Kind::Counter, "Commits since it was opened.", |shard| {
        shard.commits
    }),
    figure(
        "fulmar_shard_prepared",
        Kind::Gauge,
        "Transactions of several shards that are not decided.",
        |shard| shard.prepared,
    ),
    figure("fulmar_shard_cached_bytes", Kind::Gauge, "Memory for cached data.", |shard| shard.cached),
    figure("fulmar_shard_nodes", Kind::Gauge, "Nodes of trees.", |shard| shard.nodes),
];

/// What connections have carried since the server has begun.
const TRAFFIC: [Figure<Counters>; 6] = [
    figure("fulmar_server_connections_total", Kind::Counter, "Connections, begun or accepted.", |counted| {
        counted.connections
    }),
    figure(
        "fulmar_server_messages_sent_total",
        Kind::Counter,
        "Messages to servers and clients.",
        |counted| counted.messages_sent,
    ),
    figure("fulmar_server_messages_received_total", Kind::Counter, "Messages from them.", |counted| {
        counted.messages_received
    }),
    figure("fulmar_server_messages_dropped_total", Kind::Counter, "Messages that nobody took.", |counted| {
        counted.dropped
    }),
    figure("fulmar_server_sent_bytes_total", Kind::Counter, "Bytes that were sent.", |counted| {
        counted.bytes_sent
    }),
    figure("fulmar_server_received_bytes_total", Kind::Counter, "Bytes that came.", |counted| {
        counted.bytes_received
    }),
];

/// What has happened, by the kinds of the log.
const EVENTS: &str = "fulmar_server_events_total";

/// What is told of a replica of a service.
pub(super) fn of_replica(events: &Events, status: Option<ReplicaStatus>) -> Figures {
    let mut figures = Figures::default();
    events.add_to(&mut figures, EVENTS);
    // One that is about to end says no more.
    let Some(status) = status else { return figures };
    let mut add = |name, kind, about, value: u64| {
        figures.family(name, kind, about);
        figures.sample(name, &[], value);
    };
    let takes_part = u64::from(status.view.is_some());
    add("fulmar_replica_takes_part", Kind::Gauge, "1 while it takes part in a view.", takes_part);
    add("fulmar_replica_leads", Kind::Gauge, "1 while it leads its group.", u64::from(status.leads));
    add(
        "fulmar_replica_committed_total",
        Kind::Counter,
        "Operations that are committed.",
        status.committed.0,
    );
    add_traffic(&mut figures, &status.traffic);
    figures
}

fn add_traffic(figures: &mut Figures, counted: &Counters) {
    for Figure { name, kind, about, value } in TRAFFIC {
        figures.family(name, kind, about);
        figures.sample(name, &[], value(counted));
    }
}

impl Happened {
    /// Counts what happens.
    pub(super) fn note(&self, report: Report<'_>) {
        let is_client = |peer: &NodeId| *peer >= FIRST_CLIENT;
        self.events.count(report.kind());
        match report {
            Report::Connection(Notice::Connected { peer, .. }) if is_client(peer) => {
                self.clients.fetch_add(1, Relaxed);
            }
            Report::Connection(Notice::Closed { peer, .. }) if is_client(peer) => {
                // No more are counted off than were counted.
                self.clients.update(Relaxed, Relaxed, |clients| clients.saturating_sub(1));
            }
            _ => {}
        }
    }

    /// What is told to who asks.
    pub(super) fn figures(&self, server: &Handle<Server>) -> Figures {
        let mut figures = Figures::default();
        self.events.add_to(&mut figures, EVENTS);
        let mut gauge = |name, about, value: u64| {
            figures.family(name, Kind::Gauge, about);
            figures.sample(name, &[], value);
        };
        gauge("fulmar_server_clients", "Clients that are connected.", self.clients.load(Relaxed));
        // One that is about to end says no more.
        let (Some(counted), Some(Said { status, behind, names })) = (server.counters(), ask(server)) else {
            return figures;
        };
        gauge(
            "fulmar_server_failures",
            "What takes no part: see `fulmar status`.",
            // Among these is what is behind.
            (status.failures.len() - behind) as u64,
        );
        gauge(
            "fulmar_server_behind",
            "What does not count yet, as it has to hear what others have.",
            behind as u64,
        );
        gauge("fulmar_server_snapshots", "Snapshots that clients hold.", status.snapshots);
        gauge("fulmar_server_shards", "Shards that are served here.", status.shards.len() as u64);
        gauge("fulmar_server_clock", "The cluster's clock, as far as it is known here.", status.now.0);
        gauge("fulmar_server_watermark", "No snapshot of the cluster is older.", status.watermark.0);
        add_traffic(&mut figures, &counted);
        for Figure { name, kind, about, value } in SHARDS {
            figures.family(name, kind, about);
            for shard in &status.shards {
                let database = names.get(&shard.database.0).map_or("", String::as_str);
                let number = shard.shard.0.to_string();
                figures.sample(name, &[("database", database), ("shard", &number)], value(shard));
            }
        }
        figures
    }
}

fn ask(server: &Handle<Server>) -> Option<Said> {
    server.ask(|server, _| {
        let names = &server.map().databases;
        let names = names.iter().map(|(number, placement)| (number.0, placement.name.to_string())).collect();
        Said { status: server.status(), behind: server.behind().len(), names }
    })
}
