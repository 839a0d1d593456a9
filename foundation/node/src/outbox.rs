//! The effects of a step, as data.

use crate::{Lsn, MulticastId, NodeId, Process, Time};
use std::fmt;

/// A change of a timer's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerChange {
    /// It expires at this time, instead of any time set before. A time that has passed means as soon as may be.
    Set(Time),
    /// It has no deadline any more.
    Cancel,
}

/// What a process wants done: owned by the driver, filled by one step or several, and cleared for the next.
///
/// Sends leave in their order, to one receiver as to another; records are appended in their order. A driver may send
/// before the records of the same step are durable.
pub struct Outbox<P: Process + ?Sized> {
    /// Messages to one process each.
    pub sends: Vec<(NodeId, P::Message)>,
    /// Messages to all of a set.
    pub multicasts: Vec<(MulticastId, P::Message)>,
    /// Changes of deadlines, in order.
    pub timers: Vec<(P::Timer, TimerChange)>,
    /// Records to append to the process's log.
    pub records: Vec<P::Record>,
    /// What the local user is told.
    pub events: Vec<P::Event>,
    /// How many records the process had emitted before those in `records`.
    logged: u64,
}

impl<P: Process + ?Sized> Outbox<P> {
    /// The outbox of a process that has been made from so many records.
    #[must_use]
    pub fn after(logged: Lsn) -> Self {
        Self { logged: logged.0, ..Self::default() }
    }

    /// Sends a message to one process.
    pub fn send(&mut self, to: NodeId, message: P::Message) {
        self.sends.push((to, message));
    }

    /// Sends a message to a set of processes.
    pub fn multicast(&mut self, to: MulticastId, message: P::Message) {
        self.multicasts.push((to, message));
    }

    /// Lets a timer expire at `deadline`, and no more at any time set before.
    pub fn set_timer(&mut self, timer: P::Timer, deadline: Time) {
        self.timers.push((timer, TimerChange::Set(deadline)));
    }

    /// Takes a timer's deadline back.
    pub fn cancel_timer(&mut self, timer: P::Timer) {
        self.timers.push((timer, TimerChange::Cancel));
    }

    /// Appends a record to the log; returns its place, of which [`Process::durable`] tells later.
    pub fn record(&mut self, record: P::Record) -> Lsn {
        self.records.push(record);
        self.logged()
    }

    /// The place of the last record emitted.
    #[must_use]
    pub fn logged(&self) -> Lsn {
        Lsn(self.logged + self.records.len() as u64)
    }

    /// Tells the local user something.
    pub fn event(&mut self, event: P::Event) {
        self.events.push(event);
    }

    /// Lets a process that this one is made of take a step, and takes over what it wants done; `timer`, `event` and `record`
    /// say what its own are called here.
    pub fn take_over<Q: Process<Message = P::Message>>(
        &mut self,
        step: impl FnOnce(&mut Outbox<Q>),
        timer: impl Fn(Q::Timer) -> P::Timer,
        event: impl Fn(Q::Event) -> P::Event,
        record: impl Fn(Q::Record) -> P::Record,
    ) {
        let mut own = Outbox::after(self.logged());
        step(&mut own);
        self.sends.append(&mut own.sends);
        self.multicasts.append(&mut own.multicasts);
        self.timers.extend(own.timers.into_iter().map(|(name, change)| (timer(name), change)));
        self.records.extend(own.records.into_iter().map(record));
        self.events.extend(own.events.into_iter().map(event));
    }

    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
            && self.multicasts.is_empty()
            && self.timers.is_empty()
            && self.records.is_empty()
            && self.events.is_empty()
    }

    /// Forgets all effects, which have been carried out, and keeps the memory that they took.
    pub fn clear(&mut self) {
        self.logged += self.records.len() as u64;
        self.sends.clear();
        self.multicasts.clear();
        self.timers.clear();
        self.records.clear();
        self.events.clear();
    }
}

impl<P: Process + ?Sized> Default for Outbox<P> {
    fn default() -> Self {
        Self {
            sends: Vec::new(),
            multicasts: Vec::new(),
            timers: Vec::new(),
            records: Vec::new(),
            events: Vec::new(),
            logged: 0,
        }
    }
}

impl<P: Process + ?Sized> fmt::Debug for Outbox<P>
where
    P::Message: fmt::Debug,
    P::Timer: fmt::Debug,
    P::Record: fmt::Debug,
    P::Event: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("sends", &self.sends)
            .field("multicasts", &self.multicasts)
            .field("timers", &self.timers)
            .field("records", &self.records)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scribe;

    impl Process for Scribe {
        type Message = ();
        type Timer = u8;
        type Request = ();
        type Event = ();
        type Record = u32;
    }

    #[test]
    fn records_are_counted_across_steps_and_restarts() {
        let mut out = Outbox::<Scribe>::after(Lsn(4));
        assert_eq!(out.record(7), Lsn(5));
        assert_eq!(out.record(8), Lsn(6));
        out.clear();
        assert!(out.is_empty());
        assert_eq!(out.logged(), Lsn(6));
        assert_eq!(out.record(9), Lsn(7));
    }
}
