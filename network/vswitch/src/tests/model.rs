//! A switch that remembers beside one that decides about each packet anew: random flows, groups, packets and time.

use super::{Bench, Sent};
use crate::cache::defect::Defect;
use crate::execute::{Execution, Packet};
use crate::translate::Translation;
use crate::{Frozen, Mirror, MirrorOutput, Settings, Traffic};
use fulmar_node::Random;
use fulmar_openflow::flow::{FlowCommand, FlowMod};
use fulmar_openflow::group::{Bucket, GroupCommand, GroupFilter, GroupKind, GroupMod};
use fulmar_openflow::multipart::{ReplyBody, RequestBody};
use fulmar_openflow::ports::{PortConfig, PortMod};
use fulmar_openflow::{Body, GroupNumber, Instruction, PortNumber, parse_actions, parse_match};
use fulmar_packet::{Field, FlowKey, Layers, Match, build, ethernet, ip};
use fulmar_port::{Frame, Offload};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

const PORTS: u32 = 5;

/// Decides about each packet by a walk through the tables, and counts it at once.
struct Plain(Bench);

impl Plain {
    fn send(&mut self, port: u32, frame: &[u8]) -> Sent {
        let (now, pipeline) = (self.0.now, self.0.switch.pipeline().clone());
        let tracker = self.0.switch.tracker().clone();
        let (mut sent, mut copies) = (Sent::default(), Vec::new());
        let mut buffer = vec![0; 64];
        buffer.extend_from_slice(frame);
        let mut key = Box::<FlowKey>::default();
        key.set(Field::IN_PORT, port.into());
        let mut packet =
            Packet { frame: Frame::new(&mut buffer, 64, Offload::NONE), key, layers: Layers::default() };
        packet.look_again();
        let mut left = crate::execute::MAX_RECIRCULATIONS;
        let mut walk = |packet: &mut Packet<'_>,
                        mut rest: Option<Arc<Frozen>>,
                        copies: &mut Vec<_>,
                        left: &mut usize| {
            loop {
                let (decision, _) = Translation::of(&pipeline, &packet.key, rest.as_deref(), now);
                let bytes = packet.frame.bytes().len() as u64;
                pipeline.credit(&decision.credits, Traffic { packets: 1, bytes }, now);
                let mut execution = Execution { out: &mut sent, now, tracker: &tracker, copies };
                let Some(frozen) = execution.run(&decision.steps, packet) else { return };
                if *left == 0 {
                    return;
                }
                *left -= 1;
                packet.thaw(&frozen);
                rest = Some(frozen);
            }
        };
        walk(&mut packet, None, &mut copies, &mut left);
        while let Some(mut copy) = copies.pop() {
            if left == 0 {
                break;
            }
            left -= 1;
            let frozen = copy.frozen.clone();
            let mut packet = copy.packet();
            packet.thaw(&frozen);
            walk(&mut packet, Some(frozen), &mut copies, &mut left);
        }
        sent
    }
}

fn number<T: TryFrom<u64, Error: std::fmt::Debug>>(value: u64) -> T {
    T::try_from(value).expect("it is small")
}

/// One of a few values, so that packets and flows often meet.
fn few(random: &mut Random, bound: u64) -> u64 {
    random.below(bound)
}

