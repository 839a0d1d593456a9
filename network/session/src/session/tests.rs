//! Each rule of a session, without sockets.

mod bundles;
mod events;
mod heard;
mod told;
mod v10;

use super::*;
use crate::election::{Election, Standing};
use crate::outgoing::NOTICES;
use crate::switch::{Asker, Switch};
use crate::task::carry_out;
use events::{flow_removed, packet, port_status};
use fulmar_openflow::bundle::BundleFlags;
use fulmar_openflow::error::{FlowModFailed, RoleRequestFailed, SwitchConfigFailed};
use fulmar_openflow::experimenter::{ControllerNumber, PacketInFormat};
use fulmar_openflow::flow::{FlowMod, FlowRemoved, FlowRemovedReason, FlowStats};
use fulmar_openflow::multipart::{MultipartReply, ReplyBody, RequestBody};
use fulmar_openflow::packet_in::{PacketIn2, PacketInReason};
use fulmar_openflow::ports::{Port, PortConfig, PortFeatures, PortState, PortStatus, PortStatusReason};
use fulmar_openflow::role::{Asynchronous, RoleMessage};
use fulmar_openflow::switch::{Fragments, SwitchConfig};
use fulmar_openflow::{Instructions, NO_BUFFER, PortNumber};
use fulmar_packet::Match;
use parking_lot::Mutex;
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);

/// Refuses flows of priority 13, has 2,000 flows, and counts what it is asked.
#[derive(Default)]
struct Toy {
    requests: Mutex<Vec<u32>>,
    committed: Mutex<Vec<u32>>,
}

const fn is_wrong(body: &Body) -> bool {
    matches!(body, Body::FlowMod(flow) if flow.priority == 13)
}

impl Switch for Toy {
    fn request(&self, asker: &Asker, body: Body) -> Result<Vec<Body>, ErrorCode> {
        if is_wrong(&body) {
            return Err(FlowModFailed::TableFull.into());
        }
        self.requests.lock().push(asker.xid);
        let Body::MultipartRequest(MultipartRequest { has_more: false, body: request }) = body else {
            return Ok(Vec::new());
        };
        let answer = match request {
            RequestBody::TableFeatures(list) => ReplyBody::TableFeatures(list),
            _ => ReplyBody::Flows(vec![flow_stats(); 2000]),
        };
        Ok(vec![Body::MultipartReply(MultipartReply { has_more: false, body: answer })])
    }

    fn commit(&self, _: &Asker, messages: &[Message]) -> Result<(), (usize, ErrorCode)> {
        if let Some(at) = messages.iter().position(|message| is_wrong(&message.body)) {
            return Err((at, FlowModFailed::TableFull.into()));
        }
        self.committed.lock().extend(messages.iter().map(|message| message.xid));
        Ok(())
    }

    fn gone(&self, _: SessionId) {}
}

/// A session, and the other side of it.
struct Peer {
    session: Session,
    id: SessionId,
    standing: Arc<Standing>,
    decoder: Decoder,
}

struct World {
    switch: Toy,
    election: Mutex<Election>,
    sessions: u64,
    versions: Vec<Version>,
    pools: Pools,
}

impl Default for World {
    /// One in which OpenFlow 1.3 is spoken alone.
    fn default() -> Self {
        let versions = vec![Version::V13];
        let (switch, election, pools) = (Toy::default(), Mutex::default(), Pools::default());
        Self { switch, election, sessions: 0, versions, pools }
    }
}

impl World {
    fn stranger(&mut self, kind: Kind) -> Peer {
        self.sessions += 1;
        let id = SessionId(self.sessions);
        let (versions, pools) = (self.versions.clone(), &self.pools);
        let session = Session::new(id, kind, Some(SECOND), versions, pools, Time::ZERO);
        Peer { session, id, standing: Arc::default(), decoder: Decoder::default() }
    }

