//! Hosted programs: ordinary code that blocks, in virtual time.
//!
//! A program has a thread of its own, but there is only one baton: the simulator hands it to a program and waits until
//! the program asks for something, which hands it back. So the order of everything that happens is the simulator's.

use crate::baton::Baton;
use crate::node::Input;
use crate::seeds::panic_message;
use crate::sim::Happening;
use crate::trace::What;
use crate::{Sim, Simulated};
use fulmar_node::{NodeId, Process, Time};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What an error costs in virtual time, so that a program which tries again and again lets others go on.
const ERROR: Duration = Duration::from_millis(1);

/// After so many errors at the end of its simulation, a program is told the hard way.
const PATIENCE: u32 = 10_000;

/// Why a program got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The process is gone with what it was asked, and another in its place does not know this program.
    #[error("node {0} has crashed")]
    Crashed(NodeId),
    /// A node has one program at a time.
    #[error("node {0} has a program already")]
    Taken(NodeId),
    /// The simulation is over, and the program should end: one that asks thousands of times more panics.
    #[error("the simulation has ended")]
    Ended,
}

enum Ask<P: Process> {
    Call(P::Request),
    Request(P::Request),
    Event(Option<Duration>),
    Sleep(Duration),
    Attach(NodeId),
    Done(Result<(), String>),
}

struct Answer<E> {
    now: Time,
    said: Result<Option<E>, PortError>,
}

type ProgramBaton<P> = Baton<Ask<P>, Answer<<P as Process>::Event>>;

/// A program's way to the process of its node.
pub struct Port<P: Process> {
    baton: Arc<ProgramBaton<P>>,
    now: Cell<Time>,
    node: Cell<NodeId>,
    errors_after_end: Cell<u32>,
}

impl<P: Process> Port<P> {
    /// The node on which the program runs.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node.get()
    }

    /// What the node's clock shows. It stands still while the program computes.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now.get()
    }

    /// Hands the process a request, and waits for the first event that it emits from then on. What it emits besides
    /// waits for [`Port::event`].
    ///
    /// # Errors
    ///
    /// If the process has crashed, before the call or meanwhile.
    pub fn call(&self, request: P::Request) -> Result<P::Event, PortError> {
        let event = self.ask(Ask::Call(request))?;
        Ok(event.expect("a call ends with an event or an error"))
    }

    /// Hands the process a request, and waits for nothing.
    ///
    /// # Errors
    ///
    /// If the process has crashed.
    pub fn request(&self, request: P::Request) -> Result<(), PortError> {
        self.ask(Ask::Request(request)).map(|_| ())
    }

    /// The next event that the program was not told yet; waits for it, at most so long.
    ///
    /// # Errors
    ///
    /// If the process has crashed, before the call or meanwhile.
    pub fn event(&self, timeout: Option<Duration>) -> Result<Option<P::Event>, PortError> {
        self.ask(Ask::Event(timeout))
    }

    /// Waits for so long in virtual time, whatever becomes of the node.
    ///
    /// # Errors
    ///
    /// If the simulation ends meanwhile.
    pub fn sleep(&self, duration: Duration) -> Result<(), PortError> {
        self.ask(Ask::Sleep(duration)).map(|_| ())
    }

    /// Moves the program to a node that is up: another, or its own after a crash.
    ///
    /// # Errors
    ///
    /// If the node is down or has a program.
    pub fn attach(&self, node: NodeId) -> Result<(), PortError> {
        self.ask(Ask::Attach(node))?;
        self.node.set(node);
        Ok(())
    }

    /// Hands the baton over, and waits for it.
    fn ask(&self, ask: Ask<P>) -> Result<Option<P::Event>, PortError> {
        self.baton.ask(ask);
        let Some(answer) = self.baton.answer() else {
            let errors = self.errors_after_end.get() + 1;
            self.errors_after_end.set(errors);
            assert!(errors < PATIENCE, "a program must end when its simulation has ended");
            return Err(PortError::Ended);
        };
        self.now.set(answer.now);
        answer.said
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// For its turn, which comes.
    Turn,
    /// For an event after its request, which the process has not seen yet.
    Service,
    /// For an event.
    Event,
    /// For nothing any more.
    Over,
}

