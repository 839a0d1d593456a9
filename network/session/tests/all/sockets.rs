//! Sessions on real sockets.

use crate::peer::Peer;
use crate::toy::{Asked, MEETS, Served, flow_mod, flow_removed, many_flows, patient};
use fulmar_node::Random;
use fulmar_openflow::error::BadRequest;
use fulmar_openflow::packet_in::{PacketIn2, PacketInReason};
use fulmar_openflow::role::{Role, RoleMessage};
use fulmar_openflow::{Body, HEADER, Message, VERSION};
use fulmar_session::{Event, SessionId, Settings, State, Target};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

const ANYWHERE: &str = "ptcp:0:127.0.0.1";

fn visit(served: &Served) -> Peer<TcpStream> {
    let port = served.status().port.expect("it listens");
    Peer::greet(TcpStream::connect(("127.0.0.1", port)).expect("it listens"))
}

fn packet() -> Event {
    let packet = Box::new(PacketIn2::new(vec![7; 1000], PacketInReason::Action));
    Event::PacketIn { controller: 0, packet }
}

#[test]
fn a_controller_is_called_again_after_it_was_gone() {
    let served = Served::begin();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    assert!(served.sessions.for_how_long_not().is_some());
    let target = format!("tcp:{}", listener.local_addr().expect("it is bound"));
    served.control(&[&target], &patient());
    for _ in 0..2 {
        let mut peer = Peer::greet(listener.accept().expect("it calls").0);
        let asked = RoleMessage { role: Role::Master, generation: 1 };
        peer.say(5, Body::RoleRequest(asked.clone()));
        assert_eq!(peer.hear(), Some((5, Body::RoleReply(asked))));
        assert!(served.sessions.is_connected() && served.sessions.for_how_long_not().is_none());
        let status = served.status();
        assert_eq!(
            (status.is_connected, status.role, status.state),
            (true, Some(Role::Master), State::Active)
        );
        assert!(status.since_connect.is_some());
        drop(peer);
        served.until_reported("closed the connection");
        assert!(!served.sessions.is_connected() && served.sessions.for_how_long_not().is_some());
        let status = served.status();
        assert!(status.role.is_none() && status.state != State::Active);
        assert!(status.last_error.expect("it was closed").contains("closed"));
    }
    drop(listener);
    served.until_reported("refused");
}

#[test]
fn controllers_that_stay_keep_their_sessions() {
    let served = Served::begin();
    let (stays, goes) = (served.path("stays"), served.path("goes"));
    let at = |path: &std::path::Path| format!("unix:{}", path.display());
    let doors = [&stays, &goes].map(|path| UnixListener::bind(path).expect("a socket"));
    served.control(&[&at(&stays), &at(&goes)], &patient());
    let [mut staying, mut going] = doors.map(|door| Peer::greet(door.accept().expect("it calls").0));
    assert!(staying.is_answered() && going.is_answered());
    served.control(&[ANYWHERE, &at(&stays)], &patient());
    assert_eq!(going.hear(), None);
    assert!(staying.is_answered());
    let targets: Vec<_> = served.sessions.status().iter().map(|status| status.target.to_string()).collect();
    assert_eq!(targets, [at(&stays), ANYWHERE.into()]);
    // Other settings are another session.
    served.control(&[&at(&stays)], &Settings::default());
    assert_eq!(staying.hear(), None);
    // And the end is one of all.
    let tool = UnixStream::connect(served.path("br0.mgmt")).expect("it listens");
    let mut tool = Peer::greet(tool);
    let path = served.path("br0.mgmt");
    drop(served.sessions);
    assert_eq!(tool.hear(), None);
    assert!(!path.exists());
}

#[test]
fn sessions_run_beside_each_other() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let (mut first, mut second) = (visit(&served), visit(&served));
    // The switch carries out none of these before it has both.
    first.say(3, flow_mod(MEETS));
    second.say(3, flow_mod(MEETS));
    assert!(first.is_answered() && second.is_answered());
}