    /// One that has said hello.
    fn peer(&mut self, kind: Kind) -> Peer {
        let mut peer = self.stranger(kind);
        let hello = self.ask(&mut peer, 1, Body::Hello(Hello::new()));
        assert_eq!(hello, [(0, Body::Hello(Hello::new()))]);
        assert_eq!(peer.session.version(), Some(Version::V13));
        peer
    }

    fn push(&self, peer: &mut Peer, bytes: &[u8]) -> Result<(), Closed> {
        peer.session.receive(Time::ZERO, bytes);
        let Peer { session, id, standing, .. } = peer;
        while let Some((origin, answer)) =
            carry_out(*id, standing, &self.switch, &self.election, |role| session.next_task(role, true))?
        {
            session.answer(&origin, answer);
        }
        Ok(())
    }

    fn ask(&self, peer: &mut Peer, xid: u32, body: Body) -> Vec<(u32, Body)> {
        self.push(peer, &bytes(xid, body)).expect("it goes on");
        peer.hear()
    }

    fn tell(&self, peer: &mut Peer, event: &Event) -> Vec<Body> {
        peer.session.tell(event, peer.standing.role());
        peer.hear().into_iter().map(|(_, body)| body).collect()
    }

    fn role(&self, peer: &mut Peer, role: Role, generation: u64) -> Body {
        let answers = self.ask(peer, 5, Body::RoleRequest(RoleMessage { role, generation }));
        answers.into_iter().next().expect("an answer").1
    }
}

impl Peer {
    /// All that is to be sent.
    fn hear(&mut self) -> Vec<(u32, Body)> {
        let mut heard = Vec::new();
        loop {
            let mut bytes = Vec::new();
            self.session.take(&mut bytes);
            if bytes.is_empty() {
                return heard;
            }
            self.decoder.push(&bytes);
            while let Some(frame) = self.decoder.next_frame().expect("messages") {
                let message = frame.decode().expect("they are right");
                heard.push((message.xid, message.body));
            }
        }
    }
}

fn bytes(xid: u32, body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { xid, body }.encode(&mut bytes).expect("it fits");
    bytes
}

fn flow_mod(priority: u16) -> Body {
    let mut flow = FlowMod::add(Match::ANY, Instructions::default());
    flow.priority = priority;
    Body::FlowMod(flow)
}

fn flow_stats() -> FlowStats {
    FlowStats {
        table: 0,
        seconds: 0,
        nanoseconds: 0,
        priority: 1,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: fulmar_openflow::flow::FlowFlags::NONE,
        cookie: 0,
        packets: 0,
        bytes: 0,
        asked: Match::ANY,
        instructions: Instructions::default(),
    }
}

fn codes(heard: &[(u32, Body)]) -> Vec<(u32, ErrorCode)> {
    let code = |(xid, body): &(u32, Body)| match body {
        Body::Error(error) => (*xid, error.code),
        other => panic!("expected an error, got {other:?}"),
    };
    heard.iter().map(code).collect()
}

#[test]
fn a_session_begins_with_hellos() {
    let mut world = World::default();
    let mut old = world.stranger(Kind::Controller);
    let hello = Body::Hello(Hello { version: 1, bitmap: None });
    assert_eq!(world.push(&mut old, &bytes(9, hello)), Err(Closed::Incompatible(1, "OpenFlow 1.3".into())));
    assert_eq!(codes(&old.hear()[1..]), [(9, HelloFailed::Incompatible.into())]);

    let mut rude = world.stranger(Kind::Controller);
    assert_eq!(world.push(&mut rude, &bytes(1, Body::BarrierRequest)), Err(Closed::NoHello(20)));
    let mut refuses = world.stranger(Kind::Controller);
    let error = ErrorMessage { code: HelloFailed::Incompatible.into(), data: Vec::new() };
    let refused = Err(Closed::Refused(HelloFailed::Incompatible.into()));
    assert_eq!(world.push(&mut refuses, &bytes(1, Body::Error(error))), refused);
    let mut web = world.stranger(Kind::Controller);
    let asks = world.push(&mut web, &[b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0; 65536]].concat());
    assert_eq!(asks, Err(Closed::NoHello(b'E')));
    // A later version, of one that speaks this one too.
    let mut modern = world.stranger(Kind::Controller);
    let hello = Body::Hello(Hello { version: 6, bitmap: Some(vec![1 << 6 | 1 << 4]) });
    assert_eq!(world.ask(&mut modern, 1, hello).len(), 1);
}

