//! What strangers say, and how much of it is remembered.

use super::super::member::CENTURY;
use super::super::message::{Heard, Span};
use super::super::roster::MOST_MEMBERS;
use super::*;
use fulmar_transport::Wire;

pub(super) fn address(number: u32) -> SocketAddr {
    let [_, high, middle, low] = number.to_be_bytes();
    SocketAddr::from(([10, high, middle, low], 7000))
}

pub(super) fn member(number: u32, standing: Standing) -> Member {
    let incarnation = Incarnation { life: 1, refutations: 0 };
    Member { address: address(number), incarnation, standing, name: Name::default() }
}

/// A question, by somebody who tells of others.
pub(super) fn question(from: u32, members: Vec<Member>) -> Message {
    Message {
        kind: Kind::Ask,
        sender: member(from, Standing::Alive),
        called: address(0),
        stamp: 1,
        pause: Duration::ZERO,
        heard: None,
        digest: Digest::default(),
        content: false,
        insists: false,
        whole: false,
        span: Span::default(),
        verdict: None,
        members,
    }
}

/// Tells a node, the smallest or the largest of addresses, of so many others.
fn told(own: SocketAddr, standing: Standing, count: u32) -> Finder {
    let mut finder = Finder::new(own, Name::default(), []);
    let now = Time::ZERO + Duration::from_secs(1);
    finder.start(now, &mut Outbox::default());
    for first in (1..=count).step_by(50) {
        let mut out = Outbox::default();
        let members = (first..first + 50).map(|number| member(number, standing)).collect();
        finder.receive(now, NodeId(0), question(first, members), &mut out);
        assert!(out.sends.len() <= 9, "{}", out.sends.len());
    }
    finder
}

/// Who is dead is forgotten for others, and then there is nothing to hand up of it.
#[test]
fn the_dead_of_strangers_leave_nothing_behind() {
    for own in [address(0), SocketAddr::from(([11, 0, 0, 1], 7000))] {
        let finder = told(own, Standing::Dead, 3 * 4_096);
        assert_eq!(finder.members().count(), MOST_MEMBERS);
        finder.invariants().expect("all is well");
    }
}

/// Once it was remembered for as long as the node lived, told to others, and asked whether it was alive after all. And a node with a
/// larger address waited for half a second for each, one after the other.
#[test]
fn what_strangers_have_invented_is_forgotten() {
    forgets(address(0), Duration::from_secs(3));
    forgets(SocketAddr::from(([11, 0, 0, 1], 7000)), Duration::from_secs(6));
}

fn forgets(own: SocketAddr, stable_within: Duration) {
    let mut finder = told(own, Standing::Alive, 400);
    assert_eq!(finder.members().count(), 401);
    let mut now = Time::ZERO + Duration::from_secs(1);
    let mut run = |finder: &mut Finder, span: Duration, least: Duration| {
        let end = now + span;
        while now < end {
            now = finder.next_due(now).unwrap_or(end).max(now + least);
            finder.expire(now, Due, &mut Outbox::default());
            finder.invariants().expect("all is well");
        }
    };
    run(&mut finder, stable_within, Duration::from_millis(1));
    assert!(finder.is_stable() && finder.view().count() == 1, "nobody has answered");
    assert_eq!(finder.members().count(), 401, "one of them may only be cut off");
    run(&mut finder, pace::REMEMBERED + pace::FORGETTING, pace::FORGETTING);
    assert_eq!(finder.members().count(), 1);
}

/// Who is alive is not: newcomers are refused, and get no answer.
#[test]
fn a_node_that_knows_enough_answers_no_newcomers() {
    let mut finder = told(address(0), Standing::Alive, 4_096);
    assert_eq!(finder.members().count(), MOST_MEMBERS);
    let mut out = Outbox::default();
    finder.receive(Time::ZERO + Duration::from_secs(1), NodeId(0), question(9_999, Vec::new()), &mut out);
    assert!(out.sends.is_empty());
    finder.invariants().expect("all is well");
}

/// Who claims to have heard what was never said has confirmed nothing.
#[test]
fn nobody_confirms_what_is_yet_to_come() {
    let now = Time::ZERO + Duration::from_secs(1);
    let mut finder = Finder::new(address(0), Name::default(), []);
    finder.start(now, &mut Outbox::default());
    let mut ask = |stamp| {
        let (life, digest) = (finder.me().incarnation.life, finder.digest());
        let heard = Some(Heard { life, stamp, have: 0 });
        let ask = Message { heard, digest, content: true, ..question(1, Vec::new()) };
        finder.receive(now, NodeId(0), ask, &mut Outbox::default());
        finder.missing(now).unconfirmed
    };
    assert_eq!(ask(0), [address(1)], "its view is another yet");
    assert_eq!(ask(u64::MAX), [address(1)]);
    assert_eq!(ask(1_000_000), []);
}

