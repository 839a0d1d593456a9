//! A replica whose state is copied from another.

use super::{LEADER, One, at, checkpoint, entry, heartbeat, log, promised};
use crate::{Log, Message, Options, Protocol, Record, View, Wish};
use fulmar_node::{NodeId, Process, Time};

/// One that has missed what the others no longer have in their logs, up to the third operation, and has all of their log since.
fn copying(protocol: Protocol) -> (One, Log) {
    let mut one = One::begun(protocol, Options { is_copied: true, ..Options::default() });
    one.follow(&Log::default(), 1..=2, 0);
    one.sync();
    let others = log([9, 8, 7]);
    let checkpoint = checkpoint(protocol, &others, 3);
    one.said();
    one.hear(NodeId(2), Message::State(checkpoint));
    assert_eq!(std::mem::take(&mut one.behind), [NodeId(2)]);
    one.follow(&others, 4..=6, 5);
    let mut whole = others;
    for number in 4..=6 {
        whole.append(entry(number));
    }
    (one, whole)
}

#[test]
fn who_copies_follows_and_promises_nothing() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let (mut one, whole) = copying(protocol);
        assert_eq!((one.replica.committed(), one.replica.log().last()), (at(3), at(6)));
        one.sync();
        one.hear(LEADER, heartbeat(5, &whole));
        assert_eq!(promised(&one.said()), None, "{protocol:?}");
        // It carries out no more than those had of whom the parts are: the next part may be as old as the last.
        let copied = |upto, is_whole| Wish::Copied { upto: at(upto), is_whole };
        one.step(|replica, out| replica.request(Time::ZERO, copied(4, false), out));
        one.hear(LEADER, heartbeat(5, &whole));
        assert_eq!(one.replica.committed(), at(4));
        one.step(|replica, out| replica.request(Time::ZERO, copied(4, true), out));
        assert_eq!(promised(&one.said()), None, "not before that is durable");
        one.sync();
        let last = (at(6), whole.summary(at(6)).expect("its own"));
        assert_eq!(promised(&one.said()), Some(last), "{protocol:?}");
        one.hear(LEADER, heartbeat(5, &whole));
        assert_eq!(one.replica.committed(), at(5));
    }
}

#[test]
fn who_copies_goes_on_with_that_after_a_crash() {
    let (mut one, _) = copying(Protocol::Viewstamped);
    one.sync();
    let options = Options { is_copied: true, ..Options::default() };
    for kept in 0..=one.records.len() {
        let copies = one.records[..kept].contains(&Record::Copying(true));
        let mut again = One::new(Protocol::Viewstamped, options.clone(), &one.records[..kept]);
        assert_eq!((again.replica.is_copying(), again.behind.len()), (copies, usize::from(copies)));
        let is_whole = |upto| Wish::Copied { upto, is_whole: true };
        let upto = again.replica.committed();
        again.step(|replica, out| replica.request(Time::ZERO, is_whole(upto), out));
        let again = One::new(Protocol::Viewstamped, options.clone(), &again.records);
        assert!(!again.replica.is_copying());
    }
}

#[test]
fn who_copies_leads_no_view() {
    let (mut one, _) = copying(Protocol::Viewstamped);
    let view = View { epoch: 0, number: 1 };
    one.hear(NodeId(2), Message::StartViewChange { view });
    one.sync();
    let log = log([9, 8, 7]);
    let (end, last_normal) = (log.end(), View::first_of(0));
    one.hear(
        NodeId(2),
        Message::DoViewChange { view, last_normal, log, end, ordered: at(3), committed: at(3) },
    );
    one.sync();
    assert!(!one.replica.leads());
    let whole = Wish::Copied { upto: at(3), is_whole: true };
    one.step(|replica, out| replica.request(Time::ZERO, whole, out));
    assert!(one.replica.leads());
}