#[test]
fn echoes_barriers_and_settings_are_answered_in_order() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    assert_eq!(world.ask(&mut peer, 2, Body::EchoRequest(vec![1, 2])), [(2, Body::EchoReply(vec![1, 2]))]);
    let requests = [
        bytes(3, flow_mod(1)),
        bytes(4, flow_mod(13)),
        bytes(5, Body::BarrierRequest),
        bytes(6, flow_mod(1)),
    ];
    // In pieces, as it may come.
    for piece in requests.concat().chunks(7) {
        world.push(&mut peer, piece).expect("it goes on");
    }
    let heard = peer.hear();
    assert_eq!(codes(&heard[..1]), [(4, FlowModFailed::TableFull.into())]);
    assert_eq!(heard[1..], [(5, Body::BarrierReply)]);
    assert_eq!(*world.switch.requests.lock(), [3, 6]);

    let config = |miss_length| SwitchConfig { fragments: Fragments::Normal, miss_length };
    assert_eq!(world.ask(&mut peer, 7, Body::GetConfigRequest), [(7, Body::GetConfigReply(config(128)))]);
    assert_eq!(world.ask(&mut peer, 8, Body::SetConfig(config(64))), []);
    assert_eq!(world.ask(&mut peer, 9, Body::GetConfigRequest), [(9, Body::GetConfigReply(config(64)))]);
    let drops = SwitchConfig { fragments: Fragments::Drop, miss_length: 1 };
    let refused = world.ask(&mut peer, 10, Body::SetConfig(drops));
    assert_eq!(codes(&refused), [(10, SwitchConfigFailed::BadFlags.into())]);
    assert_eq!(world.ask(&mut peer, 11, Body::GetConfigRequest), [(11, Body::GetConfigReply(config(64)))]);
}

#[test]
fn a_question_with_a_long_answer_waits_for_its_turn_and_what_follows_for_it() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    let ports = MultipartRequest { has_more: false, body: RequestBody::Ports };
    let said = [bytes(3, flow_mod(1)), bytes(4, Body::MultipartRequest(ports)), bytes(5, flow_mod(1))];
    peer.session.receive(Time::ZERO, &said.concat());
    let mut next = |has_turn| {
        let task = peer.session.next_task(Role::Equal, has_turn).expect("it goes on");
        (task.map(|task| task.origin.xid()), peer.session.wants_turn(), peer.session.listens())
    };
    assert_eq!(next(false), (Some(3), false, true));
    assert_eq!([next(false), next(false)], [(None, true, false); 2]);
    assert_eq!(next(true), (Some(4), false, true));
    assert_eq!(next(false), (Some(5), false, true));
    // What the other side says is not read while it waits: it is not taken for silent.
    peer.session.receive(Time::ZERO, &said[1]);
    assert_eq!(peer.session.next_task(Role::Equal, false), Ok(None));
    for second in 1..10 {
        let now = Time::ZERO + second * SECOND;
        assert_eq!(peer.session.expire(now), Ok(()));
    }
}

#[test]
fn what_is_malformed_is_an_error_and_the_session_goes_on() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    world.push(&mut peer, &[4, 99, 0, 8, 0, 0, 0, 3]).expect("it goes on");
    world.push(&mut peer, &[1, 20, 0, 8, 0, 0, 0, 4]).expect("it goes on");
    world.push(&mut peer, &[4, 20, 0, 9, 0, 0, 0, 5, 0]).expect("it goes on");
    let expected = [BadRequest::BadType, BadRequest::BadVersion, BadRequest::BadLength].map(ErrorCode::from);
    let heard = peer.hear();
    assert_eq!(codes(&heard), [(3, expected[0]), (4, expected[1]), (5, expected[2])]);
    let Body::Error(error) = &heard[2].1 else { panic!("it is one") };
    assert_eq!(error.data, [4, 20, 0, 9, 0, 0, 0, 5, 0]);
    // What only a switch says.
    let heard = world.ask(&mut peer, 6, Body::BarrierReply);
    assert_eq!(codes(&heard), [(6, BadRequest::BadType.into())]);
    assert_eq!(world.ask(&mut peer, 7, Body::BarrierRequest), [(7, Body::BarrierReply)]);
    // Nobody knows where the next one begins.
    let broken = world.push(&mut peer, &[4, 0, 0, 7, 0, 0, 0, 0]);
    assert!(matches!(broken, Err(Closed::Broken(_))), "{broken:?}");
}

