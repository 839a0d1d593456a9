//! Commands on hosts.

use crate::network::{Network, PAIR};
use rustix::process::{Pid, Signal, Uid, kill_process};
use rustix::thread::set_thread_res_uid;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread;

#[test]
fn a_command_is_as_it_would_be_without() {
    let network = Network::up(PAIR);
    assert_eq!(network.run(&["exec", "a", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(network.run(&["exec", "a", "--", "no-such-command"]).status.code(), Some(127));
    assert_eq!(network.run(&["exec", "a", "--", "/dev/null"]).status.code(), Some(126));
    let nowhere = network.run(&["exec", "c", "--", "true"]);
    assert_eq!(nowhere.status.code(), Some(125));
    assert_eq!(nowhere.stderr, b"Error: there is no host \"c\": name one of a, b\n");
    assert!(network.must(&["exec", "b", "--", "ip", "-4", "address"]).contains("10.0.0.2/24"));

    let mut copies = network.command(&["exec", "a", "--", "cat"]);
    let mut copies = copies.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    copies.stdin.take().expect("a pipe").write_all(b"some\nlines").expect("it reads");
    assert_eq!(copies.wait_with_output().expect("it ends").stdout, b"some\nlines");
}

#[test]
fn signals_reach_a_command() {
    let network = Network::up(PAIR);
    let script = "trap 'kill $!; exit 9' TERM; sleep 1000 >&- & echo ready; wait";
    let mut command = network.command(&["exec", "a", "--", "sh", "-c", script]);
    let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("it speaks");
    kill_process(Pid::from_child(&process), Signal::TERM).expect("it lives");
    assert_eq!(process.wait().expect("it ends").code(), Some(9));
}

/// Another user can make a directory of that name where all may, and offer a namespace there.
#[test]
fn what_another_user_offers_is_not_entered() {
    let network = Network::up(PAIR);
    let (state, elsewhere) = (network.state(), network.directory.path().join("elsewhere"));
    let refused = || {
        let done = network.run(&["exec", "a", "--", "true"]);
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.code() == Some(125) && why.contains("not a directory of this user alone"),
            "{why}"
        );
    };
    let of = |user| std::os::unix::fs::chown(&state, Some(user), None).expect("root may");
    let mode = |mode| fs::set_permissions(&state, Permissions::from_mode(mode)).expect("root may");
    of(1);
    refused();
    of(0);
    mode(0o777);
    refused();
    mode(0o700);
    fs::rename(&state, &elsewhere).expect("renamed");
    std::os::unix::fs::symlink(&elsewhere, &state).expect("a link");
    refused();
    fs::remove_file(&state).and_then(|()| fs::rename(&elsewhere, &state)).expect("as it was");
    // The directory was made another's, with a socket in it, after it had been looked at.
    let (control, kept) = (state.join("control"), state.join("kept"));
    fs::rename(&control, &kept).expect("renamed");
    mode(0o777);
    let somebody = Uid::from_raw(1);
    let bind = || {
        set_thread_res_uid(somebody, somebody, somebody).expect("root may");
        UnixListener::bind(&control).expect("all may")
    };
    let listener = thread::scope(|scope| scope.spawn(bind).join()).expect("it is bound");
    mode(0o700);
    let done = network.run(&["exec", "a", "--", "true"]);
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(125) && why.contains("it is user 1"), "{why}");
    drop(listener);
    fs::rename(&kept, &control).expect("as it was");
    assert!(network.run(&["exec", "a", "--", "true"]).status.success());
}
