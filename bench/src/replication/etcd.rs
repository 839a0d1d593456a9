//! Three members of etcd on loopback, which keep their files in memory, and closed-loop clients that put values.

mod grpc;

use super::values::operation;
use super::{Run, latencies};
use crate::fault::{Fault, Wrong};
use crate::process::{Started, Temporary, find_or_install, free_ports, on_path};
use fulmar_node::Random;
use grpc::Connection;
use hdrhistogram::Histogram;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::task::JoinSet;

const MEMBERS: usize = 3;
/// Operations of each client before the clock starts.
const WARMING: u32 = 200;
/// Of a key; the rest of an operation is the value.
const KEY: usize = 8;

/// A running cluster. It ends with this value.
pub(super) struct Etcd {
    members: Vec<Member>,
    version: String,
}

struct Member {
    process: Started,
    /// Where it serves clients.
    port: u16,
}

impl Etcd {
    pub(super) fn start() -> Result<Self, Fault> {
        let program = find_or_install(|| on_path("etcd"), "etcd", "etcd-server")?;
        let ports = free_ports::<{ 2 * MEMBERS }>()?;
        let (ports, peer_ports) = ports.split_at(MEMBERS);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let cluster: Vec<String> =
            peer_ports.iter().enumerate().map(|(member, &port)| format!("{member}={}", url(port))).collect();
        let mut members = Vec::new();
        for (member, (&port, &peer_port)) in ports.iter().zip(peer_ports).enumerate() {
            let mut command = Command::new(&program);
            command.args(["--name", &member.to_string(), "--data-dir", "data"]);
            command.args(["--listen-client-urls", &url(port), "--advertise-client-urls", &url(port)]);
            command.args(["--listen-peer-urls", &url(peer_port)]);
            command.args(["--initial-advertise-peer-urls", &url(peer_port)]);
            command.args(["--initial-cluster", &cluster.join(",")]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            members.push(Member { process: Started::new(command, Temporary::in_memory()?)?, port });
        }
        let mut version = String::new();
        for Member { process, port } in &mut members {
            version = process.wait(|| Status::of(*port))?.version;
        }
        Ok(Self { members, version })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// So many clients put one value after the other for so long, all from one thread and by one connection to the
    /// leader.
    pub(super) fn run(&self, clients: u32, length: Duration) -> Result<Run, Fault> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let connection = Connection::open(self.leader()?).await?;
            let clients: Vec<Client> = (0..clients)
                .map(|seed| Client { connection: connection.clone(), random: Random::new(seed.into()) })
                .collect();
            let mut warming = JoinSet::new();
            for client in clients {
                warming.spawn(client.warm());
            }
            let warm: Vec<_> = warming.join_all().await;
            let begun = Instant::now();
            let mut working = JoinSet::new();
            for client in warm {
                working.spawn(client?.work(begun + length));
            }
            let mut taken = latencies();
            for worked in working.join_all().await {
                taken.add(&worked?)?;
            }
            Ok(Run::of(taken, begun.elapsed()))
        })
    }

    /// Where the member serves clients that the others follow: they would only pass on what is put.
    fn leader(&self) -> Result<u16, Fault> {
        for member in &self.members {
            let status = Status::of(member.port)?;
            if status.leader == status.member {
                return Ok(member.port);
            }
        }
        Err(Wrong("it has no leader".into()).into())
    }
}

impl Drop for Etcd {
    /// All at once, so that none waits for one that has ended.
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| member.process.ask_to_end("TERM"));
        self.members.iter_mut().for_each(|member| member.process.wait_for_end());
    }
}

/// What a member says of itself.
struct Status {
    version: String,
    member: String,
    leader: String,
}

impl Status {
    /// An error, too, while there is no leader.
    fn of(port: u16) -> Result<Self, Fault> {
        let answer = ureq::post(format!("http://127.0.0.1:{port}/v3/maintenance/status")).send("{}")?;
        let status: Value = serde_json::from_str(&answer.into_body().read_to_string()?)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let member = text(&status["header"]["member_id"]);
        let leader = text(&status["leader"]).filter(|leader| leader != "0");
        let (Some(version), Some(member), Some(leader)) = (text(&status["version"]), member, leader) else {
            return Err(Wrong(format!("no leader: {status}")).into());
        };
        Ok(Self { version, member, leader })
    }
}

struct Client {
    connection: Connection,
    random: Random,
}

impl Client {
    async fn put(&mut self) -> Result<(), Fault> {
        let operation = operation(&mut self.random);
        let (key, value) = operation.split_at(KEY);
        self.connection.put(key, value).await
    }

    async fn warm(mut self) -> Result<Self, Fault> {
        for _ in 0..WARMING {
            self.put().await?;
        }
        Ok(self)
    }

    /// How long each operation has taken, in nanoseconds.
    async fn work(mut self, until: Instant) -> Result<Histogram<u64>, Fault> {
        let mut taken = latencies();
        let mut now = Instant::now();
        while now < until {
            self.put().await?;
            let before = std::mem::replace(&mut now, Instant::now());
            taken.record(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX))?;
        }
        Ok(taken)
    }
}
