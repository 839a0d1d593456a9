//! Who says another's name, and who only takes up room.

use crate::fixtures::{ONE, PROTOCOL, Running, THREE, TWO, client, client_of};
use crate::processes::{Ask, Caller};
use crate::raw;
use fulmar_transport::{Address, Limits, LinkError, Notice, Refusal};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What is not done by then is never done.
const LONG: Duration = Duration::from_secs(30);

/// A connection that has greeted as the server with this name, and is let in.
fn greeted(server: &Running, name: u8) -> TcpStream {
    let mut stream = raw::connect(&server.address);
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&raw::hello_of_server(name)).unwrap();
    assert_eq!(raw::frame(&mut stream).unwrap()[12..15], [0, 1, 0xf]);
    stream
}

/// Asks, and waits for the answer on the same connection.
fn is_answered(stream: &mut TcpStream, tag: u8) -> bool {
    stream
        .write_all(&raw::question(tag, 0))
        .and_then(|()| raw::frame(stream))
        .is_ok_and(|answer| answer == [tag, 0, 0, 0, 0, 0, 0, 0x80, 0])
}

/// What ends in time, or is not waited for.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(LONG).expect("it ends in time")
}

/// Has a server ask the server named `to` again and again until that answers.
fn relays(server: &Running, to: u8) {
    let mut client = client(Caller::new([ONE]).with_retry(Duration::from_millis(5)));
    client.address(ONE, server.address.clone());
    let echoed = in_time(move || client.request(Ask::relayed(&[to])).unwrap());
    assert_eq!(echoed, [[b"relayed"]]);
}

fn closed(notice: Notice) -> Option<LinkError> {
    match notice {
        Notice::Closed { peer: TWO, why } => Some(why),
        Notice::Unreachable { why, .. } => panic!("a server is said to be lost: {why}"),
        _ => None,
    }
}

/// Six idle connections, two to each of three replicas in the names of the others, stopped all three.
#[test]
fn who_claims_a_name_that_answers_displaces_nobody() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    one.handle.address(TWO, two.address.clone());
    relays(&one, 2);
    // Server two is heard all the while, and no message is lost.
    let is_over = Arc::new(AtomicBool::new(false));
    let mut asks = client_of(&[(ONE, &one)]);
    let asking = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(SeqCst) {
                assert_eq!(asks.request(Ask::relayed(&[2])).unwrap(), [[b"relayed"]]);
            }
        }
    });
    let mut claimants: Vec<_> = (0..20).map(|_| greeted(&one, 2)).collect();
    for older in &mut claimants[..4] {
        assert_eq!(older.read(&mut [0]).unwrap(), 0, "sixteen claimants of a name are enough");
    }
    relays(&one, 2);
    is_over.store(true, SeqCst);
    in_time(move || asking.join().unwrap());
    for last in &mut claimants[4..] {
        last.set_nonblocking(true).unwrap();
        assert_eq!(last.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(two.handle.counters().unwrap().connections, 1, "nothing is to be verified");
    one.stop();
    two.stop();
}

#[test]
fn who_claims_a_name_is_heard_when_the_other_has_ended() {
    let server = Running::start(ONE, Limits::default());
    let mut first = greeted(&server, 2);
    let mut second = greeted(&server, 2);
    assert!(is_answered(&mut first, 1), "its name was taken away");
    // It is read from, and the answer goes to the first.
    second.write_all(&raw::question(2, 0)).unwrap();
    assert_eq!(raw::frame(&mut first).unwrap()[0], 2);
    drop(first);
    assert!(matches!(server.await_notice(closed), LinkError::Ended));
    assert!(is_answered(&mut second, 3));
    server.stop();
}

/// Who had said its name was the server for good when that had ended, whatever came of it.
#[test]
fn who_claims_the_name_of_a_server_that_ends_does_not_inherit_it() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    one.handle.address(TWO, two.address.clone());
    relays(&one, 2);
    let _claims = greeted(&one, 2);
    let address = two.stop();
    one.await_notice(closed);
    let two = Running::at(&address.to_string(), TWO, PROTOCOL, Limits::default());
    // It is called, and calls nobody.
    relays(&one, 2);
    one.stop();
    two.stop();
}

