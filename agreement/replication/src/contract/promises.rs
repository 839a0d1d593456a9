//! What a replica promises is on its disk, and stays there.

use super::{LEADER, One, at, checkpoint, heartbeat, heartbeat_in, log, promised};
use crate::group::Defect;
use crate::{Entry, Log, Member, Message, Options, Protocol, View};
use fulmar_node::NodeId;
use std::sync::Arc;

/// A checkpoint that its own log leads to says how far that is committed, and no more: what it has promised after it stays.
#[test]
fn a_checkpoint_of_its_own_log_takes_nothing_of_that_away() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let mut one = One::begun(protocol, Options::default());
        let whole = log(1..=6);
        one.follow(&Log::default(), 1..=6, 0);
        one.sync();
        one.said();
        one.hear(NodeId(2), Message::State(checkpoint(protocol, &whole, 3)));
        assert_eq!(one.replica.committed(), at(3), "{protocol:?}");
        one.sync();
        one.hear(LEADER, heartbeat(3, &whole));
        let last = (at(6), whole.summary(at(6)).expect("its own"));
        assert_eq!(promised(&one.said()), Some(last), "{protocol:?}");
        let mut again = One::new(protocol, Options::default(), &one.records);
        again.sync();
        again.said();
        again.hear(LEADER, heartbeat(3, &whole));
        assert_eq!(promised(&again.said()), Some(last), "{protocol:?}: after a crash");
    }
}

#[test]
fn after_another_checkpoint_nothing_is_said_that_is_not_durable() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let mut one = One::begun(protocol, Options::default());
        // Where it found them, or its leader put them, they do not stay.
        let numbers = [9, 8, 7, 6, 5, 4];
        match protocol {
            Protocol::Viewstamped => one.follow(&Log::default(), numbers, 0),
            Protocol::Fast | Protocol::Speculative => numbers.into_iter().for_each(|number| one.ask(number)),
        }
        let unsynced = one.records.len();
        one.sync_until(unsynced - 2);
        let whole = log(1..=6);
        one.said();
        // The next one that this leader leads.
        let view = View { epoch: 0, number: 3 };
        let start = |log: Log| Message::StartView {
            view,
            checkpoint: Some(checkpoint(protocol, &whole, 3)),
            log,
            end: whole.end(),
            committed: at(3),
        };
        one.hear(LEADER, start(whole.part(at(3), usize::MAX)));
        // What was promised before, and what is on the disk now, was another log.
        one.sync_until(unsynced);
        one.hear(LEADER, heartbeat_in(view, 3, &whole));
        assert_eq!(promised(&one.said()), None, "{protocol:?}");
        one.sync();
        one.hear(LEADER, heartbeat_in(view, 3, &whole));
        let last = (at(6), whole.summary(at(6)).expect("its own"));
        assert_eq!(promised(&one.said()), Some(last), "{protocol:?}");
    }
}

/// Whether there is a place at which a crash leaves a log that is neither that of the view before nor that of the one that begins.
fn mixes_views_after_a_crash(protocol: Protocol, defect: Option<Defect>) -> bool {
    let mut one = One::begun(protocol, Options::default());
    one.replica.group = one.replica.group.clone().with_defect(defect);
    Arc::make_mut(&mut one.replica.checkpoint).group = one.replica.group.clone();
    for number in [9, 8] {
        one.ask(number);
    }
    let mut whole = log(1..=3);
    let members = one.replica.group().members()[..1].to_vec();
    let next = one.replica.group().followed_by(members, protocol).expect("one is odd");
    whole.append(Entry::for_group(&next));
    let (view, before) = (View { epoch: 0, number: 2 }, one.records.len());
    let (log, end) = (whole.clone(), whole.end());
    one.hear(NodeId(2), Message::StartView { view, checkpoint: None, log, end, committed: at(0) });
    (before..=one.records.len()).any(|kept| {
        let again = One::new(protocol, Options::default(), &one.records[..kept]);
        let has = |number| again.replica.log().summary(at(number)) == whole.summary(at(number));
        let is_later = again.replica.last_normal == view;
        (is_later, is_later) != (has(4), (1..=4).any(has))
    })
}

#[test]
fn a_crash_leaves_the_log_of_one_view() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        assert!(!mixes_views_after_a_crash(protocol, None), "{protocol:?}");
        assert!(mixes_views_after_a_crash(protocol, Some(Defect::TearsInstall)), "{protocol:?}");
    }
}

#[test]
fn who_leaves_the_group_promises_nothing_in_the_next() {
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    let others = [0, 2, 3].map(|node| Member { node: NodeId(node), incarnation: 0 });
    let next = one.replica.group().followed_by(others.to_vec(), Protocol::Viewstamped).expect("three");
    let mut whole = Log::default();
    whole.append(Entry::for_group(&next));
    let view = View { epoch: 0, number: 2 };
    one.hear(
        NodeId(2),
        Message::StartView { view, checkpoint: None, log: whole.clone(), end: whole.end(), committed: at(0) },
    );
    one.sync();
    one.said();
    let summary = whole.summary(at(1)).expect("its own");
    one.hear(NodeId(2), Message::Commit { view, committed: at(1), summary, round: 1 });
    assert_eq!(one.replica.group(), &next);
    assert_eq!(promised(&one.said()), None);
}
