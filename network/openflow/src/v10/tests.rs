//! What is said in OpenFlow 1.0 is read as what was said, as far as it can say it.

use super::*;
use crate::action::Extension;
use crate::flow::FlowMod;
use crate::oxm::NiciraMatch;
use crate::tests::Any;
use crate::v10::flow::Matching;
use crate::v10::matching::{PlainMatch, is_plain};
use crate::v10::packet::PacketOut;
use crate::v10::step::{Early, Step, Steps, VendorStep};
use crate::{Dialect, read_and_write};
use fulmar_node::Random;
use fulmar_packet::{Field, Match, ethernet, ip};

mod golden;
mod malformed;

const HABITS: [Habits; 4] = [
    Habits { names_tables: false, tells_all: false },
    Habits { names_tables: false, tells_all: true },
    Habits { names_tables: true, tells_all: false },
    Habits { names_tables: true, tells_all: true },
];

impl Any for Vendor {
    fn any(random: &mut Random) -> Self {
        if random.one_in(2) {
            return Self::Nicira(Nicira::any(random));
        }
        loop {
            let other = Experimenter::any(random);
            if other.number() >> 32 == NICIRA.into() {
                return Self::Other(other);
            }
        }
    }
}

impl Any for VendorStep {
    fn any(random: &mut Random) -> Self {
        match random.below(3) {
            0 => Self::Early(Early::any(random)),
            _ => loop {
                let other = Extension::any(random);
                if !matches!(other, Extension::Clone(_)) {
                    return Self::Other(other);
                }
            },
        }
    }
}

impl Any for Steps {
    fn any(random: &mut Random) -> Self {
        Self(if random.one_in(3) { Vec::any(random) } else { Vec::new() })
    }
}

impl Any for NiciraMatch {
    fn any(random: &mut Random) -> Self {
        let cookie_mask = if random.one_in(2) { u64::any(random) | 1 } else { 0 };
        Self { asked: Match::any(random), cookie: u64::any(random) & cookie_mask, cookie_mask }
    }
}

impl<A: Any, B: Any> Any for Matching<A, B> {
    fn any(random: &mut Random) -> Self {
        Self { before: A::any(random), after: B::any(random), matched: Any::any(random) }
    }
}

impl<A: Any> Any for groups::Buckets<A> {
    fn any(random: &mut Random) -> Self {
        Self { after: A::any(random), list: Vec::any(random) }
    }
}

macro_rules! made_of {
    ($($name:path { $($field:tt),* })*) => {$(
        impl Any for $name {
            fn any(random: &mut Random) -> Self {
                Self { $($field: Any::any(random)),* }
            }
        }
    )*};
}
made_of! {
    statistics::Request { 0 }
    statistics::Reply { has_more, body }
    error::Code { 0 }
    groups::Bucket { number, steps, properties }
    PacketOut { buffer, port, steps, data }
}

fn written(said: &Said) -> Vec<u8> {
    let mut bytes = Vec::new();
    said.put_content(&mut bytes);
    bytes
}

fn read(said: &Said, bytes: &[u8]) -> Result<Said> {
    Said::get_content(said.number(), &mut Reader::new(bytes, BadRequest::BadLength))
}

#[test]
fn what_is_written_is_read() {
    let mut random = Random::new(1);
    for _ in 0..30_000 {
        let said = Said::any(&mut random);
        let bytes = written(&said);
        let again = read(&said, &bytes).unwrap_or_else(|code| panic!("{code}: {said:?}"));
        // Of a match, and of errors, several forms mean the same.
        assert_eq!(written(&again), bytes, "{said:?}");
    }
}

/// What was written and read once stays as it is.
#[test]
fn a_value_that_was_said_is_said_again() {
    let mut random = Random::new(2);
    let mut said = 0;
    for _ in 0..30_000 {
        let message = Message::any(&mut random);
        let habits = *random.choose(&HABITS).expect("some");
        let dialect = Dialect::V10(habits);
        let mut bytes = Vec::new();
        if dialect.encode(&message, &mut bytes).is_err() {
            continue;
        }
        said += 1;
        let first = match dialect.decode(&bytes) {
            Ok(first) => first,
            // What can be done in other ways than OpenFlow 1.0 has may need what is not there by itself.
            Err(_) if matches!(message.body, Body::FlowMod(_)) => continue,
            Err(rejection) => panic!("{rejection}: {message:?}"),
        };
        let mut again = Vec::new();
        dialect.encode(&first, &mut again).expect("it could be before");
        assert_eq!(dialect.decode(&again), Ok(first), "{message:?}");
    }
    assert!(said > 15_000, "{said}");
}

#[test]
fn a_plain_match_means_the_same_again() {
    let mut random = Random::new(3);
    let mut plain = 0;
    for _ in 0..20_000 {
        let asked = Match::from(&PlainMatch::any(&mut random));
        assert!(is_plain(&asked), "{asked:?}");
        plain += usize::from(is_plain(&Match::any(&mut random)));
    }
    assert!((100..10_000).contains(&plain), "some can be said so, and some cannot: {plain}");
}

/// As Open vSwitch says it (`testdata/old.txt`): a match that asked for no tag was read back as one that leaves the priority open.
#[test]
fn no_tag_has_no_priority() {
    let untagged = Match::ANY.with_masked(Field::VLAN_TCI, 0, 0xffff);
    let mut bytes = Vec::new();
    PlainMatch::from(&untagged).put(&mut bytes);
    assert_eq!(bytes[..4], 0x0028_20fd_u32.to_be_bytes());
}

