//! Groups of each kind, and what else is one of several.

use super::{Bench, tcp};
use fulmar_openflow::action::{Action, Bundle, BundleAlgorithm, Extension, HashFields};
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use fulmar_openflow::ports::{PortConfig, PortFeatures, PortMod};
use fulmar_openflow::{Body, GroupNumber, Instruction, Instructions, PortNumber, ShortPort, parse_actions};
use fulmar_packet::Match;

/// A group of buckets: actions, weight, and the port that is watched.
fn group(kind: GroupKind, buckets: &[(&str, u16, u32)]) -> Body {
    let buckets = buckets.iter().map(|(actions, weight, watched)| {
        let Some(Instruction::ApplyActions(list)) =
            parse_actions(actions).expect(actions).0.into_iter().next()
        else {
            panic!("{actions}")
        };
        Bucket {
            weight: *weight,
            watch_port: if *watched == 0 { PortNumber::ANY } else { PortNumber(*watched) },
            watch_group: GroupNumber::ANY,
            actions: list.actions,
        }
    });
    Body::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind,
        group: GroupNumber(1),
        buckets: buckets.collect(),
    })
}

fn bench(kind: GroupKind, buckets: &[(&str, u16, u32)]) -> Bench {
    let bench = Bench::with(5, &[]);
    bench.request(group(kind, buckets)).expect("it is sound");
    bench.add("actions=group:1").expect("there is its group");
    bench
}

fn set_down(bench: &Bench, port: u8, is_down: bool) {
    let port_mod = PortMod {
        port: PortNumber(port.into()),
        address: [2, 0, 0, 0, 0, port],
        config: if is_down { PortConfig::DOWN } else { PortConfig::NONE },
        mask: PortConfig::DOWN,
        advertise: PortFeatures::NONE,
    };
    bench.request(Body::PortMod(port_mod)).expect("there is such a port");
}

#[test]
fn all_buckets_get_a_copy_each() {
    let buckets = [("set_field:02:00:00:00:00:09->eth_dst,output:2", 0, 0), ("output:3", 0, 0)];
    let sent = bench(GroupKind::All, &buckets).send(1, &tcp(1, 2, 5, 80));
    let told: Vec<_> = sent.frames.iter().map(|(port, frame)| (*port, frame[5])).collect();
    assert_eq!(told, [(2, 9), (3, 2)]);
}

#[test]
fn the_only_bucket_is_taken() {
    assert_eq!(bench(GroupKind::Indirect, &[("output:4", 0, 0)]).send(1, &tcp(1, 2, 5, 80)).ports(), [4]);
}

#[test]
fn failover_takes_the_first_that_lives() {
    let mut bench = bench(GroupKind::FastFailover, &[("output:2", 0, 2), ("output:3", 0, 3)]);
    let goes = |bench: &mut Bench| bench.send(1, &tcp(1, 2, 5, 80)).ports();
    assert_eq!(goes(&mut bench), [2]);
    set_down(&bench, 2, true);
    assert_eq!(goes(&mut bench), [3]);
    set_down(&bench, 3, true);
    assert_eq!(goes(&mut bench), [0u32; 0]);
    set_down(&bench, 2, false);
    assert_eq!(goes(&mut bench), [2]);
}

/// A group that watches others: through ten buckets each, to itself and to what there is.
fn watching(number: u32, watched: &[u32]) -> Body {
    let buckets = watched.iter().map(|group| Bucket {
        weight: 1,
        watch_port: PortNumber::ANY,
        watch_group: GroupNumber(*group),
        actions: vec![Action::Output(fulmar_openflow::action::Output {
            port: PortNumber(number),
            max_length: 0,
        })],
    });
    let kind = GroupKind::FastFailover;
    Body::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind,
        group: GroupNumber(number),
        buckets: buckets.collect(),
    })
}

/// Each bucket that is watched led to ten more, seventeen times over.
#[test]
fn a_circle_of_groups_that_watch_each_other_is_not_alive() {
    let mut bench = Bench::with(5, &[]);
    bench.request(watching(2, &[2, 3, 2, 3, 2, 3, 2, 3, 2, 3])).expect("it is sound");
    bench.request(watching(3, &[3, 2, 3, 2, 3, 2, 3, 2, 3, 2])).expect("it is sound");
    bench.add("actions=group:2").expect("there is its group");
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0]);
    // A way out of it is life, whichever bucket leads there.
    bench.request(group(GroupKind::FastFailover, &[("output:4", 0, 4)])).expect("it is sound");
    bench.request(watching(4, &[2, 1])).expect("it is sound");
    bench.request(watching(5, &[4, 2])).expect("it is sound");
    bench.add("priority=40000,in_port=1 actions=group:5").expect("there is its group");
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [5]);
    set_down(&bench, 4, true);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0]);
}

