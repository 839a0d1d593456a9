//! A virtual switch in a network of its own, on all sockets of which somebody speaks who means no good.

mod controller;
mod operator;

use super::Tally;
use crate::process::Server;
use crate::workload::Error;
use controller::{Controller, Curious};
use fulmar_node::Random;
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::{Body, Decoder, Hello, Message};
use operator::{Operator, Tables};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde_json::{Deserializer, Value, json};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// One that meets no packets.
const FLOW: &str = "table=200,tcp,tp_dst=9 actions=drop";
/// How long who attacks waits for what it says to be taken.
const PATIENCE: Duration = Duration::from_millis(20);
/// So many attack at once now and then, and say so many bytes that do not end.
const CROWD: usize = 40;
const CROWD_SAYS: usize = 2 << 20;
/// Who is not answered for so long is never.
const HANGS: Duration = Duration::from_secs(10);
/// Tables of the configuration database that the switch itself writes nothing to.
const KEPT: [&str; 2] = ["Queue", "QoS"];

/// Starts a switch by `program` in `directory`, attacks it as controllers and as who asks it questions, for so long, and starts it again.
/// What a controller may do to flows by right is done to them: what goes on meanwhile are the questions of `ovs-ofctl`.
///
/// # Errors
/// [`Error::Breach`] if the switch ends, an answer takes longer than [`super::WAIT`], or the memory grows by more than [`super::GROWTH`].
pub fn openflow(program: &Path, directory: &Path, length: Duration, seed: u64) -> Result<Tally, Error> {
    let switch = Switch { program, directory };
    let mut server = switch.start("br0.mgmt")?;
    let connect = |random: &mut Random, frames: &mut u64| {
        let door = ["br0.mgmt", "controllers", "controllers", "ctl.sock"][random.index(4)];
        let mut stream = switch.connect(door)?;
        if door == "ctl.sock" {
            return speak(&mut stream, random, frames, &mut Curious);
        }
        let mut controller = Controller::new(random);
        stream.write_all(&controller.hello(random))?;
        speak(&mut stream, random, frames, &mut controller)
    };
    let mut tally = Tally::of(length, seed, connect, |turn| switch.ask_bridge(turn))?;
    server.is_up()?;
    tally.growth = server.growth()?;
    server.kill()?;
    let _server = switch.start("br0.mgmt")?;
    switch.ask_bridge(0)?;
    tally.judge()
}

/// The same for the configuration database, which must be after a restart what it was before. What a client may do to rows by right is done to them.
///
/// # Errors
/// As for [`openflow`]; also if rows are not there again.
pub fn ovsdb(program: &Path, directory: &Path, length: Duration, seed: u64) -> Result<Tally, Error> {
    let switch = Switch { program, directory };
    let mut server = switch.start("db.sock")?;
    let schema = switch.ask(&mut switch.database()?, "get_schema", &json!(["Open_vSwitch"]))?;
    let tables = Tables::new(&schema);
    let connect = |random: &mut Random, frames: &mut u64| {
        if random.one_in(50) {
            return switch.crowd(random, frames);
        }
        speak(&mut switch.connect("db.sock")?, random, frames, &mut Operator::new(&tables))
    };
    let mut stays = switch.database()?;
    let mut tally = Tally::of(length, seed, connect, |turn| {
        // Who stays, and who comes.
        switch.change_database(&mut stays, turn)?;
        if turn.is_multiple_of(10) { switch.change_database(&mut switch.database()?, turn) } else { Ok(()) }
    })?;
    let mut before = switch.kept(&mut stays, &tables)?;
    // What was said before its connection was closed may be done yet.
    loop {
        let again = switch.kept(&mut stays, &tables)?;
        if again == before {
            break;
        }
        before = again;
    }
    server.is_up()?;
    tally.growth = server.growth()?;
    server.kill()?;
    let _server = switch.start("db.sock")?;
    let after = switch.kept(&mut switch.database()?, &tables)?;
    if before != after {
        return Err(Error::Breach(format!("{before} were there, and then {after}")));
    }
    tally.judge()
}

/// Who means no good.
trait Attacker {
    /// The next thing that it says.
    fn say(&mut self, random: &mut Random) -> Vec<u8>;

    /// It is answered, or told something: these are the next bytes of that.
    fn hear(&mut self, _: &[u8]) {}
}

