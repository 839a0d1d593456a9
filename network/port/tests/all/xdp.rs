//! A port on an interface whose other side leaves nothing to be done.

use crate::network::exchange;
use crate::wire::Wire;
use fulmar_namespaces::Namespace;
use fulmar_port::{Error, Offload, packet, tap, xdp};
use std::net::IpAddr;
use std::thread;

/// Two hosts with TAP devices, and between them a link that knows no offloads.
#[test]
fn segments_are_cut_for_a_port_that_takes_none() {
    let hosts = [1, 2].map(|number| Namespace::new(&format!("xdp-{number}")).expect("root may"));
    let switch = Namespace::new("xdp-s").expect("root may");
    switch.ip(&["link", "add", "trunk1", "type", "veth", "peer", "name", "trunk2"]).expect("root may");
    let pairs = [(1, "trunk1"), (2, "trunk2")].map(|(number, trunk)| {
        let host = &hosts[number - 1];
        switch.ip(&["link", "set", trunk, "addrgenmode", "none", "up"]).expect("root may");
        let tap = host.within(|| tap::create("tap0").expect("root may"));
        host.ip(&["address", "add", &format!("10.11.0.{number}/24"), "dev", "tap0"]).expect("root may");
        host.ip(&["link", "set", "tap0", "up"]).expect("root may");
        let xdp = switch.within(|| xdp::open(trunk).expect("the kernel has XDP"));
        [tap, xdp]
    });
    let mut longest = [[0; 2]; 2];
    thread::scope(|scope| {
        let [longest1, longest2] = longest.each_mut();
        let wires = pairs.into_iter().zip([longest1, longest2]).map(|(pair, longest)| {
            Wire::between(
                scope,
                move || pair,
                move |side, frame| {
                    longest[side] = frame.bytes().len().max(longest[side]);
                    assert!(frame.headroom() >= 64);
                },
            )
        });
        let _wires: Vec<_> = wires.collect();
        exchange(&hosts, IpAddr::from([10, 11, 0, 2]));
    });
    assert!(longest.iter().all(|[tap, xdp]| *tap > 32_768 && *xdp == 1514), "{longest:?}");
}

#[test]
fn what_does_not_fit_is_counted_and_a_link_that_is_down_is_an_error() {
    let switch = Namespace::new("xdp-down").expect("root may");
    switch.ip(&["link", "add", "port1", "type", "veth", "peer", "name", "port2"]).expect("root may");
    for name in ["port1", "port2"] {
        switch.ip(&["link", "set", name, "addrgenmode", "none", "up"]).expect("root may");
    }
    let mut port = switch.within(|| xdp::open("port1").expect("the kernel has XDP"));
    let mut there = switch.within(|| packet::open("port2").expect("it is there"));
    assert!(matches!(switch.within(|| xdp::open("port1")), Err(Error::Refused { .. })));
    let frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 5, 0x88, 0xb5], &[7; 46][..]].concat();
    for _ in 0..5_000 {
        port.send(&frame, Offload::NONE);
    }
    port.send(&[0; xdp::LONGEST_FRAME + 1], Offload::NONE);
    port.flush();
    let sent = port.counters().sent;
    assert_eq!((sent.packets + sent.dropped, sent.errors), (5_000, 1));
    let mut came = 0;
    while there.receive(64, |there| came += u64::from(there.bytes() == frame)).expect("it is up") > 0 {}
    assert_eq!(came + there.counters().received.dropped, sent.packets);

    switch.ip(&["link", "set", "port1", "down"]).expect("root may");
    let error = loop {
        if let Err(why) = port.receive(64, |_| {}) {
            break why;
        }
    };
    assert!(matches!(error, Error::Down { .. }));
    switch.ip(&["link", "delete", "port1"]).expect("root may");
    assert!(matches!(port.receive(64, |_| {}), Err(Error::Gone { .. })));
}