fn asked(random: &mut Random) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut maybe = |random: &mut Random, text: String, n: u64| {
        if random.one_in(n) {
            parts.push(text);
        }
    };
    let port = 1 + few(random, PORTS.into());
    maybe(random, format!("in_port={port}"), 4);
    let (source, destination) = (few(random, 4), few(random, 4));
    maybe(random, format!("dl_src=02:00:00:00:00:0{source}"), 6);
    maybe(random, format!("dl_dst=02:00:00:00:00:0{destination}"), 6);
    let vlan = few(random, 3);
    maybe(random, format!("dl_vlan={vlan}"), 8);
    let metadata = few(random, 3);
    maybe(random, format!("metadata={metadata}"), 8);
    let conjunction = few(random, 2);
    maybe(random, format!("conj_id={conjunction}"), 10);
    let register = few(random, 3);
    maybe(random, format!("reg1={register}"), 8);
    match few(random, 5) {
        0 => parts.push("arp".into()),
        1 | 2 => {
            let kind = ["ip", "tcp", "udp"][random.index(3)];
            parts.push(kind.into());
            if random.one_in(2) {
                let bits = [8, 16, 24, 30, 32][random.index(5)];
                parts.push(format!(
                    "nw_dst=10.{}.{}.{}/{bits}",
                    few(random, 2),
                    few(random, 2),
                    few(random, 4)
                ));
            }
            if random.one_in(3) {
                let bits = [8, 24, 32][random.index(3)];
                parts.push(format!("nw_src=10.{}.0.{}/{bits}", few(random, 2), few(random, 4)));
            }
            if kind != "ip" && random.one_in(2) {
                let mask = [0xffff, 0xfff0, 0xff00, 0x8000, 0xfffe][random.index(5)];
                parts.push(format!("tp_dst={}/{mask:#x}", few(random, 32) & mask));
            }
            if random.one_in(6) {
                parts.push("nw_frag=no".into());
            }
        }
        3 => parts.push(["ipv6", "tcp6"][random.index(2)].into()),
        _ => {}
    }
    parts.join(",")
}

fn actions(random: &mut Random, table: u8, asked: &str) -> String {
    let is_ip =
        ["ip", "tcp", "udp", "ipv6", "tcp6"].iter().any(|kind| asked.split(',').any(|part| part == *kind));
    let mut actions: Vec<String> = Vec::new();
    for _ in 0..1 + few(random, 3) {
        let port = 1 + few(random, PORTS.into());
        let action = match few(random, 20) {
            0..4 => format!("output:{port}"),
            4 => "NORMAL".into(),
            5 => "FLOOD".into(),
            6 => "IN_PORT".into(),
            7 => format!("group:{}", 1 + few(random, 3)),
            8 if random.one_in(100) => format!("resubmit(,{})", few(random, 4)),
            8 if table < 3 => format!("resubmit(,{})", table + 1),
            9 => format!("load:{}->NXM_NX_REG1[]", few(random, 3)),
            10 => format!("set_field:02:00:00:00:00:0{}->eth_dst", few(random, 4)),
            11 if is_ip => "dec_ttl".into(),
            11 => "ALL".into(),
            12 => format!("push_vlan:0x8100,set_field:{}->vlan_vid", 4096 + few(random, 3)),
            13 => "move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG1[0..15]".into(),
            14 => "learn(table=3,idle_timeout=5,hard_timeout=20,fin_idle_timeout=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])".into(),
            15 => "CONTROLLER:40".into(),
            16 if random.one_in(2) &&  asked.split(',').any(|part| part == "tcp") => "fin_timeout(idle_timeout=1,hard_timeout=4)".into(),
            16 => format!("clone(set_field:02:00:00:00:00:0{}->eth_src,output:{port})", few(random, 4)),
            17 if asked.contains("dl_vlan") => "pop_vlan".into(),
            18 if is_ip && table < 3 => {
                let how = ["", "commit,", "commit,nat(src=10.9.0.1-10.9.0.2),", "nat,"][random.index(4)];
                format!("ct({how}table={},zone={})", table + 1, few(random, 2))
            }
            19 if is_ip => "push_mpls:0x8847,output:1,pop_mpls:0x0800,resubmit(,2)".into(),
            _ => format!("output:{port}"),
        };
        actions.push(action);
    }
    let mut last = String::new();
    if random.one_in(6) {
        last.push_str(&format!(",write_actions(output:{})", 1 + few(random, PORTS.into())));
    }
    if random.one_in(6) {
        last.push_str(&format!(",write_metadata:{}", few(random, 3)));
    }
    if table < 3 && random.one_in(3) {
        last.push_str(&format!(",goto_table:{}", table + 1));
    }
    actions.join(",") + &last
}

