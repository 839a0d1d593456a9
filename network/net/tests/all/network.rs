//! Networks that end with their test.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Who does not answer within that never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts and a link.
pub(crate) const PAIR: &str = r#"
[[host]]
name = "a"
address = ["10.0.0.1/24", "fd00::1/64"]

[[host]]
name = "b"
address = ["10.0.0.2/24", "fd00::2/64"]

[[link]]
ends = ["a", "b"]
"#;

/// Two hosts at a switch.
pub(crate) const SWITCHED: &str = r#"
[[host]]
name = "a"
address = ["10.0.0.1/24", "fd00::1/64"]

[[host]]
name = "b"
address = ["10.0.0.2/24", "fd00::2/64"]

[[switch]]
name = "s1"

[[link]]
ends = ["a", "s1"]

[[link]]
ends = ["s1", "b"]
"#;

/// A network, with a directory of its own.
pub(crate) struct Network {
    name: String,
    pub(crate) directory: TempDir,
}

impl Network {
    /// One that is not up, of a name that nobody else has.
    pub(crate) fn new(topology: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("net.toml"), topology).expect("written");
        Self { name, directory }
    }

    pub(crate) fn up(topology: &str) -> Self {
        let network = Self::new(topology);
        network.start();
        network
    }

    pub(crate) fn start(&self) {
        let file = self.directory.path().join("net.toml");
        let said = self.must(&["up", file.to_str().expect("a plain path")]);
        assert!(said.contains(&format!("fulmar net down --name {}", self.name)), "{said}");
    }

    /// `fulmar net` with this subcommand.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        // Beside the directory of this program.
        let mut path: PathBuf = std::env::current_exe().expect("a path");
        path.pop();
        path.pop();
        let mut command = Command::new(path.join("examples/network"));
        command.arg("net").arg(arguments[0]).args(["--name", &self.name]).args(&arguments[1..]);
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .output()
            .expect("`cargo test` builds it, unless only this program is asked for")
    }

    /// Runs what must succeed; what it says.
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {why}");
        String::from_utf8(done.stdout).expect("text")
    }

    pub(crate) fn show(&self) -> Value {
        serde_json::from_str(&self.must(&["show", "--json"])).expect("a document")
    }

    /// Where its sockets are.
    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join(format!("fulmar-net-{}", self.name))
    }

    /// Shows it until it is so.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..10_000 {
            let shown = self.show();
            if is_so(&shown) {
                return shown;
            }
        }
        panic!("it does not happen that {what}: {}", self.show());
    }

    /// Does something on a host.
    pub(crate) fn on<T: Send>(&self, host: &str, does: impl FnOnce() -> T + Send) -> T {
        let shown = self.show();
        let hosts = shown["hosts"].as_array().expect("a list");
        let host = hosts.iter().find(|known| known["name"] == host).expect("there is such a host");
        let namespace = File::open(host["namespace"].as_str().expect("a path")).expect("it is there");
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).expect("root may");
                does()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Whether a host's echo request is answered, of several.
    pub(crate) fn pings(&self, from: &str, to: Ipv4Addr) -> bool {
        self.on(from, || {
            let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).expect("root may");
            set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1))).expect("a timeout");
            (0..PATIENCE.as_secs()).any(|_| {
                // An echo request of number 0x4655, its checksum, and nothing else.
                let request = [8, 0, 0xb1, 0xaa, 0x46, 0x55, 0, 0];
                let sent = sendto(&socket, &request, SendFlags::empty(), &SocketAddrV4::new(to, 0));
                sent.is_ok() && is_answered(&socket)
            })
        })
    }
}

fn is_answered(socket: impl std::os::fd::AsFd) -> bool {
    let mut packet = [0; 128];
    while let Ok((_, length)) = recv(&socket, &mut packet[..], RecvFlags::empty()) {
        // After 20 bytes of IPv4: an echo reply.
        if packet[20] == 0 && packet[24..26] == [0x46, 0x55] && length == 28 {
            return true;
        }
    }
    false
}

impl Drop for Network {
    fn drop(&mut self) {
        // It may not be up.
        self.run(&["down"]);
    }
}
