//! `fulmar agree` between real processes, some of which lie; and servers that start on what was agreed on alone.

use fulmar_node::Random;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");
/// How long a round may take: much longer than any message.
const ROUND_MS: u32 = 5_000;

/// An address of this machine that nobody else uses.
fn own() -> String {
    let process = std::process::id();
    format!("127.{}.{}.250:7400", 1 + process / 256 % 250, process % 256)
}

fn cluster() -> String {
    format!("members = [\"{}\"]\n", own())
}

/// Machines that are to agree, each a folder with a key and a proposal.
struct Machines {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    keys: Vec<String>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn keygen(path: &Path) -> String {
    let output = Command::new(FULMAR).args(["agree", "keygen"]).arg(path).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).trim().to_owned()
}

impl Machines {
    fn new(count: usize) -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let (process, place) = (std::process::id(), PLACES.fetch_add(1, SeqCst));
        let address = |number| {
            format!("127.{}.{}.{}:{}", 1 + process / 256 % 250, process % 256, 200 + place, 7600 + number)
        };
        let folder = tempfile::tempdir().expect("a directory");
        let addresses: Vec<String> = (1..=count).map(address).collect();
        let key = |number: usize| {
            let home = folder.path().join(number.to_string());
            fs::create_dir(&home).expect("a directory");
            fs::write(home.join("cluster.toml"), cluster()).expect("a file");
            keygen(&home.join("agree.key"))
        };
        let keys = (1..=count).map(key).collect();
        let machines = Self { folder, addresses, keys };
        (1..=count).for_each(|number| machines.write_settings(number, &machines.keys, 60));
        machines
    }

    fn home(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    fn write_settings(&self, number: usize, keys: &[String], wait_s: u32) {
        let mut settings = format!(
            "name = \"eggs\"\ntolerates = {}\nround_ms = {ROUND_MS}\nwait_s = {wait_s}\nkey = \"agree.key\"\n\
             proposal = \"cluster.toml\"\n",
            (keys.len() - 1) / 3
        );
        for (address, key) in self.addresses.iter().zip(keys) {
            settings += &format!("[[member]]\naddress = \"{address}\"\nkey = \"{key}\"\n");
        }
        fs::write(self.home(number).join("agree.toml"), settings).expect("a file");
    }

    fn propose(&self, number: usize, configuration: &str) {
        fs::write(self.home(number).join("cluster.toml"), configuration).expect("a file");
    }

    fn command(&self, number: usize, more: &[&str]) -> Command {
        let mut command = Command::new(FULMAR);
        command.args(["agree", "--config", "agree.toml"]).args(more).current_dir(self.home(number));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, number: usize, more: &[&str]) -> Child {
        self.command(number, more).spawn().expect("it starts")
    }

    /// All take part, some of them by a strategy; says how they end.
    fn agree(&self, liars: &[(usize, &str)]) -> Vec<Output> {
        let start = |number| {
            let strategy = liars.iter().find(|(liar, _)| *liar == number);
            strategy
                .map_or_else(|| self.start(number, &[]), |(_, how)| self.start(number, &["--byzantine", how]))
        };
        let children: Vec<Child> = (1..=self.addresses.len()).map(start).collect();
        children.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect()
    }

    /// Requires that a machine has agreed on what it proposed; returns what it has printed.
    fn agreed(&self, number: usize, output: &Output) -> String {
        assert!(output.status.success(), "member {number}: {output:?}");
        let printed = text(&output.stdout);
        assert!(printed.contains("\ndecided "), "{printed}");
        let file = self.home(number).join("agreed.toml");
        let check = Command::new(FULMAR).args(["agree", "check"]).arg(&file).output().expect("it runs");
        assert!(check.status.success(), "{check:?}");
        printed
    }
}

#[test]
fn four_agree_and_all_sign() {
    let machines = Machines::new(4);
    let outputs = machines.agree(&[]);
    for (number, output) in (1..).zip(&outputs) {
        let printed = machines.agreed(number, output);
        assert!(!printed.contains("faulty"), "{printed}");
        assert!(printed.contains("4 of 4 members have signed"), "{printed}");
    }
    let files =
        [1, 2, 3, 4].map(|number| fs::read(machines.home(number).join("agreed.toml")).expect("it is there"));
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]), "the same everywhere");
    serve_on(&machines, &text(&outputs[0].stdout));
}

