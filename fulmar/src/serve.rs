//! `fulmar serve`: a storage server.

use clap::Args;
use fulmar_dbt::remote::Service;
use fulmar_dbt::{Directory, Options};
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `fulmar serve`
#[derive(Args)]
#[command(after_help = "Example:\n  fulmar serve --data /var/lib/fulmar --listen 127.0.0.1:7400 &\n  \
                        fulmar sql fulmar://127.0.0.1:7400/birds 'CREATE TABLE sighting(species)'")]
pub struct Serve {
    /// Directory of the databases; made if there is none
    #[arg(long)]
    data: PathBuf,
    /// Address and port to accept connections on; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7400")]
    listen: String,
    /// Upper bound of memory for the cached data of each database, MB
    #[arg(long, value_name = "MB", default_value_t = 256)]
    cache: u64,
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
    let named = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(&serve.data).map_err(|error| named(&serve.data, error))?;
    let listener = TcpListener::bind(&serve.listen)
        .map_err(|error| format!("cannot listen on {}: {error}", serve.listen))?;
    let address = listener.local_addr()?;
    let options = Options { cache_bytes: serve.cache << 20, ..Options::default() };
    let directory = Directory::new(serve.data.clone(), options);
    let mut service = Service::new(cluster(&serve.data)?, Box::new(directory))?;
    service.listen(listener)?;
    let stop = service.handle();
    ctrlc::set_handler(move || stop.stop())?;
    println!("serving {} on fulmar://{address}", serve.data.display());
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
