//! Switches that run for as long as a test needs them.

use crate::client::Client;
use crate::network::Network;
use fulmar_bridge::{BridgeConfig, Config, Daemon};
use fulmar_ovsdb::Database;
use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A network, and the process of its switch.
pub(crate) struct Served {
    // In the order in which they go.
    pub(crate) daemon: Daemon,
    pub(crate) network: Network,
    directory: TempDir,
    config: Config,
}

/// A switch `br0` with the ports of so many hosts, which have their numbers.
pub(crate) fn bridge(hosts: u8) -> BridgeConfig {
    BridgeConfig {
        name: "br0".into(),
        ports: (1..=hosts).map(|host| format!("port{host}")).collect(),
        controllers: Vec::new(),
        fail_mode: Some("secure".into()),
    }
}

impl Served {
    pub(crate) fn new(network: Network, bridges: Vec<BridgeConfig>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().into();
        // Two, so that what should not depend on it is seen not to.
        let threads = NonZeroUsize::new(2);
        let config = Config { directory: at, database: None, metrics: None, threads, bridges };
        Self::start(network, directory, config)
    }

    /// Ends it, and starts it again on the same database.
    pub(crate) fn again(self) -> Self {
        let Self { daemon, network, directory, config } = self;
        drop(daemon);
        Self::start(network, directory, config)
    }

    fn start(network: Network, directory: TempDir, config: Config) -> Self {
        let start = || Daemon::start(&config, |event| println!("{event}"));
        let daemon = network.switch.within(start).expect("it starts");
        let served = Self { daemon, network, directory, config };
        served.until(|database| {
            database.rows("Open_vSwitch").any(|row| row.get("ovs_version").string().is_some())
        });
        served
    }

    /// A network of so many hosts on one switch without flows.
    pub(crate) fn secure(test: &str, hosts: u8) -> Self {
        Self::new(Network::new(test, hosts), vec![bridge(hosts)])
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Speaks OpenFlow with `br0`.
    pub(crate) fn client(&self) -> Client<UnixStream> {
        Client::greet(UnixStream::connect(self.path("br0.mgmt")).expect("it listens"))
    }

    /// Waits until the configuration database is so.
    pub(crate) fn until(&self, is_so: impl Fn(&Database) -> bool) {
        let database = self.daemon.database();
        let (mut is, changes) = database.subscribe(&is_so);
        while !is {
            changes.recv().expect("it is served");
            is = database.read(&is_so);
        }
    }

    /// Waits until this column of an interface is as it should be.
    pub(crate) fn until_interface(
        &self,
        name: &str,
        column: &str,
        is_so: impl Fn(&fulmar_ovsdb::Datum) -> bool,
    ) {
        self.until(|database| {
            let mut rows = database.rows("Interface");
            rows.any(|row| row.get("name").string() == Some(name) && is_so(row.get(column)))
        });
    }
}
