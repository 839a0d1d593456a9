//! Debian's `ovs-vsctl` and `ovsdb-client` (packages `openvswitch-switch` and `openvswitch-common`) use the database where they are.

use crate::served::Served;
use fulmar_ovsdb::{Handle, Schema, open_vswitch};
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

fn output(program: &str, arguments: &[&str]) -> Output {
    // Without what they note of themselves, as of a machine that is slow.
    let general = ["--timeout=20", "--verbose=console:off"];
    Command::new(program).args(general).args(arguments).output().expect("it can be run")
}

/// What a program says that succeeds.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complained.is_empty(), "{program} {arguments:?}: {said}{complained}");
    said.into_owned()
}

/// `ovs-vsctl` on this database: what it says to a command without complaint.
fn vsctl(served: &Served, command: &str) -> String {
    let database = format!("--db=unix:{}", served.socket().display());
    let words: Vec<&str> = [database.as_str()].into_iter().chain(command.split_whitespace()).collect();
    run("ovs-vsctl", &words)
}

/// A switch that does nothing but say that it has done all it was told to, until there is no bridge `end`.
fn stand_in(handle: Handle) -> JoinHandle<()> {
    thread::Builder::new()
        .spawn(move || {
            let ((), changes) = handle.subscribe(|_| ());
            for changes in changes {
                if changes.of("Bridge").any(|change| {
                    change.old.is_some_and(|bridge| bridge.get("name").string() == Some("end"))
                        && change.new.is_none()
                }) {
                    return;
                }
                let asked = changes.of("Open_vSwitch").filter(|change| change.touches("next_cfg"));
                let asked: Vec<_> = asked.filter_map(|change| change.new).collect();
                for root in asked {
                    let ports = changes.of("Interface").filter(|change| change.new.is_some());
                    let ports: Vec<_> = ports.map(|change| change.uuid).collect();
                    let done = handle.transact(|draft, _| {
                        for (port, number) in ports.iter().zip(1_i64..) {
                            draft.set("Interface", *port, "ofport", number)?;
                        }
                        let next = root.get("next_cfg").integer().expect("one integer");
                        draft.set("Open_vSwitch", root.uuid(), "cur_cfg", next)
                    });
                    done.expect("it may say so");
                }
            }
        })
        .expect("a thread")
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn ovs_vsctl_configures_a_switch() {
    let served = Served::begin();
    vsctl(&served, "--no-wait init");
    vsctl(&served, "--no-wait add-br br0");
    vsctl(
        &served,
        "--no-wait add-port br0 vx0 -- set Interface vx0 type=vxlan options:remote_ip=10.0.0.1 options:key=7",
    );
    vsctl(&served, "--no-wait set-controller br0 tcp:127.0.0.1:6653 tcp:127.0.0.1:6654");
    vsctl(&served, "--no-wait set-fail-mode br0 secure");
    vsctl(&served, "--no-wait set Bridge br0 protocols=OpenFlow13 other_config:hwaddr=02:00:00:00:00:01");
    let shown = vsctl(&served, "show");
    for line in [
        "Bridge br0",
        "fail_mode: secure",
        "Controller \"tcp:127.0.0.1:6654\"",
        "options: {key=\"7\", remote_ip=\"10.0.0.1\"}",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(vsctl(&served, "get Interface vx0 options:key"), "\"7\"\n");
    assert_eq!(vsctl(&served, "--bare --columns=name find Interface type=vxlan"), "vx0\n");
    assert_eq!(vsctl(&served, "list-ports br0"), "vx0\n");
    assert_eq!(vsctl(&served, "get-fail-mode br0"), "secure\n");
    assert!(vsctl(&served, "list Bridge").contains("protocols           : [OpenFlow13]"));

    // What was committed is there after the server has ended.
    let served = served.restart();
    assert_eq!(vsctl(&served, "list-br"), "br0\n");
    assert_eq!(vsctl(&served, "get-controller br0"), "tcp:127.0.0.1:6653\ntcp:127.0.0.1:6654\n");

    // A name twice, and a value that is none.
    let database = format!("--db=unix:{}", served.socket().display());
    let refused = output("ovs-vsctl", &[&database, "--no-wait", "set", "Port", "vx0", "tag=5000"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("constraint violation"), "{refused:?}");
    let refused = output("ovs-vsctl", &[&database, "--no-wait", "add-br", "br0"]);
    assert!(!refused.status.success(), "{refused:?}");

    vsctl(&served, "--no-wait --if-exists del-br br1 -- del-br br0");
    assert_eq!(vsctl(&served, "show").lines().count(), 1);
    let left = ["Bridge", "Port", "Interface", "Controller"];
    let rows: usize =
        left.iter().map(|table| served.handle.read(|database| database.rows(table).count())).sum();
    assert_eq!(rows, 0, "what nothing refers to is gone");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn ovs_vsctl_waits_for_the_switch() {
    let served = Served::begin();
    vsctl(&served, "--no-wait init");
    let switch = stand_in(served.handle.clone());
    vsctl(&served, "add-br br0");
    vsctl(&served, "add-port br0 p1 -- set Interface p1 type=internal");
    assert_eq!(vsctl(&served, "get Interface p1 ofport"), "1\n");
    vsctl(&served, "add-br end");
    vsctl(&served, "--no-wait del-br end");
    switch.join().expect("it has ended");
    let database = format!("--db=unix:{}", served.socket().display());
    // Nobody is there to do it.
    let late = Command::new("ovs-vsctl").args([&database, "--timeout=1", "add-br", "br1"]).output();
    assert!(!late.expect("it can be run").status.success());
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn ovsdb_client_reads_and_writes() {
    let served = Served::begin();
    let server = format!("tcp:{}", served.address);
    let client = |arguments: &[&str]| run("ovsdb-client", arguments);
    assert_eq!(client(&["list-dbs", &server]), "Open_vSwitch\n_Server\n");
    client(&["wait", &server, "Open_vSwitch", "connected"]);
    let schema = serde_json::from_str(&client(&["get-schema", &server])).expect("it is JSON");
    assert_eq!(Schema::from_json(&schema), Ok(open_vswitch()));
    assert_eq!(client(&["get-schema-version", &server]), format!("{}\n", open_vswitch().version()));
    assert!(client(&["list-tables", &server]).contains("Flow_Sample_Collector_Set"));
    assert!(client(&["list-columns", &server, "Bridge"]).contains("fail_mode"));
    vsctl(&served, "--no-wait add-br br0 -- add-port br0 p1");
    let dump = client(&["dump", &server, "Port", "name", "tag"]);
    assert!(dump.contains("br0") && dump.contains("p1"), "{dump}");
    let insert = r#"["Open_vSwitch", {"op": "insert", "table": "Queue", "row": {"dscp": 7}},
        {"op": "select", "table": "Queue", "where": [["dscp", ">", 6]], "columns": ["dscp"]}]"#;
    assert!(client(&["transact", &server, insert]).contains(r#"{"rows":[{"dscp":7}]}"#));
    assert!(client(&["dump", &server, "Queue"]).contains('7'));
    let queue = r#"["Open_vSwitch", {"op": "wait", "table": "Queue", "timeout": 0, "where": [], "until": "==",
        "columns": ["dscp"], "rows": [{"dscp": 8}]}]"#;
    assert!(client(&["transact", &server, queue]).contains("timed out"));
}

/// `ovsdb-client monitor`, by each of the three methods that it knows, is told what is there and what changes.
#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn ovsdb_client_monitors() {
    for (command, request) in [
        ("monitor", r#"{"Bridge": {"columns": ["name", "stp_enable"]}}"#),
        ("monitor-cond", r#"[["name", "==", "br0"]]"#),
        ("monitor-cond-since", r#"[["name", "==", "br0"]]"#),
    ] {
        let served = Served::begin();
        vsctl(&served, "--no-wait add-br br0");
        let server = format!("unix:{}", served.socket().display());
        let mut client = Command::new("ovsdb-client");
        client.args([command, "--format=csv", "--no-headings", "--timeout=20", &server]);
        let mut client = match command {
            "monitor" => client.args(["Bridge", "name,stp_enable"]),
            "monitor-cond" => client.args(["Open_vSwitch", request, "Bridge", "name,stp_enable"]),
            _ => client.args([
                "Open_vSwitch",
                "00000000-0000-0000-0000-000000000000",
                request,
                "Bridge",
                "name,stp_enable",
            ]),
        }
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it can be run");
        let mut lines =
            std::io::BufRead::lines(std::io::BufReader::new(client.stdout.take().expect("a pipe")));
        let mut told = |expected: &str| {
            let found = lines.any(|line| line.expect("it is text").ends_with(expected));
            assert!(found, "{command}: {expected}");
        };
        // `monitor-cond` leaves out what is as by default, and what has not changed.
        told(if command == "monitor" { ",initial,br0,false" } else { ",initial,br0," });
        vsctl(&served, "--no-wait set Bridge br0 stp_enable=true");
        told(if command == "monitor" { ",new,br0,true" } else { ",modify,,true" });
        client.kill().and_then(|()| client.wait().map(drop)).expect("it can be ended");
    }
}
