//! Three servers, and what each fault does to them.

use super::client::Meeting;
use super::history::Time;
use super::large::Large;
use super::network::Network;
use super::node::{Node, break_connections, processes, status};
use super::plan::{CLIENTS, Fault, Replication, SERVERS};
use super::volume::Volume;
use super::{Failure, now};
use fulmar_cluster::{NodeId, Replicas};
use fulmar_kv::ShardId;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long the cluster may take to be whole again.
pub const PATIENCE: Duration = Duration::from_secs(60);
const PORT: &str = "7400";
/// So many endless loops make processors busy.
const BUSY: usize = 5;

/// Who leads a shard, or keeps the clock.
pub struct Leader {
    leads: NodeId,
    /// Who is to, as soon as all replicas have been there for long.
    first: Option<NodeId>,
}

impl Leader {
    /// Whether it leads in place of another, and is not the one who is to.
    pub fn displaces(&self, before: &Self) -> bool {
        self.leads != before.leads && Some(self.leads) != self.first
    }
}

/// The servers of a run.
pub struct Cluster {
    network: Network,
    volumes: Vec<Volume>,
    nodes: Vec<Node>,
    directory: PathBuf,
    meeting: Meeting,
    /// What keeps the processors busy, if anything does.
    busy: Vec<Child>,
    /// Who writes much, if anybody does.
    large: Option<Large>,
}

impl Cluster {
    /// Founds one, and moves the calling thread to the clients' host.
    ///
    /// # Errors
    /// What keeps it from being whole.
    pub fn start(directory: &Path, logs: &Path, replication: Replication) -> Result<Self, Failure> {
        let settings = match replication {
            Replication::None => String::new(),
            replication => format!("replicas = 3\nreplication = \"{replication}\"\n"),
        };
        std::fs::write(directory.join("node.toml"), settings)?;
        let network = Network::new(SERVERS + 1)?;
        let volume = |place: usize| Volume::new(&directory.join(format!("disk{place}")));
        let node = |place: usize| {
            Node::new(&directory.join(format!("control{place}")), logs.join(format!("server{place}.log")))
        };
        let mut cluster = Self {
            network,
            volumes: (0..SERVERS).map(volume).collect::<Result<_, _>>()?,
            nodes: (0..SERVERS).map(node).collect::<Result<_, _>>()?,
            directory: directory.into(),
            meeting: Meeting::at(directory),
            busy: Vec::new(),
            large: None,
        };
        Network::enter(CLIENTS)?;
        cluster.start_one(0, &["--found".into()])?;
        for place in 1..SERVERS {
            cluster.start_one(place, &["--join".into(), cluster.address(0)])?;
        }
        if replication != Replication::None {
            cluster.await_managers()?;
        }
        cluster.await_whole()?;
        cluster.meeting.name_is(&cluster.name())?;
        Ok(cluster)
    }

    /// The database's name, with all addresses.
    #[must_use]
    pub fn name(&self) -> String {
        let addresses: Vec<_> = (0..SERVERS).map(|place| self.address(place)).collect();
        format!("fulmar://{}/chaos?timeout=10s", addresses.join(","))
    }

    fn address(&self, place: usize) -> String {
        format!("{}:{PORT}", self.network.address(place))
    }

    fn others(&self, place: usize) -> Vec<String> {
        let others = (0..SERVERS).filter(|other| *other != place).map(|other| self.address(other));
        vec!["--join".into(), others.collect::<Vec<_>>().join(",")]
    }

    fn data(&self, place: usize) -> PathBuf {
        self.directory.join(format!("disk{place}")).join("data")
    }

