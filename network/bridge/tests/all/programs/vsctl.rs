//! `ovs-vsctl` says what there is to be, and waits until there is.

use crate::network::{Network, address};
use crate::served::Served;
use fulmar_ovsdb::Atom;
use std::net::UdpSocket;

fn empty(test: &str, hosts: u8) -> Served {
    Served::new(Network::new(test, hosts), Vec::new())
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ovs_vsctl_makes_bridges_and_ports() {
    let served = empty("vsctl", 2);
    served.vsctl("add-br br0");
    assert_eq!(served.vsctl("list-br"), "br0\n");
    served.vsctl("add-port br0 port1 -- add-port br0 port2");
    assert!(served.ping(1, 2), "an ordinary switch");
    assert_eq!(served.vsctl("list-ports br0"), "port1\nport2\n");
    let mut numbers = ["port1", "port2"].map(|port| served.vsctl(&format!("get Interface {port} ofport")));
    numbers.sort();
    assert_eq!(numbers, ["1\n", "2\n"]);
    assert_eq!(served.vsctl("get Open_vSwitch . cur_cfg"), served.vsctl("get Open_vSwitch . next_cfg"));
    assert!(served.vsctl("show").contains("Interface br0\n                type: internal"));
    assert!(served.vsctl("--columns=name find Interface ofport=65534").contains("br0"));
    assert!(served.vsctl("--columns=datapath_id list Bridge br0").contains("0000"));
    // The switch's own interface is a host's, too.
    served.network.switch.ip(&["address", "add", "10.9.0.99/24", "dev", "br0"]).expect("root may");
    served.network.switch.ip(&["link", "set", "br0", "up"]).expect("root may");
    assert!(served.ping(1, 99));

    served.vsctl("del-port br0 port2");
    assert!(!served.ping(1, 2));
    served.vsctl("add-port br0 port2 -- set Interface port2 ofport_request=7");
    assert_eq!(served.vsctl("get Interface port2 ofport"), "7\n");
    assert!(served.ping(1, 2));
    served.vsctl("del-br br0");
    assert_eq!(served.vsctl("list-br"), "");
    assert!(!served.path("br0.mgmt").exists(), "its socket is gone");
    served.vsctl("add-br br0 -- add-port br0 port1 -- add-port br0 port2");
    assert!(served.ping(1, 2), "all is free again");
}

/// With the transaction, and not some time later.
#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn columns_that_tools_read_are_there() {
    let served = empty("columns", 1);
    served.vsctl("add-br br0 -- add-port br0 port1");
    for column in ["ifindex", "mtu", "mac_in_use", "link_speed", "duplex", "link_state", "admin_state"] {
        assert_ne!(served.vsctl(&format!("get Interface port1 {column}")), "[]\n", "{column}");
    }
    assert!(served.vsctl("get Open_vSwitch . iface_types").contains("vxlan"));
}

/// A number that is asked for goes before one that a port merely has, and one that was refused is had when it is free.
#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn who_asks_for_a_number_gets_it() {
    let served = empty("numbers", 2);
    served.vsctl("add-br br0 -- add-port br0 port1 -- add-port br0 port2");
    let number = |name: &str| served.vsctl(&format!("get Interface {name} ofport")).trim().to_owned();
    let first = number("port1");
    served.vsctl(&format!("set Interface port2 ofport_request={first}"));
    assert_eq!(number("port2"), first);
    assert_ne!(number("port1"), first);
    assert!(served.ping(1, 2));
    served.vsctl(&format!("set Interface port1 ofport_request={first}"));
    assert_eq!(number("port2"), first, "it asks for it, too, and has it");
    served.vsctl("del-port br0 port2");
    assert_eq!(number("port1"), first);
}

