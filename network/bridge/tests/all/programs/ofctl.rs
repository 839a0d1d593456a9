//! `ovs-ofctl` changes flows, groups, meters and ports, and asks about them.

use super::{ping, talks};
use crate::network::{address, mac};
use crate::served::Served;
use fulmar_port::packet;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

impl Served {
    /// A file with flows.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("it is written");
        path.to_str().expect("it is text").to_owned()
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_changes_flows() {
    let served = Served::secure("flows", 3);
    served.add_flow("cookie=0x1,priority=5,ip,nw_dst=10.0.0.0/8 actions=output:1");
    served.add_flow("cookie=0x2,priority=6,tcp,tp_dst=80 actions=output:2");
    served.add_flow("table=3,priority=7,arp actions=resubmit(,4),load:5->NXM_NX_REG0[],output:3");
    let count = || served.flows().lines().count();
    assert_eq!(count(), 3);
    served.ofctl(&["mod-flows", "br0", "ip actions=output:3"]);
    assert_eq!(served.flows().matches("actions=output:3").count(), 2);
    served.ofctl(&["--strict", "mod-flows", "br0", "priority=6,tcp,tp_dst=80 actions=output:1"]);
    assert_eq!(served.flows().matches("actions=output:3").count(), 1);
    served.ofctl(&["--strict", "del-flows", "br0", "priority=9,tcp,tp_dst=80"]);
    served.ofctl(&["del-flows", "br0", "cookie=0x9/-1"]);
    assert_eq!(count(), 3);
    assert!(served.ofctl(&["dump-aggregate", "br0"]).contains("flow_count=3"));
    assert!(served.ofctl(&["dump-aggregate", "br0", "table=3"]).contains("flow_count=1"));
    let tables = served.ofctl(&["dump-tables", "br0"]);
    assert!(tables.contains("active=2") && !tables.contains("(\""), "they have no names: {tables}");
    served.ofctl(&["set-frags", "br0", "drop"]);
    assert!(served.ofctl(&["get-frags", "br0"]).contains("drop"));
    served.ofctl(&["del-flows", "br0", "cookie=0x1/-1"]);
    served.ofctl(&["--strict", "del-flows", "br0", "priority=6,tcp,tp_dst=80"]);
    assert_eq!(count(), 1);
    served.ofctl(&["del-flows", "br0"]);
    assert_eq!(count(), 0);

    let file = served.file("flows", "priority=1,ip actions=output:1\npriority=2,arp actions=output:2\n");
    served.ofctl(&["add-flows", "br0", &file]);
    assert_eq!(served.ofctl(&["diff-flows", "br0", &file]), "");
    let other = served.file("others", "priority=1,ip actions=output:3\npriority=3,ipv6 actions=drop\n");
    let differ = served.ofctl_output(&["diff-flows", "br0", &other]);
    let differ = String::from_utf8_lossy(&differ.stdout).into_owned();
    assert!(
        differ.contains("+priority=3,ipv6 actions=drop") && differ.contains("-priority=2,arp"),
        "{differ}"
    );
    served.ofctl(&["replace-flows", "br0", &other]);
    assert_eq!(served.ofctl(&["diff-flows", "br0", &other]), "");

    let before = served.flows();
    let bad =
        "priority=4,ip actions=output:1\npriority=5,ip actions=group:99\npriority=6,ip actions=output:2\n";
    let bad = served.file("bad", bad);
    let refused = served.ofctl_output(&["--bundle", "add-flows", "br0", &bad]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("OFPBAC_BAD_OUT_GROUP"), "{refused:?}");
    assert_eq!(served.flows(), before, "all or nothing");
    served.ofctl(&["--bundle", "replace-flows", "br0", &file]);
    assert_eq!(served.ofctl(&["diff-flows", "br0", &file]), "");
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn flows_are_met_together() {
    let served = Served::secure("conjunctions", 3);
    for host in [1, 3] {
        served.network.knows(host, address(2), 2);
        served.network.knows(2, address(host), host);
    }
    served.add_flow("in_port=2 actions=NORMAL");
    let flows = "priority=10,ip,nw_src=10.9.0.1 actions=conjunction(7,1/2)\n\
                 priority=10,ip,nw_src=10.9.0.9 actions=conjunction(7,1/2)\n\
                 priority=10,icmp,icmp_type=8 actions=conjunction(7,2/2)\n\
                 priority=10,ip,conj_id=7 actions=NORMAL\n";
    served.ofctl(&["--bundle", "add-flows", "br0", &served.file("flows", flows)]);
    assert!(served.flows().contains("nw_src=10.9.0.1 actions=conjunction(7,1/2)"));
    assert!(served.ping(1, 2), "both clauses");
    assert!(!served.ping(3, 2) && !served.echoes(1, 2), "one of them");
    served.add_flow("priority=10,ip,nw_src=10.9.0.3 actions=conjunction(7,1/2)");
    assert!(served.ping(3, 2));
    served.ofctl(&["--strict", "del-flows", "br0", "priority=10,icmp,icmp_type=8"]);
    assert!(!served.ping(1, 2));
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_ofctl_asks_about_ports_and_changes_them() {
    let served = Served::secure("ports", 2);
    served.add_flow("actions=normal");
    assert!(served.ping(1, 2));
    let shown = served.ofctl(&["dump-ports-desc", "br0"]);
    for part in ["1(port1)", "2(port2)", "LOCAL(br0)", "speed: 10000 Mbps now"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!served.ofctl(&["dump-ports", "br0", "1"]).contains("rx pkts=0"));
    served.ofctl(&["mod-port", "br0", "2", "no-forward"]);
    assert!(!served.ping(1, 2));
    served.ofctl(&["mod-port", "br0", "2", "forward"]);
    assert!(served.ping(1, 2));
    let is_down = || {
        let shown = served.ofctl(&["dump-ports-desc", "br0"]);
        shown.split("2(port2)").next().is_some_and(|first| first.contains("PORT_DOWN"))
    };
    served.ofctl(&["mod-port", "br0", "port1", "down"]);
    assert!(!served.ping(1, 2) && is_down());
    served.until_port1_is("down");
    served.ofctl(&["mod-port", "br0", "port1", "up"]);
    served.until_port1_is("up");
    assert!(served.ping(1, 2));
    // What others do to the interface is seen, too.
    let set = |state| served.network.switch.ip(&["link", "set", "port1", state]).expect("it is there");
    set("down");
    served.until_port1_is("down");
    assert!(is_down());
    set("up");
    served.until_port1_is("up");
    assert!(!is_down());
    let flows = served.ofctl(&["dump-flows", "br0"]);
    assert!(flows.contains("n_packets=") && !flows.contains("n_packets=0,"), "{flows}");
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_ofctl_makes_groups_and_meters() {
    let served = Served::secure("groups", 3);
    served.add_flow("priority=0,actions=normal");
    served.ofctl(&["add-group", "br0", "group_id=1,type=all,bucket=output:2,bucket=output:3"]);
    served.ofctl(&["add-group", "br0", "group_id=2,type=select,bucket=weight:1,output:2"]);
    served.ofctl(&[
        "add-group",
        "br0",
        "group_id=3,type=ff,bucket=watch_port:3,output:3,bucket=watch_port:2,output:2",
    ]);
    let groups = served.ofctl(&["dump-groups", "br0"]);
    assert!(
        groups.contains("group_id=1,type=all,bucket=actions=output:2,bucket=actions=output:3"),
        "{groups}"
    );
    assert!(groups.contains("type=select") && groups.contains("type=ff"), "{groups}");
    for group in 1..=2 {
        served.add_flow(&format!("priority={group},in_port=1,icmp actions=group:{group}"));
        assert!(served.ping(1, 2));
        let stats = served.ofctl(&["dump-group-stats", "br0", &format!("group_id={group}")]);
        assert!(stats.contains("packet_count=3"), "{stats}");
    }
    // The first live bucket; when its port has no link, the next one.
    served.add_flow("priority=3,in_port=1,icmp actions=group:3");
    assert!(!served.ping(1, 2), "it goes to another host");
    served.network.switch.ip(&["link", "set", "port3", "down"]).expect("root may");
    served.vsctl("wait-until Interface port3 admin_state=down");
    assert!(served.ping(1, 2));
    served.ofctl(&["del-groups", "br0", "group_id=3"]);
    assert!(!served.flows().contains("group:3"));

    served.ofctl(&["add-meter", "br0", "meter=1,pktps,bands=type=drop,rate=1"]);
    let meters = served.ofctl(&["dump-meters", "br0"]);
    assert!(meters.contains("meter=1 pktps bands=\ntype=drop rate=1"), "{meters}");
    served.add_flow("priority=9,in_port=1,icmp actions=meter:1,normal");
    // Five packets in a second, of which some are too many.
    served.ping(1, 2);
    served.ping(1, 2);
    let stats = served.ofctl(&["meter-stats", "br0"]);
    assert!(stats.contains("packet_in_count:6") && !stats.contains("bands:\n0: packet_count:0"), "{stats}");
    served.ofctl(&["mod-meter", "br0", "meter=1,pktps,bands=type=drop,rate=1000"]);
    assert!(served.ping(1, 2));
    served.ofctl(&["del-meters", "br0"]);
    assert_eq!(served.ofctl(&["dump-meters", "br0"]).lines().count(), 1);
    assert!(!served.flows().contains("meter"));
}

/// A program that goes on until it is ended, and what it says.
pub(super) struct Listening(Child, BufReader<ChildStderr>);

impl Listening {
    fn begin(served: &Served, arguments: &[&str]) -> Self {
        Self::begin_plain(served, &[&["--protocols=OpenFlow13"], arguments].concat())
    }

    pub(super) fn begin_plain(served: &Served, arguments: &[&str]) -> Self {
        let mut command = served.command("ovs-ofctl");
        let command = command.args(arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it can be run");
        let said = BufReader::new(child.stderr.take().expect("a pipe"));
        Self(child, said)
    }

    /// Reads until all of these have been said, in this order.
    pub(super) fn hears(&mut self, parts: &[&str]) {
        let mut lines = (&mut self.1).lines();
        for part in parts {
            assert!(lines.any(|line| line.expect("it is text").contains(part)), "{part}");
        }
    }
}

impl Listening {
    /// Does something again and again until it is told of that.
    fn hears_of(&mut self, part: &str, does: impl Fn() + Sync) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    does();
                }
            });
            self.hears(&[part]);
            stop.store(true, SeqCst);
        });
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to be done.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_monitors_packets_and_sends_them() {
    let served = Served::secure("monitor", 2);
    served.add_flow("in_port=1,dl_type=0x88b5 actions=controller");
    let mut monitor = Listening::begin(&served, &["monitor", "br0", "65534"]);
    let mut frame = "ffffffffffff02000000000988b5".to_owned();
    frame.push_str(&"00".repeat(46));
    served.until_connected(&mut monitor, " (OF1.3)");
    served.ofctl(&["packet-out", "br0", &format!("in_port=1,packet={frame},actions=table")]);
    monitor.hears(&["NXT_PACKET_IN2 (OF1.3)", "dl_type=0x88b5"]);
    let mut host = served.network.host(2).within(|| packet::open("eth0").expect("it is there"));
    served.ofctl(&["packet-out", "br0", &format!("in_port=controller,packet={frame},actions=output:2")]);
    let mut found = false;
    while !found {
        poll(&mut [PollFd::new(&host, PollFlags::IN)], None).expect("it polls");
        host.receive(64, |frame| found |= frame.bytes()[12..14] == [0x88, 0xb5]).expect("it is up");
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_ofctl_monitors_flows() {
    let served = Served::secure("changes", 2);
    served.add_flow("cookie=1,in_port=1 actions=output:2");
    let mut all = Listening::begin(&served, &["monitor", "br0", "watch:"]);
    let mut some = Listening::begin(&served, &["monitor", "br0", "watch:!initial,!actions,table=1,tcp"]);
    for listening in [&mut all, &mut some] {
        listening.hears_of("cookie=0x9", || {
            served.ofctl(&["add-flow", "br0", "cookie=9,table=1,tcp,tp_src=1 actions=drop"]);
            served.ofctl(&["del-flows", "br0", "table=1"]);
        });
    }
    served.ofctl(&["mod-flows", "br0", "in_port=1 actions=output:3"]);
    served.ofctl(&["add-flow", "br0", "cookie=2,table=1,tcp,tp_dst=22,idle_timeout=9 actions=output:1"]);
    let bundle = served.file("bundle", "delete table=0\nadd cookie=3,table=1,tcp actions=drop\n");
    served.ofctl(&["--bundle", "add-flows", "br0", &bundle]);
    all.hears(&[
        "event=MODIFIED table=0 cookie=0x1 in_port=1 actions=output:3",
        "event=ADDED table=1 idle_timeout=9 cookie=0x2 tcp,tp_dst=22 actions=output:1",
        "event=DELETED reason=delete table=0 cookie=0x1 in_port=1 actions=output:3",
        "event=ADDED table=1 cookie=0x3 tcp",
    ]);
    some.hears(&["event=ADDED table=1 idle_timeout=9 cookie=0x2 tcp,tp_dst=22", "cookie=0x3 tcp"]);
    // What packets make is told, too.
    let learn = "in_port=2 actions=learn(table=2,hard_timeout=1,cookie=4,NXM_OF_ETH_SRC[]),output:1";
    served.add_flow(learn);
    served.ping(2, 1);
    all.hears(&["event=ADDED table=2 hard_timeout=1 cookie=0x4", "event=DELETED reason=hard table=2"]);
}

impl Served {
    /// Waits until the monitor has been told anything: of a port that changes.
    pub(super) fn until_connected(&self, monitor: &mut Listening, version: &str) {
        self.network
            .switch
            .ip(&["link", "add", "news", "type", "veth", "peer", "name", "other"])
            .expect("root may");
        monitor.hears_of(&format!("OFPT_PORT_STATUS{version}"), || {
            self.vsctl("add-port br0 news");
            self.vsctl("del-port br0 news");
        });
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn flows_learn_from_packets() {
    let served = Served::secure("learn", 3);
    served.add_flow(
        "table=0 actions=learn(table=1,idle_timeout=60,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),\
         resubmit(,1)",
    );
    served.add_flow("table=1,priority=0 actions=flood");
    assert!(served.ping(1, 2));
    let learnt = served.ofctl(&["--no-stats", "dump-flows", "br0", "table=1"]);
    for host in [1, 2] {
        let flow = format!("dl_dst={} actions=output:{host}", mac(host));
        assert!(learnt.contains(&flow), "{learnt}");
    }
    assert!(!learnt.contains("output:3"), "{learnt}");
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn connections_are_tracked() {
    let served = Served::secure("firewall", 2);
    for flow in [
        "priority=10,arp actions=normal",
        "priority=9,ip,ct_state=-trk actions=ct(table=1)",
        "table=1,in_port=1,ip,ct_state=+trk+new actions=ct(commit),output:2",
        "table=1,in_port=1,ip,ct_state=+trk+est actions=output:2",
        "table=1,in_port=2,ip,ct_state=+trk+est actions=output:1",
    ] {
        served.add_flow(flow);
    }
    assert!(served.ping(1, 2) && !served.ping(2, 1), "what one host has begun alone");
    assert!(talks(&served, 1, 2).is_some());
    assert_eq!(talks(&served, 2, 1), None);
}

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn addresses_are_translated() {
    let served = Served::secure("nat", 2);
    served.network.knows(2, address(77), 1);
    for flow in [
        "priority=10,arp actions=normal",
        "priority=9,in_port=1,ip actions=ct(commit,nat(src=10.9.0.77)),output:2",
        "priority=9,in_port=2,ip actions=ct(nat,table=1)",
        "table=1,ip,ct_state=+trk+est actions=output:1",
    ] {
        served.add_flow(flow);
    }
    assert_eq!(talks(&served, 1, 2), Some(address(77).into()), "so the other side sees it");
    assert!(ping(served.network.host(1), address(2)));
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_snoops() {
    let served = Served::secure("snoop", 1);
    overhears(&served, Listening::begin(&served, &["snoop", "br0"]));
}

/// A flow that a controller adds is overheard.
pub(super) fn overhears(served: &Served, mut snoop: Listening) {
    let controller = served.network.switch.within(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    served.vsctl(&format!("set-controller br0 tcp:{}", controller.local_addr().expect("bound")));
    let mut client = crate::client::Client::greet(controller.accept().expect("it calls").0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Until it has been heard: it may not listen yet.
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                client.add_flow("priority=7,arp actions=output:1");
            }
        });
        snoop.hears(&["OFPT_FLOW_MOD (OF1.3)", "OFPT_BARRIER_REPLY (OF1.3)"]);
        stop.store(true, SeqCst);
    });
}
