//! What is listed of a switch that runs, for people and for programs.

use crate::network::address;
use crate::served::Served;
use crate::streams::stream;
use serde_json::Value;

#[test]
fn what_is_remembered_is_listed_for_programs_too() {
    let served = Served::secure("listing", 2);
    served.client().add_flow("actions=normal");
    stream(served.network.host(1), served.network.host(2), address(2), address(2));
    let ask = |method: &str, arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        fulmar_bridge::ask(&served.path("ctl.sock"), method, &arguments).expect("it answers")
    };
    let listed = |method: &str| -> Vec<Value> {
        let lines = ask(method, &["--json", "br0"]);
        lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    };
    let stations = listed("fdb/show");
    assert!(
        stations.iter().all(|station| station["bridge"] == "br0" && station["vlan"] == 0),
        "{stations:?}"
    );
    let mut ports: Vec<_> = stations.iter().filter_map(|station| station["port"].as_str()).collect();
    ports.sort_unstable();
    assert_eq!(ports, ["1", "2"]);
    let stats = listed("dpctl/show");
    let [stats] = &stats[..] else { panic!("of one bridge: {stats:?}") };
    assert!(stats["missed"].as_u64() > Some(0) && stats["openflow_flows"] == 1, "{stats}");
    let named = |port: &Value| port["name"].is_string() && port["number"].is_string();
    assert!(
        stats["ports"].as_array().is_some_and(|ports| ports.len() == 3 && ports.iter().all(named)),
        "{stats}"
    );
    let megaflows = listed("dpctl/dump-flows");
    assert!(!megaflows.is_empty());
    for megaflow in megaflows {
        assert!(megaflow["match"].is_string() && megaflow["actions"].is_string(), "{megaflow}");
        assert!(megaflow["packets"].is_u64() && megaflow["used"].is_f64(), "{megaflow}");
    }
    assert!(ask("fdb/show", &["br0"]).starts_with(" port  VLAN  MAC "));
    assert_eq!(ask("fdb/flush", &["br0"]), "table successfully flushed\n");
    assert!(ask("dpctl/show", &[]).starts_with("br0:\n  lookups: hit:"));
}
