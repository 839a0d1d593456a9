//! A port that is an interface.

use crate::network::exchange;
use crate::wire::Wire;
use fulmar_namespaces::Namespace;
use fulmar_port::{Error, packet, tap};
use std::net::IpAddr;
use std::thread;

#[test]
fn tcp_passes_between_devices_which_go_with_their_ports() {
    let hosts = [1, 2].map(|number| Namespace::new(&format!("tap-{number}")).expect("root may"));
    let taps = [0, 1].map(|at| {
        let host: &Namespace = &hosts[at];
        let tap = host.within(|| tap::create("tap0").expect("root may"));
        assert!(!tap.link().expect("it is there").is_up);
        host.ip(&["address", "add", &format!("10.10.0.{}/24", at + 1), "dev", "tap0"]).expect("root may");
        host.ip(&["link", "set", "tap0", "up"]).expect("root may");
        assert!(tap.link().expect("it is there").is_up);
        assert!(matches!(host.within(|| tap::create("tap0")), Err(Error::Refused { .. })));
        tap
    });
    let mut longest = 0;
    thread::scope(|scope| {
        let longest = &mut longest;
        let _wire = Wire::between(scope, || taps, |_, frame| *longest = frame.bytes().len().max(*longest));
        exchange(&hosts, IpAddr::from([10, 10, 0, 2]));
    });
    assert!(longest > 32_768, "{longest}");
    // The ports went with the wire's thread. A process that another test starts has their files, too, until it runs its program.
    let is_gone = || matches!(packet::open("tap0"), Err(Error::NoInterface { .. }));
    while !hosts.iter().all(|host| host.within(is_gone)) {
        thread::yield_now();
    }
}
