//! A controller on os-ken makes hosts reach each other, and what happens when it is killed.

use super::talks;
use crate::network::Network;
use crate::served::Served;
use std::process::{Child, Command};

/// The controller's process, which is killed when this goes.
struct Controller(Child);

impl Controller {
    fn start(served: &Served) -> Self {
        let python = std::env::var("FULMAR_PYTHON").expect("FULMAR_PYTHON names a Python that has os-ken");
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/programs/learning_switch.py");
        let mut command = Command::new(python);
        command.args([program, "6653"]).env("PYTHONDONTWRITEBYTECODE", "1");
        // In the switch's namespace, where the port is free.
        Self(served.network.switch.within(move || command.spawn().expect("it can be run")))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to be done.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// What the controller says is done with packets that it has not said anything else about.
const MISS: &str = "priority=0 actions=CONTROLLER";

/// Three hosts on a switch whose controller is to be at the place of [`Controller`].
fn network(test: &str, fail_mode: &str) -> Served {
    let served = Served::new(Network::new(test, 3), Vec::new());
    served.vsctl("add-br br0 -- add-port br0 port1 -- add-port br0 port2 -- add-port br0 port3");
    served.vsctl(&format!("set-fail-mode br0 {fail_mode} -- set-controller br0 tcp:127.0.0.1:6653"));
    served.vsctl("set Controller br0 max_backoff=1000");
    served
}

/// Asks until it is so; not for ever.
fn until(what: &str, is_so: impl Fn() -> bool) {
    assert!((0..1000).any(|_| is_so()), "{what}");
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping, and os-ken: `cargo xtask e2e` installs those, and runs it"]
fn a_learning_switch_joins_hosts() {
    let served = network("ken", "secure");
    assert!(!served.ping(1, 2), "there are no flows yet");
    let controller = Controller::start(&served);
    served.vsctl("wait-until Controller br0 is_connected=true");
    until("it says what is done with unknown packets", || served.flows().contains(MISS));
    for (from, to) in [(1, 2), (1, 3), (2, 3)] {
        assert!(served.ping(from, to), "{from} to {to}");
        assert!(talks(&served, from, to).is_some(), "{from} to {to} by TCP");
        assert!(served.echoes(to, from), "{to} to {from} by UDP");
    }
    assert!(served.vsctl("get Controller br0 role").contains("other"));
    assert_eq!(served.flows().matches("priority=1,").count(), 6, "{}", served.flows());
    drop(controller);
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping, and os-ken: `cargo xtask e2e` installs those, and runs it"]
fn a_secure_switch_goes_on_with_its_flows_alone() {
    let served = network("secure", "secure");
    let controller = Controller::start(&served);
    until("it says what is done with unknown packets", || served.flows().contains(MISS));
    assert!(served.ping(1, 2));
    drop(controller);
    served.vsctl("wait-until Controller br0 is_connected=false");
    assert!(served.ping(1, 2), "those are known");
    assert!(!served.ping(1, 3), "those are not");
    let controller = Controller::start(&served);
    served.vsctl("wait-until Controller br0 is_connected=true");
    until("it is heard again", || served.ping(1, 3));
    drop(controller);
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch and iputils-ping, and os-ken: `cargo xtask e2e` installs those, and runs it"]
fn a_standalone_switch_works_without_its_controller() {
    let served = network("alone", "standalone");
    let controller = Controller::start(&served);
    until("it says what is done with unknown packets", || served.flows().contains(MISS));
    assert!(served.ping(1, 2));
    drop(controller);
    until("it is given up", || served.ping(1, 3));
    // That is not a flow, so that no tool can take it away.
    served.ofctl(&["del-flows", "br0"]);
    assert_eq!(served.flows().matches("priority").count(), 0);
    assert!(served.ping(1, 2));
    let controller = Controller::start(&served);
    served.vsctl("wait-until Controller br0 is_connected=true");
    until("it is heard again", || served.flows().contains(MISS));
    until("its flows are asked again", || served.ping(2, 3) && served.flows().contains("priority=1,"));
    drop(controller);
}
