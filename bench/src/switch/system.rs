//! Switches that are measured, each in processes of its own in the switch's namespace.

use super::load;
use super::network::{Network, PORTS};
use crate::fault::Fault;
use crate::process::{Started, Temporary, find_or_install, on_path, output};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of each switch, and its own interface's.
const BRIDGE: &str = "br0";

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// `fulmar switch`, on packet sockets.
    Fulmar,
    /// `ovs-vswitchd` in its user-space datapath, on packet sockets.
    OpenVSwitch,
    /// The same on XDP sockets, in their generic mode.
    OpenVSwitchXdp,
}

/// A switch that runs, until this is dropped.
pub(super) struct Running {
    // The switch ends before its database.
    _switch: Started,
    _database: Option<Started>,
}

impl System {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fulmar => "fulmar switch",
            Self::OpenVSwitch => "Open vSwitch",
            Self::OpenVSwitchXdp => "Open vSwitch, AF_XDP",
        }
    }

    /// Starts it, with action `NORMAL` for all packets, and waits until hosts reach each other.
    pub(super) fn start(self, program: &Path, network: &Network) -> Result<Running, Fault> {
        clear(network);
        let (mut switch, database) = match self {
            Self::Fulmar => (fulmar(program, network)?, None),
            Self::OpenVSwitch => {
                open_vswitch(network, &[]).map(|(switch, database)| (switch, Some(database)))?
            }
            Self::OpenVSwitchXdp => {
                let xdp = ["type=afxdp", "options:xdp-mode=generic"];
                open_vswitch(network, &xdp).map(|(switch, database)| (switch, Some(database)))?
            }
        };
        switch.wait(|| load::connect(network))?;
        Ok(Running { _switch: switch, _database: database })
    }
}

/// Takes away what a switch leaves behind when it is killed, if one has been there: the program that catches frames for XDP sockets,
/// and the bridge's own interface.
fn clear(network: &Network) {
    for port in PORTS {
        let _ = network.switch.ip(&["link", "set", port, "xdpgeneric", "off"]);
    }
    let _ = network.switch.ip(&["link", "delete", BRIDGE]);
}

fn fulmar(program: &Path, network: &Network) -> Result<Started, Fault> {
    let directory = Temporary::in_memory()?;
    let config = directory.path().join("switch.toml");
    let text =
        format!("directory = {:?}\n[[bridge]]\nname = {BRIDGE:?}\nports = {PORTS:?}\n", directory.path());
    std::fs::write(&config, text)?;
    let mut command = network.switch.command(program);
    command.args(["switch", "--config"]).arg(config).stdout(Stdio::null());
    Started::new(command, directory)
}

/// The version of the peer, which is installed if it is missing.
pub(super) fn version() -> Result<String, Fault> {
    let said = output(Command::new(tool("ovs-vswitchd")?).arg("--version"))?;
    Ok(said.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned())
}

fn tool(name: &str) -> Result<PathBuf, Fault> {
    let beside = || Some(PathBuf::from("/usr/sbin").join(name)).filter(|path| path.is_file());
    find_or_install(|| on_path(name).or_else(beside), name, "openvswitch-switch")
}

/// As its own script starts it.
const NICE: &str = "-10";

/// Its switch and its database, with a directory of their own; `settings` are those of each interface.
fn open_vswitch(network: &Network, settings: &[&str]) -> Result<(Started, Started), Fault> {
    let (directory, logs) = (Temporary::in_memory()?, Temporary::in_memory()?);
    let path = directory.path().to_owned();
    let (file, remote) = (path.join("conf.db"), format!("unix:{}", path.join("db.sock").display()));
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    output(Command::new(tool("ovsdb-tool")?).arg("create").arg(&file).arg(schema))?;
    let private = |mut command: Command| {
        ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"].iter().for_each(|name| {
            command.env(name, &path);
        });
        command.args(["--verbose=off"]);
        command
    };
    let mut server = private(Command::new(tool("ovsdb-server")?));
    server.arg(&file).arg(format!("--remote=p{remote}"));
    let mut server = Started::new(server, directory)?;
    let vsctl = tool("ovs-vsctl")?;
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&vsctl);
        output(command.arg(format!("--db={remote}")).arg("--timeout=20").args(arguments)).map(drop)
    };
    server.wait(|| ask(&["--no-wait", "init"]))?;
    let mut switch = network.switch.command(&tool("nice")?);
    switch.args(["-n", NICE]).arg(tool("ovs-vswitchd")?);
    let mut switch = private(switch);
    switch.arg(&remote);
    let switch = Started::new(switch, logs)?;
    ask(&["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev"])?;
    for port in PORTS {
        ask(&["add-port", BRIDGE, port])?;
        if !settings.is_empty() {
            ask(&[&["set", "interface", port], settings].concat())?;
        }
    }
    Ok((switch, server))
}
