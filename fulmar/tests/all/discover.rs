//! `fulmar discover`, as it is run; what it says to wrong uses is golden text.

use crate::logging::figures;
use crate::server::{Server, await_line};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

fn discover(arguments: &[&str]) -> Output {
    Command::new(FULMAR).arg("discover").args(arguments).output().expect("the program runs")
}

/// A member that stays, and is killed at the end.
struct Member {
    process: Child,
    address: String,
}

impl Member {
    fn start(name: &str, known: Option<&str>) -> Self {
        Self::start_with(name, known, &[], Stdio::inherit())
    }

    fn start_with(name: &str, known: Option<&str>, more: &[&str], log: Stdio) -> Self {
        let mut command = Command::new(FULMAR);
        command.args(["discover", "--serve", "--listen", "127.0.0.1:0", "--name", name]);
        if let Some(known) = known {
            command.args(["--join", known]);
        }
        let mut process =
            command.args(more).stdout(Stdio::piped()).stderr(log).spawn().expect("the program starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("serving discovery on ").expect("where it is").to_owned();
        Self { process, address }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines of `--json`, each with its end.
fn objects(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn all_members_are_found_from_any_of_them() {
    let one = Member::start("one", None);
    let two = Member::start("two", Some(&one.address));
    let three = Member::start("three", Some(&two.address));
    for known in [&one, &two, &three] {
        let objects =
            objects(&discover(&["--join", &known.address, "--name", "asks", "--json", "--timeout", "60"]));
        let (last, members) = objects.split_last().expect("lines");
        let mut names: Vec<&str> = members
            .iter()
            .filter_map(|member| member["name"].as_str())
            .filter(|name| *name != "asks")
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "three", "two"], "{last}");
        assert_eq!((last["stable"].as_bool(), last["members"].as_u64()), (Some(true), Some(4)));
    }
}

#[test]
fn a_member_logs_what_it_believes_and_counts_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let (log, metrics) = (folder.path().join("log"), crate::founding::address());
    let file = std::fs::File::create(&log).expect("a file");
    let one = Member::start_with("one", None, &["--metrics", &metrics], file.into());
    let two = Member::start("two", Some(&one.address));
    await_line(&[&log], &[&two.address, " two ", " alive"]);
    await_line(&[&log], &["the view is stable: 2 members, "]);
    let told = figures(&metrics);
    for figure in [
        "fulmar_discovery_members{standing=\"alive\"} 2\n",
        "fulmar_discovery_stable 1\n",
        "fulmar_discovery_events_total{kind=\"alive\"} 1\n",
        "fulmar_discovery_events_total{kind=\"stable\"} ",
        "fulmar_discovery_messages_received_total ",
    ] {
        assert!(told.contains(figure), "no {figure} in\n{told}");
    }
    let address = two.address.clone();
    drop(two);
    await_line(&[&log], &[&address, " two ", " dead"]);
    assert!(figures(&metrics).contains("fulmar_discovery_members{standing=\"dead\"} 1\n"));
}

/// The address that the second server joins is that of a member which serves no databases.
#[test]
fn any_address_is_enough_to_start_a_server() {
    let folder = tempfile::tempdir().expect("a directory");
    let first = Server::start(&folder.path().join("1"), "127.0.0.1:0");
    let seed = Member::start("seed", Some(first.port()));
    let join = ["--join", &seed.address];
    let second = Server::start_with(&folder.path().join("2"), "127.0.0.1:0", &join);
    first.await_servers(2);
    assert_ne!(first.port(), second.port());
}

/// Each is what a person would type, and all that it says.
#[test]
fn wrong_uses_read_well() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/discover.txt");
    let uses: [&[&str]; 8] = [
        &[],
        &["127.0.0.1:7402"],
        &["--join", "localhost"],
        &["--join", "127.0.0.1:0"],
        &["--join", "127.0.0.1:9", "--listen", "0.0.0.0:7401"],
        &["--serve"],
        &["--join", "127.0.0.1:9", "--name", "a\tb"],
        &["--join", "127.0.0.1:9", "--timeout", "1"],
    ];
    let mut said = String::new();
    for arguments in uses {
        let output = discover(arguments);
        let code = output.status.code().expect("it ends by itself");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        said.push_str(&format!(
            "$ fulmar discover {}\n{error}[{code}]\n\n",
            arguments.join(" ").replace('\t', "\\t")
        ));
    }
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &said).expect("a file");
    }
    assert_eq!(said, std::fs::read_to_string(&golden).unwrap_or_default());
}
