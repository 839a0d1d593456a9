//! Sessions by TLS. Both sides are switches here: all that they say to each other is hello.

use crate::certificates::Authority;
use crate::toy::Served;
use fulmar_node::Random;
use fulmar_session::{Settings, TlsFiles};
use std::io::Write;
use std::net::TcpStream;

const ANYWHERE: &str = "pssl:0:127.0.0.1";

fn settings(files: Option<TlsFiles>) -> Settings {
    Settings { tls: files, ..Settings::default() }
}

/// One that is called, and how.
fn called(files: TlsFiles) -> (Served, String) {
    let served = Served::begin();
    served.control(&[ANYWHERE], &settings(Some(files)));
    let port = served.status().port.expect("it listens");
    (served, format!("ssl:127.0.0.1:{port}"))
}

#[test]
fn both_sides_show_that_the_authority_has_signed_them() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let sign = |name| authority.sign(directory.path(), name, &authority);
    let (one, target) = called(sign("one"));
    let other = Served::begin();
    other.control(&[&target], &settings(Some(sign("other"))));
    one.until_reported("connected");
    other.until_reported("connected");
    assert!(one.sessions.is_connected() && other.sessions.is_connected());
    drop(other);
    one.until_reported("closed the connection");
}

#[test]
fn whom_the_authority_has_not_signed_is_no_controller() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let stranger = Authority::new();
    let sign = |by: &Authority, name, trusted| by.sign(directory.path(), name, trusted);
    let (one, target) = called(sign(&authority, "one", &authority));
    // It does not trust who is called, or is not trusted.
    let distrusting = Served::begin();
    let files = sign(&authority, "distrusting", &stranger);
    distrusting.control(&[&target], &settings(Some(files)));
    distrusting.until_reported("certificate");
    let distrusted = Served::begin();
    let files = sign(&stranger, "distrusted", &authority);
    distrusted.control(&[&target], &settings(Some(files)));
    one.until_reported("certificate");
    assert!(!one.sessions.is_connected());
    for served in [distrusting, distrusted] {
        assert!(!served.sessions.is_connected());
    }
}

#[test]
fn what_is_missing_is_said() {
    let served = Served::begin();
    served.control(&["ssl:127.0.0.1:1"], &settings(None));
    served.until_reported("it needs a private key");
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = directory.path().join("nowhere.pem");
    let files = TlsFiles { private_key: nowhere.clone(), certificate: nowhere.clone(), authority: nowhere };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = format!("ssl:{}", listener.local_addr().expect("it is bound"));
    served.control(&[&target], &settings(Some(files)));
    served.until_reported("nowhere.pem");
}

/// Who may configure a switch names the files.
#[test]
fn what_is_no_file_with_a_key_is_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let large = directory.path().join("large");
    std::fs::File::create(&large).and_then(|file| file.set_len(2 << 20)).expect("a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = format!("ssl:{}", listener.local_addr().expect("it is bound"));
    for (path, why) in [("/dev/zero".into(), "it is something else"), (large, "of 1 MiB at most")] {
        let served = Served::begin();
        let files = TlsFiles { private_key: path.clone(), certificate: path.clone(), authority: path };
        served.control(&[&target], &settings(Some(files)));
        served.until_reported(why);
    }
}

#[test]
fn garbage_is_no_handshake() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let (served, _) = called(authority.sign(directory.path(), "one", &authority));
    let port = served.status().port.expect("it listens");
    let mut vandal = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut random = Random::new(3);
    let garbage: Vec<u8> = (0..1 << 20).map(|_| random.next().to_le_bytes()[0]).collect();
    // It may be shut out before it has said all of that.
    let _ = vandal.write_all(&garbage);
    served.until_reported("corrupt message");
    assert!(!served.sessions.is_connected());
}
