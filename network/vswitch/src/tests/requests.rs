//! What controllers ask: what is refused, with which error, and what is changed by what is not.

use super::Bench;
use crate::Event;
use fulmar_openflow::action::{Extension, Note};
use fulmar_openflow::error::{
    BadAction, BadInstruction, BadRequest, FlowModFailed, GroupModFailed, MeterModFailed, PortModFailed,
    SwitchConfigFailed,
};
use fulmar_openflow::flow::{FlowCommand, FlowFlags, FlowMod, FlowRemovedReason};
use fulmar_openflow::group::{Bucket, GroupCommand, GroupFilter, GroupKind, GroupMod};
use fulmar_openflow::meter::{Band, BandKind, MeterCommand, MeterFlags, MeterMod};
use fulmar_openflow::multipart::RequestBody;
use fulmar_openflow::packet_out::PacketOut;
use fulmar_openflow::ports::{PortConfig, PortFeatures, PortMod};
use fulmar_openflow::switch::Fragments;
use fulmar_openflow::{
    Action, Body, ErrorCode, GroupNumber, Instruction, Instructions, NO_BUFFER, PortNumber, parse_actions,
};
use fulmar_packet::{FRAGMENT, Field, FlowKey, LATER, Match, build, ethernet, ip};
use std::time::Duration;

/// Nobody forwards meanwhile.
#[test]
fn a_bundle_looks_at_so_many_flows_at_most() {
    let bench = Bench::with(1, &[]);
    let add = |number: u32| {
        Body::FlowMod(flow(&format!("ip,nw_dst={} actions=drop", std::net::Ipv4Addr::from(number))))
    };
    bench.switch.commit(&(0..20_000).map(add).collect::<Vec<_>>(), bench.now).expect("they are few");
    let nothing = with("tcp,tp_dst=7 actions=drop", |flow| flow.command = FlowCommand::Delete);
    bench.switch.commit(&vec![nothing.clone(); 900], bench.now).expect("they look at few");
    let refused = bench.switch.commit(&vec![nothing; 2_000], bench.now).expect_err("they look at many");
    assert_eq!(refused.1, fulmar_openflow::error::Onf::BundleTooMany.into());
    let all = with("actions=output:1", |flow| flow.command = FlowCommand::Modify);
    assert!(bench.switch.commit(&vec![all.clone(); 100], bench.now).is_err(), "they change many");
    let is_as_it_was =
        |bench: &mut Bench| bench.flows().iter().all(|flow| flow.to_string().ends_with("actions=drop"));
    let mut bench = bench;
    assert!(is_as_it_was(&mut bench), "it is undone");
    bench.request(all).expect("one request may");
}

/// Each may be as large as a message.
#[test]
fn instructions_and_buckets_have_so_much_room_together() {
    const LONG: usize = 60_006;
    let bench = Bench::with(1, &[]);
    let note = |bytes: usize| vec![Action::Extension(Extension::Note(Note(vec![0; bytes])))];
    let add = |number: u32, bytes| {
        with(&format!("ip,nw_dst={} actions=drop", std::net::Ipv4Addr::from(number)), |flow| {
            flow.instructions = Instructions::apply(note(bytes));
        })
    };
    let all = |command, bytes| {
        with("actions=drop", |flow| {
            flow.command = command;
            flow.instructions = Instructions::apply(note(bytes));
        })
    };
    let large = |command, number| {
        let mut group = group(command, number, &["output:1"]);
        group.buckets[0].actions = note(LONG);
        Body::GroupMod(group)
    };
    bench
        .switch
        .commit(&(0..5_000).map(|number| add(number, 6)).collect::<Vec<_>>(), bench.now)
        .expect("few");
    let full = Err(FlowModFailed::TableFull.into());
    assert_eq!(bench.request(all(FlowCommand::Modify, LONG)), full);
    bench.request(all(FlowCommand::Modify, 53_598)).expect("268,080,000 of 268,435,456 bytes");
    let more = |from: u32| (from..).take_while(|number| bench.request(add(*number, LONG)).is_ok()).count();
    assert_eq!(more(10_000), 5);
    let refused = [all(FlowCommand::Delete, 6), large(GroupCommand::Modify, 1)];
    bench.switch.commit(&refused, bench.now).expect_err("there is no such group");
    assert_eq!(more(20_000), 0, "all are there again");
    bench.request(all(FlowCommand::Delete, 6)).expect("it is sound");
    bench.request(add(1, LONG)).expect("there is room");

    let fit = (1..).take_while(|number| bench.request(large(GroupCommand::Add, *number)).is_ok()).count();
    assert_eq!(fit, (64 << 20) / (16 + 10 + LONG));
    bench.request(large(GroupCommand::Modify, 1)).expect("it is as large as before");
    bench.request(Body::GroupMod(group(GroupCommand::Modify, 1, &["output:1"]))).expect("it is small");
    bench.request(large(GroupCommand::Add, 5_000)).expect("there is room again");
}