/// Says up to some hundred things; hears what is answered, or does not.
fn speak(
    stream: &mut UnixStream,
    random: &mut Random,
    frames: &mut u64,
    attacker: &mut impl Attacker,
) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let reads = !random.one_in(4);
    let mut heard = vec![0; 1 << 16];
    for _ in 0..random.below(300) {
        stream.write_all(&attacker.say(random))?;
        *frames += 1;
        if reads && !hear_all(stream, &mut heard, attacker)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Hears what has come; whether there may be more.
fn hear_all(stream: &UnixStream, heard: &mut [u8], attacker: &mut impl Attacker) -> io::Result<bool> {
    loop {
        match recv(stream, &mut *heard, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(false),
            Ok((length, _)) => attacker.hear(&heard[..length]),
            Err(Errno::AGAIN) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

struct Switch<'a> {
    program: &'a Path,
    directory: &'a Path,
}

type DatabaseClient =
    (UnixStream, serde_json::StreamDeserializer<'static, serde_json::de::IoRead<UnixStream>, Value>);

impl Switch<'_> {
    fn socket(&self, name: &str) -> PathBuf {
        self.directory.join("run").join(name)
    }

    fn connect(&self, name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(self.socket(name))
    }

    /// Starts it, and waits until it listens at this socket.
    fn start(&self, socket: &str) -> Result<Server, Error> {
        let settings = self.directory.join("switch.toml");
        let written = format!(
            "directory = {:?}\n[[bridge]]\nname = \"br0\"\nfail-mode = \"secure\"\ncontrollers = [\"punix:controllers\"]\n",
            self.directory.join("run"),
        );
        std::fs::write(&settings, written)?;
        let mut command = Command::new("unshare");
        command.arg("--net").arg(self.program).args(["switch", "--config"]).arg(settings);
        Server::start(command, &self.directory.join("log"), || self.connect(socket).is_ok())
    }

    fn database(&self) -> Result<DatabaseClient, Error> {
        let stream = self.connect("db.sock")?;
        stream.set_read_timeout(Some(HANGS))?;
        let heard = Deserializer::from_reader(stream.try_clone()?).into_iter();
        Ok((stream, heard))
    }

    /// Many at once, each of whom begins a large message and does not end it, or asks for much and reads nothing.
    fn crowd(&self, random: &mut Random, frames: &mut u64) -> io::Result<()> {
        let begun = [br#"{"method": "echo", "params": [""#, "x".repeat(CROWD_SAYS).as_bytes()].concat();
        let asked =
            r#"{"method": "get_schema", "params": ["Open_vSwitch"], "id": 1}"#.repeat(200).into_bytes();
        let clients = (0..CROWD).map(|_| {
            let mut client = self.connect("db.sock")?;
            client.set_write_timeout(Some(PATIENCE))?;
            *frames += 1;
            // Who is not let in any more, or not heard in time, has said what it could.
            let _ = client.write_all(if random.one_in(2) { &begun } else { &asked });
            Ok(client)
        });
        clients.collect::<io::Result<Vec<_>>>().map(drop)
    }

    fn ask(&self, client: &mut DatabaseClient, method: &str, params: &Value) -> Result<Value, Error> {
        let question = json!({"method": method, "params": params, "id": 1});
        client.0.write_all(question.to_string().as_bytes())?;
        let answer = client.1.next().ok_or_else(|| Error::Breach(format!("no answer to {question}")))?;
        let mut answer = answer.map_err(io::Error::other)?;
        match answer["result"].take() {
            Value::Null => Err(Error::Breach(format!("{question} was answered: {answer}"))),
            result => Ok(result),
        }
    }

    /// Makes a row, looks at it and removes it, in one transaction that others do not see.
    fn change_database(&self, client: &mut DatabaseClient, turn: u64) -> Result<(), Error> {
        let name = format!("spared {turn}");
        let is_it = json!([["external_ids", "includes", ["map", [[name, ""]]]]]);
        let row = json!({"external_ids": ["map", [[name, ""]]], "dscp": turn % 64});
        let result = self.ask(
            client,
            "transact",
            &json!([
                "Open_vSwitch",
                {"op": "insert", "table": "Queue", "row": row},
                {"op": "select", "table": "Queue", "where": is_it, "columns": ["dscp"]},
                {"op": "delete", "table": "Queue", "where": is_it},
            ]),
        )?;
        let is_right =
            result[1] == json!({"rows": [{"dscp": turn % 64}]}) && result[2] == json!({"count": 1});
        if is_right { Ok(()) } else { Err(Error::Breach(format!("transaction {turn}: {result}"))) }
    }

    /// All rows that nobody but clients writes, in an order that is always the same.
    fn kept(&self, client: &mut DatabaseClient, tables: &Tables) -> Result<Value, Error> {
        let mut kept = Vec::new();
        for table in KEPT {
            let columns: Vec<&str> = ["_uuid"].into_iter().chain(tables.columns(table)).collect();
            let select = json!({"op": "select", "table": table, "where": [], "columns": columns});
            let mut result = self.ask(client, "transact", &json!(["Open_vSwitch", select]))?;
            let Value::Array(mut rows) = result[0]["rows"].take() else {
                return Err(Error::Breach(format!("{table}: {result}")));
            };
            rows.sort_by_key(|row| row["_uuid"].to_string());
            kept.push(rows);
        }
        Ok(json!(kept))
    }

    /// What `ovs-ofctl` asks and changes, on a connection of its own.
    fn ask_bridge(&self, turn: u64) -> Result<(), Error> {
        let mut stream = self.connect("br0.mgmt")?;
        stream.set_read_timeout(Some(HANGS))?;
        let echo = turn.to_be_bytes().to_vec();
        let flow: FlowMod = FLOW.parse().map_err(io::Error::other)?;
        let asked = [
            Body::Hello(Hello::new()),
            Body::EchoRequest(echo.clone()),
            Body::FeaturesRequest,
            Body::FlowMod(flow),
            Body::BarrierRequest,
        ];
        let mut said = Vec::new();
        for (xid, body) in (0..).zip(asked) {
            Message { xid, body }.encode(&mut said).map_err(io::Error::other)?;
        }
        stream.write_all(&said)?;
        let (mut decoder, mut bytes) = (Decoder::default(), [0; 4096]);
        let (mut is_echoed, mut is_told) = (false, false);
        loop {
            let length = stream.read(&mut bytes)?;
            if length == 0 {
                return Err(Error::Breach("the switch has ended a tool's connection".into()));
            }
            decoder.push(&bytes[..length]);
            while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
                let answer = frame.decode().map_err(io::Error::other)?;
                match answer.body {
                    Body::EchoReply(data) => is_echoed = data == echo,
                    Body::FeaturesReply(_) => is_told = true,
                    Body::BarrierReply if is_echoed && is_told => return Ok(()),
                    Body::BarrierReply | Body::Error(_) => {
                        return Err(Error::Breach(format!(
                            "{answer:?}; echo: {is_echoed}, features: {is_told}"
                        )));
                    }
                    _ => {}
                }
            }
        }
    }
}
