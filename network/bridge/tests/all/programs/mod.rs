//! Programs that other people wrote drive the switch: those of Open vSwitch, and controllers on os-ken.

mod ofctl;
mod os_ken;
mod vsctl;

use crate::network::{Namespace, address};
use crate::served::Served;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

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
        let mut command = self.command("ovs-ofctl");
        command
            .args(["--protocols=OpenFlow13", "--no-names"])
            .args(arguments)
            .output()
            .expect("it can be run")
    }

    /// What `ovs-ofctl` says that succeeds.
    fn ofctl(&self, arguments: &[&str]) -> String {
        said(&arguments.join(" "), &self.ofctl_output(arguments))
    }

    fn add_flow(&self, flow: &str) {
        self.ofctl(&["add-flow", "br0", flow]);
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
