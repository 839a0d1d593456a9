//! Tunnels that `ovs-vsctl` makes and `ovs-ofctl` chooses, to switches of both kinds and to a kernel.

use super::{ping, said};
use crate::network::{Network, address, outer};
use crate::served::{Served, bridge};
use crate::streams::stream;
use crate::tunnels::{MTU, kernel, two};
use fulmar_bridge::BridgeConfig;
use fulmar_namespaces::Namespace;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn add_tunnel(served: &Served, options: &str) {
    let set = options.split_whitespace().map(|option| format!(" options:{option}")).collect::<String>();
    served.vsctl(&format!("add-port br0 vx0 -- set Interface vx0 type=vxlan ofport_request=9{set}"));
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_vsctl_makes_tunnels() {
    let [one, two] = two("vx-vsctl");
    add_tunnel(&one, "remote_ip=10.8.0.2 key=42");
    add_tunnel(&two, "remote_ip=10.8.0.1 key=42 local_ip=10.8.0.2");
    assert_eq!(one.vsctl("get Interface vx0 ofport"), "9\n");
    assert!(one.vsctl("show").contains("options: {key=\"42\", remote_ip=\"10.8.0.2\"}"));
    assert!(ping(one.network.host(1), address(2)));
    assert!(ping(two.network.host(2), address(1)));
    // What is asked of a tunnel changes; its number does not, nor does that of another.
    let number = |port: &str| two.vsctl(&format!("get Interface {port} ofport"));
    two.vsctl("add-port br0 vx1 -- set Interface vx1 type=vxlan options:remote_ip=10.8.0.7");
    two.vsctl("add-port br0 vx2 -- set Interface vx2 type=vxlan options:remote_ip=10.8.0.8");
    let before = [number("vx1"), number("vx2")];
    two.vsctl("set Interface vx1 options:key=x");
    assert_eq!(number("vx1"), "-1\n");
    two.vsctl("set Interface vx1 options:key=5 -- set Interface vx2 options:key=5");
    assert_eq!([number("vx1"), number("vx2")], before);
    two.vsctl("set Interface vx0 options:key=43");
    assert!(!ping(one.network.host(1), address(2)), "other keys at both ends");
    one.vsctl("set Interface vx0 options:key=43");
    assert!(ping(one.network.host(1), address(2)));
    // Longer than there is room for: whole it is lost, and in fragments it arrives.
    for served in [&one, &two] {
        served
            .network
            .host(if std::ptr::eq(served, &one) { 1 } else { 2 })
            .ip(&["link", "set", "eth0", "mtu", "1500"])
            .expect("root may");
    }
    let long = |from: &Served| {
        let arguments = ["-n", "-q", "-c", "2", "-i", "0.2", "-W", "1", "-s", "1472", "10.9.0.2"];
        let run = || Command::new("ping").args(arguments).output().expect("it can be run");
        from.network.host(1).within(run).status.success()
    };
    assert!(!long(&one));
    one.until_counted("vx0", &["tx_dropped"]);
    assert!(one.vsctl("get Interface vx0 statistics").contains("tx_dropped"));
    for served in [&one, &two] {
        served.vsctl("set Interface vx0 options:df_default=false");
    }
    assert!(long(&one));
    one.vsctl("del-port br0 vx0");
    assert!(!ping(one.network.host(1), address(2)));
    let bound = one.network.switch.within(|| std::net::UdpSocket::bind("0.0.0.0:4789").is_ok());
    assert!(bound, "its UDP port is free again");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_ofctl_chooses_keys_and_ends() {
    let [one, two] = two("vx-ofctl");
    for served in [&one, &two] {
        served.ofctl(&["del-flows", "br0"]);
        add_tunnel(served, "remote_ip=flow key=flow");
    }
    one.add_flow("in_port=1 actions=set_field:0x2a->tun_id,set_field:10.8.0.2->tun_dst,output:9");
    one.add_flow("in_port=9,tun_id=0x2b,tun_src=10.8.0.2,tun_dst=10.8.0.1 actions=output:1");
    two.add_flow("in_port=9,tun_id=0x2a,tun_src=10.8.0.1 actions=output:1");
    // Back with another key to where it came from.
    two.add_flow(
        "in_port=1 actions=load:0x2b->NXM_NX_TUN_ID[],load:0x0a080001->NXM_NX_TUN_IPV4_DST[],output:9",
    );
    assert!(ping(one.network.host(1), address(2)));
    let flows = one.flows();
    assert!(flows.contains("tun_id=0x2b,tun_src=10.8.0.2,tun_dst=10.8.0.1"), "{flows}");
    assert!(flows.contains("actions=set_field:0x2a->tun_id,set_field:10.8.0.2->tun_dst,output:9"), "{flows}");
    let traced = said(
        "trace",
        &one.command("ovs-appctl")
            .args(["ofproto/trace", "br0", "in_port=1"])
            .output()
            .expect("it can be run"),
    );
    assert!(traced.contains("vxlan(port=9,tun_id=0x2a,src=0.0.0.0,dst=10.8.0.2"), "{traced}");
    two.ofctl(&[
        "--strict",
        "mod-flows",
        "br0",
        "priority=32768,in_port=9,tun_id=0x2a,tun_src=10.8.0.1 actions=drop",
    ]);
    assert!(!ping(one.network.host(1), address(2)));
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn a_kernel_is_at_the_other_end() {
    let network = Network::new("vx-kernel", 1);
    network.host(1).ip(&["link", "set", "eth0", "mtu", MTU]).expect("root may");
    let served = Served::new(network, vec![BridgeConfig { fail_mode: None, ..bridge(1) }]);
    let kernel = kernel("vx-kernel", &served, "16777215");
    add_tunnel(&served, "remote_ip=10.8.0.2 key=16777215");
    assert!(ping(served.network.host(1), address(2)));
    assert!(ping(&kernel, address(1)));
}

/// Open vSwitch in user space, which ends with this.
struct OpenVSwitch {
    processes: Vec<Child>,
    directory: TempDir,
}

impl OpenVSwitch {
    fn run(&self, program: &str, arguments: &str) -> Command {
        let mut command = Command::new(program);
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(name, self.directory.path());
        }
        command.current_dir(self.directory.path()).stdin(Stdio::null()).args(arguments.split_whitespace());
        command
    }

    fn says(&self, program: &str, arguments: &str) -> String {
        said(arguments, &self.run(program, arguments).output().expect("it can be run"))
    }

    /// In the thread's namespace.
    fn begin() -> Self {
        let mut this = Self { processes: Vec::new(), directory: tempfile::tempdir().expect("a directory") };
        this.says("ovsdb-tool", "create conf.db /usr/share/openvswitch/vswitch.ovsschema");
        let database = "--no-chdir --verbose=console:off --remote=punix:db.sock --unixctl=db.ctl conf.db";
        let switch = "--no-chdir --verbose=console:off --disable-system --unixctl=switch.ctl unix:db.sock";
        for (program, arguments) in [("ovsdb-server", database), ("ovs-vswitchd", switch)] {
            this.processes.push(this.run(program, arguments).spawn().expect("it can be run"));
        }
        this
    }
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // It has ended by itself, maybe.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch, ethtool and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn open_vswitch_is_at_the_other_end() {
    let network = Network::new("vx-ovs", 1);
    network.host(1).ip(&["link", "set", "eth0", "mtu", MTU]).expect("root may");
    let served = Served::new(network, vec![BridgeConfig { fail_mode: None, ..bridge(1) }]);
    let other = Namespace::new("vx-ovs-o").expect("root may");
    Network::underlay(&served.network.switch, &other);
    // It wants whole checksums, and no trains.
    super::checksums::set_offloads(&served.network.switch, "under0", false);
    let open_vswitch = other.within(OpenVSwitch::begin);
    // The address is that of its own interface then, by which it finds its way.
    other.ip(&["address", "flush", "dev", "under0"]).expect("root may");
    open_vswitch.says(
        "ovs-vsctl",
        "--db=unix:db.sock --retry --timeout=60 init \
         -- add-br phy -- set bridge phy datapath_type=netdev -- add-port phy under0 \
         -- add-br br0 -- set bridge br0 datapath_type=netdev \
         -- add-port br0 vx0 -- set interface vx0 type=vxlan options:remote_ip=10.8.0.1 options:key=42",
    );
    other.ip(&["address", "add", "10.8.0.2/24", "dev", "phy"]).expect("root may");
    other.ip(&["link", "set", "phy", "up"]).expect("root may");
    other.ip(&["address", "add", &format!("{}/24", address(2)), "dev", "br0"]).expect("root may");
    other.ip(&["link", "set", "br0", "mtu", MTU, "up"]).expect("root may");
    add_tunnel(&served, &format!("remote_ip={} key=42", outer(2)));
    assert!(
        ping(served.network.host(1), address(2)) || ping(served.network.host(1), address(2)),
        "once it knows its neighbours"
    );
    assert!(ping(&other, address(1)));
    stream(served.network.host(1), &other, address(2), address(2));
    stream(&other, served.network.host(1), address(1), address(1));
}