/// What a flow does: most by itself, some together with others.
fn instructions(random: &mut Random, table: u8, asked: &str) -> String {
    if random.one_in(12) {
        return format!("conjunction({},{}/2)", few(random, 2), 1 + few(random, 2));
    }
    actions(random, table, asked)
}

fn flow_mod(random: &mut Random) -> Option<FlowMod> {
    let table = number(few(random, 4));
    let asked = asked(random);
    let comma = if asked.is_empty() { "" } else { "," };
    let timeouts = match few(random, 4) {
        0 => ",idle_timeout=3",
        1 => ",hard_timeout=7",
        _ => "",
    };
    let head = format!("table={table},priority={}{timeouts},send_flow_rem", few(random, 6));
    let mut flow: FlowMod =
        format!("{head}{comma}{asked} actions={}", instructions(random, table, &asked)).parse().ok()?;
    flow.cookie = few(random, 3);
    flow.command = match few(random, 12) {
        0 => FlowCommand::Modify,
        1 => FlowCommand::ModifyStrict,
        2 => FlowCommand::Delete,
        3 => FlowCommand::DeleteStrict,
        4 => FlowCommand::ModifyOrAdd,
        5 => FlowCommand::ModifyOrAddStrict,
        _ => FlowCommand::Add,
    };
    Some(flow)
}

fn group_mod(random: &mut Random) -> GroupMod {
    let kind = *random.choose(GroupKind::ALL).expect("there are some");
    let buckets = if kind == GroupKind::Indirect { 1 } else { 1 + few(random, 3) };
    let bucket = |random: &mut Random| {
        let text = format!(
            "set_field:02:00:00:00:00:0{}->eth_src,output:{}",
            few(random, 4),
            1 + few(random, PORTS.into())
        );
        let instructions = parse_actions(&text).expect("it is sound");
        let Some(Instruction::ApplyActions(list)) = instructions.0.into_iter().next() else {
            panic!("there are actions")
        };
        Bucket {
            weight: 1 + number::<u16>(few(random, 3)),
            watch_port: PortNumber(1 + number::<u32>(few(random, PORTS.into()))),
            watch_group: GroupNumber::ANY,
            actions: list.actions,
        }
    };
    let command = match few(random, 5) {
        0 => GroupCommand::Delete,
        1 => GroupCommand::Modify,
        _ => GroupCommand::Add,
    };
    let buckets = (0..buckets).map(|_| bucket(random)).collect();
    GroupMod { command, kind, group: GroupNumber(1 + number::<u32>(few(random, 3))), buckets }
}

fn mirrors(random: &mut Random) -> Vec<Mirror> {
    let mirror = |random: &mut Random, name: u64| {
        let mut ports = || (1..=PORTS).filter(|_| random.one_in(2)).collect();
        let (arriving, leaving) = (ports(), ports());
        let port = 1 + number::<u32>(few(random, PORTS.into()));
        Mirror {
            id: name.into(),
            name: format!("mirror {name}"),
            arriving,
            leaving,
            vlans: (0..2).filter(|_| random.one_in(3)).collect(),
            filter: parse_match(&asked(random)).unwrap_or(Match::ANY),
            output: if random.one_in(3) { MirrorOutput::Vlan(2) } else { MirrorOutput::Port(port) },
            length: random.one_in(4).then_some(30),
        }
    };
    (0..few(random, 3)).map(|name| mirror(random, name)).collect()
}

/// Something that is asked of flows or groups.
pub(super) fn change(random: &mut Random) -> Option<Body> {
    if random.one_in(10) {
        Some(Body::GroupMod(group_mod(random)))
    } else {
        flow_mod(random).map(Body::FlowMod)
    }
}