/// Who was said to be in a life near the last one took one that nobody lets pass, and was not heard any more; and nothing could be
/// said against what was said of the last.
#[test]
fn who_refutes_an_invention_is_heard() {
    let now = Time::ZERO + Duration::from_secs(1);
    let own = 1_000_000;
    let far = own + CENTURY;
    for standing in [Standing::Dead, Standing::Left] {
        for (life, refutations) in
            [(own, 0), (own, u32::MAX), (far, 0), (far, u32::MAX), (far + 1, 0), (u64::MAX, u32::MAX)]
        {
            let said = Member { incarnation: Incarnation { life, refutations }, ..member(0, standing) };
            let tell = |own, members| {
                let mut finder = Finder::new(address(own), Name::default(), []);
                finder.start(now, &mut Outbox::default());
                finder.receive(now, NodeId(0), question(1, members), &mut Outbox::default());
                finder.invariants().expect("all is well");
                finder
            };
            let (refuted, mut other) = (tell(0, vec![said.clone()]), tell(2, vec![said.clone()]));
            assert_eq!(refuted.me().outranks(&said), life <= far, "{said:?}");
            let message = Message { sender: refuted.me().clone(), ..question(1, Vec::new()) };
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Ok(message.clone()));
            // By then its clock is there, too.
            other.receive(now + Duration::from_millis(1), NodeId(0), message, &mut Outbox::default());
            assert!(other.view().any(|member| member.address == address(0)), "{said:?}");
        }
    }
}

/// Who was said to have left in a life yet to come asked in vain: nobody told it what to refute, and half of the nodes knew nothing of it
/// any more, for good. A node that began anew with its clock set back was not heard either.
#[test]
fn who_speaks_in_a_life_that_is_said_to_be_over_is_told_so() {
    let now = Time::ZERO + Duration::from_secs(1);
    let mut asker = Finder::new(address(1), Name::default(), []);
    asker.start(now, &mut Outbox::default());
    let later = Incarnation { life: CENTURY, refutations: 0 };
    let mut finder = Finder::new(address(0), Name::default(), []);
    finder.start(now, &mut Outbox::default());
    let invented = Member { incarnation: later, ..member(1, Standing::Left) };
    finder.receive(now, NodeId(0), question(2, vec![invented]), &mut Outbox::default());
    let mut exchange = |asker: &mut Finder| {
        let mut out = Outbox::default();
        asker.ask(now, address(0), &mut out);
        let mut answers = Outbox::default();
        out.sends.drain(..).for_each(|(_, ask)| finder.receive(now, NodeId(0), ask, &mut answers));
        answers.sends.into_iter().for_each(|(_, answer)| asker.receive(now, NodeId(0), answer, &mut out));
        finder.view().any(|member| member.address == address(1))
    };
    assert!(!exchange(&mut asker));
    assert!(exchange(&mut asker), "{:?}", asker.me());
}

/// A stamp in another's name, from the end of time, was what its owner was told for ever, and denied: no view was stable any more.
#[test]
fn a_stamp_that_was_invented_is_forgotten() {
    let now = Time::ZERO + Duration::from_secs(1);
    let mut finder = Finder::new(address(9), Name::default(), []);
    finder.start(now, &mut Outbox::default());
    for stamp in [5, u64::MAX, 6] {
        finder.receive(now, NodeId(0), Message { stamp, ..question(1, Vec::new()) }, &mut Outbox::default());
        assert_eq!(finder.peers.from(address(1)).map(|heard| heard.stamp), Some(stamp));
    }
}

/// A forged answer kept a node from calling again: when all that it had known was forgotten for what others invented, it was alone for
/// good.
#[test]
fn nobody_answers_a_call_who_has_not_got_it() {
    let now = Time::ZERO + Duration::from_secs(1);
    let mut finder = Finder::new(address(0), Name::default(), [address(5)]);
    finder.start(now, &mut Outbox::default());
    let (life, called) = (finder.me().incarnation.life, finder.stamp);
    let mut unanswered = |heard| {
        let answer = Message { kind: Kind::Answer, called: address(5), heard, ..question(1, Vec::new()) };
        finder.receive(now, NodeId(0), answer, &mut Outbox::default());
        finder.missing(now).unanswered
    };
    let heard = |life, stamp| Some(Heard { life, stamp, have: 0 });
    for forged in [None, heard(life, called + 1), heard(life + 1, called)] {
        assert_eq!(unanswered(forged), [address(5)]);
    }
    assert_eq!(unanswered(heard(life, called)), []);
}
