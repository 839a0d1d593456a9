//! The process of a network: what it does from its start to its end.

use crate::control::{self, Answer, HostStatus, LinkStatus, Request, Status, SwitchStatus, socket};
use crate::guard::Guard;
use crate::network::{Network, management};
use crate::state::{Lock, directory};
use crate::tell::tell;
use crate::{Error, Topology};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// How often switches do what is due, and a guard that has ended is noticed at the latest.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Fields end in this order: the guard's work is the last.
struct Running {
    network: Network,
    _listener: UnixListener,
    guard: Guard,
    lock: Lock,
    name: String,
    directory: PathBuf,
}

/// Runs a network until it is told to end. `is_ready` is called when all is up.
///
/// # Errors
/// If it cannot be brought up, or there is one of this name. Nothing is left of it then.
pub fn run(topology: Topology, name: &str, is_ready: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
    let (told, tells) = UnixStream::pair().map_err(Error::cannot("make a socket"))?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let tells = tells.try_clone().map_err(Error::cannot("make a socket"))?;
        signal_hook::low_level::pipe::register(signal, tells).map_err(Error::cannot("await signals"))?;
    }
    let directory = directory(name)?;
    let Some(lock) = Lock::take(&directory)? else { return Err(Error::Taken { name: name.into() }) };
    let mut guard = Guard::start(&directory, &lock, [])?;
    lock.clear(&directory).map_err(Error::cannot(format!("clear {}", directory.display())))?;
    let network = Network::start(topology, &directory)?;
    network.hosts().iter().try_for_each(|host| guard.watch(host))?;
    let listener = UnixListener::bind(socket(&directory)).map_err(Error::cannot("listen"))?;
    let heard = listener.try_clone().map_err(Error::cannot("listen"))?;
    let name = name.to_owned();
    let mut running = Running { network, _listener: listener, guard, lock, name, directory };
    is_ready().map_err(Error::cannot("say that all is up"))?;
    running.attend(&heard, &told)
}

impl Running {
    /// Does what is asked, until that is to end.
    fn attend(&mut self, listener: &UnixListener, signals: &UnixStream) -> Result<(), Error> {
        loop {
            let mut files = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
                PollFd::new(&self.guard, PollFlags::IN),
            ];
            // Interrupted or not, what there is to do is seen by looking.
            let _ = poll(&mut files, Some(&TICK));
            let [is_called, is_signalled, is_unguarded] = files.map(|file| !file.revents().is_empty());
            self.network.tick();
            if is_signalled {
                return Ok(());
            }
            if is_unguarded {
                let process = self.guard.process();
                tell(format_args!(
                    "fulmar net: the guard, process {process}, was killed: another takes its place"
                ));
                self.guard = Guard::start(&self.directory, &self.lock, self.network.hosts())?;
            }
            if is_called {
                // Who calls may go again before being heard.
                let Ok((stream, _)) = listener.accept() else { continue };
                if let Ok(true) = self.serve(stream) {
                    return Ok(());
                }
            }
        }
    }

    /// Does what one asks who has called. Says whether that is to end.
    fn serve(&mut self, stream: UnixStream) -> io::Result<bool> {
        let answered = match control::read(&stream)? {
            Request::Show => Answer::Status(serde_json::to_value(self.status())?),
            Request::Host(name) => match self.network.host(&name) {
                Some(namespace) => Answer::Host(namespace.path()),
                None => {
                    let known: Vec<_> =
                        self.network.topology().hosts.iter().map(|host| &*host.name).collect();
                    Answer::Refused(format!("there is no host {name:?}: name one of {}", known.join(", ")))
                }
            },
            Request::Link { ends, changes } => match self.change(&ends, &changes) {
                Ok(()) => Answer::Done,
                Err(why) => Answer::Refused(why.to_string()),
            },
            Request::Down => {
                control::answer(&stream, &Answer::Done)?;
                // It closes with the process.
                std::mem::forget(stream);
                return Ok(true);
            }
        };
        control::answer(&stream, &answered)?;
        Ok(false)
    }

    /// Changes all links between two.
    fn change(&mut self, ends: &[String; 2], changes: &[String]) -> Result<(), Error> {
        let [one, other] = ends;
        let links = &self.network.topology().links;
        let is_between =
            |at: &usize| links[*at].ends.contains(one) && links[*at].ends.contains(other) && one != other;
        let between: Vec<_> = (0..links.len()).filter(is_between).collect();
        let Some(first) = between.first() else {
            return Err(Error::Refused(format!(
                "there is no link between {one:?} and {other:?}: `fulmar net show` lists links"
            )));
        };
        let mut quality = links[*first].quality.clone();
        for change in changes {
            let (part, value) = match change.as_str() {
                "up" => ("up", "true"),
                "down" => ("up", "false"),
                change => change.split_once('=').unwrap_or((change, "")),
            };
            quality
                .set(part, value)
                .map_err(|instead| Error::Refused(format!("{change:?} is not right; write {instead}")))?;
        }
        between.iter().try_for_each(|at| self.network.set_quality(*at, quality.clone()))
    }

    fn status(&self) -> Status {
        let topology = self.network.topology();
        let hosts = topology.hosts.iter().zip(self.network.hosts());
        let hosts = hosts.map(|(host, namespace)| HostStatus {
            name: host.name.clone(),
            namespace: namespace.path(),
            addresses: host
                .addresses
                .iter()
                .map(|address| format!("{}/{}", address.ip, address.prefix))
                .collect(),
        });
        let switches = topology.switches.iter().map(|switch| SwitchStatus {
            name: switch.name.clone(),
            management: management(&self.directory, &switch.name),
            ports: topology.neighbours(&switch.name).map(str::to_owned).collect(),
        });
        let links = topology.links.iter().zip(self.network.counts());
        let links = links.map(|(link, counts)| LinkStatus {
            ends: link.ends.clone(),
            quality: link.quality.clone(),
            counts,
        });
        Status {
            name: self.name.clone(),
            directory: self.directory.clone(),
            process: std::process::id(),
            guard: self.guard.process(),
            hosts: hosts.collect(),
            switches: switches.collect(),
            links: links.collect(),
        }
    }
}