fn flow(text: &str) -> FlowMod {
    text.parse().expect(text)
}

fn with(text: &str, change: impl FnOnce(&mut FlowMod)) -> Body {
    let mut flow = flow(text);
    change(&mut flow);
    Body::FlowMod(flow)
}

fn group(command: GroupCommand, number: u32, actions: &[&str]) -> GroupMod {
    let bucket = |actions: &&str| {
        let Some(Instruction::ApplyActions(list)) =
            parse_actions(actions).expect(actions).0.into_iter().next()
        else {
            panic!("{actions}")
        };
        let watch_group = GroupNumber::ANY;
        Bucket { weight: 0, watch_port: PortNumber::ANY, watch_group, actions: list.actions }
    };
    let buckets = actions.iter().map(bucket).collect();
    GroupMod { command, kind: GroupKind::All, group: GroupNumber(number), buckets }
}

fn meter(command: MeterCommand, number: u32, rate: u32) -> Body {
    let bands = vec![Band { rate, burst: 0, kind: BandKind::Drop }];
    Body::MeterMod(MeterMod { command, flags: MeterFlags::PACKETS, meter: number, bands })
}

fn port(number: u32, address: u8) -> Body {
    Body::PortMod(PortMod {
        port: PortNumber(number),
        address: [2, 0, 0, 0, 0, address],
        config: PortConfig::DOWN,
        mask: PortConfig::DOWN,
        advertise: PortFeatures::NONE,
    })
}

/// All that there is of a switch, as text.
fn dump(bench: &mut Bench) -> String {
    let mut all: Vec<String> = bench.flows().iter().map(ToString::to_string).collect();
    let groups = RequestBody::GroupStats(GroupFilter { group: GroupNumber::ALL });
    for request in [RequestBody::Groups, groups, RequestBody::Ports] {
        all.push(format!("{:?}", bench.ask(request)));
    }
    all.join("\n")
}

/// A packet as from this port.
fn packet_out(port: u32) -> Body {
    let (port, actions, data) = (PortNumber(port), Vec::new(), vec![0; 60]);
    Body::PacketOut(PacketOut { buffer: NO_BUFFER, port, actions, data })
}

