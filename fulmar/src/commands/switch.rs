//! `fulmar switch`: a virtual switch, and questions about one that runs.

use crate::descriptors::allow_descriptors;
use crate::ending::{BadUsage, exit_code};
use crate::{log, signals};
use clap::{Args, Subcommand};
use fulmar_bridge::{Config, Daemon, ask};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::channel;

/// `fulmar switch`
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:\n  echo 'directory = \"/run/fulmar\"' > switch.toml\n  \
                  echo 'bridge = [{ name = \"br0\", ports = [\"veth0\", \"veth1\"] }]' >> switch.toml\n  \
                  fulmar switch --config switch.toml &\n  \
                  ovs-vsctl --retry --db=unix:/run/fulmar/db.sock show\n  \
                  OVS_RUNDIR=/run/fulmar ovs-ofctl dump-flows br0\n  \
                  fulmar switch trace br0 in_port=1,ip,nw_dst=10.0.0.2 --directory /run/fulmar"
)]
pub struct Switch {
    /// The file that says where things are, and which bridges there are to be
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    request: Option<Request>,
}

/// What can be asked about switches that run.
#[derive(Subcommand)]
enum Request {
    /// Explains what would be done with a packet, table by table
    #[command(
        after_help = "Example:\n  fulmar switch trace br0 in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80 --directory /run/fulmar"
    )]
    Trace {
        /// The bridge
        bridge: String,
        /// The packet, as ovs-ofctl writes a match: in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80
        flow: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// Lists the decisions that are remembered, with what came for them
    #[command(after_help = "Example:\n  fulmar switch megaflows br0 --directory /run/fulmar")]
    Megaflows {
        /// The bridge; all, if none is named
        bridge: Option<String>,
        #[command(flatten)]
        listed: Listed,
    },
    /// Says how often what is remembered was met, and how much that is
    #[command(after_help = "Example:\n  fulmar switch stats --directory /run/fulmar --json")]
    Stats {
        /// The bridge; all, if none is named
        bridge: Option<String>,
        #[command(flatten)]
        listed: Listed,
    },
    /// Lists stations, and at which ports they were heard
    #[command(after_help = "Example:\n  fulmar switch stations br0 --directory /run/fulmar")]
    Stations {
        /// The bridge
        bridge: String,
        #[command(flatten)]
        listed: Listed,
    },
}

/// Which switches are asked.
#[derive(Args)]
struct Whose {
    /// The directory of the switches' configuration file
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// What is listed of whose switches.
#[derive(Args)]
struct Listed {
    #[command(flatten)]
    whose: Whose,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs switches until it is interrupted, or asks those that run.
pub fn run(switch: &Switch) -> ExitCode {
    exit_code(match (&switch.request, &switch.config) {
        (Some(request), _) => request.ask(),
        (None, Some(config)) => serve(config),
        (None, None) => unreachable!("one of the two is required"),
    })
}

fn serve(path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let _written_at_the_end = log::begin();
    allow_descriptors()?;
    let config = Config::read(path).map_err(BadUsage::new)?;
    let (sender, ends) = channel();
    signals::on(&[signals::SIGINT, signals::SIGTERM], move || {
        // Who does not wait any more is ending already.
        let _ = sender.send(());
    })?;
    let daemon = Daemon::start(&config, |event| tracing::info!(kind = event.kind.name(), "{event}"))?;
    log::announce(format_args!(
        "configuration: {}\nquestions:     {}",
        config.database_socket().display(),
        config.control_socket().display()
    ));
    ends.recv()?;
    drop(daemon);
    Ok(())
}

impl Request {
    fn ask(&self) -> Result<(), Box<dyn Error>> {
        let told = match self {
            Self::Trace { bridge, flow, whose } => {
                whose.ask("ofproto/trace", &[bridge.clone(), flow.clone()])
            }
            Self::Megaflows { bridge, listed } => listed.ask("dpctl/dump-flows", bridge.as_ref()),
            Self::Stats { bridge, listed } => listed.ask("dpctl/show", bridge.as_ref()),
            Self::Stations { bridge, listed } => listed.ask("fdb/show", Some(bridge)),
        };
        print!("{}", told?);
        Ok(())
    }
}

impl Whose {
    fn ask(&self, method: &str, arguments: &[String]) -> Result<String, String> {
        ask(&self.directory.join("ctl.sock"), method, arguments)
    }
}

impl Listed {
    /// Of one bridge, or all.
    fn ask(&self, method: &str, bridge: Option<&String>) -> Result<String, String> {
        let json = self.json.then(|| "--json".to_owned());
        self.whose.ask(method, &json.into_iter().chain(bridge.cloned()).collect::<Vec<_>>())
    }
}