/// Whoever talks may be as loud as the server, and more than there is room for: what is sent to the server goes where it is.
#[test]
fn who_talks_under_the_names_of_servers_does_not_become_them() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    let both_hear = |one: &Running, two: &Running| {
        one.handle.address(TWO, two.address.clone());
        two.handle.address(ONE, one.address.clone());
        relays(one, 2);
        let mut asks = client(Caller::new([TWO]).with_retry(Duration::from_millis(5)));
        asks.address(TWO, two.address.clone());
        in_time(move || asks.request(Ask::relayed(&[1])).unwrap());
    };
    let is_over = AtomicBool::new(false);
    let talks = |address: &Address, name: u8| -> std::io::Result<()> {
        let mut stream = raw::try_connect(address)?;
        stream.write_all(&raw::hello_of_server(name))?;
        while !is_over.load(SeqCst) {
            stream.write_all(&raw::question(1, 0))?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    thread::scope(|scope| {
        for (server, name) in [(&one, 2), (&two, 1)].into_iter().cycle().take(40) {
            let (address, talks, is_over) = (server.address.clone(), &talks, &is_over);
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    // The server may be gone for a while, or let somebody else in.
                    let _ = talks(&address, name);
                }
            });
        }
        let _over = Over(&is_over);
        // Claims are settled once a second.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2500) {
            both_hear(&one, &two);
        }
        let one = Running::at(&one.stop().to_string(), ONE, PROTOCOL, Limits::default());
        both_hear(&one, &two);
        one.stop();
        two.stop();
    });
}

/// Says that it is over, whatever the reason.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Its machine lost power, and is back before the server has noticed.
#[test]
fn who_lost_its_connection_is_heard_when_that_is_silent() {
    let server = Running::start(ONE, Limits::default());
    let lost = greeted(&server, 2);
    let mut back = greeted(&server, 2);
    back.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    in_time(move || while !is_answered(&mut back, 1) {});
    assert!(matches!(server.await_notice(closed), LinkError::Replaced));
    drop(lost);
    server.stop();
}

#[test]
fn a_claim_that_cannot_be_verified_changes_nothing() {
    let server = Running::start(ONE, Limits::default());
    let mut first = greeted(&server, 2);
    let gone = Running::start(TWO, Limits::default()).stop();
    server.handle.address(TWO, gone);
    assert!(is_answered(&mut first, 1));
    let _second = greeted(&server, 2);
    let why = server.await_notice(closed);
    assert!(matches!(&why, LinkError::Io(why) if why.kind() == ErrorKind::ConnectionRefused), "{why}");
    assert!(is_answered(&mut first, 2));
    server.stop();
}

#[test]
fn a_claim_from_before_the_servers_met_is_none_when_the_server_itself_calls() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    one.handle.address(TWO, two.address.clone());
    two.handle.address(ONE, one.address.clone());
    let mut stranger = greeted(&one, 2);
    let is_over = Arc::new(AtomicBool::new(false));
    let talking = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(SeqCst) && stranger.write_all(&raw::question(1, 0)).is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let mut asks = client(Caller::new([TWO]).with_retry(Duration::from_millis(5)));
    asks.address(TWO, two.address.clone());
    in_time(move || asks.request(Ask::relayed(&[1])).unwrap());
    // Somebody has the name once more, and it helps nothing.
    let _again = greeted(&one, 2);
    relays(&one, 2);
    is_over.store(true, SeqCst);
    talking.join().unwrap();
    one.stop();
    two.stop();
}

/// Each is let in by the other while it waits for its own answer, and what they send meanwhile arrives.
#[test]
fn servers_that_call_each_other_at_once_lose_nothing() {
    for _ in 0..20 {
        let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
        one.handle.address(TWO, two.address.clone());
        two.handle.address(ONE, one.address.clone());
        let asking = [(ONE, &one, 2), (TWO, &two, 1)].map(|(name, server, other)| {
            let mut asks = client_of(&[(name, server)]);
            thread::spawn(move || {
                for _ in 0..20 {
                    assert_eq!(asks.request(Ask::relayed(&[other])).unwrap(), [[b"relayed"]]);
                }
            })
        });
        for asking in asking {
            in_time(move || asking.join().unwrap());
        }
        one.stop();
        two.stop();
    }
}

#[test]
fn who_claims_a_name_is_counted() {
    let server = Running::start(ONE, Limits { connections: 2, ..Limits::default() });
    let _first = greeted(&server, 2);
    let _second = greeted(&server, 2);
    let mut third = raw::connect(&server.address);
    third.write_all(&raw::hello_of_server(3)).unwrap();
    let why = server.await_notice(|notice| match notice {
        Notice::Refused { why, .. } => Some(Some(why)),
        Notice::Connected { peer: THREE, .. } => Some(None),
        _ => None,
    });
    assert_eq!(why, Some(Refusal::Full(2)));
    server.stop();
}