    fn start_one(&mut self, place: usize, more: &[String]) -> Result<(), Failure> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut arguments =
            vec!["--data".into(), path(self.data(place)), "--listen".into(), self.address(place)];
        // What is said of replicas is for the first server.
        if place == 0 {
            arguments.extend(["--config".into(), path(self.directory.join("node.toml"))]);
        }
        arguments.extend_from_slice(more);
        self.nodes[place].start(place, &arguments)
    }

    fn kill(&mut self, places: impl IntoIterator<Item = usize> + Clone) -> Result<(), Failure> {
        for place in places.clone() {
            self.nodes[place].signal(Signal::KILL)?;
        }
        places.into_iter().try_for_each(|place| self.nodes[place].wait())
    }

    /// Ends all servers, between two steps of any, for good. Where each has left what it held.
    ///
    /// # Errors
    /// If they cannot be ended.
    pub fn end_all(&mut self) -> Result<Vec<PathBuf>, Failure> {
        (0..SERVERS).try_for_each(|place| self.nodes[place].signal(Signal::STOP))?;
        self.kill(0..SERVERS)?;
        Ok((0..SERVERS).map(|place| self.data(place)).collect())
    }

    /// Begins a fault.
    ///
    /// # Errors
    /// If it cannot be brought about.
    pub fn strike(&mut self, fault: Fault) -> Result<(), Failure> {
        let servers = || 0..SERVERS;
        let both = |a, b| [(a, b), (b, a)];
        match fault {
            Fault::Kill(place) => self.kill([place]),
            Fault::KillTwo(one, other) => self.kill([one, other]),
            Fault::Stop(place) => self.nodes[place].signal(Signal::STOP),
            Fault::End(place) => {
                self.nodes[place].signal(Signal::TERM)?;
                self.nodes[place].wait()
            }
            Fault::Wipe(place) => self.kill([place]),
            Fault::CutOff(place) => self.network.cut((0..=CLIENTS).flat_map(|other| both(place, other))),
            Fault::CutFromServers(place) => self.network.cut(servers().flat_map(|other| both(place, other))),
            Fault::CutPair(one, other) => self.network.cut(both(one, other)),
            Fault::CutOneWay(from, to) => self.network.cut([(from, to)]),
            Fault::Deafen(place) => self.network.cut((0..=CLIENTS).map(|other| (other, place))),
            Fault::BreakConnections => break_all(),
            Fault::Fill(place) => self.volumes[place].fill(),
            Fault::Hang(place) => self.nodes[place].hang(true),
            Fault::FailDisk(place) => self.volumes[place].fail(),
            Fault::Leap(place, seconds) => self.nodes[place].leap(seconds),
            Fault::Power => {
                servers().try_for_each(|place| self.volumes[place].fail())?;
                self.kill(servers())
            }
            Fault::Rename(place) => {
                self.kill([place])?;
                self.network.rename(place)
            }
            Fault::RenameAll => {
                self.kill(servers())?;
                servers().try_for_each(|place| self.network.rename(place))
            }
            Fault::FillAll => servers().try_for_each(|place| self.volumes[place].fill()),
            Fault::Busy => self.keep_busy(),
            Fault::BusyLarge => {
                self.large = Some(Large::begin(self.name()));
                self.keep_busy()
            }
        }
    }

    fn keep_busy(&mut self) -> Result<(), Failure> {
        for _ in 0..BUSY {
            self.busy.push(Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?);
        }
        Ok(())
    }

    /// Ends a fault. Answers when the last server was started, if all or most were away, and who had ended by itself.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn heal(&mut self, fault: Fault) -> Result<(Option<Time>, Vec<usize>), Failure> {
        let mut last_start = None;
        match fault {
            Fault::Kill(place) | Fault::End(place) => self.start_one(place, &[])?,
            Fault::KillTwo(one, other) => {
                self.start_one(one, &[])?;
                self.start_one(other, &[])?;
                last_start = Some(now());
            }
            Fault::Stop(place) => self.nodes[place].signal(Signal::CONT)?,
            Fault::Wipe(place) => self.bring_back(place)?,
            Fault::CutOff(_)
            | Fault::CutFromServers(_)
            | Fault::CutPair(..)
            | Fault::CutOneWay(..)
            | Fault::Deafen(_) => self.network.heal()?,
            Fault::BreakConnections => break_all()?,
            Fault::Fill(place) => self.volumes[place].empty()?,
            Fault::Hang(place) => self.nodes[place].hang(false)?,
            Fault::FailDisk(place) => {
                self.kill([place])?;
                self.volumes[place].recover()?;
                self.start_one(place, &[])?;
            }
            Fault::Leap(place, _) => {
                self.kill([place])?;
                self.start_one(place, &[])?;
            }
            Fault::Power => {
                (0..SERVERS).try_for_each(|place| self.volumes[place].recover())?;
                (0..SERVERS).try_for_each(|place| self.start_one(place, &[]))?;
                last_start = Some(now());
            }
            Fault::Rename(place) => {
                self.start_one(place, &self.others(place))?;
                self.meeting.name_is(&self.name())?;
            }
            Fault::RenameAll => {
                (0..SERVERS).try_for_each(|place| self.start_one(place, &self.others(place)))?;
                last_start = Some(now());
                self.meeting.name_is(&self.name())?;
            }
            Fault::FillAll => (0..SERVERS).try_for_each(|place| self.volumes[place].empty())?,
            Fault::Busy | Fault::BusyLarge => {
                let ended = self.large.take().map_or(Ok(()), Large::end);
                self.busy.drain(..).try_for_each(|mut loops| {
                    loops.kill()?;
                    loops.wait().map(drop)
                })?;
                ended?;
            }
        }
        Ok((last_start, self.start_who_ended()?))
    }

    /// As docs/operations.md says of a server that lost its disk.
    fn bring_back(&mut self, place: usize) -> Result<(), Failure> {
        let name = self.data(place).join("SERVER");
        // The first has none.
        let server = std::fs::read_to_string(&name).unwrap_or_else(|_| "0".into());
        self.volumes[place].wipe()?;
        std::fs::create_dir(self.data(place))?;
        std::fs::write(name, server)?;
        self.start_one(place, &self.others(place))
    }

    /// Does what a supervisor does; who had ended.
    fn start_who_ended(&mut self) -> Result<Vec<usize>, Failure> {
        let ended = self.ended();
        for place in &ended {
            self.nodes[*place].wait()?;
            self.start_one(*place, &[])?;
        }
        Ok(ended)
    }

    fn ended(&mut self) -> Vec<usize> {
        (0..SERVERS).filter(|place| self.nodes[*place].has_ended()).collect()
    }

    fn await_managers(&self) -> Result<(), Failure> {
        let start = Instant::now();
        let address = self.address(0);
        let managers = || fulmar_cluster::Cluster::meet(&address).map_or(0, |met| met.map.managers().len());
        while managers() < SERVERS {
            if start.elapsed() > PATIENCE {
                return Err("the servers do not become a cluster".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Who leads each shard, and who keeps the clock.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub fn leaders(&self) -> Result<Vec<Leader>, Failure> {
        let map = fulmar_cluster::Cluster::meet(&self.address(0))?.map;
        let first =
            |replicas: Option<&Replicas>| replicas.and_then(|replicas| replicas.members.first().copied());
        let shards = map.databases.values().flat_map(|placement| {
            let shards = (0..).map(ShardId).zip(&placement.shards);
            shards.map(move |(shard, leads)| Leader {
                leads: *leads,
                first: first(placement.replicated.get(&shard)),
            })
        });
        let manager = Leader { leads: map.manager, first: first(map.records.as_ref()) };
        Ok(shards.chain([manager]).collect())
    }

    /// Waits until all servers answer and take part.
    ///
    /// # Errors
    /// What `fulmar status` says, if they do not.
    pub fn await_whole(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let ended = self.ended();
            if !ended.is_empty() {
                return Err(format!("servers {ended:?} ended by themselves").into());
            }
            let (is_whole, told) = status(&self.address(0))?;
            if is_whole {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("not whole after {} s:\n{told}", PATIENCE.as_secs()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn break_all() -> Result<(), Failure> {
    for process in processes("client")? {
        break_connections(process)?;
    }
    Ok(())
}
