//! Switches, their configuration database, and the sockets by which both are reached.

use crate::appctl::Appctl;
use crate::clock::Clock;
use crate::event::{Event, EventKind, Report};
use crate::metrics;
use crate::switches::{Bridges, DATABASE, Switches, wanted};
use fulmar_metrics::Events;
use fulmar_ovsdb::{Datum, Handle, OpenError, Service, Store, chance, open_vswitch};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

/// What `fulmar switch` is told, as TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Where the configuration database and the sockets are.
    pub directory: PathBuf,
    /// Where the database is served besides, as `HOST:PORT`: who can reach it may change everything.
    pub database: Option<String>,
    /// Where figures are served for Prometheus, as `HOST:PORT`.
    pub metrics: Option<String>,
    /// How many threads move packets, for each bridge; if it is not said, one for every four cores, and two at least if there are two.
    pub threads: Option<NonZeroUsize>,
    /// Bridges that are to be there, besides those that the database has.
    #[serde(default, rename = "bridge")]
    pub bridges: Vec<BridgeConfig>,
}

/// A bridge that is to be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BridgeConfig {
    /// Its name.
    pub name: String,
    /// Interfaces that are its ports, numbered from 1.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Its controllers, as `tcp:127.0.0.1:6653`.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// `standalone` or `secure`.
    pub fail_mode: Option<String>,
}

/// Why switches do not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file says something that cannot be.
    #[error("{path}: {why}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something that is needed cannot be had.
    #[error("{what}: {why}")]
    Needs {
        /// What.
        what: String,
        /// Why not.
        why: io::Error,
    },
    /// The database cannot be opened.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// The database does not take what the file asks for.
    #[error("the configuration database refuses what the file asks for: {0}")]
    Refused(fulmar_ovsdb::Error),
}

fn needs(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    |why| StartError::Needs { what: what.into(), why }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or says something that cannot be: where and what.
    pub fn read(path: &Path) -> Result<Self, StartError> {
        let wrong = |why: String| StartError::Config { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
        let config: Self = toml::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        for bridge in &config.bridges {
            if !matches!(bridge.fail_mode.as_deref(), None | Some("standalone" | "secure")) {
                return Err(wrong(format!(
                    "bridge {}: fail-mode is \"standalone\" or \"secure\", not {:?}",
                    bridge.name,
                    bridge.fail_mode.as_deref().unwrap_or_default()
                )));
            }
            for target in &bridge.controllers {
                target
                    .parse::<fulmar_session::Target>()
                    .map_err(|why| wrong(format!("bridge {}: {why}", bridge.name)))?;
            }
        }
        Ok(config)
    }

    /// Where the database is reached.
    pub fn database_socket(&self) -> PathBuf {
        self.directory.join("db.sock")
    }

    /// Where `ovs-appctl`, and `fulmar switch` itself, ask what goes on.
    pub fn control_socket(&self) -> PathBuf {
        self.directory.join("ctl.sock")
    }
}

/// How often it is looked after what has changed by itself.
const TICK: Duration = Duration::from_millis(500);
/// So many of those later, statistics in the database are written anew.
const TELL: u32 = 5;

/// Switches that run until this is dropped.
pub struct Daemon {
    database: Handle,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    appctl: Option<Appctl>,
    bridges: Arc<Bridges>,
}

impl Daemon {
    /// Starts what the configuration asks for. `report` hears what happens from then on; figures count it, too.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        config: &Config,
        report: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let events = Arc::new(Events::default());
        let counted = events.clone();
        let report: Arc<Report> = Arc::new(move |event: &Event| {
            counted.count(event.kind.name());
            report(event);
        });
        let directory = &config.directory;
        std::fs::create_dir_all(directory)
            .map_err(needs(format!("the directory {}", directory.display())))?;
        let mut random = chance().map_err(needs("chance"))?;
        let seed = random.next();
        let store = Store::open(&directory.join(DATABASE), open_vswitch(), &mut random)?;
        let mut service = Service::new(store, random).map_err(needs("the database's server"))?;
        let socket = config.database_socket();
        service.listen_unix(&socket).map_err(needs(format!("the socket {}", socket.display())))?;
        if let Some(address) = &config.database {
            let listener = TcpListener::bind(address).map_err(needs(format!("the database at {address}")))?;
            service.listen_tcp(listener).map_err(needs(format!("the database at {address}")))?;
        }
        let database = service.handle();
        let left = seed_database(&database, config).map_err(StartError::Refused)?;
        left.into_iter().for_each(|why| report(&EventKind::Bridge.event(why)));
        let stops = Arc::new(AtomicBool::new(false));
        let bridges: Arc<Bridges> = Arc::default();
        let mut threads = Vec::new();
        let tell = report.clone();
        threads.push(spawn("database", move || {
            if let Err(why) = service.run(|text| tell(&EventKind::Client.event(text))) {
                let why = format!("the configuration database is not served any more: {why}");
                tell(&EventKind::Database.event(why));
            }
        })?);
        if let Some(address) = &config.metrics {
            let listener = TcpListener::bind(address).map_err(needs(format!("metrics at {address}")))?;
            let (bridges, stops, tell) = (bridges.clone(), stops.clone(), report.clone());
            threads.push(spawn("metrics", move || {
                if let Err(why) =
                    fulmar_metrics::serve(&listener, || metrics::figures(&bridges, &events), &stops)
                {
                    tell(&EventKind::Metrics.event(format!("metrics are not told any more: {why}")));
                }
            })?);
        }
        let socket = config.control_socket();
        let appctl = Appctl::start(&socket, bridges.clone())
            .map_err(needs(format!("the socket {}", socket.display())))?;
        let lanes = config.threads.unwrap_or_else(usual_threads);
        let switches = Switches::new(directory.clone(), bridges.clone(), lanes, seed, report);
        let (handle, ends) = (database.clone(), stops.clone());
        threads.push(spawn("switches", move || keep(switches, &handle, &ends))?);
        Ok(Self { database, stops, threads, appctl: Some(appctl), bridges })
    }

    /// The configuration database.
    pub fn database(&self) -> &Handle {
        &self.database
    }

    /// The names of the bridges that run.
    pub fn bridges(&self) -> Vec<String> {
        self.bridges.lock().keys().cloned().collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stops.store(true, SeqCst);
        self.database.stop();
        self.appctl = None;
        for thread in self.threads.drain(..) {
            // A panic there has been told already.
            let _ = thread.join();
        }
    }
}

