//! Sessions in OpenFlow 1.0.

use super::*;
use fulmar_openflow::Habits;
use fulmar_openflow::experimenter::{FlowFormat, FlowModTable, NiciraRole};
use fulmar_openflow::flow::FlowFilter;
use fulmar_openflow::{ALL_TABLES, GroupNumber};

/// One of a world in which both versions are spoken, which speaks OpenFlow 1.0 alone and begins so.
struct Old {
    world: World,
    peer: Peer,
    habits: Habits,
}

impl Old {
    fn begin() -> Self {
        let mut world = World { versions: Version::ALL.to_vec(), ..World::default() };
        let mut peer = world.stranger(Kind::Controller);
        world.push(&mut peer, &[1, 0, 0, 8, 0, 0, 0, 1]).expect("it goes on");
        let hello = [4, 0, 0, 16, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x12];
        let mut heard = Vec::new();
        peer.session.take(&mut heard);
        assert_eq!((heard, peer.session.version()), (hello.to_vec(), Some(Version::V10)));
        Self { world, peer, habits: Habits::default() }
    }

    fn ask(&mut self, xid: u32, body: Body) -> Vec<(u32, Body)> {
        let (dialect, mut bytes) = (Dialect::V10(self.habits), Vec::new());
        dialect.encode(&Message { xid, body }, &mut bytes).expect("it can be said");
        self.push(&bytes)
    }

    fn push(&mut self, bytes: &[u8]) -> Vec<(u32, Body)> {
        self.world.push(&mut self.peer, bytes).expect("it goes on");
        self.hear().into_iter().map(|(_, message)| (message.xid, message.body)).collect()
    }

    /// All that is to be sent, with the types of the messages.
    fn hear(&mut self) -> Vec<(u8, Message)> {
        let mut heard = Vec::new();
        loop {
            let mut bytes = Vec::new();
            self.peer.session.take(&mut bytes);
            if bytes.is_empty() {
                return heard;
            }
            self.peer.decoder.push(&bytes);
            while let Some(frame) = self.peer.decoder.next_frame().expect("messages") {
                let message = frame.decode_in(Dialect::V10(self.habits)).expect("they are right");
                heard.push((frame.bytes()[1], message));
            }
        }
    }

    fn tell(&mut self, event: &Event) -> Option<(u8, Body)> {
        self.peer.session.tell(event, self.peer.standing.role());
        self.hear().into_iter().next().map(|(kind, message)| (kind, message.body))
    }
}

#[test]
fn the_highest_version_of_both_is_spoken() {
    let mut world = World { versions: Version::ALL.to_vec(), ..World::default() };
    for (theirs, agreed) in [
        (Hello::of(&[Version::V10]), Version::V10),
        (Hello::of(&Version::ALL), Version::V13),
        (Hello { version: 4, bitmap: None }, Version::V13),
        (Hello { version: 1, bitmap: None }, Version::V10),
    ] {
        let mut peer = world.stranger(Kind::Controller);
        world.push(&mut peer, &bytes(1, Body::Hello(theirs.clone()))).expect("it goes on");
        assert_eq!(peer.session.version(), Some(agreed), "{theirs:?}");
    }
    // Of one that speaks up to 1.1, and does not say what else.
    let mut peer = world.stranger(Kind::Controller);
    let refused = world.push(&mut peer, &bytes(1, Body::Hello(Hello { version: 2, bitmap: None })));
    assert_eq!(refused, Err(Closed::Incompatible(2, "OpenFlow 1.0 or OpenFlow 1.3".into())));
}

#[test]
fn requests_are_answered_and_what_is_wrong_is_told() {
    let mut old = Old::begin();
    assert_eq!(old.ask(2, Body::EchoRequest(vec![1])), [(2, Body::EchoReply(vec![1]))]);
    assert_eq!(old.ask(3, flow_mod(1)), []);
    assert_eq!(codes(&old.ask(4, flow_mod(13))), [(4, FlowModFailed::TableFull.into())]);
    assert_eq!(old.ask(5, Body::BarrierRequest), [(5, Body::BarrierReply)]);
    assert_eq!(*old.world.switch.requests.lock(), [3]);
    let heard = old.push(&[1, 99, 0, 8, 0, 0, 0, 6]);
    assert_eq!(codes(&heard), [(6, BadRequest::BadType.into())]);
    let heard = old.push(&[4, 20, 0, 8, 0, 0, 0, 7]);
    assert_eq!(codes(&heard), [(7, BadRequest::BadVersion.into())]);
    // What only a switch says.
    assert_eq!(codes(&old.ask(8, Body::BarrierReply)), [(8, BadRequest::BadType.into())]);
    assert_eq!(old.ask(9, Body::BarrierRequest), [(9, Body::BarrierReply)]);
}

