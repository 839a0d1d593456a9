//! Tables one after the other, and one within another.

use super::{Bench, goes_to, sent, tcp};
use fulmar_openflow::Body;
use fulmar_openflow::flow::{FlowCommand, FlowMod};
use fulmar_openflow::packet_in::PacketInReason;
use std::time::Duration;

#[test]
fn flows_send_on_to_other_tables() {
    goes_to(&["actions=output:2,goto_table:7", "table=7 actions=output:3"], &[2, 3]);
    goes_to(&["actions=resubmit(,7),output:2", "table=7 actions=output:3"], &[2, 3]);
    goes_to(&["actions=goto_table:7"], &[]);
    // Looked up as if it had come in elsewhere; what is done is done with a packet that came in where it did.
    goes_to(&["actions=resubmit(4,7),output:2", "table=7,in_port=4 actions=output:1,output:3"], &[2, 3]);
    goes_to(&["actions=load:9->NXM_NX_REG1[],goto_table:7", "table=7,reg1=9 actions=output:3"], &[3]);
    goes_to(&["actions=write_metadata:0x5/0x7,goto_table:7", "table=7,metadata=5/15 actions=output:3"], &[3]);
}

#[test]
fn all_tables_can_be_gone_through() {
    let mut flows: Vec<String> =
        (0..253).map(|table| format!("table={table} actions=goto_table:{}", table + 1)).collect();
    flows.push("table=253 actions=output:2".into());
    let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
    goes_to(&flows, &[2]);
}

#[test]
fn a_circle_of_tables_drops_the_packet() {
    goes_to(&["actions=output:2,resubmit(,0)"], &[]);
    goes_to(&["actions=output:2,resubmit(,1)", "table=1 actions=resubmit(,0),resubmit(,0)"], &[]);
}

#[test]
fn what_was_written_is_carried_out_at_the_end_in_its_order() {
    goes_to(&["actions=write_actions(output:2),goto_table:1", "table=1 actions=output:3"], &[2, 3]);
    goes_to(
        &["actions=write_actions(output:2),goto_table:1", "table=1 actions=write_actions(output:3)"],
        &[3],
    );
    goes_to(&["actions=write_actions(output:2),goto_table:1", "table=1 actions=clear_actions"], &[]);
    // A clone carries out what has been written so far.
    goes_to(&["actions=write_actions(output:2),goto_table:1", "table=1 actions=clone(output:3)"], &[2, 2, 3]);
    // The tag goes around the packet before its number is set, whatever order they were written in.
    let written = "actions=write_actions(set_field:4101->vlan_vid,push_vlan:0x8100,output:2)";
    assert_eq!(sent(&[&format!("dl_vlan=1 {written}")]).ports(), [0u32; 0], "it is for others");
    let mut tagged = tcp(1, 2, 5, 80);
    tagged.splice(12..12, [0x81, 0, 0, 1]);
    let sent = Bench::with(2, &[&format!("dl_vlan=1 {written}")]).send(1, &tagged);
    assert_eq!(sent.frames[0].1[12..20], [0x81, 0, 0, 5, 0x81, 0, 0, 1]);
}

#[test]
fn ports_of_all_names() {
    goes_to(&["actions=ALL"], &[2, 3, 4, 5]);
    goes_to(&["actions=FLOOD"], &[2, 3, 4, 5]);
    goes_to(&["actions=IN_PORT"], &[1]);
    goes_to(&["actions=output:1"], &[]);
    goes_to(&["actions=load:3->NXM_NX_REG0[],output:NXM_NX_REG0[]"], &[3]);
    goes_to(&["actions=drop"], &[]);
    goes_to(&["actions=output:99,output:2"], &[2]);
}

#[test]
fn copies_change_nothing_of_the_packet() {
    let copied = sent(&["actions=clone(set_field:02:00:00:00:00:09->eth_dst,output:2),output:3"]);
    assert_eq!((copied.frames[0].1[5], copied.frames[1].1[5]), (9, 2));
    goes_to(&["actions=clone(exit),output:3"], &[3]);
    goes_to(&["actions=output:2,exit,output:3"], &[2]);
    goes_to(&["actions=resubmit(,1),output:3", "table=1 actions=output:2,exit"], &[2]);
}

#[test]
fn a_frame_is_cut_off_for_one_port_alone() {
    let cut = sent(&["actions=output(port=2,max_len=20),output(port=1,max_len=20),output:3"]);
    let lengths: Vec<_> = cut.frames.iter().map(|(port, frame)| (*port, frame.len())).collect();
    assert_eq!(lengths, [(2, 20), (3, tcp(1, 2, 5, 80).len())]);
}

