//! `ovs-ofctl` as people type it, and a controller: both speak OpenFlow 1.0 unless they are told otherwise.

use super::ofctl::{Listening, overhears};
use crate::network::Network;
use crate::served::Served;
use fulmar_port::packet;
use rustix::event::{PollFd, PollFlags, poll};
use std::process::{Child, Command, Stdio};

/// All flows as they are told in OpenFlow 1.0, without what they have done.
fn flows(served: &Served) -> String {
    served.plain(&["--no-stats", "--sort", "dump-flows", "br0"])
}

/// Flows as `ovs-ofctl` writes them again: in OpenFlow's own form, in Nicira's, in several tables, with actions of all kinds.
const FLOWS: &str = "\
 priority=9,in_port=1,dl_src=02:00:00:00:00:01,dl_vlan=5,dl_vlan_pcp=3 actions=strip_vlan,output:2
 priority=8,dl_vlan=0xffff actions=mod_vlan_vid:7,mod_vlan_pcp:1,output:2
 priority=7,tcp,nw_src=10.0.0.0/8,nw_dst=10.1.2.3,tp_dst=80 actions=mod_nw_src:10.0.0.9,mod_tp_dst:81,output:1
 priority=7,udp,nw_tos=32,tp_src=53 actions=mod_nw_dst:10.0.0.9,mod_nw_tos:64,mod_tp_src:54,NORMAL
 priority=6,icmp,icmp_type=8,icmp_code=0 actions=mod_dl_src:02:00:00:00:00:01,mod_dl_dst:02:00:00:00:00:02,IN_PORT
 priority=6,arp,arp_tpa=10.0.0.1,arp_op=1 actions=CONTROLLER:128
 cookie=0x7,priority=5,ip,nw_src=10.0.0.0/8 actions=enqueue:2:1,FLOOD
 idle_timeout=100,hard_timeout=1000,priority=4,send_flow_rem tcp6,ipv6_src=fd00::1 actions=dec_ttl,output:1
 priority=3,reg1=0x5,metadata=0x1/0xff,tun_id=0x9 actions=load:0x7->NXM_NX_REG0[],set_tunnel:0x3,ALL
 table=1,priority=2,dl_src=02:00:00:00:00:00/ff:00:00:00:00:00 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],LOCAL
 table=1,priority=1,ct_state=+trk+est,ip actions=ct(commit,table=2,zone=5),set_queue:3,output:1
 table=2,priority=1,ip actions=learn(table=4,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,3),write_metadata:0x1/0xf
 table=3,priority=1 actions=push_mpls:0x8847,set_mpls_label(5),set_mpls_tc(3),clone(output:1),output:2
 table=3,priority=0 actions=drop