#[test]
fn selection_is_by_weight_and_the_same_for_a_connection() {
    let mut bench = bench(GroupKind::Select, &[("output:2", 1, 0), ("output:3", 3, 0), ("output:4", 0, 0)]);
    let mut counts = [0u32; 6];
    for from in 0..4000 {
        let ports = bench.send(1, &tcp(1, 2, from, 80)).ports();
        assert_eq!(bench.send(1, &tcp(1, 2, from, 80)).ports(), ports, "it stays");
        counts[ports[0] as usize] += 1;
    }
    assert!((900..1100).contains(&counts[2]), "{counts:?}");
    assert_eq!((counts[2] + counts[3], counts[4]), (4000, 0), "one has no weight");
}

/// A bundle of these ports, by this algorithm, in table 0.
fn bundle(algorithm: BundleAlgorithm, members: &[u16]) -> Bench {
    let bench = Bench::with(4, &[]);
    let members = members.iter().map(|port| ShortPort(*port)).collect();
    let bundle = Bundle { algorithm, fields: HashFields::SymmetricL4, basis: 7, members };
    let instructions = Instructions::apply(vec![Action::Extension(Extension::Bundle(bundle))]);
    bench.request(Body::FlowMod(FlowMod::add(Match::ANY, instructions))).expect("it is sound");
    bench
}

#[test]
fn one_of_several_ports_is_taken() {
    let mut first = bundle(BundleAlgorithm::ActiveBackup, &[99, 3, 4]);
    assert_eq!(first.send(1, &tcp(1, 2, 5, 80)).ports(), [3]);
    set_down(&first, 3, true);
    assert_eq!(first.send(1, &tcp(1, 2, 5, 80)).ports(), [4]);
    let mut any = bundle(BundleAlgorithm::HighestRandomWeight, &[2, 3, 4]);
    let mut counts = [0u32; 5];
    (0..3000).for_each(|from| counts[any.send(1, &tcp(1, 2, from, 80)).ports()[0] as usize] += 1);
    assert!(counts[2..].iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn groups_that_double_are_cut_short() {
    let mut bench = Bench::with(2, &[]);
    for number in (1..=30).rev() {
        let next = if number == 30 { "output:2".to_owned() } else { format!("group:{}", number + 1) };
        let mut made = group(GroupKind::All, &[(&next, 0, 0), (&next, 0, 0)]);
        if let Body::GroupMod(group_mod) = &mut made {
            group_mod.group = GroupNumber(number);
        }
        bench.request(made).expect("the next is there");
    }
    bench.add("actions=group:1").expect("there is its group");
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [0u32; 0], "a billion copies are not made");
}

#[test]
fn a_group_within_a_copy_is_one_that_is_sent_to() {
    let mut bench = bench(GroupKind::All, &[("output:2", 0, 0)]);
    bench.add("priority=7 actions=clone(group:1)").expect("there is its group");
    let mut circle = group(GroupKind::All, &[("clone(group:1)", 0, 0)]);
    if let Body::GroupMod(group_mod) = &mut circle {
        group_mod.command = GroupCommand::Modify;
    }
    assert!(bench.request(circle).is_err(), "it would be a circle");
    let removed = GroupMod {
        command: GroupCommand::Delete,
        kind: GroupKind::All,
        group: GroupNumber(1),
        buckets: Vec::new(),
    };
    bench.request(Body::GroupMod(removed)).expect("it is there");
    assert_eq!(bench.flows().len(), 0, "flows that send to it go with it");
}

/// The first packet's header is of an impossible length: what is decided about it is not decided about the others.
#[test]
fn what_cannot_be_read_selects_for_nobody_else() {
    let buckets = [("output:2", 1, 0), ("output:3", 1, 0), ("output:4", 1, 0)];
    let mut bench = bench(GroupKind::Select, &buckets);
    let mut broken = tcp(1, 2, 5, 80);
    broken[14] = 0x41;
    bench.send(1, &broken);
    let mut used: Vec<u32> = (0..50).flat_map(|from| bench.send(1, &tcp(1, 2, from, 80)).ports()).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, [2, 3, 4]);
}