#[test]
fn a_question_is_answered_in_its_form_in_parts() {
    let mut old = Old::begin();
    for tells_all in [false, true] {
        old.habits.tells_all = tells_all;
        let filter = FlowFilter {
            table: ALL_TABLES,
            out_port: PortNumber::ANY,
            out_group: GroupNumber::ANY,
            cookie: 0,
            cookie_mask: 0,
            asked: Match::ANY,
        };
        let request = RequestBody::Flows(filter);
        let heard = old.ask(3, Body::MultipartRequest(MultipartRequest { has_more: false, body: request }));
        assert!(heard.len() > 1);
        let flows = heard.iter().map(|(_, body)| match body {
            Body::MultipartReply(MultipartReply { body: ReplyBody::Flows(part), .. }) => part.len(),
            other => panic!("they are flows, not {other:?}"),
        });
        assert_eq!(flows.sum::<usize>(), 2000);
    }
}

#[test]
fn tables_and_forms_are_chosen() {
    let mut old = Old::begin();
    assert_eq!(old.tell(&flow_removed()).map(|(kind, _)| kind), Some(11), "OpenFlow's form");
    let nicira = Body::Experimenter(Experimenter::SetFlowFormat(FlowFormat::Nicira));
    assert_eq!(old.ask(2, nicira), []);
    assert_eq!(old.tell(&flow_removed()).map(|(kind, _)| kind), Some(4), "Nicira's");
    // A table in the command is an error before, and none after.
    let mut flow = FlowMod::add(Match::ANY, Instructions::default());
    flow.table = 5;
    old.habits.names_tables = true;
    assert_eq!(codes(&old.ask(3, Body::FlowMod(flow.clone()))), [(3, FlowModFailed::BadCommand.into())]);
    old.ask(4, Body::Experimenter(Experimenter::FlowModTable(FlowModTable { set: 1 })));
    assert_eq!(old.ask(5, Body::FlowMod(flow)), []);
    assert_eq!(*old.world.switch.requests.lock(), [5]);
}

#[test]
fn packets_come_in_each_form_and_without_a_flow() {
    let mut old = Old::begin();
    let told = packet(PacketInReason::Action);
    let Some((10, Body::PacketIn(packet_in))) = old.tell(&told) else { panic!("OpenFlow's form") };
    assert_eq!((packet_in.data.len(), packet_in.total_length), (1000, 1000));
    // A flow of priority 0 is one like others.
    let Some((_, Body::PacketIn(packet_in))) = old.tell(&packet(PacketInReason::NoMatch)) else {
        panic!("told")
    };
    assert_eq!(packet_in.reason, PacketInReason::Action);
    // What no flow was for, and what was sent by a flow for all else.
    let Event::PacketIn { controller, mut packet } = packet(PacketInReason::NoMatch) else {
        panic!("it is one")
    };
    packet.cookie = None;
    let without = Event::PacketIn { controller, packet };
    let Some((_, Body::PacketIn(packet_in))) = old.tell(&without) else { panic!("it is told") };
    assert_eq!(packet_in.reason, PacketInReason::NoMatch);
    old.world.versions = vec![Version::V13];
    let mut new = old.world.peer(Kind::Controller);
    assert!(old.world.tell(&mut new, &without).is_empty());
    for format in [PacketInFormat::Nicira, PacketInFormat::Nicira2] {
        old.ask(2, Body::Experimenter(Experimenter::SetPacketInFormat(format)));
        assert_eq!(old.tell(&told).map(|(kind, _)| kind), Some(4));
    }
}

#[test]
fn a_role_needs_no_election() {
    let mut old = Old::begin();
    let (asks, given) = (Experimenter::RoleRequest, Experimenter::RoleReply);
    for role in [NiciraRole::Slave, NiciraRole::Master, NiciraRole::Slave] {
        let heard = old.ask(2, Body::Experimenter(asks(role)));
        assert_eq!(heard, [(2, Body::Experimenter(given(role)))]);
    }
    // OpenFlow 1.0 has one number for all that is not permitted.
    assert_eq!(codes(&old.ask(3, flow_mod(1))), [(3, BadRequest::NotPermitted.into())]);
}
