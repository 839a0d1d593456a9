//! Debian's `ovs-ofctl` (package `openvswitch-common`) speaks with the switch.

use crate::certificates::Authority;
use crate::toy::{Asked, Served, flow_removed};
use fulmar_openflow::Body;
use fulmar_openflow::packet_in::{PacketIn2, PacketInReason};
use fulmar_session::{Event, Settings, Target, TlsFiles};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

fn output(arguments: &[&str]) -> Output {
    let general = ["--timeout=20", "--verbose=console:off", "--protocols=OpenFlow13", "--no-names"];
    Command::new("ovs-ofctl").args(general).args(arguments).output().expect("it can be run")
}

/// What `ovs-ofctl` says that succeeds.
fn ofctl(arguments: &[&str]) -> String {
    let output = output(arguments);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complained.is_empty(), "{arguments:?}: {said}{complained}");
    said.into_owned()
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_asks_by_tcp_and_by_unix_sockets() {
    let served = Served::begin();
    served.control(&["ptcp:0:127.0.0.1"], &Settings::default());
    let tcp = format!("tcp:127.0.0.1:{}", served.status().port.expect("it listens"));
    let unix = format!("unix:{}", served.path("br0.mgmt").display());
    for switch in [tcp.as_str(), &unix] {
        let shown = ofctl(&["show", switch]);
        for part in ["OFPT_FEATURES_REPLY (OF1.3)", "dpid:0000000000000042", "1(p1): addr:02:00:00:00:00:01"]
        {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(shown.contains("OFPT_GET_CONFIG_REPLY (OF1.3)"), "{shown}");
        let flows = ofctl(&["dump-flows", switch]);
        assert!(
            flows.contains("cookie=0xf00d") && flows.contains("priority=7,arp actions=output:2"),
            "{flows}"
        );
        let many = ofctl(&["dump-flows", switch, "table=9"]);
        assert_eq!(many.matches("cookie=0xf00d").count(), 20_000);
        ofctl(&["probe", switch]);
        let pinged = ofctl(&["ping", switch, "1000"]);
        assert!(pinged.contains("1000 bytes from"), "{pinged}");
    }
    assert!(served.asked.try_iter().any(|asked| matches!(asked, Asked::Gone(_))));
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_changes_flows_one_by_one_and_in_bundles() {
    let served = Served::begin();
    let switch = format!("unix:{}", served.path("br0.mgmt").display());
    ofctl(&["add-flow", &switch, "priority=7,arp,actions=output:2"]);
    let is_flow = |asked: &Asked| matches!(asked, Asked::Request(_, body) if matches!(&**body, Body::FlowMod(flow) if flow.priority == 7));
    assert!(served.asked.iter().any(|asked| is_flow(&asked)));
    let refused = output(&["add-flow", &switch, "priority=13,actions=drop"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("OFPFMFC_TABLE_FULL"), "{refused:?}");

    let flows = served.path("flows.txt");
    let write = |text: &str| std::fs::write(&flows, text).expect("it is written");
    let file = flows.to_str().expect("it is text");
    write("priority=1,actions=drop\npriority=2,actions=output:1\n");
    ofctl(&["--bundle", "add-flows", &switch, file]);
    assert!(served.asked.try_iter().any(|asked| asked == Asked::Bundle(2)));
    write("priority=1,actions=drop\npriority=13,actions=output:1\n");
    let refused = output(&["--bundle", "add-flows", &switch, file]);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(
        complaint.contains("OFPFMFC_TABLE_FULL") && complaint.contains("OFPBFC_MSG_FAILED"),
        "{complaint}"
    );
    assert!(!served.asked.try_iter().any(|asked| matches!(asked, Asked::Bundle(_))));
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_monitors() {
    for format in ["standard", "nxt_packet_in", "nxt_packet_in2"] {
        let served = Served::begin();
        let switch = format!("unix:{}", served.path("br0.mgmt").display());
        let mut monitor = Command::new("ovs-ofctl")
            .args(["--timeout=20", "--protocols=OpenFlow13", "--packet-in-format", format])
            .args(["monitor", &switch, "65534"])
            .env("OVS_RUNDIR", served.path("").as_os_str())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be run");
        let mut lines = BufReader::new(monitor.stderr.take().expect("a pipe")).lines();
        // What it is told before it has asked is nothing, so that it is told until it has heard.
        let (stop, stopped) = channel();
        let sessions = served.sessions;
        let teller = std::thread::Builder::new().spawn(move || {
            let mut frame = vec![0xff; 12];
            frame.extend([0x88, 0xb5]);
            frame.resize(60, 0);
            let packet = PacketIn2::new(frame, PacketInReason::Action);
            let event = Event::PacketIn { controller: 0, packet: packet.into() };
            while stopped.recv_timeout(Duration::from_millis(10)).is_err() {
                sessions.tell(&event);
                sessions.tell(&flow_removed());
            }
        });
        let mut told = |part: &str| {
            let found = lines.any(|line| line.expect("it is text").contains(part));
            assert!(found, "{format}: {part}");
        };
        told(if format == "standard" { "OFPT_PACKET_IN (OF1.3)" } else { "NXT_PACKET_IN" });
        told("dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x88b5");
        told("OFPT_FLOW_REMOVED (OF1.3)");
        stop.send(()).expect("it listens");
        teller.expect("a thread").join().expect("no panic");
        monitor.kill().and_then(|()| monitor.wait().map(drop)).expect("it can be ended");
    }
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_asks_by_tls() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let served = Served::begin();
    let files = authority.sign(directory.path(), "switch", &authority);
    served.control(&["pssl:0:127.0.0.1"], &Settings { tls: Some(files), ..Settings::default() });
    let switch = format!("ssl:127.0.0.1:{}", served.status().port.expect("it listens"));
    let TlsFiles { private_key, certificate, authority } =
        authority.sign(directory.path(), "tool", &authority);
    let [key, certificate, authority] =
        [&private_key, &certificate, &authority].map(|path| path.to_str().expect("it is text"));
    let shown = ofctl(&["-p", key, "-c", certificate, "-C", authority, "show", &switch]);
    assert!(shown.contains("dpid:0000000000000042"), "{shown}");
    // 2 MB of an answer.
    let dumped = ofctl(&["-p", key, "-c", certificate, "-C", authority, "dump-flows", &switch, "table=9"]);
    assert_eq!(dumped.matches("cookie=0xf00d").count(), 20_000);
}

#[test]
#[ignore = "it needs Debian's openvswitch-common: `cargo xtask e2e` installs that, and runs it"]
fn ovs_ofctl_listens_in() {
    let served = Served::begin();
    let path = served.path("br0.snoop");
    let snoop = (Target::PassiveUnix(path.clone()), Settings::default());
    served.sessions.set_snoops(vec![snoop]).expect("a socket");
    let mut snoop = Command::new("ovs-ofctl")
        .args(["--timeout=20", "--protocols=OpenFlow13", "snoop", &format!("unix:{}", path.display())])
        .env("OVS_RUNDIR", served.path("").as_os_str())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    served.until_reported("br0.snoop: connected");
    served.control(&["ptcp:0:127.0.0.1"], &Settings::default());
    let tcp = format!("tcp:127.0.0.1:{}", served.status().port.expect("it listens"));
    ofctl(&["add-flow", &tcp, "priority=7,arp,actions=output:2"]);
    let mut lines = BufReader::new(snoop.stderr.take().expect("a pipe")).lines();
    for part in ["OFPT_FLOW_MOD (OF1.3)", "OFPT_BARRIER_REPLY (OF1.3)"] {
        assert!(lines.any(|line| line.expect("it is text").contains(part)), "{part}");
    }
    snoop.kill().and_then(|()| snoop.wait().map(drop)).expect("it can be ended");
}
