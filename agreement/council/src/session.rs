//! Rounds that begin and end nearly together, without clocks that agree: a value, told what happens and the time.

mod gathering;
mod peer;
#[cfg(test)]
mod tests;

use crate::council::Council;
use crate::frame::{Frame, Verdict};
use crate::key::{Digest, Identity};
use crate::news::{Failure, Fault, News, Outcome};
use fulmar_byzantine::{Decision, Synchronous, Wire};
use fulmar_node::{NodeId, Outbox, Process, Time};
use peer::{Peer, Progress, Standing};
use std::sync::Arc;
use std::time::Duration;

/// What becomes of the connections with a member. It calls, and is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It can be sent to, from now on.
    Called(usize),
    /// It cannot any more.
    Uncalled(usize),
    /// It can send.
    Heard(usize),
    /// It cannot any more: for `Fault::Lost`, or what else is wrong.
    Unheard(usize, Fault),
    /// It says that the others have begun.
    Begun(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Connections are made. `until` is when patience ends, at first, and then when all ends.
    Gathering {
        until: Time,
        is_patient: bool,
        is_ready: bool,
    },
    /// Round `round` goes on, of those that began at `began`.
    Running {
        began: Time,
        round: u32,
        decided: Option<u32>,
    },
    /// It has halted after `round`, and waits until then for what others have decided.
    Closing {
        until: Time,
        round: u32,
        decided: u32,
        verdict: Verdict,
    },
    Over,
}

/// A member's part in a council's session: one run of a [`Synchronous`] protocol that decides on a digest. Its timers have no names, as it has but one.
pub struct Session<P: Synchronous> {
    council: Arc<Council>,
    identity: Arc<Identity>,
    own: usize,
    patience: Duration,
    protocol: P,
    phase: Phase,
    /// By number; that of its own place stays as it is.
    peers: Vec<Peer<P::Message>>,
    /// What was sent in the first round, for those who are connected only then.
    opening: Option<Frame>,
}

