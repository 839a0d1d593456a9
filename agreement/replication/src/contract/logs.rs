//! With which log a replica goes on: its leader's, and the one with which a view begins.

use super::{LEADER, One, at, checkpoint, heartbeat, log, promised};
use crate::{Log, Message, Options, Protocol, View};
use fulmar_node::NodeId;

/// It lost what a client had asked for first, as its connection was full. Where a client believes nobody but all, nobody has believed
/// what it answered then, and no view has to change for it.
#[test]
fn who_has_found_other_places_than_the_leader_takes_those() {
    for protocol in [Protocol::Fast, Protocol::Speculative] {
        let mut one = One::begun(protocol, Options::default());
        [2, 3].into_iter().for_each(|number| one.ask(number));
        one.sync();
        one.said();
        one.follow(&log([]), 1..=3, 0);
        one.sync();
        assert_eq!(
            (one.replica.view(), &one.replica.log),
            (Some(View::first_of(0)), &log(1..=3)),
            "{protocol:?}"
        );
        let promised = promised(&one.said());
        assert_eq!(promised, Some(log(1..=3).end()), "{protocol:?}");
        one.hear(LEADER, heartbeat(3, &log(1..=3)));
        assert_eq!(one.replica.committed(), at(3), "{protocol:?}");
    }
}

/// What was committed where it came, without a leader that had given it its place, keeps that in a view that begins with logs whose
/// parts come one by one, and of which the new leader has the rest itself.
#[test]
fn a_log_that_comes_in_parts_is_no_shorter_at_its_beginning() {
    let mut one = One::begun(Protocol::Fast, Options::default());
    let (whole, first) = (log(1..=6), View::first_of(0));
    one.hear(
        LEADER,
        Message::StartView {
            view: first,
            checkpoint: Some(checkpoint(Protocol::Fast, &whole, 3)),
            log: Log::after(at(3), whole.summary(at(3)).expect("its own")),
            end: log(1..=3).end(),
            committed: at(3),
        },
    );
    for number in 4..=6 {
        one.ask(number);
    }
    let view = first.after(1);
    [LEADER, NodeId(2)].into_iter().for_each(|other| one.hear(other, Message::StartViewChange { view }));
    one.sync();
    for parts in [1..=4, 5..=5] {
        let mut part = log(1..=*parts.end());
        part.drop_until(at(parts.start() - 1));
        one.hear(
            LEADER,
            Message::DoViewChange {
                view,
                last_normal: first,
                log: part,
                end: whole.end(),
                ordered: at(0),
                committed: at(0),
            },
        );
    }
    assert_eq!(one.replica.view(), Some(view));
    assert_eq!(one.replica.log, whole.part(at(3), usize::MAX));
}

/// Another has committed more, and has nothing before that in its log any more, as one that copies a state: who is to lead the view
/// has that itself, and needs nobody to say so (seed 11707).
#[test]
fn who_has_what_others_have_committed_begins_a_view_with_it() {
    let mut one = One::begun(Protocol::Viewstamped, Options::default());
    let (whole, first) = (log(1..=6), View::first_of(0));
    one.follow(&log([]), 1..=6, 3);
    one.sync();
    let view = first.after(1);
    [LEADER, NodeId(2)].into_iter().for_each(|other| one.hear(other, Message::StartViewChange { view }));
    one.sync();
    let mut late = whole.clone();
    late.drop_until(at(5));
    let (end, ordered, committed) = (whole.end(), at(6), at(5));
    one.hear(
        NodeId(2),
        Message::DoViewChange { view, last_normal: first, log: late, end, ordered, committed },
    );
    assert_eq!(one.replica.view(), Some(view));
    assert_eq!(one.replica.log, whole);
}
