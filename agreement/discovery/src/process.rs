//! Machines as processes of the simulator: the model on messages that take time.

use crate::model::{Call, Machine, Round};
use crate::network::Tally;
use crate::{Counts, Marks};
use fulmar_node::{NodeId, Outbox, Process, Time};
use std::time::Duration;

/// How long a round is; a pull and its answer have to fit in.
pub const ROUND: Duration = Duration::from_millis(1);

/// What goes over the network.
#[derive(Clone, Debug)]
pub enum Datagram<M> {
    /// A push.
    Push(M),
    /// A pull.
    Pull,
    /// What is said to one that pulls.
    Answer(M),
}

/// A machine in rounds by the clock, as long as messages are on their way for less than half a round.
///
/// What arrives is heard at the beginning of the next round, pushes before answers, each in the order in which they came: as in
/// [`network::run`](crate::network::run).
pub struct InRounds<M: Machine> {
    machine: M,
    me: NodeId,
    round: u32,
    marks: Marks,
    pushed: Vec<M::Message>,
    answered: Vec<M::Message>,
    tally: Tally,
}

impl<M: Machine> InRounds<M> {
    /// Machine `me` of so many.
    pub fn new(me: NodeId, machines: usize, machine: M) -> Self {
        let (marks, tally) = (Marks::new(machines), Tally::new(machines));
        Self { machine, me, round: 0, marks, pushed: Vec::new(), answered: Vec::new(), tally }
    }

    /// How many machines it knows, but for what it was told in this round.
    pub fn known(&self) -> usize {
        self.machine.known()
    }

    /// What it has sent and pulled in the rounds that are over.
    pub fn counts(&self) -> Counts {
        self.tally.counts(self.round)
    }

    fn hear(&mut self) {
        let heard = self.pushed.drain(..).chain(self.answered.drain(..));
        heard.for_each(|message| self.machine.hear(message));
    }
}

impl<M: Machine> Process for InRounds<M>
where
    M::Message: Clone,
{
    type Message = Datagram<M::Message>;
    type Timer = ();
    type Request = ();
    type Event = ();
    type Record = ();

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        out.set_timer((), now + ROUND);
    }

    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        self.hear();
        let mut calls = Vec::new();
        self.machine.act(&mut Round::new(self.round, &mut self.marks, &mut calls));
        for call in calls {
            match call {
                Call::Push(to, message) => {
                    self.tally.count(self.me, &message);
                    out.send(to, Datagram::Push(message));
                }
                Call::Pull(from) => out.send(from, Datagram::Pull),
            }
        }
        self.round += 1;
        out.set_timer((), now + ROUND);
    }

    fn receive(&mut self, _now: Time, from: NodeId, datagram: Self::Message, out: &mut Outbox<Self>) {
        match datagram {
            Datagram::Push(message) => self.pushed.push(message),
            Datagram::Pull => out.send(from, Datagram::Answer(self.machine.answer())),
            Datagram::Answer(message) => {
                // What is pulled counts for who pulls.
                self.tally.count(self.me, &message);
                self.answered.push(message);
            }
        }
    }
}
