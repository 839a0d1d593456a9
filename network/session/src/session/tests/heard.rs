//! Who may say what, as a table: every type of message, by everybody who can say it.

use super::*;
use std::path::Path;

/// A message of OpenFlow 1.3 of this type with this body, as short as a good one is.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).expect("it is short").to_be_bytes();
    [&[4, kind][..], &length, &[0, 0, 0, 7], body].concat()
}

/// Every type that there is (section 7.1), and one more.
fn all() -> Vec<(&'static str, Vec<u8>)> {
    const NOTHING: &[u8] = &[];
    // An empty match, with its padding (section 7.2.3.1).
    const ANY: [u8; 8] = [0, 1, 0, 4, 0, 0, 0, 0];
    let packet_out = [&[0xff; 4][..], &[0xff, 0xff, 0xff, 0xfd], &[0; 8]].concat();
    let flow_mod = [&[0; 24][..], &[0xff; 12], &[0; 4], &ANY].concat();
    let experimenter = |vendor: u32, kind: u32, body: &[u8]| {
        frame(4, &[&vendor.to_be_bytes()[..], &kind.to_be_bytes(), body].concat())
    };
    let (nicira, onf) = (0x2320, 0x4f4e_4600);
    vec![
        ("Hello", frame(0, NOTHING)),
        ("Error", frame(1, &[0; 4])),
        ("EchoRequest", frame(2, NOTHING)),
        ("EchoReply", frame(3, NOTHING)),
        ("Experimenter, role", experimenter(nicira, 10, &[0; 4])),
        ("Experimenter, packet-in format", experimenter(nicira, 16, &[0; 4])),
        ("Experimenter, controller", experimenter(nicira, 20, &[0; 8])),
        ("Experimenter, bundle", experimenter(onf, 2300, &[0, 0, 0, 1, 0, 0, 0, 0])),
        ("Experimenter, unknown", experimenter(1, 1, NOTHING)),
        ("FeaturesRequest", frame(5, NOTHING)),
        ("FeaturesReply", frame(6, &[0; 24])),
        ("GetConfigRequest", frame(7, NOTHING)),
        ("GetConfigReply", frame(8, &[0; 4])),
        ("SetConfig", frame(9, &[0, 0, 0, 128])),
        ("PacketIn", frame(10, &[&[0; 16][..], &ANY, &[0; 2]].concat())),
        ("FlowRemoved", frame(11, &[&[0; 40][..], &ANY].concat())),
        ("PortStatus", frame(12, &[&[0; 11][..], &[1], &[0; 60]].concat())),
        ("PacketOut", frame(13, &packet_out)),
        ("FlowMod", frame(14, &flow_mod)),
        ("GroupMod", frame(15, &[0; 8])),
        ("PortMod", frame(16, &[&[0; 3][..], &[1], &[0; 28]].concat())),
        ("TableMod", frame(17, &[0; 8])),
        ("MultipartRequest", frame(18, &[0, 3, 0, 0, 0, 0, 0, 0])),
        ("MultipartReply", frame(19, &[0, 3, 0, 0, 0, 0, 0, 0])),
        ("BarrierRequest", frame(20, NOTHING)),
        ("BarrierReply", frame(21, NOTHING)),
        ("QueueGetConfigRequest", frame(22, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])),
        ("QueueGetConfigReply", frame(23, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])),
        ("RoleRequest", frame(24, &[0; 16])),
        ("RoleReply", frame(25, &[0; 16])),
        ("GetAsyncRequest", frame(26, NOTHING)),
        ("GetAsyncReply", frame(27, &[0; 24])),
        ("SetAsync", frame(28, &[0; 24])),
        ("MeterMod", frame(29, &[0, 2, 0, 0, 0, 0, 0, 1])),
        ("type 30", frame(30, NOTHING)),
    ]
}

/// Somebody who says something, and to whom.
struct Speaker {
    name: &'static str,
    world: World,
    peer: Peer,
}

fn speakers() -> [Speaker; 5] {
    let of = |name, kind: Kind, role: Option<Role>| {
        let mut world = World::default();
        let mut peer = world.peer(kind);
        role.iter().for_each(|role| drop(world.role(&mut peer, *role, 1)));
        Speaker { name, world, peer }
    };
    let mut world = World::default();
    let peer = world.stranger(Kind::Controller);
    [
        Speaker { name: "stranger", world, peer },
        of("equal", Kind::Controller, None),
        of("slave", Kind::Controller, Some(Role::Slave)),
        of("tool", Kind::Service, None),
        of("snoop", Kind::Snoop, None),
    ]
}

/// What comes of it: "closed"; "switch" if the switch is asked; what is answered; or "done".
fn told(speaker: &mut Speaker, frame: &[u8]) -> String {
    let Speaker { world, peer, .. } = speaker;
    peer.hear();
    if world.push(peer, frame).is_err() {
        return "closed".into();
    }
    let is_asked = !world.switch.requests.lock().is_empty();
    match peer.hear().into_iter().next() {
        Some((_, Body::Error(error))) => format!("{:?}", error.code),
        _ if is_asked => "switch".into(),
        Some((_, body)) => format!("{body:?}").split(['(', ' ']).next().unwrap_or_default().into(),
        None => "done".into(),
    }
}

#[test]
fn who_may_say_what_is_written_down() {
    let width = all().iter().flat_map(|(_, frame)| speakers().map(|mut by| told(&mut by, frame).len())).max();
    let width = 2 + width.expect("messages");
    let line = |name: &str, columns: [String; 5]| {
        let columns: String = columns.iter().map(|column| format!("{column:width$}")).collect();
        format!("{}\n", format!("{name:32}{columns}").trim_end())
    };
    let mut table = line("message", speakers().map(|by| by.name.into()));
    for (name, frame) in all() {
        table += &line(name, speakers().map(|mut by| told(&mut by, &frame)));
        // Who listens in, and who has not said hello, changes nothing.
        for mut by in speakers().into_iter().filter(|by| ["stranger", "snoop"].contains(&by.name)) {
            let asked = told(&mut by, &frame) == "switch";
            assert!(!asked || !is_write_by_type(frame[1]), "{name} of a {}", by.name);
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/session/heard.txt");
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &table).expect("written");
    }
    assert_eq!(table, std::fs::read_to_string(&golden).expect("readable"));
}

/// Packets, flows, groups, ports, tables and meters.
const fn is_write_by_type(kind: u8) -> bool {
    matches!(kind, 13..=17 | 29)
}
