//! Queues: by which of them packets leave, and how many.

use crate::tests::{Bench, tcp};
use crate::{Event, Rate, Shaping};
use fulmar_openflow::PortNumber;
use fulmar_openflow::multipart::{ReplyBody, RequestBody};
use fulmar_openflow::queue::{ALL_QUEUES, QueueFilter};
use std::time::Duration;

/// Packets that fit into what a queue lets go at once.
const BURST: u64 = 3;

/// Port 2 has queues 0 and 1 without a limit, and 2, by which few leave.
fn bench(flows: &[&str]) -> Bench {
    let bench = Bench::with(3, flows);
    let bits = frame().len() as u64 * 8;
    let slow = Rate { per_second: Some(bits), burst: Some(bits * BURST) };
    let queues = [(0, Rate::default()), (1, Rate::default()), (2, slow)].into();
    bench.switch.shape(2, Some(&Shaping { port: Rate::default(), queues }), bench.now);
    bench
}

fn frame() -> Vec<u8> {
    tcp(1, 2, 5, 80)
}

/// Of ten packets, how many left; and by which queue of port 2 how many left and did not.
fn ten(flows: &[&str]) -> (usize, Vec<(u32, u64, u64)>) {
    let mut bench = bench(flows);
    let left = (0..10).map(|_| bench.send(1, &frame()).frames.len()).sum();
    let all = QueueFilter { port: PortNumber::ANY, queue: ALL_QUEUES };
    let ReplyBody::Queues(told) = bench.ask(RequestBody::Queues(all)) else { panic!("they are queues") };
    assert!(
        told.iter()
            .all(|told| told.port == PortNumber(2) && told.bytes == told.packets * frame().len() as u64)
    );
    let used = told.into_iter().filter(|told| told.packets + told.errors > 0);
    (left, used.map(|told| (told.queue, told.packets, told.errors)).collect())
}

#[test]
fn packets_leave_by_the_queue_that_was_chosen() {
    assert_eq!(ten(&["actions=output:2"]), (10, vec![(0, 10, 0)]));
    assert_eq!(ten(&["actions=set_queue:1,output:2"]), (10, vec![(1, 10, 0)]));
    assert_eq!(ten(&["actions=set_queue:9,output:2"]), (10, vec![(0, 10, 0)]), "there is no such");
    assert_eq!(ten(&["actions=set_queue:2,output:2"]), (3, vec![(2, 3, 7)]));
    assert_eq!(ten(&["actions=set_queue:2,output:3"]), (10, vec![]), "that port has none");
    assert_eq!(ten(&["actions=set_queue:2,pop_queue,output:2"]), (10, vec![(0, 10, 0)]));
    assert_eq!(ten(&["actions=set_queue:2,resubmit(,1),output:2"]), (3, vec![(2, 3, 7)]));
    assert_eq!(ten(&["actions=clone(set_queue:2,output:2),output:2"]), (13, vec![(0, 10, 0), (2, 3, 7)]));
    assert_eq!(ten(&["actions=set_queue:2,output(port=2,max_len=20)"]).0, 3);
    let again = ["tcp actions=set_queue:2,ct(table=1)", "table=1 actions=output:2"];
    assert_eq!(ten(&again), (3, vec![(2, 3, 7)]), "also when it was looked at again");
    let written = ["actions=write_actions(output:2,set_queue:2)"];
    assert_eq!(ten(&written), (3, vec![(2, 3, 7)]));
}

#[test]
fn tokens_come_back() {
    let mut bench = bench(&["actions=set_queue:2,output:2"]);
    let mut left = 0;
    for _ in 0..100 {
        bench.now = bench.now + Duration::from_millis(500);
        left += bench.send(1, &frame()).frames.len();
    }
    assert_eq!(left, 53, "what was there, one a second for fifty, and the last was not yet paid for");
    bench.switch.shape(2, None, bench.now);
    assert_eq!(
        (0..9).map(|_| bench.send(1, &frame()).frames.len()).sum::<usize>(),
        9,
        "it has no queues any more"
    );
}

/// News of a link may come when the port has got queues meanwhile, or has left.
#[test]
fn a_change_of_a_port_keeps_all_else_and_brings_none_back() {
    let bench = Bench::with(2, &[]);
    let shaping = Shaping { queues: [(1, Rate::default())].into(), ..Shaping::default() };
    bench.switch.shape(1, Some(&shaping), bench.now);
    let lose_link = |number| bench.switch.change_port(number, |port| port.has_link = false);
    assert!(matches!(lose_link(1), Some(Event::PortStatus(_))));
    let port = bench.switch.port(1).expect("it is there");
    assert!(!port.has_link && port.queues.is_some());
    bench.switch.remove_port(2);
    assert!(lose_link(2).is_none());
    assert!(bench.switch.port(2).is_none());
}
