//! What a switch tells.

use super::*;

pub(super) fn packet(reason: PacketInReason) -> Event {
    let mut packet = PacketIn2::new(vec![7; 1000], reason);
    packet.user_data = vec![1];
    // A packet that no flow was for has none.
    packet.cookie = (reason == PacketInReason::NoMatch).then_some(5);
    Event::PacketIn { controller: 0, packet: Box::new(packet) }
}

pub(super) fn port_status() -> Event {
    let none = PortFeatures::NONE;
    let port = Port {
        number: PortNumber(1),
        address: [2; 6],
        name: "p1".into(),
        config: PortConfig::NONE,
        state: PortState::NONE,
        current: none,
        advertised: none,
        supported: none,
        peer: none,
        current_speed: 0,
        max_speed: 0,
    };
    Event::PortStatus(Box::new(PortStatus { reason: PortStatusReason::Modify, port }))
}

pub(super) fn flow_removed() -> Event {
    Event::FlowRemoved(Box::new(FlowRemoved {
        cookie: 1,
        priority: 1,
        reason: FlowRemovedReason::Delete,
        table: 0,
        seconds: 0,
        nanoseconds: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        packets: 0,
        bytes: 0,
        asked: Match::ANY,
    }))
}