/// As with Open vSwitch: 0, none, one that is gone, and those of OpenFlow that can be.
#[test]
fn a_packet_comes_from_any_port_that_could_be() {
    let bench = Bench::with(2, &[]);
    for port in [0, 1, 99, 0xfeff, PortNumber::ANY.0, PortNumber::CONTROLLER.0, PortNumber::LOCAL.0] {
        assert!(bench.request(packet_out(port)).is_ok(), "{port:x}");
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let output = |port: u32| {
        let output = fulmar_openflow::action::Output { port: PortNumber(port), max_length: 0 };
        Body::FlowMod(FlowMod::add(Match::ANY, Instructions::apply(vec![Action::Output(output)])))
    };
    let cases: Vec<(Body, ErrorCode)> = vec![
        (Body::FlowMod(flow("actions=group:9")), BadAction::BadOutGroup.into()),
        (Body::FlowMod(flow("actions=meter:9")), MeterModFailed::InvalidMeter.into()),
        (Body::FlowMod(flow("actions=clone(group:9)")), BadAction::BadOutGroup.into()),
        (output(0), BadAction::BadOutPort.into()),
        (output(0xff00), BadAction::BadOutPort.into()),
        (output(PortNumber::TABLE.0), BadAction::BadOutPort.into()),
        (with("actions=drop", |flow| flow.table = 255), FlowModFailed::BadTable.into()),
        (with("actions=drop", |flow| flow.buffer = 7), BadRequest::BufferUnknown.into()),
        (
            with("actions=drop", |flow| {
                flow.instructions =
                    Instructions(vec![Instruction::GotoTable(fulmar_openflow::instruction::GotoTable {
                        table: 255,
                    })]);
            }),
            BadInstruction::BadTable.into(),
        ),
        (
            with("tcp actions=drop", |flow| flow.flags = FlowFlags::CHECK_OVERLAP),
            FlowModFailed::Overlap.into(),
        ),
        (Body::GroupMod(group(GroupCommand::Add, 1, &[])), GroupModFailed::GroupExists.into()),
        (Body::GroupMod(group(GroupCommand::Modify, 9, &[])), GroupModFailed::UnknownGroup.into()),
        (Body::GroupMod(group(GroupCommand::Modify, 1, &["group:2"])), GroupModFailed::Loop.into()),
        (Body::GroupMod(group(GroupCommand::Add, 9, &["group:8"])), BadAction::BadOutGroup.into()),
        (Body::GroupMod(group(GroupCommand::Delete, 1, &[])), GroupModFailed::ChainedGroup.into()),
        (meter(MeterCommand::Add, 1, 5), MeterModFailed::MeterExists.into()),
        (meter(MeterCommand::Modify, 9, 5), MeterModFailed::UnknownMeter.into()),
        (meter(MeterCommand::Add, 9, 0), MeterModFailed::BadRate.into()),
        (port(9, 9), PortModFailed::BadPort.into()),
        (packet_out(0xff00), BadRequest::BadPort.into()),
        (port(1, 9), PortModFailed::BadHardwareAddress.into()),
        (Body::BarrierRequest, BadRequest::BadType.into()),
    ];
    let mut bench = Bench::with(2, &["ip actions=output:1"]);
    let sound = [
        Body::GroupMod(group(GroupCommand::Add, 1, &["output:1"])),
        Body::GroupMod(group(GroupCommand::Add, 2, &["group:1"])),
        meter(MeterCommand::Add, 1, 5),
    ];
    sound.into_iter().for_each(|request| drop(bench.request(request).expect("it is sound")));
    let before = dump(&mut bench);
    for (request, code) in cases {
        let text = format!("{request:?}");
        assert_eq!(bench.request(request), Err(code), "{text}");
    }
    assert_eq!(dump(&mut bench), before);
}

#[test]
fn of_a_commit_all_is_done_or_nothing() {
    let mut bench = Bench::with(3, &["table=1,ip actions=output:1"]);
    bench.request(Body::GroupMod(group(GroupCommand::Add, 1, &["output:1"]))).expect("it is sound");
    bench.request(meter(MeterCommand::Add, 1, 5)).expect("it is sound");
    bench.add("table=2,arp actions=group:1").expect("there is its group");
    bench.add("table=2,ip actions=meter:1,output:2").expect("there is its meter");
    let before = dump(&mut bench);
    let requests = [
        with("table=1,ip actions=output:3", |flow| flow.command = FlowCommand::Modify),
        Body::FlowMod(flow("table=3,udp actions=output:3")),
        with("table=2 actions=drop", |flow| flow.command = FlowCommand::Delete),
        Body::GroupMod(group(GroupCommand::Modify, 1, &["output:2"])),
        Body::GroupMod(group(GroupCommand::Add, 2, &["output:2"])),
        Body::GroupMod(group(GroupCommand::Delete, GroupNumber::ALL.0, &[])),
        meter(MeterCommand::Delete, MeterMod::ALL, 1),
        port(2, 2),
    ];
    for count in 1..=requests.len() {
        let mut failing = requests[..count].to_vec();
        failing.push(Body::FlowMod(flow("actions=group:99")));
        let failed = bench.switch.commit(&failing, bench.now).expect_err("its last is wrong");
        assert_eq!(failed, (count, BadAction::BadOutGroup.into()));
        assert_eq!(dump(&mut bench), before, "{count} requests");
    }
    bench.switch.commit(&requests, bench.now).expect("they are sound");
    assert_eq!(bench.flows().len(), 2);
}

#[test]
fn flows_are_modified_and_deleted_by_what_is_asked_of_them() {
    const FLOWS: [&str; 4] = [
        "cookie=1,priority=1,ip actions=output:1",
        "cookie=2,priority=2,tcp actions=output:2",
        "cookie=3,priority=2,tcp,tp_dst=80 actions=output:2",
        "cookie=4,table=1,priority=2,arp actions=output:1",
    ];
    use FlowCommand::{Delete, DeleteStrict, Modify, ModifyOrAdd, ModifyOrAddStrict, ModifyStrict};
    type Change = fn(&mut FlowMod);
    // Which flows send to port 3 after a modification, and which are left after a deletion, by their cookies.
    let cases: [(FlowCommand, &str, Change, &[u64]); 17] = [
        (Modify, "ip", |_| {}, &[1, 2, 3]),
        (Modify, "tcp", |_| {}, &[2, 3]),
        (Modify, "ip", |flow| (flow.cookie, flow.cookie_mask) = (2, 2), &[2, 3]),
        (ModifyStrict, "priority=2,tcp", |_| {}, &[2]),
        (ModifyStrict, "priority=1,tcp", |_| {}, &[]),
        // Flows that are modified have the cookie of the change, as one has that is added as there is none.
        (ModifyOrAdd, "cookie=9,ip", |_| {}, &[9, 9, 9]),
        (ModifyOrAdd, "cookie=9", |flow| flow.table = 255, &[9, 9, 9, 9]),
        (ModifyOrAdd, "cookie=9,udp", |flow| flow.table = 255, &[9]),
        (ModifyOrAddStrict, "cookie=9,priority=2,tcp", |_| {}, &[9]),
        (ModifyOrAddStrict, "cookie=9,priority=1,tcp", |_| {}, &[9]),
        (Delete, "tcp", |_| {}, &[1, 4]),
        (Delete, "", |flow| flow.table = 255, &[]),
        (Delete, "", |flow| flow.out_port = PortNumber(2), &[1, 4]),
        (Delete, "", |flow| (flow.cookie, flow.cookie_mask) = (1, u64::MAX), &[2, 3, 4]),
        (DeleteStrict, "priority=2,tcp", |_| {}, &[1, 3, 4]),
        (DeleteStrict, "priority=2,tcp", |flow| flow.table = 255, &[1, 3, 4]),
        (Delete, "", |flow| flow.out_group = GroupNumber(1), &[1, 2, 3, 4]),
    ];
    for (command, asked, change, expected) in cases {
        let mut bench = Bench::with(4, &FLOWS);
        let mut flow = flow(&format!("{asked} actions=output:3"));
        flow.command = command;
        change(&mut flow);
        let context = format!("{flow:?}");
        bench.request(Body::FlowMod(flow)).expect(&context);
        let is_meant = |instructions: &Instructions| {
            matches!(command, Delete | DeleteStrict) || instructions.to_string() == "output:3"
        };
        let flows = bench.flows();
        let mut cookies: Vec<u64> =
            flows.iter().filter(|flow| is_meant(&flow.instructions)).map(|flow| flow.cookie).collect();
        cookies.sort_unstable();
        assert_eq!(cookies, expected, "{context}");
    }
}

#[test]
fn counts_go_on_or_begin_anew() {
    let mut bench = Bench::with(2, &["ip actions=output:2"]);
    let frame = super::tcp(1, 2, 5, 80);
    bench.send(1, &frame);
    assert_eq!(bench.flows()[0].bytes, frame.len() as u64);
    bench.add("ip actions=output:1").expect("it is sound");
    assert_eq!(bench.flows()[0].packets, 1, "it takes the other's place");
    bench.request(with("ip actions=drop", |flow| flow.flags = FlowFlags::RESET_COUNTS)).expect("it is sound");
    assert_eq!(bench.flows()[0].packets, 0);
}

#[test]
fn flows_go_when_their_time_is_over() {
    let flows = [
        "cookie=7,ip,idle_timeout=5,hard_timeout=8,send_flow_rem actions=output:2",
        "arp,hard_timeout=1 actions=drop",
    ];
    let mut bench = Bench::with(2, &flows);
    let began = bench.now;
    let mut removed = Vec::new();
    for seconds in 0..10 {
        bench.now = began + Duration::from_secs(seconds);
        if seconds <= 6 {
            bench.send(1, &super::tcp(1, 2, 5, 80));
        }
        bench.credit();
        removed.extend(bench.switch.expire(bench.now).into_iter().map(|event| (seconds, event)));
    }
    let [(8, Event::FlowRemoved(told))] = removed.as_slice() else { panic!("{removed:?}") };
    assert_eq!((told.reason, told.cookie, told.seconds), (FlowRemovedReason::HardTimeout, 7, 8));
    assert_eq!((told.packets, told.idle_timeout, told.hard_timeout), (7, 5, 8));
    bench.add("ip,idle_timeout=5,send_flow_rem actions=output:2").expect("it is sound");
    bench.now = bench.now + Duration::from_secs(5);
    let events = bench.switch.expire(bench.now);
    let [Event::FlowRemoved(told)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((told.reason, told.packets), (FlowRemovedReason::IdleTimeout, 0));
    assert_eq!(bench.flows(), []);
}

#[test]
fn flows_go_sooner_when_connections_end() {
    let learn = "tcp,in_port=2 actions=learn(cookie=1,table=9,fin_hard_timeout=3,eth_type=0x800,nw_proto=6,NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[])";
    let finish = "cookie=1,tcp,in_port=1,idle_timeout=60 actions=fin_timeout(idle_timeout=5,hard_timeout=100),resubmit(,9)";
    let mut bench = Bench::with(2, &[learn, finish]);
    let timeouts = |bench: &mut Bench, table: u8| {
        let these = bench.flows().into_iter().filter(|flow| (flow.table, flow.cookie) == (table, 1));
        these.map(|flow| (flow.idle_timeout, flow.hard_timeout)).collect::<Vec<_>>()
    };
    let frame = |flags: u8| {
        let mut frame = super::tcp(1, 2, 5, 80);
        frame[14 + 20 + 13] = flags;
        frame
    };
    bench.send(2, &super::tcp(2, 1, 80, 5));
    for flags in [0x02, 0x10, 0x18] {
        bench.send(1, &frame(flags));
    }
    bench.credit();
    assert_eq!([0, 9].map(|table| timeouts(&mut bench, table)), [[(60, 0)], [(0, 0)]], "they go on");
    bench.send(1, &frame(0x11));
    bench.credit();
    assert_eq!([0, 9].map(|table| timeouts(&mut bench, table)), [[(5, 100)], [(0, 3)]], "FIN");
    bench.send(2, &super::tcp(2, 1, 80, 5));
    bench.add("udp,in_port=1,idle_timeout=3 actions=drop").expect("it is sound");
    bench.send(2, &super::tcp(2, 1, 80, 5));
    assert_eq!(timeouts(&mut bench, 9), [(0, 3)], "it is learned again, and as it was");
    bench
        .add("cookie=1,tcp,in_port=1,idle_timeout=2 actions=fin_timeout(idle_timeout=9)")
        .expect("it is sound");
    bench.send(1, &frame(0x04));
    bench.credit();
    assert_eq!(timeouts(&mut bench, 0), [(2, 0)], "none is longer than it was");
    bench.now = bench.now + Duration::from_secs(3);
    assert_eq!(bench.switch.expire(bench.now).len(), 0, "nobody wants to be told");
    assert_eq!(bench.flows().len(), 1, "all but what teaches");
}

#[test]
fn flows_go_with_what_they_need() {
    let mut bench = Bench::with(2, &[]);
    bench.request(Body::GroupMod(group(GroupCommand::Add, 1, &["output:1"]))).expect("it is sound");
    bench.request(meter(MeterCommand::Add, 1, 5)).expect("it is sound");
    bench.add("ip,send_flow_rem actions=group:1").expect("there is its group");
    bench.add("arp,send_flow_rem actions=meter:1,output:2").expect("there is its meter");
    let requests =
        [Body::GroupMod(group(GroupCommand::Delete, 1, &[])), meter(MeterCommand::Delete, MeterMod::ALL, 1)];
    let reasons = [FlowRemovedReason::GroupDelete, FlowRemovedReason::Delete];
    for (request, reason) in requests.into_iter().zip(reasons) {
        let events = bench.request(request).expect("it is there");
        let [Event::FlowRemoved(told)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(told.reason, reason);
    }
    assert_eq!(bench.flows(), []);
}

#[test]
fn fragments_are_dropped_if_that_is_asked_for() {
    let mut bench = Bench::with(2, &["actions=output:2"]);
    let frames = [0, FRAGMENT, FRAGMENT | LATER].map(|fragment| {
        let mut key = FlowKey::EMPTY;
        key.set(Field::ETH_TYPE, ethernet::IPV4.into());
        key.set(Field::IP_PROTOCOL, ip::UDP.into());
        key.set(Field::IP_TTL, 64);
        key.set(Field::IP_FRAGMENT, fragment.into());
        build(&key, b"")
    });
    let mut ask = |fragments| {
        let set = bench.switch.set_fragments(fragments);
        (set, bench.switch.fragments(), frames.each_ref().map(|frame| bench.send(1, frame).ports().len()))
    };
    assert_eq!(ask(Fragments::Normal), (Ok(()), Fragments::Normal, [1, 1, 1]));
    assert_eq!(ask(Fragments::Drop), (Ok(()), Fragments::Drop, [1, 0, 0]));
    assert_eq!(ask(Fragments::Reassemble), (Err(SwitchConfigFailed::BadFlags), Fragments::Drop, [1, 0, 0]));
    assert_eq!(ask(Fragments::Normal), (Ok(()), Fragments::Normal, [1, 1, 1]));
}