";

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_tells_flows_as_it_was_told_them() {
    let served = Served::secure("old", 2);
    let file = served.file("flows", FLOWS);
    served.plain(&["add-flows", "br0", &file]);
    assert_eq!(served.plain(&["diff-flows", "br0", &file]), "");
    assert_eq!(served.ofctl(&["dump-aggregate", "br0"]).matches("flow_count=14").count(), 1);
    // Of matches in OpenFlow's own form, what has a place there.
    let told = served.plain(&["--flow-format=OpenFlow10", "--no-stats", "dump-flows", "br0"]);
    assert!(told.contains("priority=5,ip,nw_src=10.0.0.0/8 actions=enqueue:2:1,FLOOD"), "{told}");
    // What was said in OpenFlow 1.3 and cannot be said here is left out, as Open vSwitch does.
    served.plain(&["del-flows", "br0"]);
    served.ofctl(&[
        "add-flow",
        "br0",
        "in_port=2 actions=write_actions(output:1),write_metadata:0x1,goto_table:1",
    ]);
    let told = flows(&served);
    assert!(told.contains("in_port=2 actions=load:0x1->OXM_OF_METADATA[],resubmit(,1)\n"), "{told}");
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_changes_flows_without_a_version() {
    let served = Served::secure("changes", 3);
    let ofctl = |arguments: &[&str]| served.plain(arguments);
    let count = || flows(&served).lines().count();
    ofctl(&["add-flow", "br0", "cookie=0x1,priority=5,ip,nw_dst=10.0.0.0/8 actions=output:1"]);
    ofctl(&["add-flow", "br0", "cookie=0x2,priority=6,tcp,tp_dst=80 actions=output:2"]);
    ofctl(&["add-flow", "br0", "table=3,priority=7,arp actions=resubmit(,4),load:5->NXM_NX_REG0[],output:3"]);
    assert_eq!(count(), 3);
    ofctl(&["mod-flows", "br0", "cookie=0x1,ip actions=output:3"]);
    assert_eq!(flows(&served).matches("actions=output:3").count(), 2);
    // Flows that change have the cookie of the change.
    ofctl(&["--strict", "mod-flows", "br0", "priority=6,tcp,tp_dst=80 actions=output:1"]);
    assert_eq!(flows(&served).matches("actions=output:3").count(), 1);
    ofctl(&["mod-flows", "br0", "cookie=0x1/-1,actions=output:2"]);
    let told = flows(&served);
    assert!(told.contains("cookie=0x1, priority=5,ip,nw_dst=10.0.0.0/8 actions=output:2"), "{told}");
    assert!(told.contains(" priority=6,tcp,tp_dst=80 actions=output:1"), "{told}");
    // A change of what is not there adds it, in this version.
    ofctl(&["--strict", "mod-flows", "br0", "priority=9,udp actions=output:1"]);
    assert!(flows(&served).contains("priority=9,udp actions=output:1"), "{}", flows(&served));
    ofctl(&["--strict", "del-flows", "br0", "priority=8,udp"]);
    assert_eq!(count(), 4);
    ofctl(&["--strict", "del-flows", "br0", "priority=9,udp"]);
    ofctl(&["del-flows", "br0", "cookie=0x9/-1"]);
    assert_eq!(count(), 3);
    assert!(ofctl(&["dump-aggregate", "br0"]).contains("flow_count=3"));
    assert!(ofctl(&["dump-aggregate", "br0", "table=3"]).contains("flow_count=1"));
    let tables = ofctl(&["dump-tables", "br0"]);
    assert!(tables.contains("active=2") && !tables.contains("(\""), "they have no names: {tables}");
    ofctl(&["del-flows", "br0", "out_port=3"]);
    assert_eq!(count(), 2);
    ofctl(&["del-flows", "br0"]);
    assert_eq!(count(), 0);

    // The tool itself replaces flows of several tables in later versions alone.
    let first: String =
        FLOWS.lines().filter(|line| !line.contains("table=")).map(|line| format!("{line}\n")).collect();
    let file = served.file("flows", &first);
    let other = served.file("others", "priority=1,ip actions=output:3\npriority=3,ipv6 actions=drop\n");
    ofctl(&["add-flows", "br0", &other]);
    let differ = served.plain_output(&["diff-flows", "br0", &file]);
    let differ = String::from_utf8_lossy(&differ.stdout).into_owned();
    assert!(differ.contains("-priority=3,ipv6 actions=drop") && differ.contains("+priority=9,"), "{differ}");
    ofctl(&["replace-flows", "br0", &file]);
    assert_eq!(ofctl(&["diff-flows", "br0", &file]), "");

    // What is wrong is told, and the connection goes on.
    for (flow, error) in [
        ("actions=output:65280", "OFPBAC_BAD_OUT_PORT"),
        ("check_overlap,priority=9,in_port=1 actions=drop", "OFPFMFC_OVERLAP"),
        ("actions=sample(probability=1)", "OFPBAC_BAD_VENDOR_TYPE"),
    ] {
        let refused = served.plain_output(&["add-flow", "br0", flow]);
        let complaint = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && complaint.contains(error), "{flow}: {complaint}");
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_ofctl_makes_groups_without_a_version() {
    let served = Served::secure("groups", 3);
    let ofctl = |arguments: &[&str]| served.plain(arguments);
    let groups = || ofctl(&["dump-groups", "br0"]);
    ofctl(&["add-flow", "br0", "priority=0,actions=normal"]);
    let group = "group_id=1,type=all,bucket=output:3,bucket=output:2";
    ofctl(&["add-group", "br0", group]);
    ofctl(&["add-group", "br0", "group_id=2,type=select,bucket=weight:7,actions=mod_nw_tos:4,output:2"]);
    ofctl(&[
        "add-group",
        "br0",
        "group_id=3,type=ff,bucket=watch_port:3,output:3,bucket=watch_group:1,output:2",
    ]);
    for part in [
        "group_id=1,type=all,bucket=bucket_id:0,actions=output:3,bucket=bucket_id:1,actions=output:2\n",
        "group_id=2,type=select,bucket=bucket_id:0,weight:7,actions=mod_nw_tos:4,output:2\n",
        "bucket=bucket_id:0,watch_port:3,actions=output:3,bucket=bucket_id:1,watch_group:1,actions=output:2\n",
    ] {
        assert!(groups().contains(part), "{part}: {}", groups());
    }
    // The same groups in the other version.
    let told = served.ofctl(&["dump-groups", "br0"]);
    assert!(told.contains("group_id=2,type=select,bucket=weight:7,actions=set_field:1->ip_dscp"), "{told}");
    ofctl(&["add-flow", "br0", "priority=9,in_port=1,icmp actions=group:1"]);
    assert!(flows(&served).contains("priority=9,icmp,in_port=1 actions=group:1\n"), "{}", flows(&served));
    assert!(served.ping(1, 2));
    assert!(ofctl(&["dump-group-stats", "br0", "group_id=1"]).contains("ref_count=1,packet_count=3"));
    assert!(ofctl(&["dump-group-features", "br0"]).contains("Types:  0xf"));
    ofctl(&["mod-group", "br0", "group_id=1,type=all,bucket=output:2"]);
    assert!(groups().contains("group_id=1,type=all,bucket=bucket_id:0,actions=output:2\n"), "{}", groups());
    for (command, group, error) in [
        ("add-group", group, "OFPGMFC_GROUP_EXISTS"),
        ("mod-group", "group_id=8,type=all,bucket=output:2", "OFPGMFC_UNKNOWN_GROUP"),
        ("add-flow", "actions=group:8", "OFPBAC_BAD_OUT_GROUP"),
    ] {
        let refused = served.plain_output(&[command, "br0", group]);
        let complaint = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && complaint.contains(error), "{group}: {complaint}");
    }
    ofctl(&["del-groups", "br0", "group_id=1"]);
    assert!(!groups().contains("group_id=1,") && !flows(&served).contains("group:1"));
    ofctl(&["del-groups", "br0"]);
    assert!(!groups().contains("group_id"));
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_ofctl_asks_about_the_switch_without_a_version() {
    let served = Served::secure("asks", 3);
    let ofctl = |arguments: &[&str]| served.plain(arguments);
    ofctl(&["add-flow", "br0", "actions=flood"]);
    assert!(served.ping(1, 2));
    let shown = ofctl(&["show", "br0"]);
    for part in ["OFPT_FEATURES_REPLY", "n_tables:254", "QUEUE_STATS ARP_MATCH_IP", "1(port1)", "LOCAL(br0)"]
    {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(shown.contains("enqueue") && shown.contains("frags=normal miss_send_len=0"), "{shown}");
    let shown = ofctl(&["dump-ports-desc", "br0"]);
    assert!(shown.contains("2(port2)") && shown.contains("current:    10GB-FD"), "{shown}");
    assert!(!ofctl(&["dump-ports", "br0", "1"]).contains("rx pkts=0"));
    assert!(ofctl(&["dump-ports", "br0"]).contains("4 ports"));
    assert!(ofctl(&["dump-desc", "br0"]).contains("Manufacturer: Fulmar"));
    assert!(ofctl(&["get-frags", "br0"]).contains("normal"));
    ofctl(&["probe", "br0"]);
    assert!(ofctl(&["ping", "br0", "64"]).contains("64 bytes from br0"));
    assert!(ofctl(&["queue-stats", "br0"]).contains("0 queues"));
    assert!(ofctl(&["queue-get-config", "br0", "1"]).contains("OFPT_QUEUE_GET_CONFIG_REPLY"));

    for (way, back) in [("no-forward", "forward"), ("no-flood", "flood")] {
        ofctl(&["mod-port", "br0", "2", way]);
        assert!(!served.ping(1, 2), "{way}");
        ofctl(&["mod-port", "br0", "2", back]);
        assert!(served.ping(1, 2), "{back}");
    }
    ofctl(&["mod-port", "br0", "port1", "down"]);
    let shown = ofctl(&["show", "br0"]);
    let first = shown.split("2(port2)").next().expect("something");
    assert!(!served.ping(1, 2) && first.contains("PORT_DOWN"), "{shown}");
    served.until_port1_is("down");
    ofctl(&["mod-port", "br0", "port1", "up"]);
    served.until_port1_is("up");
    assert!(served.ping(1, 2));
    assert!(ofctl(&["dump-ports", "br0", "9"]).contains("OFPT_ERROR (xid=0x2): OFPBRC_BAD_PORT"));
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_monitors_packets_and_sends_them_without_a_version() {
    let served = Served::secure("watch", 2);
    served.plain(&["add-flow", "br0", "in_port=1,dl_type=0x88b5 actions=controller"]);
    let mut frame = "ffffffffffff02000000000988b5".to_owned();
    frame.push_str(&"00".repeat(46));
    let packet_out = |port: &str, actions: &str| {
        let packet = format!("in_port={port},packet={frame},actions={actions}");
        served.plain(&["packet-out", "br0", &packet]);
    };
    for (format, name) in [
        ("standard", "OFPT_PACKET_IN (xid"),
        ("nxt_packet_in", "NXT_PACKET_IN (xid"),
        ("nxt_packet_in2", "NXT_PACKET_IN2 (xid"),
    ] {
        let arguments = ["--packet-in-format", format, "monitor", "br0", "65534"];
        let mut monitor = Listening::begin_plain(&served, &arguments);
        served.until_connected(&mut monitor, " (xid");
        packet_out("1", "table");
        monitor.hears(&[name, "dl_type=0x88b5"]);
        served.plain(&["add-flow", "br0", "send_flow_rem,priority=9,tcp6 actions=drop"]);
        served.plain(&["del-flows", "br0", "tcp6"]);
        monitor.hears(&["FLOW_REMOVED"]);
        served.network.switch.ip(&["link", "del", "news"]).expect("root may");
    }
    // Also by what a packet has not, which is not changed.
    let mut host = served.network.host(2).within(|| packet::open("eth0").expect("it is there"));
    packet_out("controller", "mod_nw_src:1.2.3.4,strip_vlan,mod_tp_dst:5,mod_vlan_vid:5,strip_vlan,output:2");
    let mut found = false;
    while !found {
        poll(&mut [PollFd::new(&host, PollFlags::IN)], None).expect("it polls");
        host.receive(64, |frame| found |= frame.bytes()[12..14] == [0x88, 0xb5]).expect("it is up");
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn a_bridge_speaks_the_versions_that_it_is_set_to() {
    let served = Served::secure("versions", 1);
    let by =
        |version: &str| served.plain_output(&["--protocols", version, "dump-flows", "br0"]).status.success();
    assert!(by("OpenFlow10") && by("OpenFlow13") && !by("OpenFlow12"));
    served.vsctl("set bridge br0 protocols=OpenFlow13");
    assert!(!by("OpenFlow10") && by("OpenFlow13"));
    served.vsctl("set bridge br0 protocols=OpenFlow10");
    assert!(by("OpenFlow10") && !by("OpenFlow13"));
    served.vsctl("set bridge br0 protocols=OpenFlow10,OpenFlow13");
    assert!(by("OpenFlow10") && by("OpenFlow13"));
    served.vsctl("clear bridge br0 protocols");
    assert!(by("OpenFlow10") && by("OpenFlow13"));
}

/// A controller that lets hosts reach each other, which is ended when this goes.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to be done.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-testcontroller and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn a_controller_of_openflow_1_0_joins_hosts() {
    let served = Served::new(Network::new("learn10", 3), Vec::new());
    served.vsctl("add-br br0 -- add-port br0 port1 -- add-port br0 port2 -- add-port br0 port3");
    served.vsctl("set-fail-mode br0 secure -- set-controller br0 tcp:127.0.0.1:6653");
    served.vsctl("set Controller br0 max_backoff=1000");
    assert!(!served.ping(1, 2), "there are no flows yet");
    let mut command = Command::new("ovs-testcontroller");
    command.args(["--verbose=console:off", "ptcp:6653:127.0.0.1"]).env("OVS_RUNDIR", served.directory());
    // In the switch's namespace, where the port is free.
    let child = served.network.switch.within(move || command.stderr(Stdio::null()).spawn());
    let controller = Controller(child.expect("it can be run"));
    served.vsctl("wait-until Controller br0 is_connected=true");
    for (from, to) in [(1, 2), (1, 3), (2, 3)] {
        assert!(served.ping(from, to), "{from} to {to}");
    }
    assert!(flows(&served).contains("icmp"), "{}", flows(&served));
    drop(controller);
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_snoops_without_a_version() {
    let served = Served::secure("listens", 1);
    overhears(&served, Listening::begin_plain(&served, &["snoop", "br0"]));
}