pub(super) fn frame(random: &mut Random) -> Vec<u8> {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_SOURCE, (0x0200_0000_0000 + few(random, 4)).into());
    key.set(Field::ETH_DESTINATION, (0x0200_0000_0000 + few(random, 4)).into());
    if random.one_in(5) {
        key.set(Field::VLAN_TPID, ethernet::VLAN.into());
        key.set(Field::VLAN_TCI, u128::from(ethernet::TAGGED) + u128::from(few(random, 3)));
    }
    match few(random, 8) {
        0 => {
            key.set(Field::ETH_TYPE, ethernet::ARP.into());
            key.set(Field::IP_PROTOCOL, 1);
            key.set(Field::IPV4_DESTINATION, 0x0a00_0001);
        }
        1 => {
            key.set(Field::ETH_TYPE, ethernet::IPV6.into());
            key.set(Field::IP_PROTOCOL, ip::TCP.into());
            key.set(Field::IP_TTL, 64);
            key.set(Field::IPV6_DESTINATION, few(random, 4).into());
        }
        2 => key.set(Field::ETH_TYPE, 0x1234),
        _ => {
            key.set(Field::ETH_TYPE, ethernet::IPV4.into());
            let protocol = [ip::TCP, ip::UDP, ip::ICMP][random.index(3)];
            key.set(Field::IP_PROTOCOL, protocol.into());
            key.set(Field::IP_TTL, [1, 2, 64][random.index(3)]);
            let address = |random: &mut Random| {
                0x0a00_0000 | few(random, 2) << 16 | few(random, 2) << 8 | few(random, 4)
            };
            key.set(Field::IPV4_SOURCE, address(random).into());
            key.set(Field::IPV4_DESTINATION, address(random).into());
            key.set(Field::L4_SOURCE, few(random, 8).into());
            key.set(Field::L4_DESTINATION, few(random, 32).into());
            if protocol == ip::TCP {
                key.set(Field::TCP_FLAGS, [0x10, 0x11, 0x04][random.index(3)]);
            }
        }
    }
    build(&key, &[0; 20])
}

/// Both are asked everything that can be asked, and answer the same.
fn compare(cached: &mut Bench, plain: &mut Bench, context: &str) {
    let (flows, others) = (cached.flows(), plain.flows());
    for (flow, other) in flows.iter().zip(&others) {
        assert!(flow == other, "{context}:\n{flow}\n{other}");
    }
    assert_eq!(flows.len(), others.len(), "{context}: flows");
    let questions = [
        RequestBody::Tables,
        RequestBody::Groups,
        RequestBody::GroupStats(GroupFilter { group: GroupNumber::ALL }),
    ];
    for request in questions {
        let (cached, plain): (ReplyBody, ReplyBody) = (cached.ask(request.clone()), plain.ask(request));
        assert_eq!(cached, plain, "{context}");
    }
    assert_eq!(cached.switch.mirrored(), plain.switch.mirrored(), "{context}: mirrors");
    let now = cached.now;
    assert_eq!(cached.switch.stations(now), plain.switch.stations(now), "{context}: stations");
}

