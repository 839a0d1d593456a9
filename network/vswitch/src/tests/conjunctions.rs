//! Conjunctions are met by what meets all of their clauses.

use super::{Bench, tcp};
use fulmar_openflow::error::Nicira;
use fulmar_openflow::flow::{FlowCommand, FlowMod};
use fulmar_openflow::{Body, ErrorCode};

const A: u32 = 0x0a00_0001;
const B: u32 = 0x0a00_0002;
const C: u32 = 0x0a00_0003;

/// From A or B to port 80 or 443 is sent to port 2; all else to port 3.
const TWO_BY_TWO: [&str; 6] = [
    "priority=10,ip,nw_src=10.0.0.1 actions=conjunction(7,1/2)",
    "priority=10,ip,nw_src=10.0.0.2 actions=conjunction(7,1/2)",
    "priority=10,tcp,tp_dst=80 actions=conjunction(7,2/2)",
    "priority=10,tcp,tp_dst=443 actions=conjunction(7,2/2)",
    "priority=10,ip,conj_id=7 actions=output:2",
    "priority=0 actions=output:3",
];

/// Where a packet goes.
fn goes(bench: &mut Bench, source: u32, to: u16) -> Vec<u32> {
    bench.send(1, &tcp(source, C, 1000, to)).ports()
}

#[test]
fn all_clauses_are_met_or_none() {
    let mut bench = Bench::with(5, &TWO_BY_TWO);
    for source in [A, B] {
        assert_eq!([80, 443, 22].map(|port| goes(&mut bench, source, port)), [[2], [2], [3]]);
    }
    assert_eq!([80, 443, 22].map(|port| goes(&mut bench, C, port)), [[3]; 3]);
    let counted: Vec<u64> = bench.flows().iter().map(|flow| flow.packets).collect();
    assert_eq!(counted.iter().sum::<u64>(), 9, "clauses count nothing: {counted:?}");
    assert_eq!(bench.flows().len(), 6);
}

#[test]
fn what_is_more_important_goes_first() {
    let mut bench = Bench::with(5, &TWO_BY_TWO);
    bench.add("priority=10,tcp,tp_dst=80,nw_src=10.0.0.1 actions=output:4").expect("it is sound");
    assert_eq!(goes(&mut bench, A, 80), [4], "at the same priority a flow of its own");
    bench.add("priority=11,ip,nw_src=10.0.0.2 actions=conjunction(7,1/2)").expect("it is sound");
    bench.add("priority=11,tcp,tp_dst=80 actions=conjunction(7,2/3)").expect("it is sound");
    assert_eq!(goes(&mut bench, B, 80), [2], "clauses of different conjunctions make none");
    bench
        .add("priority=12,ip,nw_src=10.0.0.2 actions=conjunction(8,1/2),conjunction(9,2/2)")
        .expect("it is sound");
    bench
        .add("priority=12,tcp,tp_dst=80 actions=conjunction(8,2/2),conjunction(9,1/2)")
        .expect("it is sound");
    bench.add("priority=12,conj_id=9,ip actions=output:5").expect("it is sound");
    assert_eq!(goes(&mut bench, B, 80), [3], "of two the first, for which there is no flow");
    bench.add("priority=12,conj_id=8,ip actions=output:4").expect("it is sound");
    assert_eq!(goes(&mut bench, B, 80), [4]);
    assert_eq!(goes(&mut bench, B, 443), [2]);
}

#[test]
fn one_without_a_flow_does_not_stand_before_others() {
    let mut bench = Bench::with(5, &TWO_BY_TWO[..5]);
    bench.add("priority=20,ip,nw_src=10.0.0.1 actions=conjunction(3,1/2)").expect("it is sound");
    bench.add("priority=20,tcp actions=conjunction(3,2/2)").expect("it is sound");
    assert_eq!(goes(&mut bench, A, 80), [2]);
    bench.add("priority=20,ip,conj_id=3 actions=output:4").expect("it is sound");
    assert_eq!(goes(&mut bench, A, 80), [4]);
}

#[test]
fn clauses_of_little_importance_are_not_looked_at() {
    let mut bench = Bench::with(
        2,
        &["priority=9,in_port=1 actions=output:2", "priority=8,tcp,tp_src=1 actions=conjunction(1,1/2)"],
    );
    for port in 0..5 {
        bench.send(1, &tcp(A, B, port, 80));
    }
    assert_eq!(bench.forwarders[0].sizes().0, 1);
}

#[test]
fn a_clause_can_become_something_else_and_go() {
    let mut bench = Bench::with(5, &TWO_BY_TWO);
    let change = |bench: &Bench, flow: &str, command| {
        let flow = FlowMod { command, ..flow.parse().expect(flow) };
        bench.request(Body::FlowMod(flow)).expect("it is sound");
    };
    change(&bench, "priority=10,tcp,tp_dst=80 actions=output:4", FlowCommand::ModifyStrict);
    assert_eq!([A, C].map(|source| goes(&mut bench, source, 80)), [[4], [4]]);
    change(&bench, "priority=10,tcp,tp_dst=80 actions=conjunction(7,2/2)", FlowCommand::Add);
    assert_eq!([A, C].map(|source| goes(&mut bench, source, 80)), [[2], [3]]);
    change(&bench, "priority=10,ip,nw_src=10.0.0.1 actions=drop", FlowCommand::DeleteStrict);
    assert_eq!([A, B].map(|source| goes(&mut bench, source, 80)), [[3], [2]]);
    change(&bench, "priority=0 actions=drop", FlowCommand::Delete);
    assert_eq!(bench.flows().len(), 0);
    assert_eq!(goes(&mut bench, B, 80), [0u32; 0]);
}

#[test]
fn clauses_are_nothing_else() {
    let bench = Bench::with(2, &[]);
    for wrong in [
        "actions=conjunction(1,1/2),output:1",
        "actions=conjunction(1,1/1)",
        "actions=conjunction(1,1/65)",
        "actions=conjunction(1,3/2)",
        "actions=conjunction(1,1/2),goto_table:1",
        "actions=write_actions(conjunction(1,1/2))",
        "actions=clone(conjunction(1,1/2))",
    ] {
        assert_eq!(bench.add(wrong), Err(ErrorCode::from(Nicira::BadConjunction)), "{wrong}");
    }
    bench.add("actions=note:01.02.03.04.05.06,conjunction(1,64/64)").expect("it is sound");
}

/// With thousands of clauses in each of many flows one packet was looked up for a second.
#[test]
fn clauses_are_work() {
    let mut bench = Bench::with(5, &["priority=0 actions=output:3"]);
    let clauses: Vec<String> = (0..2_000).map(|id| format!("conjunction({id},1/2)")).collect();
    let add = |bench: &Bench, priority: u16| {
        bench.add(&format!("priority={priority},ip actions={}", clauses.join(","))).expect("it is sound");
    };
    (1..=32).for_each(|priority| add(&bench, priority));
    assert_eq!(goes(&mut bench, A, 80), [3]);
    add(&bench, 33);
    assert_eq!(goes(&mut bench, A, 80), [], "too much to do");
}
