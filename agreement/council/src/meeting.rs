//! A session on sockets.

use crate::caller::Caller;
use crate::council::Council;
use crate::door::Door;
use crate::happened::{Happened, Inbound};
use crate::key::{Digest, Identity};
#[cfg(debug_assertions)]
use crate::liar::{Liar, Strategy};
use crate::news::{Failure, News, Outcome};
use crate::overtime::Overtime;
use crate::session::{Link, Session, node};
use fulmar_byzantine::{Decision, Synchronous};
use fulmar_node::{Outbox, Process, Time, TimerChange};
use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What happens in a meeting, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// News of the session.
    News(News),
    /// A member that cannot be reached yet, by its number, and why.
    Unreached(usize, String),
    /// Somebody at this address who was not let in, and why.
    Refused(String, String),
}

impl fmt::Display for Report {
    /// Members are numbered from 1 here, as people do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached(member, why) => write!(f, "member {} cannot be reached: {why}", member + 1),
            Self::Refused(address, why) => write!(f, "{address} was not let in: {why}"),
            Self::News(News::Connected(member)) => write!(f, "member {} is connected", member + 1),
            Self::News(News::Disconnected(member)) => write!(f, "member {} is gone", member + 1),
            Self::News(News::Began) => write!(f, "the first round has begun"),
            Self::News(News::Faulty { member, round, fault }) => {
                write!(f, "member {} is faulty, in round {round}: {fault}", member + 1)
            }
            Self::News(News::Decided { round, value: Some(value) }) => {
                write!(f, "decided {value} in round {round}")
            }
            Self::News(News::Decided { round, value: None }) => {
                write!(f, "decided on nothing in round {round}")
            }
            Self::News(News::Over(Ok(outcome))) => write!(f, "halted after round {}", outcome.halted),
            Self::News(News::Over(Err(why))) => write!(f, "{why}"),
        }
    }
}

/// One member's part in a session on sockets.
pub struct Meeting {
    council: Arc<Council>,
    identity: Arc<Identity>,
    own: usize,
    patience: Duration,
    #[cfg(debug_assertions)]
    lie: Option<(Strategy, Digest)>,
}

impl Meeting {
    /// The part of the member of `council` that has this key, if there is one. It waits for `patience` until all are connected,
    /// and then begins with n − t, if there are so many.
    #[must_use]
    pub fn new(council: Council, identity: Identity, patience: Duration) -> Option<Self> {
        let own = council.number(&identity.public())?;
        Some(Self {
            council: Arc::new(council),
            identity: Arc::new(identity),
            own,
            patience,
            #[cfg(debug_assertions)]
            lie: None,
        })
    }

    /// Its number, from 0.
    #[must_use]
    pub const fn own(&self) -> usize {
        self.own
    }

    /// Lies, for tests, about `value`, which it proposes: in builds with debug assertions only.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn lying(mut self, strategy: Strategy, value: Digest) -> Self {
        self.lie = Some((strategy, value));
        self
    }

    /// Takes part, by `protocol`, until it is over; the others call at `listener`. `report` is told what happens. Returns
    /// how it has ended, and the protocol as it is then.
    ///
    /// # Errors
    /// See [`Failure`]: then nothing can be said about what the others decide.
    #[expect(clippy::disallowed_methods, reason = "connections have threads of their own")]
    pub fn run<P>(
        self,
        listener: &Arc<TcpListener>,
        protocol: P,
        mut report: impl FnMut(&Report),
    ) -> Result<(Outcome, P), Failure>
    where
        P: Synchronous<Value = Decision<Digest>>,
    {
        let (tell, told) = channel();
        let door = Arc::new(Door::new(self.council.clone(), self.identity.clone()));
        let porter = {
            let (door, listener, tell) = (door.clone(), listener.clone(), tell.clone());
            thread::spawn(move || door.run(&listener, &tell))
        };
        let lines = (0..self.council.members().len()).map(|member| self.line(member, &tell)).collect();
        let mut driver = Driver {
            lines,
            door: door.clone(),
            began: Instant::now(),
            deadline: None,
            out: Outbox::default(),
            #[cfg(debug_assertions)]
            liar: self.lie.map(|(how, value)| Liar::new(how, value, self.council.members().len())),
        };
        let mut session = Session::new(self.council, self.identity, self.own, self.patience, protocol);
        let outcome = driver.run(&mut session, &told, &mut report);
        driver.hang_up();
        door.close(listener);
        // A thread that has panicked has said so.
        let _ = porter.join();
        Ok((outcome?, session.into_protocol()))
    }

    #[expect(clippy::disallowed_methods, reason = "connections have threads of their own")]
    fn line(&self, member: usize, tell: &Sender<Happened>) -> Line {
        if member == self.own {
            return Line::default();
        }
        let (frames, received) = channel();
        let (council, identity) = (self.council.clone(), self.identity.clone());
        let caller = Caller { council, identity, member, frames: received, tell: tell.clone() };
        Line { inbound: None, outbound: Some((frames, thread::spawn(move || caller.run()))) }
    }
}