impl<P> Session<P>
where
    P: Synchronous<Value = Decision<Digest>>,
{
    /// The session of member `own` of `council`, whose key is `identity`, at `protocol`. It waits for `patience` for all to be connected,
    /// and then begins with n − t.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn new(
        council: Arc<Council>,
        identity: Arc<Identity>,
        own: usize,
        patience: Duration,
        protocol: P,
    ) -> Self {
        assert!(own < council.members().len(), "member {own} is one of the council");
        let peers = (0..council.members().len()).map(|_| Peer::default()).collect();
        let phase = Phase::Gathering { until: Time::MAX, is_patient: true, is_ready: false };
        Self { council, identity, own, patience, protocol, phase, peers, opening: None }
    }

    /// Whether members may still be connected: before the end of the first round.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Gathering { .. } | Phase::Running { round: 1, .. })
    }

    /// Whether nothing more happens.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What it runs, as it is by now.
    pub fn into_protocol(self) -> P {
        self.protocol
    }

    /// The round that goes on, or was the last; 0 before the first.
    const fn round(&self) -> u32 {
        match self.phase {
            Phase::Running { round, .. } | Phase::Closing { round, .. } => round,
            Phase::Gathering { .. } | Phase::Over => 0,
        }
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Peer<P::Message>)> {
        self.peers.iter().enumerate().filter(|(number, _)| *number != self.own)
    }

    fn count(&self, is: impl Fn(&Peer<P::Message>) -> bool) -> usize {
        self.others().filter(|(_, peer)| is(peer)).count()
    }

    fn send_all(&self, frame: &Frame, out: &mut Outbox<Self>) {
        for (number, peer) in self.others() {
            if peer.is_called {
                out.send(node(number), frame.clone());
            }
        }
    }

    fn end(&mut self, outcome: Result<Outcome, Failure>, out: &mut Outbox<Self>) {
        self.phase = Phase::Over;
        out.cancel_timer(());
        out.event(News::Over(outcome));
    }

    fn send_round(&mut self, out: &mut Outbox<Self>) {
        let Phase::Running { began, round, .. } = self.phase else { return };
        let mut message = Vec::new();
        self.protocol.send(round).encode(&mut message);
        let frame = Frame::Round { round, message };
        self.send_all(&frame, out);
        self.opening = (round == 1).then_some(frame);
        out.set_timer((), began + self.council.round() * round);
    }

    /// Ends rounds before their time is up if nothing more can come and all were sent to, who may be connected only then. No correct process is then more than one round ahead of
    /// another, as it has a message of each that is not faulty; and none is later than by its clock.
    fn go_on(&mut self, out: &mut Outbox<Self>) {
        while let Phase::Running { round, .. } = self.phase {
            if self.count(|peer| peer.is_awaited(round)) > 0 {
                return;
            }
            self.end_round(out);
        }
        self.close(out);
    }

    fn end_round(&mut self, out: &mut Outbox<Self>) {
        let Phase::Running { began, round, decided } = self.phase else { return };
        for number in 0..self.peers.len() {
            if number != self.own && !self.peers[number].has_sent(round) {
                self.blame(number, Fault::Silent, out);
            }
        }
        if self.phase == Phase::Over {
            return;
        }
        let messages = self.peers.iter_mut().map(|peer| peer.take(round)).collect::<Vec<_>>();
        self.protocol.receive(round, &messages);
        let value = self.protocol.decision().map(|decision| match decision {
            Decision::Value(value) => Some(value),
            Decision::Bottom | Decision::Bad => None,
        });
        let decided = match (decided, value) {
            (None, Some(value)) => {
                out.event(News::Decided { round, value });
                Some(round)
            }
            (decided, _) => decided,
        };
        if !self.protocol.has_halted() {
            self.phase = Phase::Running { began, round: round + 1, decided };
            self.send_round(out);
            return;
        }
        let (Some(value), Some(decided)) = (value, decided) else {
            return self.end(Err(Failure::Undecided), out);
        };
        let verdict = Verdict::sign(&self.council, &self.identity, value);
        // All correct processes halt within two rounds of each other (Abraham and Dolev 2015, theorem 3.8), and begin within one.
        let until = began + self.council.round() * (round + 3);
        self.phase = Phase::Closing { until, round, decided, verdict };
        self.send_all(&Frame::Halted(verdict), out);
        out.set_timer((), until);
    }

    /// Ends it when all others have halted, or are faulty.
    fn close(&mut self, out: &mut Outbox<Self>) {
        let Phase::Closing { round, decided, verdict, .. } = self.phase else { return };
        if self.count(|peer| peer.standing == Standing::Present) > 0 {
            return;
        }
        let is_other = |peer: &Peer<_>| matches!(peer.standing, Standing::Halted(halted) if halted.value != verdict.value);
        for number in 0..self.peers.len() {
            if is_other(&self.peers[number]) {
                self.peers[number].standing = Standing::Present;
                self.blame(number, Fault::Dissenting, out);
            }
        }
        if self.phase == Phase::Over {
            return;
        }
        let mut verdicts = vec![None; self.peers.len()];
        let mut faulty = Vec::new();
        verdicts[self.own] = Some(verdict);
        for (number, peer) in self.others() {
            match peer.standing {
                Standing::Halted(halted) => verdicts[number] = Some(halted),
                Standing::Faulty(round, fault) => faulty.push((number, round, fault)),
                Standing::Present => {}
            }
        }
        let value = verdict.value;
        self.end(Ok(Outcome { value, decided, halted: round, verdicts, faulty }), out);
    }

    /// Takes nothing more of a member that has not halted. When more are faulty than can be, nothing that is decided means anything.
    fn blame(&mut self, number: usize, fault: Fault, out: &mut Outbox<Self>) {
        let round = self.round();
        let peer = &mut self.peers[number];
        if self.phase == Phase::Over || peer.standing != Standing::Present {
            return;
        }
        peer.convict(round, fault);
        out.event(News::Faulty { member: number, round, fault });
        let faulty = self.count(Peer::is_faulty);
        let tolerates = self.council.tolerates();
        if faulty > tolerates {
            self.end(Err(Failure::Faulty { round, faulty, tolerates }), out);
        }
    }

    fn hear(&mut self, number: usize, frame: Frame, out: &mut Outbox<Self>) {
        let has_halted = matches!(self.phase, Phase::Closing { .. });
        let progress = Progress { round: self.round(), has_halted };
        let (peer, key) = (&mut self.peers[number], &self.council.members()[number].key);
        if peer.standing != Standing::Present {
            return;
        }
        if let Err(fault) = peer.hear(frame, progress, &self.council, key) {
            self.blame(number, fault, out);
        }
    }
}

/// A member as processes are called.
pub(crate) fn node(number: usize) -> NodeId {
    NodeId(u32::try_from(number).unwrap_or(u32::MAX))
}

impl<P> Process for Session<P>
where
    P: Synchronous<Value = Decision<Digest>>,
{
    type Message = Frame;
    type Timer = ();
    type Request = Link;
    type Event = News;
    type Record = ();

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        let until = now + self.patience;
        self.phase = Phase::Gathering { until, is_patient: true, is_ready: false };
        out.set_timer((), until);
        self.get_ready(now, out);
    }

    fn receive(&mut self, now: Time, from: NodeId, frame: Frame, out: &mut Outbox<Self>) {
        let number = from.0 as usize;
        if number >= self.peers.len() || number == self.own || self.is_over() {
            return;
        }
        self.hear(number, frame, out);
        self.get_ready(now, out);
        self.go_on(out);
    }

    fn request(&mut self, now: Time, link: Link, out: &mut Outbox<Self>) {
        if self.is_over() {
            return;
        }
        self.link(link, out);
        self.get_ready(now, out);
        self.go_on(out);
    }

    fn expire(&mut self, now: Time, (): (), out: &mut Outbox<Self>) {
        match self.phase {
            Phase::Gathering { until, .. } if now >= until => self.lose_patience(now, out),
            Phase::Running { began, round, .. } if now >= began + self.council.round() * round => {
                self.end_round(out);
                self.go_on(out);
            }
            Phase::Closing { until, .. } if now >= until => {
                for number in 0..self.peers.len() {
                    if number != self.own {
                        self.blame(number, Fault::Silent, out);
                    }
                }
                self.close(out);
            }
            _ => {}
        }
    }
}
