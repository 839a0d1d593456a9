//! Processes of two kinds under one driver.

use crate::{Lsn, NodeId, Outbox, Process, Time};
use std::cell::Cell;

/// A process that is of one of two kinds, which talk with each other; and so are its timers, requests, events and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Either<A, B> {
    /// The first kind.
    First(A),
    /// The second kind.
    Second(B),
}

impl<A: Process, B: Process<Message = A::Message>> Either<A, B> {
    fn step(
        &mut self,
        out: &mut Outbox<Self>,
        first: impl FnOnce(&mut A, &mut Outbox<A>),
        second: impl FnOnce(&mut B, &mut Outbox<B>),
    ) {
        use Either::{First, Second};
        match self {
            First(process) => out.take_over(|own| first(process, own), First, First, First),
            Second(process) => out.take_over(|own| second(process, own), Second, Second, Second),
        }
    }
}

/// What is for the other kind is ignored.
impl<A: Process, B: Process<Message = A::Message>> Process for Either<A, B> {
    type Message = A::Message;
    type Timer = Either<A::Timer, B::Timer>;
    type Request = Either<A::Request, B::Request>;
    type Event = Either<A::Event, B::Event>;
    type Record = Either<A::Record, B::Record>;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.step(out, |process, out| process.start(now, out), |process, out| process.start(now, out));
    }

    fn receive(&mut self, now: Time, from: NodeId, message: A::Message, out: &mut Outbox<Self>) {
        let message = Cell::new(Some(message));
        let take = || message.take();
        self.step(
            out,
            |process, out| take().into_iter().for_each(|message| process.receive(now, from, message, out)),
            |process, out| take().into_iter().for_each(|message| process.receive(now, from, message, out)),
        );
    }

    fn expire(&mut self, now: Time, timer: Self::Timer, out: &mut Outbox<Self>) {
        let (first, second) = timer.split();
        self.step(
            out,
            |process, out| first.into_iter().for_each(|timer| process.expire(now, timer, out)),
            |process, out| second.into_iter().for_each(|timer| process.expire(now, timer, out)),
        );
    }

    fn request(&mut self, now: Time, request: Self::Request, out: &mut Outbox<Self>) {
        let (first, second) = request.split();
        self.step(
            out,
            |process, out| first.into_iter().for_each(|request| process.request(now, request, out)),
            |process, out| second.into_iter().for_each(|request| process.request(now, request, out)),
        );
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        self.step(
            out,
            |process, out| process.durable(now, upto, out),
            |process, out| process.durable(now, upto, out),
        );
    }
}

impl<A, B> Either<A, B> {
    fn split(self) -> (Option<A>, Option<B>) {
        match self {
            Self::First(first) => (Some(first), None),
            Self::Second(second) => (None, Some(second)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimerChange;

    /// Sends what it is asked to, tells of what comes and writes it down, and takes back the timer after one that expires.
    struct Clerk;

    impl Process for Clerk {
        type Message = &'static str;
        type Timer = u8;
        type Request = &'static str;
        type Event = &'static str;
        type Record = &'static str;

        fn receive(&mut self, _: Time, _: NodeId, message: &'static str, out: &mut Outbox<Self>) {
            out.event(message);
            out.record(message);
        }

        fn request(&mut self, now: Time, request: &'static str, out: &mut Outbox<Self>) {
            out.send(NodeId(9), request);
            out.set_timer(1, now);
        }

        fn expire(&mut self, _: Time, timer: u8, out: &mut Outbox<Self>) {
            out.cancel_timer(timer + 1);
        }
    }

    #[test]
    fn each_kind_has_its_own_effects_and_hears_nothing_for_the_other() {
        let mut out = Outbox::after(Lsn(4));
        let mut second: Either<Clerk, Clerk> = Either::Second(Clerk);
        second.request(Time::ZERO, Either::First("not for it"), &mut out);
        second.expire(Time::ZERO, Either::First(1), &mut out);
        assert!(out.is_empty());
        second.request(Time::ZERO, Either::Second("ask"), &mut out);
        second.expire(Time::ZERO, Either::Second(1), &mut out);
        second.receive(Time::ZERO, NodeId(9), "answer", &mut out);
        assert_eq!(out.sends, [(NodeId(9), "ask")]);
        let timers =
            [(Either::Second(1), TimerChange::Set(Time::ZERO)), (Either::Second(2), TimerChange::Cancel)];
        assert_eq!(out.timers, timers);
        assert_eq!(
            (&out.events[..], &out.records[..]),
            (&[Either::Second("answer")][..], &[Either::Second("answer")][..])
        );
        assert_eq!(out.logged(), Lsn(5));
        let mut first: Either<Clerk, Clerk> = Either::First(Clerk);
        first.receive(Time::ZERO, NodeId(9), "more", &mut out);
        assert_eq!(out.events[1], Either::First("more"));
    }
}
