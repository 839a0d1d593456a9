//! `fulmar serve`: a storage server.

mod local;

use clap::Args;
use fulmar_dbt::remote::Service;
use fulmar_dbt::{Directory, Options, Timestamp};
use serde::Deserialize;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `fulmar serve`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar serve --config node.toml &\n  \
                        fulmar sql fulmar://127.0.0.1:7400/birds 'CREATE TABLE sighting(species)'\n\n\
                        with node.toml:\n  data = \"/var/lib/fulmar\"     # the databases; made if there are none\n  \
                        listen = \"127.0.0.1:7400\"   # where to accept connections; port 0 takes a free one\n  \
                        cache_mb = 256              # memory for the cached data of each database")]
pub struct Serve {
    /// Settings in TOML
    #[arg(long, value_name = "FILE", required_unless_present_any = ["data", "local"])]
    config: Option<PathBuf>,
    /// Directory of the databases, instead of the one in the settings
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Where to accept connections, instead of what the settings say
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Serve the database in this directory to the processes of this machine, until it is idle
    #[arg(long, value_name = "DIRECTORY", hide = true, conflicts_with_all = ["config", "data", "listen"])]
    local: Option<PathBuf>,
    /// Memory for the cached data of that database
    #[arg(long, value_name = "BYTES", hide = true, requires = "local")]
    cache_bytes: Option<u64>,
    /// A snapshot of that database that is in use
    #[arg(long, value_name = "TIMESTAMP", hide = true, requires = "local")]
    keep: Option<u64>,
}

/// What `node.toml` says.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    data: Option<PathBuf>,
    listen: Option<String>,
    cache_mb: Option<u64>,
}

impl Settings {
    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Serves until it is stopped by a signal.
pub fn run(serve: &Serve) -> ExitCode {
    match try_run(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(serve: &Serve) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = &serve.local {
        let mut options = Options { create: false, ..Options::default() };
        if let Some(bytes) = serve.cache_bytes {
            options.cache_bytes = bytes;
        }
        return local::run(path, &options, serve.keep.map(Timestamp));
    }
    let settings = serve.config.as_deref().map_or_else(|| Ok(Settings::default()), Settings::read)?;
    let data = serve.data.clone().or(settings.data).ok_or("the settings lack `data`, a directory")?;
    let listen = serve.listen.clone().or(settings.listen).unwrap_or_else(|| "127.0.0.1:7400".into());
    fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let listener =
        TcpListener::bind(&listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr()?;
    let mut options = Options::default();
    if let Some(cache) = settings.cache_mb {
        options.cache_bytes = cache << 20;
    }
    let mut service = Service::new(cluster(&data)?, Box::new(Directory::new(data.clone(), options)))?;
    service.listen(listener)?;
    let stop = service.handle();
    ctrlc::set_handler(move || stop.stop())?;
    println!("serving {} on fulmar://{address}", data.display());
    service.run(|notice| eprintln!("{notice}"))?;
    Ok(())
}

/// The name of the cluster that the data belong to, given when there are none yet.
fn cluster(data: &Path) -> Result<u128, Box<dyn std::error::Error>> {
    let path = data.join("CLUSTER");
    match fs::read_to_string(&path) {
        Ok(text) => u128::from_str_radix(text.trim(), 16)
            .map_err(|_| format!("{}: not the name of a cluster", path.display()).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = fulmar_dbt::remote::new_cluster()?;
            fs::write(&path, format!("{name:032x}\n"))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(name)
        }
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}