#[test]
fn controllers_are_told_why() {
    let reason = |flows: &[&str]| {
        let sent = sent(flows);
        (sent.notices[0].0.reason, sent.notices[0].0.table)
    };
    assert_eq!(reason(&["priority=5 actions=CONTROLLER:40"]), (PacketInReason::Action, 0));
    assert_eq!(reason(&["priority=0 actions=CONTROLLER:40"]), (PacketInReason::NoMatch, 0));
    let flows = ["actions=goto_table:3", "table=3,priority=0 actions=CONTROLLER"];
    assert_eq!(reason(&flows).1, 3);
}

#[test]
fn a_meter_lets_as_much_pass_as_it_says() {
    use fulmar_openflow::Body;
    use fulmar_openflow::meter::{Band, BandKind, MeterCommand, MeterFlags, MeterMod};
    let mut bench = Bench::with(2, &[]);
    let bands = vec![Band { rate: 10, burst: 0, kind: BandKind::Drop }];
    let meter = MeterMod { command: MeterCommand::Add, flags: MeterFlags::PACKETS, meter: 1, bands };
    bench.request(Body::MeterMod(meter)).expect("it is sound");
    bench.add("actions=meter:1,output:2").expect("there is its meter");
    let frame = tcp(1, 2, 5, 80);
    let mut passed = 0;
    // Twice as many as may pass, for ten seconds; at once there may be those of one second.
    for _ in 0..200 {
        passed += bench.send(1, &frame).frames.len();
        bench.now = bench.now + Duration::from_millis(50);
    }
    assert!((109..=110).contains(&passed), "{passed}");
}

#[test]
fn what_a_packet_teaches_is_a_flow_for_the_next() {
    let learn = "actions=learn(table=1,hard_timeout=10,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,1)";
    let mut bench = Bench::with(3, &[learn]);
    let mut answer = tcp(2, 1, 80, 5);
    let (one, other) = (answer[6..12].to_vec(), answer[..6].to_vec());
    answer[..6].copy_from_slice(&one);
    answer[6..12].copy_from_slice(&other);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0]);
    assert_eq!(bench.send(2, &answer).ports(), [1]);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [2]);
    // What is learned again stays; what is not goes.
    for _ in 0..3 {
        bench.now = bench.now + Duration::from_secs(8);
        bench.send(1, &tcp(1, 2, 5, 80));
        bench.credit();
        bench.switch.expire(bench.now);
    }
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0], "nothing was heard of the other");
    assert_eq!(bench.flows().len(), 2);
}

#[test]
fn a_tracked_copy_goes_on_in_its_table() {
    let flows = [
        "tcp actions=ct(table=1,zone=3),output:2",
        "table=1,ct_state=+trk+new,ct_zone=3,tcp actions=output:3",
    ];
    goes_to(&flows, &[2, 3]);
}

/// A way of five times all tables, and one of copies in copies: the stack of a thread has room for both, however deep they are.
#[test]
fn ways_are_long_and_not_deep() {
    let mut bench = Bench::with(2, &["table=254,reg0=0 actions=load:1->NXM_NX_REG0[],resubmit(,0),output:2"]);
    for table in 0..254 {
        bench.add(&format!("table={table} actions=goto_table:{}", table + 1)).expect("it goes on");
    }
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [2]);

    let mut copies = "resubmit(,0)".to_owned();
    for _ in 0..12 {
        copies = format!("clone({copies})");
    }
    let mut bench = Bench::with(2, &[&format!("actions=output:2,{copies}")]);
    assert_eq!(
        bench.send(1, &tcp(1, 2, 5, 80)).ports(),
        [0u32; 0],
        "it is dropped, as others in a circle are"
    );
}

#[test]
fn what_was_learned_goes_with_the_last_flow_that_learns_it() {
    let learn = "actions=learn(table=1,delete_learned,cookie=0x99,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])";
    let mut bench =
        Bench::with(2, &[&format!("tcp {learn}"), &format!("udp {learn}"), "table=1,cookie=7 actions=drop"]);
    bench.send(1, &tcp(1, 2, 5, 80));
    let cookies = |bench: &mut Bench| -> Vec<u64> {
        bench.flows().iter().filter(|flow| flow.table == 1).map(|flow| flow.cookie).collect()
    };
    let remove = |bench: &Bench, asked: &str| {
        let mut flow: FlowMod = format!("{asked} actions=drop").parse().expect("it is sound");
        flow.command = FlowCommand::Delete;
        bench.request(Body::FlowMod(flow)).expect("it can be removed");
    };
    assert_eq!(cookies(&mut bench), [7, 0x99]);
    remove(&bench, "udp");
    assert_eq!(cookies(&mut bench), [7, 0x99], "another flow learns it");
    remove(&bench, "tcp");
    assert_eq!(cookies(&mut bench), [7]);
}

#[test]
fn flows_that_are_passed_over_stay() {
    let mut bench = Bench::with(3, &["actions=drop"]);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0]);
    bench.switch.pass_flows_over(true);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [2, 3]);
    assert_eq!(bench.flows()[0].packets, 1);
    bench.switch.pass_flows_over(false);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0]);
    assert_eq!(bench.flows()[0].packets, 2);
}
