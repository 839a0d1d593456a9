//! Open vSwitch of its own: a database server and a switch in a directory, with ports that are files.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The last port shows how far frames have come: one of this type leaves there.
const MARK_TYPE: [u8; 2] = [0x88, 0xb5];
/// A file of packets, and each packet in it, begins with so many bytes about it.
const FILE_HEADER: u64 = 24;
const PACKET_HEADER: usize = 16;

/// The frames that left, by their ports.
pub(crate) type Sent = BTreeMap<u32, Vec<Vec<u8>>>;

pub(crate) struct OpenVSwitch {
    ports: u32,
    /// How much of each port's file has been read.
    read: BTreeMap<u32, u64>,
    control: UnixStream,
    switch: Child,
    database: Child,
    directory: TempDir,
}

fn command(directory: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(name, directory);
    }
    command.current_dir(directory).stdin(Stdio::null());
    command
}

/// What a program says that succeeds, or what it complains of.
fn run(directory: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = command(directory, program).args(arguments).output().expect("it can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}

/// Begins a program that says by a process of its own when it is ready to serve.
fn begin(directory: &Path, program: &str, arguments: &[&str]) -> Child {
    let mut command = command(directory, program);
    command.args(["--no-chdir", "--verbose=console:off"]).args(arguments);
    command.spawn().expect("it can be run")
}

impl OpenVSwitch {
    /// One with a bridge `br0` of so many ports, `p1` and on, and one that shows how far it is.
    pub(crate) fn begin(ports: u32) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(path, "ovsdb-tool", &["create", "conf.db", schema]).expect("a database");
        let database =
            begin(path, "ovsdb-server", &["--remote=punix:db.sock", "--unixctl=database.ctl", "conf.db"]);
        let switch = begin(
            path,
            "ovs-vswitchd",
            &["--enable-dummy=override", "--disable-system", "--unixctl=switch.ctl", "unix:db.sock"],
        );
        let mut setup = String::from(
            "--db=unix:db.sock --retry --timeout=60 init \
             -- set open_vswitch . other_config:vlan-limit=2 \
             -- add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure protocols=OpenFlow13",
        );
        for port in 1..=ports + 1 {
            setup += &format!(
                " -- add-port br0 p{port} -- set interface p{port} type=dummy ofport_request={port} \
                 options:tx_pcap=p{port}.pcap"
            );
        }
        let words: Vec<&str> = setup.split_whitespace().collect();
        let configured = run(path, "ovs-vsctl", &words);
        let control = UnixStream::connect(path.join("switch.ctl"));
        let read = (1..=ports + 1).map(|port| (port, FILE_HEADER)).collect();
        match (configured, control) {
            (Ok(_), Ok(control)) => Self { ports, read, control, switch, database, directory },
            (configured, control) => {
                end(switch);
                end(database);
                panic!("no switch: {configured:?}, {control:?}")
            }
        }
    }

    /// Has these flows and groups, written as for `ovs-ofctl bundle`, and nothing else.
    pub(crate) fn replace(&mut self, lines: &[String]) -> Result<(), String> {
        let mark = format!(
            "flow add table=0,priority=65535,dl_type=0x{:02x}{:02x} actions=output:{}",
            MARK_TYPE[0],
            MARK_TYPE[1],
            self.ports + 1
        );
        let mut text = "flow delete\ngroup delete group_id=all\n".to_owned() + &mark + "\n";
        for line in lines {
            text += line;
            text.push('\n');
        }
        std::fs::write(self.directory.path().join("flows"), &text).expect("a file");
        let complain = |why: String| {
            let number = why.split("flows:").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
            let line = number.and_then(|number: usize| text.lines().nth(number - 1)).unwrap_or_default();
            format!("{line}: {why}")
        };
        let arguments = ["-O", "OpenFlow13", "bundle", "br0", "flows"];
        run(self.directory.path(), "ovs-ofctl", &arguments).map_err(complain)?;
        Ok(())
    }

    /// Forgets what it has decided.
    pub(crate) fn forget(&mut self) {
        self.ask("revalidator/purge", &[]);
    }

    /// Why one flow is refused, if it is.
    pub(crate) fn refuses(&self, flow: &str) -> Option<String> {
        run(self.directory.path(), "ovs-ofctl", &["-O", "OpenFlow13", "add-flow", "br0", flow]).err()
    }

    /// The frames that leave when these come in at a port, one after the other.
    pub(crate) fn send(&mut self, port: u32, frames: &[Vec<u8>]) -> Sent {
        let mut mark = vec![0; 12];
        mark.extend(MARK_TYPE);
        mark.resize(60, 0);
        let mut words = vec![format!("p{port}")];
        words.extend(frames.iter().chain([&mark]).map(|frame| hexadecimal(frame)));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.ask("netdev-dummy/receive", &words);
        // Frames of a port are taken one by one, each after an answer at the latest.
        let mut sent = Sent::new();
        let mut is_done = false;
        while !is_done {
            for frame in self.transmitted(self.ports + 1) {
                if frame == mark {
                    is_done = true;
                } else {
                    sent.entry(self.ports + 1).or_default().push(frame);
                }
            }
            if !is_done {
                self.ask("version", &[]);
            }
        }
        for port in 1..=self.ports {
            let frames = self.transmitted(port);
            if !frames.is_empty() {
                sent.insert(port, frames);
            }
        }
        sent
    }

    /// How a packet's way is decided, and why.
    pub(crate) fn trace(&mut self, port: u32, frame: &[u8]) -> String {
        self.ask("ofproto/trace", &["br0", &format!("in_port={port}"), &hexadecimal(frame)])
    }

    /// What has left at a port since this was asked last.
    fn transmitted(&mut self, port: u32) -> Vec<Vec<u8>> {
        let mut file =
            std::fs::File::open(self.directory.path().join(format!("p{port}.pcap"))).expect("its file");
        let at = self.read.get_mut(&port).expect("it is one of them");
        file.seek(SeekFrom::Start(*at)).expect("it is as long");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("it can be read");
        let mut frames = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((header, after)) = rest.split_at_checked(PACKET_HEADER) {
            let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
            // Of the last it may be only a part yet.
            let Some((frame, after)) = after.split_at_checked(length as usize) else { break };
            frames.push(frame.to_vec());
            rest = after;
        }
        *at += (bytes.len() - rest.len()) as u64;
        frames
    }

    /// Asks the switch something, by its control socket.
    fn ask(&mut self, method: &str, words: &[&str]) -> String {
        let request = serde_json::json!({ "id": 0, "method": method, "params": words });
        self.control.write_all(request.to_string().as_bytes()).expect("it listens");
        let mut answers =
            serde_json::Deserializer::from_reader(&self.control).into_iter::<serde_json::Value>();
        let answer = answers.next().expect("an answer").expect("an answer");
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        for process in [&mut self.switch, &mut self.database] {
            process.kill().and_then(|()| process.wait()).expect("it ends");
        }
    }
}

fn end(mut process: Child) {
    process.kill().and_then(|()| process.wait()).expect("it ends");
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