/// The two connections with a member. There are none with oneself.
#[derive(Default)]
struct Line {
    inbound: Option<Inbound>,
    outbound: Option<(Sender<Vec<u8>>, JoinHandle<()>)>,
}

impl Line {
    fn send(&self, bytes: Vec<u8>) {
        if let Some((frames, _)) = &self.outbound {
            // Whoever is not reached misses it, which is for the others to find out.
            let _ = frames.send(bytes);
        }
    }
}

struct Driver<S: Process> {
    /// By member.
    lines: Vec<Line>,
    door: Arc<Door>,
    began: Instant,
    deadline: Option<Time>,
    out: Outbox<S>,
    #[cfg(debug_assertions)]
    liar: Option<Liar>,
}

impl<P> Driver<Session<P>>
where
    P: Synchronous<Value = Decision<Digest>>,
{
    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    fn run(
        &mut self,
        session: &mut Session<P>,
        told: &Receiver<Happened>,
        report: &mut impl FnMut(&Report),
    ) -> Result<Outcome, Failure> {
        let mut overtime = Overtime::among(self.lines.len());
        session.start(self.now(), &mut self.out);
        loop {
            if let Some(outcome) = self.carry_out(report) {
                return outcome;
            }
            self.door.is_open.store(session.is_open(), SeqCst);
            let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.since(self.now()));
            match overtime.next(told, left) {
                Some(happened) => self.take(session, happened, report),
                None => session.expire(self.now(), (), &mut self.out),
            }
        }
    }

    fn take(&mut self, session: &mut Session<P>, happened: Happened, report: &mut impl FnMut(&Report)) {
        let now = self.now();
        match happened {
            Happened::Link(link) => session.request(now, link, &mut self.out),
            Happened::Unreached(member, why) => report(&Report::Unreached(member, why)),
            Happened::Refused(address, why) => report(&Report::Refused(address, why)),
            Happened::Heard(member, inbound) => {
                // One that is there already is replaced while that does no harm: its member has been started again.
                if session.is_open() {
                    let _ = inbound.go_on.send(());
                    if self.lines[member].inbound.replace(inbound).is_none() {
                        session.request(now, Link::Heard(member), &mut self.out);
                    }
                }
            }
            Happened::Frame(member, serial, frame) => {
                let Some(inbound) = self.current(member, serial) else { return };
                // It has ended by itself if that fails.
                let _ = inbound.go_on.send(());
                session.receive(now, node(member), frame, &mut self.out);
            }
            Happened::Ended(member, serial, fault) => {
                if self.current(member, serial).is_some() {
                    self.lines[member].inbound = None;
                    session.request(now, Link::Unheard(member, fault), &mut self.out);
                }
            }
        }
    }

    fn current(&self, member: usize, serial: u64) -> Option<&Inbound> {
        self.lines[member].inbound.as_ref().filter(|inbound| inbound.serial == serial)
    }

    /// Does what the session wants done. Says how it has ended, if it has.
    fn carry_out(&mut self, report: &mut impl FnMut(&Report)) -> Option<Result<Outcome, Failure>> {
        for (to, frame) in self.out.sends.drain(..) {
            let member = to.0 as usize;
            #[cfg(debug_assertions)]
            if let Some(liar) = &mut self.liar {
                liar.send(member, &frame).into_iter().for_each(|bytes| self.lines[member].send(bytes));
                continue;
            }
            self.lines[member].send(frame.to_bytes());
        }
        for ((), change) in self.out.timers.drain(..) {
            self.deadline = match change {
                TimerChange::Set(deadline) => Some(deadline),
                TimerChange::Cancel => None,
            };
        }
        let mut outcome = None;
        for news in self.out.events.drain(..) {
            if let News::Faulty { member, .. } = news {
                self.lines[member].inbound = None;
            }
            let news = Report::News(news);
            report(&news);
            if let Report::News(News::Over(how)) = news {
                outcome = Some(how);
            }
        }
        outcome
    }

    /// Sends what is still to be sent, and ends all connections.
    fn hang_up(&mut self) {
        let threads = self.lines.drain(..).filter_map(|line| Some(line.outbound?.1)).collect::<Vec<_>>();
        for thread in threads {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