/// What a server says that is to start on what these have agreed on.
fn serve_on(machines: &Machines, printed: &str) {
    let council = printed.lines().last().expect("the last line is for its settings");
    let home = machines.home(1);
    let refusal = |settings: &str| {
        fs::write(home.join("node.toml"), settings).expect("a file");
        let mut serve = Command::new(FULMAR);
        serve.args(["serve", "--config", "node.toml", "--genesis", "agreed.toml"]).current_dir(&home);
        let output = serve.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stderr)
    };
    let listen = format!("data = \"data\"\nlisten = \"{}\"\n", own());
    assert!(refusal(&listen).contains("the settings lack `council`"));
    assert!(refusal(&format!("{listen}council = \"eggs\"\n")).contains("these settings name eggs"));
    let other = format!("data = \"data\"\nlisten = \"10.0.0.2:7400\"\n{council}\n");
    assert!(refusal(&other).contains("10.0.0.2:7400 is none of the agreed members"));
    let replicas = format!("{listen}replicas = 3\n{council}\n");
    assert!(
        refusal(&replicas)
            .contains("`replicas` is 3 in this node's settings, and not set in what was agreed on")
    );
    // With what was agreed on it serves.
    fs::write(home.join("node.toml"), format!("{listen}{council}\n")).expect("a file");
    let mut serve = Command::new(FULMAR);
    serve.args(["serve", "--config", "node.toml", "--genesis", "agreed.toml"]).current_dir(&home);
    let mut server = serve.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says so");
    assert!(line.starts_with("serving data on"), "{line}");
    server.kill().and_then(|()| server.wait()).expect("it ends");
}

fn endure(strategy: &str) {
    let machines = Machines::new(4);
    for (number, output) in (1..4).zip(&machines.agree(&[(4, strategy)])) {
        let printed = machines.agreed(number, output);
        for honest in 1..4 {
            assert!(!printed.contains(&format!("faulty: member {honest}")), "{printed}");
        }
        if strategy != "equivocate" {
            assert!(printed.contains("faulty: member 4"), "{printed}");
        }
    }
}

#[test]
fn one_that_is_silent_is_endured() {
    endure("silence");
}

#[test]
fn one_that_equivocates_is_endured() {
    endure("equivocate");
}

#[test]
fn one_that_sends_garbage_is_endured() {
    endure("garbage");
}

#[test]
fn one_that_is_late_is_endured() {
    endure("late");
}

#[test]
fn one_that_replays_is_endured() {
    endure("replay");
}

/// A member that says what chance has it say, and strangers who send bytes. `FULMAR_ROUNDS` says how often.
#[test]
fn one_that_says_anything_and_strangers_are_endured() {
    let rounds = std::env::var("FULMAR_ROUNDS").map_or(2, |rounds| rounds.parse().expect("a number"));
    for seed in 0..rounds {
        println!("seed {seed}");
        let machines = Machines::new(4);
        let is_over = AtomicBool::new(false);
        let outputs = thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random::new(seed);
                while !is_over.load(SeqCst) {
                    disturb(&machines.addresses[random.index(3)], &mut random);
                }
            });
            // Also when it fails.
            let _ends = Ends(&is_over);
            machines.agree(&[(4, &format!("anything-{seed}"))])
        });
        let decided =
            |printed: &str| printed.lines().find(|line| line.starts_with("decided ")).map(str::to_owned);
        let printed = [1, 2, 3].map(|number| machines.agreed(number, &outputs[number - 1]));
        for one in &printed {
            assert!((1..4).all(|honest| !one.contains(&format!("faulty: member {honest}"))), "{one}");
        }
        // The value, and not the round in which it was decided on.
        let values =
            printed.map(|one| decided(&one).and_then(|line| line.split(',').next().map(str::to_owned)));
        assert!(values[0] == values[1] && values[1] == values[2], "{values:?}");
    }
}