#[test]
fn a_long_answer_comes_in_parts_and_a_long_question_is_joined() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    let request = |request| Body::MultipartRequest(MultipartRequest { has_more: false, body: request });
    let heard = world.ask(&mut peer, 3, request(RequestBody::Tables));
    assert!(heard.len() > 1);
    let mut flows = 0;
    for (at, (xid, body)) in heard.iter().enumerate() {
        let Body::MultipartReply(MultipartReply { has_more, body: ReplyBody::Flows(part) }) = body else {
            panic!("they are flows")
        };
        assert_eq!((*xid, *has_more), (3, at + 1 < heard.len()));
        flows += part.len();
    }
    assert_eq!(flows, 2000);

    let part = |has_more| {
        let request = RequestBody::TableFeatures(Vec::new());
        Body::MultipartRequest(MultipartRequest { has_more, body: request })
    };
    for _ in 0..3 {
        assert_eq!(world.ask(&mut peer, 4, part(true)), []);
    }
    assert_eq!(world.ask(&mut peer, 4, part(false)).len(), 1);
    let endless = (0..1000).flat_map(|_| world.ask(&mut peer, 5, part(true))).collect::<Vec<_>>();
    assert_eq!(codes(&endless[..1]), [(5, BadRequest::TooManyParts.into())]);
    world.ask(&mut peer, 6, part(true));
    let heard = world.ask(&mut peer, 6, request(RequestBody::Tables));
    assert_eq!(codes(&heard), [(6, BadRequest::BadMultipart.into())], "another body in the same request");
}

#[test]
fn a_slave_may_not_write_and_a_stale_master_stays_out() {
    let mut world = World::default();
    let (mut first, mut second) = (world.peer(Kind::Controller), world.peer(Kind::Controller));
    let given = |role, generation| Body::RoleReply(RoleMessage { role, generation });
    assert_eq!(world.role(&mut first, Role::Master, 7), given(Role::Master, 7));
    assert_eq!(world.role(&mut second, Role::Master, 8), given(Role::Master, 8));
    assert_eq!(world.role(&mut first, Role::NoChange, 0), given(Role::Slave, 8));
    let Body::Error(stale) = world.role(&mut first, Role::Master, 7) else { panic!("it is stale") };
    assert_eq!(stale.code, RoleRequestFailed::Stale.into());
    let control = BundleControl { bundle: 1, command: BundleCommand::Open, flags: BundleFlags::NONE };
    for write in [flow_mod(1), Body::Experimenter(Experimenter::BundleControl(control))] {
        let heard = world.ask(&mut first, 9, write);
        assert_eq!(codes(&heard), [(9, BadRequest::IsSlave.into())]);
    }
    assert!(world.switch.requests.lock().is_empty());
    assert_eq!(world.ask(&mut first, 10, Body::BarrierRequest), [(10, Body::BarrierReply)]);
    world.ask(&mut second, 11, flow_mod(1));
    assert_eq!(*world.switch.requests.lock(), [11]);
    // Slaves are told of ports alone.
    assert!(world.tell(&mut first, &flow_removed()).is_empty());
    assert!(world.tell(&mut first, &packet(PacketInReason::Action)).is_empty());
    assert_eq!(world.tell(&mut first, &port_status()).len(), 1);
    assert_eq!(world.tell(&mut second, &flow_removed()).len(), 1);
    world.role(&mut first, Role::Equal, 0);
    assert_eq!(world.tell(&mut first, &flow_removed()).len(), 1);
}

