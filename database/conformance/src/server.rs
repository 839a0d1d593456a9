//! A server in this process, for tests that run on one.

use fulmar_dbt::remote::{Service, new_cluster};
use fulmar_dbt::{Directory, Options};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

/// Set, it moves the databases under test to a server.
const ON_SERVER: &str = "FULMAR_ON_SERVER";

/// Where the databases of `directory` are on the server, if the tests run on one: their names follow.
pub(crate) fn prefix(directory: &Path) -> Option<String> {
    std::env::var_os(ON_SERVER)?;
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let address = ADDRESS.get_or_init(|| start().expect("a server on loopback"));
    let folder = directory.file_name().unwrap_or_default().to_string_lossy();
    Some(format!("fulmar://{address}/{}-", folder.replace('.', "")))
}

/// Serves databases in a directory of their own until the process ends.
fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let directory = tempfile::tempdir()?;
    let databases = Directory::new(directory.path().into(), Options::default());
    let service = Service::first(new_cluster()?, Box::new(databases), &address.to_string());
    let mut service = service.map_err(io::Error::other)?;
    service.listen(listener)?;
    thread::spawn(move || {
        let _directory = directory;
        service.run(|_| {}).expect("the server does not fail");
    });
    Ok(address)
}
