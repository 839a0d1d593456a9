//! Debian's `ovs-ofctl` (package `openvswitch-common`) speaks with the switch.

use crate::toy::{Asked, Served};
use fulmar_session::Settings;
use std::process::{Command, Output};

fn output(arguments: &[&str]) -> Output {
    let general = ["--timeout=20", "--verbose=console:off", "--protocols=OpenFlow13"];
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
        ofctl(&["probe", switch]);
        let pinged = ofctl(&["ping", switch, "1000"]);
        assert!(pinged.contains("1000 bytes from"), "{pinged}");
    }
    assert!(served.asked.try_iter().any(|asked| matches!(asked, Asked::Gone(_))));
}