/// The simulator's side of a program.
pub(crate) struct Program<P: Process> {
    baton: Arc<ProgramBaton<P>>,
    thread: Option<JoinHandle<()>>,
    node: NodeId,
    /// The incarnation of the node that it belongs to.
    incarnation: u32,
    /// Counts its waits; a wake-up for an earlier one is stale.
    turn: u64,
    waiting: Waiting,
    /// What it is told at its turn.
    said: Result<Option<P::Event>, PortError>,
    unread: VecDeque<P::Event>,
}

impl<P: Process> Program<P> {
    /// Takes an event; returns the turn to wake it for, if it has waited for that.
    pub(crate) fn hear(&mut self, event: P::Event) -> Option<u64> {
        if self.waiting == Waiting::Event {
            Some(self.answer(Ok(Some(event))))
        } else {
            self.unread.push_back(event);
            None
        }
    }

    /// The process takes up a request.
    pub(crate) fn is_served(&mut self) {
        if self.waiting == Waiting::Service {
            self.waiting = Waiting::Event;
        }
    }

    /// The process crashes; returns the turn to wake the program for, if it waits for the process.
    pub(crate) fn lose(&mut self) -> Option<u64> {
        self.unread.clear();
        let waits = matches!(self.waiting, Waiting::Service | Waiting::Event);
        waits.then(|| self.answer(Err(PortError::Crashed(self.node))))
    }

    fn answer(&mut self, said: Result<Option<P::Event>, PortError>) -> u64 {
        self.said = said;
        self.waiting = Waiting::Turn;
        self.turn += 1;
        self.turn
    }

    fn end(&mut self) {
        self.waiting = Waiting::Over;
        self.baton.abandon();
        if let Some(thread) = self.thread.take() {
            // The thread has told of its panic.
            let _ = thread.join();
        }
    }
}

