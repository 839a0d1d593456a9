//! The files and sockets that commands make, as docs/operations.md lists them.
//!
//! `FULMAR_UPDATE_GOLDEN=1 cargo test -p fulmar files` writes the list anew; what a new line says of its file is to be added by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

const BEGIN: &str = "<!-- files: begin -->\n";
const END: &str = "<!-- files: end -->\n";
const HEAD: &str =
    "| path | made by | kind | owner | mode | holds |\n| --- | --- | --- | --- | --- | --- |\n";
/// What a line holds of which nobody has said it.
const UNKNOWN: &str = "?";
/// A user who is not root, whose some directories are.
const SOMEBODY: &str = "65534";
/// What is in these is not told apart.
const FOLDED: [&str; 8] = [
    "DATABASE/engine/",
    "DATA/DATABASE/",
    "DATA/.DATABASE.N.replica/",
    "DATA/.cluster/",
    "DATA/..cluster.N.replica/",
    "NAME.db-fulmar/N/",
    "TMPDIR/.tmpN/",
    "TMPDIR/fulmar-reader-N-N/",
];

/// What is there under one pattern of names.
#[derive(Default)]
struct Made {
    by: BTreeSet<String>,
    /// Of each kind all bits of the modes: those of a database that is open differ.
    modes: BTreeMap<&'static str, u32>,
    owners: BTreeSet<&'static str>,
}

type Files = BTreeMap<String, Made>;

/// Runs all commands as root where directories are this user's.
fn run(owner: &str) -> Output {
    Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"])
        .args([include_str!("../files/stage.sh"), env!("CARGO_BIN_EXE_fulmar"), owner])
        .output()
        .expect("unshare is there")
}

/// A number for each run of digits, and for what the system has chosen.
fn without_numbers(path: &str) -> String {
    let mut pattern = String::new();
    for name in path.split_inclusive('/') {
        if name.starts_with(".tmp") {
            pattern.push_str(if name.ends_with('/') { ".tmpN/" } else { ".tmpN" });
            continue;
        }
        for letter in name.chars() {
            match letter {
                '0'..='9' if pattern.ends_with('N') => {}
                '0'..='9' => pattern.push('N'),
                _ => pattern.push(letter),
            }
        }
    }
    pattern
}

/// Who has made it, and how it is called in the list.
fn told(path: &str, is_directory: bool) -> (String, String) {
    let mut path = path.to_owned();
    if is_directory {
        path.push('/');
    }
    let Some((folder, rest)) = path.strip_prefix("/run/stage/").and_then(|path| path.split_once('/')) else {
        return ("net".into(), path);
    };
    let pattern = without_numbers(rest);
    let fold = |folder: &&str| pattern.len() > folder.len() && pattern.starts_with(folder);
    let pattern =
        FOLDED.into_iter().find(fold).map_or_else(|| pattern.clone(), |folder| format!("{folder}**"));
    (folder.split('.').next().unwrap_or(folder).to_owned(), pattern)
}

/// Adds what has appeared, of which the output of one run tells.
fn note(files: &mut Files, output: &str, owner: &str) {
    let (before, after) = output.split_once("after\n").expect("a list");
    let before: BTreeSet<&str> = before.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect();
    for line in after.lines() {
        let [kind, mode, user, path] =
            line.splitn(4, ' ').collect::<Vec<_>>().try_into().expect("four of them");
        if before.contains(path) {
            continue;
        }
        let kind = match kind {
            "d" => "directory",
            "f" => "file",
            "l" => "link",
            "s" => "socket",
            other => panic!("{path}: a file of type {other}"),
        };
        let (by, pattern) = told(path, kind == "directory");
        let made = files.entry(pattern).or_default();
        made.by.insert(format!("`{by}`"));
        *made.modes.entry(kind).or_default() |= u32::from_str_radix(mode, 8).expect("a mode");
        made.owners.insert(match user {
            "0" => "who runs it",
            user if user == owner => "the directory's",
            user => panic!("{path}: owned by {user}"),
        });
    }
}

fn joined<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let mut all = String::new();
    for part in parts {
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(part.as_ref());
    }
    all
}

/// The list, in which each file holds what the old one says.
fn table(files: &Files, old: &str) -> String {
    let held: BTreeMap<&str, &str> = old
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            Some((cells.first()?.trim_matches('`'), *cells.get(5)?))
        })
        .collect();
    let mut table = HEAD.to_owned();
    for (path, Made { by, modes, owners }) in files {
        let mode = |(kind, mode): (&&str, &u32)| {
            // A link's says nothing.
            if *kind == "link" { "–".into() } else { format!("{mode:04o}") }
        };
        let (by, kinds, owners) = (joined(by), joined(modes.keys()), joined(owners));
        let modes = joined(modes.iter().map(mode));
        let holds = held.get(&**path).copied().unwrap_or(UNKNOWN);
        table.push_str(&format!("| `{path}` | {by} | {kinds} | {owners} | {modes} | {holds} |\n"));
    }
    table
}

/// Lists them as root makes them, in directories of root's and in those of another user.
#[test]
fn all_files_that_commands_make_are_listed() {
    let mut files = Files::new();
    let owners = ["0", SOMEBODY];
    let outputs = thread::scope(|scope| {
        owners.map(|owner| scope.spawn(move || run(owner))).map(|run| run.join().expect("it ends"))
    });
    for (owner, output) in owners.into_iter().zip(outputs) {
        let printed = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        if !printed.starts_with("begun\n") {
            let why = format!("this needs root, and namespaces: {complaint}");
            assert!(std::env::var_os("CI").is_none(), "{why}");
            return eprintln!("skipped: {why}");
        }
        assert!(output.status.success(), "{complaint}");
        let mut found = Files::new();
        note(&mut found, &printed, owner);
        for (pattern, made) in found {
            let known = files.entry(pattern).or_default();
            known.by.extend(made.by);
            made.modes.into_iter().for_each(|(kind, mode)| *known.modes.entry(kind).or_default() |= mode);
            // At last those of what root has made where directories are somebody else's.
            known.owners = made.owners;
        }
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let text = fs::read_to_string(&page).expect("the page");
    let (front, rest) = text.split_once(BEGIN).expect("where the list begins");
    let (old, back) = rest.split_once(END).expect("where it ends");
    let new = table(&files, old);
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        fs::write(&page, format!("{front}{BEGIN}{new}{END}{back}")).expect("the page");
    } else {
        assert_eq!(
            new, old,
            "docs/operations.md lists other files: look at what differs, then \
             `FULMAR_UPDATE_GOLDEN=1 cargo test -p fulmar files`, and say there what new ones hold"
        );
    }
    assert!(!new.contains("| ? |"), "docs/operations.md does not say what some files hold");
}
