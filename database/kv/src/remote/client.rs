//! The client: one question at a time, about one database.

use super::message::{Answer, DatabaseNumber, Message, Question};
use crate::Timestamp;
use fulmar_node::{NodeId, Outbox, Process, Time};
use std::time::Duration;

/// After so long without an answer a question is asked again.
const PATIENCE: Duration = Duration::from_millis(500);
/// After so many a client gives up.
const ATTEMPTS: u32 = 120;

/// What a client can be asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A question to the server, which is answered by an event.
    Question(Question),
    /// From now on this server is asked.
    Server(NodeId),
    /// To tell the server that a snapshot has ended: nothing answers.
    CloseSnapshot(Timestamp),
}

/// What a client tells its user: one for each question.
#[derive(Clone, Debug)]
pub enum Reply {
    /// What the server said.
    Answer(Answer),
    /// It has not answered for a minute. Whether it has done what it was asked is unknown.
    Silence,
}

/// A process that asks a server, and asks again. It opens the database when it has to, as often as it has to.
pub struct Client {
    /// Whom to ask: nobody at first.
    server: Option<NodeId>,
    name: String,
    /// Whether to make the database, if there is none, when it is first opened.
    create: bool,
    open: Option<DatabaseNumber>,
    number: u64,
    asked: Option<Asked>,
}

struct Asked {
    question: Question,
    attempts: u32,
    /// How many times the question itself has been sent, and not only the one to open the database, to a server that may
    /// have heard it.
    sent: u32,
}

impl Client {
    /// A client for the database of this name.
    pub fn new(name: impl Into<String>, create: bool) -> Self {
        Self { server: None, name: name.into(), create, open: None, number: 0, asked: None }
    }

    fn ask(&mut self, now: Time, out: &mut Outbox<Self>) {
        let (Some(asked), Some(server)) = (&mut self.asked, self.server) else { return };
        let number = self.number;
        let message = match self.open {
            Some(database) => {
                let again = asked.sent > 0;
                asked.sent += 1;
                Message::Question { number, again, database, question: asked.question.clone() }
            }
            None => {
                let question = Question::Open { name: self.name.clone(), create: self.create };
                Message::Question { number, again: false, database: DatabaseNumber::default(), question }
            }
        };
        out.send(server, message);
        out.set_timer((), now + PATIENCE);
    }
}

impl Process for Client {
    type Message = Message;
    type Timer = ();
    type Request = Ask;
    type Event = Reply;
    type Record = ();

    fn request(&mut self, now: Time, ask: Ask, out: &mut Outbox<Self>) {
        match ask {
            Ask::Question(question) => {
                self.number += 1;
                self.asked = Some(Asked { question, attempts: 1, sent: 0 });
                self.ask(now, out);
            }
            Ask::Server(server) => self.server = Some(server),
            Ask::CloseSnapshot(at) => {
                if let (Some(database), Some(server)) = (self.open, self.server) {
                    out.send(server, Message::SnapshotClosed(database, at));
                }
            }
        }
    }

    fn receive(&mut self, now: Time, _from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let Message::Answer { number, answer } = message else { return };
        // Others answer what was asked twice.
        if number != self.number || self.asked.is_none() {
            return;
        }
        match answer {
            Answer::Open(database) => {
                if self.open.is_none() {
                    self.open = Some(database);
                    // Whoever has had it open once does not mean to have an empty one instead.
                    self.create = false;
                    self.ask(now, out);
                }
            }
            Answer::Closed => {
                if self.open.take().is_some() {
                    if let Some(asked) = &mut self.asked {
                        // This server has not done what it was asked.
                        asked.sent = asked.sent.saturating_sub(1);
                    }
                    self.ask(now, out);
                }
            }
            answer => {
                self.asked = None;
                out.cancel_timer(());
                out.event(Reply::Answer(answer));
            }
        }
    }

    fn expire(&mut self, now: Time, _timer: (), out: &mut Outbox<Self>) {
        let Some(asked) = &mut self.asked else { return };
        if asked.attempts == ATTEMPTS {
            self.asked = None;
            out.event(Reply::Silence);
        } else {
            asked.attempts += 1;
            self.ask(now, out);
        }
    }
}
