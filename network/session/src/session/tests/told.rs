//! What the other side is told without asking.

use super::*;

#[test]
fn a_controller_chooses_what_it_is_told() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    assert!(world.tell(&mut peer, &packet(PacketInReason::InvalidTtl)).is_empty());
    let wanted = Asynchronous { packet_in: [1 << 2, 0], port_status: [0, 1 << 2], flow_removed: [1 << 2, 0] };
    for set in [
        Body::SetAsynchronous(wanted.clone()),
        Body::Experimenter(Experimenter::SetAsynchronous(wanted.clone())),
    ] {
        world.ask(&mut peer, 3, set);
        let heard = world.ask(&mut peer, 4, Body::GetAsynchronousRequest);
        assert_eq!(heard, [(4, Body::GetAsynchronousReply(wanted.clone()))]);
    }
    assert_eq!(world.tell(&mut peer, &packet(PacketInReason::InvalidTtl)).len(), 1);
    assert!(world.tell(&mut peer, &packet(PacketInReason::Action)).is_empty());
    assert!(world.tell(&mut peer, &port_status()).is_empty());
    world.role(&mut peer, Role::Slave, 1);
    assert_eq!(world.tell(&mut peer, &port_status()).len(), 1);
    assert!(world.tell(&mut peer, &packet(PacketInReason::InvalidTtl)).is_empty());
}

#[test]
fn packets_come_whole_in_the_form_that_a_controller_has_chosen() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    // Only what is buffered is cut.
    let config = SwitchConfig { fragments: Fragments::Normal, miss_length: 100 };
    world.ask(&mut peer, 2, Body::SetConfig(config));
    let told = world.tell(&mut peer, &packet(PacketInReason::Group));
    let [Body::PacketIn(packet_in)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(packet_in.reason, PacketInReason::Action, "OpenFlow 1.3 knows no other");
    assert_eq!((packet_in.buffer, packet_in.cookie), (NO_BUFFER, u64::MAX));
    assert_eq!((packet_in.data.len(), packet_in.total_length), (1000, 1000));

    let form = |format| Body::Experimenter(Experimenter::SetPacketInFormat(format));
    world.ask(&mut peer, 3, form(PacketInFormat::Nicira2));
    let told = world.tell(&mut peer, &packet(PacketInReason::NoMatch));
    let [Body::Experimenter(Experimenter::PacketIn2(packet_in))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((packet_in.data.len(), packet_in.total_length, packet_in.user_data.len()), (1000, None, 1));
    world.ask(&mut peer, 4, form(PacketInFormat::Nicira));
    let told = world.tell(&mut peer, &packet(PacketInReason::NoMatch));
    assert!(matches!(&told[..], [Body::Experimenter(Experimenter::PacketIn(_))]), "{told:?}");
}

#[test]
fn packets_go_to_the_controller_of_their_number() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    let Event::PacketIn { packet: inner, .. } = packet(PacketInReason::Action) else { return };
    let for_seven = Event::PacketIn { controller: 7, packet: inner };
    assert!(world.tell(&mut peer, &for_seven).is_empty());
    let number = ControllerNumber { controller: 7 };
    world.ask(&mut peer, 3, Body::Experimenter(Experimenter::SetController(number)));
    assert_eq!(world.tell(&mut peer, &for_seven).len(), 1);
    assert!(world.tell(&mut peer, &packet(PacketInReason::Action)).is_empty());
    // What is for a session alone.
    let session = peer.id;
    let private = |session| Event::Private { session, answers: None, body: Box::new(Body::BarrierReply) };
    assert_eq!(world.tell(&mut peer, &private(session)), [Body::BarrierReply]);
    assert!(world.tell(&mut peer, &private(SessionId(99))).is_empty());
}

#[test]
fn a_tool_is_told_nothing_before_it_says_how_much() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Service);
    for event in [port_status(), flow_removed(), packet(PacketInReason::Action)] {
        assert!(world.tell(&mut peer, &event).is_empty());
    }
    let config = SwitchConfig { fragments: Fragments::Normal, miss_length: 100 };
    world.ask(&mut peer, 3, Body::SetConfig(config));
    for event in [port_status(), flow_removed(), packet(PacketInReason::Action)] {
        assert_eq!(world.tell(&mut peer, &event).len(), 1);
    }
}

#[test]
fn a_packet_that_is_longer_than_a_message_is_cut() {
    let mut world = World::default();
    let mut peer = world.peer(Kind::Controller);
    let inner = Box::new(PacketIn2::new(vec![7; 65_535], PacketInReason::Action));
    let event = Event::PacketIn { controller: 0, packet: inner };
    for format in PacketInFormat::ALL {
        world.ask(&mut peer, 3, Body::Experimenter(Experimenter::SetPacketInFormat(*format)));
        assert_eq!(world.tell(&mut peer, &event).len(), 1, "{format:?}");
    }
}
