//! Databases that users of different rights have. These tests need root, and `setpriv` to become somebody else.

use crate::founding;
use crate::server::{Server, sql};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");
/// A user who is not root.
const SOMEBODY: u32 = 65_534;

/// A shell of a user's, and what it says: its answers and its complaints.
fn shell(user: u32, name: &str, statements: &str) -> (String, String) {
    let mut command = Command::new("setpriv");
    let id = user.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", FULMAR, "sql", name, statements]);
    let output = command.env("FULMAR_DATABASES", "*.db").output().expect("setpriv is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A directory that everybody may look into, and that is a user's.
fn folder(user: u32) -> (tempfile::TempDir, PathBuf) {
    assert_eq!(fs::metadata("/proc/self").expect("is there").uid(), 0, "this needs root");
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("ours");
    chown(directory.path(), Some(user), Some(user)).expect("root may");
    let path = directory.path().join("birds");
    (directory, path)
}

fn name(path: &Path) -> String {
    format!("fulmar:{}", path.display())
}

#[test]
fn who_may_not_write_reads() {
    let (_directory, path) = folder(0);
    let fill = "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)";
    assert_eq!(shell(0, &name(&path), fill).1, "");
    let count = "SELECT sum(a) FROM t";
    for mode in ["", "?mode=ro"] {
        let name = name(&path) + mode;
        assert_eq!(shell(SOMEBODY, &name, count), ("3".into(), String::new()), "{mode}");
        let refused = shell(SOMEBODY, &name, "INSERT INTO t VALUES (3)").1;
        assert!(refused.contains("reading only"), "{refused}");
    }
    assert_eq!(shell(0, &name(&path), "INSERT INTO t VALUES (3); SELECT sum(a) FROM t").0, "6");
    assert_eq!(shell(SOMEBODY, &name(&path), count).0, "6");
    // Also behind a file that stands for it, and nothing is left of what was read.
    let file = format!("file:{}", path.with_file_name("x.db").display());
    let file = file.as_str();
    assert_eq!(shell(0, file, fill).1, "");
    assert_eq!(shell(SOMEBODY, file, count).0, "3");
}

#[test]
fn what_root_makes_in_a_users_database_is_the_users() {
    let (_directory, path) = folder(SOMEBODY);
    assert_eq!(shell(SOMEBODY, &name(&path), "CREATE TABLE t(a); INSERT INTO t VALUES (1)").1, "");
    let mut root = Command::new("sh")
        .args(["-c", "umask 077 && exec \"$0\" sql \"$1\"", FULMAR, &name(&path)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = root.stdin.take().expect("a pipe");
    input.write_all(b"INSERT INTO t SELECT 1 FROM t; SELECT 1;\n").expect("it reads");
    // Beside it: its owner may knock at its socket.
    let count = "INSERT INTO t VALUES (1); SELECT count(*) > 1 FROM t";
    assert_eq!(shell(SOMEBODY, &name(&path), count), ("1".into(), String::new()));
    drop(input);
    assert!(root.wait().expect("it ends").success());
    assert_eq!(shell(SOMEBODY, &name(&path), count), ("1".into(), String::new()));
}

/// Root has started a user's server once, of databases or of a service: this user goes on with it.
#[test]
fn a_server_that_root_starts_has_the_rights_of_whose_directory_it_is() {
    // Neither `data` nor what it is in is there yet.
    let (directory, data) = folder(SOMEBODY);
    let data = data.join("data");
    let as_somebody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        let id = SOMEBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", FULMAR, "serve"]).args(arguments);
        command
    };
    let log = directory.path().join("log");
    let mut root = Command::new(FULMAR);
    root.args(["serve", "--found", "--data"]).arg(&data);
    let logged = fs::File::create(&log).expect("root may");
    let mut server = Server::logged(&mut root, "127.0.0.1:0", &[], logged.into());
    let birds = format!("{}/birds", server.address);
    assert_eq!(sql(&birds, &["CREATE TABLE t(a); INSERT INTO t VALUES (1); SELECT a FROM t"]), "1");
    assert!(server.signal("TERM").success());
    let said = fs::read_to_string(&log).expect("its log");
    assert!(said.contains("belongs to user 65534: serving with this user's rights"), "{said}");
    require_all_to_be(SOMEBODY, &data);
    let data = data.to_str().expect("a name");
    let server = Server::of(&mut as_somebody(&["--data", data]), "127.0.0.1:0", &[]);
    assert_eq!(sql(&format!("{}/birds", server.address), &["SELECT a FROM t"]), "1");

    let locks = directory.path().join("locks");
    fs::create_dir(&locks).expect("root may");
    chown(&locks, Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
    let address = founding::address();
    let settings = directory.path().join("locks.toml");
    let text = format!(
        "service = \"locks\"\nmembers = [\"{address}\"]\ndata = \"{}\"\nreplication = \"viewstamped\"\n",
        locks.display()
    );
    fs::write(&settings, text).expect("root may");
    let settings = settings.to_str().expect("a name");
    let mut root = Command::new(FULMAR);
    root.args(["serve", "--found", "--config", settings]);
    assert!(Server::of(&mut root, &address, &[]).signal("TERM").success());
    require_all_to_be(SOMEBODY, &locks);
    assert!(Server::of(&mut as_somebody(&["--config", settings]), &address, &[]).signal("TERM").success());
}

fn require_all_to_be(user: u32, path: &Path) {
    let found = fs::symlink_metadata(path).expect("it is there");
    assert_eq!((found.uid(), found.gid()), (user, user), "{}", path.display());
    if found.is_dir() {
        for entry in fs::read_dir(path).expect("root may") {
            require_all_to_be(user, &entry.expect("root may").path());
        }
    }
}

#[test]
fn an_immutable_database_is_not_written() {
    let (_directory, path) = folder(0);
    let file = format!("file:{}", path.with_file_name("x.db").display());
    let file = file.as_str();
    assert_eq!(shell(0, file, "CREATE TABLE t(a); INSERT INTO t VALUES (1)").1, "");
    assert_eq!(shell(0, &name(&path), "CREATE TABLE t(a); INSERT INTO t VALUES (1)").1, "");
    for name in [format!("{file}?immutable=1"), format!("{}?mode=ro", name(&path))] {
        let before = state(path.parent().expect("a directory"));
        assert_eq!(shell(0, &name, "SELECT a FROM t").0, "1");
        let refused = shell(0, &name, "INSERT INTO t VALUES (2)").1;
        assert!(refused.contains("reading only"), "{refused}");
        assert_eq!(state(path.parent().expect("a directory")), before, "{name}");
    }
}

/// The files in a directory, with the length of each and when it was changed; but for locks, which say who holds them.
fn state(directory: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let known = fs::symlink_metadata(&path).expect("it is there");
        if known.is_dir() {
            found.extend(state(&path));
        } else if !path.ends_with("LOCK") {
            found.push((path, known.len(), known.modified().expect("a time")));
        }
    }
    found.sort();
    found
}
