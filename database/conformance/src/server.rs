//! Servers in this process, for tests that run on a cluster.

use fulmar_cluster::{
    Cluster, Directory, Open, Replication, Service, ShardOptions, Transient, new_cluster, new_server,
};
use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

/// Set to a number, it moves the databases under test to a cluster of so many servers.
const ON_SERVERS: &str = "FULMAR_ON_SERVERS";

/// How many servers the databases under test are on; none if they are in this process.
#[must_use]
pub fn count() -> usize {
    let Some(count) = std::env::var_os(ON_SERVERS) else { return 0 };
    let count = count.to_str().and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("{ON_SERVERS} is not a number"))
}

/// Where the databases of `directory` are on the servers, if the tests run on some: their names follow.
pub(crate) fn prefix(directory: &Path) -> Option<String> {
    let count = count();
    if count == 0 {
        return None;
    }
    static ADDRESS: OnceLock<String> = OnceLock::new();
    let address = ADDRESS
        .get_or_init(|| start(count, Keep::OnDisk, Replication::default()).expect("servers on loopback"));
    let folder = directory.file_name().unwrap_or_default().to_string_lossy();
    Some(format!("fulmar://{address}/{}-", folder.replace('.', "")))
}

/// Where servers keep their databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In a temporary directory.
    OnDisk,
    /// In memory: nobody waits for a disk.
    InMemory,
}

/// Starts a cluster of so many servers, whose databases are replicated like this, which serve until the process ends; the address
/// of the first.
///
/// # Errors
/// What starting one says.
pub fn start(count: usize, keep: Keep, replication: Replication) -> Result<String, Box<dyn Error>> {
    let first = serve(None, keep, replication)?;
    for _ in 1..count {
        serve(Some(Cluster::meet(&first)?), keep, replication)?;
    }
    // A database has a part on each server that is on the map when it is made.
    while Cluster::meet(&first)?.map.servers.len() < count {
        thread::yield_now();
    }
    Ok(first)
}

/// Serves databases of its own, as the first server of a cluster or as one more; its address.
fn serve(cluster: Option<Cluster>, keep: Keep, replication: Replication) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let directory = tempfile::tempdir()?;
    let databases: Box<dyn Open> = match keep {
        Keep::OnDisk => Box::new(Directory::new(directory.path().into(), ShardOptions::default())),
        Keep::InMemory => Box::new(Transient::new(ShardOptions::default())),
    };
    let mut service = match cluster {
        None => Service::first(new_cluster()?, databases, &address, replication)?,
        Some(cluster) => Service::other(cluster, new_server()?, databases, &address)?,
    };
    service.listen(listener)?;
    thread::spawn(move || {
        let _directory = directory;
        service.run(|_| {}).expect("the server does not fail");
    });
    Ok(address)
}
