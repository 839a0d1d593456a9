//! Of the members of a bond one is used, as if it were the only one.

use super::{Bench, between, tcp};

/// Ports 2 and 3 are a bond.
fn bonded() -> Bench {
    let bench = Bench::with(4, &["actions=NORMAL"]);
    for port in [2, 3] {
        bench.switch.change_port(port, |info| info.bond = Some("bond".into()));
    }
    bench
}

fn link(bench: &Bench, port: u32, has_link: bool) {
    bench.switch.change_port(port, |info| info.has_link = has_link);
}

#[test]
fn one_member_is_used() {
    let mut bench = bonded();
    assert_eq!(bench.send(1, &between(1, 9, None)).ports(), [2, 4]);
    assert_eq!(bench.send(2, &between(9, 1, None)).ports(), [1]);
    assert_eq!(bench.send(3, &between(8, 1, None)).ports(), [0u32; 0], "not by the other");
    assert_eq!(bench.send(3, &between(9, 8, None)).ports(), [0u32; 0]);
    assert_eq!(bench.send(1, &between(1, 9, None)).ports(), [2]);
}

#[test]
fn another_takes_its_place() {
    let mut bench = bonded();
    bench.send(2, &between(9, 1, None));
    link(&bench, 2, false);
    assert_eq!(bench.send(1, &between(1, 9, None)).ports(), [3], "who was heard there is behind the bond");
    assert_eq!(bench.send(1, &between(1, 8, None)).ports(), [3, 4]);
    assert_eq!(bench.send(3, &between(9, 1, None)).ports(), [1]);
    assert_eq!(bench.send(3, &between(9, 8, None)).ports(), [1, 4], "and not back into it");
    link(&bench, 3, false);
    assert_eq!(bench.send(1, &between(1, 8, None)).ports(), [4]);
    assert_eq!(bench.send(1, &between(1, 9, None)).ports(), [0u32; 0], "it is nowhere else");
    link(&bench, 2, true);
    assert_eq!(bench.send(1, &between(1, 9, None)).ports(), [2]);
}

#[test]
fn flows_choose_members_for_themselves() {
    let mut bench = bonded();
    bench.add("priority=40000,in_port=3,tcp actions=output:2").expect("it is sound");
    assert_eq!(bench.send(3, &tcp(1, 2, 3, 4)).ports(), [2]);
}
