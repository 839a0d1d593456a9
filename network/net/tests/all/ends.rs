//! What is left of networks.

use crate::network::{Network, PAIR, SWITCHED};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

/// A process that is not this one's child.
struct Process(Pid, OwnedFd);

impl Process {
    fn of(shown: &serde_json::Value) -> Self {
        let number = shown.as_i64().and_then(|number| i32::try_from(number).ok()).and_then(Pid::from_raw);
        let pid = number.expect("a number");
        Self(pid, pidfd_open(pid, PidfdFlags::empty()).expect("it lives"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.0, signal).expect("it lives");
    }

    fn wait(&self) {
        poll(&mut [PollFd::new(&self.1, PollFlags::IN)], None).expect("it ends");
    }
}

/// Links to a namespace, of hosts by their place, in processes: who is in it, and who has it open.
fn holders(namespaces: &[String]) -> Vec<String> {
    let links = |directory: String| {
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect::<Vec<_>>()
    };
    let is_process = |path: &Path| path.join("ns").is_dir();
    let processes = links("/proc".into()).into_iter().filter(|path| is_process(path));
    let found = processes.flat_map(|path| {
        [links(format!("{}/ns", path.display())), links(format!("{}/fd", path.display()))].concat()
    });
    let names_one = |path: &Path| {
        fs::read_link(path).is_ok_and(|to| namespaces.iter().any(|known| to.as_os_str() == known.as_str()))
    };
    found.filter(|path| names_one(path)).map(|path| path.display().to_string()).collect()
}

/// Names of the hosts' namespaces, as the kernel has it.
fn namespaces(network: &Network) -> Vec<String> {
    let shown = network.show();
    let hosts = shown["hosts"].as_array().expect("a list").iter();
    let paths =
        hosts.map(|host| fs::read_link(host["namespace"].as_str().expect("a path")).expect("it is there"));
    paths.map(|path| path.display().to_string()).collect()
}

/// Something that runs on a host until it is ended.
fn sleeper(network: &Network) -> Child {
    let mut sleeper = network.command(&["exec", "a", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    let mut sleeper = sleeper.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut ready = [0; 6];
    std::io::Read::read_exact(sleeper.stdout.as_mut().expect("a pipe"), &mut ready).expect("it speaks");
    sleeper
}

#[test]
fn nothing_is_left_of_a_network_that_is_ended() {
    let network = Network::up(SWITCHED);
    let mut sleeper = sleeper(&network);
    let namespaces = namespaces(&network);
    assert!(!holders(&namespaces).is_empty());
    network.must(&["down"]);
    assert_eq!(holders(&namespaces), Vec::<String>::new());
    assert_eq!(sleeper.wait().expect("it has ended").signal(), Some(Signal::TERM.as_raw()));
    assert!(!network.state().exists());
}

#[test]
fn nothing_is_left_of_a_network_that_is_killed() {
    let network = Network::up(SWITCHED);
    let mut sleeper = sleeper(&network);
    let namespaces = namespaces(&network);
    let shown = network.show();
    let guard = Process::of(&shown["guard"]);
    Process::of(&shown["process"]).signal(Signal::KILL);
    guard.wait();
    assert_eq!(holders(&namespaces), Vec::<String>::new());
    assert_eq!(sleeper.wait().expect("it has ended").signal(), Some(Signal::TERM.as_raw()));
    assert!(!network.state().exists());
}

#[test]
fn a_guard_that_is_killed_is_reported_and_replaced() {
    let network = Network::up(PAIR);
    let first = network.show()["guard"].clone();
    Process::of(&first).signal(Signal::KILL);
    let shown = network.wait_until("there is another guard", |shown| shown["guard"] != first);
    let log = fs::read_to_string(network.state().join("log")).expect("there is one");
    assert_eq!(log, format!("fulmar net: the guard, process {first}, was killed: another takes its place\n"));
    // It guards as well as the first.
    let mut sleeper = sleeper(&network);
    let guard = Process::of(&shown["guard"]);
    Process::of(&shown["process"]).signal(Signal::KILL);
    guard.wait();
    assert!(!sleeper.wait().expect("it has ended").success());
    assert!(!network.state().exists());
}

#[test]
fn what_is_left_of_a_network_that_is_killed_with_its_guard_is_replaced() {
    let network = Network::up(PAIR);
    let shown = network.show();
    let processes = ["process", "guard"].map(|which| Process::of(&shown[which]));
    // It starts no other guard.
    processes[0].signal(Signal::STOP);
    for process in processes.iter().rev() {
        process.signal(Signal::KILL);
    }
    processes.iter().for_each(Process::wait);
    assert!(network.state().join("control").exists());
    assert_eq!(network.run(&["show"]).status.code(), Some(1));
    network.start();
    assert!(network.pings("a", Ipv4Addr::new(10, 0, 0, 2)));
}

#[test]
fn a_name_is_one_network_and_nothing_cannot_be_ended() {
    let network = Network::new(PAIR);
    let nothing = network.run(&["down"]);
    assert_eq!(nothing.status.code(), Some(1));
    let why = String::from_utf8(nothing.stderr).expect("text");
    assert!(why.contains("there is no network") && why.contains("fulmar net up"), "{why}");
    network.start();
    let file = network.directory.path().join("net.toml");
    let again = network.run(&["up", file.to_str().expect("a plain path")]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is a network"));
    // It takes no harm.
    assert!(network.pings("a", Ipv4Addr::new(10, 0, 0, 2)));
}

#[test]
fn nothing_is_left_of_a_network_that_cannot_be_brought_up() {
    let network =
        Network::new(&PAIR.replace("name = \"a\"", "name = \"a\"\nroutes = [\"default via nowhere\"]"));
    let file = network.directory.path().join("net.toml");
    let done = network.run(&["up", file.to_str().expect("a plain path")]);
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(why.contains("host a: `ip` refuses: ") && why.contains("nowhere"), "{why}");
    assert_eq!(done.status.code(), Some(1));
    assert!(!network.state().exists());
}
