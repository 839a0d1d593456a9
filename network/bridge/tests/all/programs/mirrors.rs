//! `ovs-vsctl` makes mirrors, and who looks at one sees what others are sent.

use super::PATIENCE;
use crate::served::Served;
use fulmar_ovsdb::{Atom, RowRef};
use fulmar_port::{Port, packet};
use std::time::Instant;

const ICMP: u8 = 1;
/// A ping is of so many requests, with as many answers.
const REQUESTS: usize = 3;

/// What comes in at a host, whoever it is for: the next packets of ICMP, as from which station to which, sorted; fewer, if no more come.
fn seen(watch: &mut Port, packets: usize) -> Vec<[u8; 2]> {
    let (mut seen, begin) = (Vec::new(), Instant::now());
    while seen.len() < packets && begin.elapsed() < PATIENCE {
        let look = |frame: fulmar_port::Frame<'_>| {
            let bytes = frame.bytes();
            if bytes.get(12..14) == Some(&[8, 0]) && bytes.get(23) == Some(&ICMP) {
                seen.push([bytes[11], bytes[5]]);
            }
        };
        watch.receive(64, look).expect("it is up");
    }
    seen.sort_unstable();
    seen
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn ports_are_mirrored() {
    let served = Served::secure("mirrors", 3);
    served.add_flow("in_port=1 actions=output:2");
    served.add_flow("in_port=2 actions=output:1");
    let mut watch = served.network.host(3).within(|| packet::open("eth0")).expect("it is there");
    served.vsctl(
        "-- --id=@from get Port port1 -- --id=@to get Port port3 -- set Bridge br0 mirrors=@mirror \
         -- --id=@mirror create Mirror name=both select_src_port=@from select_dst_port=@from output_port=@to",
    );
    assert!(served.ping(1, 2));
    let both = [[[1, 2]; REQUESTS], [[2, 1]; REQUESTS]].concat();
    assert_eq!(seen(&mut watch, 2 * REQUESTS), both);
    let packets = |row: RowRef<'_>| match row.get("statistics").get("tx_packets") {
        Some(Atom::Integer(packets)) => *packets >= 2 * REQUESTS as i64,
        _ => false,
    };
    served.until(|database| database.rows("Mirror").any(packets));
    // One way, and what no flow is for.
    served.vsctl("clear Mirror both select_dst_port");
    served.ofctl(&["del-flows", "br0", "in_port=1"]);
    assert!(!served.ping(1, 2));
    assert_eq!(seen(&mut watch, REQUESTS), [[1, 2]].repeat(REQUESTS));
    served.vsctl("clear Bridge br0 mirrors");
    assert_eq!(served.vsctl("list Mirror"), "", "nobody refers to it any more");
}