/// Says so when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A connection that brings a record of TLS that is none, or a part of it; one at a time, as nothing is promised beside a flood.
fn disturb(address: &str, random: &mut Random) {
    let Ok(mut stream) = TcpStream::connect(address) else { return thread::yield_now() };
    let mut bytes = vec![22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    bytes.extend((0..random.index(600)).map(|_| random.next().to_le_bytes()[0]));
    bytes.truncate(random.index(bytes.len()));
    // A stranger may be refused before it has written all, and before it reads: both are what is tried here.
    let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let _ = stream.read(&mut [0; 64]);
}

/// Strangers who say nothing. The others wait for less long than such a one may be silent.
#[test]
fn silent_strangers_keep_no_member_out() {
    let machines = Machines::new(4);
    (1..=4).for_each(|number| machines.write_settings(number, &machines.keys, 6));
    let first = machines.start(1, &[]);
    let strangers: Vec<TcpStream> = std::iter::repeat_with(|| TcpStream::connect(&machines.addresses[0]))
        .filter_map(Result::ok)
        .take(300)
        .collect();
    let others = [2, 3, 4].map(|number| machines.start(number, &[]));
    for (number, member) in (1..).zip([first].into_iter().chain(others)) {
        machines.agreed(number, &member.wait_with_output().expect("it ends"));
    }
    drop(strangers);
}

#[test]
fn seven_endure_two_that_lie() {
    let machines = Machines::new(7);
    for (number, output) in (1..6).zip(&machines.agree(&[(6, "equivocate"), (7, "garbage")])) {
        machines.agreed(number, output);
    }
}

#[test]
fn one_is_killed() {
    let machines = Machines::new(4);
    // It waits for the first round, as three others do, and is killed while nobody can have decided.
    let mut victim = machines.start(4, &["--byzantine", "silence"]);
    let others = [1, 2, 3].map(|number| machines.start(number, &[]));
    let said = BufReader::new(victim.stderr.take().expect("a pipe")).lines();
    let began = said.map_while(Result::ok).any(|line| line.contains("the first round has begun"));
    assert!(began, "all are there");
    victim.kill().and_then(|()| victim.wait()).expect("it ends");
    for (number, other) in (1..).zip(others) {
        let printed = machines.agreed(number, &other.wait_with_output().expect("it ends"));
        assert!(printed.contains("faulty: member 4, in round 1: "), "{printed}");
    }
}

#[test]
fn one_with_a_wrong_key_is_refused() {
    let machines = Machines::new(4);
    let mut keys = machines.keys.clone();
    fs::remove_file(machines.home(4).join("agree.key")).expect("it was there");
    keys[3] = keygen(&machines.home(4).join("agree.key"));
    machines.write_settings(4, &keys, 6);
    (1..4).for_each(|number| machines.write_settings(number, &machines.keys, 6));
    let outputs = machines.agree(&[]);
    for (number, output) in (1..4).zip(&outputs) {
        machines.agreed(number, output);
        let said = text(&output.stderr);
        assert!(said.contains(&format!("its key is {}", keys[3])), "{said}");
    }
    assert_eq!(outputs[3].status.code(), Some(1));
    let said = text(&outputs[3].stderr);
    assert!(said.contains("only 1 of the members are connected"), "{said}");
}

#[test]
fn a_minority_is_told_what_the_others_have_agreed_on() {
    let machines = Machines::new(4);
    machines.propose(2, "members = [\"10.0.0.66:7400\"]\n");
    let outputs = machines.agree(&[]);
    for number in [1, 3, 4] {
        let printed = machines.agreed(number, &outputs[number - 1]);
        assert!(printed.contains("4 of 4 members have signed"), "{printed}");
    }
    let odd = &outputs[1];
    assert_eq!(odd.status.code(), Some(1), "{odd:?}");
    assert!(
        text(&odd.stderr).contains("the others' proposal was agreed on, and not cluster.toml"),
        "{odd:?}"
    );
    assert!(!machines.home(2).join("agreed.toml").exists());
}

/// What five wrong uses are answered.
#[test]
fn wrong_uses_are_told_what_is_wrong() {
    let machines = Machines::new(4);
    let home = machines.home(1);
    let good = fs::read_to_string(home.join("agree.toml")).expect("it is there");
    let complaint = |settings: &str| {
        fs::write(home.join("agree.toml"), settings).expect("a file");
        let output = machines.command(1, &[]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        text(&output.stderr).trim_end().to_owned()
    };
    let again = Command::new(FULMAR).args(["agree", "keygen", "agree.key"]).current_dir(&home).output();
    let again = text(&again.expect("it runs").stderr).trim_end().to_owned();
    let complaints = [
        complaint(&good.replace("tolerates = 1", "tolerates = 2")),
        complaint(&good.replace(&machines.keys[1], "eggs")).replace(&machines.addresses[1], "ADDRESS"),
        complaint(&good.replace("\"agree.key\"", "\"cluster.toml\"")),
        complaint(&good.replace("\"cluster.toml\"", "\"nests.toml\"")),
        again,
    ];
    let golden = include_str!("../golden/agree.out");
    assert_eq!(complaints.join("\n") + "\n", golden);
}
