//! Timestamps and locks on three replicas, as they are run.

use crate::disk::Disk;
use crate::founding::address;
use crate::logging::figures;
use crate::server::{Server, await_line};
use fulmar_services::{Application, Charter, Members, TimestampClient};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroU64;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");
/// So often a replica is killed, each in turn.
const ROUNDS: usize = 6;
/// So much each client is to do while a replica is away, and after it is back.
const ENOUGH: u64 = 2;

/// Three replicas that have not started yet, at addresses that nobody else uses.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) members: Vec<String>,
}

impl Place {
    pub(crate) fn new(service: &str, protocol: &str) -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let (process, place) = (std::process::id(), PLACES.fetch_add(4, SeqCst));
        let member = |replica| {
            format!("127.{}.{}.{}:7500", 1 + process / 256 % 250, process % 256, 1 + place + replica)
        };
        let members: Vec<String> = (0..3).map(member).collect();
        let place = Self { folder: tempfile::tempdir().expect("a directory"), members };
        let settings =
            format!("service = \"{service}\"\nmembers = {:?}\nreplication = \"{protocol}\"\n", place.members);
        fs::write(place.settings(), settings).expect("a file");
        place
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join("node.toml")
    }

    fn data(&self, replica: usize) -> PathBuf {
        self.folder.path().join(replica.to_string())
    }

    pub(crate) fn command(&self, replica: usize) -> Command {
        let mut command = Command::new(FULMAR);
        command.args(["serve", "--config"]).arg(self.settings()).arg("--data").arg(self.data(replica));
        command
    }

    fn start(&self, replica: usize, more: &[&str]) -> Server {
        Server::of(&mut self.command(replica), &self.members[replica], more)
    }

    fn found(&self) -> Vec<Server> {
        (0..3).map(|replica| self.start(replica, &["--found"])).collect()
    }

    /// As clients are told where they are.
    fn names(&self) -> String {
        self.members.join(",")
    }

    /// A command that runs while it holds a lock.
    fn lock(&self, options: &[&str], command: &[&str]) -> Command {
        self.lock_of("eggs", options, command)
    }

    fn lock_of(&self, name: &str, options: &[&str], command: &[&str]) -> Command {
        let mut lock = Command::new(FULMAR);
        lock.args(["lock", &self.names(), name]).args(options).arg("--").args(command);
        lock
    }

    /// What a replica says that does not start, and its status.
    fn complaint(&self, settings: &str, more: &[&str]) -> (Option<i32>, String) {
        let path = self.folder.path().join("wrong.toml");
        fs::write(&path, settings).expect("a file");
        let mut command = Command::new(FULMAR);
        let output = command.args(["serve", "--config"]).arg(path).args(more).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn misuse(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command has printed that went well.
fn answer(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until each client has done enough more.
fn await_more(done: &[AtomicU64]) {
    for done in done {
        let enough = done.load(SeqCst) + ENOUGH;
        while done.load(SeqCst) < enough {
            thread::yield_now();
        }
    }
}

/// Two clients do something again and again while replicas are killed and come back, one after the other; the fourth without what it
/// had on its disk.
fn do_while_replicas_are_killed(place: &Place, act: impl Fn(usize, &AtomicU64, &AtomicBool) + Sync) {
    let mut servers = place.found();
    let (done, is_over) = ([AtomicU64::new(0), AtomicU64::new(0)], AtomicBool::new(false));
    thread::scope(|scope| {
        for (client, done) in done.iter().enumerate() {
            let (act, is_over) = (&act, &is_over);
            scope.spawn(move || act(client, done, is_over));
        }
        await_more(&done);
        for round in 0..ROUNDS {
            let replica = round % 3;
            servers[replica].signal("KILL");
            await_more(&done);
            let data = place.data(replica);
            let is_lost = round == 3;
            if is_lost {
                fs::remove_dir_all(&data).expect("it was there");
            }
            servers[replica] = place.start(replica, &[]);
            // It has records as soon as the others have let it in.
            while is_lost && fs::metadata(data.join("journal")).is_ok_and(|journal| journal.len() <= 8) {
                thread::yield_now();
            }
            await_more(&done);
        }
        is_over.store(true, SeqCst);
    });
}

fn draw(protocol: &str) {
    let place = Place::new("timestamps", protocol);
    let drawn = [(); 2].map(|()| std::sync::Mutex::new(Vec::new()));
    do_while_replicas_are_killed(&place, |client, done, is_over| {
        let members = Members::new(place.members.iter().map(String::as_str)).expect("three");
        let charter = Charter::find(Application::Timestamps, &members).expect("somebody answers");
        let mut timestamps = TimestampClient::new(&charter).expect("a client");
        let mut drawn = drawn[client].lock().expect("nobody panicked");
        while !is_over.load(SeqCst) {
            drawn.push(timestamps.draw(NonZeroU64::MIN).expect("an answer").start);
            done.fetch_add(1, SeqCst);
        }
    });
    let drawn = drawn.map(|drawn| drawn.into_inner().expect("nobody panicked"));
    for drawn in &drawn {
        assert!(drawn.is_sorted_by(|a, b| a < b), "{drawn:?}");
    }
    let mut all = drawn.concat();
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "some were given twice: {all:?}");
}

#[test]
fn viewstamped_replicas_give_each_timestamp_once() {
    draw("viewstamped");
}

#[test]
fn fast_paxos_replicas_give_each_timestamp_once() {
    draw("fast-paxos");
}

#[test]
fn speculative_paxos_replicas_give_each_timestamp_once() {
    draw("speculative-paxos");
}

#[test]
fn timestamps_are_printed() {
    let place = Place::new("timestamps", "viewstamped");
    let servers = place.found();
    let timestamp = |more: &[&str]| {
        answer(Command::new(FULMAR).args(["timestamp", &place.names()]).args(more))
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let first: Vec<String> = timestamp(&[]);
    assert_eq!(first, ["1"]);
    let more: Vec<String> = timestamp(&["--count", "3"]);
    assert_eq!(more, ["2", "3", "4"]);
    // Who is asked for what it does not serve.
    let wrong = place.lock(&[], &["true"]).output().expect("it runs");
    assert!(complaint(&wrong).contains("what is served there is timestamps, and not locks"));
    let one = Command::new(FULMAR).args(["timestamp", &place.members[1]]).output().expect("it runs");
    assert!(complaint(&one).contains("expected all members of one, and no others"));
    drop(servers);
    let nobody = Command::new(FULMAR).args(["timestamp", &place.names()]).output().expect("it runs");
    assert!(complaint(&nobody).contains("cannot reach a server at"));
}

#[test]
fn who_waits_for_a_majority_is_told_who_is_missing() {
    let place = Place::new("timestamps", "viewstamped");
    let _one = place.start(0, &["--found"]);
    let mut command = Command::new(FULMAR);
    command.args(["timestamp", &place.names()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waits = command.spawn().expect("the program runs");
    let mut said = BufReader::new(waits.stderr.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says something");
    assert!(line.starts_with("waiting for ") && line.contains(" s for a majority of 3 replicas: "), "{line}");
    assert!(place.members.iter().map(|member| line.contains(member)).eq([false, true, true]), "{line}");
    let _other = place.start(1, &["--found"]);
    let output = waits.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stdout == b"1\n", "{output:?}");
}

/// Draws so many timestamps from the replicas of a group.
pub(crate) fn draw_some(place: &Place, count: u32) -> u64 {
    let drawn =
        answer(Command::new(FULMAR).args(["timestamp", &place.names(), "--count", &count.to_string()]));
    drawn.lines().next_back().and_then(|last| last.parse().ok()).expect("a timestamp")
}

#[test]
fn a_replica_of_a_service_without_room_ends_and_takes_part_again_when_there_is_some() {
    let place = Place::new("timestamps", "viewstamped");
    let disk = Disk::new(&place.folder.path().join("small"), "64k");
    let log = place.folder.path().join("log");
    let start = |more: &[&str]| {
        let mut command = disk.enter(FULMAR);
        command.args(["serve", "--config"]).arg(place.settings()).arg("--data").arg(disk.path.join("data"));
        let log = fs::File::create(&log).expect("a file");
        Server::logged(&mut command, &place.members[2], more, log.into())
    };
    let others: Vec<_> = (0..2).map(|replica| place.start(replica, &["--found"])).collect();
    let mut small = start(&["--found"]);
    let mut drawn = 0;
    let status = loop {
        // The others go on.
        let last = draw_some(&place, 1);
        assert!(last > drawn, "{last} after {drawn}");
        drawn = last;
        if let Some(status) = small.ended() {
            break status;
        }
    };
    let told = fs::read_to_string(&log).expect("it is there");
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("small/data/journal") && told.contains("No space left on device"), "{told}");
    disk.resize("20m");
    drop(small);
    let small = start(&[]);
    // One of the others is not needed, now that it is there.
    drop(others);
    let _first = place.start(0, &[]);
    assert!(draw_some(&place, 1) > drawn);
    drop(small);
}

fn exclude(protocol: &str) {
    let place = Place::new("locks", protocol);
    let inside = place.folder.path().join("inside");
    let script = "mkdir \"$0\" && echo $FULMAR_FENCE >> \"$0.tokens\" && rmdir \"$0\"";
    do_while_replicas_are_killed(&place, |_, done, is_over| {
        while !is_over.load(SeqCst) {
            let command = ["sh", "-c", script, &inside.to_string_lossy()];
            answer(&mut place.lock(&["--expires", "100"], &command));
            done.fetch_add(1, SeqCst);
        }
    });
    assert!(!inside.exists());
    // Whoever led, each holder had a larger token than the one before.
    let tokens = fs::read_to_string(inside.with_extension("tokens")).expect("somebody had the lock");
    let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().expect("a number")).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn one_at_a_time_holds_a_lock_of_viewstamped_replicas() {
    exclude("viewstamped");
}

#[test]
fn one_at_a_time_holds_a_lock_of_speculative_paxos_replicas() {
    exclude("speculative-paxos");
}

/// A command that holds the lock until it is told to end, by the end of its input.
fn hold(place: &Place, options: &[&str]) -> Child {
    hold_of(place, "eggs", options)
}

fn hold_of(place: &Place, name: &str, options: &[&str]) -> Child {
    let mut lock = place.lock_of(name, options, &["sh", "-c", "echo held; exec cat"]);
    let lock = lock.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = lock.spawn().expect("the program runs");
    let mut line = [0; 5];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it has the lock");
    assert_eq!(&line, b"held\n");
    child
}

#[test]
fn the_lock_of_who_is_killed_goes_to_the_next() {
    let place = Place::new("locks", "viewstamped");
    let mut servers = place.found();
    let mut first = hold(&place, &["--expires", "6"]);
    let mut other = hold_of(&place, "ham", &["--expires", "5"]);
    let next = place.lock(&[], &["echo", "mine"]).stdout(Stdio::piped()).spawn().expect("the program runs");
    first.kill().expect("it runs");
    first.wait().expect("it has ended");
    // The command, which had the other end, is gone with it.
    let mut rest = Vec::new();
    first.stdout.take().expect("a pipe").read_to_end(&mut rest).expect("it ends");
    assert_eq!(rest, b"");
    servers[0].signal("KILL");
    let next = next.wait_with_output().expect("it runs");
    assert!(next.status.success() && next.stdout == b"mine\n", "{next:?}");
    // Who is heard of keeps its lock in the time in which the other lost it.
    drop(other.stdin.take());
    assert!(other.wait().expect("it ends").success());
}

#[test]
fn who_is_not_heard_of_ends_its_command() {
    let place = Place::new("locks", "viewstamped");
    let servers = place.found();
    let mut holder = hold(&place, &["--expires", "3"]);
    // Which stays open.
    let _input = holder.stdin.take();
    servers[1..].iter().for_each(|server| server.send("STOP"));
    let ended = holder.wait_with_output().expect("it runs");
    assert!(complaint(&ended).contains("the session has expired"), "{ended:?}");
    servers[1..].iter().for_each(|server| server.send("CONT"));
    assert_eq!(answer(&mut place.lock(&[], &["echo", "mine"])), "mine\n");
}

/// What the lock protects is a list of who has written.
#[test]
fn who_was_stopped_for_longer_than_its_lease_is_refused() {
    let place = Place::new("locks", "viewstamped");
    let _servers = place.found();
    let path = |name: &str| place.folder.path().join(name).to_string_lossy().into_owned();
    let (list, fence) = (path("list"), path("fence"));
    let write = "\"$0\" fence \"$1\" -- sh -c 'echo $FULMAR_FENCE >> \"$0\"' \"$2\"";
    // It says who it is, waits for a word, and writes.
    let late = format!("echo $$; read go; {write}; echo $?");
    let command = ["sh", "-c", &late, FULMAR, &fence, &list];
    let mut first = place.lock(&["--expires", "1"], &command);
    let first = first.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut first = first.spawn().expect("the program runs");
    let mut said = BufReader::new(first.stdout.take().expect("a pipe")).lines();
    let command = said.next().expect("it has the lock").expect("a line");
    let send = |signal: &str, to: &str| {
        let sent = Command::new("kill").args(["-s", signal, "--", to]).status().expect("kill is there");
        assert!(sent.success());
    };
    let all = format!("-{}", first.id());
    send("STOP", &all);
    // Who comes next gets the lock, as the first is not heard of.
    let next = ["sh", "-c", write, FULMAR, &fence, &list];
    answer(&mut place.lock(&[], &next));
    let seen = fs::read_to_string(&list).expect("it has written");
    // The first goes on: its command before the program that is to end it.
    writeln!(first.stdin.take().expect("a pipe"), "go").expect("it is read");
    send("CONT", &command);
    assert_eq!(said.next().expect("it goes on").expect("a line"), "1");
    send("CONT", &all);
    let ended = first.wait_with_output().expect("it runs");
    let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(complaint.contains("the lock has had a later holder"), "{complaint}");
    assert_eq!(fs::read_to_string(&list).expect("it is there"), seen);
    let tokens: Vec<u64> = seen.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(tokens, [2]);
}

#[test]
fn a_command_without_a_token_is_not_let_through() {
    let directory = tempfile::tempdir().expect("a directory");
    let fence = directory.path().join("fence");
    let run = |token: Option<&str>, arguments: &[&str]| {
        let mut command = Command::new(FULMAR);
        command.arg("fence").arg(&fence).args(arguments).env_remove("FULMAR_FENCE");
        token.map(|token| command.env("FULMAR_FENCE", token));
        command.output().expect("the program runs")
    };
    assert!(misuse(&run(None, &["--", "true"])).contains("expected to run under `fulmar lock`"));
    assert!(misuse(&run(Some("birds"), &[])).contains("expected a number"));
    assert_eq!(run(Some("7"), &["--", "sh", "-c", "exit 9"]).status.code(), Some(9));
    assert!(complaint(&run(None, &["--token", "6"])).contains("its token is 7, and this one is 6"));
    assert!(run(Some("7"), &[]).status.success());
}

#[test]
fn a_command_under_a_lock_is_as_without() {
    let place = Place::new("locks", "fast-paxos");
    let _servers = place.found();
    let mut first = hold(&place, &["--shared"]);
    assert_eq!(answer(&mut place.lock(&["--shared"], &["echo", "too"])), "too\n");
    drop(first.stdin.take());
    assert!(first.wait().expect("it ends").success());
    let status = |command: &[&str]| place.lock(&[], command).status().expect("it runs").code();
    assert_eq!(status(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(status(&["sh", "-c", "kill -s TERM $$"]), Some(128 + 15));
    let missing = place.lock(&[], &["no-such-program"]).output().expect("it runs");
    assert!(complaint(&missing).contains("no-such-program"));
    // What the lock's holder is told, the command is.
    let mut second = hold(&place, &[]);
    let input = second.stdin.take();
    let told = Command::new("kill").args(["-s", "TERM", &second.id().to_string()]).status();
    assert!(told.expect("kill is there").success());
    assert_eq!(second.wait().expect("it ends").code(), Some(128 + 15));
    drop(input);
}

#[test]
fn who_leads_is_logged_and_told_in_figures() {
    let place = Place::new("timestamps", "viewstamped");
    let metrics = [(); 3].map(|()| address());
    let logs = [0, 1, 2].map(|replica| place.data(replica).with_extension("log"));
    let mut replicas: Vec<_> = (0..3)
        .map(|replica| {
            let settings = fs::read_to_string(place.settings()).expect("it is there");
            let own = place.data(replica).with_extension("toml");
            fs::write(&own, format!("{settings}metrics = {:?}\n", metrics[replica])).expect("a file");
            let mut command = Command::new(FULMAR);
            command.args(["serve", "--found", "--config"]).arg(own).arg("--data").arg(place.data(replica));
            let log = fs::File::create(&logs[replica]).expect("a file");
            Server::logged(&mut command, &place.members[replica], &[], log.into())
        })
        .collect();
    let draw = || answer(Command::new(FULMAR).args(["timestamp", &place.names()]));
    draw();
    let leads = |replica: usize| figures(&metrics[replica]).contains("fulmar_replica_leads 1\n");
    let leader = (0..3).find(|replica| leads(*replica)).expect("one has answered");
    let told = figures(&metrics[leader]);
    for figure in ["fulmar_replica_takes_part 1\n", "fulmar_server_events_total{kind=\"view\"} "] {
        assert!(told.contains(figure), "no {figure} in\n{told}");
    }
    assert!(!told.contains("fulmar_replica_committed_total 0\n"), "{told}");
    replicas[leader].signal("KILL");
    draw();
    let others: Vec<_> = (0..3).filter(|replica| *replica != leader).collect();
    assert!(others.iter().any(|replica| leads(*replica)));
    let others: Vec<_> = others.into_iter().map(|replica| logs[replica].as_path()).collect();
    await_line(&others, &["view ", " has begun, led by 127."]);
    await_line(&others, &["cannot reach replica "]);
}

#[test]
fn wrong_settings_are_refused() {
    let place = Place::new("locks", "viewstamped");
    let data = place.data(0);
    let settings = |members: &[&str], listen: &str, more: &str| {
        let data = data.to_string_lossy();
        format!(
            "service = \"locks\"\nmembers = {members:?}\nlisten = \"{listen}\"\ndata = \"{data}\"\n{more}"
        )
    };
    let [a, b, c] = &place.members[..] else { panic!("three") };
    let ends = |status: i32, settings: &str, more: &[&str], expected: &str| {
        let (ended, complaint) = place.complaint(settings, more);
        assert!(ended == Some(status) && complaint.contains(expected), "{ended:?}: {complaint}");
    };
    let refused = |settings: &str, more: &[&str], expected: &str| ends(1, settings, more, expected);
    let wrong = |settings: &str, expected: &str| ends(2, settings, &[], expected);
    wrong(&settings(&[a, b], a, ""), "2 members: a majority must survive a failure");
    wrong(&settings(&[a, b, a], a, ""), &format!("{a} is named twice"));
    wrong(&settings(&[a, b, "c"], a, ""), "`c` is no member's address: expected HOST:PORT");
    wrong(&settings(&[a, b, c], "127.0.0.1:1", ""), "127.0.0.1:1 is not among the members");
    let elsewhere = "advertise = \"there:1\"";
    wrong(&settings(&[a, b, c], a, elsewhere), "there:1 is not among the members");
    let deaf = settings(&[a, b, c], "127.0.0.1:0", &format!("advertise = {a:?}"));
    refused(&deaf, &["--found"], "others would not find this server there");
    wrong(&settings(&[a, b, c], a, "replicas = 3"), "`replicas` is for servers of databases");
    wrong(&settings(&[a, b, c], a, "").replace("locks", "birds"), "unknown variant `birds`");
    wrong("service = \"locks\"\ndata = \"x\"", "the settings lack `members`");
    wrong(&format!("data = \"x\"\nmembers = [{a:?}]"), "the settings lack `service`");
    assert!(!data.exists(), "nothing is half done");
    drop(place.start(0, &["--found"]));
    refused(&settings(&[a, b, c], a, ""), &["--found"], "start it without `--found`");
    let d = a.replace(":7500", ":7501");
    let theirs = format!("belongs to replica {a} of locks on {}", place.members.join(", "));
    refused(&settings(&[a, b, &d], a, ""), &[], &theirs);
    refused(&settings(&[a, b, c], b, ""), &[], &theirs);
    refused(&settings(&[a, b, c], a, "replication = \"fast-paxos\""), &[], &theirs);
    refused(&settings(&[a, b, c], a, "").replace("locks", "timestamps"), &[], &theirs);
    let journal = data.join("journal");
    damage(&journal);
    refused(&settings(&[a, b, c], a, ""), &[], "journal: damaged at byte");
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[0] ^= 1;
    fs::write(path, bytes).expect("it is damaged");
}

#[test]
fn who_cannot_be_reached_is_told() {
    let place = Place::new("locks", "viewstamped");
    let mut command = place.command(1);
    let command = command.args(["--listen", &place.members[1], "--found"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut news = BufReader::new(server.stderr.take().expect("a pipe")).lines();
    let mut await_news = |expected: String| {
        assert!(news.any(|line| line.expect("a line").contains(&expected)), "{expected}");
    };
    let third = place.start(2, &["--found"]);
    await_news(format!("cannot reach replica {}: Connection refused", place.members[0]));
    // It goes on with the others, and looks for it.
    assert_eq!(answer(&mut place.lock(&[], &["echo", "mine"])), "mine\n");
    let first = place.start(0, &["--found"]);
    await_news(format!("reached replica {}", place.members[0]));
    drop((first, third));
    await_news(format!("cannot reach replica {}: Connection refused", place.members[2]));
    // One of another group at this address.
    let settings = fs::read_to_string(place.settings()).expect("it is there");
    fs::write(place.settings(), settings.replace("viewstamped", "fast-paxos")).expect("a file");
    fs::remove_dir_all(place.data(2)).expect("it was there");
    let _another = place.start(2, &["--found"]);
    await_news("settings of one group name the same service, members and replication".into());
    server.kill().expect("it runs");
    server.wait().expect("it ends");
}
