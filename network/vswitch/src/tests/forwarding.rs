//! What flows say is done.

use super::{Bench, tcp};

#[test]
fn a_packet_goes_where_its_flow_says() {
    let mut bench = Bench::with(3, &["tcp,tp_dst=80 actions=output:2", "priority=1 actions=output:3"]);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [2]);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 81)).ports(), [3]);
    assert_eq!(bench.send(3, &tcp(1, 2, 5, 81)).ports(), [0u32; 0], "not back");
}
