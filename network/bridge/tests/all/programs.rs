//! Programs that other people wrote drive the switch: those of Open vSwitch, and controllers on os-ken.

mod checksums;
mod mirrors;
mod ofctl;
mod os_ken;
mod queues;
mod tunnels;
mod v10;
mod vsctl;

use crate::network::address;
use crate::served::Served;
use fulmar_namespaces::Namespace;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::time::Duration;

/// So long an answer is waited for that may not come.
const PATIENCE: Duration = Duration::from_secs(2);

impl Served {
    /// A program that finds the switch where Open vSwitch's would be.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("OVS_RUNDIR", self.directory()).args(["--timeout=20", "--verbose=console:off"]);
        command
    }

    fn vsctl_output(&self, arguments: &str) -> Output {
        let database = format!("--db=unix:{}", self.path("db.sock").display());
        let mut command = self.command("ovs-vsctl");
        command.arg(database).args(arguments.split_whitespace()).output().expect("it can be run")
    }

    /// What `ovs-vsctl` says that succeeds. It waits until the switch is as it says.
    fn vsctl(&self, arguments: &str) -> String {
        said(arguments, &self.vsctl_output(arguments))
    }

    fn ofctl_output(&self, arguments: &[&str]) -> Output {
        self.plain_output(&[&["--protocols=OpenFlow13"], arguments].concat())
    }

    /// By the version that `ovs-ofctl` speaks unless it is told otherwise.
    fn plain_output(&self, arguments: &[&str]) -> Output {
        self.command("ovs-ofctl").arg("--no-names").args(arguments).output().expect("it can be run")
    }

    /// The same, of what succeeds.
    fn plain(&self, arguments: &[&str]) -> String {
        said(&arguments.join(" "), &self.plain_output(arguments))
    }

    /// What `ovs-ofctl` says that succeeds.
    fn ofctl(&self, arguments: &[&str]) -> String {
        said(&arguments.join(" "), &self.ofctl_output(arguments))
    }

    fn add_flow(&self, flow: &str) {
        self.ofctl(&["add-flow", "br0", flow]);
    }

    /// All flows, without what they have done.
    fn flows(&self) -> String {
        self.ofctl(&["--no-stats", "--sort", "dump-flows", "br0"])
    }

    /// Whether a host gets back by UDP what it has sent.
    fn echoes(&self, from: u8, to: u8) -> bool {
        let socket =
            |host| self.network.host(host).within(|| UdpSocket::bind((address(host), 9)).expect("a port"));
        let (from, other) = (socket(from), socket(to));
        let mut byte = [0];
        for socket in [&from, &other] {
            socket.set_read_timeout(Some(PATIENCE)).expect("it is not 0");
        }
        from.send_to(&[7], (address(to), 9)).expect("it is sent");
        other.recv_from(&mut byte).and_then(|(_, back)| other.send_to(&byte, back)).is_ok()
            && from.recv(&mut byte).is_ok_and(|_| byte == [7])
    }

    /// Waits until the interface of the first port is up, or down.
    fn until_port1_is(&self, state: &str) {
        for column in ["admin_state", "link_state"] {
            self.until_interface("port1", column, |datum| datum.string() == Some(state));
        }
    }

    fn ping(&self, from: u8, to: u8) -> bool {
        ping(self.network.host(from), address(to))
    }
}

/// What a program says that succeeds and does not complain.
fn said(what: &str, output: &Output) -> String {
    let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && complained.is_empty(), "{what}: {said}{complained}");
    said.into_owned()
}

/// Whether a host answers, in three tries.
fn ping(from: &Namespace, to: Ipv4Addr) -> bool {
    let to = to.to_string();
    let arguments = ["-n", "-q", "-c", "3", "-i", "0.2", "-W", "1", &to];
    let output = from.within(|| Command::new("ping").args(arguments).output().expect("it can be run"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("3 packets transmitted"), "{output:?}");
    output.status.success()
}

/// Whether one host can speak with another by TCP, a byte each way: the address that the other one sees.
fn talks(served: &Served, from: u8, to: u8) -> Option<IpAddr> {
    let listener = served.network.host(to).within(|| TcpListener::bind((address(to), 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    let mut stream = served.network.host(from).within(|| TcpStream::connect_timeout(&at, PATIENCE)).ok()?;
    let (mut other, peer) = listener.accept().expect("it has come");
    stream.write_all(&[1]).expect("it is sent");
    other.read_exact(&mut [0]).expect("it comes");
    other.write_all(&[1]).expect("it is sent");
    stream.read_exact(&mut [0]).expect("it comes");
    Some(peer.ip())
}