/// A run of so many steps, of one to three caches that may have a defect.
fn run(seed: u64, steps: u64, defect: Option<Defect>) {
    let mut random = Random::new(seed);
    // Of the same seed, as translated addresses are chosen by it.
    let settings = Settings { seed, ..Settings::default() };
    let mut cached = Bench::new(PORTS, settings);
    let ways = NonZeroUsize::MIN.saturating_add(random.index(3));
    cached.forwarders = cached.switch.forwarders(ways);
    if let Some(defect) = defect {
        cached.forwarders.iter_mut().for_each(|forwarder| forwarder.spoil(defect));
    }
    let mut plain = Plain(Bench::new(PORTS, settings));
    let frames: Vec<_> = (0..60).map(|_| frame(&mut random)).collect();
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        match random.below(200) {
            0..8 => {
                let Some(flow) = flow_mod(&mut random) else { continue };
                let text = flow.to_string();
                cached.credit();
                let both =
                    (cached.request(Body::FlowMod(flow.clone())), plain.0.request(Body::FlowMod(flow)));
                assert_eq!(both.0.map(sorted), both.1.map(sorted), "{context}: {text}");
            }
            8 => {
                let group = Body::GroupMod(group_mod(&mut random));
                cached.credit();
                let both = (cached.request(group.clone()), plain.0.request(group));
                assert_eq!(both.0.map(sorted), both.1.map(sorted), "{context}");
            }
            9 => {
                let number = 1 + number::<u8>(random.below(PORTS.into()));
                let flag = *random
                    .choose(&[PortConfig::DOWN, PortConfig::NO_FORWARD, PortConfig::NO_RECEIVE])
                    .expect("some");
                let config = if random.one_in(3) { flag } else { PortConfig::NONE };
                let port_mod = PortMod {
                    port: PortNumber(number.into()),
                    address: [2, 0, 0, 0, 0, number],
                    config,
                    mask: PortConfig(0x65),
                    advertise: fulmar_openflow::ports::PortFeatures::NONE,
                };
                let both = (
                    cached.request(Body::PortMod(port_mod.clone())),
                    plain.0.request(Body::PortMod(port_mod)),
                );
                assert_eq!(both.0, both.1, "{context}");
            }
            10..13 => {
                cached.credit();
                cached.now = cached.now + Duration::from_millis(random.below(3_000));
                plain.0.now = cached.now;
                let now = cached.now;
                assert_eq!(
                    sorted(cached.switch.expire(now)),
                    sorted(plain.0.switch.expire(now)),
                    "{context}"
                );
            }
            13 => {
                let now = cached.now;
                cached.forwarders.iter_mut().for_each(|forwarder| forwarder.sweep(now, || now));
            }
            14 if random.one_in(8) => {
                cached.credit();
                let mirrors = mirrors(&mut random);
                cached.switch.set_mirrors(mirrors.clone());
                plain.0.switch.set_mirrors(mirrors);
            }
            14 if random.one_in(8) => {
                let port = 1 + number::<u32>(random.below(PORTS.into()));
                let bond = random.one_in(2).then_some("bond");
                let both = [&cached.switch, &plain.0.switch]
                    .map(|switch| switch.change_port(port, |info| info.bond = bond.map(Into::into)));
                assert_eq!(both[0], both[1], "{context}");
            }
            14 if random.one_in(4) => compare(&mut cached, &mut plain.0, &context),
            15..20 => cached.credit(),
            _ => {
                let port = 1 + number::<u32>(random.below(PORTS.into()));
                let frame = &frames[random.index(frames.len())];
                let (a, b) = (cached.send(port, frame), plain.send(port, frame));
                let first = a.frames.iter().zip(&b.frames).position(|(a, b)| a != b);
                assert!(
                    a == b,
                    "{context}: {frame:02x?} at port {port}\n{} and {} frames, from number {first:?} on not the same: {:02x?}\n{:02x?}\n{}",
                    a.frames.len(),
                    b.frames.len(),
                    first.map(|first| &a.frames[first]),
                    first.map(|first| &b.frames[first]),
                    way(&cached, port, frame),
                );
            }
        }
    }
    compare(&mut cached, &mut plain.0, &format!("seed {seed}, at the end"));
}

/// How a packet's way is explained.
fn way(bench: &Bench, port: u32, frame: &[u8]) -> String {
    let mut key = FlowKey::EMPTY;
    fulmar_packet::extract(frame, &mut key);
    key.set(Field::IN_PORT, port.into());
    bench.switch.trace(&key, bench.now)
}

fn sorted(mut events: Vec<crate::Event>) -> Vec<crate::Event> {
    events.sort_by_key(|event| format!("{event:?}"));
    events
}

/// Of each run; the number of runs is in the environment for longer ones.
const STEPS: u64 = 10_000;

#[test]
fn what_is_remembered_is_what_would_be_decided() {
    let seeds = std::env::var("FULMAR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    (0..seeds).for_each(|seed| run(seed, STEPS, None));
}

#[test]
fn a_planted_defect_is_found() {
    for defect in [Defect::IgnoresGeneration, Defect::LeavesBitsOut, Defect::ForgetsCredit] {
        let is_found = |seed| std::panic::catch_unwind(|| run(seed, STEPS, Some(defect))).is_err();
        assert!((0..20).any(is_found), "{defect:?} is not found");
    }
}