#[test]
fn a_greeting_in_drips_is_not_waited_for() {
    let server = Running::start(ONE, Limits::default());
    let mut drips = raw::connect(&server.address);
    drips.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A server that is busy says this before anything else, as often as it likes.
    let drip = move || {
        while drips.write_all(&[0xff]).is_ok()
            && drips.read(&mut [0]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
        {}
    };
    in_time(drip);
    let why = server.await_notice(|notice| match notice {
        Notice::Unknown { why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Mute(_)), "{why}");
    server.stop();
}

#[test]
fn who_is_idle_makes_room() {
    let server = Running::start(ONE, Limits { connections: 3, ..Limits::default() });
    let client_greeted = || {
        let mut stream = raw::connect(&server.address);
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(&raw::hello()).unwrap();
        raw::frame(&mut stream).unwrap();
        stream
    };
    let mut fellow = greeted(&server, 2);
    server.handle.address(TWO, server.address.clone());
    let mut asks = client_greeted();
    assert!(is_answered(&mut asks, 1));
    let mut idle = client_greeted();
    // Both are idle for a second, and the one that has asked is for longer.
    thread::sleep(Duration::from_millis(1100));
    let mut newcomer = client_of(&[(ONE, &server)]);
    newcomer.request(Ask::together(vec![vec![1]])).unwrap();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "who has never asked goes first");
    assert!(is_answered(&mut asks, 2) && is_answered(&mut fellow, 3));
    server.stop();
}

/// TCP sends seconds later what was lost twice, though the network is well again: here the other end takes nothing at all.
#[test]
fn who_acknowledges_nothing_is_called_anew() {
    let two = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Running::start(ONE, Limits::default());
    server.handle.address(TWO, two.local_addr().unwrap().into());
    let greeted = move || {
        let (mut stream, _) = two.accept().unwrap();
        raw::frame(&mut stream).unwrap();
        stream.write_all(&raw::welcome(2, 1)).unwrap();
        stream
    };
    let mut client = raw::connect(&server.address);
    client.write_all(&raw::hello()).unwrap();
    let mut relayed = raw::question(1, 100_000);
    (relayed[12], relayed[13]) = (1, 2);
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let asks = thread::spawn(move || {
        while !ends.load(SeqCst) {
            client.write_all(&relayed).unwrap();
        }
    });
    in_time(move || {
        let _stands_still = greeted();
        let mut new = greeted();
        // What is sent from now on comes here.
        raw::frame(&mut new).unwrap();
        is_over.store(true, SeqCst);
    });
    asks.join().unwrap();
    server.stop();
}

/// Nobody knows of a server of this name: to say one cost nothing, and took a place for good.
#[test]
fn who_has_invented_a_name_makes_room() {
    let server = Running::start(ONE, Limits { connections: 2, ..Limits::default() });
    let mut invented = [greeted(&server, 8), greeted(&server, 9)];
    thread::sleep(Duration::from_millis(1100));
    let mut newcomer = client_of(&[(ONE, &server)]);
    in_time(move || newcomer.request(Ask::together(vec![vec![1]])).unwrap());
    assert_eq!(invented[0].read(&mut [0]).unwrap(), 0);
    server.stop();
}

/// Clients alone took all there was, and servers did not hear each other any more.
#[test]
fn a_server_is_let_in_beside_as_many_clients_as_there_may_be() {
    let server = Running::start(ONE, Limits { connections: 1, ..Limits::default() });
    server.handle.address(TWO, server.address.clone());
    let mut client = raw::connect(&server.address);
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(&raw::hello()).unwrap();
    raw::frame(&mut client).unwrap();
    assert!(is_answered(&mut client, 1));
    let _two = greeted(&server, 2);
    assert!(is_answered(&mut client, 2));
    server.stop();
}

#[test]
fn who_does_not_greet_makes_room() {
    let server = Running::start(ONE, Limits { connections: 1, ..Limits::default() });
    let silent: Vec<_> = (0..65).map(|_| raw::connect(&server.address)).collect();
    let mut newcomer = client_of(&[(ONE, &server)]);
    in_time(move || newcomer.request(Ask::together(vec![vec![1]])).unwrap());
    let why = server.await_notice(|notice| match notice {
        Notice::Unknown { why, .. } => Some(why),
        _ => None,
    });
    assert!(matches!(why, LinkError::Mute(long) if long < Duration::from_secs(5)), "{why}");
    drop(silent);
    server.stop();
}

/// Whatever connection is lost by that, others take its place.
#[test]
fn servers_hear_each_other_while_their_names_are_claimed_again_and_again() {
    let (one, two) = (Running::start(ONE, Limits::default()), Running::start(TWO, Limits::default()));
    one.handle.address(TWO, two.address.clone());
    two.handle.address(ONE, one.address.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let claiming = [(&one, 2), (&two, 1)].map(|(server, name)| {
        let (address, is_over) = (server.address.clone(), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut last = None;
            while !is_over.load(SeqCst) {
                let mut stream = raw::connect(&address);
                stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                stream.write_all(&raw::hello_of_server(name)).unwrap();
                // It may have been replaced already.
                let _ = raw::frame(&mut stream).map(|_| stream.write_all(&[0xff; 4]));
                last = Some(stream);
            }
            drop(last);
        })
    });
    for _ in 0..100 {
        relays(&one, 2);
        let mut asks = client(Caller::new([TWO]).with_retry(Duration::from_millis(5)));
        asks.address(TWO, two.address.clone());
        in_time(move || asks.request(Ask::relayed(&[1])).unwrap());
    }
    is_over.store(true, SeqCst);
    claiming.into_iter().for_each(|claiming| claiming.join().unwrap());
    one.stop();
    two.stop();
}
