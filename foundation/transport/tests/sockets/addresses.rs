//! Who is met at an address, and what is done when a server is no longer there.

use crate::fixtures::{ONE, PROTOCOL, Running, TWO, client};
use crate::processes::{Ask, Caller};
use fulmar_transport::{
    Address, Client, ClientError, ClusterId, Limits, LinkError, Notice, Protocol, Refusal,
};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[test]
fn a_client_learns_names_and_cluster_from_addresses() {
    let server = Running::start(TWO, Limits::default());
    let anyone = Protocol { cluster: ClusterId::ANY, ..PROTOCOL };
    let mut client = Client::new(anyone, Limits::default(), Caller::new([TWO]));
    assert_eq!(client.meet(server.address.clone()).unwrap(), TWO);
    assert_eq!(client.cluster(), PROTOCOL.cluster);
    assert_eq!(client.request(Ask::together(vec![vec![5]])).unwrap(), [[[5]]]);
    assert_eq!(client.counters().connections, 1);

    let foreign = Protocol { cluster: ClusterId(0xbad), ..PROTOCOL };
    let other = Running::at("127.0.0.1:0", ONE, foreign, Limits::default());
    let error = client.meet(other.address.clone()).unwrap_err().to_string();
    assert!(error.contains("0f01") && error.contains("0bad"), "{error}");
    let gone = other.stop();
    let error = client.meet(gone.clone()).unwrap_err().to_string();
    assert!(error.contains(&gone.to_string()) && error.contains("Connection refused"), "{error}");
    server.stop();
}

#[test]
fn who_does_not_belong_is_told_and_so_is_the_server() {
    let server = Running::start(ONE, Limits::default());
    let refused = |notice| match notice {
        Notice::Refused { why, .. } => Some(why),
        _ => None,
    };
    let cases = [
        (Protocol { version: 4, ..PROTOCOL }, Refusal::Version { theirs: 4, ours: 3 }),
        (
            Protocol { cluster: ClusterId(9), ..PROTOCOL },
            Refusal::Cluster { theirs: ClusterId(9), ours: PROTOCOL.cluster },
        ),
    ];
    for (protocol, refusal) in cases {
        let mut stranger = Client::new(protocol, Limits::default(), Caller::new([ONE]));
        let error = stranger.meet(server.address.clone()).unwrap_err();
        assert!(
            matches!(&error.why, LinkError::Refused(reason) if *reason == refusal.to_string()),
            "{error}"
        );
        assert_eq!(server.await_notice(refused), refusal);

        // The same when messages follow the greeting at once.
        stranger.address(ONE, server.address.clone());
        let error = stranger.request(Ask::together(vec![vec![0; 100_000]; 40])).unwrap_err();
        assert!(
            matches!(&error, ClientError::Refused { reason, .. } if *reason == refusal.to_string()),
            "{error}"
        );
        assert_eq!(server.await_notice(refused), refusal);
    }
    let mut lost = client(Caller::new([TWO]));
    lost.address(TWO, server.address.clone());
    let error = lost.request(Ask::together(vec![vec![0]])).unwrap_err();
    assert!(error.to_string().contains("meant for server n2"), "{error}");
    assert_eq!(server.handle.counters().unwrap().messages_received, 0);
    server.stop();
}

#[test]
fn a_client_gets_through_to_a_server_that_comes_back() {
    let mut server = Running::start(ONE, Limits::default());
    let mut client = client(Caller::new([ONE]).with_retry(Duration::from_millis(5)));
    client.address(ONE, server.address.clone());
    for turn in 0..5 {
        assert_eq!(client.request(Ask::together(vec![vec![turn]])).unwrap(), [[[turn]]]);
        let address = server.stop().to_string();
        let (asked, answered) = (
            vec![vec![turn, turn]],
            thread::spawn(move || {
                let echoed = client.request(Ask::together(vec![vec![turn, turn]])).unwrap();
                (client, echoed)
            }),
        );
        server = Running::at(&address, ONE, PROTOCOL, Limits::default());
        let echoed;
        (client, echoed) = answered.join().unwrap();
        assert_eq!(echoed, [asked]);
    }
    server.stop();
}

#[test]
fn a_client_with_nothing_to_wait_for_says_so() {
    let mut client = client(Caller::new([ONE]));
    assert!(matches!(client.request(Ask::together(vec![vec![1]])), Err(ClientError::Stuck)));
    let gone = Running::start(ONE, Limits::default()).stop();
    client.address(ONE, gone);
    assert!(matches!(client.request(Ask::together(vec![vec![1]])), Err(ClientError::Stuck)));
    let why = client.fault(ONE).map(ToString::to_string);
    assert!(why.as_ref().is_some_and(|why| why.contains("refused")), "{why:?}");
}

#[test]
fn a_process_knows_addresses_itself() {
    let server = Running::start(TWO, Limits::default());
    let mut client = client(Caller::new([TWO]));
    let address = server.address.clone();
    client.directory(move |caller, name| caller.servers.contains(&name).then(|| address.clone()));
    assert_eq!(client.request(Ask::together(vec![vec![3]])).unwrap(), [[[3]]]);
    server.stop();
}

/// An address that nobody has any more is silent: whoever connects there is not refused, and never greeted.
fn silent() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().into();
    (listener, address)
}

#[test]
fn a_client_does_not_wait_where_a_server_no_longer_is() {
    let server = Running::start(TWO, Limits::default());
    let (_silent, old) = silent();
    let new = server.address.clone();
    let asked = AtomicU32::new(0);
    let mut client = client(Caller::new([TWO]).with_retry(Duration::from_millis(5)));
    client
        .directory(move |_, _| Some(if asked.fetch_add(1, SeqCst) == 0 { old.clone() } else { new.clone() }));
    assert_eq!(client.request(Ask::together(vec![vec![3]])).unwrap(), [[[3]]]);
    server.stop();
}

#[test]
fn a_server_does_not_wait_where_another_no_longer_is() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    let (_silent, old) = silent();
    one.handle.address(TWO, old.clone());
    let mut client = client(Caller::new([ONE]).with_retry(Duration::from_millis(5)));
    client.address(ONE, one.address.clone());
    let asked = thread::spawn(move || client.request(Ask::relayed(&[2])).unwrap());
    let tried = one.await_notice(|notice| match notice {
        Notice::Connecting { peer: TWO, address } => Some(address),
        _ => None,
    });
    assert_eq!(tried, old);
    one.handle.address(TWO, two.address.clone());
    let why = one.await_notice(|notice| match notice {
        Notice::Unreachable { peer: TWO, why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Moved), "{why}");
    assert_eq!(asked.join().unwrap(), [[b"relayed"]]);
    one.stop();
    two.stop();
}
