//! What flows say is done: flow text, a frame in, frames out.

mod fields;
mod groups;
mod labels;
mod old;
mod ordinary;
mod pipeline;
mod queues;
mod tunnels;

use super::{Bench, Sent, tcp};
use fulmar_packet::{FlowKey, build};

/// What comes out at port 2 of a flow with these actions when a frame of this key comes in at port 1.
fn through(actions: &str, asked: &str, key: &FlowKey) -> Vec<u8> {
    let flow = format!("{asked} actions={actions},output:2");
    let mut sent = Bench::with(2, &[&flow]).send(1, &build(key, b"content"));
    assert_eq!(sent.ports(), [2], "{flow}");
    sent.frames.remove(0).1
}

/// That a table sends a frame that comes in at port 1 to these ports.
fn goes_to(flows: &[&str], ports: &[u32]) {
    assert_eq!(sent(flows).ports(), ports, "{flows:?}");
}

/// What a table makes of a frame of TCP, port 5 to 80, that comes in at port 1.
fn sent(flows: &[&str]) -> Sent {
    Bench::with(5, flows).send(1, &tcp(1, 2, 5, 80))
}

#[test]
fn a_packet_goes_where_its_flow_says() {
    let mut bench = Bench::with(3, &["tcp,tp_dst=80 actions=output:2", "priority=1 actions=output:3"]);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), [2]);
    assert_eq!(bench.send(1, &tcp(1, 2, 5, 81)).ports(), [3]);
    assert_eq!(bench.send(3, &tcp(1, 2, 5, 81)).ports(), [0u32; 0], "not back");
}