/// Cut to a byte, a type that no packet has matched those of another.
#[test]
fn types_and_codes_of_icmp_are_kept_whole() {
    for (eth_type, protocol) in [(ethernet::IPV4, ip::ICMP), (ethernet::IPV6, ip::ICMPV6)] {
        let icmp =
            Match::ANY.with(Field::ETH_TYPE, eth_type.into()).with(Field::IP_PROTOCOL, protocol.into());
        let asked = icmp.with(Field::L4_SOURCE, 0x108).with(Field::L4_DESTINATION, 0x201);
        assert_eq!(Match::from(&PlainMatch::from(&asked)), asked);
    }
}

/// Actions of OpenFlow 1.0, and of those of Nicira that it needs, mean actions that are said as the same again.
#[test]
fn actions_are_said_as_they_were() {
    let mut random = Random::new(4);
    for _ in 0..20_000 {
        let steps: Vec<Step> = Vec::any(&mut random);
        let asked = Match::any(&mut random);
        let Ok(meant) = actions::actions(steps, &asked) else { continue };
        let said = actions::steps(&meant);
        assert_eq!(actions::actions(said, &asked), Ok(meant));
    }
}

#[test]
fn whatever_bytes_come_there_is_a_message_or_an_error() {
    let mut random = Random::new(5);
    for _ in 0..40_000 {
        let said = Said::any(&mut random);
        let mut bytes = vec![VERSION, said.number(), 0, 0, 0, 0, 0, 1];
        bytes.extend(written(&said));
        for _ in 0..random.below(4) {
            let at = 4 + random.index(bytes.len() - 4);
            bytes[at] = match random.below(3) {
                0 => 0,
                1 => bytes[at] ^ 1 << random.below(8),
                _ => u8::any(&mut random),
            };
        }
        if random.one_in(8) {
            bytes.truncate(8 + random.index(bytes.len() - 7));
        }
        let length = u16::try_from(bytes.len()).expect("short");
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        read_and_write(&bytes);
    }
}

/// Flows that OpenFlow 1.0 can say are told as they are, in either form.
#[test]
fn flows_are_said_as_they_were() {
    for text in [
        "cookie=0x5,priority=9,in_port=3,dl_vlan=5,dl_vlan_pcp=2 actions=output:2",
        "priority=1,tcp,nw_src=10.0.0.0/8,nw_dst=10.1.2.3,tp_dst=80 actions=set_field:81->tcp_dst,output:2",
        "vlan_tci=0x0000,dl_src=02:00:00:00:00:01 actions=NORMAL",
        "arp,arp_spa=10.0.0.1,arp_op=1 actions=CONTROLLER:128",
        "icmp,icmp_type=8,icmp_code=0 actions=drop",
        "actions=load:0x1064->NXM_OF_VLAN_TCI[0..12],set_field:02:00:00:00:00:02->eth_dst,ALL",
        "ip actions=set_field:10.0.0.1->ip_src,set_field:46->ip_dscp,dec_ttl,set_queue:3,IN_PORT",
    ] {
        let flow: FlowMod = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
        for habits in HABITS {
            let dialect = Dialect::V10(habits);
            let mut bytes = Vec::new();
            let message = Message { xid: 1, body: Body::FlowMod(flow.clone()) };
            dialect.encode(&message, &mut bytes).expect("short");
            let Ok(Message { body: Body::FlowMod(read), .. }) = dialect.decode(&bytes) else {
                panic!("{text}: {:?}", dialect.decode(&bytes))
            };
            assert_eq!(bytes[1] == 14, !habits.tells_all, "{text}");
            assert_eq!(
                (read.asked, read.instructions),
                (flow.asked.clone(), flow.instructions.clone()),
                "{text}"
            );
        }
    }
}

/// Of actions of a packet-out, those are left that do something with its packet: tags that were set can be taken away.
#[test]
fn a_packet_out_leaves_out_what_does_nothing() {
    let text = "actions=pop_vlan,set_field:1.2.3.4->ip_src,load:0x1005->NXM_OF_VLAN_TCI[0..12],pop_vlan,pop_vlan,output:2";
    let Ok(instructions) = crate::parse_actions(&text["actions=".len()..]) else { panic!("{text}") };
    let [crate::Instruction::ApplyActions(list)] = &instructions.0[..] else { panic!("{text}") };
    let frame = [[0xff; 12].as_slice(), &[0x88, 0xb5], &[0; 46]].concat();
    let (buffer, port) = (crate::NO_BUFFER, crate::PortNumber::CONTROLLER);
    let packet = crate::packet_out::PacketOut { buffer, port, actions: list.actions.clone(), data: frame };
    let (dialect, mut bytes) = (Dialect::V10(Habits::default()), Vec::new());
    dialect.encode(&Message { xid: 1, body: Body::PacketOut(packet) }, &mut bytes).expect("short");
    let Ok(Message { body: Body::PacketOut(read), .. }) = dialect.decode(&bytes) else { panic!("it is one") };
    let left: Vec<String> = read.actions.iter().map(ToString::to_string).collect();
    assert_eq!(left, ["load:0x1005->NXM_OF_VLAN_TCI[0..12]", "pop_vlan", "output:2"]);
}