#[test]
fn silence_is_asked_about_and_ends_a_session() {
    let mut world = World::default();
    let at = |milliseconds| Time::ZERO + Duration::from_millis(milliseconds);
    let mut peer = world.peer(Kind::Controller);
    assert_eq!(peer.session.deadline(), Some(at(1000)));
    assert_eq!((peer.session.expire(at(999)), peer.hear()), (Ok(()), vec![]));
    assert_eq!(peer.session.expire(at(1000)), Ok(()));
    assert_eq!(peer.hear(), [(0, Body::EchoRequest(Vec::new()))]);
    peer.session.receive(at(1500), &bytes(0, Body::EchoReply(Vec::new())));
    assert_eq!((peer.session.expire(at(2499)), peer.hear()), (Ok(()), vec![]));
    assert_eq!((peer.session.expire(at(2500)), peer.hear().len()), (Ok(()), 1));
    assert_eq!((peer.session.expire(at(3499)), peer.hear()), (Ok(()), vec![]));
    assert_eq!(peer.session.expire(at(3500)), Err(Closed::Silent(SECOND)));

    let mut mute = world.stranger(Kind::Controller);
    assert_eq!(mute.session.expire(at(9_999)), Ok(()));
    assert_eq!(mute.session.expire(at(10_000)), Err(Closed::NoGreeting(GREETING)));

    let mut slow = world.stranger(Kind::Controller);
    let hello = bytes(0, Body::Hello(Hello::of(&[Version::V13])));
    slow.session.receive(at(9_000), &hello[..7]);
    assert_eq!(
        slow.session.expire(at(10_000)),
        Err(Closed::NoGreeting(GREETING)),
        "a part of a greeting is none"
    );
}

#[test]
fn who_does_not_read_is_asked_nothing_more_loses_packets_and_is_let_go() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    // 100,000 bytes each.
    let request = MultipartRequest { has_more: false, body: RequestBody::Tables };
    let many = bytes(3, Body::MultipartRequest(request)).repeat(100);
    world.push(&mut peer, &many).expect("it goes on");
    let asked = world.switch.requests.lock().len();
    assert!(asked < 20 && !peer.session.listens(), "{asked}");
    for _ in 0..10_000 {
        peer.session.tell(&packet(PacketInReason::Action), Role::Equal);
    }
    assert!(peer.session.dropped_packets() > 8_000);
    // When it reads, it goes on with what it asked.
    assert!(peer.hear().len() > asked);
    world.push(&mut peer, &[]).expect("it goes on");
    assert!(world.switch.requests.lock().len() > asked);

    let told = (0..).find(|_| {
        peer.session.tell(&flow_removed(), Role::Equal);
        peer.session.closed.is_some()
    });
    assert!(told > Some(10_000), "{told:?}");
    let Err(Closed::Deaf(waiting)) = world.push(&mut peer, &[]) else { panic!("it is told on") };
    assert!((NOTICES - 100..=NOTICES).contains(&waiting), "{waiting}");
}

/// A hundred of them had four megabytes each.
#[test]
fn many_who_do_not_read_have_so_much_room_together() {
    let mut world = World::default();
    let mut deaf: Vec<_> = (0..100).map(|_| world.peer(Kind::Controller)).collect();
    let mut reader = world.peer(Kind::Controller);
    for _ in 0..10_000 {
        for peer in deaf.iter_mut().chain([&mut reader]) {
            peer.session.tell(&flow_removed(), Role::Equal);
        }
        reader.hear();
    }
    let waiting = |peer: &Peer| match &peer.session.closed {
        Some(Closed::Deaf(waiting)) => *waiting,
        other => panic!("{other:?}"),
    };
    let sum: usize = deaf.iter().map(waiting).sum();
    assert!(sum > 40 << 20 && sum < 48 << 20, "{sum}");
    assert_eq!(reader.session.closed, None);
}
