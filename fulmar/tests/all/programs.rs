//! Pages whose commands need the programs of others.

use crate::docs::follow_with;

/// As root, in a `/run` of its own.
const RUN: &str = "mount -t tmpfs tmpfs /run";

#[test]
#[ignore = "it needs Debian's openvswitch-common and iputils-ping: `cargo xtask e2e` installs those, and runs it"]
fn networks_on_one_machine_are_built_as_their_page_says() {
    follow_with(&[], "docs/net.md", RUN);
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn the_virtual_switch_does_what_its_page_says() {
    follow_with(&[], "docs/switch.md", RUN);
}