/// Flows know ports by their numbers, and hosts know the switch's own interface by its address.
#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn numbers_and_addresses_are_those_of_before() {
    let mut served = empty("again", 2);
    served.vsctl("add-br br0 -- add-port br0 port2 -- set Interface port2 ofport_request=1");
    for own in ["own1", "own2", "own3"] {
        served.vsctl(&format!("add-port br0 {own} -- set Interface {own} type=internal"));
    }
    served.vsctl("add-port br0 port1");
    served.vsctl("del-port br0 own2");
    let all = |served: &Served| {
        ["port1", "port2", "own1", "own3", "br0"].map(|name| {
            served.vsctl(&format!("wait-until Interface {name} mac_in_use!=[]"));
            ["ofport", "mac_in_use"].map(|column| served.vsctl(&format!("get Interface {name} {column}")))
        })
    };
    let before = all(&served);
    assert_eq!(before[1][0], "1\n");
    let datapath = served.vsctl("get Bridge br0 datapath_id");
    for _ in 0..2 {
        served = served.again();
        assert_eq!(all(&served), before);
        assert_eq!(served.vsctl("get Bridge br0 datapath_id"), datapath);
    }
    served.vsctl("set Bridge br0 other_config:hwaddr=02:00:00:00:00:99");
    let address = |database: &fulmar_ovsdb::Database| {
        let own = database.rows("Interface").find(|row| row.get("name").string() == Some("br0"));
        own.is_some_and(|row| row.get("mac_in_use").string() == Some("02:00:00:00:00:99"))
    };
    served.until(address);
    let mut served = served.again();
    assert_eq!(all(&served)[4][1], "\"02:00:00:00:00:99\"\n");
    served.vsctl("set Port port1 vlan_mode=dot1q-tunnel tag=5");
    assert!(served.vsctl("get Interface port1 error").contains("dot1q-tunnel"));
    served.vsctl("clear Port port1 vlan_mode");
    assert_eq!(served.vsctl("get Interface port1 error"), "[]\n");
    served.vsctl_output("--no-wait add-br ../outside");
    served = served.again();
    let above = served.directory().parent().expect("it is somewhere").join("outside.mgmt");
    assert!(!above.exists(), "nothing is made elsewhere");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn an_interface_that_is_not_there_is_an_error_until_it_is() {
    let served = empty("absent", 2);
    // Complaints of `ovs-vsctl` about the one do not keep it from the others.
    let output =
        served.vsctl_output("add-br br0 -- add-port br0 port3 -- add-port br0 port1 -- add-port br0 port2");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("port3"), "{complaint}");
    assert!(served.vsctl("get Interface port3 error").contains("port3"));
    assert_eq!(served.vsctl("get Interface port3 ofport"), "-1\n");
    assert_eq!(served.vsctl("get Interface port1 error"), "[]\n");
    assert!(served.ping(1, 2), "the others work");
    served
        .network
        .switch
        .ip(&["link", "add", "port3", "type", "veth", "peer", "name", "other"])
        .expect("root may");
    served.vsctl("wait-until Interface port3 ofport>0");
    assert_eq!(served.vsctl("get Interface port3 error"), "[]\n");
    let wrong = served.vsctl_output("add-port br0 odd -- set Interface odd type=gre");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("odd"), "{wrong:?}");
    assert!(served.vsctl("get Interface odd error").contains("gre"));
    assert!(served.ping(1, 2));
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ports_are_sockets_of_either_kind() {
    let served = empty("afxdp", 3);
    served.vsctl("add-br br0 -- add-port br0 port1 -- set Interface port1 type=afxdp");
    served.vsctl("add-port br0 port2 -- set Interface port2 type=afxdp -- add-port br0 port3");
    assert!(served.ping(1, 2), "from one to another");
    assert!(served.ping(1, 3) && served.ping(3, 2), "beside a packet socket");
    served.vsctl("del-port br0 port1 -- add-port br0 port1");
    assert!(served.ping(1, 2), "the interface is as it was");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn patch_ports_join_bridges() {
    let served = empty("patch", 2);
    served.vsctl("add-br br0 -- add-port br0 port1");
    served.vsctl("add-br br1 -- add-port br1 port2");
    assert!(!served.ping(1, 2));
    let join = "add-port br0 to1 -- set Interface to1 type=patch options:peer=to0 \
                -- add-port br1 to0 -- set Interface to0 type=patch options:peer=to1";
    served.vsctl(join);
    assert!(served.ping(1, 2));
    let number = served.vsctl("get Interface to1 ofport");
    // One end alone leads nowhere; it is not what it was in between.
    served.vsctl("del-port br1 to0");
    assert!(!served.ping(1, 2));
    served.vsctl("add-port br1 to0 -- set Interface to0 type=patch options:peer=to1");
    assert!(served.ping(1, 2));
    assert_eq!(served.vsctl("get Interface to1 ofport"), number);
    // A station that has moved is reached before it says anything: who knew it behind a patch port knows it there no more.
    for (from, to) in [("br0", "br1"), ("br1", "br0")] {
        served.vsctl(&format!("del-port {from} port1 -- add-port {to} port1"));
        assert!(served.ping(2, 1), "it is at {to} now");
    }
    served.vsctl("set Interface to0 options:peer=nobody");
    assert!(!served.ping(1, 2));
}

/// Two bridges that are joined twice, as the database says it, and what it is told of that.
#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn a_spanning_tree_is_switched_on() {
    let served = empty("rstp", 2);
    served.vsctl("add-br br0 -- set Bridge br0 rstp_enable=true other_config:rstp-priority=4096");
    served.vsctl("add-br br1 -- set Bridge br1 rstp_enable=true");
    served.vsctl("add-port br0 port1 -- set Port port1 other_config:rstp-port-admin-edge=true");
    served.vsctl("add-port br1 port2 -- set Port port2 other_config:rstp-port-admin-edge=true");
    for link in ["a", "b"] {
        served.vsctl(&format!(
            "add-port br0 {link}0 -- set Interface {link}0 type=patch options:peer={link}1 \
             -- add-port br1 {link}1 -- set Interface {link}1 type=patch options:peer={link}0"
        ));
    }
    // Until it is so.
    served.vsctl("--timeout=60 wait-until Port a1 rstp_status:rstp_port_role=Root");
    served.vsctl("--timeout=60 wait-until Port a1 rstp_status:rstp_port_state=Forwarding");
    served.vsctl("--timeout=60 wait-until Port b1 rstp_status:rstp_port_role=Alternate");
    served.vsctl("--timeout=60 wait-until Port a0 rstp_status:rstp_port_state=Forwarding");
    assert_eq!(served.vsctl("get Port b1 rstp_status:rstp_port_state"), "Discarding\n");
    let root = served.vsctl("get Bridge br1 rstp_status:rstp_root_id");
    assert_eq!(root, served.vsctl("get Bridge br0 rstp_status:rstp_bridge_id"));
    assert!(root.starts_with("\"1.000."), "{root}");
    assert!(served.ping(1, 2));
    served.vsctl("del-port br0 a0");
    served.vsctl("--timeout=60 wait-until Port b1 rstp_status:rstp_port_state=Forwarding");
    assert!(served.ping(1, 2));
    served.vsctl("set Bridge br0 rstp_enable=false -- set Bridge br1 rstp_enable=false");
    assert!(served.ping(1, 2));
    assert_eq!(served.vsctl("get Port b1 rstp_status"), "{}\n");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn tags_and_trunks_keep_virtual_networks_apart() {
    let served = empty("tags", 4);
    served.vsctl("add-br br0 -- add-br br1");
    served.vsctl("add-port br0 port1 tag=10 -- add-port br0 port2 tag=20");
    served.vsctl("add-port br1 port3 tag=10 -- add-port br1 port4 tag=20");
    served
        .network
        .switch
        .ip(&["link", "add", "trunk0", "type", "veth", "peer", "name", "trunk1"])
        .expect("root may");
    for trunk in ["trunk0", "trunk1"] {
        served.network.switch.ip(&["link", "set", trunk, "addrgenmode", "none", "up"]).expect("root may");
    }
    served.vsctl("add-port br0 trunk0 -- add-port br1 trunk1");
    let pings = |pairs: [(u8, u8); 4]| pairs.map(|(from, to)| served.ping(from, to));
    assert_eq!(pings([(1, 3), (2, 4), (1, 2), (1, 4)]), [true, true, false, false]);
    served.vsctl("set Port trunk0 trunks=20");
    assert_eq!(pings([(1, 3), (2, 4), (1, 2), (1, 4)]), [false, true, false, false]);
    served.vsctl("set Port port2 tag=10 -- clear Port trunk0 trunks");
    assert_eq!(pings([(1, 3), (2, 3), (1, 2), (1, 4)]), [true, true, true, false]);
    // What has a tag does not come in at a port that is in one virtual network.
    served.vsctl("set Port trunk1 tag=10");
    assert_eq!(pings([(1, 3), (2, 3), (1, 2), (3, 1)]), [false, false, true, false]);
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn controllers_and_what_is_done_without_them_are_set() {
    let served = empty("controllers", 1);
    served.vsctl("add-br br0 -- set-fail-mode br0 secure");
    assert_eq!(served.vsctl("get-fail-mode br0"), "secure\n");
    assert_eq!(served.ofctl(&["--no-stats", "dump-flows", "br0"]), "");
    served.vsctl("set-controller br0 ptcp:0:127.0.0.1 odd:6653");
    let told = served.vsctl("--columns=target,status find Controller target=odd\\:6653");
    assert!(told.contains("last_error"), "{told}");
    served.vsctl("del-controller br0");
    assert_eq!(served.vsctl("get-controller br0"), "");
    served.vsctl("set-fail-mode br0 standalone");
    assert!(served.ofctl(&["dump-flows", "br0"]).contains("actions=NORMAL"));
    // Who is no controller is none after a while; the others go on.
    let output = served.vsctl_output("set Bridge br0 fail_mode=open");
    assert!(String::from_utf8_lossy(&output.stderr).contains("constraint violation"), "{output:?}");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn what_comes_in_at_an_interface_is_policed() {
    let served = Served::secure("policing", 2);
    served.add_flow("actions=NORMAL");
    served.network.knows(1, address(2), 2);
    served.network.knows(2, address(1), 1);
    served.vsctl("set Interface port1 ingress_policing_rate=1 ingress_policing_burst=1");
    // The first of them has the bits of many seconds.
    let socket = served.network.host(1).within(|| UdpSocket::bind((address(1), 0)).expect("a port"));
    for _ in 0..3 {
        socket.send_to(&[0; 1400], (address(2), 9)).expect("it is sent");
    }
    served.until_interface(
        "port1",
        "statistics",
        |statistics| matches!(statistics.get("rx_dropped"), Some(Atom::Integer(dropped)) if *dropped >= 2),
    );
    assert!(served.ofctl(&["dump-ports", "br0", "1"]).contains("drop=2"));
    assert!(!served.ping(1, 2));
    served.vsctl("set Interface port1 ingress_policing_rate=0");
    assert!(served.ping(1, 2));
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn bonds_have_one_member_in_use() {
    let served = empty("bonds", 2);
    let switch = &served.network.switch;
    for number in [0, 1] {
        let [one, other] = ["one", "other"].map(|end| format!("{end}{number}"));
        switch.ip(&["link", "add", &one, "type", "veth", "peer", "name", &other]).expect("root may");
        for end in [&one, &other] {
            switch.ip(&["link", "set", end, "addrgenmode", "none", "up"]).expect("root may");
        }
    }
    served.vsctl("add-br br0 -- add-port br0 port1 -- add-bond br0 bond0 one0 one1 bond_mode=active-backup");
    served.vsctl("add-br br1 -- add-port br1 port2 -- add-port br1 other0 -- add-port br1 other1");
    assert!(served.ping(1, 2), "packets do not go in circles");
    let in_use = |member: &str| {
        let address = served.vsctl(&format!("get Interface {member} mac_in_use"));
        served.vsctl(&format!("wait-until Port bond0 bond_active_slave={address}"));
    };
    in_use("one0");
    switch.ip(&["link", "set", "other0", "down"]).expect("root may");
    in_use("one1");
    assert!(served.ping(1, 2));
    switch.ip(&["link", "set", "other0", "up"]).expect("root may");
    in_use("one0");
    assert!(served.ping(1, 2));
    let wrong = served.vsctl_output("set Port bond0 bond_mode=balance-slb");
    assert!(wrong.status.success());
    assert!(served.vsctl("get Interface one1 error").contains("active-backup is known"));
    assert!(!served.ping(1, 2));
}