impl<P: Simulated> Sim<P> {
    /// Lets a program run on a node, from now on and in virtual time. The node's events are the program's from now on.
    /// When the node crashes, the program loses it, but not its own memory: it ends, or attaches to a node that is up.
    ///
    /// The program may share values with other programs and with the simulation's user behind locks, but must hold
    /// none while it waits at its port. It must end when it is told that the simulation has.
    ///
    /// # Panics
    ///
    /// If the node has a program that has not ended, or no thread can be made. A panic of the program becomes one of
    /// the simulation.
    pub fn host(&mut self, id: NodeId, program: impl FnOnce(Port<P>) + Send + 'static)
    where
        P::Request: Send,
        P::Event: Send,
    {
        let index = self.programs.len();
        let node = self.node_mut(id);
        assert!(node.program.is_none(), "{id} has a program already");
        let incarnation = node.incarnation;
        if node.process.is_some() {
            node.program = Some(index);
        }
        let baton = Arc::new(Baton::new());
        let its_baton = Arc::clone(&baton);
        let body = move || {
            let Some(Answer { now, .. }) = its_baton.answer() else { return };
            let port = Port {
                baton: Arc::clone(&its_baton),
                now: Cell::new(now),
                node: Cell::new(id),
                errors_after_end: Cell::new(0),
            };
            let result = catch_unwind(AssertUnwindSafe(|| program(port)));
            its_baton.ask(Ask::Done(result.map_err(|payload| panic_message(payload.as_ref()))));
        };
        let thread = thread::Builder::new().name(format!("program on {id}")).spawn(body);
        self.programs.push(Program {
            baton,
            thread: Some(thread.expect("a thread for a program")),
            node: id,
            incarnation,
            turn: 0,
            waiting: Waiting::Turn,
            said: Ok(None),
            unread: VecDeque::new(),
        });
        self.running += 1;
        self.wheel.insert(self.now, Happening::Wake { program: index, turn: 0 });
    }

    /// How many programs have not ended.
    #[must_use]
    pub const fn programs_running(&self) -> usize {
        self.running
    }

    /// Lets a program run until it waits for something, unless its node is paused.
    pub(crate) fn wake(&mut self, index: usize, turn: u64) {
        let program = &mut self.programs[index];
        if program.turn != turn || program.waiting == Waiting::Over {
            return;
        }
        let id = program.node;
        if self.nodes[id.0 as usize].as_deref().is_some_and(|n| n.paused && n.program == Some(index)) {
            self.node_mut(id).inbox.push_back(Input::Wake { program: index, turn });
            return;
        }
        program.waiting = Waiting::Turn;
        let said = std::mem::replace(&mut program.said, Ok(None));
        self.hand_over(index, said);
        while let Some(said) = self.obey(index) {
            self.hand_over(index, said);
        }
    }

    fn hand_over(&self, index: usize, said: Result<Option<P::Event>, PortError>) {
        let program = &self.programs[index];
        let now = self.node(program.node).clock.shows(self.now);
        program.baton.tell(Answer { now, said });
    }

    /// Waits for what a program asks for, and does it; returns what can be answered at once.
    fn obey(&mut self, index: usize) -> Option<Result<Option<P::Event>, PortError>> {
        let now = self.now;
        let program = &mut self.programs[index];
        let (id, incarnation) = (program.node, program.incarnation);
        let ask = program.baton.question();
        let needs_process = matches!(ask, Ask::Call(_) | Ask::Request(_) | Ask::Event(_));
        if needs_process && self.node(id).program != Some(index) {
            self.refuse(index, PortError::Crashed(id));
            return None;
        }
        match ask {
            Ask::Call(request) => {
                let program = &mut self.programs[index];
                program.answer(Ok(None));
                program.waiting = Waiting::Service;
                let input = Input::Request(request);
                self.wheel.insert(now, Happening::Input { node: id, incarnation, input });
                None
            }
            Ask::Request(request) => {
                let input = Input::Request(request);
                self.wheel.insert(now, Happening::Input { node: id, incarnation, input });
                Some(Ok(None))
            }
            Ask::Event(timeout) => {
                let program = &mut self.programs[index];
                if let Some(event) = program.unread.pop_front() {
                    return Some(Ok(Some(event)));
                }
                let turn = program.answer(Ok(None));
                program.waiting = Waiting::Event;
                if let Some(timeout) = timeout {
                    self.wheel.insert(now + timeout, Happening::Wake { program: index, turn });
                }
                None
            }
            Ask::Sleep(duration) => {
                let turn = self.programs[index].answer(Ok(None));
                self.wheel.insert(now + duration, Happening::Wake { program: index, turn });
                None
            }
            Ask::Attach(to) => self.attach(index, to),
            Ask::Done(result) => {
                self.detach(index);
                self.running -= 1;
                self.programs[index].end();
                if let Err(message) = result {
                    panic!("at {now}, the program on {id} panicked (seed {}): {message}", self.seed.number);
                }
                self.trace.add(now, id, What::Program, format_args!("ended"));
                None
            }
        }
    }

    fn attach(&mut self, index: usize, to: NodeId) -> Option<Result<Option<P::Event>, PortError>> {
        let node = self.node(to);
        let incarnation = node.incarnation;
        if node.process.is_none() {
            self.refuse(index, PortError::Crashed(to));
            return None;
        }
        if node.program.is_some_and(|other| other != index) {
            self.refuse(index, PortError::Taken(to));
            return None;
        }
        self.detach(index);
        self.node_mut(to).program = Some(index);
        let program = &mut self.programs[index];
        program.node = to;
        program.incarnation = incarnation;
        self.trace.add(self.now, to, What::Program, format_args!("attached"));
        Some(Ok(None))
    }

    fn detach(&mut self, index: usize) {
        let node = self.node_mut(self.programs[index].node);
        if node.program == Some(index) {
            node.program = None;
        }
        self.programs[index].unread.clear();
    }

    fn refuse(&mut self, index: usize, error: PortError) {
        let turn = self.programs[index].answer(Err(error));
        self.wheel.insert(self.now + ERROR, Happening::Wake { program: index, turn });
    }
}

impl<P: Simulated> Drop for Sim<P> {
    /// Ends the programs, one after the other, and leaves the trace with the seed.
    fn drop(&mut self) {
        for program in &mut self.programs {
            program.end();
        }
        self.seed.record(self.hash(), self.trace.kept());
    }
}
