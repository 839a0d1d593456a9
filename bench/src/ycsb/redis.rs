//! Redis, in memory: a string for each record, a sorted set of their numbers for scans, streams as logs.

use super::system::{Client, System, Values};
use crate::fault::Fault;
use crate::process::{Started, Temporary, find_or_install, free_ports, on_path};
use ::redis::{Commands, Connection, RedisResult, cmd, pipe};
use fulmar_node::Random;
use std::process::{Command, Stdio};

const LOADED_AT_ONCE: u64 = 1_000;
/// The sorted set.
const NUMBERS: &str = "numbers";

pub(super) struct Redis {
    _process: Started,
    client: ::redis::Client,
    version: String,
}

impl Redis {
    pub(super) fn start() -> Result<Self, Fault> {
        let program = find_or_install(|| on_path("redis-server"), "redis-server", "redis-server")?;
        let [port] = free_ports()?;
        let mut command = Command::new(program);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.stdout(Stdio::null());
        let mut process = Started::new(command, Temporary::new()?)?;
        let client = ::redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
        let mut connection = process.wait(|| Ok(client.get_connection()?))?;
        let about: String = cmd("INFO").arg("server").query(&mut connection)?;
        let version = about.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(Self { _process: process, client, version: version.unwrap_or_default().into() })
    }
}

fn key(record: u64) -> String {
    format!("item:{record}")
}

impl System for Redis {
    fn name(&self) -> String {
        format!("redis {}", self.version)
    }

    fn load(&self, records: u64, _logs: u32, values: &Values) -> Result<(), Fault> {
        let mut connection = self.client.get_connection()?;
        cmd("FLUSHALL").exec(&mut connection)?;
        let mut random = Random::new(records);
        for from in (0..records).step_by(usize::try_from(LOADED_AT_ONCE)?) {
            let mut load = pipe();
            for record in from..records.min(from + LOADED_AT_ONCE) {
                load.set(key(record), values.any(&mut random)).ignore();
                load.zadd(NUMBERS, record, record).ignore();
            }
            load.exec(&mut connection)?;
        }
        Ok(())
    }

    fn connected(&self, work: &mut dyn FnMut(&mut dyn Client) -> Result<(), Fault>) -> Result<(), Fault> {
        work(&mut RedisClient(self.client.get_connection()?))
    }
}

struct RedisClient(Connection);

impl Client for RedisClient {
    fn read(&mut self, record: u64) -> Result<usize, Fault> {
        let value: Option<Vec<u8>> = self.0.get(key(record))?;
        Ok(value.map_or(0, |value| value.len()))
    }

    fn update(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        let set: RedisResult<()> = self.0.set(key(record), value);
        Ok(set?)
    }

    fn insert(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        let mut both = pipe();
        both.set(key(record), value).ignore().zadd(NUMBERS, record, record).ignore();
        Ok(both.exec(&mut self.0)?)
    }

    fn scan(&mut self, from: u64, count: u64) -> Result<u64, Fault> {
        let count = isize::try_from(count)?;
        let records: Vec<u64> = self.0.zrangebyscore_limit(NUMBERS, from, "+inf", 0, count)?;
        let keys: Vec<_> = records.into_iter().map(key).collect();
        let values: Vec<Option<Vec<u8>>> = self.0.mget(keys)?;
        Ok(values.iter().flatten().count() as u64)
    }

    fn append(&mut self, log: u32, value: &str) -> Result<(), Fault> {
        Ok(cmd("XADD").arg(format!("log:{log}")).arg("*").arg("value").arg(value).exec(&mut self.0)?)
    }
}
