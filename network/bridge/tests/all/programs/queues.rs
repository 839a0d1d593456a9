//! `ovs-vsctl` gives ports queues, flows choose them, and `ovs-ofctl` tells what has left by them.

use crate::served::Served;

/// Of a queue: packets sent, and dropped.
fn told(served: &Served, queue: u32) -> (u64, u64) {
    let text = served.ofctl(&["queue-stats", "br0", "2", &queue.to_string()]);
    let number = |name: &str| -> u64 {
        let (_, rest) = text.split_once(name).unwrap_or_else(|| panic!("{name} in {text}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("it is a number")
    };
    (number("pkts="), number("errors="))
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn queues_hold_rates_and_count() {
    let served = Served::secure("queues", 2);
    served.network.knows(1, crate::network::address(2), 2);
    served.network.knows(2, crate::network::address(1), 1);
    served.vsctl(
        "set port port2 qos=@qos -- --id=@qos create qos type=linux-htb other-config:max-rate=1000000000 \
         queues:1=@fast queues:2=@slow \
         -- --id=@fast create queue other-config:max-rate=100000000 \
         -- --id=@slow create queue other-config:max-rate=8 other-config:burst=8",
    );
    served.add_flow("in_port=2 actions=output:1");
    served.add_flow("in_port=1 actions=set_queue:1,output:2");
    assert!(served.ping(1, 2));
    assert_eq!(told(&served, 1), (3, 0));
    assert_eq!(told(&served, 0), (0, 0));
    let all = served.ofctl(&["queue-stats", "br0"]);
    assert!(all.contains("3 queues"), "{all}");
    // One packet, and not another for a minute.
    served.add_flow("in_port=1 actions=set_queue:2,output:2");
    assert!(served.flows().contains("actions=set_queue:2,output:2"));
    served.ping(1, 2);
    assert_eq!(told(&served, 2), (1, 2));
    assert_eq!(told(&served, 1), (3, 0));
    let refused = served.ofctl_output(&["queue-stats", "br0", "2", "9"]);
    assert!(String::from_utf8_lossy(&refused.stdout).contains("OFPQOFC_BAD_QUEUE"), "{refused:?}");
    let config = served.ofctl(&["queue-get-config", "br0", "2"]);
    assert!(config.contains('1') && config.contains('2'), "{config}");
    // Its rate changes while it runs.
    let uuid = served.vsctl("--bare --columns=_uuid find queue other_config:burst=8");
    served.vsctl(&format!(
        "set queue {} other_config:max-rate=100000000 other_config:burst=1000000",
        uuid.trim()
    ));
    assert!(served.ping(1, 2));
    // The same in OpenFlow 1.0, where one action chooses the port and the queue.
    served.plain(&["add-flow", "br0", "in_port=1 actions=enqueue:2:1"]);
    assert!(served.plain(&["dump-flows", "br0"]).contains("actions=enqueue:2:1"));
    assert!(served.ping(1, 2));
    assert!(served.plain(&["queue-stats", "br0", "2", "1"]).contains("pkts=6"));
    assert!(served.plain(&["queue-stats", "br0"]).contains("3 queues"));
    let refused = served.plain(&["queue-stats", "br0", "2", "9"]);
    assert!(refused.contains("OFPQOFC_BAD_QUEUE"), "{refused}");
    let config = served.plain(&["queue-get-config", "br0", "2"]);
    assert!(config.contains("port=2") && config.contains("max_rate"), "{config}");
    served.vsctl("clear port port2 qos");
    assert_eq!(served.ofctl(&["queue-stats", "br0"]).lines().count(), 1);
    assert!(served.ping(1, 2), "a queue that there is not holds nothing up");
}