/// As many as may come in at all, and more.
#[test]
fn who_says_nothing_or_has_left_keeps_nobody_out() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let port = served.status().port.expect("it listens");
    let come = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut mute: Vec<_> = (0..120).map(|_| come()).collect();
    // A part of a hello is none.
    mute.iter_mut().for_each(|stream| drop(stream.write(&[VERSION, 0])));
    assert!(visit(&served).is_answered());
    for _ in 0..120 {
        drop(visit(&served));
    }
    assert!(visit(&served).is_answered());
}

#[test]
fn nothing_of_the_master_before_comes_after_the_new_one_knows() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let [mut before, mut after, mut third] = [0; 3].map(|_| visit(&served));
    let master = |generation| Body::RoleRequest(RoleMessage { role: Role::Master, generation });
    before.say(3, master(1));
    before.hear().expect("it is the master");
    before.say(4, flow_mod(MEETS));
    served.asked.iter().find(|asked| *asked == Asked::Waits).expect("it is being carried out");
    after.say(5, master(2));
    // Others are not held up by who waits for what waits for them.
    third.say(6, flow_mod(MEETS));
    assert!(matches!(after.hear(), Some((5, Body::RoleReply(_)))));
    assert!(served.asked.try_iter().any(|asked| matches!(asked, Asked::Request(SessionId(1), _))));
    before.say(7, flow_mod(1));
    let Some((7, Body::Error(error))) = before.hear() else { panic!("it is a slave") };
    assert_eq!(error.code, BadRequest::IsSlave.into());
}

#[test]
fn who_listens_in_is_reported_and_tools_are_not() {
    let served = Served::begin();
    let snoop = Target::PassiveUnix(served.path("br0.snoop"));
    served.sessions.set_snoops(vec![(snoop, patient())]).expect("a socket");
    for name in ["br0.mgmt", "br0.snoop"] {
        let mut peer = Peer::greet(UnixStream::connect(served.path(name)).expect("it listens"));
        assert!(peer.is_answered());
        drop(peer);
        served.asked.iter().find(|asked| matches!(asked, Asked::Gone(_))).expect("it has left");
    }
    // Whatever is reported is before the end.
    drop(served.sessions);
    let reports: Vec<String> = served.reports.try_iter().collect();
    let [came, left] = &reports[..] else { panic!("{reports:?}") };
    assert!(came.contains("br0.snoop: connected"), "{came}");
    assert!(left.contains("br0.snoop: the other side has closed"), "{left}");
}

#[test]
fn garbage_ends_its_own_connection_alone() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let (mut other, mut vandal) = (visit(&served), visit(&served));
    let mut random = Random::new(1);
    let garbage: Vec<u8> = (0..4 << 20).map(|_| random.next().to_le_bytes()[0] & 1).collect();
    // Messages of 0 or 1 bytes, or of 256: sooner or later of fewer than a header.
    if let Err(why) = vandal.stream.write_all(&garbage) {
        assert!(matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{why}");
    }
    served.until_reported("less than its header");
    assert!(other.is_answered());
}

#[test]
fn malformed_messages_are_answered_by_the_megabyte() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let mut peer = visit(&served);
    let mut reading = peer.stream.try_clone().expect("a second one");
    let reader = std::thread::Builder::new().spawn(move || {
        let mut all = Vec::new();
        reading.read_to_end(&mut all).map(|_| all)
    });
    let mut random = Random::new(2);
    for xid in 0..20_000_u32 {
        let length = HEADER + random.index(200);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next().to_le_bytes()[0]).collect();
        bytes[0] = VERSION;
        bytes[1] %= 31;
        bytes[2..4].copy_from_slice(&u16::try_from(length).expect("it is short").to_be_bytes());
        bytes[4..8].copy_from_slice(&xid.to_be_bytes());
        peer.stream.write_all(&bytes).expect("the connection lives on");
    }
    peer.say(77, Body::BarrierRequest);
    peer.stream.shutdown(std::net::Shutdown::Write).expect("it is connected");
    let heard = reader.expect("a thread").join().expect("no panic").expect("it ends well");
    let mut barrier = vec![VERSION, 21];
    barrier.extend([0, 8, 0, 0, 0, 77]);
    assert!(heard.ends_with(&barrier));
}

