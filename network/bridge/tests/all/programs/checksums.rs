//! Checksums that a switch leaves open, or changes, are right on the wire.

use crate::network::address;
use crate::served::Served;
use crate::streams::{stream, tagged, translated};
use fulmar_namespaces::Namespace;
use std::process::Command;

/// An interface computes no checksums, and looks at all that come.
pub(crate) fn set_offloads(at: &Namespace, interface: &str, are_on: bool) {
    let set = if are_on { "on" } else { "off" };
    let arguments = ["-K", interface, "tx", set, "rx", set];
    let done = at.within(|| Command::new("ethtool").args(arguments).output().expect("it can be run"));
    assert!(done.status.success(), "{done:?}");
}

/// Streams go to a host that looks at each checksum, from one that leaves them open and from one that does not.
fn streams_arrive(served: &Served, call: u8) {
    let network = &served.network;
    let (from, to) = (network.host(1), network.host(2));
    set_offloads(to, "eth0", false);
    for port in ["port1", "port2"] {
        set_offloads(&network.switch, port, false);
    }
    for are_on in [true, false] {
        set_offloads(from, "eth0", are_on);
        stream(from, to, address(2), address(call));
    }
}

#[test]
#[ignore = "it needs Debian's ethtool: `cargo xtask e2e` installs that, and runs it"]
fn checksums_are_right_after_tags() {
    streams_arrive(&tagged("sums"), 2);
}

#[test]
#[ignore = "it needs Debian's ethtool: `cargo xtask e2e` installs that, and runs it"]
fn checksums_are_right_of_other_addresses() {
    streams_arrive(&translated("sums-nat"), 9);
}
