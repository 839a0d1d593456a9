//! What a leader does.

use super::{One, at, checkpoint, log};
use crate::{Log, Message, Options, Protocol, Record, Timer, View};
use fulmar_node::{Lsn, NodeId, Process, Time};
use std::time::Duration;

/// It leads the second view, in which it has begun with what it has written down.
fn leading(protocol: Protocol, options: Options) -> One {
    let mut one = One::begun(protocol, options);
    one.hear(NodeId(2), Message::StartViewChange { view: View { epoch: 0, number: 1 } });
    one.sync();
    let empty = Message::DoViewChange {
        view: View { epoch: 0, number: 1 },
        last_normal: View::first_of(0),
        log: Log::default(),
        end: Log::default().end(),
        ordered: at(0),
        committed: at(0),
    };
    one.hear(NodeId(2), empty);
    one.sync();
    assert!(one.replica.leads());
    one
}

/// What is sent to who does not read fills the connection, and what comes then is lost.
#[test]
fn who_does_not_read_is_sent_nothing_again() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let heartbeat = Duration::from_millis(10);
        let options = Options { heartbeat, patience: Duration::from_secs(10), ..Options::default() };
        let mut one = leading(protocol, options);
        one.said();
        one.ask(1);
        one.step(|replica, out| replica.expire(Time::ZERO, Timer::Batch, out));
        one.sync();
        let (mut now, silent) = (Time::ZERO, NodeId(2));
        // How often it sends something, and the round of its last sign.
        let mut sends = |one: &mut One, signs: u32| {
            for _ in 0..signs {
                now = now + heartbeat;
                one.step(|replica, out| replica.expire(now, Timer::Heartbeat, out));
            }
            let (mut count, mut last) = (0, 0);
            for (_, said) in std::mem::take(&mut one.sent).iter().filter(|(to, _)| *to == silent) {
                match said {
                    Message::Prepare { .. } => count += 1,
                    Message::Commit { round, .. } => last = *round,
                    _ => {}
                }
            }
            (count, last)
        };
        let (sent, first) = sends(&mut one, 20);
        assert_eq!(sent, 1, "{protocol:?}");
        let (view, summary) = (View { epoch: 0, number: 1 }, log([]).end().1);
        let mut has_nothing = |round| {
            let nothing = at(0);
            let said = Message::PrepareOk {
                view,
                ordered: nothing,
                upto: nothing,
                summary,
                received: nothing,
                round,
            };
            one.hear(silent, said);
            sends(&mut one, 20)
        };
        let (sent, second) = has_nothing(first - 20);
        assert_eq!(sent, 0, "{protocol:?}: it may be on its way behind the signs that were heard");
        let (mut heard, mut answered) = (second, has_nothing(second));
        if answered.0 == 0 {
            // The leader gave the places only after the sign before.
            (heard, answered) = (answered.1, has_nothing(answered.1));
        }
        assert_eq!(answered.0, 1, "{protocol:?}: it is lost");
        assert_eq!(has_nothing(heard).0, 0, "{protocol:?}: what was sent again may be on its way");
        assert_eq!(has_nothing(answered.1 + 20).0, 1, "{protocol:?}: it is lost, too");
    }
}

#[test]
fn a_leader_whose_log_is_not_what_others_have_committed_leads_no_more() {
    let records = [
        Record::View { view: View::first_of(0), last_normal: View::first_of(0) },
        Record::Install { view: View { epoch: 0, number: 1 }, after: at(0), entries: vec![] },
    ];
    let mut one = leading(Protocol::Viewstamped, Options::default());
    assert_eq!(one.records[one.records.len() - 1], records[1]);
    one.hear(NodeId(2), Message::State(checkpoint(Protocol::Viewstamped, &log(1..=3), 3)));
    assert!(!one.replica.leads());
    assert_eq!(one.replica.committed(), at(3));
}

#[test]
fn an_idle_leader_gives_half_as_many_signs_when_others_give_theirs() {
    let heartbeat = Duration::from_millis(10);
    let options = Options { heartbeat, patience: Duration::from_secs(10), ..Options::default() };
    let mut one = leading(Protocol::Viewstamped, options);
    // It is asked at every moment, as if its timer were early, and answers when it gives a sign.
    let signs = |one: &mut One, from: u64, to: u64| -> Vec<u64> {
        let is_sign =
            |(to, said): &(NodeId, Message)| *to == NodeId(2) && matches!(said, Message::Commit { .. });
        let gives = |millisecond: &u64| {
            one.said();
            let now = Time::ZERO + Duration::from_millis(*millisecond);
            one.step(|replica, out| replica.expire(now, Timer::Heartbeat, out));
            one.sent.iter().any(is_sign)
        };
        (from..to).filter(gives).collect()
    };
    assert_eq!(signs(&mut one, 3, 65), [20, 40, 60]);
    one.ask(1);
    let now = Time::ZERO + Duration::from_millis(65);
    one.step(|replica, out| replica.expire(now, Timer::Batch, out));
    let records = Lsn(one.records.len() as u64);
    one.step(|replica, out| replica.durable(now, records, out));
    assert_eq!(signs(&mut one, 65, 95), [70, 80, 90], "something is to be committed");
}