#[test]
fn who_does_not_read_takes_bounded_memory_and_is_let_go() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let (mut deaf, mut other) = (visit(&served), visit(&served));
    assert!(deaf.is_answered() && other.is_answered());
    // Nobody waits for it: 20 MB of packets, of which most are dropped.
    for round in 0..20_000 {
        served.sessions.tell(&packet());
        if round % 500 == 0 {
            // Reads what has come.
            assert!(other.is_answered());
        }
    }
    let dropped = served.status().dropped_packets;
    assert!(dropped > 10_000, "{dropped}");
    // Replies wait too, and then nothing is asked any more.
    while !served.reports.try_iter().any(|report| report.contains("wait to be read")) {
        served.sessions.tell(&flow_removed());
        assert!(other.is_answered());
    }
    assert!(served.asked.try_iter().any(|asked| matches!(asked, Asked::Gone(_))));
}

/// What came at once is answered, though each answer is more than may wait.
#[test]
fn long_answers_follow_each_other() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let mut peer = visit(&served);
    peer.stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("it can be told");
    let mut asked = Vec::new();
    for xid in 0..8 {
        Message { xid, body: many_flows() }.encode(&mut asked).expect("it fits");
    }
    peer.stream.write_all(&asked).expect("it is sent");
    let mut answered = Vec::new();
    while answered.len() < 8 {
        let (xid, Body::MultipartReply(part)) = peer.hear().expect("it goes on") else {
            panic!("it is asked for flows")
        };
        if !part.has_more {
            answered.push(xid);
        }
    }
    assert_eq!(answered, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// A tool that asks for all flows and reads none was nobody else's affair, but for the memory: each answer waited as a whole.
#[test]
fn who_asks_for_much_and_reads_nothing_makes_room() {
    const TOOLS: usize = 40;
    let served = Served::begin();
    let visit = || Peer::greet(UnixStream::connect(served.path("br0.mgmt")).expect("it listens"));
    let mut tools: Vec<_> = (0..TOOLS).map(|_| visit()).collect();
    tools.iter_mut().for_each(|tool| tool.say(5, many_flows()));
    // Not all at once, whoever comes first.
    served.until_reported("wait to be read, and others for room");
    let made = served.asked.try_iter().filter(|asked| matches!(asked, Asked::Request(..))).count();
    assert!((10..TOOLS * 3 / 4).contains(&made), "{made} answers of 2 MB");
    let mut other = visit();
    other.say(6, many_flows());
    loop {
        let (6, Body::MultipartReply(part)) = other.hear().expect("it goes on") else { panic!("flows") };
        if !part.has_more {
            break;
        }
    }
    // Who has gone keeps no place.
    drop(tools);
    let mut last = visit();
    last.say(7, many_flows());
    assert!(last.is_answered());
}

#[test]
fn it_can_be_listened_in() {
    let served = Served::begin();
    served.control(&[ANYWHERE], &patient());
    let path = served.path("br0.snoop");
    let target = Target::PassiveUnix(path.clone());
    served.sessions.set_snoops(vec![(target, patient())]).expect("a socket");
    let mut snoop = Peer::greet(UnixStream::connect(&path).expect("it listens"));
    // That this is answered means that it is known.
    assert!(snoop.is_answered());
    let mut peer = visit(&served);
    assert!(peer.is_answered());
    // The hello of the switch may be said before that of the controller.
    let said: Vec<_> = (0..4).filter_map(|_| snoop.hear()).collect();
    let hello = (0..2).filter(|at| matches!(said[*at].1, Body::Hello(_))).count();
    assert_eq!((hello, &said[2..]), (2, &[(77, Body::BarrierRequest), (77, Body::BarrierReply)][..]));
    snoop.say(5, flow_mod(1));
    let Some((5, Body::Error(error))) = snoop.hear() else { panic!("it may not") };
    assert_eq!(error.code, BadRequest::IsSlave.into());
}