/// Hosts need most cores for what they are there for; but who waits for a packet is best woken from the core on which it was sent.
fn usual_threads() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((cores / 4).max(cores.min(2))).unwrap_or(NonZeroUsize::MIN)
}

fn spawn(name: &str, what: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(what).map_err(needs("a thread"))
}

/// Keeps what runs as the database asks.
fn keep(mut switches: Switches, database: &Handle, stops: &AtomicBool) {
    let ((), changes) = database.subscribe(|_| ());
    let mut configuration = wanted(database);
    switches.apply(&configuration);
    switches.tell(&configuration, database);
    let clock = Clock::start();
    let (mut next_tick, mut ticks) = (clock.now() + TICK, 0u32);
    while !stops.load(SeqCst) {
        let mut is_to_tell = false;
        match changes.recv_timeout(next_tick.since(clock.now())) {
            Ok(change) => {
                // Many come at once, and some are of what was told here.
                is_to_tell = asks(&change);
                is_to_tell |= changes.try_iter().fold(false, |asked, change| asked | asks(&change));
                if is_to_tell {
                    configuration = wanted(database);
                    switches.apply(&configuration);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if clock.now() >= next_tick {
            next_tick = clock.now() + TICK;
            ticks += 1;
            is_to_tell |= switches.tick() || ticks.is_multiple_of(TELL);
        }
        if is_to_tell {
            switches.tell(&configuration, database);
        }
    }
}

/// Whether a change asks for anything: what is told in the database asks for nothing.
fn asks(changes: &fulmar_ovsdb::Changes) -> bool {
    const ASKED: [(&str, &[&str]); 9] = [
        ("Open_vSwitch", &["bridges", "next_cfg", "ssl"]),
        (
            "Bridge",
            &[
                "name",
                "ports",
                "controller",
                "fail_mode",
                "protocols",
                "mirrors",
                "rstp_enable",
                "stp_enable",
                "other_config",
            ],
        ),
        (
            "Port",
            &[
                "interfaces",
                "tag",
                "trunks",
                "vlan_mode",
                "protected",
                "qos",
                "bond_mode",
                "lacp",
                "other_config",
            ],
        ),
        (
            "Mirror",
            &[
                "name",
                "select_all",
                "select_src_port",
                "select_dst_port",
                "select_vlan",
                "filter",
                "output_port",
                "output_vlan",
                "snaplen",
            ],
        ),
        ("QoS", &["type", "queues", "other_config"]),
        ("Queue", &["other_config"]),
        (
            "Interface",
            &[
                "name",
                "type",
                "options",
                "ofport_request",
                "mac",
                "ingress_policing_rate",
                "ingress_policing_burst",
                "ingress_policing_kpkts_rate",
                "ingress_policing_kpkts_burst",
            ],
        ),
        ("Controller", &["target", "max_backoff", "inactivity_probe"]),
        ("SSL", &["private_key", "certificate", "ca_cert"]),
    ];
    ASKED.iter().any(|(table, columns)| {
        changes.of(table).any(|change| {
            change.old.is_some() != change.new.is_some()
                || columns.iter().any(|column| change.touches(column))
        })
    })
}

/// Puts the bridges of the file into the database, where they are not there yet. Names that mean something else there by now are left to that; tells
/// which.
fn seed_database(database: &Handle, config: &Config) -> Result<Vec<String>, fulmar_ovsdb::Error> {
    database.transact(|draft, chance| {
        let mut left = Vec::new();
        let named = |table: &'static str| {
            draft.rows(table).filter_map(|row| row.get("name").string().map(str::to_owned))
        };
        let mut taken: BTreeSet<String> = named("Port").chain(named("Interface")).collect();
        let root = draft.rows("Open_vSwitch").next().map(|row| row.uuid());
        let root = root.unwrap_or_else(|| draft.insert("Open_vSwitch", chance));
        let names: BTreeSet<String> =
            draft.rows("Bridge").filter_map(|row| row.get("name").string().map(str::to_owned)).collect();
        let mut bridges: Vec<fulmar_ovsdb::Uuid> = draft.rows("Bridge").map(|row| row.uuid()).collect();
        for bridge in config.bridges.iter().filter(|bridge| !names.contains(&bridge.name)) {
            if !taken.insert(bridge.name.clone()) {
                left.push(format!(
                    "bridge {}: the database has a port of that name: no bridge is made",
                    bridge.name
                ));
                continue;
            }
            let row = draft.insert("Bridge", chance);
            draft.set("Bridge", row, "name", bridge.name.as_str())?;
            draft.set("Bridge", row, "fail_mode", bridge.fail_mode.clone())?;
            let mut ports = Vec::new();
            let own = [(bridge.name.as_str(), "internal")];
            let mut is_free = |port: &&String| {
                let is_free = taken.insert((*port).clone());
                if !is_free {
                    left.push(format!(
                        "bridge {}: port {port} is there already, and stays where it is",
                        bridge.name
                    ));
                }
                is_free
            };
            let others: Vec<&String> = bridge.ports.iter().filter(&mut is_free).collect();
            let others = others.into_iter().map(|port| (port.as_str(), ""));
            for (number, (name, kind)) in (0..).zip(own.into_iter().chain(others)) {
                let interface = draft.insert("Interface", chance);
                // In the order of the file; the first is the switch's own, which has a number already.
                draft.set(
                    "Interface",
                    interface,
                    "ofport_request",
                    Some(number).filter(|number| *number > 0),
                )?;
                draft.set("Interface", interface, "name", name)?;
                draft.set("Interface", interface, "type", kind)?;
                let port = draft.insert("Port", chance);
                draft.set("Port", port, "name", name)?;
                draft.set("Port", port, "interfaces", Datum::set([interface]))?;
                ports.push(port);
            }
            draft.set("Bridge", row, "ports", Datum::set(ports))?;
            let mut controllers = Vec::new();
            for target in &bridge.controllers {
                let controller = draft.insert("Controller", chance);
                draft.set("Controller", controller, "target", target.as_str())?;
                controllers.push(controller);
            }
            draft.set("Bridge", row, "controller", Datum::set(controllers))?;
            bridges.push(row);
        }
        draft.set("Open_vSwitch", root, "bridges", Datum::set(bridges))?;
        Ok(left)
    })
}
